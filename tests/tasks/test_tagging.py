"""The tagger: what it reads, what it may predict, how late vectors enter."""

from pathlib import Path

import pytest
import torch

from elmore.errors import InputError
from elmore.tasks.encoded import Dims, Encoded
from elmore.tasks.spans import spans_of
from elmore.tasks.tagging import ConlluLayout, Tagged, Tagging
from elmore.tasks.task import Labels
from tests.tasks.wave_encoder import one_each

LABELS = Tagging().start([Tagged(("a", "b"), ("S-X", "S-Y"))])


def encoded(n_words: tuple[int, ...], dims: Dims, seed: int = 0) -> Encoded:
    torch.manual_seed(seed)
    shape = (len(n_words), max(n_words))
    mask = torch.tensor([[i < n for i in range(shape[1])] for n in n_words])
    late = torch.randn(*shape, dims.late) if dims.late else None
    return Encoded(torch.randn(*shape, dims.vectors), mask, late)


def test_iob1_and_bio_files_give_the_same_examples(tmp_path: Path):
    (tmp_path / "iob1").write_text("a I-X\nb I-X\nc B-X\nd O\n", encoding="utf-8")
    (tmp_path / "bio").write_text("a B-X\nb I-X\nc B-X\nd O\n", encoding="utf-8")
    read = [Tagging().read(tmp_path / name).examples for name in ("iob1", "bio")]
    assert read[0] == read[1] == [Tagged(("a", "b", "c", "d"), ("B-X", "E-X", "S-X", "O"))]
    bio = Tagging(encoding="bio").read(tmp_path / "iob1").examples
    assert bio[0].tags == ("B-X", "I-X", "B-X", "O")


def test_a_column_without_spans_is_refused_with_file_and_line(tmp_path: Path):
    (tmp_path / "a.txt").write_text("a B-X\n\nb O\nc NNP\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a.txt, line 4: the tag 'NNP'; expected O, or B-"):
        Tagging().read(tmp_path / "a.txt")
    plain = Tagging(spans=False).read(tmp_path / "a.txt").examples
    assert plain[1].tags == ("O", "NNP")


def test_parts_of_speech_are_read_from_conllu(tmp_path: Path):
    row = "1\tgo\tgo\tVERB\tVB\t_\t0\troot\t_\t_\n"
    (tmp_path / "a.conllu").write_text(row, encoding="utf-8")
    task = Tagging(spans=False, layout=ConlluLayout())
    assert task.read(tmp_path / "a.conllu").examples == [Tagged(("go",), ("VERB",))]


def test_labels_of_spans_are_all_that_their_kinds_may_need():
    assert LABELS.labels == ("O", "B-X", "I-X", "E-X", "S-X", "B-Y", "I-Y", "E-Y", "S-Y")


def test_predictions_are_always_whole_spans():
    task, dims = Tagging(hidden=4), Dims(5)
    head = task.head(LABELS, dims).eval()
    with torch.no_grad():
        head.output.weight.mul_(50)  # sure of itself, and wrong
    inputs = encoded((9, 7, 1), dims)
    for tags, n in zip(head.predict(*one_each(inputs), []), (9, 7, 1), strict=True):
        assert len(tags) == n
        written = [t for s in spans_of(tags) for t in (s.start, s.end)]
        assert written == sorted(written)
        for span in spans_of(tags):
            prefixes = "".join(tag[0] for tag in tags[span.start : span.end])
            expected = "S" if len(prefixes) == 1 else "B" + "I" * (len(prefixes) - 2) + "E"
            assert prefixes == expected


def test_the_loss_of_plain_tags_is_the_mean_cross_entropy_of_words():
    task, dims = Tagging(spans=False, hidden=4), Dims(5)
    examples = [Tagged(("a", "b", "c"), ("X", "Y", "X")), Tagged(("a",), ("Y",))]
    head = task.head(Labels(labels=("X", "Y")), dims).eval()
    inputs = encoded((3, 1), dims)
    likely = torch.log_softmax(head.scores(inputs), dim=-1)
    picked = [likely[0, 0, 0], likely[0, 1, 1], likely[0, 2, 0], likely[1, 0, 1]]
    loss = head.loss(*one_each(inputs), examples)
    torch.testing.assert_close(loss, -torch.stack(picked).mean(), rtol=0, atol=1e-6)


@pytest.mark.parametrize(("late_after", "changed"), [(1, 2), (2, 0), (None, 0)])
def test_late_vectors_join_after_the_layer_that_is_asked(late_after: int | None, changed: int):
    """After the first layer they pass another RNN, and so reach the words around them."""
    dims = Dims(5, late=3)
    task = Tagging(spans=False, hidden=4, n_layers=2, late_after=late_after)
    head = task.head(Labels(labels=("X", "Y")), dims).eval()
    inputs = encoded((3,), dims)
    assert inputs.late is not None
    other = inputs.late.clone()
    other[0, 1] += 1
    before, after = head.scores(inputs), head.scores(Encoded(inputs.vectors, inputs.mask, other))
    moved = [bool((before[0, i] != after[0, i]).any()) for i in range(3)]
    assert moved[1]
    assert sum(moved) == 1 + changed


def test_a_prediction_is_shown_with_its_spans():
    shown = Tagging().shown(Tagged(("in", "New", "York")), ("O", "B-LOC", "E-LOC"))
    assert shown["spans"] == [{"start": 1, "end": 3, "kind": "LOC", "words": ("New", "York")}]
    assert shown["tags"] == ["O", "B-LOC", "E-LOC"]
    assert "spans" not in Tagging(spans=False).shown(Tagged(("a",)), ("X",))


def test_text_to_predict_for_is_a_sentence_a_line(tmp_path: Path):
    (tmp_path / "a.txt").write_text("We met.\n\nHi!\n", encoding="utf-8")
    examples = Tagging().read_plain(tmp_path / "a.txt").examples
    assert examples == [Tagged(("We", "met", ".")), Tagged(("Hi", "!"))]
