"""Learning a lens: it tells topics apart, ends with the same bits however often it is stopped, and
is saved with any kind of model.
"""

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from elmore.checkpoint.lens import FILE
from elmore.checkpoint.sources import load, save
from elmore.embedder import Embedder
from elmore.errors import ConfigError, InputError
from elmore.lens.run import learn_lens
from elmore.train.loop import Progress
from tests.lens.texts import tiny_config, write_corpus
from tests.tiny_bert import tiny_bert
from tests.tiny_causal import tiny_causal
from tests.tiny_models import Tiny


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "text.txt")


@pytest.fixture
def model(tiny_model: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(tiny_model, tmp_path / "model"))


def learned(model: Path, corpus: Path) -> bytes:
    learn_lens(model, [corpus], config=tiny_config())
    return (model / FILE).read_bytes()


def test_the_layers_stay_and_the_lens_is_the_map_that_is_saved(model: Path, corpus: Path):
    before = Embedder.load(model, device="cpu")
    report = learn_lens(model, [corpus], config=tiny_config())
    after = Embedder.load(model, device="cpu")
    words = ["we", "sat", "of", "bank"]
    (old,), (new,) = before.embed([words]), after.embed([words])
    np.testing.assert_array_equal(old.layers, new.layers)
    assert before.fingerprint == after.fingerprint
    assert report.lens is not None
    assert after.lens is not None
    assert report.lens.digest == after.lens.digest
    top = new.layers[-1].astype(np.float64)
    expected = top @ after.lens.weight.T.astype(np.float64) + after.lens.bias
    np.testing.assert_allclose(new.meaning, expected, rtol=1e-4, atol=1e-5)
    assert "learned from 3,000 words of text.txt" in after.lens.about
    assert not list(model.glob("**/*.partial"))


def test_the_loss_falls(model: Path, corpus: Path):
    losses: list[float] = []
    learn_lens(
        model,
        [corpus],
        config=tiny_config(),
        report=lambda _, figures: losses.append(figures["loss"]),
    )
    assert losses[0] == pytest.approx(6 * np.log(2), rel=1e-3)  # outputs of zero, k = 5
    assert np.mean(losses[-4:]) < 0.9 * losses[0]


def test_a_run_that_is_interrupted_ends_with_the_same_bits(
    model: Path, tiny_model: Path, corpus: Path, tmp_path: Path
):
    def stop(progress: Progress, _: dict[str, float]) -> None:
        if progress.step in (5, 11):
            os.kill(os.getpid(), signal.SIGINT)

    for _ in range(2):
        report = learn_lens(model, [corpus], config=tiny_config(), report=stop)
        assert report.lens is None
        assert report.progress.interrupted == signal.SIGINT
        assert not (model / FILE).exists()
    assert report.progress.step == 12  # a signal ends the run after the next step
    undisturbed = Path(shutil.copytree(tiny_model, tmp_path / "undisturbed"))
    assert learned(model, corpus) == learned(undisturbed, corpus)


_KILLED = """
import os, signal, sys
from elmore.lens.run import learn_lens
from tests.lens.texts import tiny_config
def kill(progress, figures):
    if progress.step == 7:
        os.kill(os.getpid(), signal.SIGKILL)
learn_lens(sys.argv[1], [sys.argv[2]], config=tiny_config(), report=kill)
"""


def test_a_run_that_is_killed_ends_with_the_same_bits(
    model: Path, tiny_model: Path, corpus: Path, tmp_path: Path
):
    root = str(Path(__file__).parents[2])
    paths = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    ended = subprocess.run(
        [sys.executable, "-c", _KILLED, str(model), str(corpus)],
        env={**os.environ, "PYTHONPATH": paths},
        check=False,
    )
    assert ended.returncode == -signal.SIGKILL
    assert not (model / FILE).exists()
    Embedder.load(model, device="cpu")  # still a model
    undisturbed = Path(shutil.copytree(tiny_model, tmp_path / "undisturbed"))
    assert learned(model, corpus) == learned(undisturbed, corpus)


