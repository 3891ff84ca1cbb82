"""Both kinds of batches: nothing of the text is lost or doubled, and any batch can be resumed."""

import time
import tracemalloc
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch

from elmore.pretrain.batches import (
    OpenStream,
    RowBatch,
    RowBatches,
    RowsConfig,
    SentenceBatch,
    SentenceBatches,
    SentencesConfig,
)
from elmore.pretrain.sentences import ReadingConfig, SentenceStream
from elmore.text.vocabulary import Vocabulary, WordReader
from tests.pretrain.tiny_runs import corpus

MARKS = ["<S>", "</S>", "<UNK>"]


def opener(files: list[Path], block: int = 2, buffer: int = 5) -> OpenStream:
    def open_stream(direction, position):
        config = ReadingConfig(block=block, buffer=buffer)
        seed = (1, direction == "backward")
        return SentenceStream(files, config, seed=seed, start=position)

    return open_stream


def words_of(files: list[Path]) -> Vocabulary:
    found = sorted({word for path in files for word in path.read_text().split()})
    return Vocabulary([*MARKS, *found])


def row_batches(files: list[Path], rows: int = 3, steps: int = 4, **reading) -> RowBatches:
    """Spelled by the vocabulary itself: a word's row is its id, so that texts can be read back."""
    vocabulary = words_of(files)
    return RowBatches(
        opener(files, **reading),
        RowsConfig(rows=rows, steps=steps),
        WordReader(vocabulary),
        vocabulary,
    )


def sentence_batches(files: list[Path], words: int = 40, max_words: int = 12) -> SentenceBatches:
    vocabulary = words_of(files)
    config = SentencesConfig(words=words, max_words=max_words)
    return SentenceBatches(opener(files), config, WordReader(vocabulary), vocabulary, seed=1)


def read_back(batches: list[RowBatch], vocabulary: Vocabulary, d: int, row: int):
    """What one row of one direction read, and what it was to predict."""
    read = [int(b.spelled[i, 0]) for b in batches for i in b.index[d, :, row]]
    targets = [int(i) for b in batches for i in b.targets[d, :, row]]
    return [vocabulary.words[i] for i in read], [vocabulary.words[i] for i in targets]


