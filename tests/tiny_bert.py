"""A BERT small enough for every test: a vocabulary made of letters and a few words, and weights in
which every number counts.
"""

import string
from typing import Any

import torch
from torch import nn

from elmore.checkpoint.bert import bert_checkpoint
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.models.bert import MASKED, NEXT, Bert, BertConfig, MaskedHead, next_head
from elmore.text.wordpiece import WordPiece, WordPieceConfig

MARKS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
WORDS = "the river bank money we sat on a grass ##y one of lent ."
LETTERS = string.ascii_lowercase + string.digits + string.punctuation
VOCABULARY = tuple(
    dict.fromkeys([*MARKS, *WORDS.split(), *LETTERS, *(f"##{c}" for c in string.ascii_lowercase)])
)


def tiny_wordpiece(lowercase: bool = True) -> WordPiece:
    return WordPiece(VOCABULARY, WordPieceConfig(lowercase=lowercase))


def tiny_config(**changed: Any) -> BertConfig:
    sizes = {
        "n_pieces": len(VOCABULARY), "dim": 12, "n_layers": 2, "n_heads": 3, "ff_dim": 20,
        "max_positions": 24,
    }  # fmt: skip
    return BertConfig(**(sizes | changed))


def shaken(module: nn.Module, seed: int = 0, std: float = 0.3) -> nn.Module:
    """With biases and norms too, so that each of them counts; a position less than a piece."""
    torch.manual_seed(seed)
    for name, parameter in module.named_parameters():
        weight = 0.1 if "positions" in name else 1.0
        nn.init.normal_(parameter, std=weight * std, mean=1.0 if "norm" in name else 0.0)
    return module.requires_grad_(False).eval()


def tiny_bert(*, heads: bool = False, seed: int = 0, **changed: Any) -> Checkpoint:
    config = tiny_config(**changed)
    model = shaken(Bert(config), seed)
    assert isinstance(model, Bert)
    found = {MASKED: shaken(MaskedHead(config), seed + 1)} if heads else {}
    if heads and config.pooler:
        found[NEXT] = shaken(next_head(config), seed + 2)
    return bert_checkpoint(model, tiny_wordpiece(), heads=found)
