"""ELMoForManyLangs folders: two files of tensors, one or two dictionaries, and a config.json that
names the file with the sizes, often by a path of the machine it was trained on.
"""

# P projection dim, F filters, E word dim
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt, ValidationError
from torch import Tensor

from elmore.checkpoint.bilm import bilm_checkpoint
from elmore.checkpoint.checkpoint import Checkpoint, build_model
from elmore.checkpoint.loose_json import read_loose_json
from elmore.checkpoint.torch_blocks import (
    filters_of,
    lstm_of,
    read_convolutions,
    read_highways,
    read_linear,
    read_lstm,
)
from elmore.checkpoint.torch_file import TorchTensors, read_torch_file
from elmore.config import Foreign, one_line
from elmore.errors import FormatError
from elmore.models.bilm import BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.word_char import WordCharConfig
from elmore.text.dictionary_reader import DictionaryReader, read_dictionary

CONFIG, ENCODER, EMBEDDER, CHARACTERS, WORDS = (
    "config.json", "encoder.pkl", "token_embedder.pkl", "char.dic", "word.dic",
)  # fmt: skip
_WORD_TABLE = "word_emb_layer.embedding.weight"
_CHARACTER_TABLE = "char_emb_layer.embedding.weight"
_CONVOLUTION = "convolutions.{}"


def is_manylangs(folder: Path) -> bool:
    return all((folder / name).is_file() for name in (CONFIG, ENCODER, EMBEDDER))


def read_manylangs(folder: Path) -> Checkpoint:
    """A model folder of ELMoForManyLangs, with word vectors or without."""
    merged = read_torch_file(folder / EMBEDDER) | read_torch_file(folder / ENCODER)
    tensors = TorchTensors(merged, str(folder / EMBEDDER))
    if _CHARACTER_TABLE not in tensors:
        raise FormatError(
            f"{tensors.where}: no '{_CHARACTER_TABLE}'; only models that read characters are known."
        )
    path, raw = _inner_config(folder)
    try:
        config = _config_of(tensors) if raw is None else _config_from(_Config(**raw), tensors)
    except ValidationError as error:
        raise FormatError(f"{path}: {one_line(error)}.") from None
    model = build_model(config, _read_tensors(tensors, config), str(folder))
    missing = (
        f"{path.name} is not beside {CONFIG}: sizes are the tensors' own; relu, clips of 3 and "
    )
    notes = () if raw is not None else (missing + "50 characters a word are assumed.",)
    dictionary = _dictionary(folder, config)
    return bilm_checkpoint(model, options=raw, dictionary=dictionary, notes=notes)


class _EncoderSection(Foreign):
    """The section 'encoder', as far as it shapes the model."""

    name: Literal["elmo"]
    dim: PositiveInt
    projection_dim: PositiveInt
    n_layers: PositiveInt
    cell_clip: PositiveFloat | None = None
    proj_clip: PositiveFloat | None = None


class _EmbedderSection(Foreign):
    """The section 'token_embedder'."""

    name: Literal["cnn"]
    activation: Literal["relu", "tanh"]
    filters: list[Annotated[list[PositiveInt], Field(min_length=2, max_length=2)]]
    n_highway: Annotated[int, Field(ge=0)]
    word_dim: Annotated[int, Field(ge=0)]
    char_dim: PositiveInt
    max_characters_per_token: Annotated[int, Field(ge=3)] = 50


class _Config(Foreign):
    """The file config.json points to; training settings beside are let be."""

    encoder: _EncoderSection
    token_embedder: _EmbedderSection


def _inner_config(folder: Path) -> tuple[Path, dict[str, Any] | None]:
    """The file with the sizes and what it says, None where it did not come along."""
    outer = read_loose_json(folder / CONFIG)
    if "token_embedder" in outer:
        return folder / CONFIG, outer
    named = outer.get("config_path")
    if not isinstance(named, str) or not named:
        raise FormatError(f"{folder / CONFIG}: no 'config_path'; expected one of ELMoForManyLangs.")
    path = folder / (re.split(r"[/\\]", named)[-1] or CONFIG)
    return (path, read_loose_json(path)) if path.is_file() and path.name != CONFIG else (path, None)


def _config_from(config: _Config, tensors: TorchTensors) -> BiLMConfig:
    lstm, words = config.encoder, config.token_embedder
    context = LSTMConfig(
        dim=lstm.projection_dim,
        cell_dim=lstm.dim,
        n_layers=lstm.n_layers,
        cell_clip=lstm.cell_clip,
        proj_clip=lstm.proj_clip,
        forget_bias=0.0,
    )
    filters = tuple((width, count) for width, count in words.filters)
    characters = CharCNNConfig(
        n_characters=tensors.shape(_CHARACTER_TABLE, 2)[0],
        char_dim=words.char_dim,
        filters=filters,
        activation=words.activation,
        n_highway=words.n_highway,
        max_characters=words.max_characters_per_token,
        dim=sum(count for _, count in filters),
        project=False,
    )
    n_words = tensors.shape(_WORD_TABLE, 2)[0] if words.word_dim else 0
    embedder = WordCharConfig(
        characters=characters, n_words=n_words, word_dim=words.word_dim, dim=context.dim
    )
    return BiLMConfig(words=embedder, context=context)


def _config_of(tensors: TorchTensors) -> BiLMConfig:
    """What can be seen without the file; the rest as in all the models that were published."""
    context = lstm_of(tensors, "")
    filters = filters_of(tensors, _CONVOLUTION)
    n_characters, char_dim = tensors.shape(_CHARACTER_TABLE, 2)
    characters = CharCNNConfig(
        n_characters=n_characters,
        char_dim=char_dim,
        filters=filters,
        n_highway=tensors.count("highways._layers.{}.weight"),
        dim=sum(count for _, count in filters),
        project=False,
    )
    n_words, word_dim = tensors.shape(_WORD_TABLE, 2) if _WORD_TABLE in tensors else (0, 0)
    embedder = WordCharConfig(
        characters=characters, n_words=n_words, word_dim=word_dim, dim=context.dim
    )
    return BiLMConfig(words=embedder, context=context)


def _read_tensors(tensors: TorchTensors, config: BiLMConfig) -> dict[str, Tensor]:
    words, lstm = config.words, config.context
    assert isinstance(words, WordCharConfig)
    assert isinstance(lstm, LSTMConfig)
    cnn, at = words.characters, "words.spell."
    shape = (cnn.n_characters, cnn.char_dim)
    read = {f"{at}embed.weight": tensors.take(_CHARACTER_TABLE, shape)}
    read |= read_convolutions(tensors, _CONVOLUTION, cnn, at)
    read |= read_highways(tensors, "highways", cnn.n_highway, cnn.n_filters, at)
    if words.word_dim:
        read["words.embed.weight"] = tensors.take(_WORD_TABLE, (words.n_words, words.word_dim))
    both = (words.dim, words.word_dim + cnn.n_filters)  # the word's vector first
    read |= read_linear(tensors, "projection", both, "words.project")
    read |= read_lstm(tensors, "", lstm)
    tensors.expect_nothing_else()
    return read


def _dictionary(folder: Path, config: BiLMConfig) -> DictionaryReader:
    words = config.words
    assert isinstance(words, WordCharConfig)
    characters = read_dictionary(folder / CHARACTERS, words.characters.n_characters)
    listed = read_dictionary(folder / WORDS, words.n_words) if words.word_dim else None
    try:
        return DictionaryReader(characters, listed, words.max_characters)
    except FormatError as error:
        raise FormatError(f"{folder}: {error}") from None
