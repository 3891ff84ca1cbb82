"""Every verb reads text alike: raw text is refused, sentences are split, globs and stdin are read;
closed and ASCII-only streams are no reason for a traceback."""

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import pytest

from elmore.cli.main import main

PROSE = "When the boat came in, nobody waited; the harbor was empty. We went home.\n"
CHINESE = "船来的时候，没有人在等；港口是空的。我们回家了！\n"


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def child(*arguments: object, **more: object) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "elmore", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, check=False, **more)  # type: ignore[call-overload, no-any-return]


@pytest.mark.parametrize("text", [PROSE, CHINESE])
@pytest.mark.parametrize("verb", ["embed", "index", "store fill", "store plan"])
def test_every_verb_refuses_raw_text_and_names_the_cure(
    verb: str, text: str, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    raw, out = write(tmp_path, "raw.txt", text * 20), tmp_path / "out"
    calls = {
        "embed": ["embed", raw, tmp_path / "x.npz", "--model", tiny_model],
        "index": ["index", raw, "--model", tiny_model, "--output", out],
        "store fill": ["store", "fill", raw, out, "--model", tiny_model],
        "store plan": ["store", "plan", raw, "--model", tiny_model],
    }
    assert run(*calls[verb]) == 2
    error = capsys.readouterr().err
    assert f"{raw}: raw text (such as " in error
    assert "--tokenize" in error
    assert run(*calls[verb], "--as-is") == 0


def test_every_verb_counts_the_same_words(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    """Punctuation is a word, the marks of a sentence are none, and repetitions count again."""
    raw, model = write(tmp_path, "raw.txt", PROSE * 3), ["--model", tiny_model, "--tokenize"]
    assert run("embed", raw, tmp_path / "x.npz", *model) == 0
    assert run("store", "plan", raw, *model) == 0
    assert run("index", raw, "--output", tmp_path / "x.index", *model) == 0
    captured = capsys.readouterr()
    said = captured.out + captured.err
    n = 3 * (len(PROSE.split()) + 4)
    assert f"6 sentences, {n} words, " in said  # embed
    assert f"6 sentences, {n} words in the text" in said  # store plan
    assert f"{n} uses of" in said  # index


def test_sentences_are_split_in_embed_too(tmp_path: Path, tiny_model: Path):
    raw, out = write(tmp_path, "raw.txt", PROSE + "\n" + PROSE), tmp_path / "x.hdf5"
    assert run("embed", raw, out, "--model", tiny_model, "--tokenize", "--quiet") == 0
    with h5py.File(out) as file:
        found = json.loads(file["sentence_to_index"][0])
    assert sorted(found) == ["We went home.", PROSE.split(" We")[0]]
    lines = tmp_path / "lines.hdf5"
    whole = ["--tokenize", "--lines", "sentence", "--quiet"]
    assert run("embed", raw, lines, "--model", tiny_model, *whole) == 0
    with h5py.File(lines) as file:
        assert [len(file[key][0]) for key in "012"] == [18, 0, 18]


def test_a_run_is_resumed_as_it_was_split(tmp_path: Path, tiny_model: Path):
    raw, out = write(tmp_path, "raw.txt", PROSE * 3), tmp_path / "x.hdf5"
    made = ["embed", raw, out, "--model", tiny_model, "--tokenize", "--quiet"]
    assert run(*made, "--lines", "sentence") == 0
    with h5py.File(out, "r+") as file:  # as a version wrote it that knew no --lines
        record = json.loads(file.attrs["elmore"])
        del record["run"]["lines"], record["run"]["longest"]
        file.attrs["elmore"] = json.dumps(record)
    assert run(*made, "--resume") == 0
    assert run(*made, "--resume", "--lines", "auto") == 2


def test_globs_and_several_files(tmp_path: Path, tiny_model: Path):
    for i in range(2):
        write(tmp_path, f"part{i}.txt", f"line {i}\n")
    out = tmp_path / "x.jsonl"
    assert run("embed", tmp_path / "part*.txt", out, "--model", tiny_model, "--quiet") == 0
    rows = [json.loads(line)["words"] for line in out.read_text().splitlines()]
    assert rows == [["line", "0"], ["line", "1"]]


def test_likely_raw_text_is_one_line_of_warning(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    raw = write(tmp_path, "raw.txt", "My bank account.\n")
    assert run("embed", raw, tmp_path / "x.npz", "--model", tiny_model, "--quiet") == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"elmore: warning: {raw}: this looks like raw text")


@pytest.mark.parametrize("how", [[], ["--tokenize"]], ids=str)
def test_tables_of_words_are_refused_with_a_hint(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str], how: list[str]
):
    row = "1\tdog\tdog\tNOUN\t_\t_\t0\troot\t_\t_\n"
    tables = {"ud.conllu": f"# text = dog\n{row}\n", "weibo.conll": "科0\tB-ORG\n" * 5}
    hints = {"ud.conllu": "this is CoNLL-U", "weibo.conll": "`elmore task train` reads such a file"}
    for name, table in tables.items():
        path = write(tmp_path, name, table)
        out = ["--model", tiny_model, *how]
        assert run("embed", path, tmp_path / "x.hdf5", *out) == 2
        assert run("index", path, "--output", tmp_path / "index", *out) == 2
        lines = capsys.readouterr().err.splitlines()
        assert len(lines) == 2
        assert all(line.startswith(f"elmore: {path}: ") and hints[name] in line for line in lines)
        assert run("embed", path, tmp_path / f"{name}.hdf5", *out, "--as-is", "--quiet") == 0


def test_one_line_of_many_words_is_embedded_in_pieces(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    text = write(tmp_path, "line.txt", "one two three " * 4000 + "\n")
    out = tmp_path / "x.hdf5"
    assert run("embed", text, out, "--model", tiny_model, "--layers", "top", "--quiet") == 0
    with h5py.File(out) as file:
        assert [len(file[key]) for key in "012"] == [5000, 5000, 2000]
    assert "is read in pieces" in capsys.readouterr().err


# Streams ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", ["-", pytest.param("x.npz", marks=pytest.mark.slow)])
def test_closed_standard_input_is_told(out: str, tmp_path: Path):
    target = out if out == "-" else tmp_path / out
    told = child("embed", "-", target, "--model", "small-en", preexec_fn=lambda: os.close(0))
    assert told.returncode == 2
    assert told.stderr.startswith(b"elmore: -: standard input is closed")
    assert told.stderr.count(b"\n") == 1


@pytest.mark.slow  # every verb with such streams, in one process: test_streams.py
@pytest.mark.parametrize(
    "settings",
    [
        {"PYTHONIOENCODING": "ascii"},
        {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    ],
)
def test_ascii_only_streams_show_escapes(settings: dict[str, str], tmp_path: Path):
    environment = {**os.environ, **settings}
    told = child("demo", "--json", "--word", "spring", env=environment)
    assert told.returncode == 0, told.stderr
    json.loads(told.stdout)
    told = child("embed", "没有.txt", tmp_path / "x.npz", "--model", "small-en", env=environment)
    assert told.returncode == 2
    assert rb"\u6ca1\u6709.txt: no such file" in told.stderr or b"no such file" in told.stderr
    assert b"Traceback" not in told.stderr


def test_json_stays_json_where_it_must_be_escaped():
    code = (
        "import json, sys; from elmore.cli.main import _prepare_streams; _prepare_streams();"
        "print(json.dumps(['苹果', '\\U0001f600'], ensure_ascii=False)); print('苹')"
    )
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    told = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, check=True
    )
    first, second = told.stdout.splitlines()
    assert json.loads(first) == ["苹果", "\U0001f600"]
    assert second == rb"\u82f9"
