"""`pretrain` as a whole: it learns, its folder is a model at once, models are trained further, and
what does not fit is told before anything is lost. Exact resume has a file of its own.
"""

import errno
import math
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from elmore.checkpoint.native import write_native
from elmore.checkpoint.sources import load, save
from elmore.config import override
from elmore.embedder import Embedder
from elmore.errors import ConfigError, FormatError, InputError
from elmore.nn.softmax import AdaptiveSoftmax
from elmore.pretrain.config import PretrainConfig
from elmore.pretrain.evaluate import evaluate, summarize
from elmore.pretrain.objectives import bilm
from elmore.pretrain.recipes import elmo_small
from elmore.pretrain.run import ending, pretrain, read_run
from elmore.pretrain.sentences import ReadingConfig, read_sentences
from elmore.text.vocabulary import Vocabulary
from elmore.train.loop import Progress
from elmore.train.run_folder import checkpoints
from tests.checkpoint.foreign_models import make_manylangs, make_transformer
from tests.pretrain import tiny_runs
from tests.pretrain.tiny_runs import corpus, logged, weights
from tests.shared import SHARED, needs
from tests.tiny_models import WORDS, make

FIXTURE = SHARED / "fixtures" / "bilm-tf-train"
SENTENCES = [["w1", "w2", "w3"], ["w7", "unseen"]]


