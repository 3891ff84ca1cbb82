"""Every verb with streams that are closed, that nobody reads, or that know only ASCII."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# Runs all commands in one process and writes their exit codes to a file.
CHILD = """
import json, sys
from pathlib import Path
from elmore.cli.main import main
codes = [main(command) for command in json.loads(Path(sys.argv[1]).read_text())]
Path(sys.argv[2]).write_text(json.dumps(codes))
"""
TEXT = "we sat on the bank near the 苹果 é .\nthe bank of the river 😀 is far .\n" * 3


@pytest.fixture
def commands(tmp_path: Path, tiny_model: Path) -> dict[str, tuple[list[str], int]]:
    """Each with its exit code."""
    text = tmp_path / "苹果.txt"
    text.write_text(TEXT, encoding="utf-8")
    model, index, store = str(tiny_model), str(tmp_path / "银行.index"), str(tmp_path / "s")
    named = ["--model", model]
    return {
        "doctor": (["doctor"], 0),
        "doctor model": (["doctor", model], 0),
        "embed": (["embed", str(text), str(tmp_path / "v.npz"), *named], 0),
        "embed to stdout": (["embed", str(text), "-", *named], 0),
        "evaluate": (["evaluate", model, str(tmp_path / "absent 苹果")], 2),
        "convert": (["convert", model, str(tmp_path / "copy 苹果")], 0),
        "store fill": (["store", "fill", str(text), store, *named], 0),
        "store info": (["store", "info", store], 0),
        "store verify": (["store", "verify", store], 0),
        "store plan": (["store", "plan", str(text), *named], 0),
        "index": (["index", str(text), *named, "--output", index], 0),
        "index verify": (["index", "verify", index], 0),
        "index compact": (["index", "compact", index], 0),
        "neighbors": (["neighbors", index, "the bank", "--word", "bank"], 0),
        "senses": (["senses", index, "bank"], 0),
        "senses of a missing word": (["senses", index, "苹果苹果"], 2),
        "demo": (["demo", *named, "--word", "苹果"], 0),
        "demo json": (["demo", *named, "--word", "苹果", "--json"], 0),
        "task": (["task", "predict", "ner", str(text), "--model", "苹果"], 2),
        "compare": (["compare", "苹果"], 2),
        "pretrain": (["pretrain", "苹果", "--output", str(tmp_path / "r"), "--recipe", "苹"], 2),
        "serve": (["serve", *named, "--index", "苹果"], 2),
    }


def child(tmp_path: Path, commands: dict[str, tuple[list[str], int]], shell: str, **env: str):
    """The output and what was said, after all commands have ended as they should."""
    asked, told = tmp_path / "asked.json", tmp_path / "told.json"
    asked.write_text(json.dumps([command for command, _ in commands.values()]))
    script = f'"$@" {shell}'
    line = ["sh", "-c", script, "sh", sys.executable, "-c", CHILD, str(asked), str(told)]
    done = subprocess.run(line, capture_output=True, env={**os.environ, **env}, check=False)
    said = done.stderr.decode()
    assert "Traceback" not in said
    codes = json.loads(told.read_text())
    assert dict(zip(commands, codes, strict=True)) == {name: c for name, (_, c) in commands.items()}
    assert done.returncode == 0
    return done.stdout, said


def test_every_verb_with_ascii_streams(tmp_path: Path, commands):
    del commands["embed to stdout"]  # JSON lines are UTF-8 anywhere
    ascii_only = {"PYTHONIOENCODING": "ascii", "LANG": "C", "LC_ALL": "C"}
    strict = {"PYTHONDEVMODE": "1"}  # a file that nobody closes is told as well
    out, said = child(tmp_path, commands, "", **ascii_only, **strict)
    out.decode("ascii")
    said.encode("ascii")
    assert [line for line in said.splitlines() if "ResourceWarning" in line] == []
    begin = out.index(b'{\n  "demos"')
    (found,) = json.loads(out[begin:].decode())["demos"]
    assert found["neighbors"]["word"] == "苹果"


@pytest.mark.parametrize(
    "shell",
    [">&-", "<&- >&- 2>&-", *(pytest.param(s, marks=pytest.mark.slow) for s in ("<&-", "2>&-"))],
)
def test_every_verb_with_closed_streams(tmp_path: Path, commands, shell: str):
    if ">&-" in shell.replace("2>&-", ""):
        commands["embed to stdout"] = (commands["embed to stdout"][0], 2)  # vectors would be lost
    _, said = child(tmp_path, commands, shell)
    assert ("elmore: -: standard output is closed" in said) is (shell == ">&-")


@pytest.mark.parametrize(
    "command",
    ["doctor", pytest.param("demo --json --word bank --model", marks=pytest.mark.slow)],
)
def test_a_reader_that_leaves_is_no_error(command: str, tiny_model: Path):
    given = command.split()
    line = [sys.executable, "-m", "elmore", *given, *([str(tiny_model)] if given[1:] else [])]
    with subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 141


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_stdout_is_one_line():
    with Path("/dev/full").open("w") as full:
        line = [sys.executable, "-m", "elmore", "doctor"]
        done = subprocess.run(line, stdout=full, stderr=subprocess.PIPE, check=False)
    assert done.returncode == 2
    assert done.stderr.decode().count("\n") == 1
    assert b"No space left" in done.stderr
