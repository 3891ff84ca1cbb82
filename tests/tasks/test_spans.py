"""Spans and their tags; seqeval and a hand-worked table are the references."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics.sequence_labeling import get_entities

from elmore.tasks.spans import Span, allowed_pairs, is_span_tag, span_labels, spans_of, tags_of

TAGS = st.lists(
    st.sampled_from(["O", "O", "B-X", "I-X", "B-Y", "I-Y", "E-X", "S-X", "E-Y", "S-Y"]),
    max_size=12,
)


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("O I-X I-X O", [(1, 3, "X")]),  # IOB1: no B where nothing touches
        ("I-X I-X B-X I-Y", [(0, 2, "X"), (2, 3, "X"), (3, 4, "Y")]),  # IOB1: B splits
        ("B-X I-X B-X O", [(0, 2, "X"), (2, 3, "X")]),
        ("B-X I-X E-X S-X S-Y", [(0, 3, "X"), (3, 4, "X"), (4, 5, "Y")]),
        ("B-X L-X U-Y I-Y", [(0, 2, "X"), (2, 3, "Y"), (3, 4, "Y")]),  # BILOU
        ("O", []),
        ("", []),
        ("B-X I-Y", [(0, 1, "X"), (1, 2, "Y")]),
        ("E-X I-X", [(0, 1, "X"), (1, 2, "X")]),
    ],
)
def test_spans_are_read_from_every_way_of_writing_them(tags: str, spans: list[Span]):
    assert spans_of(tags.split()) == spans


@given(TAGS)
def test_spans_are_those_of_seqeval(tags: list[str]):
    theirs = [Span(start, end + 1, kind) for kind, start, end in get_entities(tags)]
    assert spans_of(tags) == theirs


@given(TAGS, st.sampled_from(["bio", "bioes"]))
def test_spans_survive_being_written_down(tags: list[str], encoding: str):
    spans = spans_of(tags)
    written = tags_of(spans, len(tags), encoding)
    assert spans_of(written) == spans
    assert tags_of(spans_of(written), len(tags), encoding) == written


def test_iob1_is_converted():
    iob1 = "I-ORG O I-PER I-PER B-PER O".split()
    spans = spans_of(iob1)
    assert tags_of(spans, 6, "bio") == "B-ORG O B-PER I-PER B-PER O".split()
    assert tags_of(spans, 6, "bioes") == "S-ORG O B-PER E-PER S-PER O".split()


@pytest.mark.parametrize("encoding", ["bio", "bioes"])
def test_exactly_the_sequences_that_spans_can_write_are_allowed(encoding: str):
    labels = span_labels(["X", "Y"], encoding)
    allowed = allowed_pairs(labels, encoding)
    n = len(labels)
    for ids in itertools.product(range(n), repeat=3):
        tags = [labels[i] for i in ids]
        may_be = all(allowed[i][j] for i, j in itertools.pairwise([n, *ids, n]))
        assert may_be == (tags_of(spans_of(tags), 3, encoding) == tags), tags


def test_what_is_no_span_tag_is_known():
    good = ["O", "B-PER", "I-a-b", "S-X", "U-X"]
    bad = ["", "NNP", "B-", "B", "O-X", "PER", "B_PER", "-X"]
    assert [is_span_tag(tag) for tag in good + bad] == [True] * len(good) + [False] * len(bad)
