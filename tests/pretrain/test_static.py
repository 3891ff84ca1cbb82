"""Static vectors trained as a whole: they learn, the folder is a model and a file of vectors at
once, and a run that was killed goes on with the same bits.
"""

from pathlib import Path

import numpy as np
import pytest

from elmore.checkpoint.sources import load, load_static
from elmore.cli.main import main
from elmore.config import override
from elmore.embedder import Embedder
from elmore.errors import ConfigError, FormatError, InputError
from elmore.models.static import StaticVectors
from elmore.pretrain.config import AnyConfig
from elmore.pretrain.objectives import glove, sgns
from elmore.pretrain.objectives.glove import PAIRS, counted_pairs
from elmore.pretrain.piece_corpus import PieceCorpus, write_corpus
from elmore.pretrain.recipes import find_recipe
from elmore.pretrain.run import pretrain
from elmore.pretrain.static_config import GloveConfig, SgnsConfig
from elmore.pretrain.word_corpus import SkipGramMaker, draw_table, keep_shares
from tests.pretrain.tiny_runs import corpus, logged, weights

KINDS = ["sgns", "glove"]


def config(recipe: str, *settings: str) -> AnyConfig:
    small = ["dim=12", "words=200", "vocabulary.min_count=2", "loop.log_steps=1"]
    return override(find_recipe(recipe), [*small, "epochs=3", *settings])


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus(tmp_path_factory.mktemp("text"), n_files=1, n_sentences=120)[0]


