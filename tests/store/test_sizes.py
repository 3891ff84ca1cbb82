"""A plan says what the store then takes, to the byte."""

import json
import lzma
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.files.lock import LOCK
from elmore.store.keep import Projection
from elmore.store.layout import MANIFEST
from elmore.store.precision import PRECISIONS, Codec, Precision
from elmore.store.sizes import Counts, count, hdf5_bytes, plan, store_bytes
from elmore.store.store import Store
from elmore.text.tokenize import words
from tests.shared import SHARED, needs
from tests.store.waves import D, L, sentences, waves


def taken(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.iterdir() if p.name not in (MANIFEST, LOCK))


def test_distinct_sentences_are_counted_once():
    counts = count([["a", "b"], "a b", ["c"], ["a", "b"], []])
    assert (counts.sentences, counts.words) == (5, 7)
    assert (counts.distinct_sentences, counts.distinct_words) == (3, 3)
    assert counts.text_bytes == len(b"a\nb\nc\n")
    assert counts.lengths == {2: 1, 1: 1, 0: 1}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("n", [50, 800])
def test_the_plan_is_what_it_takes(tmp_path: Path, precision: Precision, n: int):
    counts = count(sentences(n) * 2)
    sizes = {(s.keep, s.precision): s.bytes for s in plan(counts, L, D, projected=5)}
    projection = Projection.learn(waves().stream(sentences(40)), 5)
    for name, keep in (
        ("all 3 layers", "all"),
        ("2 layers", [1, 2]),
        ("one layer, average or mix", "average"),
        ("projection to 5", projection),
    ):
        store = Store.create(tmp_path / name, waves(), keep=keep, precision=precision)
        store.fill(sentences(n) * 2)
        assert taken(store.path) == sizes[name, precision]


def test_an_empty_text_has_a_plan():
    counts = count([])
    assert counts == Counts()
    assert all(size.bytes > 0 for size in plan(counts, L, D))
    assert store_bytes(counts, Codec("float32", 1, 1)) == 1024 * 8  # the smallest index


def test_the_size_of_allennlps_file_is_near(tmp_path: Path):
    asked = sentences(3000)
    with h5py.File(tmp_path / "a.hdf5", "w") as file:
        for i, sentence in enumerate(asked):
            file.create_dataset(str(i), data=np.zeros((L, len(sentence), 64), np.float32))
    real = (tmp_path / "a.hdf5").stat().st_size
    assert hdf5_bytes(count(asked), L, 64) == pytest.approx(real, rel=0.02)


SQUAD = ("data", "tasks", "squad", "squad1.1-dev-split.train.json.xz")


@needs(*SQUAD)
def test_squad_mixed_in_int8_and_stored_once_is_forty_times_smaller():
    """Each question with its paragraph, as a training epoch asks; the original's 3 × 1024."""
    data = json.loads(lzma.decompress(SHARED.joinpath(*SQUAD).read_bytes()))["data"]
    asked: list[list[str]] = []
    for paragraph in (p for article in data for p in article["paragraphs"]):
        context = words(paragraph["context"])
        for question in paragraph["qas"]:
            asked += [context, words(question["question"])]
    counts = count(asked)
    assert counts.sentences == 2 * 8001
    (mixed,) = (
        s for s in plan(counts, 3, 1024) if s.precision == "int8" and s.keep.startswith("one layer")
    )
    assert mixed.bytes * 40 < counts.words * 3 * 1024 * 4
