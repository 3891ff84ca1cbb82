"""docs/migrating.md tells the truth: its Python runs, in order, and prints what it says."""

import contextlib
import io
import re
from pathlib import Path

import pytest
import torch

from elmore.integrations import allennlp, bilm_tf, elmoformanylangs, simple_elmo
from tests.checkpoint.foreign_models import make_manylangs, make_task, pack_tar, pack_zip
from tests.oracle import transformer_elmo
from tests.tiny_models import WORDS, make

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "migrating.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NEW_IMPORT = re.compile(r"`from (elmore[\w.]*) import ([\w, ]+)`")


def test_every_block_runs_and_prints_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    tiny = make(tmp_path / "published")
    pack_zip(tmp_path / "published", tmp_path / "209.zip")
    tiny.weights.rename("elmo_weights.hdf5")
    tiny.options_path.rename("elmo_options.json")
    Path("vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    W = make_task(tmp_path / "ner", n_mixes=1)
    pack_tar(tmp_path / "ner", tmp_path / "ner-model.tar.gz")
    before = transformer_elmo.task_archive_prefix(W)
    state = {name.removeprefix(before): torch.from_numpy(array) for name, array in W.items()}
    torch.save(state, "my_fine_tuned_elmo.th")
    make_manylangs(tmp_path / "zhs.model")
    Path("ud.conllu").write_text("1\tthe\n2\triver\n", encoding="utf-8")
    printed = ""
    for language, block in BLOCK.findall(TEXT):
        if language == "text":
            assert printed == block
            continue
        with contextlib.redirect_stdout(io.StringIO()) as caught:
            exec(compile(block, str(DOCUMENT), "exec"), {})
        printed = caught.getvalue()


def test_every_import_line_of_the_tables_is_true():
    found = NEW_IMPORT.findall(TEXT)
    assert {module for module, _ in found} == {
        module.__name__ for module in (allennlp, bilm_tf, elmoformanylangs, simple_elmo)
    }
    for module, names in found:
        exec(f"from {module} import {names}", {})
