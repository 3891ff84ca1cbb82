"""The byte pairs of a GPT-2: tokenizer.json, or vocab.json and merges.txt. Only the pieces and
their merges are taken from it, and anything that would cut text differently is refused.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmore.checkpoint.loose_json import read_json
from elmore.config import Foreign, valid
from elmore.errors import FormatError
from elmore.small_files import read_small
from elmore.text.subwords import MERGES, VOCAB_JSON, BytePairs, BytePairsConfig, parse_merges
from elmore.text.wordpiece import TOKENIZER, TOKENIZER_CONFIG

_MAX_BYTES = 1 << 26
_END_OF_TEXT = "<|endoftext|>"


class _Kind(Foreign):
    type: str


class _Splitter(_Kind):
    add_prefix_space: bool = False
    use_regex: bool = True


class _Model(_Kind):
    vocab: dict[str, int]
    merges: list[str] | list[list[str]]
    dropout: float | None = None
    continuing_subword_prefix: str | None = None
    end_of_word_suffix: str | None = None
    byte_fallback: bool = False
    ignore_merges: bool = False


class _Added(Foreign):
    id: int
    content: str


class _Tokenizer(Foreign):
    model: _Model
    pre_tokenizer: _Splitter | None = None
    normalizer: _Kind | None = None
    added_tokens: tuple[_Added, ...] | list[_Added] = ()


def read_byte_pairs(folder: Path, options: Mapping[str, Any], n_pieces: int) -> BytePairs:
    """The pieces of a table of `n_pieces` rows; `options` say which of them are the marks."""
    if (folder / TOKENIZER).is_file():
        path = folder / TOKENIZER
        ids, merges, spaced = _from_tokenizer(path)
    elif (folder / VOCAB_JSON).is_file() and (folder / MERGES).is_file():
        path = folder / VOCAB_JSON
        ids, merges, spaced = _from_two(folder)
    else:
        raise FormatError(
            f"{folder}: no byte pairs here. Looked for {TOKENIZER}, or {VOCAB_JSON} and {MERGES}."
        )
    if sorted(ids.values()) != list(range(len(ids))):
        raise FormatError(f"{path}: its pieces are not numbered from 0 without gaps.")
    if len(ids) > n_pieces:
        raise FormatError(
            f"{path}: has {len(ids):,} pieces, but the model {n_pieces:,}; expected the "
            "vocabulary it was trained with."
        )
    names = sorted(ids, key=ids.__getitem__)
    begin, end = (_mark(options.get(f"{mark}_token_id"), names, path) for mark in ("bos", "eos"))
    config = BytePairsConfig(bos_token=begin, eos_token=end, add_prefix_space=spaced)
    try:
        return BytePairs(names, merges, config)
    except FormatError as error:
        raise FormatError(f"{path}: {error}.") from None


def _mark(given: object, names: list[str], path: Path) -> str:
    if isinstance(given, int) and 0 <= given < len(names):
        return names[given]
    if _END_OF_TEXT in names:
        return _END_OF_TEXT
    raise FormatError(
        f"{path}: which piece begins and ends a text is unknown; expected bos_token_id and "
        f"eos_token_id in config.json, or the piece {_END_OF_TEXT}."
    )


_Found = tuple[dict[str, int], list[tuple[str, str]], bool]
"""Ids of pieces, pairs to be joined, and whether the first word of a text has a space too."""


def _from_tokenizer(path: Path) -> _Found:
    with valid(path):
        found = _Tokenizer.model_validate(read_json(path))
    model, splitter = found.model, found.pre_tokenizer
    byte_level = splitter is not None and splitter.type == "ByteLevel" and splitter.use_regex
    plain = not (model.continuing_subword_prefix or model.end_of_word_suffix or model.dropout)
    plain = plain and not (model.byte_fallback or model.ignore_merges)
    if model.type != "BPE" or not byte_level or not plain or found.normalizer is not None:
        raise FormatError(
            f"{path}: cuts text otherwise than GPT-2 (a model {model.type[:40]!r}); expected plain "
            "byte-level BPE without a normalizer."
        )
    assert splitter is not None
    ids = model.vocab | {added.content: added.id for added in found.added_tokens}
    lines = [pair if isinstance(pair, str) else " ".join(pair) for pair in model.merges]
    return ids, _merges(lines, path), splitter.add_prefix_space


def _from_two(folder: Path) -> _Found:
    path, settings = folder / MERGES, folder / TOKENIZER_CONFIG
    ids = read_json(folder / VOCAB_JSON)
    if not all(type(i) is int for i in ids.values()):
        raise FormatError(f"{folder / VOCAB_JSON}: expected the number of each piece.")
    lines = read_small(path, _MAX_BYTES).decode("utf-8", "replace").splitlines()
    spaced = read_json(settings).get("add_prefix_space") if settings.is_file() else False
    return dict(ids), _merges(lines, path), spaced is True


def _merges(lines: list[str], path: Path) -> list[tuple[str, str]]:
    try:
        return parse_merges(lines)
    except FormatError as error:
        raise FormatError(f"{path}: {error}.") from None
