"""Senses by nearest neighbours: the scorer and both rules against hand-worked cases and loops,
and the whole experiment on files small enough to know every answer."""

import json
import lzma
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt
import pytest

from elmore.embedder import Embedder
from elmore.embedding import Embedding
from elmore.errors import ConfigError, InputError
from elmore.tasks.readers.senses import SenseUse
from elmore.tasks.scorers.sense_score import SenseScore
from elmore.tasks.wsd import WsdReport, by_mean, by_nearest, sense_order, wsd
from tests.shared import SHARED, needs
from tests.tasks.contexts import WordBefore, write_semcor, write_set

SHORE, MONEY = "bank%1:17:01::", "bank%1:14:00::"
FISH = "bass%1:05:00::"
KNOWN = [
    [("river", None), ("bank", SHORE)],
    [("savings", None), ("bank", MONEY)],
    [("savings", None), ("bank", MONEY)],
    [("big", None), ("bass", FISH)],
    [("nothing", "nothing%4:02:00::"), ("wanted", None)],
]
DEV = [[("river", None), ("bank", SHORE)], [("savings", None), ("bank", MONEY)]]
TEST = [
    [("river", None), ("bank", f"bank%1:06:00:: {SHORE}"), ("bass", "bass%1:10:01::")],
    [("unseen", "unseen%1:03:00::")],
]


# The rules ----------------------------------------------------------------------------------------


def cosine(a: npt.NDArray[np.float32], b: npt.NDArray[np.float32]) -> float:
    return float(a @ b) / math.sqrt(float(a @ a) * float(b @ b))


def problem(seed: int) -> tuple[npt.NDArray[np.float32], list[int], npt.NDArray[np.float32]]:
    draw = np.random.default_rng(seed)
    known = draw.normal(size=(40, 5)).astype(np.float32)
    senses = [0, 1, 2, *draw.integers(3, size=37).tolist()]
    return known, senses, draw.normal(size=(15, 5)).astype(np.float32)


def tags(senses: list[int]) -> npt.NDArray[np.float32]:
    return np.eye(max(senses) + 1, dtype=np.float32)[senses]


@pytest.mark.parametrize("seed", range(5))
def test_both_rules_do_what_a_plain_loop_does(seed: int):
    known, senses, asked = problem(seed)
    means = [
        np.mean([v for v, s in zip(known, senses, strict=True) if s == k], 0) for k in range(3)
    ]
    nearest = [max(range(40), key=lambda i, v=v: cosine(v, known[i])) for v in asked]
    mean = [max(range(3), key=lambda k, v=v: cosine(v, means[k])) for v in asked]
    assert by_nearest(known, tags(senses), asked).tolist() == [senses[i] for i in nearest]
    assert by_mean(known, tags(senses), asked).tolist() == mean
    assert [senses[i] for i in nearest] != mean, "the rules must differ for this to tell them apart"


def test_of_equally_near_uses_the_sense_most_of_them_have_wins():
    known = np.array([[1, 0], [1, 0], [2, 0], [0, 1], [0, 3], [0, 5], [0, 1]], np.float32)
    found = by_nearest(known, tags([0, 1, 1, 0, 0, 0, 0]), np.array([[3, 0], [0, 1]], np.float32))
    assert found.tolist() == [1, 0]


def test_equal_directions_are_equally_near_whatever_rounding_makes_of_them():
    draw = np.random.default_rng(0)
    direction = draw.normal(size=300).astype(np.float32)
    known = direction * draw.uniform(0.1, 9, size=(60, 1)).astype(np.float32)
    senses = [0, 1] * 29 + [1, 1]
    asked = direction * draw.uniform(0.1, 9, size=(20, 1)).astype(np.float32)
    assert by_nearest(known, tags(senses), asked).tolist() == [1] * 20


@pytest.mark.parametrize("rule", [by_mean, by_nearest])
def test_a_use_without_a_vector_gets_the_first_sense(rule):
    known = np.array([[1, 0], [0, 1], [0, 1], [0, -1]], np.float32)
    assert rule(known, tags([0, 1, 0, 0]), np.zeros((1, 2), np.float32)).tolist() == [0]


def test_a_use_tagged_with_two_senses_counts_for_both():
    both = np.array([[1, 1], [1, 0], [0, 1]], np.float32)
    known = np.array([[1, 0], [0, 1], [1, 0.1]], np.float32)
    assert by_mean(known, both, np.array([[1, 0.06]], np.float32)).tolist() == [1]


def test_senses_are_ordered_by_frequency_and_then_as_they_were_met():
    lemma = ("bank", "NOUN")
    uses = [SenseUse(0, 1, lemma, keys) for keys in [("b",), ("a",), ("c",), ("c", "a")]]
    assert sense_order(uses) == {lemma: ["a", "c", "b"]}


# The experiment -----------------------------------------------------------------------------------


def run(folder: Path, encoder: WordBefore | Embedder, known=KNOWN) -> WsdReport:
    semcor = write_semcor(folder / "semcor.jsonl", known)
    sets = [write_set(folder / f"{n}.data.xml", s) for n, s in (("dev", DEV), ("test", TEST))]
    return wsd(encoder, [semcor], sets, dev="dev")


