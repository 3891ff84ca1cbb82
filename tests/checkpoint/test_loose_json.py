"""JSON with comments and last commas; what is inside a string stays."""

import time
from pathlib import Path

import pytest

from elmore.checkpoint.loose_json import loads_loose, read_json
from elmore.errors import FormatError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1,}', {"a": 1}),
        ('{"a": [1, 2, ], }', {"a": [1, 2]}),
        ('// first\n{"a": 1 // one\n, # two\n}', {"a": 1}),
        ('{"a": /* [ */ 1, /* } */ }', {"a": 1}),
        (
            '{"url": "http://x//y#z,}", "b": "/* no */",}',
            {"url": "http://x//y#z,}", "b": "/* no */"},
        ),
        ('{"quote": "\\",]", "slash": "\\\\",}', {"quote": '",]', "slash": "\\"}),
    ],
)
def test_it_reads(text: str, value: object):
    assert loads_loose(text) == value


@pytest.mark.parametrize(
    "text", ["{", "[1]", '"a', "{,,}", "", "\ufeff", '{"a": "\\', "[" * 100000]
)
def test_what_is_not_an_object_is_refused_in_one_line(tmp_path: Path, text: str):
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(FormatError, match=r"config\.json: ") as caught:
        read_json(path, loads_loose)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ['"\\' * 400_000, "/*" * 400_000, "," * 800_000, ', \n"' * 200_000]
)
def test_no_text_takes_more_than_one_pass(tmp_path: Path, text: str):
    path = tmp_path / "config.json"
    path.write_text(text, encoding="utf-8")
    start = time.process_time()
    with pytest.raises(FormatError):
        read_json(path, loads_loose)
    assert time.process_time() - start < 3


def test_bytes_that_are_not_utf8_and_files_too_long(tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_bytes(b"{\xff}")
    with pytest.raises(FormatError, match="not JSON"):
        read_json(path, loads_loose)
    path.write_bytes(b" " * ((1 << 24) + 1))
    with pytest.raises(FormatError, match="over 16 MiB"):
        read_json(path, loads_loose)
