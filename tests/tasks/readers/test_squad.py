"""SQuAD's JSON: characters become words, odd answers are counted, bad files are named by place."""

import json
from pathlib import Path
from typing import Any

import pytest

from elmore.errors import InputError
from elmore.tasks.readers.squad import Question, read_squad, with_spans
from elmore.tasks.task import Corpus
from tests.shared import SHARED, needs

TEXT = 'The "Broncos" (Denver\'s) won 24–10 in  Santa Clara. The game was in Santa Clara.'
#       0   4        13        23  27    35  38


def answer(text: str, start: int | None = None) -> dict[str, Any]:
    return {"text": text, "answer_start": TEXT.index(text) if start is None else start}


def asked(*answers: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": "q1", "question": "Who won?", "answers": list(answers), **more}


def write(folder: Path, *qas: dict[str, Any], context: str = TEXT) -> Path:
    path = folder / "squad.json"
    paragraph = {"context": context, "qas": list(qas)}
    path.write_text(json.dumps({"version": "1.1", "data": [{"paragraphs": [paragraph]}]}))
    return path


def read(path: Path, max_words: int = 400) -> Corpus[Question]:
    return read_squad(path, max_words=max_words)


def complaint(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    ["Broncos", "Denver's", "24–10", "Santa Clara", '"Broncos" (Denver\'s)', TEXT, "in  Santa"],
)
def test_a_span_of_words_cuts_its_answer_from_the_text(tmp_path: Path, text: str):
    corpus = read(write(tmp_path, asked(answer(text))))
    [question] = corpus.examples
    assert question.words == ("Who", "won", "?")
    assert question.answers == (text,)
    assert [question.paragraph.cut(span) for span in question.spans] == [text]
    assert corpus.notes == ()


def test_the_offset_says_which_of_two_places(tmp_path: Path):
    second = TEXT.rindex("Santa Clara")
    corpus = read(write(tmp_path, asked(answer("Santa Clara"), answer("Santa Clara", second))))
    first, last = corpus.examples[0].spans
    starts = corpus.examples[0].paragraph.starts
    assert (starts[first[0]], starts[last[0]]) == (TEXT.index("Santa Clara"), second)


def test_the_same_answer_twice_is_one_span(tmp_path: Path):
    [question] = read(write(tmp_path, asked(*[answer("Broncos")] * 3))).examples
    assert len(question.answers) == 3
    assert len(question.spans) == 1


def test_an_answer_inside_a_word_takes_the_whole_word(tmp_path: Path):
    corpus = read(write(tmp_path, asked(answer("Denver"), answer("ronco"))))
    [question] = corpus.examples
    assert [question.paragraph.cut(span) for span in question.spans] == ["Denver", "Broncos"]
    [note] = corpus.notes
    assert note == "answers that begin or end inside a word, trained on as the whole word: 1"


def test_white_space_round_an_answer_is_no_part_of_it(tmp_path: Path):
    corpus = read(write(tmp_path, asked(answer("  Santa Clara"), answer(" won "))))
    [question] = corpus.examples
    assert [question.paragraph.cut(span) for span in question.spans] == ["Santa Clara", "won"]
    assert corpus.notes == ()


def test_an_answer_at_the_wrong_place_is_moved_to_the_nearest_and_counted(tmp_path: Path):
    second = TEXT.rindex("Santa Clara")
    for wrong in (second - 3, 10_000):
        corpus = read(write(tmp_path, asked(answer("Santa Clara", wrong))))
        [question] = corpus.examples
        assert question.paragraph.starts[question.spans[0][0]] == second
        [note] = corpus.notes
        assert note == "answers that are not at their answer_start, taken from the nearest place: 1"
    [question] = read(write(tmp_path, asked(answer("Santa Clara", -1)))).examples
    assert question.paragraph.starts[question.spans[0][0]] == TEXT.index("Santa Clara")


@pytest.mark.parametrize("text", ["Panthers", "", " "])
def test_an_answer_not_in_its_paragraph_is_counted_and_still_scored(tmp_path: Path, text: str):
    path = write(tmp_path, asked(answer(text, 4)), asked(answer("Broncos"), id="q2"))
    corpus = read(path)
    assert corpus.examples[0].answers == (text,)
    assert corpus.examples[0].spans == ()
    [note] = corpus.notes
    assert note == "answers that are not in their paragraph, scored as given, not trained on: 1"
    trained = with_spans(corpus)
    assert [question.id for question in trained.examples] == ["q2"]
    assert trained.notes[-1].startswith("questions left out of training")
    assert trained.notes[-1].endswith(": 1")


def test_nothing_is_left_out_of_a_good_file(tmp_path: Path):
    corpus = read(write(tmp_path, asked(answer("Broncos"))))
    assert with_spans(corpus) is corpus


def test_a_long_paragraph_is_read_up_to_the_limit(tmp_path: Path):
    path = write(tmp_path, asked(answer("Broncos")), asked(answer("Santa Clara"), id="q2"))
    words = read(path).examples[0].paragraph.words
    corpus = read(path, max_words=9)
    inside, beyond = corpus.examples
    assert inside.paragraph.words == words[:9]
    assert inside.paragraph is beyond.paragraph
    assert (len(inside.spans), len(beyond.spans)) == (1, 0)
    assert corpus.notes == (
        "paragraphs read only up to their word 9: 1",
        "answers beyond what is read of their paragraph, scored, not trained on: 1",
    )


def test_answers_need_not_be_known_to_be_asked_for(tmp_path: Path):
    path = write(tmp_path, {"id": 7, "question": "Who?"}, asked(is_impossible=True))
    corpus = read_squad(path, max_words=400, answered=False)
    assert [(question.id, question.answers) for question in corpus.examples] == [
        ("7", ()),
        ("q1", ()),
    ]


@pytest.mark.parametrize(
    "question", [asked(), asked(is_impossible=True), asked(answer("Broncos"), is_impossible=True)]
)
def test_questions_without_an_answer_are_refused(tmp_path: Path, question: dict[str, Any]):
    path = write(tmp_path, asked(answer("Broncos"), id="q0"), question)
    message = complaint(path)
    assert message.startswith(f"{path}: data[0].paragraphs[0].qas[1] (id q1): it has no answer")
    assert "SQuAD 2.0" in message


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ('{"data": [\n{,}]}', ", line 2, place 2: not JSON"),
        ("", ", line 1, place 1: not JSON"),
        ("[" * 100_000, ": JSON nested too deep"),
        ("[]", ": the whole file: no object"),
        ("{}", ": data: field required"),
        ('{"data": [{"paragraphs": [{"context": "a"}]}]}', ": data[0].paragraphs[0].qas: field"),
        ('{"data": [{"paragraphs": [{"context": 5, "qas": []}]}]}', "].context: input should be"),
        ('{"data": []}', ": no question found"),
        ('{"data": [{"paragraphs": [{"context": " ", "qas": []}]}]}', "its context has no words"),
    ],
)
def test_a_bad_file_is_named_by_place(tmp_path: Path, content: str, words: str):
    path = tmp_path / "squad.json"
    path.write_text(content)
    message = complaint(path)
    assert message.startswith(str(path))
    assert words in message


def test_a_bad_answer_is_named_by_place(tmp_path: Path):
    path = write(tmp_path, asked({"text": "Broncos", "answer_start": "4"}))
    assert "data[0].paragraphs[0].qas[0].answers[0].answer_start: input should" in complaint(path)


def test_a_question_without_words(tmp_path: Path):
    path = write(tmp_path, asked(answer("Broncos"), question=" "))
    assert "qas[0] (id q1): the question has no words" in complaint(path)


@needs("data", "tasks", "squad")
def test_every_span_of_the_published_set_holds_its_answer():
    path = SHARED / "data" / "tasks" / "squad" / "squad1.1-dev-split.test.json.xz"
    corpus = read(path, max_words=1000)
    assert len(corpus.examples) == 1082
    widened = 0
    for question in corpus.examples:
        cuts = {question.paragraph.cut(span) for span in question.spans}
        for text in question.answers:
            assert any(text.strip() in cut for cut in cuts)
            widened += text.strip() not in cuts
    assert widened < 0.02 * sum(len(question.answers) for question in corpus.examples)
    [note] = corpus.notes
    assert note.startswith("answers that begin or end inside a word")