@pytest.mark.parametrize("steps", [1, 4, 50])
def test_rows_reassemble_the_text_with_its_marks(tmp_path: Path, steps: int):
    """Forward a row reads <S> w… and predicts w… </S>; backward </S> w… reversed, and <S>."""
    files = corpus(tmp_path, n_files=1, n_sentences=9)
    text = [line.split() for line in files[0].read_text().splitlines()]
    n = sum(len(words) + 1 for words in text)
    rows = row_batches(files, rows=1, steps=steps, buffer=1)
    batches = list(islice(rows, -(-n // steps)))
    forward = [["<S>", *words, "</S>"] for words in text]
    for d, sequences in enumerate([forward, [sequence[::-1] for sequence in forward]]):
        read, predicted = read_back(batches, rows.vocabulary, d, 0)
        assert read[:n] == [word for sequence in sequences for word in sequence[:-1]]
        assert predicted[:n] == [word for sequence in sequences for word in sequence[1:]]


def test_several_rows_read_every_sentence_between_them(tmp_path: Path):
    files = corpus(tmp_path, n_files=1, n_sentences=20)
    text = sorted(" ".join(line.split()) for line in files[0].read_text().splitlines())
    rows = row_batches(files, rows=3, steps=7)
    batches = list(islice(rows, 30))
    found = []
    for row in range(3):
        read, _ = read_back(batches, rows.vocabulary, 0, row)
        found += " ".join(read).split("<S> ")[1:-1]  # the last may be cut
    assert {s.strip() for s in found} == set(text)


def test_a_word_of_a_batch_is_spelled_once(tmp_path: Path):
    batch = next(iter(row_batches(corpus(tmp_path), rows=8, steps=20)))
    assert len(np.unique(batch.spelled, axis=0)) == len(batch.spelled)


def test_words_outside_the_vocabulary_are_to_be_predicted_as_unknown(tmp_path: Path):
    files = corpus(tmp_path, n_files=1)
    few = Vocabulary([*MARKS, "w1", "w2"])
    batches = RowBatches(opener(files), RowsConfig(rows=2, steps=30), WordReader(few), few)
    targets = next(iter(batches)).targets
    assert (targets == few.unknown).sum() > 30
    assert targets.max() < len(few)


def same(a: RowBatch | SentenceBatch, b: RowBatch | SentenceBatch) -> bool:
    if isinstance(a, RowBatch) and isinstance(b, RowBatch):
        pairs = [(a.spelled, b.spelled), (a.index, b.index), (a.targets, b.targets)]
    else:
        assert isinstance(a, SentenceBatch)
        assert isinstance(b, SentenceBatch)
        pairs = [(a.words.spelled, b.words.spelled), (a.words.index, b.words.index), (a.ids, b.ids)]
    return all(np.array_equal(x, y) for x, y in pairs)


@pytest.mark.parametrize("kind", ["rows", "sentences"])
def test_a_state_restored_at_any_batch_goes_on_exactly(tmp_path: Path, kind: str, monkeypatch):
    """The state travels through the file format of checkpoints; windows are 5 batches, so that
    states at the very end of one are among them."""
    monkeypatch.setattr(SentenceBatches, "_WINDOW_BATCHES", 5)
    files = corpus(tmp_path / "text", n_sentences=15)
    build = row_batches if kind == "rows" else sentence_batches
    whole = build(files)
    states, batches = [whole.state()], []
    for batch in islice(whole, 25):
        batches.append(batch)
        states.append(whole.state())
    for i, state in enumerate(states[:22]):
        torch.save(state, tmp_path / "state.pt")
        resumed = build(files)
        resumed.restore(torch.load(tmp_path / "state.pt", weights_only=True))
        assert resumed.state() == state
        for a, b in zip(resumed, batches[i : i + 3], strict=False):
            assert same(a, b)


def test_sentence_batches_hold_every_sentence_whole_within_the_budget(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(SentenceBatches, "_WINDOW_BATCHES", 4)
    files = corpus(tmp_path, n_files=1, n_sentences=30)
    batches = sentence_batches(files, words=60, max_words=400)
    text = [line.split() for line in files[0].read_text().splitlines()]
    found: list[str] = []
    for batch in batches:
        lengths = batch.words.lengths
        assert batch.ids.size <= 60
        for row, n in zip(batch.ids, lengths, strict=True):
            words = [batches.vocabulary.words[i] for i in row[:n]]
            assert (words[0], words[-1]) == ("<S>", "</S>")
            found.append(" ".join(words[1:-1]))
        if batches.stream.position.epoch > 1:
            break
    for words in text:
        assert found.count(" ".join(words)) >= text.count(words)


def test_longer_sentences_are_cut_not_dropped(tmp_path: Path):
    path = tmp_path / "long.txt"
    path.write_text(" ".join(f"w{i}" for i in range(30)) + "\n")
    batches = sentence_batches([path], words=14, max_words=12)
    pieces = set()
    for batch in islice(batches, 20):
        for row, n in zip(batch.ids, batch.words.lengths, strict=True):
            pieces.add(" ".join(batches.vocabulary.words[i] for i in row[1 : n - 1]))
    expected = [range(12), range(12, 24), range(24, 30)]
    assert pieces == {" ".join(f"w{i}" for i in part) for part in expected}


def test_a_line_of_a_million_words_is_read_in_rows_at_a_steady_pace(tmp_path: Path):
    """Cutting a step off must not cost a copy of what is left: that would be 8 MB a row and step.
    The words themselves are some 60 MB."""
    path = tmp_path / "line.txt"
    path.write_text("word " * 1_000_000 + "\n")
    vocabulary = Vocabulary([*MARKS, "word"])
    stream, config = opener([path], block=1, buffer=1), RowsConfig(rows=1, steps=20)
    batches = RowBatches(stream, config, WordReader(vocabulary), vocabulary)
    running = iter(batches)
    next(running)
    tracemalloc.start()
    before = time.process_time()
    for _ in range(500):
        batch = next(running)
    spent = time.process_time() - before
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert batch.index.shape == (2, 20, 1)
    assert spent < 2.0
    assert most < 4_000_000


def test_a_cut_long_sequence_reads_as_if_it_were_whole(tmp_path: Path):
    path = tmp_path / "line.txt"
    path.write_text(" ".join(f"w{i}" for i in range(2500)) + "\n")
    rows = row_batches([path], rows=1, steps=7, block=1, buffer=1)
    batches = list(islice(rows, 358))  # 2,506 steps
    words = ["<S>", *path.read_text().split(), "</S>"]
    for d, sequence in enumerate([words, words[::-1]]):
        read, predicted = read_back(batches, rows.vocabulary, d, 0)
        assert read[:2501] == sequence[:-1]
        assert predicted[:2501] == sequence[1:]
