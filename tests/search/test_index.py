"""The index answers as a slow search over fresh vectors does, whatever has happened to it."""

from pathlib import Path

import numpy as np
import pytest

from elmore.embedder import Embedder
from elmore.errors import ConfigError, FormatError, InputError
from elmore.models.static import StaticVectors
from elmore.search import approximate
from elmore.search.index import Index
from tests.search.corpora import corpus, exact
from tests.store.waves import wave, waves
from tests.tiny_bert import tiny_bert
from tests.tiny_models import make

SENTENCES = corpus(60)
ASKED = ["the", "bank", "was", "near", "the", "river"]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, tiny_embedder: Embedder) -> Index:
    path = tmp_path_factory.mktemp("index") / "i"
    return Index.build(SENTENCES, tiny_embedder, path, keep="all", precision="float32")


def centre(index: Index, embedder: Embedder) -> np.ndarray:
    """As it is documented: the mean of the uses, a word counted `max_uses` times at most."""
    counts: dict[str, int] = {}
    for words in SENTENCES:
        for word in words:
            counts[word] = counts.get(word, 0) + 1
    most = index.manifest.max_uses
    shares, rows = [], []
    for words in SENTENCES:
        layers = embedder.embed([words])[0].layers.astype(np.float64)
        rows += list(layers.transpose(1, 0, 2))
        shares += [min(1, most / counts[word]) for word in words]
    return np.average(rows, axis=0, weights=shares)


@pytest.mark.parametrize(
    ("layer", "weights"),
    [("mix", [1 / 3] * 3), (0, [1, 0, 0]), (2, [0, 0, 1]), ([0.1, 0.7, 0.2], [0.1, 0.7, 0.2])],
)
def test_neighbours_across_all_words_are_those_of_a_slow_search(
    index: Index, tiny_embedder: Embedder, layer, weights
):
    query = tiny_embedder.embed([ASKED])[0].layers[:, 1].astype(np.float64)
    slow = exact(tiny_embedder, SENTENCES, query, weights, centre(index, tiny_embedder))
    found = index.neighbors(ASKED, 1, 15, layer=layer, same_word=False, distinct=False)
    want = [score for score, _, _ in slow[:15]]
    np.testing.assert_allclose([near.score for near in found], want, atol=1e-5)
    scores = {(words, position): score for score, words, position in slow}
    for near in found:
        assert scores[near.use.words, near.use.position] == pytest.approx(near.score, abs=1e-5)


def test_neighbours_within_a_word_are_all_its_uses_in_order(index: Index, tiny_embedder: Embedder):
    query = tiny_embedder.embed([ASKED])[0].layers[:, 1].astype(np.float64)
    slow = exact(tiny_embedder, SENTENCES, query, [1 / 3] * 3, centre(index, tiny_embedder))
    want = [score for score, words, position in slow if words[position] == "bank"]
    found = index.neighbors(ASKED, 1, 1000, distinct=False)
    assert {near.use.word for near in found} == {"bank"}
    np.testing.assert_allclose([near.score for near in found], want, atol=1e-5)


def test_a_sentence_is_named_once_and_the_one_asked_about_never(index: Index):
    asked = SENTENCES[7]
    found = index.neighbors(asked, 0, 1000)
    sentences = [near.use.words for near in found]
    assert tuple(asked) not in sentences
    assert len(set(sentences)) == len(sentences) == len(SENTENCES) - 1
    twice = index.neighbors(asked, 0, 1000, distinct=False)
    assert len(twice) == 2 * (len(SENTENCES) - 1)


def test_a_string_is_tokenised_and_a_capital_finds_the_small_letter(index: Index):
    by_string = index.neighbors("Bank near the river", 0, 3)
    by_words = index.neighbors(["Bank", "near", "the", "river"], 0, 3)
    assert [near.use for near in by_string] == [near.use for near in by_words]
    assert by_string[0].use.word == "bank"


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_small_numbers_find_nearly_the_same(
    tmp_path: Path, tiny_embedder: Embedder, index: Index, precision
):
    small = Index.build(SENTENCES, tiny_embedder, tmp_path / "i", precision=precision)
    ours = small.neighbors(ASKED, 1, 5, same_word=False)
    theirs = index.neighbors(ASKED, 1, 5, same_word=False)
    atol = 1e-3 if precision == "float16" else 2e-2
    np.testing.assert_allclose([n.score for n in ours], [n.score for n in theirs], atol=atol)


