"""The files of a WordPiece tokenizer: tokenizer.json, or vocab.txt and what tokenizer_config.json
says of it. Only settings are read from them; the tokenizer itself is always built anew.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from elmore.checkpoint.loose_json import read_json
from elmore.config import Foreign, valid
from elmore.errors import ConfigError, FormatError
from elmore.small_files import read_small
from elmore.text.wordpiece import (
    TOKENIZER,
    TOKENIZER_CONFIG,
    VOCABULARY,
    AddedPiece,
    WordPiece,
    WordPieceConfig,
)

_SENTENCE_BERT = "sentence_bert_config.json"
_ADDED = "added_tokens.json"
_OWN_CLASSES = ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "TokenizersBackend")
_MARKS = {
    "unk_token": "unknown",
    "cls_token": "begin",
    "sep_token": "end",
    "pad_token": "padding",
    "mask_token": "mask",
}
_MAX_PADDING = 128  # tables are rounded up, to multiples of this at most


def read_wordpiece(
    folder: Path, n_rows: int, lowercase: bool | None = None
) -> tuple[WordPiece, tuple[str, ...]]:
    """The tokenizer of a table with `n_rows`, and notes. `lowercase` None: as the files say."""
    config_file = folder / TOKENIZER_CONFIG
    settings = read_json(config_file) if config_file.is_file() else {}
    whole = (folder / TOKENIZER).is_file()
    path = folder / (TOKENIZER if whole else VOCABULARY)
    with valid(path):
        if whole:
            vocabulary, said, added = _from_tokenizer(path, n_rows)
        else:
            vocabulary, said = read_vocabulary(path), {}
            added = _old_added(folder, len(vocabulary))
            _refuse_other_class(settings, config_file)
        said |= _settings(settings, config_file)
        said |= {"lowercase": _case(folder, said, vocabulary, lowercase)}
        try:
            found = WordPiece(vocabulary, WordPieceConfig(**said), added)
            return found, _check(found, n_rows)
        except FormatError as error:
            raise FormatError(f"{path}: {error}.") from None


class _Normalizer(Foreign):
    """Of tokenizer.json."""

    type: Literal["BertNormalizer"]
    clean_text: bool = True
    handle_chinese_chars: bool = True
    strip_accents: bool | None = None
    lowercase: bool = True


class _PreTokenizer(Foreign):
    """Of tokenizer.json."""

    type: Literal["BertPreTokenizer"]


class _Model(Foreign):
    """Of tokenizer.json."""

    type: Literal["WordPiece"]
    unk_token: str = "[UNK]"
    continuing_subword_prefix: str = "##"
    max_input_chars_per_word: int = 100
    vocab: dict[str, int]


class _Tokenizer(Foreign):
    """tokenizer.json. How it pads, cuts and adds marks is ours to say, not the file's."""

    normalizer: _Normalizer
    pre_tokenizer: _PreTokenizer
    model: _Model
    added_tokens: list[dict[str, Any]] = Field(default_factory=list)


def _from_tokenizer(path: Path, n_rows: int) -> tuple[list[str], dict[str, Any], list[AddedPiece]]:
    said = _Tokenizer.model_validate(read_json(path))
    normalizer, model = said.normalizer, said.model
    settings = {
        "clean_text": normalizer.clean_text,
        "chinese_characters": normalizer.handle_chinese_chars,
        "strip_accents": normalizer.strip_accents,
        "lowercase": normalizer.lowercase,
        "unknown": model.unk_token,
        "prefix": model.continuing_subword_prefix,
        "max_characters": model.max_input_chars_per_word,
    }
    added = [AddedPiece.model_validate(piece, strict=True) for piece in said.added_tokens]
    return _by_id(model.vocab, n_rows, path), settings, added


def _by_id(vocab: Mapping[str, int], n_rows: int, path: Path) -> list[str]:
    """Pieces in the order of their ids; an id without a piece has an empty one."""
    for piece, i in vocab.items():
        if not 0 <= i < n_rows:
            raise FormatError(f"{path}: {piece[:40]!r} has the id {i}, {_rows(n_rows)}.")
    pieces = [""] * (max(vocab.values(), default=-1) + 1)
    for piece, i in vocab.items():
        pieces[i] = piece
    return pieces


