"""A causal model pretrained as a whole: it learns, its folder is a model at once, it resumes with
the same bits; its perplexity is what its own probabilities say.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from elmore.checkpoint.causal import causal_lm, subwords_of
from elmore.checkpoint.sources import load
from elmore.cli.main import main
from elmore.config import override
from elmore.embedder import Embedder
from elmore.errors import ConfigError
from elmore.pretrain.config import CausalRunConfig, LinesConfig
from elmore.pretrain.evaluate_causal import evaluate_causal, summarize_causal
from elmore.pretrain.line_batches import LineBatches
from elmore.pretrain.objectives.causal import CORPUS, SUBWORDS
from elmore.pretrain.piece_corpus import PieceCorpus
from elmore.pretrain.recipes import find_recipe
from elmore.pretrain.run import pretrain
from elmore.text.subwords import read_subwords
from elmore.train.run_folder import checkpoints
from tests.pretrain.tiny_runs import logged

pytest.importorskip("tokenizers")
SMALL = {
    "causal-laptop": ["model.context.dim=16", "model.context.cell_dim=16"],
    "causal-transformer": [
        "model.context.dim=16", "model.context.ff_dim=32", "model.context.n_layers=2",
        "model.context.dropout=0.1", "model.context.max_positions=16",
    ],
    "gpt-laptop": [
        "model.context.dim=16", "model.context.ff_dim=32", "model.context.n_layers=2",
        "model.context.dropout=0.1", "model.context.max_positions=16",
    ],
    "ulmfit-tune": [
        "model.context.dim=8", "model.context.hidden_dim=12", "epochs=null", "batches.longest=12",
    ],
    "sa-lstm-laptop": ["model.context.dim=16", "model.context.cell_dim=16"],
}  # fmt: skip


def config(*settings: str, recipe: str = "causal-laptop") -> CausalRunConfig:
    loop = ["loop.minutes=null", "loop.steps=6", "loop.log_steps=1", "loop.checkpoint_minutes=60"]
    rest = ["batches.pieces=60", "batches.longest=12", "vocabulary.size=290"]
    found = override(find_recipe(recipe), [*SMALL[recipe], *loop, *rest, *settings])
    assert isinstance(found, CausalRunConfig)
    return found


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("text") / "corpus.txt"
    lines = [f"Number {i} is not {7 * i % 31}, it is {i}!" for i in range(40)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def run(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run") / "lm"
    steps = config("loop.steps=60", "loop.optimizer.lr=0.05")
    pretrain([text], folder, steps, valid=text)
    return folder


def test_it_learns_and_the_folder_is_a_model(run: Path):
    losses = [line["loss"] for line in logged(run) if "loss" in line]
    assert losses[-1] < 0.6 * losses[0]
    (embedding,) = Embedder.load(run, device="cpu").embed([["Number", "7"]])
    assert embedding.layers.shape == (2, 2, 16)


@pytest.mark.parametrize("recipe", SMALL)
def test_a_stopped_run_resumes_with_the_same_bits(text: Path, tmp_path: Path, recipe: str):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    schedule = "loop.schedule.kind=constant"  # one that does not depend on the end of the run
    pretrain([text], whole, config(schedule, recipe=recipe))
    for steps in (2, 3, 6):
        some = config(schedule, f"loop.steps={steps}", recipe=recipe)
        pretrain([text], parts, some, resume=True)
    one, other = (load(checkpoints(folder)[-1], heads=True) for folder in (whole, parts))
    assert one.fingerprint() == other.fingerprint()
    for name, tensor in one.heads["softmax"].state_dict().items():
        assert torch.equal(tensor, other.heads["softmax"].state_dict()[name])


def test_perplexity_is_that_of_the_models_probabilities(run: Path, text: Path):
    """Line by line, with torch's own softmax."""
    checkpoint = load(run, heads=True)
    model, subwords = causal_lm(checkpoint, "run").requires_grad_(False), subwords_of(checkpoint)
    total, pieces, words = 0.0, 0, 0
    for line in text.read_text().splitlines():
        ids = [subwords.begin, *(i for w in subwords.pieces(line.split()) for i in w), subwords.end]
        top = model.causal.run(torch.tensor([ids[:-1]]))[0][-1][0]
        logits = top @ model.softmax.weight.T + model.softmax.bias.squeeze(1)
        found = torch.log_softmax(logits.double(), -1)
        total += float(found[range(len(ids) - 1), ids[1:]].sum())
        pieces, words = pieces + len(ids) - 1, words + len(line.split()) + 1
    result = summarize_causal(
        evaluate_causal(checkpoint, [w.split() for w in text.read_text().splitlines()], "run")
    )
    assert (result.pieces, result.words + result.lines) == (pieces, words)
    assert result.per_piece == pytest.approx(math.exp(-total / pieces), rel=1e-5)
    assert result.per_word == pytest.approx(math.exp(-total / words), rel=1e-5)


