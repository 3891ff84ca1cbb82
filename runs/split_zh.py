"""Chinese sets that come in one piece, split the same way each time: every tenth review (hotel) and
sentence (MSRA) is tested on, the one after it chooses the epoch; of CMRC's trial questions, those
of every tenth article choose the epoch.

    python runs/split_zh.py DATA OUT
"""

import argparse
import json
import lzma
from collections.abc import Sequence
from pathlib import Path

_TENTH = 10


def main() -> int:
    parser = argparse.ArgumentParser(description="Split the Chinese sets.")
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    given = parser.parse_args()
    zh, out = given.data / "zh", given.out
    header, *reviews = _text(zh / "ChnSentiCorp_htl_all.csv.xz").splitlines(keepends=True)
    written = [line for line in reviews if line.partition(",")[2].strip(' "\n')]
    write_thirds(written, out / "hotel.{}.csv", header)
    sentences = _text(zh / "ner_dh_msra.txt.xz").strip().split("\n\n")
    write_thirds([f"{sentence}\n\n" for sentence in sentences], out / "msra.{}.txt")
    split_questions(json.loads(_text(given.data / "tasks/squad/cmrc2018.trial.json.xz")), out)
    return 0


def write_thirds(items: Sequence[str], name: Path, header: str = "") -> None:
    """Tests and development are a tenth each."""
    parts = {
        "test": items[::_TENTH],
        "dev": items[1::_TENTH],
        "train": [item for i, item in enumerate(items) if i % _TENTH > 1],
    }
    for part, kept in parts.items():
        path = name.with_name(name.name.format(part))
        path.write_text(header + "".join(kept), encoding="utf-8")


def split_questions(squad: dict[str, object], out: Path) -> None:
    articles = squad["data"]
    assert isinstance(articles, list)
    parts = {
        "train": [article for i, article in enumerate(articles) if i % _TENTH],
        "dev": articles[::_TENTH],
    }
    for part, kept in parts.items():
        text = json.dumps({**squad, "data": kept}, ensure_ascii=False)
        (out / f"cmrc.{part}.json").write_text(text, encoding="utf-8")


def _text(path: Path) -> str:
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    raise SystemExit(main())
