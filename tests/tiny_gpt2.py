"""A tiny GPT-2 for tests: byte pairs of a few lines, random weights."""

from typing import Any

import torch

from elmore.checkpoint.causal import causal_checkpoint
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.models.causal import Causal, CausalConfig, CausalLM
from elmore.nn.gpt import GPTConfig
from elmore.text.subwords import MARKS, BytePairs, BytePairsConfig
from tests.tiny_causal import tiny_pieces

END = "<|endoftext|>"


def gpt2_pieces() -> BytePairs:
    found = tiny_pieces()
    names = [END, *(piece for piece in found.vocabulary if piece not in MARKS)]
    return BytePairs(names, found.merges, BytePairsConfig(bos_token=END, eos_token=END))


def tiny_gpt2(
    *, heads: bool = True, tied: bool = True, word: Any = "last", seed: int = 0, **sizes: Any
) -> Checkpoint:
    torch.manual_seed(seed)
    pieces = gpt2_pieces()
    given = {"dim": 8, "ff_dim": 32, "n_layers": 2, "n_heads": 2, "max_positions": 32, **sizes}
    config = CausalConfig(
        n_pieces=len(pieces), context=GPTConfig(**given), tied=tied, softmax_bias=False,
        mark=False, word=word,
    )  # fmt: skip
    model = CausalLM(Causal(config))
    for parameter in model.parameters():  # biases too, so that each of them counts
        torch.nn.init.normal_(parameter, std=0.3)
    # Small: a word of more pieces moves those after it, but less than the word itself.
    torch.nn.init.normal_(model.causal.get_parameter("context.positions.weight"), std=0.03)
    model.requires_grad_(False).eval()
    return causal_checkpoint(model.causal, pieces, model.softmax if heads else None)
