"""docs/store.md tells the truth: its commands and its Python run, in order."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from elmore.cli.main import main

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "store.md"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TEXT = "We sat on the river bank .\nMy bank\nMy bank account\n"


def test_every_block_runs(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("pyarrow", reason="needs the extra arrow")
    shutil.copytree(tiny_model, tmp_path / "my-model")
    (tmp_path / "squad.txt").write_text(TEXT)
    monkeypatch.chdir(tmp_path)
    for language, block in BLOCK.findall(DOCUMENT.read_text(encoding="utf-8")):
        if language == "python":
            exec(compile(block, str(DOCUMENT), "exec"), {})
            for day in ("monday", "tuesday"):
                shutil.copytree("squad.store", f"{day}.store")
            continue
        for command in block.splitlines():
            assert main(shlex.split(command, comments=True)[1:]) == 0, command
