"""Heads that look at their neighbors before the first step: that they do, and that it pays."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from elmore.config import override
from elmore.errors import ConfigError
from elmore.models.bert import Bert, BertConfig
from elmore.nn.gpt import GPT, GPTConfig
from elmore.pretrain.neighbor_start import before, both_sides, look_at_neighbors
from elmore.pretrain.recipes import find_recipe
from elmore.pretrain.run import pretrain
from tests.pretrain.test_masked import logged


def weights(x: Tensor, qkv: torch.nn.Linear, n_heads: int) -> Tensor:
    """Where each head looks: x (T, D) -> (H, T, T)."""
    q, k, _ = qkv(x).unflatten(-1, (3, n_heads, -1)).permute(1, 2, 0, 3)
    return torch.softmax(q @ k.mT / q.shape[-1] ** 0.5, dim=-1)


def share(found: Tensor, shift: int) -> Tensor:
    """What positions whose neighbor exists give it."""
    places = torch.arange(max(0, -shift), len(found) - max(0, shift))
    return found[places, places + shift]


@torch.no_grad()
def test_every_head_of_a_bert_looks_at_its_neighbor():
    torch.manual_seed(0)
    bert = Bert(BertConfig(n_pieces=500, dim=256, n_heads=4, n_layers=2, ff_dim=64)).eval()
    attention = bert.blocks[0].attention
    sides = both_sides(4)
    assert sides == [-1, 1, -2, 2]
    look_at_neighbors(bert.embed.positions, bert.embed.pieces, attention.qkv, sides)
    for first in (0, 300):  # far into the text too
        ids, segments = torch.randint(500, (128,)), torch.zeros(128, dtype=torch.long)
        x = bert.embed(ids, segments, torch.arange(first, first + 128))
        for head, shift in zip(weights(x, attention.qkv, 4), sides, strict=True):
            assert share(head, shift).mean() > 0.2  # at random: 1 / 128
            assert (head.argmax(-1) == torch.arange(128) + shift).float().mean() > 0.9
    assert weights(x, bert.blocks[1].attention.qkv, 4).max() < 0.1  # the others look everywhere


@torch.no_grad()
def test_every_head_of_a_gpt_looks_at_one_before():
    torch.manual_seed(0)
    gpt = GPT(GPTConfig(dim=128, n_heads=4, n_layers=1, ff_dim=64, max_positions=64)).eval()
    pieces = torch.nn.Embedding(100, 128)
    torch.nn.init.normal_(pieces.weight, std=0.02)
    attention = gpt.blocks[0].attention
    assert before(4) == [-1, -2, -3, -4]
    look_at_neighbors(gpt.positions, pieces, attention.qkv, before(4))
    x = pieces(torch.randint(100, (64,))) + gpt.positions.weight
    heads = weights(gpt.blocks[0].norm_1(x), attention.qkv, 4)
    for head, shift in zip(heads, before(4), strict=True):
        assert share(head, shift).mean() > 0.3


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A word depends on the one two places before, and on nothing else."""
    rng = np.random.default_rng(0)
    names = [f"{a}{b}" for a in "bcdfgh" for b in "aeiou"]
    lines = []
    for _ in range(300):
        chain = rng.integers(30, size=2).tolist()
        while len(chain) < 40:
            chain.append((7 * chain[-2] + 1 + int(rng.integers(2))) % 30)
        lines.append(" ".join(names[word] for word in chain))
    path = tmp_path_factory.mktemp("text") / "chain.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


SETTINGS = ("loop.steps=80", "loop.minutes=null", "loop.log_steps=10", "loop.optimizer.lr=3e-3")
SIZES = {
    "bert-laptop": (
        *("model.dim=128", "model.n_layers=2", "model.ff_dim=128", "rows=16"),
        *("table_start=random", "instances.length=64", "reading.lines=sentence"),
    ),
    "gpt-laptop": (
        *("model.context.dim=128", "model.context.n_layers=2", "model.context.ff_dim=128"),
        "batches.pieces=800",
    ),
}


@pytest.mark.parametrize("recipe", list(SIZES))
def test_order_is_learned_sooner(recipe: str, text: Path, tmp_path: Path):
    losses = {}
    for start in ("random", "neighbors"):
        changes = (*SETTINGS, *SIZES[recipe], f"attention_start={start}", "vocabulary.size=300")
        pretrain([text], tmp_path / start, override(find_recipe(recipe), changes))
        last = [line for line in logged(tmp_path / start) if "loss" in line][-1]
        losses[start] = last.get("mlm", last["loss"])
    assert losses["neighbors"] < losses["random"] - 0.3


def test_a_model_without_learned_positions_is_refused(text: Path, tmp_path: Path):
    config = override(find_recipe("causal-laptop"), ("attention_start=neighbors", "loop.steps=1"))
    with pytest.raises(ConfigError, match=r"is for a GPT, but model\.context is lstm"):
        pretrain([text], tmp_path / "run", config)
