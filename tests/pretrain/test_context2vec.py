"""context2vec trained as a whole: it learns, its folder is a model at once, and it resumes with the
same bits.
"""

from pathlib import Path

import numpy as np
import pytest

from elmore.checkpoint.sources import load_static
from elmore.config import override
from elmore.embedder import Embedder
from elmore.errors import ConfigError
from elmore.pretrain.config import AnyConfig
from elmore.pretrain.recipes import find_recipe
from elmore.pretrain.run import pretrain
from tests.pretrain.tiny_runs import corpus, logged, weights


def config(*settings: str) -> AnyConfig:
    sizes = ["model.word_dim=8", "model.hidden=10", "model.dim=12", "batches.pieces=200"]
    loop = ["loop.log_steps=1", "loop.optimizer.lr=0.02", "epochs=null", "loop.steps=6"]
    return override(find_recipe("context2vec"), [*sizes, *loop, *settings])


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("text"), n_files=1, n_sentences=60)[0]


def test_it_learns_and_the_folder_is_a_model(text: Path, tmp_path: Path):
    pretrain(
        [text], tmp_path / "run", config("loop.steps=160", "loop.optimizer.lr=0.05"), valid=text
    )
    lines = logged(tmp_path / "run")
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[0] == pytest.approx(11 * np.log(2), rel=0.1)  # words start at zero
    assert losses[-1] < 0.6 * losses[0]
    assert lines[-1]["valid_told_apart"] > 0.4  # 1/11 by chance
    assert lines[-1]["valid_loss"] < 0.6 * losses[0]
    embedder = Embedder.load(tmp_path / "run", device="cpu")
    one, other = (e.layers for e in embedder.embed([["w1", "w3"], ["w2", "w3"]]))
    assert one.shape == (2, 2, 12)
    np.testing.assert_array_equal(one[0, 1], other[0, 1])  # the word
    assert np.abs(one[1, 1] - other[1, 1]).max() > 1e-3  # its context
    table = load_static(str(tmp_path / "run"))
    np.testing.assert_array_equal(table.vectors[table.row("w3")], one[0, 1])


def test_a_stopped_run_resumes_with_the_same_bits(text: Path, tmp_path: Path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    pretrain([text], whole, config(), valid=text)
    for steps in (2, 3, 6):
        pretrain([text], parts, config(f"loop.steps={steps}"), valid=text, resume=True)
    assert weights(whole) == weights(parts)
    trained = [[line for line in logged(run) if "loss" in line] for run in (whole, parts)]
    assert trained[0] == trained[1]


def test_it_starts_from_text_alone(text: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match="leave out --from"):
        pretrain([text], tmp_path / "run", config(), source="small-en")
