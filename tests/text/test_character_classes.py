"""Characters outside a dictionary: classes by script and kind, so that unknown words differ."""

import pytest

from elmore.text.character_classes import character_class, character_classes
from elmore.text.dictionary_reader import CHARACTER_MARKS, DictionaryReader


@pytest.mark.parametrize(
    ("character", "kind"),
    [
        ("龘", "han"), ("あ", "kana"), ("ア", "kana"), ("한", "hangul"), ("ß", "latin"),
        ("Ω", "greek"), ("ж", "cyrillic"), ("ש", "letter"), ("\u0301", "mark"), ("٣", "number"),
        ("¿", "punctuation"), ("🎉", "symbol"), ("\ue000", "other"), ("\ud800", "other"),
    ],
)  # fmt: skip
def test_a_character_has_one_class(character: str, kind: str):
    assert character_class(character) == f"<{kind}:{ord(character) % 8}>"
    assert character_classes().count(character_class(character)) == 1


def test_unknown_words_of_one_length_are_spelled_differently():
    items = [*CHARACTER_MARKS, *character_classes(), "山"]
    reader = DictionaryReader({item: row for row, item in enumerate(items)}, None, 10)
    words = ["龘山", "龙山", "жд", "ab", "🎉🎊"]
    rows = reader.spell(words)
    assert len({tuple(row) for row in rows.tolist()}) == len(words)
    assert items[rows[0][1]] == character_class("龘")
    assert items[rows[0][2]] == "山"


def test_a_dictionary_without_classes_has_one_row_for_all():
    reader = DictionaryReader({item: row for row, item in enumerate(CHARACTER_MARKS)}, None, 10)
    assert reader.spell(["жд"]).tolist() == reader.spell(["ab"]).tolist()
