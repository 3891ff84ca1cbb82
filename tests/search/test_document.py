"""docs/explorer.md tells the truth: its commands and its Python run, in order, on a small text."""

import shlex
import shutil
from pathlib import Path

import pytest

from elmore.cli.main import main
from elmore.published import catalog
from tests.test_documents import blocks, reader  # noqa: F401


def test_every_block_runs(
    reader: Path,  # noqa: F811
    tiny_model: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setattr(catalog, "files", lambda _: reader)
    shutil.copytree(tiny_model, reader / "pretrained" / "small-en")
    shutil.copy(reader / "examples" / "harbor.txt", "wiki.train.txt")
    for language, block in blocks("docs/explorer.md"):
        if language == "python":
            shutil.rmtree("wiki.index")
            exec(compile(block, "explorer.md", "exec"), {})
        for command in block.splitlines() if language == "console" else []:
            words = shlex.split(command, comments=True)[1:]
            if words[0] == "serve":
                words = ["serve", "--help"]  # a server would not end
            assert main(words) == 0, command
    assert "bank" in capsys.readouterr().out
