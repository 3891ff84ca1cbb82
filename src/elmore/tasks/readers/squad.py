"""SQuAD 1.1's JSON: paragraphs, and questions whose answer is a span of the paragraph. Words keep
their places in the text, so an answer can be cut from the original text. An answer that is not
where the file says is searched for, counted and reported; it always counts in the scores.
"""

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field, ValidationError

from elmore.config import Foreign
from elmore.errors import InputError
from elmore.tasks.corpus import Corpus, Words
from elmore.tasks.readers.lines import parse_json, task_lines
from elmore.text.tokenize import tokenize, words

Span = tuple[int, int]  # first and last word


@dataclass(frozen=True, slots=True, eq=False)
class Paragraph:
    """A text and the places of its words, up to the limit; questions share the one object."""

    text: str
    words: Words
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def cut(self, span: Span) -> str:
        """The words of a span as the text has them."""
        return self.text[self.starts[span[0]] : self.ends[span[1]]]


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """A question about a paragraph, its answers as given, and the spans of their words."""

    id: str
    words: Words
    paragraph: Paragraph
    answers: tuple[str, ...] = ()
    spans: tuple[Span, ...] = ()
    """Distinct, in the answers' order; fewer than the answers where some cannot be found."""


class _Answer(Foreign):
    text: str
    answer_start: int


class _Question(Foreign):
    id: str | int
    question: str
    answers: list[_Answer] = Field(default_factory=list)
    is_impossible: bool = False


class _Paragraph(Foreign):
    context: str
    qas: list[_Question]


class _Article(Foreign):
    paragraphs: list[_Paragraph]


class _File(Foreign):
    data: list[_Article]


def read_squad(path: Path, *, max_words: int, answered: bool = True) -> Corpus[Question]:
    """The questions of a file; without `answered` answers are neither needed nor read."""
    counts: Counter[str] = Counter()
    questions: list[Question] = []
    for place, given in _paragraphs(path):
        paragraph = _paragraph(given.context, max_words, place, counts)
        for i, asked in enumerate(given.qas):
            where = f"{place}.qas[{i}] (id {asked.id})"
            questions.append(_question(asked, paragraph, answered, where, counts))
    if not questions:
        raise InputError(f"{path}: no question found; expected SQuAD 1.1's data, paragraphs, qas.")
    return Corpus(questions, _notes(counts, max_words))


def read_answers(path: Path) -> list[tuple[str, tuple[str, ...]]]:
    """The id of every question and its right answers, nothing more."""
    found = []
    for place, paragraph in _paragraphs(path):
        for i, asked in enumerate(paragraph.qas):
            if not asked.answers:
                raise InputError(f"{place}.qas[{i}] (id {asked.id}): no answer; expected one.")
            found.append((str(asked.id), tuple(answer.text for answer in asked.answers)))
    if not found:
        raise InputError(f"{path}: no question found; expected SQuAD 1.1's data, paragraphs, qas.")
    return found


def with_spans(corpus: Corpus[Question]) -> Corpus[Question]:
    """Only questions that can be trained on, the others counted."""
    kept = [question for question in corpus.examples if question.spans]
    n_left_out = len(corpus.examples) - len(kept)
    note = f"questions left out of training, as none of their answers is found: {n_left_out:,}"
    return Corpus(kept, (*corpus.notes, note)) if n_left_out else corpus


def _paragraphs(path: Path) -> Iterator[tuple[str, _Paragraph]]:
    try:
        file = _File.model_validate(
            parse_json("\n".join(task_lines(path)), str(path), whole_file=True)
        )
    except ValidationError as error:
        first = error.errors()[0]
        parts = (f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
        place = "".join(parts).lstrip(".") or "the whole file"
        # without the names of our classes
        what = "no object" if first["type"] == "model_type" else first["msg"].lower()
        raise InputError(
            f"{path}: {place}: {what}; expected SQuAD 1.1: data, paragraphs with context and qas, "
            "qas with id, question and answers."
        ) from None
    for i, article in enumerate(file.data):
        for j, paragraph in enumerate(article.paragraphs):
            yield f"{path}: data[{i}].paragraphs[{j}]", paragraph


def _paragraph(text: str, max_words: int, place: str, counts: Counter[str]) -> Paragraph:
    tokens = tokenize(text)
    if not tokens:
        raise InputError(f"{place}: its context has no words; drop the paragraph.")
    counts["long"] += len(tokens) > max_words
    kept = tokens[:max_words]
    return Paragraph(
        text,
        tuple(token.text for token in kept),
        tuple(token.start for token in kept),
        tuple(token.end for token in kept),
    )


def _question(
    asked: _Question, paragraph: Paragraph, answered: bool, place: str, counts: Counter[str]
) -> Question:
    found = tuple(words(asked.question))
    if not found:
        raise InputError(f"{place}: the question has no words; drop it.")
    if not answered:
        return Question(str(asked.id), found, paragraph)
    if asked.is_impossible or not asked.answers:
        raise InputError(
            f"{place}: it has no answer, as questions of SQuAD 2.0 may; expected SQuAD 1.1, where "
            "every question has one. Drop the questions without."
        )
    answers = tuple(answer.text for answer in asked.answers)
    located = [_span(answer, paragraph, counts) for answer in asked.answers]
    spans = tuple(dict.fromkeys(span for span in located if span is not None))
    return Question(str(asked.id), found, paragraph, answers, spans)


def _span(answer: _Answer, paragraph: Paragraph, counts: Counter[str]) -> Span | None:
    """The words that cover an answer, or None; unusual answers are counted."""
    start = _start(answer, paragraph.text)
    if start is None:
        counts["absent"] += 1
        return None
    counts["moved"] += start != answer.answer_start
    end = start + len(answer.text.rstrip())
    start += len(answer.text) - len(answer.text.lstrip())
    if end > paragraph.ends[-1]:
        counts["beyond"] += 1
        return None
    first = bisect_right(paragraph.ends, start)
    last = bisect_left(paragraph.starts, end) - 1
    counts["widened"] += (paragraph.starts[first], paragraph.ends[last]) != (start, end)
    return first, last


def _start(answer: _Answer, text: str) -> int | None:
    """Where the answer really is: at its place, or at the nearest place that has its text."""
    if not answer.text.strip():
        return None
    if answer.answer_start >= 0 and text.startswith(answer.text, answer.answer_start):
        return answer.answer_start
    given = min(max(answer.answer_start, 0), len(text))
    places = text.rfind(answer.text, 0, given + len(answer.text)), text.find(answer.text, given)
    return min((p for p in places if p >= 0), key=lambda at: abs(at - given), default=None)


def _notes(counts: Counter[str], max_words: int) -> tuple[str, ...]:
    texts = {
        "absent": "answers that are not in their paragraph, scored as given, not trained on",
        "moved": "answers that are not at their answer_start, taken from the nearest place",
        "long": f"paragraphs read only up to their word {max_words:,}",
        "beyond": "answers beyond what is read of their paragraph, scored, not trained on",
        "widened": "answers that begin or end inside a word, trained on as the whole word",
    }
    return tuple(f"{text}: {counts[key]:,}" for key, text in texts.items() if counts[key])
