"""Brackets in columns, of CoNLL-2005 and CoNLL-2012; what is wrong is told with file and line."""

from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.tasks.propositions import Proposition
from elmore.tasks.readers.role_columns import read_conll2005, read_conll2012, read_props
from elmore.tasks.spans import Span
from tests.tasks.tiny_roles import proposition

PROPS = "- (A0*)\nsee (V*)\n- (A1*\n- *)\n\n- \n"


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_brackets_become_spans(tmp_path: Path):
    path = write(tmp_path / "a.props", PROPS)
    gold, found = read_props(path, path)
    assert gold == found == [
        [Proposition(1, "see", (Span(0, 1, "A0"), Span(1, 2, "V"), Span(2, 4, "A1")))], [],
    ]  # fmt: skip


def test_a_closing_bracket_may_repeat_its_role(tmp_path: Path):
    path = write(tmp_path / "a.props", "go (V*V)\n- (A4*\n- *A4)\n")
    assert read_props(path, path)[0] == [[proposition(0, (0, 1, "V"), (1, 3, "A4"))]]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "- (A0*\nsee (V*)\n- *)\n",
            r"line 2, column 2: V begins inside A0, which begins at .* line 1",
        ),
        ("- ((A0(A1*))\n", r"line 1: 0 predicates in column 1, but 1 columns"),
        ("see (A0(V*))\n", r"line 1, column 2: '\(A0\(V\*\)\)'; expected '\*', "),
        ("- *)\nsee (V*)\n", r"line 1, column 2: a bracket closes that was not opened"),
        ("see (V*)\n- (A1*\n", r"line 2, column 2: the bracket of A1 is not closed"),
        ("see (V*A0)\n", r"line 1, column 2: A0 is closed, but V is open"),
        ("see (V*) *\n", r"line 1: 1 predicates in column 1, but 2 columns of arguments"),
        ("see (V*)\n- * *\n", r"line 2: 3 columns .*, but the sentence began with 2"),
        ("", r"a.props: no sentence found"),
    ],
)
def test_wrong_columns_are_refused_with_file_and_line(text: str, said: str, tmp_path: Path):
    bad = write(tmp_path / "a.props", text)
    with pytest.raises(InputError, match=said):
        read_props(bad, bad)


def test_both_files_must_have_the_same_sentences(tmp_path: Path):
    whole, other = write(tmp_path / "a.props", PROPS), tmp_path / "b.props"
    write(other, "- (A0*)\nsee (V*)\n")
    with pytest.raises(InputError, match=r"b.props, line 1: a sentence of 2 words, but .* has 4"):
        read_props(whole, other)
    write(other, PROPS.partition("\n\n")[0] + "\n")
    with pytest.raises(InputError, match=r"a.props, line 6: .*b.props ends before"):
        read_props(whole, other)
    with pytest.raises(InputError, match=r"a.props, line 6: .*b.props ends before"):
        read_props(other, whole)


FULL = (
    "Anna NNP (S* - - (A0*) *\nsaw VBD * 01 see (V*) *\nBob NNP * - - (A1*) (A0*)\n"
    "run VB *) 02 run * (V*)\n\nOh UH * - -\n"
)


def test_the_column_of_the_predicates_is_found(tmp_path: Path):
    first, second = read_conll2005(write(tmp_path / "a.txt", FULL))
    assert first.words == ("Anna", "saw", "Bob", "run")
    assert first.propositions == (
        proposition(1, (0, 1, "A0"), (1, 2, "V"), (2, 3, "A1"), lemma="see"),
        proposition(3, (2, 3, "A0"), (3, 4, "V"), lemma="run"),
    )
    assert (second.words, second.propositions) == (("Oh",), ())
    assert list(read_conll2005(tmp_path / "a.txt", 4)) == [first, second]


def test_a_file_where_it_cannot_be_found_says_so(tmp_path: Path):
    path = write(tmp_path / "a.txt", "Anna - *\nsaw see *\n")
    with pytest.raises(InputError, match=r"a.txt: no columns can be that of the predicates"):
        list(read_conll2005(path))
    with pytest.raises(InputError, match=r"a.txt, line 1: 3 columns; expected .* in column 7"):
        list(read_conll2005(path, 7))


CONLL_2012 = (
    "#begin document (a); part 000\n"
    "a 0 0 Anna NNP (S* - - - - * (ARG0*) * (1)\n"
    "a 0 1 planned VBD * plan 01 1 - * (V*) * -\n"
    "a 0 2 attacks NNS *) attack 01 1 - * (ARG1*) (V*) -\n"
    "\n#end document\n"
)


def test_conll2012_marks_predicates_by_their_brackets(tmp_path: Path):
    (sentence,) = read_conll2012(write(tmp_path / "a.conll", CONLL_2012))
    assert sentence.words == ("Anna", "planned", "attacks")
    verb, noun = sentence.propositions or ()
    assert (verb.predicate, verb.lemma, verb.is_verb) == (1, "plan", True)
    assert verb.pieces == (Span(0, 1, "ARG0"), Span(1, 2, "V"), Span(2, 3, "ARG1"))
    assert (noun.predicate, noun.lemma, noun.is_verb) == (2, "attack", False)


def test_conll2012_without_predicate_or_columns_is_refused(tmp_path: Path):
    path = write(tmp_path / "a.conll", CONLL_2012.replace("(V*) -\n\n", "* -\n\n"))
    with pytest.raises(InputError, match=r"line 2: column 13 has 0 predicates \(V\*\)"):
        list(read_conll2012(path))
    write(path, "a 0 0 Anna NNP\n")
    with pytest.raises(InputError, match=r"line 1: 5 columns; CoNLL-2012 has 12 or more"):
        list(read_conll2012(path))