def test_context_tells_senses_apart_that_spelling_cannot(tmp_path: Path):
    report = run(tmp_path, WordBefore())
    found = {(row.vectors, row.rule): row.scores for row in report.rows}
    # dev: a river bank and a savings bank; the most frequent sense is money
    assert report.first_sense.scores["dev"] == SenseScore(2, 2, 1)
    for rule in ("mean", "nearest"):
        assert found["layer 0", rule]["dev"] == SenseScore(2, 2, 1)
        assert found["layer 1", rule]["dev"] == SenseScore(2, 2, 2)
    # test: a second sense key is as good; `bass` has one known sense, the wrong one; one is unseen
    assert report.first_sense.scores["test"] == SenseScore(3, 2, 0)
    assert found["layer 1", "mean"]["test"] == SenseScore(3, 2, 1)
    assert report.unseen == 1
    assert report.chosen.vectors == "layer 1"


def test_the_table_has_every_set_the_test_sets_and_all_of_them(tmp_path: Path):
    first, *rows = run(tmp_path, WordBefore()).table()
    assert first == {
        "vectors": "first sense", "rule": "", "dev": 50.0, "test": 0.0, "all but dev": 0.0,
        "all": pytest.approx(2 * 100 / 9), "chosen": False,
    }  # fmt: skip
    assert [row["vectors"] for row in rows if row["chosen"]] == ["layer 1"]
    assert json.loads(json.dumps(rows)) == rows


def test_each_sentence_is_embedded_once_and_only_where_there_is_a_choice(tmp_path: Path):
    encoder = WordBefore()
    run(tmp_path, encoder)
    with_bank = [tuple(w for w, _ in s) for s in (*KNOWN, *DEV, *TEST) if "bank" in dict(s)]
    assert encoder.asked == with_bank


def test_both_layouts_of_semcor_give_the_same(tmp_path: Path):
    expected = run(tmp_path, WordBefore()).table()
    semcor = write_set(tmp_path / "semcor.data.xml", KNOWN)
    sets = [tmp_path / "dev.data.xml", tmp_path / "test.data.xml"]
    assert wsd(WordBefore(), [semcor], sets, dev="dev").table() == expected


def test_a_model_answers_with_each_of_its_layers(tmp_path: Path, tiny_embedder: Embedder):
    report = run(tmp_path, tiny_embedder)
    assert {row.vectors for row in report.rows} == {"layer 0", "layer 1", "layer 2", "average"}
    found = {row.vectors: row.scores["dev"].right for row in report.rows if row.rule == "nearest"}
    assert found["layer 0"] == 1  # one spelling, one vector: it cannot do better than the first
    assert found["layer 1"] == found["layer 2"] == 2  # sentences that SemCor has, word for word


def test_a_development_set_that_is_not_there_is_refused(tmp_path: Path):
    path = write_set(tmp_path / "one.data.xml", DEV)
    with pytest.raises(ConfigError, match="'semeval2007', but the sets are one"):
        wsd(WordBefore(), [write_semcor(tmp_path / "s.jsonl", KNOWN)], [path])


def test_a_set_given_twice_is_refused(tmp_path: Path):
    path = write_set(tmp_path / "dev.data.xml", DEV)
    with pytest.raises(InputError, match="a set named dev is there already"):
        wsd(WordBefore(), [write_semcor(tmp_path / "s.jsonl", KNOWN)], [path, path], dev="dev")


def test_a_corpus_without_any_of_the_words_is_refused(tmp_path: Path):
    with pytest.raises(InputError, match=r"semcor\.jsonl: has no sense of any word of dev"):
        run(tmp_path, WordBefore(), known=[])


@needs("data", "tasks", "wsd")
def test_without_vectors_every_way_is_the_first_sense_as_counted_straight_from_the_files():
    folder = SHARED / "data" / "tasks" / "wsd"
    semcor, data = folder / "semcor3.0_brown2.jsonl.xz", folder / "semeval2007.data.xml.xz"
    report = wsd(Nothing(), [semcor], [data])
    gold, lemmas = _gold(folder), _lemmas(data)
    counts = _counts(semcor)
    given = {i: counts[lemma].most_common(1)[0][0] for i, lemma in lemmas.items() if counts[lemma]}
    right = sum(answer in gold[i] for i, answer in given.items())
    for row in (report.first_sense, *report.rows):
        assert row.scores["semeval2007"] == SenseScore(455, len(given), right)
    assert report.unseen == 455 - len(given)


class Nothing:
    """Zeros for every word."""

    n_layers, dim, fingerprint, context_free = 1, 1, "", True

    def stream(self, items: Iterable[Any], *, key: Callable[[Any], Any]) -> Iterator[Any]:
        for item in items:
            words = list(key(item))
            yield item, Embedding(words, np.zeros((1, len(words), 1), np.float32))


def _gold(folder: Path) -> dict[str, list[str]]:
    with lzma.open(folder / "semeval2007.gold.key.txt.xz", "rt") as file:
        return {line.split()[0]: line.split()[1:] for line in file}


def _lemmas(data: Path) -> dict[str, tuple[str, str]]:
    with lzma.open(data) as file:
        return {
            e.attrib["id"]: (e.attrib["lemma"], {"NOUN": "1", "VERB": "2"}[e.attrib["pos"]])
            for e in ElementTree.parse(file).iter("instance")
        }


def _counts(semcor: Path) -> dict[tuple[str, str], Counter[str]]:
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    with lzma.open(semcor, "rt", encoding="utf-8") as file:
        tokens = [token for line in file for token in json.loads(line)["tokens"]]
    for _, lemma, pos, key, _ in tokens:
        if key and pos != "NNP":
            senses = key.partition("%")[2].split(";")
            counts[lemma, senses[0][0]].update(f"{lemma}%{sense}" for sense in senses)
    return counts
