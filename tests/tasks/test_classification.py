"""The classifier: what a tree teaches, and how phrases are pooled."""

from pathlib import Path

import pytest
import torch

from elmore.tasks.classification import Classification, Labelled
from elmore.tasks.encoded import Dims, Encoded
from elmore.tasks.readers.trees import Phrase
from elmore.tasks.task import Labels
from tests.tasks.wave_encoder import one_each

TREES = "(3 (2 It) (4 (2 's) (4 lovely)))\n(0 Bad)\n"


def labels(given: str) -> Labels:
    return Labels(labels=tuple(given))


def encoded(n_words: tuple[int, ...], late: int = 0) -> Encoded:
    torch.manual_seed(0)
    mask = torch.tensor([[i < n for i in range(max(n_words))] for n in n_words])
    extra = torch.randn(*mask.shape, late) if late else None
    return Encoded(torch.randn(*mask.shape, 5), mask, extra)


def test_training_reads_phrases_and_evaluation_roots(tmp_path: Path):
    (tmp_path / "a.txt").write_text(TREES, encoding="utf-8")
    task = Classification()
    trained = task.read(tmp_path / "a.txt", training=True).examples
    assert trained[0].label == "3"
    assert trained[0].phrases[-1] == Phrase(1, 3, "4")
    assert task.start(trained).labels == ("0", "2", "3", "4")
    roots = [Labelled(("It", "'s", "lovely"), "3"), Labelled(("Bad",), "0")]
    assert task.read(tmp_path / "a.txt").examples == roots
    without = Classification(phrases=False)
    assert without.read(tmp_path / "a.txt", training=True).examples == roots


def test_a_phrase_is_pooled_from_its_own_words_alone():
    head = Classification(hidden=4).head(labels("01"), Dims(5)).eval()
    states = torch.randn(1, 6, 8)
    start, end = torch.tensor([[1, 0]]), torch.tensor([[4, 6]])
    other = states.clone()
    other[0, 4:] += 1
    before, after = head.scores(states, start, end), head.scores(other, start, end)
    torch.testing.assert_close(before[0, 0], after[0, 0], rtol=0, atol=1e-6)
    assert (before[0, 1] != after[0, 1]).any()


def test_the_loss_is_the_mean_of_sentences_and_the_mean_of_phrases():
    head = Classification(hidden=4, phrase_weight=0.5).head(labels("01"), Dims(5)).eval()
    inputs = encoded((3, 2))
    examples = [
        Labelled(("a", "b", "c"), "1", (Phrase(0, 1, "0"), Phrase(1, 3, "1"))),
        Labelled(("a", "b"), "0", (Phrase(0, 1, "0"),)),
    ]
    states = head.states(inputs)
    starts = torch.tensor([[0, 0, 1], [0, 0, 0]])
    ends = torch.tensor([[3, 1, 3], [2, 1, 1]])
    likely = torch.log_softmax(head.scores(states, starts, ends), dim=-1)
    whole = -(likely[0, 0, 1] + likely[1, 0, 0]) / 2
    inner = -(likely[0, 1, 0] + likely[0, 2, 1] + likely[1, 1, 0]) / 3
    loss = head.loss(*one_each(inputs), examples)
    torch.testing.assert_close(loss, whole + 0.5 * inner, rtol=0, atol=1e-6)


def test_a_sentences_label_does_not_depend_on_its_batch_mates():
    head = Classification(hidden=4).head(labels("01234"), Dims(5, late=3)).eval()
    both = encoded((6, 2), late=3)
    assert both.late is not None
    alone = Encoded(both.vectors[1:, :2], both.mask[1:, :2], both.late[1:, :2])
    examples = [Labelled(("a",) * 6), Labelled(("a",) * 2)]
    ends = torch.tensor([[2]])
    scores = head.scores(head.states(both)[1:], torch.zeros_like(ends), ends)
    same = head.scores(head.states(alone), torch.zeros_like(ends), ends)
    torch.testing.assert_close(scores, same, rtol=0, atol=1e-6)
    together = head.predict(*one_each(both), examples)
    assert together[1:] == head.predict(*one_each(alone), examples[1:])


def test_accuracy_is_of_sentences():
    examples = [Labelled(("a",), "1"), Labelled(("b",), "0"), Labelled(("c",), "7")]
    score = Classification().score(examples, ["1", "1", "1"])
    assert score.main == pytest.approx(100 / 3)
