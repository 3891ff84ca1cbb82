"""docs/pretraining.md tells the truth: its commands and its Python run, in order, with the smallest
recipe. `torchrun` has tests of its own."""

import gzip
import shlex
import shutil
from pathlib import Path

import pytest

from elmore.cli.main import main
from tests.test_documents import blocks, reader  # noqa: F401

TINY = ["--recipe", "examples/tiny.py:tiny", "--set", "valid_words=200", "--quiet"]


def test_every_block_runs(
    reader: Path,  # noqa: F811
    capsys: pytest.CaptureFixture[str],
):
    text = reader / "examples" / "harbor.txt"
    (reader / "corpus").mkdir()
    (reader / "corpus" / "harbor.txt.gz").write_bytes(gzip.compress(text.read_bytes()))
    for name in ("held-out.txt", "test.txt"):
        shutil.copy(text, reader / name)
    printed = {}
    for language, block in blocks("docs/pretraining.md"):
        if language == "python":
            exec(compile(block, "pretraining.md", "exec"), {})
            printed["python"] = capsys.readouterr().out
        for command in block.splitlines() if language == "console" else []:
            program, verb, *rest = shlex.split(command)
            if program == "elmore":
                assert main([verb, *rest, *(TINY if verb == "pretrain" else [])]) == 0, command
                printed[verb] = capsys.readouterr().out
    assert "perplexity" in printed["evaluate"]
    listed = printed["substitutes"].splitlines()
    assert len(listed) == 5
    assert listed[0].split()[1] == "bank"  # the model has learned this small text by heart
    assert printed["python"].count("\n") == 2
