"""`elmore pretrain` and `elmore evaluate` from the outside: what they print, refuse and return."""

import errno
import gzip
import io
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from elmore.cli.main import main
from elmore.cli.pretrain import _counter
from elmore.cli.progress import Bar
from elmore.config import override
from elmore.files.lock import Lock
from elmore.pretrain import evaluate as scores
from elmore.pretrain.config import Run
from elmore.pretrain.run import pretrain as library_pretrain
from tests.cli.test_progress import Terminal
from tests.pretrain import tiny_runs
from tests.pretrain.tiny_runs import corpus, logged

RECIPE = """
from tests.pretrain import tiny_runs
from elmore.config import override

def tiny():
    return override(tiny_runs.rows(), ["loop.checkpoint_minutes=60", "loop.steps=3"])

def broken():
    return override(tiny_runs.sentences(), ["loop.optimizer.lr=1e6", "loop.steps=30"])
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two parts of a corpus and a recipe of its own."""
    folder = tmp_path_factory.mktemp("text")
    corpus(folder)
    (folder / "my_runs.py").write_text(RECIPE)
    return folder


def pretrain(text: Path, output: Path, *arguments: object, recipe: str = "tiny") -> int:
    given = [text / "part*.txt", "--output", output, "--recipe", f"{text / 'my_runs.py'}:{recipe}"]
    return main(["pretrain", *map(str, given), *map(str, arguments)])


def refused(capsys: pytest.CaptureFixture[str], code: int) -> str:
    """The one line that a refused command says."""
    assert code == 2
    out, err = capsys.readouterr()
    assert out == ""
    lines = [line for line in err.splitlines() if not line.startswith("step ")]
    assert len(lines) == 1
    assert lines[0].startswith("elmore: ")
    return lines[0]


# What it does -------------------------------------------------------------------------------------