def test_the_approximate_index_finds_what_the_exact_search_finds(
    tmp_path: Path, tiny_embedder: Embedder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(approximate, "LEAST_USES", 100)
    many = corpus(300)
    index = Index.build(many, tiny_embedder, tmp_path / "i", keep="all", max_uses=1000)
    assert index.manifest.approximate is not None
    scan = Index.open(tmp_path / "i", tiny_embedder)
    scan._snapshot._approximate = None
    for layer in ("mix", 1, [0.2, 0.5, 0.3]):
        ours = index.neighbors(ASKED, 1, 10, layer=layer, same_word=False, distinct=False)
        theirs = scan.neighbors(ASKED, 1, 10, layer=layer, same_word=False, distinct=False)
        assert [n.score for n in ours] == pytest.approx([n.score for n in theirs], abs=1e-6)


def test_added_sentences_are_found_and_deleted_ones_are_not(
    tmp_path: Path, tiny_embedder: Embedder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(approximate, "LEAST_USES", 100)
    index = Index.build(SENTENCES, tiny_embedder, tmp_path / "i", precision="float32")
    new = ["the", "bank", "was", "under", "the", "river"]
    assert index.add([new, SENTENCES[0], new]) == 1
    for same_word in (True, False):
        assert index.neighbors(ASKED, 1, 1000, same_word=same_word)[0].use.words == tuple(new)
    assert index.delete([new, ["never", "there"], SENTENCES[0]]) == 2
    for reopened in (index, Index.open(tmp_path / "i", tiny_embedder)):
        for same_word in (True, False):
            found = reopened.neighbors(ASKED, 1, 1000, same_word=same_word, distinct=False)
            assert not {tuple(new), tuple(SENTENCES[0])} & {near.use.words for near in found}
    assert index.add([SENTENCES[0]]) == 1  # what is deleted can come back


def test_a_sentence_that_the_corpus_repeats_is_deleted_everywhere(
    tmp_path: Path, tiny_embedder: Embedder
):
    twice = [SENTENCES[0], SENTENCES[1], SENTENCES[0]]
    index = Index.build(twice, tiny_embedder, tmp_path / "i")
    assert index.delete([SENTENCES[0]]) == 2
    found = index.neighbors(ASKED, 1, 1000, same_word=False, distinct=False)
    assert {near.use.words for near in found} == {tuple(SENTENCES[1])}


def test_words_that_have_lost_their_uses_are_not_named(tmp_path: Path, tiny_embedder: Embedder):
    index = Index.build([["aaa", "bank"], ["the", "bank"]], tiny_embedder, tmp_path / "i")
    index.delete([["aaa", "bank"]])
    assert index.words == ["bank", "the"]
    assert [near.word for near in index.static_neighbors("bank")] == ["the"]
    with pytest.raises(InputError, match="'aab' is not an indexed word") as caught:
        index.senses("aab")
    assert "similar" not in str(caught.value)


def test_neighbours_are_found_behind_many_deleted_ones(
    tmp_path: Path, tiny_embedder: Embedder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(approximate, "LEAST_USES", 100)
    index = Index.build(corpus(300), tiny_embedder, tmp_path / "i", max_uses=1000)
    every = index.neighbors(ASKED, 1, 10**9, same_word=False)
    index.delete([list(near.use.words) for near in every[:-5]])
    left = index.neighbors(ASKED, 1, 10, same_word=False)
    assert {near.use.words for near in left} == {near.use.words for near in every[-5:]}


@pytest.mark.parametrize("size", [1e-45, 1e30, 1e300])
def test_weights_of_any_size_are_shares(index: Index, size: float):
    asked = [index.neighbors(ASKED, 1, 5, layer=[s, s, s]) for s in (1.0, size)]
    scores = [[near.score for near in found] for found in asked]
    assert scores[1] == pytest.approx(scores[0], abs=1e-5)


@pytest.mark.parametrize("name", ["groups.bin", "offsets.bin", "centre.bin"])
def test_places_that_lead_nowhere_are_told(tmp_path: Path, tiny_embedder: Embedder, name: str):
    Index.build(SENTENCES[:5], tiny_embedder, tmp_path / "i")
    (path,) = (tmp_path / "i").rglob(name)
    data = bytearray(path.read_bytes())
    data[-9] ^= 0x7F  # of the last but one of eight bytes each
    path.write_bytes(data[:-4] if name == "centre.bin" else data)
    with pytest.raises(FormatError, match=name):
        Index.open(tmp_path / "i", tiny_embedder)


def test_compacting_changes_no_answer(tmp_path: Path, tiny_embedder: Embedder):
    index = Index.build(SENTENCES[:40], tiny_embedder, tmp_path / "i", keep="all")
    index.add(SENTENCES[40:])
    index.delete(SENTENCES[3:9])

    def answers() -> list[tuple[float, tuple[str, ...], int]]:
        near = index.neighbors(ASKED, 1, 1000, same_word=False, distinct=False)
        return sorted((n.score, n.use.words, n.use.position) for n in near)

    before, static = answers(), index.static_neighbors("bank", 3)
    assert len(index.manifest.segments) == 2
    index.compact()
    assert len(index.manifest.segments) == 1
    after = answers()
    assert [use[1:] for use in after] == [use[1:] for use in before]
    np.testing.assert_allclose([u[0] for u in after], [u[0] for u in before], atol=1e-6)
    assert index.n_sentences == 54
    assert f"x{3}" not in index
    assert [near.word for near in index.static_neighbors("bank", 3)] == [n.word for n in static]


def test_an_index_can_lose_everything(tmp_path: Path, tiny_embedder: Embedder):
    index = Index.build(SENTENCES[:3], tiny_embedder, tmp_path / "i")
    assert index.delete(SENTENCES) == 3
    assert index.neighbors(ASKED, 1, same_word=False) == []
    with pytest.raises(InputError, match="'bank' is not an indexed word"):
        index.senses("bank")
    index.compact()
    assert (index.n_uses, index.words) == (0, [])
    assert index.neighbors(ASKED, 1, same_word=False) == []
    assert index.add(SENTENCES[:1]) == 1
    assert len(index.neighbors(ASKED, 1, same_word=False)) == 1


def test_static_neighbours_are_nearest_in_the_context_free_layer(
    index: Index, tiny_embedder: Embedder
):
    layers = {word: tiny_embedder.embed([[word]])[0].layers[0, 0] for word in index.words}
    table = np.stack([layers[word].astype(np.float16).astype(np.float64) for word in index.words])
    table -= table.mean(axis=0)
    table /= np.linalg.norm(table, axis=1, keepdims=True)
    scores = table @ table[index.words.index("bank")]
    order = [i for i in np.argsort(-scores) if index.words[i] != "bank"]
    found = index.static_neighbors("bank", 5)
    assert [near.score for near in found] == pytest.approx(scores[order[:5]].tolist(), abs=1e-5)


def test_words_with_the_same_vector_are_one_static_neighbour(tmp_path: Path):
    """A BERT that lowercases reads Bank and bank alike."""
    text = ["Bank bank money Money money River the".split()]
    index = Index.build(text, Embedder(tiny_bert(), device="cpu"), tmp_path / "i")
    found = index.static_neighbors("bank", 10)
    assert sorted(near.word for near in found) == ["River", "money", "the"]
    assert index.static_neighbors("Bank", 10) == found
    assert index.static_neighbors("bank", 2) == found[:2]


def test_static_neighbours_by_other_vectors(index: Index):
    table = np.array([[1, 0], [0.9, 0.1], [-1, 0], [1, 0]], np.float32)
    vectors = StaticVectors(("bank", "river", "money", "unindexed"), table)
    found = index.static_neighbors("bank", 5, vectors)
    assert [near.word for near in found] == ["river", "money"]
    assert found[1].score == pytest.approx(-1)
    assert index.static_neighbors("stage", 5, vectors) == []


def test_what_cannot_be_asked_is_said(index: Index, tmp_path: Path):
    with pytest.raises(InputError, match=r"'banc' is not an indexed word .*similar: bank"):
        index.neighbors(["the", "banc"], 1)
    with pytest.raises(InputError, match="position is 2, but the sentence has words 0 to 1"):
        index.neighbors(["the", "bank"], 2)
    with pytest.raises(ConfigError, match="layer is 7, but the index keeps layers 0, 1, 2"):
        index.neighbors(["bank"], 0, layer=7)
    with pytest.raises(ConfigError, match="expected 3 weights"):
        index.neighbors(["bank"], 0, layer=[1.0])
    with pytest.raises(ConfigError, match="k is 0"):
        index.neighbors(["bank"], 0, 0)
    with pytest.raises(ConfigError, match="opened without its model"):
        Index.open(index.path).neighbors(["bank"], 0)
    other = Embedder.load(make(tmp_path / "other", seed=1).weights)
    with pytest.raises(InputError, match="contains vectors of the model"):
        index.neighbors(["bank"], 0, embedder=other)


def test_static_vectors_are_words_alone_where_layer_0_has_context(tmp_path: Path):
    source = waves(context_free=False)
    index = Index.build(corpus(20), source, tmp_path / "i", keep="all")
    index.add([["a", "new", "bank"]])
    index.compact()
    (segment,) = index._snapshot.segments
    for word in segment.words:
        alone = wave([word])[0, 0].astype(np.float16)
        np.testing.assert_array_equal(segment.static_vector(word), alone)