def _rows(n_rows: int) -> str:
    return f"but the model's table has {n_rows:,} rows; expected the vocabulary of its training"


def read_vocabulary(path: Path) -> list[str]:
    """One piece per line; its id is the number of the line, from 0."""
    if not path.exists():
        raise FormatError(f"{path}: no such file; a BERT needs tokenizer.json or vocab.txt.")
    try:
        text = read_small(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"{path}: not UTF-8 ({error.reason} at byte {error.start}).") from None
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


def _old_added(folder: Path, n_pieces: int) -> list[AddedPiece]:
    """Old folders list pieces that were added to vocab.txt in a file of their own."""
    path = folder / _ADDED
    if not path.is_file():
        return []
    found = read_json(path).items()
    with valid(path):
        added = [AddedPiece(id=i, content=c, normalized=True, special=False) for c, i in found]
    return [piece for piece in added if piece.id >= n_pieces]


def _settings(settings: Mapping[str, Any], path: Path) -> dict[str, Any]:
    """What tokenizer_config.json says goes before tokenizer.json, as in `transformers`."""
    said: dict[str, Any] = {}
    for theirs, ours in (
        ("do_lower_case", "lowercase"),
        ("tokenize_chinese_chars", "chinese_characters"),
        ("strip_accents", "strip_accents"),
    ):
        value = settings.get(theirs)
        if theirs in settings and value is not None and not isinstance(value, bool):
            raise FormatError(f"{path}: {theirs} is {value!r:.40}; expected true or false.")
        if value is not None or (theirs == "strip_accents" and theirs in settings):
            said[ours] = value
    for theirs, ours in _MARKS.items():
        value = settings.get(theirs)
        value = value.get("content") if isinstance(value, dict) else value
        if isinstance(value, str):
            said[ours] = value
    return said


def _case(folder: Path, said: Mapping[str, Any], vocabulary: list[str], asked: bool | None) -> bool:
    """Asked for, or as a file says; without either it cannot be known."""
    lowers = folder / _SENTENCE_BERT
    if asked is not None:
        return asked
    if lowers.is_file() and read_json(lowers).get("do_lower_case") is True:
        return True
    if "lowercase" in said:
        return bool(said["lowercase"])
    capitals = any(piece != piece.lower() for piece in vocabulary if not piece.startswith("["))
    has, choose = ("has", "--cased") if capitals else ("has no", "--lowercase")
    raise ConfigError(
        f"{folder / VOCABULARY}: nothing says whether this model reads lowercased text. The "
        f"vocabulary {has} capital letters: probably {choose} (lowercase={not capitals})."
    )


def _refuse_other_class(settings: Mapping[str, Any], path: Path) -> None:
    named = settings.get("tokenizer_class")
    if isinstance(named, str) and named.removesuffix("Fast") not in _OWN_CLASSES:
        raise FormatError(
            f"{path}: its tokenizer is a {named[:40]}; expected a BertTokenizer (WordPiece)."
        )


def _check(found: WordPiece, n_rows: int) -> tuple[str, ...]:
    """Every piece has a row. A table may be rounded up, which is noted; any other difference means
    two different models."""
    if lost := [piece for piece in found.added if piece.id >= n_rows]:
        raise FormatError(f"{lost[0].content[:40]!r} has the id {lost[0].id}, {_rows(n_rows)}")
    _ = found.tokenizer  # built now, so that what it cannot use is refused here
    n_pieces = len(found) + sum(piece.id >= len(found) for piece in found.added)
    if n_pieces == n_rows:
        return ()
    if n_pieces < n_rows < n_pieces + _MAX_PADDING and n_rows % 8 == 0:
        return (f"the table of pieces has {n_rows - n_pieces} rows more than the vocabulary.",)
    raise FormatError(f"{n_pieces:,} pieces, {_rows(n_rows)}")
