"""Pairs of texts for `runs/seq2seq.sh`, split and written the same way each time:

- Multi30k in lower case with punctuation apart, as its small published models read and score it;
- Tatoeba from Chinese to English: all translations of an English sentence are in one part, and
  Chinese has a space after every character;
- some Chinese text with the same spaces, for a language model;
- BBC headlines: all articles with the same text are in one part;
- for language models, each side of Tatoeba, and e-mails and articles as lines of text.

    python runs/split_seq2seq.py DATA OUT
"""

import argparse
import json
import lzma
import random
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import TypeVar

from elmore.text.tokenize import words

T = TypeVar("T")

_N_HELD_OUT = 1_000  # English sentences of Tatoeba, for development and for the test
_N_ARTICLES = 200  # of the BBC, the same
_N_CHINESE = 150_000  # lines
_N_DEV = 3_000  # lines of e-mails, for the perplexity


def main() -> int:
    parser = argparse.ArgumentParser(description="Write the pairs of runs/seq2seq.sh.")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    data, out = given.data, given.out
    out.mkdir(parents=True, exist_ok=True)
    for part in ("train", "val", "test_2016_flickr"):
        for language in ("de", "en"):
            lines = _lines(data / f"mt/multi30k/{part}.{language}.xz")
            lower = (" ".join(words(line)).lower() for line in lines)
            _write(out / f"m30k.{part}.{language}", lower)
    pairs = [line.split("\t")[:2] for line in _lines(data / "mt/tatoeba.en-zh.tsv.xz")]
    for part, kept in parts(pairs, [english for english, _ in pairs], _N_HELD_OUT).items():
        _write(out / f"tatoeba.{part}.tsv", (f"{spaced(zh)}\t{en}" for en, zh in kept))
        _write(out / f"tatoeba.{part}.zh", (spaced(zh) for _, zh in kept))
        _write(out / f"tatoeba.{part}.en", (en for en, _ in kept))
    chinese = islice(_lines(data / "zh/lm/wiki.train.txt.xz"), _N_CHINESE)
    _write(out / "wiki.zh", (spaced(line) for line in chinese if line))
    articles = [json.loads(line) for line in _lines(data / "summ/bbc_headlines.jsonl.xz")]
    for part, some in parts(articles, [each["body"] for each in articles], _N_ARTICLES).items():
        rows = [{"body": each["body"], "title": each["title"]} for each in some]
        _write(out / f"bbc.{part}.jsonl", map(json.dumps, rows))
        _write(out / f"bbc.{part}.txt", text_lines(each.values() for each in rows))
    for part in ("train", "dev"):
        mails = [json.loads(line) for line in _lines(data / f"summ/aeslc_{part}.jsonl.xz")]
        texts = text_lines((each["body"], each["subject"]) for each in mails)
        _write(out / f"aeslc.{part}.txt", islice(texts, None if part == "train" else _N_DEV))
    return 0


def parts(items: Sequence[T], keys: Sequence[str], n: int) -> dict[str, list[T]]:
    """Items with the same key stay together; `n` keys for the test and for development each."""
    distinct = sorted(set(keys))
    random.Random(1).shuffle(distinct)
    part_of = {key: "test" if i < n else "dev" for i, key in enumerate(distinct[: 2 * n])}
    found: dict[str, list[T]] = {"train": [], "dev": [], "test": []}
    for item, key in zip(items, keys, strict=True):
        found[part_of.get(key, "train")].append(item)
    return found


def text_lines(texts: Iterable[Iterable[str]]) -> Iterable[str]:
    """Every line of every text once."""
    found = (line.strip() for fields in texts for field in fields for line in field.splitlines())
    return dict.fromkeys(line for line in found if line)


def spaced(text: str) -> str:
    """A space after every Chinese character; other words stay whole."""
    return " ".join("".join(f" {c} " if c > "\u2e7f" else c for c in text).split())


def _lines(path: Path) -> Iterable[str]:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        yield from (line.rstrip("\n") for line in file)


def _write(path: Path, lines: Iterable[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main())
