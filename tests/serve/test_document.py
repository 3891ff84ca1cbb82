"""docs/serve.md tells the truth: its Python and its requests run against a real server."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI

from elmore import Embedder, Index
from elmore.published import catalog
from tests.serve.running import running
from tests.test_documents import blocks

TEXT = ["We sat on the river bank .", "My bank account ."] * 3


def test_every_block_runs(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(catalog, "files", lambda _: tmp_path)
    shutil.copytree(tiny_model, tmp_path / "pretrained" / "small-en")
    Index.build(TEXT, Embedder.load("small-en"), "wiki.index")
    served: list[FastAPI] = []
    monkeypatch.setattr(uvicorn, "run", lambda app, **_: served.append(app))
    command, curl, client, server = [text for language, text in blocks("docs/serve.md") if language]
    exec(compile(server, "serve.md", "exec"), {})
    assert "elmore serve --model small-en --index wiki.index" in command
    with running(served[0]) as address:
        names: dict[str, Any] = {}
        exec(compile(client.replace("http://127.0.0.1:8000", address), "serve.md", "exec"), names)
        assert names["layers"].shape[:2] == (3, 7)
        if shutil.which("curl"):
            asked = curl.replace("localhost:8000", address)
            done = subprocess.run(asked, shell=True, capture_output=True, check=True)
            assert len(json.loads(done.stdout)["sentences"]) == 2
