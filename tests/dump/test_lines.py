"""Streaming: memory that does not grow, and windows that do not depend on where reading began."""

import hashlib
import json
import tracemalloc
from collections.abc import Iterator

import numpy as np
import pytest

from elmore.dump import lines as windows
from elmore.dump.config import DumpConfig
from elmore.dump.lines import LineReader, SentenceMap, embedded
from elmore.embedder import Embedder
from elmore.errors import InputError

CONFIG = DumpConfig(batch_words=32)
WINDOW = 8 * 32  # words: Embedder.stream sorts eight batches' worth


def numbered(n: int) -> Iterator[str]:
    return (f"line {i} of {i % 7 * 'many '} words" for i in range(n))


def test_the_reader_is_never_more_than_a_window_ahead(tiny_embedder: Embedder):
    ahead = 0

    def watched() -> Iterator[str]:
        nonlocal ahead
        for line in numbered(600):
            ahead += len(line.split())
            assert ahead <= WINDOW + 12  # 12: the longest line may stand over
            yield line

    for window in embedded(tiny_embedder, LineReader(watched()), CONFIG):
        ahead -= sum(len(item.words) for item in window.items)
    assert ahead == 0


def test_memory_does_not_grow_with_the_input(tiny_embedder: Embedder):
    """Four times the lines, and not a tenth of their vectors more at the peak. (What waits for the
    garbage collector differs from run to run, by tens of kilobytes.)"""
    for _ in embedded(tiny_embedder, LineReader(numbered(1600)), CONFIG):
        pass  # the engine's table of words, bounded by itself, now knows them all
    peaks, sizes = [], []
    for n in (400, 1600):
        size = 0
        tracemalloc.start()
        for window in embedded(tiny_embedder, LineReader(numbered(n)), CONFIG):
            size += sum(item.vectors.nbytes for item in window.items)
        peaks.append(tracemalloc.get_traced_memory()[1])
        sizes.append(size)
        tracemalloc.stop()
    assert sizes[1] - sizes[0] > 1_000_000
    assert peaks[1] - peaks[0] < (sizes[1] - sizes[0]) / 10


def test_items_keep_the_order_and_the_text_of_lines(tiny_embedder: Embedder):
    lines = ["  b a ", "", "c", "\u3000", "d e f g"]
    (window,) = embedded(tiny_embedder, LineReader(lines), CONFIG)
    assert [item.index for item in window.items] == [0, 1, 2, 3, 4]
    assert [item.sentence for item in window.items] == ["b a", "", "c", "", "d e f g"]
    assert [item.vectors.shape[1] for item in window.items] == [2, 0, 1, 0, 4]


def test_a_window_carries_the_checksum_up_to_its_end(tiny_embedder: Embedder):
    lines = list(numbered(100))
    for window in embedded(tiny_embedder, LineReader(lines), CONFIG):
        read = "".join(line + "\n" for line in lines[: window.lines]).encode()
        assert window.items[-1].index == window.lines - 1
        assert window.sha256 == hashlib.sha256(read).hexdigest()


def test_reading_from_the_end_of_a_window_gives_the_same_bits(tiny_embedder: Embedder):
    whole = list(embedded(tiny_embedder, LineReader(numbered(200)), CONFIG))
    assert len(whole) > 3
    reader = LineReader(numbered(200))
    while reader.lines < whole[1].lines:
        reader.read()
    rest = list(embedded(tiny_embedder, reader, CONFIG))
    for a, b in zip(whole[2:], rest, strict=True):
        assert a.sha256 == b.sha256
        for one, other in zip(a.items, b.items, strict=True):
            np.testing.assert_array_equal(one.vectors, other.vectors)


def test_tokenize_takes_lines_as_raw_text(tiny_embedder: Embedder):
    raw = DumpConfig(tokenize=True)
    (window,) = embedded(tiny_embedder, LineReader(["Don't stop."]), raw)
    assert window.items[0].words == ["Do", "n't", "stop", "."]


def test_input_that_breaks_off_is_told_with_its_line():
    def broken() -> Iterator[str]:
        yield "fine"
        raise OSError(5, "Input/output error")

    reader = LineReader(broken())
    reader.read()
    with pytest.raises(InputError, match=r"after line 1 \(Input/output error\)"):
        reader.read()
    with pytest.raises(InputError, match=r"Line 1 .*surrogate"):
        LineReader(["\ud800"]).read()


def test_the_map_has_the_last_place_of_a_sentence_and_no_blank_lines():
    sentences = SentenceMap(wanted=True)
    for index, sentence in enumerate(["a", "", "ü", "a"]):
        sentences.add(sentence, index)
    assert json.loads(sentences.text() or "") == {"a": "3", "ü": "2"}
    assert SentenceMap(wanted=False).text() is None


def test_a_map_that_grows_too_large_is_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(windows, "MAX_MAP_BYTES", 100)
    sentences = SentenceMap(wanted=True)
    for index in range(100):
        sentences.add("the same again", index)
    assert not sentences.left_out
    for index in range(10):
        sentences.add(f"sentence number {index}", index)
    assert sentences.left_out
    assert sentences.text() is None
