"""docs/formats.md tells the truth: its Python runs."""

from pathlib import Path

import pytest

from tests.checkpoint.foreign_models import make_task, pack_tar
from tests.test_documents import blocks


def test_every_block_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    make_task(tmp_path / "ner", n_mixes=1)
    pack_tar(tmp_path / "ner", tmp_path / "ner-model.tar.gz")
    ((_, block),) = [block for block in blocks("docs/formats.md") if block[0]]
    names: dict[str, object] = {}
    exec(compile(block, "formats.md", "exec"), names)
    assert "mix" in names
