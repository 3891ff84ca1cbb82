"""The softmax that begins from counts: the numbers against a plain loop, and that it pays."""

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from elmore.nn.softmax import AdaptiveSoftmaxConfig, Softmax
from elmore.pretrain import static_start
from elmore.pretrain.config import PretrainConfig
from elmore.pretrain.recipes import find_recipe
from elmore.pretrain.run import pretrain
from elmore.pretrain.static_start import (
    START,
    count_neighbors,
    fill_softmax,
    ids_of,
    static_vectors,
)
from elmore.text.vocabulary import Vocabulary

SENTENCES = [s.split() for s in ("a b c a", "c b", "a a b d e c", "e")] * 3


def vocabulary() -> Vocabulary:
    return Vocabulary(["<S>", "</S>", "<UNK>", "a", "b", "c", "d"])  # e is unknown


def counted(sentences: list[list[str]], n: int) -> np.ndarray:
    """First word by second word, 1/d at distance d, by two loops."""
    known, table = vocabulary(), np.zeros((n, n))
    for words in sentences:
        ids = [known.begin, *(known.id(w) for w in words), known.end]
        for i, first in enumerate(ids):
            for d in range(1, 6):
                if i + d < len(ids) and first < n and ids[i + d] < n:
                    table[first, ids[i + d]] += 1 / d
    return table


@pytest.mark.parametrize("chunk", [1, 7, 10_000])
@pytest.mark.parametrize("frequent", [5, 7])
def test_neighbors_are_counted_within_sentences(chunk, frequent, monkeypatch):
    monkeypatch.setattr(static_start, "_CHUNK", chunk)
    chunks = ids_of(SENTENCES, vocabulary())
    (keys, weights), counts = count_neighbors(chunks, 7, frequent)
    table = np.zeros((frequent, frequent))
    table[keys // frequent, keys % frequent] = weights
    np.testing.assert_allclose(table, counted(SENTENCES, frequent), rtol=1e-12)
    assert counts.tolist() == [12, 12, 6, 12, 9, 9, 3]


def test_no_more_text_is_read_than_memory_can_hold(monkeypatch):
    monkeypatch.setattr(static_start, "_CHUNK", 10)
    monkeypatch.setattr(static_start, "_WORDS", 30)
    endless = (["a", "b"] for _ in iter(int, 1))
    assert sum(map(len, ids_of(endless, vocabulary()))) < 60


def test_vectors_reproduce_the_ppmi_matrix(monkeypatch):
    """With as many dimensions as words nothing is lost: X Xᵀ is |PPMI|, whose square is PPMI²."""
    monkeypatch.setattr(static_start, "_SPARE", 0)
    rng = np.random.default_rng(0)
    table = rng.integers(1, 50, (6, 6)).astype(float)
    keys, weights = np.arange(36), table.ravel()
    both = table + table.T
    total = both.sum(1)
    flat = total**0.75
    ppmi = np.maximum(0, np.log(both * flat.sum() / np.outer(total, flat)))
    vectors = static_vectors((keys, weights), 6, 6, seed=1)
    gram = (vectors @ vectors.T).double().numpy()
    np.testing.assert_allclose(gram @ gram, ppmi @ ppmi.T, atol=1e-4)


def test_biases_are_log_frequencies_and_rare_rows_stay(monkeypatch):
    monkeypatch.setattr(static_start, "_ROWS", 5)
    monkeypatch.setattr(static_start, "_SPARE", 1)
    torch.manual_seed(0)
    softmax = Softmax(7, 3)
    before = softmax.weight.detach().clone()
    fill_softmax(softmax, vocabulary(), SENTENCES, seed=1)
    counts = np.array([12, 12, 6, 12, 9, 9, 3]) + 1
    expected = np.log(counts / counts.sum())
    np.testing.assert_allclose(softmax.bias.detach()[:, 0], expected, rtol=1e-6)
    assert torch.equal(softmax.weight[5:], before[5:])
    assert not torch.equal(softmax.weight[:5], before[:5])


def test_too_little_text_gives_biases_only():
    torch.manual_seed(0)
    softmax = Softmax(7, 3)
    before = softmax.weight.detach().clone()
    fill_softmax(softmax, vocabulary(), [["a"]], seed=1)
    assert torch.equal(softmax.weight, before)
    assert softmax.bias.std() > 0


def test_a_run_begins_from_the_counts_and_lower(tmp_path):
    """Function words and topics: the first loss with the static start is far below the other's."""
    rng = np.random.default_rng(0)
    topics = [[f"{letter}{i}" for i in range(30)] for letter in "xyz"]
    lines = []
    for _ in range(400):
        topic = topics[rng.integers(3)]
        lines.append(" ".join(f"the {topic[min(29, rng.geometric(0.2))]}" for _ in range(6)))
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(lines), encoding="utf-8")
    first = {}
    for start in ("random", "static"):
        losses: list[float] = []
        config = find_recipe("elmo-laptop").model_copy(update={"softmax_start": start})
        small = config.model.context.model_copy(update={"dim": 16, "cell_dim": 16})
        words = config.model.words.model_copy(update={"dim": 16})
        model = config.model.model_copy(update={"context": small, "words": words})
        loop = config.loop.model_copy(update={"steps": 3, "minutes": None, "log_steps": 1})
        config = config.model_copy(update={"model": model, "loop": loop, "epochs": None})
        pretrain(
            [corpus],
            tmp_path / start,
            config,
            report=lambda _, figures, losses=losses: losses.append(figures["loss"]),
        )
        first[start] = losses[0]
        assert (tmp_path / start / START).exists() == (start == "static")
    assert first["static"] < first["random"] - 0.5


def test_an_adaptive_softmax_is_refused():
    with pytest.raises(ValidationError, match="softmax_start=static needs a row per word"):
        PretrainConfig(softmax=AdaptiveSoftmaxConfig(), softmax_start="static")