def test_every_line_is_read_once_an_epoch(run: Path):
    corpus, subwords = PieceCorpus(run / CORPUS), read_subwords(run / SUBWORDS)
    batches = LineBatches(corpus, LinesConfig(pieces=40, longest=6), subwords, seed=3)
    found, sizes = [], []
    while batches.epoch == 0:
        ids, lengths = next(batches)
        assert (ids[:, 0] == subwords.begin).all()
        assert (ids[np.arange(len(ids)), lengths - 1] == subwords.end).all()
        assert lengths.max() <= 8
        sizes.append(ids.size - len(ids))
        found += [i for row, n in zip(ids, lengths, strict=True) for i in row[1 : n - 1].tolist()]
    everything = [i for d in range(len(corpus)) for s in corpus.document(d) for i in s.tolist()]
    assert sorted(found) == sorted(everything)
    assert max(sizes) <= 40


def test_a_backward_model_is_trained_on_lines_from_their_end(run: Path):
    corpus, subwords = PieceCorpus(run / CORPUS), read_subwords(run / SUBWORDS)
    lines = LinesConfig(pieces=40, longest=6)
    ways = [LineBatches(corpus, lines, subwords, backward=way, seed=3) for way in (False, True)]
    (ids, lengths), (back, same) = (next(batches) for batches in ways)
    assert (lengths == same).all()
    for row, other, n in zip(ids, back, lengths, strict=True):
        assert other[:n].tolist() == [row[0], *row[1 : n - 1][::-1], row[n - 1]]


def test_the_commands(run: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["evaluate", str(run), str(text)]) == 0
    assert "perplexity per word" in capsys.readouterr().out
    assert main(["doctor", str(run)]) == 0
    assert "one direction only" in capsys.readouterr().out
    vectors = tmp_path / "vectors.npz"
    assert main(["embed", str(text), str(vectors), "--model", str(run), "--as-is", "--quiet"]) == 0
    with np.load(vectors) as archive:
        assert archive["0"].shape[::2] == (2, 16)


def test_words_instead_of_pieces(text: Path, tmp_path: Path):
    pretrain([text], tmp_path / "run", config('vocabulary.kind="words"', "vocabulary.min_count=2"))
    subwords = subwords_of(load(tmp_path / "run"))
    assert subwords.unknown("unheard")
    assert subwords.text([i for w in subwords.pieces(["Number", "is"]) for i in w]) == "Number is"


def test_another_model_and_another_vocabulary(run: Path, text: Path, tmp_path: Path):
    """From a model it goes on; its vocabulary can serve a new model too."""
    pretrain([text], tmp_path / "on", config("loop.steps=1"), source=run)
    pretrain([text], tmp_path / "same", config("loop.steps=1"), vocabulary=run)
    files = [read_subwords(folder / SUBWORDS).files() for folder in (run, tmp_path / "same")]
    assert files[0] == files[1]
    with pytest.raises(ConfigError, match="leave --vocabulary"):
        pretrain([text], tmp_path / "both", config(), source=run, vocabulary=run)
    long = config("batches.longest=16", recipe="causal-transformer")
    with pytest.raises(ConfigError, match="positions"):
        pretrain([text], tmp_path / "long", long)


def test_a_gpt_of_our_own_is_written_as_a_folder_of_hugging_face(text: Path, tmp_path: Path):
    pretrain([text], tmp_path / "run", config("loop.steps=2", recipe="gpt-laptop"))
    assert main(["convert", str(tmp_path / "run"), str(tmp_path / "gpt2")]) == 0
    said = json.loads((tmp_path / "gpt2" / "config.json").read_text())
    assert said["model_type"] == "gpt2"
    one, other = (load(tmp_path / name, heads=True) for name in ("run", "gpt2"))
    assert one.fingerprint() == other.fingerprint()
    assert subwords_of(other).pieces(["Number", "7"]) == subwords_of(one).pieces(["Number", "7"])