def config(*settings: str, kind: str = "rows") -> PretrainConfig:
    """A tiny run of two steps that saves at its end, changed as told."""
    quiet = ["loop.checkpoint_minutes=60", "loop.steps=2"]
    return override(tiny_runs.KINDS[kind](), [*quiet, *settings])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return corpus(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def run(files: list[Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run of 30 steps, validated."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    pretrain(files, folder, config("loop.steps=30"), valid=files[0])
    return folder


def score(source: Path, text: Path) -> Any:
    sentences = read_sentences(text, ReadingConfig())
    return summarize(evaluate(load(source, heads=True), sentences, str(source)))


# Learning -----------------------------------------------------------------------------------------


@needs("fixtures", "bilm-tf-train")
def test_the_bilm_tf_fixture_is_learnt_by_heart_in_its_50_epochs(tmp_path: Path):
    """dim 16, projection 8, batch 2, unroll 10, 16 negatives: test perplexity under 20."""
    words = '{"kind": "characters", "dim": 8, "char_dim": 4, "n_highway": 1'
    filters = '"filters": [[1, 4], [2, 8], [3, 16]]}'
    context = '{"kind": "lstm", "dim": 8, "cell_dim": 16}'
    settings = [
        f'model={{"words": {words}, {filters}, "context": {context}}}',
        "softmax.n_samples=16",
        "batches.rows=2",
        "batches.steps=10",
        "epochs=50",
        "output_dropout=0",
        "loop.loss_scale=10",
    ]
    text = FIXTURE / "data.txt"
    small = override(elmo_small(), settings)
    pretrain([text], tmp_path / "run", small, vocabulary=FIXTURE / "vocab.txt", valid=text)
    found = score(tmp_path / "run", text)
    assert found.forward < 20
    assert found.backward < 20
    assert logged(tmp_path / "run")[-1]["valid_average"] < 20


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
@pytest.mark.parametrize("kind", ["rows", "sentences", "transformer"])
def test_every_kind_learns(kind: str, precision: str, files: list[Path], tmp_path: Path):
    """100 steps at a lively rate: from guessing among 28 words (3.33) to knowing a good deal."""
    lively = [
        "softmax.kind=full",
        'loop.optimizer={"kind": "adamw", "lr": 0.02}',
        "loop.schedule.kind=constant",
        "loop.steps=100",
        "loop.log_steps=10",
        "loop.accumulate=1",
        "loop.loss_scale=1",
        "loop.clip=1",
        "model.context.dropout=0",
        "output_dropout=0",
        f"precision={precision}",
    ]
    pretrain(files, tmp_path / "run", config(*lively, kind=kind))
    losses = [line["loss"] for line in logged(tmp_path / "run") if "loss" in line]
    assert losses[0] > 3.2
    assert losses[-1] < 3.0


def test_reports_and_progress_tell_what_the_log_tells(files: list[Path], tmp_path: Path):
    seen: list[tuple[int, float]] = []

    def report(progress: Progress, figures: dict[str, float]) -> None:
        seen.append((progress.step, figures["loss"]))

    progress = pretrain(files, tmp_path / "run", config(), report=report)
    assert seen == [(line["step"], line["loss"]) for line in logged(tmp_path / "run")]
    assert (progress.step, progress.fraction, progress.best) == (2, 1.0, None)
    # perplexities of both directions: their mean is the loss
    line = logged(tmp_path / "run")[0]
    assert (line["forward"] + line["backward"]) / 2 == pytest.approx(line["loss"], rel=1e-5)


def test_epochs_become_steps_by_what_the_corpus_holds(files: list[Path], tmp_path: Path):
    text = " ".join(path.read_text() for path in files)
    n_words, n_sentences = len(text.split()), 120
    pretrain(files, tmp_path / "run", config())
    run = read_run(tmp_path / "run")
    assert (run.words, run.sentences) == (n_words, n_sentences)
    rows = run.model_copy(update={"config": config("epochs=3", "loop.steps=null")})
    assert ending(rows, 1).steps == math.ceil(3 * (n_words + n_sentences) / (3 * 6))
    assert ending(rows, 2).steps == math.ceil(3 * (n_words + n_sentences) / (3 * 6) / 2)
    sentences = config("epochs=1", "loop.steps=null", "loop.minutes=9", kind="sentences")
    end = ending(run.model_copy(update={"config": sentences}), 1)
    assert end.steps == math.ceil((n_words + 2 * n_sentences) / 40 / 2)  # accumulates two
    assert end.minutes == 9
    both = run.model_copy(update={"config": config("epochs=99", "loop.steps=5")})
    assert ending(both, 1).steps == 5


# The folder as a model ----------------------------------------------------------------------------


def test_the_run_folder_is_an_embedder_source(run: Path):
    embedder = Embedder.load(run)
    first, _ = embedder.embed(SENTENCES)
    assert first.layers.shape == (3, 3, 16)
    newest = Embedder.load(checkpoints(run)[-1])
    assert embedder.fingerprint == newest.fingerprint


def test_the_run_folder_means_its_best_checkpoint(run: Path, tmp_path: Path):
    copy = shutil.copytree(run, tmp_path / "run")
    other = shutil.copytree(checkpoints(copy)[-1], copy / "checkpoints" / "step-000000099")
    (other / "model.safetensors").write_bytes(b"not this one")
    Embedder.load(copy)
    (copy / "best").write_text("step-000000099\n")
    with pytest.raises(Exception, match="step-000000099"):
        Embedder.load(copy)


def test_hdf5_made_of_a_run_has_its_softmax_and_evaluates_the_same(
    run: Path, files: list[Path], tmp_path: Path
):
    written = save(load(run, heads=True), tmp_path / "model.hdf5")
    assert [path.name for path in written] == [
        "model.hdf5", "options.json", "model_softmax.hdf5", "vocab.txt",
    ]  # fmt: skip
    assert score(tmp_path / "model.hdf5", files[1]) == score(run, files[1])


def test_an_adaptive_softmax_is_trained_saved_resumed_and_evaluated(
    files: list[Path], tmp_path: Path
):
    settings = ["softmax.kind=adaptive", "softmax.cutoffs=[5, 12]", "softmax.div_value=2"]
    for steps in (2, 4):
        changed = config(*settings, f"loop.steps={steps}")
        pretrain(files, tmp_path / "run", changed, resume=True)
    assert isinstance(load(tmp_path / "run", heads=True).heads["softmax"], AdaptiveSoftmax)
    assert 2 < score(tmp_path / "run", files[0]).average < 60


# Further training ---------------------------------------------------------------------------------


def no_change() -> list[str]:
    return ["loop.optimizer.lr=1e-30", "loop.steps=1"]


def test_a_source_with_a_softmax_is_begun_with_bit_for_bit(
    run: Path, files: list[Path], tmp_path: Path
):
    pretrain(files, tmp_path / "more", config(*no_change()), source=run)
    assert weights(tmp_path / "more") == weights(run)
    words = Vocabulary.read(run / "vocab.txt").words
    assert Vocabulary.read(tmp_path / "more" / "vocab.txt").words == words


def without_softmax(run: Path, folder: Path) -> Path:
    folder.mkdir()
    for path in save(load(run, heads=True), folder / "weights.hdf5")[2:]:
        path.unlink()
    return folder / "weights.hdf5"


@pytest.mark.parametrize("optimizer", ["adagrad", "adamw"])
def test_without_one_the_new_softmax_learns_alone_first(
    optimizer: str, run: Path, files: list[Path], tmp_path: Path
):
    """Three steps of two micro-batches each; then a fourth, resumed, in which all learn."""
    source = without_softmax(run, tmp_path / "bare")
    before = load(source).model.state_dict()
    settings = [
        f"loop.optimizer.kind={optimizer}",
        "softmax_first=3",
        "loop.accumulate=2",
        "model.context.dropout=0.3",
    ]
    settings += ["loop.optimizer.weight_decay=0.1"] if optimizer == "adamw" else []
    folder = tmp_path / "more"
    with pytest.warns(UserWarning, match="only the new softmax has been trained"):
        pretrain(files, folder, config(*settings, "loop.steps=1"), source=source)
    softmax = load(folder, heads=True).heads["softmax"].weight.clone()
    with pytest.warns(UserWarning, match="only the new softmax has been trained"):
        pretrain(files, folder, config(*settings, "loop.steps=3"), source=source, resume=True)
    after = load(folder, heads=True)
    assert all(torch.equal(after.model.state_dict()[name], w) for name, w in before.items())
    assert not torch.equal(after.heads["softmax"].weight, softmax)
    source.unlink()  # a run that has begun needs its source no more
    pretrain(files, folder, config(*settings, "loop.steps=4"), resume=True)
    moved = load(folder).model.state_dict()
    assert not any(torch.equal(moved[name], w) for name, w in before.items() if "bias" in name)
    assert load(folder).model.config.context.dropout == 0.3


def test_a_word_models_vocabulary_is_kept_though_it_has_no_softmax(
    files: list[Path], tmp_path: Path
):
    source = make(tmp_path / "words", words=True).weights
    pretrain(files, tmp_path / "more", config(), source=source)
    assert Vocabulary.read(tmp_path / "more" / "vocab.txt").words == WORDS
    Embedder.load(tmp_path / "more").embed(SENTENCES)


def test_another_vocabulary_than_the_sources_is_refused(
    run: Path, files: list[Path], tmp_path: Path
):
    words = tmp_path / "vocab.txt"
    words.write_text("<S>\n</S>\n<UNK>\nw1\n")
    with pytest.raises(ConfigError, match=r"vocab.txt: not the vocabulary of .*leave out"):
        pretrain(files, tmp_path / "more", config(), source=run, vocabulary=words)


def test_a_model_with_dictionaries_of_its_own_is_trained_further(files: list[Path], tmp_path: Path):
    make_manylangs(tmp_path / "many")
    gently = ["softmax_first=1", "loop.optimizer.lr=1e-4"]
    pretrain(files, tmp_path / "more", config(*gently), source=tmp_path / "many")
    pretrain(files, tmp_path / "more", config(*gently, "loop.steps=3"), resume=True)
    (found,) = Embedder.load(tmp_path / "more").embed(SENTENCES[:1])
    (before,) = Embedder.load(tmp_path / "many").embed(SENTENCES[:1])
    assert found.layers.shape == before.layers.shape
    assert 0 < abs(found.layers - before.layers).max() < 1


def test_a_transformer_is_trained_further_in_sentences_and_refused_in_rows(
    files: list[Path], tmp_path: Path
):
    make_transformer(tmp_path / "source")
    with pytest.raises(ConfigError, match=r"batches.kind=sentences"):
        pretrain(files, tmp_path / "rows", config(), source=tmp_path / "source")
    settings = config(kind="transformer")
    assert pretrain(files, tmp_path / "run", settings, source=tmp_path / "source").step == 2


# What is refused ----------------------------------------------------------------------------------


def test_a_folder_with_a_run_is_not_written_over(run: Path, files: list[Path]):
    before = weights(run)
    with pytest.raises(InputError, match="holds a run already; add --resume"):
        pretrain(files, run, config())
    assert weights(run) == before


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("loop.optimizer.lr=0.1", r"loop.optimizer.lr \(0.2 there, 0.1 now\)"),
        ("batches.rows=4", r"batches.rows \(3 there, 4 now\)"),
        ("model.context.cell_dim=16", r"model.context.cell_dim \(12 there, 16 now\)"),
        ("softmax.kind=full", r"softmax.kind"),
    ],
)
def test_another_config_is_refused_naming_the_setting(
    setting: str, said: str, run: Path, files: list[Path]
):
    with pytest.raises(ConfigError, match=f"run.json: {said}"):
        pretrain(files, run, config("loop.steps=31", setting), resume=True)


@pytest.mark.parametrize("what", ["corpus", "valid", "source"])
def test_other_data_is_refused(what: str, run: Path, files: list[Path]):
    text, others = files, {"valid": {"valid": files[1]}, "source": {"source": run}}
    text = files[:1] if what == "corpus" else files
    with pytest.raises(ConfigError, match=f"run.json: {what}"):
        pretrain(text, run, config("loop.steps=31"), resume=True, **others.get(what, {}))


def test_resuming_a_finished_run_does_nothing(run: Path, files: list[Path]):
    before = logged(run)
    progress = pretrain(files, run, config("loop.steps=30"), resume=True)
    assert (progress.step, progress.fraction, progress.interrupted) == (30, 1.0, 0)
    assert logged(run) == before


def test_a_full_disk_leaves_the_last_checkpoint_to_resume_from(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    pretrain(files, tmp_path / "run", config())
    before = weights(tmp_path / "run")

    def half(checkpoint: Any, folder: Path) -> None:
        (folder / "model.safetensors").write_bytes(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(bilm, "write_native_files", half)
    with pytest.raises(InputError, match=r"step-000000004: cannot be written \(No space left"):
        pretrain(files, tmp_path / "run", config("loop.steps=4"), resume=True)
    monkeypatch.undo()
    assert weights(tmp_path / "run") == before
    assert pretrain(files, tmp_path / "run", config("loop.steps=4"), resume=True).step == 4


def test_a_word_table_of_another_size_than_the_vocabulary_is_refused(
    files: list[Path], tmp_path: Path
):
    table = 'model.words={"kind": "words", "n_words": 99, "dim": 8}'
    with pytest.raises(ConfigError, match="n_words is 99, but the vocabulary has 28"):
        pretrain(files, tmp_path / "run", config(table))


def test_an_allennlp_vocabulary_is_understood(files: list[Path], tmp_path: Path):
    words = tmp_path / "tokens.txt"
    words.write_text("@@UNKNOWN@@\n<S>\n</S>\nw1\nw2\n")
    pretrain(files, tmp_path / "run", config(), vocabulary=words)
    assert Vocabulary.read(tmp_path / "run" / "vocab.txt").words[:2] == ["<UNK>", "<S>"]


def test_a_million_words_on_one_line_are_counted_and_trained_on(tmp_path: Path):
    path = tmp_path / "line.txt"
    path.write_text("one two three " * 333_334 + "\n")
    progress = pretrain([path], tmp_path / "run", config("loop.steps=3"), valid=None)
    assert progress.step == 3
    assert read_run(tmp_path / "run").words == 1_000_002
    assert checkpoints(tmp_path / "run")[-1].is_dir()


def test_write_native_and_the_runs_checkpoints_are_one_format(run: Path, tmp_path: Path):
    write_native(load(run, heads=True), tmp_path / "model")
    names = {path.name for path in checkpoints(run)[-1].iterdir()}
    assert names - {"training.pt"} == {path.name for path in (tmp_path / "model").iterdir()}


def test_text_without_spaces_is_not_taken_for_words(tmp_path: Path):
    text = tmp_path / "zh.txt"
    text.write_text("我们坐在河边看书。\n他在银行工作了很久。\n" * 20, encoding="utf-8")
    with pytest.raises(InputError, match=r"zh\.txt: raw text .*--tokenize"):
        pretrain([str(text)], str(tmp_path / "run"), config("loop.steps=1"))
    split = tmp_path / "split.txt"
    split.write_text("我们 坐 在 河边 看书 。\n" * 20, encoding="utf-8")
    pretrain([str(split)], str(tmp_path / "split"), config("loop.steps=1"))


# What is not this run's ---------------------------------------------------------------------------


def test_a_folder_of_something_else_is_left_alone(files: list[Path], tmp_path: Path):
    folder = tmp_path / "model"
    write_native(load(make(tmp_path).weights), folder)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(InputError, match=r"holds config\.json, but no run"):
        pretrain(files, folder, config())
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_run_is_not_resumed_with_other_words(run: Path, files: list[Path], tmp_path: Path):
    shutil.copytree(run, tmp_path / "run")
    again = config("loop.steps=31")
    words = tmp_path / "run" / "vocab.txt"
    other = tmp_path / "other.txt"
    other.write_text(words.read_text() + "new\n")
    with pytest.raises(ConfigError, match="not the vocabulary of"):
        pretrain(
            files, tmp_path / "run", again, valid=files[0], vocabulary=other, resume=True
        )  # fmt: skip
    words.write_text(other.read_text())
    with pytest.raises(FormatError, match="is not that of the run"):
        pretrain(files, tmp_path / "run", again, valid=files[0], resume=True)


def test_a_checkpoint_without_its_softmax_is_told(run: Path, files: list[Path], tmp_path: Path):
    shutil.copytree(run, tmp_path / "run")
    (checkpoints(tmp_path / "run")[-1] / "heads" / "softmax.safetensors").unlink()
    with pytest.raises(FormatError, match="softmax"):
        pretrain(files, tmp_path / "run", config("loop.steps=31"), valid=files[0], resume=True)


def test_words_that_the_corpus_has_not_are_nothing_to_predict(files: list[Path], tmp_path: Path):
    with pytest.raises(InputError, match="No word of the corpus is seen 1000000 times"):
        pretrain(files, tmp_path / "run", config("vocabulary.min_count=1000000"))
    strange = tmp_path / "strange.txt"
    strange.write_text("<S>\n</S>\n<UNK>\nxyzzy\n")
    with pytest.raises(InputError, match="none of its words is in the corpus"):
        pretrain(files, tmp_path / "run", config(), vocabulary=strange)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("pattern", ["", ".", "/", "a**b"])
def test_no_pattern_at_all_is_told(tmp_path: Path, pattern: str):
    with pytest.raises(InputError, match="no such file"):
        pretrain([pattern], tmp_path / "run", config())


@pytest.mark.parametrize(
    "setting",
    ["loop.seed=-1", "loop.clip=Infinity", "loop.optimizer.lr=Infinity", "loop.optimizer.eps=-1",
     "loop.optimizer.betas=[2,3]", "loop.optimizer.weight_decay=-1", "epochs=1e308"],
)  # fmt: skip
def test_numbers_that_make_no_sense_are_refused(setting: str):
    adam = 'loop.optimizer={"kind": "adamw"}'
    with pytest.raises(ConfigError):
        config(adam, setting)


def test_validation_text_is_cut_as_training_text_is(files: list[Path], tmp_path: Path):
    long = tmp_path / "long.txt"
    long.write_text("w1 w2 " * 300 + "\n")
    changed = config("batches.max_words=50", kind="sentences")
    progress = pretrain(files, tmp_path / "run", changed, valid=long)
    cut = tmp_path / "cut.txt"
    cut.write_text(("w1 w2 " * 25 + "\n") * 12)
    assert progress.best == pytest.approx(score(tmp_path / "run", cut).average, rel=1e-6)
    assert progress.best != pytest.approx(score(tmp_path / "run", long).average, rel=1e-4)