def test_a_run_says_how_it_goes_and_where_it_ends(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert pretrain(text, tmp_path / "run", "--valid", text / "part0.txt") == 0
    out, err = capsys.readouterr()
    assert out.startswith(f"{tmp_path / 'run'}: finished at step 3, 0.")
    assert "best perplexity" in out
    assert [line.split("  ")[0] for line in err.splitlines()] == [
        "step 1", "step 2", "step 3", "step 3",
    ]  # fmt: skip
    assert "words/s" in err
    assert "valid average" in err
    assert len(logged(tmp_path / "run")) == 4


def test_a_log_shows_within_seconds_that_words_are_counted(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stderr", log := io.StringIO())
    clock = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr("elmore.cli.pretrain.time", clock)
    with Bar(quiet=False) as bar:
        show = _counter(bar)
        for clock.now, n_words in [(100.0, 10_000), (101.0, 20_000), (161.0, 30_000)]:
            show(n_words, "words")
        clock.now = 222.0
        show(50_000, "pieces")
    assert log.getvalue().splitlines() == [
        "counting  10,000 words so far", "counting  30,000 words so far",
        "counting  50,000 pieces so far",
    ]  # fmt: skip


def test_the_curves_are_drawn_when_asked_or_refused_before_the_work(
    text: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    assert pretrain(text, tmp_path / "run", "--plot", "--quiet") == 0
    assert (tmp_path / "run" / "curve.png").read_bytes().startswith(b"\x89PNG")
    monkeypatch.setattr("elmore.pretrain.curve.find_spec", lambda name: None)
    code = pretrain(text, tmp_path / "other", "--plot", "--quiet")
    assert "pip install 'elmore[plot]'" in refused(capsys, code)
    assert not (tmp_path / "other").exists()


def test_quiet_says_nothing(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert pretrain(text, tmp_path / "run", "--quiet") == 0
    assert capsys.readouterr() == ("", "")


def test_a_finished_run_resumed_says_that_it_is_done(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for _ in range(2):
        assert pretrain(text, tmp_path / "run", "--resume") == 0
        assert "finished at step 3" in capsys.readouterr().out
    assert pretrain(text, tmp_path / "run", "--resume", "--steps", 5) == 0
    assert "finished at step 5" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "steps"),
    [(["--steps", 2], 2), (["--epochs", 0.01], 1), (["--set", "loop.steps=4"], 4)],
)
def test_the_command_line_has_the_last_word_on_the_end(
    arguments: list[object], steps: int, text: Path, tmp_path: Path
):
    assert pretrain(text, tmp_path / "run", "--quiet", *arguments) == 0
    assert logged(tmp_path / "run")[-1]["step"] == steps


def test_minutes_replace_the_recipes_steps(text: Path, tmp_path: Path):
    assert pretrain(text, tmp_path / "run", "--quiet", "--minutes", 0.01) == 0
    run = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (run["config"]["loop"]["steps"], run["config"]["loop"]["minutes"]) == (None, 0.01)


def test_raw_text_is_tokenised_when_asked(text: Path, tmp_path: Path):
    raw = tmp_path / "raw.txt"
    raw.write_text("It rained. It rained, and it rained!\n" * 9)
    arguments = ["--recipe", f"{text / 'my_runs.py'}:tiny", "--tokenize", "--quiet"]
    assert main(["pretrain", str(raw), "--output", str(tmp_path / "run"), *arguments]) == 0
    words = (tmp_path / "run" / "vocab.txt").read_text().split()
    assert {"It", "rained", ".", ",", "!"} <= set(words)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_says_so_and_is_the_exit_code(
    number: signal.Signals, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    def send() -> None:
        while not logged(tmp_path / "run"):
            time.sleep(0.005)
        os.kill(os.getpid(), number)

    sender = threading.Thread(target=send)
    sender.start()
    code = pretrain(text, tmp_path / "run", "--steps", 100_000)
    sender.join()
    out, err = capsys.readouterr()
    assert code == 128 + number
    step = logged(tmp_path / "run")[-1]["step"]
    assert f"at step {step}" in out
    assert err.splitlines()[-1] == f"elmore: stopped. Saved at step {step}; continue with --resume."
    assert pretrain(text, tmp_path / "run", "--resume", "--steps", int(step) + 1) == 0
    assert logged(tmp_path / "run")[-1]["step"] == step + 1


# What it refuses ----------------------------------------------------------------------------------


def bad_text(folder: Path, content: bytes, name: str = "bad.txt") -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def train_on(path: Path, text: Path, output: Path, *arguments: str) -> int:
    recipe = f"{text / 'my_runs.py'}:tiny"
    given = [str(path), "--output", str(output), "--recipe", recipe, "--quiet"]
    return main(["pretrain", *given, *arguments])


def test_an_empty_corpus(text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = bad_text(tmp_path, b"\n \n")
    said = refused(capsys, train_on(path, text, tmp_path / "run"))
    assert f"{path}: no sentence found" in said
    assert not (tmp_path / "run").exists()


def test_a_missing_corpus_vocabulary_or_validation(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    said = refused(capsys, train_on(tmp_path / "absent.txt", text, tmp_path / "run"))
    assert "absent.txt: no such file" in said
    for option in ("--valid", "--vocabulary", "--from"):
        code = pretrain(text, tmp_path / "run", option, tmp_path / "absent")
        assert "absent" in refused(capsys, code)
    assert not (tmp_path / "run").exists()


def test_a_gz_that_breaks_in_the_middle_names_its_line(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    lines = b"".join(b"some words of line %d %d\n" % (i, i * 7919) for i in range(20_000))
    whole = gzip.compress(lines)
    path = bad_text(tmp_path, whole[: len(whole) // 2], "part.txt.gz")
    said = refused(capsys, train_on(path, text, tmp_path / "run"))
    assert "part.txt.gz, line " in said
    assert 1000 < int(said.split("line ")[1].split(":")[0]) < 20_000


def test_bytes_that_are_not_utf8_name_their_line_or_are_replaced(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = bad_text(tmp_path, b"good words here\n" * 6 + b"bad \xff word\n" + b"good again\n" * 9)
    said = refused(capsys, train_on(path, text, tmp_path / "run"))
    assert f"{path}, line 7: not UTF-8" in said
    assert "--errors replace" in said
    assert train_on(path, text, tmp_path / "run", "--errors", "replace") == 0


def test_a_vocabulary_without_its_marks(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = bad_text(tmp_path, b"w1\nw2\n<S>\n")
    said = refused(capsys, pretrain(text, tmp_path / "run", "--vocabulary", path))
    assert f"{path}: " in said
    assert "lacks </S>, <UNK>" in said


def test_a_rate_that_ends_in_no_numbers(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    said = refused(capsys, pretrain(text, tmp_path / "run", recipe="broken"))
    assert "the gradient is NaN or infinite" in said
    assert "lower learning rate (--set loop.optimizer.lr=…)" in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--set", "loop.clop=1"], "no 'clop' there"),
        (["--set", "loop.clip=many"], "loop.clip"),
        (["--steps", "0"], "loop.steps"),
        (["--minutes", "-1"], "loop.minutes"),
        (["--recipe", "elmo-huge"], "No recipe 'elmo-huge'"),
        (["--resume", "--set", "batches.rows=5"], "batches.rows (3 there, 5 now)"),
        ([], "holds a run already; add --resume"),
    ],
)
def test_settings_that_do_not_fit(
    arguments: list[str],
    said: str,
    text: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):
    assert pretrain(text, tmp_path / "run", "--quiet") == 0
    assert said in refused(capsys, pretrain(text, tmp_path / "run", *arguments))


def test_a_damaged_checkpoint_is_named(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert pretrain(text, tmp_path / "run", "--quiet") == 0
    (path,) = (tmp_path / "run").glob("checkpoints/*/training.pt")
    path.write_bytes(path.read_bytes()[:100])
    said = refused(capsys, pretrain(text, tmp_path / "run", "--resume", "--steps", 9))
    assert f"{path}: not a readable training state" in said


def test_a_full_disk_is_told_and_what_was_saved_is_still_there(
    text: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    assert pretrain(text, tmp_path / "run", "--quiet") == 0

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("elmore.pretrain.objectives.bilm.write_native_files", full)
    said = refused(capsys, pretrain(text, tmp_path / "run", "--resume", "--steps", 4))
    assert said.endswith("step-000000004: cannot be written (No space left on device).")
    monkeypatch.undo()
    assert pretrain(text, tmp_path / "run", "--resume", "--steps", 4) == 0


# Evaluating ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "run"
    assert pretrain(text, folder, "--quiet") == 0
    return folder


def evaluate(*arguments: object) -> int:
    return main(["evaluate", *map(str, arguments)])


def test_evaluate_prints_perplexities_and_the_unknown_share(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = bad_text(tmp_path, b"w1 w2 w3\nw4 never\n")
    assert evaluate(run, path) == 0
    lines = capsys.readouterr().out.splitlines()
    figures = [float(line.split()[-1]) for line in lines[:3]]
    assert [line.split()[0] for line in lines[:3]] == ["forward", "backward", "average"]
    assert all(5 < figure < 60 for figure in figures)
    assert figures[2] == pytest.approx((figures[0] * figures[1]) ** 0.5, abs=0.02)
    assert lines[3] == "2 sentences, 5 words, 1 outside the vocabulary (20.00%)"


@pytest.mark.parametrize("quiet", [False, True])
def test_evaluate_shows_how_much_it_has_read(
    quiet: bool, run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """One line of many words is read in pieces, so that there is something to show."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", terminal := Terminal())
    path = bad_text(tmp_path, b"w1 w2 w3 " * 4_000 + b"\n")
    assert evaluate(run, path, *["--quiet"] * quiet) == 0
    assert ("12,000 words" in terminal.getvalue()) is not quiet


def test_per_sentence_log_probabilities_add_up_to_the_perplexity(
    run: Path, text: Path, capsys: pytest.CaptureFixture[str]
):
    assert evaluate(run, text / "part0.txt", "--per-sentence") == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [row["sentence"] for row in rows] == (text / "part0.txt").read_text().splitlines()
    n = sum(len(row["sentence"].split()) + 1 for row in rows)
    assert evaluate(run, text / "part0.txt", "--no-carry-state") == 0
    forward = float(capsys.readouterr().out.splitlines()[0].split()[-1])
    assert 2.718281828 ** (-sum(row["forward"] for row in rows) / n) == pytest.approx(
        forward, abs=0.006
    )


def test_carried_state_is_another_number(run: Path, text: Path, capsys: pytest.CaptureFixture[str]):
    assert evaluate(run, text / "part0.txt", "--no-carry-state") == 0
    assert evaluate(run, text / "part0.txt", "--carry-state") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[3] == lines[8]
    assert lines[0] != lines[5]


def test_evaluating_what_cannot_be_is_refused(
    run: Path, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    path = bad_text(tmp_path, b"a b\n")
    assert "has no softmax" in refused(capsys, evaluate(tiny_model, path))
    code = evaluate(run, path, "--carry-state", "--per-sentence")
    assert "cannot be used together" in refused(capsys, code)
    assert "no sentence" in refused(capsys, evaluate(run, bad_text(tmp_path, b""))).lower()


def test_raw_text_is_refused_without_tokenize(
    run: Path, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    path = bad_text(tmp_path, b"He came in, sat down, and said: well, no.\n" * 20)
    assert "raw text (such as 'in,')" in refused(capsys, evaluate(run, path))
    recipe = f"{text / 'my_runs.py'}:tiny"
    train = ["pretrain", str(path), "--output", str(tmp_path / "new"), "--recipe", recipe]
    assert "add --tokenize" in refused(capsys, main(train))
    assert evaluate(run, path, "--as-is") == 0
    assert evaluate(run, path, "--tokenize") == 0
    assert main([*train, "--as-is", "--quiet"]) == 0
    assert main([*train, "--resume", "--quiet"]) == 0  # what was said at the start still holds


def test_runs_of_older_versions_read_as_they_were_started(run: Path):
    stored = json.loads((run / "run.json").read_text())
    new = Run.model_validate_json(json.dumps(stored)).config.reading
    assert (new.lines, new.longest) == ("auto", 5000)
    for name in ("lines", "longest", "as_is"):
        del stored["config"]["reading"][name]
    old = Run.model_validate_json(json.dumps(stored)).config.reading
    assert (old.lines, old.longest) == ("paragraph", None)


def test_a_setting_of_errors_is_not_undone_by_the_option(tmp_path: Path):
    text = tmp_path / "latin.txt"
    text.write_bytes("café au lait\n".encode("latin-1") * 30)
    command = [
        "pretrain",
        str(text),
        "--recipe",
        "examples/tiny.py:tiny",
        "--steps",
        "1",
        "--quiet",
    ]
    assert main([*command, "--output", str(tmp_path / "a")]) == 2
    replacing = ["--set", "reading.errors=replace"]
    assert main([*command, "--output", str(tmp_path / "b"), *replacing]) == 0


# A model remembers how its text was read ----------------------------------------------------------


RAW = "It rained all day. It rained, and it rained! Nobody came, nobody called, nobody knew.\n"


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("rows", "words separated by spaces, state carried between sentences"),
        ("sentences", "raw text, tokenized, each sentence on its own, at most 5 words"),
        ("transformer", "words separated by spaces, each sentence on its own, at most 12 words"),
    ],
)
def test_validation_and_evaluation_agree(
    kind: str,
    said: str,
    text: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """The best figure of a run and `elmore evaluate RUN TEXT`, by default, to 1e-6."""
    files, settings = corpus(tmp_path / "text"), ["loop.checkpoint_minutes=60", "loop.steps=4"]
    if kind == "sentences":
        for path in files:
            path.write_text(RAW * 30)
        settings += ["reading.tokenize=true", "batches.max_words=5"]
    progress = library_pretrain(
        files, tmp_path / "run", override(tiny_runs.KINDS[kind](), settings), valid=files[0]
    )
    found: list[Any] = []
    monkeypatch.setattr("builtins.print", lambda *told, **_: found.append(" ".join(map(str, told))))
    whole = scores.perplexity
    results: list[Any] = []

    def watched(*given: Any, **named: Any) -> Any:
        results.append(whole(*given, **named))
        return results[-1]

    monkeypatch.setattr(scores, "perplexity", watched)
    assert evaluate(tmp_path / "run", files[0]) == 0
    monkeypatch.undo()
    assert results[0].average == pytest.approx(progress.best, rel=1e-6)
    assert found[-1] == f"read as in training: {said}"


def test_a_part_of_the_text_agrees_too(text: Path, tmp_path: Path, capsys: Any):
    valid = ["--valid", text / "part0.txt", "--set", "valid_words=100"]
    assert pretrain(text, tmp_path / "run", *valid) == 0
    out, err = capsys.readouterr()
    assert "note: Validation reads the first 1" in err
    assert evaluate(tmp_path / "run", text / "part0.txt", "--first-words", 100) == 0
    best = out.split("best perplexity ")[1].split()[0]
    assert f"average perplexity   {best}\n" in capsys.readouterr().out


def test_another_reading_than_in_training_is_said(run: Path, text: Path, capsys: Any):
    assert evaluate(run, text / "part0.txt", "--no-carry-state", "--max-words", 9) == 0
    said = capsys.readouterr().out.splitlines()[-1]
    assert said == (
        "NOT read as in training: words separated by spaces, each sentence on its own, at most 9 "
        "words; in training: words separated by spaces, state carried between sentences"
    )
    assert evaluate(run, text / "part0.txt", "--per-sentence") == 0
    assert capsys.readouterr().err.startswith("NOT read as in training")


def test_a_model_that_does_not_remember_is_read_as_ever(
    run: Path, text: Path, tmp_path: Path, capsys: Any
):
    """Models of the version before, and HDF5."""
    assert main(["convert", str(run), str(tmp_path / "model.hdf5")]) == 0
    assert main(["convert", str(run), str(tmp_path / "folder")]) == 0
    path = tmp_path / "folder" / "config.json"
    config = json.loads(path.read_text())
    assert config.pop("trained_on") == {
        "tokenize": False, "carry_state": True, "max_words": None
    }  # fmt: skip
    path.write_text(json.dumps(config))
    capsys.readouterr()
    for model in (tmp_path / "model.hdf5", tmp_path / "folder"):
        assert evaluate(model, text / "part0.txt") == 0
        found = capsys.readouterr().out.splitlines()
        assert evaluate(run, text / "part0.txt", "--no-carry-state") == 0
        assert found[:4] == capsys.readouterr().out.splitlines()[:4]
        assert found[4].endswith("; how the model read its text is not recorded")


# One run in a folder ------------------------------------------------------------------------------


def test_a_second_run_in_the_folder_is_refused_in_one_line(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert pretrain(text, tmp_path / "run", "--quiet") == 0
    with Lock(tmp_path / "run"):
        for arguments in (["--resume", "--steps", 9], []):
            said = refused(capsys, pretrain(text, tmp_path / "run", *arguments))
            assert f"{tmp_path / 'run'}: process {os.getpid()} on " in said
            assert "(since 2" in said
    assert pretrain(text, tmp_path / "run", "--resume", "--steps", 4) == 0


def test_two_runs_at_once_leave_one(text: Path, tmp_path: Path):
    """The first one trains on while the second is refused."""

    def second() -> None:
        while not logged(tmp_path / "run"):
            time.sleep(0.005)
        codes.append(pretrain(text, tmp_path / "run", "--quiet", "--resume"))
        os.kill(os.getpid(), signal.SIGINT)

    codes: list[int] = []
    other = threading.Thread(target=second)
    other.start()
    code = pretrain(text, tmp_path / "run", "--quiet", "--steps", 100_000)
    other.join()
    assert (codes, code) == ([2], 130)


# Hostile files ------------------------------------------------------------------------------------


def test_a_run_json_without_end_or_sense_is_refused(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert pretrain(text, tmp_path / "run", "--quiet") == 0
    path = tmp_path / "run" / "run.json"
    whole = json.loads(path.read_text())
    whole["config"]["model"]["context"]["n_layers"] = 1_000_000
    path.write_text(json.dumps(whole))
    assert "n_layers" in refused(capsys, pretrain(text, tmp_path / "run", "--resume"))
    for junk in (b"\xff", b"[" * 100_000, b"{}"):
        path.write_bytes(junk)
        assert "run.json" in refused(capsys, pretrain(text, tmp_path / "run", "--resume"))
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "run.json: not a file" in refused(capsys, pretrain(text, tmp_path / "run", "--resume"))
