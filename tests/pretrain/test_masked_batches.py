"""Documents in mapped files, and batches that go on exactly where they stopped."""

from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from elmore.errors import FormatError
from elmore.pretrain.masked_batches import MaskedBatch, MaskedBatches
from elmore.pretrain.masked_instances import InstancesConfig, Marks
from elmore.pretrain.piece_corpus import CHECKSUMS, PIECES, PieceCorpus, cut_documents, write_corpus

MARKS = Marks(1, 2, 3, np.zeros(70_000, dtype=bool))


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> PieceCorpus:
    rng = np.random.default_rng(0)
    documents = [
        [list(rng.integers(10, 70_000, rng.integers(1, 12))) for _ in range(rng.integers(1, 9))]
        for _ in range(300)
    ]
    folder = tmp_path_factory.mktemp("corpus") / "pieces"
    write_corpus(documents, folder)
    found = PieceCorpus(folder)
    assert len(found) == 300
    for i, document in enumerate(documents):
        assert [list(s) for s in found.document(i)] == document
    return found


def batches(corpus: PieceCorpus, rank: int = 0, n_ranks: int = 1) -> MaskedBatches:
    config = InstancesConfig(length=24)
    return MaskedBatches(corpus, config, MARKS, 2, seed=7, rank=rank, n_ranks=n_ranks)


def same(a: MaskedBatch, b: MaskedBatch) -> bool:
    return all(np.array_equal(getattr(a, name), getattr(b, name)) for name in a.__slots__)


def test_blank_lines_and_length_cut_documents():
    assert list(cut_documents([[1], [2, 3], None, None, [], [4]])) == [[[1], [2, 3]], [[4]]]
    assert [len(d) for d in cut_documents([[1, 2]] * 2500)] == [1024, 1024, 452]


def test_a_batch_has_rows_of_many_documents(tmp_path: Path):
    """Rows of one novel in a hundred batches running would teach which novel it is."""
    novels = [[[10 + novel] * 20 for _ in range(200)] for novel in range(40)]
    sentences = [sentence for novel in novels for sentence in (*novel, None)]
    write_corpus(cut_documents(sentences), tmp_path / "novels")
    some = islice(iter(batches(PieceCorpus(tmp_path / "novels"))), 50)
    met = [set(found.ids[found.segments == 0]) - {1, 2, 3} for found in some]  # first texts
    assert len(set.union(*met)) > 30


def test_going_on_draws_the_same_batches(corpus: PieceCorpus, monkeypatch: pytest.MonkeyPatch):
    """Across windows and passes: 300 documents are about 900 rows, 450 batches of 2."""
    monkeypatch.setattr("elmore.pretrain.masked_batches._WINDOW", 200)
    whole = batches(corpus)
    everything = list(islice(iter(whole), 700))
    assert whole.epoch >= 1
    for stop in (1, 99, 100, 101, 333, 600):
        first, second = batches(corpus), batches(corpus)
        list(islice(iter(first), stop))
        second.restore(first.state())
        rest = list(islice(iter(second), 40))
        assert all(same(a, b) for a, b in zip(everything[stop : stop + 40], rest, strict=True))


def test_batches_are_what_the_model_takes(corpus: PieceCorpus):
    for found in islice(iter(batches(corpus)), 300):
        assert found.lengths.sum() == len(found.ids) == len(found.segments)
        assert (np.diff(found.lengths) >= 0).all()
        assert (found.ids[found.begins] == 1).all()
        assert (np.diff(found.places) > 0).all()
        assert len(found.random_next) == len(found.lengths)
        assert not np.isin(found.targets, (1, 2)).any()


def test_passes_and_ranks_differ(corpus: PieceCorpus):
    first = next(iter(batches(corpus)))
    later = batches(corpus)
    later.epoch = 1
    assert not same(first, next(iter(later)))
    a, b = batches(corpus, 0, 2), batches(corpus, 1, 2)
    assert not same(next(iter(a)), next(iter(b)))


def test_damaged_files(corpus: PieceCorpus, tmp_path: Path):
    write_corpus([[[1, 2], [3]]], tmp_path / "c")
    pieces = tmp_path / "c" / PIECES
    whole = pieces.read_bytes()
    pieces.write_bytes(whole[:-1] + b"\x01")  # of valid form
    with pytest.raises(FormatError, match=r"pieces\.bin: damaged, its checksum differs; start the"):
        PieceCorpus(tmp_path / "c")
    (tmp_path / "c" / CHECKSUMS).unlink()  # as an earlier version wrote it
    PieceCorpus(tmp_path / "c")
    pieces.write_bytes(whole + b"more")
    with pytest.raises(FormatError, match="do not belong together"):
        PieceCorpus(tmp_path / "c")
    with pytest.raises(FormatError, match="cannot be read"):
        PieceCorpus(tmp_path / "none")
