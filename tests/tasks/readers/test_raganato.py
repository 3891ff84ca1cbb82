"""The unified WSD layout: words from XML, senses from the key file, complaints with their line."""

import lzma
from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.tasks.readers.senses import SenseSentence, SenseUse, read_raganato, set_name
from tests.shared import SHARED, needs

XML = """<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="toy">
<text id="d000">
<sentence id="d000.s000">
<wf lemma="it" pos="PRON">It</wf>
<wf lemma="be" pos="VERB">&apos;s</wf>
<instance id="d000.s000.t000" lemma="take_place" pos="VERB">taking place</instance>
<instance id="d000.s000.t001" lemma="Bank" pos="NOUN">banks</instance>
</sentence>
<sentence id="d000.s001">
<wf lemma="no" pos="ADV">No</wf>
</sentence>
</text>
</corpus>
"""
KEYS = """d000.s000.t000 take_place%2:30:00::
d000.s000.t001 bank%1:17:01:: bank%1:14:00::
"""


def write(folder: Path, xml: str = XML, keys: str = KEYS) -> Path:
    (folder / "toy.gold.key.txt").write_text(keys, encoding="utf-8")
    path = folder / "toy.data.xml"
    path.write_text(xml, encoding="utf-8")
    return path


def test_expressions_are_split_and_every_right_sense_is_kept(tmp_path: Path):
    place = SenseUse(2, 4, ("take_place", "VERB"), ("take_place%2:30:00::",))
    banks = SenseUse(4, 5, ("bank", "NOUN"), ("bank%1:17:01::", "bank%1:14:00::"))
    assert list(read_raganato(write(tmp_path))) == [
        SenseSentence(("It", "'s", "taking", "place", "banks"), (place, banks)),
        SenseSentence(("No",), ()),
    ]


def test_both_files_may_be_compressed(tmp_path: Path):
    plain = write(tmp_path)
    packed = tmp_path / "packed" / "toy.data.xml.xz"
    packed.parent.mkdir()
    packed.write_bytes(lzma.compress(plain.read_bytes()))
    (packed.parent / "toy.gold.key.txt.xz").write_bytes(lzma.compress(KEYS.encode()))
    assert list(read_raganato(packed)) == list(read_raganato(plain))
    assert set_name(packed) == "toy"


def test_a_sentence_is_given_before_the_file_is_read_to_its_end(tmp_path: Path):
    path = write(tmp_path, XML.replace("</corpus>", "</wrong>"))
    sentences = read_raganato(path)
    assert next(sentences).words[0] == "It"
    with pytest.raises(InputError, match=r"toy\.data\.xml, line 14: not well-formed XML"):
        list(sentences)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('<sentence id="d000.s000">', "", r"line 5: <wf> outside a <sentence>"),
        (' lemma="Bank"', "", r"line 8: an <instance> without lemma"),
        ('lemma="Bank" pos="NOUN"', 'lemma="Bank" pos="N"', r"line 8: pos 'N' where one of NOUN"),
        ("banks</inst", " </inst", r"line 8: an <instance> without a word"),
        ("t001", "t000", r"line 8: instance d000\.s000\.t000 has no sense left"),
        ("</text>\n</corpus>\n", "", r"line 13: not well-formed XML \(no element found\)"),
    ],
)
def test_what_is_wrong_in_the_xml_is_named_with_its_line(
    tmp_path: Path, old: str, new: str, message: str
):
    assert old in XML
    with pytest.raises(InputError, match=message):
        list(read_raganato(write(tmp_path, XML.replace(old, new))))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("d000.s000.t000 a%1:00:00::\n", r"line 8: instance d000\.s000\.t001 has no sense"),
        (KEYS + "d001.s000.t000 a%1:00:00::\n", r"1 instances .*\(d001\.s000\.t000 first\)"),
        (KEYS + KEYS, r"toy\.gold\.key\.txt, line 3: d000\.s000\.t000 is there twice"),
        ("\nd000.s000.t000\n", r"toy\.gold\.key\.txt, line 2: d000\.s000\.t000 has no sense"),
    ],
)
def test_senses_and_instances_must_fit(tmp_path: Path, keys: str, message: str):
    with pytest.raises(InputError, match=message):
        list(read_raganato(write(tmp_path, keys=keys)))


def test_a_data_file_without_its_senses_is_refused(tmp_path: Path):
    path = write(tmp_path)
    (tmp_path / "toy.gold.key.txt").unlink()
    with pytest.raises(InputError, match=r"its answers, toy\.gold\.key\.txt, are not beside it"):
        list(read_raganato(path))


def test_a_file_of_another_name_is_refused(tmp_path: Path):
    write(tmp_path)
    with pytest.raises(InputError, match=r"expected a file whose name ends in \.data\.xml"):
        list(read_raganato(tmp_path / "toy.gold.key.txt"))


@needs("data", "tasks", "wsd")
@pytest.mark.parametrize(
    ("name", "published"),
    [("senseval2", 2282), ("senseval3", 1850), ("semeval2007", 455), ("semeval2013", 1644),
     ("semeval2015", 1022)],
)  # fmt: skip
def test_the_five_sets_have_as_many_instances_as_published(name: str, published: int):
    path = SHARED / "data" / "tasks" / "wsd" / f"{name}.data.xml.xz"
    assert sum(len(sentence.uses) for sentence in read_raganato(path)) == published
