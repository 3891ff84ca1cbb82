"""Layer probes: the classifier on problems with known answers, baselines by hand, and the table of
both probes side by side."""

from pathlib import Path

import numpy as np
import pytest
import torch
from pydantic import ValidationError

from elmore.embedder import Embedder
from elmore.tasks.probes import ProbeConfig, classify, probe, probe_pos
from elmore.tasks.readers.columns import TaggedSentence
from tests.tasks.contexts import WordBefore, write_semcor, write_set
from tests.tasks.test_wsd import DEV, KNOWN, TEST

QUICK = ProbeConfig(epochs=200, batch=16, lr=0.05)


def tagged(*sentences: str) -> list[TaggedSentence]:
    """From `word/TAG word/TAG`."""
    pairs = [[token.split("/") for token in sentence.split()] for sentence in sentences]
    return [TaggedSentence(tuple(w for w, _ in s), tuple(t for _, t in s), 1) for s in pairs]


def test_the_classifier_comes_to_the_optimum_that_a_second_order_method_finds():
    draw = np.random.default_rng(0)
    plain = draw.normal(size=(1000, 4))
    labels = (plain @ draw.normal(size=(4, 3)) + draw.gumbel(size=(1000, 3))).argmax(axis=1)
    vectors = (plain * [1, 10, 0.1, 1] + [0, 5, 0, -9]).astype(np.float32)
    known, asked = vectors[:600], vectors[600:]
    found = classify(known, labels[:600], asked, ProbeConfig(epochs=40, batch=100, lr=0.05))
    assert (found == _lbfgs(known, labels[:600], asked)).mean() > 0.98


def _lbfgs(known: np.ndarray, labels: np.ndarray, asked: np.ndarray) -> np.ndarray:
    mean, spread = known.mean(axis=0, dtype=np.float64), known.std(axis=0, dtype=np.float64)
    x, y = torch.tensor((known - mean) / spread), torch.tensor(labels)
    layer = torch.nn.Linear(4, 3, dtype=torch.float64)
    optimizer = torch.optim.LBFGS(layer.parameters(), max_iter=500, line_search_fn="strong_wolfe")

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        value = torch.nn.functional.cross_entropy(layer(x), y)
        value.backward()
        return value

    optimizer.step(loss)
    return layer(torch.tensor((asked - mean) / spread)).argmax(dim=1).numpy()


def test_the_same_seed_gives_the_same_classifier():
    draw = np.random.default_rng(1)
    known, asked = (draw.normal(size=(300, 5)).astype(np.float32) for _ in range(2))
    labels = draw.integers(4, size=300)
    once, again = (classify(known, labels, asked, ProbeConfig(epochs=2)) for _ in range(2))
    np.testing.assert_array_equal(once, again)


def test_a_number_that_never_changes_does_no_harm():
    known = np.array([[1, 7], [2, 7], [-1, 7], [-2, 7]], np.float32)
    found = classify(known, np.array([1, 1, 0, 0]), known, QUICK)
    assert found.tolist() == [1, 1, 0, 0]


def test_each_layer_gets_the_tags_that_it_knows():
    # Each word has both tags, by the word before it: only layer 1 can tell.
    corpus = tagged("to/P run/V", "a/D run/N", "to/P walk/V", "a/D walk/N")
    report = probe_pos(WordBefore(), corpus, corpus, config=QUICK)
    assert report.accuracy["layer 0"] == 75
    # Layer 1 sees nothing before the first word of a sentence, be it `to` or `a`.
    assert report.accuracy["layer 1"] == 75
    assert report.accuracy["average"] == 100
    assert (report.n_train, report.n_test) == (8, 8)


def test_the_baseline_is_the_usual_tag_of_the_word_and_of_all_words_where_it_is_new():
    train = tagged("run/V run/N run/V a/D", "cat/N dog/N fox/N")
    report = probe_pos(WordBefore(), train, tagged("run/V run/N a/D owl/N"), config=QUICK)
    assert report.by_word == 75  # the second `run` is wrong


def test_a_tag_never_seen_in_training_is_wrong_and_counts():
    train = tagged("run/V a/D")
    report = probe_pos(WordBefore(), train, tagged("run/V a/X"), config=QUICK)
    assert report.accuracy["layer 0"] == 50
    assert report.by_word == 50


@pytest.mark.parametrize("wrong", [{"epochs": 0}, {"lr": 0}, {"steps": 3}])
def test_settings_are_strict(wrong: dict[str, int]):
    with pytest.raises(ValidationError):
        ProbeConfig(**wrong)


def test_the_table_puts_syntax_and_meaning_side_by_side(tmp_path: Path, tiny_embedder: Embedder):
    treebank = tmp_path / "toy.conllu"
    row = "{}\t{}\t_\t{}\t_\t_\t_\t_\t_\t_\n"
    words = [("the", "DET"), ("river", "NOUN"), ("runs", "VERB")]
    lines = [row.format(i, word, tag) for i, (word, tag) in enumerate(words, start=1)]
    treebank.write_text("".join(lines) + "\n", encoding="utf-8")
    semcor = write_semcor(tmp_path / "semcor.jsonl", KNOWN)
    sets = [write_set(tmp_path / f"{n}.data.xml", s) for n, s in (("dev", DEV), ("test", TEST))]
    report = probe(tiny_embedder, (treebank, treebank), [semcor], sets, config=QUICK, dev="dev")
    base, *layers = report.table()
    first = report.senses.first_sense.scores["test"].f1
    assert base == {"vectors": "most frequent", "POS": 100, "WSD": first}
    assert [row["vectors"] for row in layers] == ["layer 0", "layer 1", "layer 2", "average"]
    for row in layers:
        assert row["POS"] == report.pos.accuracy[row["vectors"]] == 100
        (same,) = [
            r
            for r in report.senses.rows
            if (r.vectors, r.rule) == (row["vectors"], report.senses.chosen.rule)
        ]
        assert row["WSD"] == same.scores["test"].f1  # the other set chose the rule
