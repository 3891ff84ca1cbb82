"""`elmore embed` from the outside: what it writes, says and refuses. The numbers are the business
of tests/dump; here they only have to arrive."""

import gzip
import io
import json
import lzma
import os
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.cli.main import main
from elmore.embedder import Embedder
from elmore.engine.kernel import NoKernel, find_kernel
from elmore.files.lock import Lock
from tests.tiny_models import make

TEXT = "The river bank .\n\nanother one\n"


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


def embed(*arguments: object) -> int:
    return main(["embed", *map(str, arguments)])


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that a refused command says."""
    assert embed(*arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("elmore: ")
    assert err.count("\n") == 1
    return err


def test_embed_writes_and_says_what_it_did(
    text: Path, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    assert embed(text, tmp_path / "a.hdf5", "--model", tiny_model) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("2 sentences, 6 words, 1 blank line, ")
    assert "words/s" in err
    assert err.endswith(f"bytes in {tmp_path / 'a.hdf5'}\n")
    assert err.count("\n") == 1
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert [file[key].shape for key in "012"] == [(3, 4, 16), (3, 0, 16), (3, 2, 16)]
        assert json.loads(file["sentence_to_index"][0])["another one"] == "2"


def test_options_reach_the_dump(text: Path, tmp_path: Path, tiny_model: Path):
    flags = ["--layers", "top", "--forget-sentences", "--batch-words", 8, "--device", "cpu"]
    assert embed(text, tmp_path / "a.h5", "--model", tiny_model, *flags, "--quiet") == 0
    with h5py.File(tmp_path / "a.h5") as file:
        assert {key: file[key].shape for key in file} == {"0": (4, 16), "1": (0, 16), "2": (2, 16)}
    flags = ["--format", "npz", "--stateful", "--batch-sentences", 1]
    assert embed(text, tmp_path / "a.dat", "--model", tiny_model, *flags) == 0
    with np.load(tmp_path / "a.dat") as archive, h5py.File(tmp_path / "a.h5") as file:
        assert not np.allclose(archive["2"][-1], file["2"])  # it remembers the first line


def test_raw_text_is_tokenized_when_asked(
    tmp_path: Path, tiny_model: Path, capfdbinary: pytest.CaptureFixture[bytes]
):
    (tmp_path / "raw").write_text("Don't stop.\n")
    assert embed(tmp_path / "raw", "-", "--model", tiny_model, "--tokenize", "--quiet") == 0
    out, err = capfdbinary.readouterr()
    assert json.loads(out)["words"] == ["Do", "n't", "stop", "."]
    assert err == b""


def test_standard_input_is_read(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(TEXT.encode())))
    assert embed("-", tmp_path / "a.jsonl", "--model", tiny_model) == 0
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize("ending", [".gz", ".xz", ".zst"])
def test_compressed_input_is_read(tmp_path: Path, tiny_model: Path, ending: str):
    if ending == ".zst":
        packed = pytest.importorskip("zstandard").ZstdCompressor().compress(TEXT.encode())
    else:
        packed = (gzip if ending == ".gz" else lzma).compress(TEXT.encode())
    (tmp_path / f"in{ending}").write_bytes(packed)
    assert embed(tmp_path / f"in{ending}", tmp_path / "a.jsonl", "--model", tiny_model) == 0
    assert len((tmp_path / "a.jsonl").read_text().splitlines()) == 3


def test_keys_and_blank_lines_are_counted(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "in").write_text("a/b\n\n\na/b\n")
    flags = ["--model", tiny_model, "--use-sentence-keys"]
    assert embed(tmp_path / "in", tmp_path / "a.hdf5", *flags) == 0
    err = capsys.readouterr().err
    assert "2 blank lines (no key, so left out), 1 repeated sentence stored once" in err


def test_a_finished_run_is_said_to_be_complete(
    text: Path, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    arguments = (text, tmp_path / "a.hdf5", "--model", tiny_model)
    assert embed(*arguments) == 0
    assert "exists already" in refused_after(capsys, *arguments)
    assert embed(*arguments, "--resume") == 0
    assert "a.hdf5 is complete: 3 lines, 6 words." in capsys.readouterr().err


def refused_after(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    return refused(capsys, *arguments)


def test_a_map_left_out_is_said(
    text: Path,
    tmp_path: Path,
    tiny_model: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr("elmore.dump.lines.MAX_MAP_BYTES", 5)
    assert embed(text, tmp_path / "a.hdf5", "--model", tiny_model) == 0
    assert "sentence_to_index is left out" in capsys.readouterr().err


def test_a_terminal_shows_progress_and_quiet_hides_it(
    text: Path, tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    shown = []
    monkeypatch.setenv("TERM", "xterm")
    for name, flags in {"a.npz": [], "b.npz": ["--quiet"]}.items():
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        assert embed(text, tmp_path / name, "--model", tiny_model, *flags) == 0
        shown.append(terminal.getvalue())
    assert "3 sentences" in shown[0]
    assert shown[1] == ""


def test_a_reader_that_leaves_early_is_no_error(
    text: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch
):
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as gone:
        monkeypatch.setattr(sys, "stdout", gone)
        assert embed(text, "-", "--model", tiny_model, "--quiet") == 141
        monkeypatch.undo()


# Refusals ---------------------------------------------------------------------------------------


def test_an_output_that_cannot_be_written_is_found_before_the_model_is_loaded(
    text: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(Embedder, "load", lambda *_, **__: pytest.fail("the model was loaded"))
    assert "no such folder" in refused(capsys, text, tmp_path / "no/a.npz", "--model", text)
    assert "cannot be written" in refused(capsys, text, "/proc/a.hdf5", "--model", text)
    (tmp_path / "a.hdf5.partial").mkdir()
    line = refused(capsys, text, tmp_path / "a.hdf5", "--model", text)
    assert "--resume" in line
    assert "remove it" in line
    assert "no such file" in refused(capsys, tmp_path / "no", tmp_path / "b.npz", "--model", text)
    assert ".hdf5, .h5" in refused(capsys, text, tmp_path / "a.csv", "--model", text)
    line = refused(capsys, text, tmp_path / "a.npz", "--model", text, "--resume")
    assert "cannot be resumed" in line
    line = refused(capsys, text, tmp_path / "b.hdf5", "--model", text, "--resume", "--stateful")
    assert "cannot be resumed" in line
    assert "layers is 'up'" in refused(capsys, text, "-", "--model", text, "--layers", "up")


def test_a_model_that_is_not_there_is_told_with_near_names(
    text: Path, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    wrong = tiny_model.with_name("natve")
    line = refused(capsys, text, tmp_path / "a.npz", "--model", wrong)
    assert f"No model '{wrong}'" in line
    assert "shipped models" in line
    assert f"Did you mean {tiny_model}" in line
    assert list(tmp_path.iterdir()) == [text]


def test_model_files_that_do_not_fit_are_told(
    text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    output, tiny = tmp_path / "a.hdf5", make(tmp_path / "model")
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**tiny.options, "lstm": {**tiny.options["lstm"], "dim": 13}}))
    line = refused(capsys, text, output, "--model", tiny.weights, "--options", other)
    assert "probably from different models" in line
    tiny.weights.write_bytes(tiny.weights.read_bytes()[:1000])
    assert "weights.hdf5" in refused(capsys, text, output, "--model", tiny.weights)
    tiny.options_path.unlink()
    assert "options are missing" in refused(capsys, text, output, "--model", tiny.weights)
    tiny.weights.unlink()
    assert "No model" in refused(capsys, text, output, "--model", tiny.weights)


def test_bytes_that_are_not_utf8_are_told_with_file_and_line_or_replaced(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    bad, output = tmp_path / "bad.txt", tmp_path / "a.jsonl"
    bad.write_bytes(b"fine\nnot \xff fine\n")
    line = refused(capsys, bad, output, "--model", tiny_model)
    assert f"{bad}, line 2: not UTF-8 (byte 0xff at position 4)" in line
    assert not output.exists()
    assert embed(bad, output, "--model", tiny_model, "--errors", "replace") == 0
    assert json.loads(output.read_text().splitlines()[1])["words"] == ["not", "\ufffd", "fine"]


def test_a_broken_archive_is_told(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    broken = tmp_path / "in.gz"
    broken.write_bytes(gzip.compress(TEXT.encode() * 1000)[:60])
    line = refused(capsys, broken, tmp_path / "a.hdf5", "--model", tiny_model)
    assert f"{broken}, line" in line
    assert "damaged" in line
    assert list(tmp_path.iterdir()) == [broken]


def test_a_device_that_is_not_there_is_told(
    text: Path, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    arguments = (text, tmp_path / "a.npz", "--model", tiny_model, "--device", "abacus")
    assert "device is 'abacus'" in refused(capsys, *arguments)


@pytest.mark.skipif(isinstance(find_kernel(), NoKernel), reason="no kernel was built here")
def test_precision_reaches_the_model(text: Path, tmp_path: Path, tiny_model: Path):
    for precision in ("float32", "int8"):
        target = tmp_path / f"{precision}.hdf5"
        options = ["--model", str(tiny_model), "--precision", precision, "--quiet"]
        assert main(["embed", str(text), str(target), *options]) == 0
    with h5py.File(tmp_path / "float32.hdf5") as exact, h5py.File(tmp_path / "int8.hdf5") as rough:
        np.testing.assert_allclose(rough["0"][0], exact["0"][0], rtol=0, atol=1e-6)
        assert 0 < np.abs(rough["0"][1:] - exact["0"][1:]).max() < 1


def test_a_sentence_too_long_to_be_a_key_of_npz_is_told(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = tmp_path / "long.txt"
    text.write_text("x" * 70_000 + "\n")
    command = ["embed", str(text), str(tmp_path / "out.npz"), "--model", str(tiny_model)]
    assert main([*command, "--use-sentence-keys", "--quiet"]) == 2
    assert "remove --use-sentence-keys" in capsys.readouterr().err


def test_a_second_run_on_one_output_is_told_who_writes(
    text: Path, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    output = tmp_path / "a.hdf5"
    (tmp_path / "a.hdf5.partial").mkdir()
    with Lock(output, beside=True):
        for resume in ([], ["--resume"]):
            said = refused(capsys, text, output, "--model", tiny_model, *resume)
            assert f"process {os.getpid()} on " in said
            assert "is writing to it; wait until it ends, or stop it." in said
            assert "remove" not in said
    assert embed(text, output, "--model", tiny_model, "--resume", "--quiet") == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.hdf5", "in.txt"]
