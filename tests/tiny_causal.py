"""A tiny causal model for tests: byte pairs of a few lines, random weights."""

from typing import Any

import torch

from elmore.checkpoint.causal import causal_checkpoint
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.models.causal import Causal, CausalConfig, CausalLM
from elmore.nn.lstm import LSTMConfig
from elmore.nn.transformer import TransformerConfig
from elmore.text.subwords import BytePairs, Subwords

LINES = (
    "the river bank lent money",
    "we sat on a grassy bank .",
    "one river, one bank; naïve 東京",
)
LSTM = LSTMConfig(dim=8, cell_dim=12, n_layers=2, dropout=0.1)
PLAIN = LSTMConfig(dim=8, cell_dim=8, n_layers=1, cell_clip=None, proj_clip=None)
TRANSFORMER = TransformerConfig(dim=8, ff_dim=16, n_layers=2, n_heads=2, max_positions=128)


def tiny_pieces(size: int = 280) -> BytePairs:
    counts: dict[str, int] = {}
    for line in LINES:
        for word in line.split():
            counts[word] = counts.get(word, 0) + 1
    return BytePairs.trained(counts, size)


def tiny_lm(
    context: Any = PLAIN,
    *,
    tied: bool = True,
    backward: bool = False,
    seed: int = 0,
    subwords: Subwords | None = None,
) -> tuple[CausalLM, Subwords]:
    torch.manual_seed(seed)
    subwords = tiny_pieces() if subwords is None else subwords
    config = CausalConfig(n_pieces=len(subwords), context=context, tied=tied, backward=backward)
    model = CausalLM(Causal(config))
    for parameter in model.parameters():  # biases too, so that each of them counts
        torch.nn.init.normal_(parameter, std=0.3)
    return model.requires_grad_(False).eval(), subwords


def tiny_causal(
    context: Any = LSTM, *, tied: bool = True, backward: bool = False, seed: int = 0
) -> Checkpoint:
    model, subwords = tiny_lm(context, tied=tied, backward=backward, seed=seed)
    return causal_checkpoint(model.causal, subwords, model.softmax)
