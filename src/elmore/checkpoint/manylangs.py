"""ELMoForManyLangs folders: two files of tensors, one or two dictionaries, and a config.json that
names the file with the sizes, often by a path on the machine it was trained on.
"""

# P projection dim, F filters, E word dim
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveInt
from torch import Tensor

from elmore.checkpoint.bilm import bilm_checkpoint, read_dictionaries
from elmore.checkpoint.checkpoint import Checkpoint, build_model
from elmore.checkpoint.loose_json import loads_loose, read_json
from elmore.checkpoint.options import Filters, LSTMSection
from elmore.checkpoint.torch_blocks import (
    ASSUMED,
    filters_of,
    lstm_of,
    read_convolutions,
    read_highways,
    read_linear,
    read_lstm,
)
from elmore.checkpoint.torch_file import TorchTensors, read_torch_file
from elmore.config import Foreign, valid
from elmore.errors import FormatError
from elmore.models.bilm import BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.word_char import WordCharConfig

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
            f"{tensors.where}: no '{_CHARACTER_TABLE}'; models without it are not supported."
        )
    path, raw = _inner_config(folder)
    with valid(path):
        config = _config_of(tensors, None if raw is None else _Config(**raw))
    model = build_model(config, _read_tensors(tensors, config), str(folder))
    assumed = f"{path.name} is not beside {CONFIG}: {ASSUMED}"
    notes = () if raw is not None else (assumed,)
    dictionary = read_dictionaries(config, folder / CHARACTERS, folder / WORDS)
    return bilm_checkpoint(model, options=raw, dictionary=dictionary, notes=notes)


class _EncoderSection(LSTMSection):
    """The section 'encoder'."""

    name: Literal["elmo"]


class _EmbedderSection(Foreign):
    """The section 'token_embedder'."""

    name: Literal["cnn"]
    activation: Literal["relu", "tanh"]
    filters: Filters
    n_highway: Annotated[int, Field(ge=0)]
    word_dim: Annotated[int, Field(ge=0)]
    char_dim: PositiveInt
    max_characters_per_token: Annotated[int, Field(ge=3)] = 50


class _Config(Foreign):
    """The file config.json points to; training settings beside them are ignored."""

    encoder: _EncoderSection
    token_embedder: _EmbedderSection


def _inner_config(folder: Path) -> tuple[Path, dict[str, Any] | None]:
    """The file with the sizes and what it says, None if the file is missing."""
    outer = read_json(folder / CONFIG, loads_loose)
    if "token_embedder" in outer:
        return folder / CONFIG, outer
    named = outer.get("config_path")
    if not isinstance(named, str) or not named:
        raise FormatError(f"{folder / CONFIG}: no 'config_path'; expected one of ELMoForManyLangs.")
    path = folder / (re.split(r"[/\\]", named)[-1] or CONFIG)
    there = path.is_file() and path.name != CONFIG
    return path, read_json(path, loads_loose) if there else None


def _config_of(tensors: TorchTensors, said: _Config | None) -> BiLMConfig:
    """Without the file, sizes are read off the tensors, and the rest is as in published models."""
    n_characters, char_dim = tensors.shape(_CHARACTER_TABLE, 2)
    n_words, word_dim = tensors.shape(_WORD_TABLE, 2) if _WORD_TABLE in tensors else (0, 0)
    if said is None:
        context, filters = lstm_of(tensors, ""), filters_of(tensors, _CONVOLUTION)
        n_highway = tensors.count("highways._layers.{}.weight")
        rest: dict[str, Any] = {}
    else:
        context, words = said.encoder.config(forget_bias=0.0), said.token_embedder
        filters = tuple((width, count) for width, count in words.filters)
        n_highway, char_dim, word_dim = words.n_highway, words.char_dim, words.word_dim
        n_words = tensors.shape(_WORD_TABLE, 2)[0] if word_dim else 0
        rest = {
            "activation": words.activation,
            "max_characters": words.max_characters_per_token,
        }
    characters = CharCNNConfig(
        n_characters=n_characters,
        char_dim=char_dim,
        filters=filters,
        n_highway=n_highway,
        dim=sum(count for _, count in filters),
        project=False,
        **rest,
    )
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
