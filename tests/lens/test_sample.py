"""The sample of a corpus: drawn from all of it, the same every time, whole if there is little."""

from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.files.sentence_files import SentenceFiles
from elmore.lens.sample import draw, from_file, to_text


def corpus(folder: Path, n_lines: int) -> SentenceFiles:
    lines = [f"line {i} has these words" for i in range(n_lines)]
    for part, some in enumerate((lines[: n_lines // 2], lines[n_lines // 2 :])):
        (folder / f"{part}.txt").write_text("\n\n".join(some) + "\nshort\n", encoding="utf-8")
    return SentenceFiles([folder / "0.txt", folder / "1.txt"], as_is=True)


def numbers(sentences: list[list[str]]) -> list[int]:
    return [int(words[1]) for words in sentences]


def test_lines_of_the_whole_corpus_are_drawn(tmp_path: Path):
    files = corpus(tmp_path, 3_000)
    found = numbers(draw(files, 1_000, 1, lambda _: None))
    assert 200 <= len(found) <= 210  # of five words each
    assert len(set(found)) == len(found)
    assert 60 < sum(number < 1_500 for number in found) < 140  # from both halves alike
    assert found != sorted(found)


def test_the_same_seed_draws_the_same(tmp_path: Path):
    files = corpus(tmp_path, 500)
    one, same, other = (draw(files, 1_000, seed, lambda _: None) for seed in (1, 1, 2))
    assert one == same
    assert one != other


def test_a_small_corpus_is_taken_whole(tmp_path: Path):
    found = numbers(draw(corpus(tmp_path, 100), 1_000_000, 1, lambda _: None))
    assert sorted(found) == list(range(100))


def test_raw_text_is_split(tmp_path: Path):
    (tmp_path / "raw.txt").write_text("We sat down. It rained!\n", encoding="utf-8")
    files = SentenceFiles([tmp_path / "raw.txt"], tokenize=True)
    found = draw(files, 1_000, 1, lambda _: None)
    assert sorted(found) == [["It", "rained", "!"], ["We", "sat", "down", "."]]


def test_nothing_to_learn_from_is_one_line(tmp_path: Path):
    (tmp_path / "empty.txt").write_text("\n\nword\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"empty\.txt: no sentence of two words or more"):
        draw(SentenceFiles([tmp_path / "empty.txt"]), 1_000, 1, lambda _: None)


def test_what_was_drawn_is_read_again(tmp_path: Path):
    sentences = [["a", "b\u00a0c"], ["\u82f9\u679c", '"', "\\"]]
    (tmp_path / "sample").write_text(to_text(sentences), encoding="utf-8")
    assert from_file(tmp_path / "sample") == sentences
    (tmp_path / "sample").write_text('["a", 3]\n', encoding="utf-8")
    with pytest.raises(InputError, match="damaged; remove"):
        from_file(tmp_path / "sample")
