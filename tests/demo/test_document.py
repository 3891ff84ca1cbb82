"""docs/demo.md tells the truth: its commands and its Python run, and its counts are the data's."""

import re
import shlex
import shutil
from pathlib import Path

import pytest

from elmore.cli.main import main
from elmore.demo.ambiguous_words import LANGUAGES, read_uses
from elmore.published import catalog

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "demo.md"
BLOCK = re.compile(r"^```(console|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_every_block_runs(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(catalog, "files", lambda _: tmp_path)
    shutil.copytree(tiny_model, tmp_path / "pretrained" / "small-en")
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall(DOCUMENT.read_text(encoding="utf-8"))
    assert len(blocks) == 3
    for language, block in blocks:
        if language == "python":
            exec(compile(block, str(DOCUMENT), "exec"), {})
            continue
        for command in block.splitlines():
            assert main(shlex.split(command)[1:]) == 0, command
    assert (tmp_path / "spring.html").exists()


def test_the_counts_are_those_of_the_sentences():
    text = DOCUMENT.read_text(encoding="utf-8")
    counts = []
    for language in LANGUAGES:
        uses = read_uses(language)
        counts += [len({use.word for use in uses}), len({(use.word, use.sense) for use in uses})]
    words, senses, chinese_words, chinese_senses = counts
    assert f"{words} English words with {senses} senses" in text
    assert f"{chinese_words} Chinese ones with {chinese_senses};" in text
    assert f"{sum(len(read_uses(language)) for language in LANGUAGES)} sentences" in text
