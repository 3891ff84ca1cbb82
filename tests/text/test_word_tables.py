"""Which files are tables of words, and which are text."""

import pytest

from elmore.text.word_tables import Table, table_of

CONLLU = [
    "# sent_id = 1",
    "1-2\tDon't\t_\t_\t_\t_\t_\t_\t_\t_",
    "1\tDo\tdo\tAUX\t_\t_\t3\taux\t_\t_",
    "2\tn't\tnot\tPART\t_\t_\t3\tadvmod\t_\t_",
    "3\tgo\tgo\tVERB\t_\t_\t0\troot\t_\t_",
]


@pytest.mark.parametrize("lines", [CONLLU, ["", *CONLLU], CONLLU[2:3]])
def test_conllu_is_known_by_its_first_row(lines: list[str]) -> None:
    assert table_of(lines) is Table.CONLLU


@pytest.mark.parametrize(
    "lines",
    [
        ["-DOCSTART- -X- O O", "", "EU NNP B-NP B-ORG", *["rejects VBZ B-VP O"] * 4, ""],
        ["科0\tB-ORG", "技1\tI-ORG", "，0\tO", "", "今0\tO", "天1\tO"],
        ["Anna S-PER", "and O", "Bo B-PER", "Li E-PER", ". O"],
    ],
)
def test_words_with_tags_are_known(lines: list[str]) -> None:
    assert table_of(lines) is Table.TAGGED


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["# a heading", "Some text ."],
        ["1\tone\ttab", "2\ttwo\ttabs"],
        ["Type O", "blood O"],  # too few to be sure
        ["a b O", "c O", "d O", "e O", "f O"],  # not a table
        ["a b c d e f O"] * 9,
        ["Good morning !"] * 9,
    ],
)
def test_text_is_no_table(lines: list[str]) -> None:
    assert table_of(lines) is None
