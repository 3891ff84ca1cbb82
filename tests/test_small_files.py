"""Small files are bounded: links to devices, pipes and files without end are refused at once."""

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from elmore.checkpoint.loose_json import read_json
from elmore.checkpoint.sources import load, save
from elmore.config import Frozen, load_json
from elmore.errors import ElmoreError, FormatError
from elmore.files.checked import read_checked
from elmore.small_files import read_small
from elmore.text.dictionary_reader import read_dictionary
from elmore.text.vocabulary import Vocabulary
from tests.checkpoint.foreign_models import (
    make_bilm_tf,
    make_manylangs,
    make_task,
    make_transformer,
)
from tests.tiny_models import make

pytestmark = pytest.mark.skipif(os.name == "nt", reason="devices and pipes have no names there")

READERS: dict[str, Callable[[Path], object]] = {
    "read_small": read_small,
    "load_json": lambda path: load_json(path, Frozen),
    "read_json": read_json,
    "Vocabulary.read": Vocabulary.read,
    "read_dictionary": lambda path: read_dictionary(path, 10),
    "read_checked": lambda path: read_checked(path, Frozen, 1, called="x", remedy="y"),
}


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def pipe(path: Path) -> None:
    os.mkfifo(path)


def sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


ENDLESS = {"device": zeros, "pipe": pipe, "sparse": sparse}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("kind", ENDLESS)
def test_what_never_ends_is_refused_at_once(tmp_path: Path, reader: str, kind: str):
    path = tmp_path / "file"
    ENDLESS[kind](path)
    with pytest.raises(FormatError, match=r"not a regular file|over \d+ MiB"):
        READERS[reader](path)


def native(folder: Path) -> Path:
    save(load(make_words(folder.parent / "tf"), heads=True), folder)
    return folder


def make_words(folder: Path) -> Path:
    make_bilm_tf(folder)
    return folder


MODELS: dict[str, Callable[[Path], object]] = {
    "native": native,
    "hdf5": lambda folder: make(folder, words=True),
    "bilm-tf": make_bilm_tf,
    "Transformer": make_transformer,
    "task": make_task,
    "ELMoForManyLangs": make_manylangs,
}


@pytest.mark.parametrize("kind", ENDLESS)
@pytest.mark.parametrize("model", MODELS)
def test_no_file_of_a_model_may_be_endless(tmp_path: Path, model: str, kind: str):
    folder = tmp_path / "model"
    MODELS[model](folder)
    for path in [path for path in sorted(folder.rglob("*")) if path.is_file()]:
        kept = path.rename(tmp_path / "kept")
        ENDLESS[kind](path)
        with suppress(ElmoreError):
            load(folder, heads=True)
        path.unlink()
        kept.rename(path)
    load(folder, heads=True)


def test_a_name_with_a_nul_is_refused(tmp_path: Path):
    with pytest.raises(FormatError, match=r"cannot be read \(embedded null byte\)"):
        read_small(tmp_path / "a\0b")


def test_deep_json_is_refused_before_it_is_walked_through(tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_text('{"a":' * 300 + "1" + "}" * 300)
    with pytest.raises(FormatError, match="nested over 100 levels"):
        read_json(path)


def test_a_message_is_one_line_whatever_it_quotes():
    message = str(FormatError("a\nb\x1b[31m\ud800 ü 東"))
    assert message == "a\\nb\\x1b[31m\\ud800 ü 東"
