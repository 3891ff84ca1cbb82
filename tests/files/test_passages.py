"""Where sentences stand: in the order of the files, with their lines and the text around them."""

from pathlib import Path

import pytest

from elmore.files.passages import passages
from elmore.files.sentence_files import SentenceFiles

RAW = """\
The boat lay at the bank. It was old, and nobody used it.

She went to the bank. “Is it open?” she asked.
他去了银行。银行很远。
"""
WRAPPED = """\
The harbor lay still that morning, and the boats that had
come in during the night were tied to the wall. Nobody
spoke, and the gulls, which had been quarreling over a
fish, rose together and flew out to sea in a long line.

She went to the bank with a letter in her hand, because
she wanted the money before noon. The clerk was asleep,
and the letter, which had been folded many times, was
hard to read even for somebody who was wide awake.
"""


def write(folder: Path, text: str, name: str = "a.txt") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


@pytest.mark.parametrize("text", [RAW, WRAPPED])
@pytest.mark.parametrize("tokenize", [True, False])
def test_the_sentences_are_those_of_the_files(tmp_path: Path, text: str, tokenize: bool):
    paths = [write(tmp_path, text), write(tmp_path, "One more .\n" * 60, "b.txt")]
    files = SentenceFiles(paths, tokenize=tokenize, as_is=True)
    found = list(passages(files))
    assert [words for passage in found for words, *_ in passage.sentences] == list(files)
    lines = text.splitlines()
    for passage in found[: -(-len(found) // 2)]:
        for words, line, start, end in passage.sentences:
            written = passage.text[start:end]
            assert "".join(words) == "".join(written.split())
            if passage.file == str(paths[0]):
                assert lines[line - 1].startswith(written[:8]) or written[:8] in lines[line - 1]


def test_short_lines_have_their_neighbors_around_them_and_a_blank_line_ends_a_passage(
    tmp_path: Path,
):
    path = write(tmp_path, "a b .\nc d .\n\ne f .\n" + "long line of words .\n" * 40)
    first, second, third, *_ = passages(SentenceFiles([path], as_is=True))
    assert first.text == "a b .\nc d ."
    assert second.text.startswith("e f .\nlong line")
    assert 400 <= len(second.text) < 440
    assert third.sentences[0].line > second.sentences[-1].line