def test_a_published_model_gets_one_in_a_new_folder(tiny: Tiny, corpus: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match="--output"):
        learn_lens(tiny.weights, [corpus], config=tiny_config())
    learn_lens(tiny.weights, [corpus], tmp_path / "with", tiny_config(layers="all"))
    found = load(tmp_path / "with")
    assert found.lens is not None
    assert found.lens.layers == (0, 1, 2)
    assert found.fingerprint() == load(tiny.weights).fingerprint()
    assert not (tmp_path / "with.partial").exists()


def test_a_bert_gets_one_beside_its_weights(corpus: Path, tmp_path: Path):
    save(tiny_bert(heads=True), tmp_path / "bert")
    learn_lens(tmp_path / "bert", [corpus], config=tiny_config(layers="1,2"))
    embedder = Embedder.load(tmp_path / "bert", device="cpu", heads=True)
    assert embedder.lens is not None
    assert embedder.lens.layers == (1, 2)
    (found,) = embedder.embed([["the", "bank"]])
    assert found.meaning.shape == found.top.shape
    save(embedder.checkpoint, tmp_path / "copy")
    copy = load(tmp_path / "copy")
    assert copy.lens is not None
    assert copy.lens.digest == embedder.lens.digest


def test_a_causal_model_gets_one(corpus: Path, tmp_path: Path):
    save(tiny_causal(), tmp_path / "causal")
    learn_lens(tmp_path / "causal", [corpus], tmp_path / "with", tiny_config())
    embedder = Embedder.load(tmp_path / "with", device="cpu")
    assert embedder.lens is not None
    (found,) = embedder.embed([["the", "bank"]])
    assert found.meaning.shape == found.top.shape
    learn_lens(tmp_path / "causal", [corpus], config=tiny_config())
    copy = load(tmp_path / "causal").lens
    assert copy is not None
    assert copy.digest == embedder.lens.digest


def test_a_place_that_cannot_be_is_told_before_anything_is_learned(
    model: Path, corpus: Path, tmp_path: Path
):
    (tmp_path / "there").mkdir()
    with pytest.raises(InputError, match="there exists already"):
        learn_lens(model, [corpus], tmp_path / "there", tiny_config())
    with pytest.raises(ConfigError, match="HDF5 has no place for a lens"):
        learn_lens(model, [corpus], tmp_path / "model.h5", tiny_config())
    assert not list(tmp_path.glob("*.partial"))


def test_a_published_name_without_a_place_is_not_downloaded(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("ELMORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ELMORE_MIRROR", "http://localhost:9")  # nobody answers
    with pytest.raises(ConfigError, match=r"elmo-small: only a folder .* --output"):
        learn_lens("elmo-small", [corpus], config=tiny_config())


def test_what_stands_in_the_way_is_one_line(model: Path, corpus: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match="layers is 'average'; expected top, all, or numbers"):
        learn_lens(model, [corpus], config=tiny_config(layers="average"))
    with pytest.raises(InputError, match="0 words that occur 4000 times or more"):
        learn_lens(model, [corpus], tmp_path / "rare", tiny_config(min_count=4_000))
    learn_lens(model, [corpus], config=tiny_config())
    with pytest.raises(InputError, match="exists already; remove it"):
        learn_lens(model, [corpus], config=tiny_config())
    with pytest.raises(ConfigError, match="small-en is part of elmore"):
        learn_lens("small-en", [corpus], config=tiny_config())


def test_a_stopped_run_is_continued_with_the_same_settings_only(model: Path, corpus: Path):
    def stop(progress: Progress, _: dict[str, float]) -> None:
        if progress.step == 3:
            os.kill(os.getpid(), signal.SIGTERM)

    learn_lens(model, [corpus], config=tiny_config(), report=stop)
    with pytest.raises(InputError, match="a stopped run with another config"):
        learn_lens(model, [corpus], config=tiny_config(window=3))