@pytest.fixture(scope="module", params=KINDS)
def run(request: pytest.FixtureRequest, text: Path, tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("run") / str(request.param)
    own = {"sgns": ["loop.optimizer.lr=0.1", "sample=0"], "glove": []}[request.param]
    pretrain([text], folder, config(request.param, "epochs=20", *own), valid=text)
    return folder


def test_they_learn_which_words_are_near_each_other(run: Path):
    """The text's words go round in a circle, w0 w1 … w24."""
    lines = logged(run)
    losses = [line["loss"] for line in lines if "loss" in line]
    assert losses[-1] < 0.9 * losses[0]
    assert lines[-1]["valid_told_apart"] > 0.3  # 1/6 by chance
    table = load_static(str(run))
    vectors = table.vectors / np.linalg.norm(table.vectors, axis=1, keepdims=True)
    near, far = (
        np.mean([vectors[table.row(f"w{i}")] @ vectors[table.row(f"w{(i + d) % 25}")]
                 for i in range(25)])
        for d in (1, 12)
    )  # fmt: skip
    assert near > far + 0.3


def test_the_folder_is_a_model_and_a_file_of_vectors(run: Path, tmp_path: Path):
    embedder = Embedder.load(run, device="cpu")
    found = embedder.embed([["w3", "never", "w3"]])[0].layers
    assert found.shape == (1, 3, 12)
    assert not found[0, 1].any()
    table = load_static(str(run))
    np.testing.assert_array_equal(found[0, 0], table.vectors[table.row("w3")])
    for name in ("v.txt", "v.npz"):
        assert main(["convert", str(run), str(tmp_path / name)]) == 0
        again = StaticVectors.load(tmp_path / name)
        assert again.words == table.words
        np.testing.assert_array_equal(again.vectors, table.vectors)
    assert main(["doctor", str(run)]) == 0
    assert main(["convert", "small-en", str(tmp_path / "no.txt")]) == 2


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_that_dies_goes_on_with_the_same_bits(
    kind: str, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    often = "loop.checkpoint_minutes=0.000001"
    pretrain([text], whole, config(kind, often), valid=text)
    objective = {"sgns": sgns.SgnsObjective, "glove": glove.GloveObjective}[kind]
    learn = objective.next_loss
    for dies_at in (4, 7):

        def next_loss(self, rng, dies_at=dies_at):
            if self.place == dies_at:
                raise MemoryError("killed")
            return learn(self, rng)

        monkeypatch.setattr(objective, "next_loss", next_loss)
        with pytest.raises(MemoryError):
            pretrain([text], broken, config(kind, often), valid=text, resume=True)
    monkeypatch.setattr(objective, "next_loss", learn)
    pretrain([text], broken, config(kind, often), valid=text, resume=True)
    assert len(logged(whole)) > 10
    assert logged(broken) == logged(whole)
    assert weights(broken) == weights(whole)


def test_two_runs_are_the_same_to_the_last_bit(text: Path, tmp_path: Path):
    for name in ("one", "other"):
        pretrain([text], tmp_path / name, config("sgns", "epochs=1"))
    assert weights(tmp_path / "one") == weights(tmp_path / "other")
    pretrain([text], tmp_path / "third", config("sgns", "epochs=1", "loop.seed=2"))
    assert weights(tmp_path / "third") != weights(tmp_path / "one")


def test_pairs_are_within_windows_and_sentences():
    maker = SkipGramMaker(SgnsConfig(window=2, sample=0, negatives=3), np.full(10, 4))
    ids = np.arange(8, dtype=np.int32)
    sentences = np.array([0, 0, 0, 0, 0, 1, 1, 1])
    seen = set()
    for seed in range(20):
        predicting, predicted = maker.pairs(ids, sentences, np.random.default_rng(seed))
        assert predicted.shape == (len(predicting), 4)
        seen |= set(zip(predicting.tolist(), predicted[:, 0].tolist(), strict=True))
    expected = {
        (i, j) for i in range(8) for j in range(8)
        if 0 < abs(i - j) <= 2 and (i < 5) == (j < 5)
    }  # fmt: skip
    assert seen == expected


def test_frequent_words_are_thinned_out_and_words_are_drawn_by_a_power_of_their_counts():
    counts = np.array([0, 9000, 900, 90, 10])
    shares = keep_shares(counts, 1e-3)
    assert shares[1] == pytest.approx((np.sqrt(900) + 1) / 900, rel=1e-5)  # f = 0.9
    assert shares[4] == 1.0
    table = draw_table(counts, 0.75)
    drawn = np.bincount(table, minlength=5) / len(table)
    expected = counts**0.75 / (counts**0.75).sum()
    np.testing.assert_allclose(drawn, expected, atol=1e-5)


def test_glove_counts_by_distance(tmp_path: Path):
    """a b a / b c: a–b at distance 1 twice, a–a at 2 from both sides, b–c once."""
    write_corpus([[[3, 4, 3], [4, 5]]], tmp_path / "ids")
    pairs = counted_pairs(PieceCorpus(tmp_path / "ids"), 6, GloveConfig())
    found = {(a, b): x for a, b, x in pairs.tolist()}
    assert found == pytest.approx({(3, 4): 2.0, (3, 3): 1.0, (4, 5): 1.0})


def test_what_cannot_be_trained_is_said(text: Path, tmp_path: Path):
    with pytest.raises(ConfigError, match="leave out --from"):
        pretrain([text], tmp_path / "a", config("sgns"), source="small-en")
    with pytest.raises(ConfigError, match="changed in place"):
        config("sgns", "loop.optimizer.kind=adamw")
    with pytest.raises(InputError, match="Fewer than two words"):
        pretrain([text], tmp_path / "b", config("glove", "vocabulary.min_count=100000"))
    with pytest.raises(FormatError, match="expected static vectors"):
        load_static(str(Path(load.__code__.co_filename).parents[1] / "pretrained" / "small-en"))


def test_a_damaged_list_of_pairs_is_refused(text: Path, tmp_path: Path):
    folder = tmp_path / "run"
    pretrain([text], folder, config("glove", "loop.steps=1", "epochs=null"))
    (folder / PAIRS).write_bytes(b"no pairs")
    with pytest.raises(FormatError, match="start the run anew"):
        pretrain([text], folder, config("glove", "loop.steps=2", "epochs=null"), resume=True)
