"""A sequence autoencoder learns to write a line again, and its folder is a causal model."""

import math
from pathlib import Path

import pytest
import torch

from elmore.checkpoint.causal import causal_lm
from elmore.checkpoint.sources import load
from elmore.config import override
from elmore.errors import ConfigError
from elmore.models.autoencoder import Autoencoder
from elmore.models.causal import Causal, CausalConfig, CausalLM
from elmore.pretrain.config import AutoencoderConfig
from elmore.pretrain.objectives.causal import CausalObjective
from elmore.pretrain.recipes import find_recipe
from elmore.pretrain.run import pretrain
from tests.pretrain.tiny_runs import logged
from tests.tiny_causal import LSTM, TRANSFORMER, tiny_lm

pytest.importorskip("tokenizers")
NO_DROPOUT = ("model.context.dropout=0", "output_dropout=0")


def config(*settings: str) -> AutoencoderConfig:
    sizes = ["model.context.dim=32", "model.context.cell_dim=32", "vocabulary.size=290"]
    loop = ["loop.minutes=null", "loop.log_steps=1", "loop.optimizer.lr=0.03", "batches.pieces=200"]
    found = override(find_recipe("sa-lstm-laptop"), [*sizes, *loop, *settings])
    assert isinstance(found, AutoencoderConfig)
    return found


def test_it_learns_what_no_language_model_could_and_is_one(tmp_path: Path):
    """Lines of two random letters of four: the second cannot be known from the first."""
    generator = torch.Generator().manual_seed(0)
    letters = torch.randint(4, (200, 2), generator=generator).tolist()
    text = tmp_path / "text.txt"
    text.write_text("".join(f"{chr(97 + a)} {chr(97 + b)}\n" for a, b in letters))
    pretrain([text], tmp_path / "run", config("loop.steps=100", *NO_DROPOUT))
    losses = [line["loss"] for line in logged(tmp_path / "run") if "loss" in line]
    alone = 2 / 3 * math.log(4)  # of three predictions, the last is certain
    assert losses[-1] < 0.75 * alone
    assert load(tmp_path / "run").model.config.kind == "causal"
    assert causal_lm(load(tmp_path / "run", heads=True), "run").causal.config.has_state


def test_the_decoder_starts_from_the_encoders_last_state():
    lm, _ = tiny_lm(LSTM)
    auto = Autoencoder(lm.causal, lm.softmax).eval()
    ids, lengths = torch.tensor([[0, 5, 6, 7, 1], [0, 8, 1, 0, 0]]), torch.tensor([5, 3])
    found = auto.top(ids, lengths)
    for row, n in enumerate((4, 2)):
        seen = ids[row : row + 1, :n]
        _, read = lm.causal.run(seen)
        (*_, written), _ = lm.causal.run(seen, state=read)
        torch.testing.assert_close(found[row : row + 1, :n], written, rtol=0, atol=1e-6)


def test_a_transformer_is_refused(tmp_path: Path):
    text = tmp_path / "text.txt"
    text.write_text("a b\n")
    model = CausalConfig(context=TRANSFORMER)
    wrong = config("batches.longest=20", "loop.steps=1").model_copy(update={"model": model})
    with pytest.raises(ConfigError, match="a Transformer has not"):
        pretrain([text], tmp_path / "run", wrong)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(("tied", "version", "table"), [(1, 3, 1), (0, 3, 6.76), (1, 2, 6.76)])
def test_each_floor_of_a_language_model_has_its_rate(tied: int, version: int, table: float):
    """The softmax and the top layer at the whole rate, a table that only reads at the last; runs of
    version 2 slow a tied table down, too."""
    lm = tiny_lm(LSTM)[0]
    if not tied:
        lm = CausalLM(Causal(lm.causal.config.model_copy(update={"tied": False})))
    objective = CausalObjective(
        lm,
        None,  # type: ignore[arg-type]
        [],
        floor_rate=1 / 2.6,
        version=version,
    )
    rates = {id(p): group.rate for group in objective.groups() for p in group.parameters}
    found = {name: round(1 / rates[id(p)], 6) for name, p in lm.named_parameters()}
    assert {found[name] for name in found if "layers.1" in name} == {1}
    assert {found[name] for name in found if "layers.0" in name} == {2.6}
    assert found["causal.pieces.weight"] == table
    assert found["softmax.bias"] == 1
    assert len(found) == len(rates) == len(list(lm.parameters()))
