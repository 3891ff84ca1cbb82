"""Files made to do harm: one line with the file, nothing fetched, no memory, no time."""

import gzip
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from elmore.errors import InputError
from elmore.tasks.readers.column_blocks import column_blocks
from elmore.tasks.readers.columns import read_columns
from elmore.tasks.readers.coref import read_clusters, read_documents
from elmore.tasks.readers.gap import read_gap
from elmore.tasks.readers.pairs import read_pairs
from elmore.tasks.readers.role_lines import read_role_lines
from elmore.tasks.readers.senses import read_raganato, read_semcor
from elmore.tasks.readers.squad import read_squad
from elmore.tasks.readers.use_pairs import read_wic

BODY = "<corpus><sentence><wf>&j;</wf></sentence></corpus>"
LAUGHS = '<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9)
)
OUTSIDE = '<!ENTITY j SYSTEM "file:///etc/passwd">'


def refused(read: Callable[[], Any], said: str) -> None:
    started = time.monotonic()
    with pytest.raises(InputError, match=said) as caught:
        list(read())
    assert "\n" not in str(caught.value)
    assert time.monotonic() - started < 2


@pytest.mark.parametrize("entities", [LAUGHS, OUTSIDE])
def test_xml_with_entities_is_refused(entities: str, tmp_path: Path):
    path = tmp_path / "x.data.xml"
    path.write_text(f'<?xml version="1.0"?>\n<!DOCTYPE l [{entities}]>\n{BODY}')
    (tmp_path / "x.gold.key.txt").write_text("a b\n")
    refused(lambda: read_raganato(path), r"x\.data\.xml, line 2: the entity '[aj]' is declared")


@pytest.mark.parametrize("depth", [900, 990, 1000, 100_000])
def test_json_nested_deep_is_one_line(depth: int, tmp_path: Path):
    deep = "[" * depth + "]" * depth
    path = tmp_path / "x.jsonl"
    path.write_text(f'{{"tokens": [{deep}]}}\n')
    refused(lambda: read_semcor(path), r"x\.jsonl, line 1: ")
    path.write_text(f'{{"premise": "a", "hypothesis": "b", "label": {deep}}}\n')
    refused(lambda: read_pairs(path).examples, r"x\.jsonl, line 1: ")
    path.write_text(f'{{"words": ["a"], "props": {deep}}}\n')
    refused(lambda: read_role_lines(path).examples, r"x\.jsonl, line 1: ")
    path.write_text(f'{{"sentences": [["a"]], "clusters": {deep}}}\n')
    refused(lambda: read_documents(path), r"x\.jsonl, line 1: ")
    path.write_text(f'{{"data": {deep}}}')
    refused(lambda: read_squad(path, max_words=9).examples, r"x\.jsonl: ")


def test_a_compressed_file_cannot_fill_the_memory(tmp_path: Path):
    path = tmp_path / "x.txt.gz"
    with gzip.open(path, "wb") as file:
        for _ in range(30):
            file.write((b"a" * 100_000 + b" O\n\n") * 50)
    with pytest.raises(InputError, match="far more text than its size allows"):
        for _ in read_columns(path):
            pass
    with pytest.raises(InputError, match="far more text than its size allows"):
        for _ in column_blocks(path):
            pass


def test_labels_of_clusters_take_no_time(tmp_path: Path):
    path = tmp_path / "x.conll"
    for label in ("a" * 200_000, "(" * 200_000, "(1" * 100_000, "1)" * 100_000):
        path.write_text(f"#begin document (x)\nx\t{label}\n#end document\n")
        refused(lambda: read_clusters(path), r"x\.conll, line 2: the (label|bracket) ")


def test_offsets_of_thousands_of_digits(tmp_path: Path):
    path = tmp_path / "gap.tsv"
    path.write_text(f"1\tShe met Ann\tShe\t{'0' * 5000}\tAnn\t8\tTRUE\tAnn\t8\tTRUE\tx\n")
    refused(lambda: read_gap(path), "line 1: 'She' is not at character 000")


def test_a_place_of_thousands_of_digits(tmp_path: Path):
    path = tmp_path / "x.data.txt"
    path.write_text(f"a\tN\t{'9' * 5000}-1\ta b\tc d\n")
    (tmp_path / "x.gold.txt").write_text("T\n")
    refused(lambda: read_wic(path), "line 1: the places are '999")


def test_many_answers_at_the_wrong_place_of_a_long_paragraph(tmp_path: Path):
    answers = [{"text": "b", "answer_start": 300_000 + i * 3} for i in range(300)]
    asked = {"id": 1, "question": "a", "answers": answers}
    data = [{"paragraphs": [{"context": "ab " * 100_000, "qas": [asked]}]}]
    path = tmp_path / "x.json"
    path.write_text(json.dumps({"data": data}))
    started = time.process_time()
    (question,) = read_squad(path, max_words=10).examples
    assert len(question.answers) == 300
    assert time.process_time() - started < 5  # most of it is the tokenizer's
