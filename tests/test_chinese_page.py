"""docs/zh/chinese.md tells the truth: its commands and its Python run, in order, on a few lines of
Chinese, and print what the page says they print."""

import contextlib
import io
import json
import shlex
from pathlib import Path

import pytest

from elmore.cli.main import main
from elmore.demo.ambiguous_words import read_uses
from tests.tasks.readers.test_wic import ROW
from tests.test_documents import INSTALLING, ROOT, blocks, reader

PAGE = "docs/zh/chinese.md"
WEIBO = "科0\tB-LOC\n技1\tI-LOC\n很0\tO\n好1\tO\n\n我0\tO\n爱0\tO\n北0\tB-LOC\n京1\tI-LOC\n\n"
HOTEL = "label,review\n1,房间很大，不错！\n0,服务太差了。\n"
CONTEXT = "小明昨天去了北京大学。"

__all__ = ["reader"]


@pytest.fixture
def chinese_reader(reader: Path) -> Path:
    """Somebody with a text and files of every kind."""
    text = "".join("".join(use.words) + "\n" for use in read_uses("zh"))
    (reader / "corpus.txt").write_text(text, encoding="utf-8")
    (reader / "reviews.txt").write_text("房间不错。\n", encoding="utf-8")
    answer = {"text": "北京大学", "answer_start": CONTEXT.index("北京大学")}
    question = {"id": "1", "question": "小明去了哪里？", "answers": [answer]}
    paragraph = {"context": CONTEXT, "qas": [question]}
    squad = {"version": "1", "data": [{"title": "t", "paragraphs": [paragraph]}]}
    for part in ("train", "dev", "test"):
        (reader / f"weibo.{part}.conll").write_text(WEIBO, encoding="utf-8")
        (reader / f"hotel.{part}.csv").write_text(HOTEL, encoding="utf-8")
        (reader / f"cmrc.{part}.json").write_text(json.dumps(squad), encoding="utf-8")
        (reader / f"mclwic.{part}.jsonl").write_text(json.dumps(ROW) + "\n", encoding="utf-8")
    return reader


@pytest.mark.slow
def test_every_block_runs_and_prints_what_it_says(chinese_reader: Path):
    printed, names = "", {"__name__": "page"}
    for language, text in blocks(PAGE):
        match language:
            case "console":
                for command in text.splitlines():
                    if not command.startswith(INSTALLING):
                        assert main(shlex.split(command)[1:]) == 0, command
            case "python":
                with contextlib.redirect_stdout(io.StringIO()) as caught:
                    exec(compile(text, PAGE, "exec"), names)
                printed = caught.getvalue()
            case "text":
                assert printed == text
    assert (chinese_reader / "weibo-compared" / "table.md").exists()
    assert (ROOT / "runs" / "segment.py").exists()
