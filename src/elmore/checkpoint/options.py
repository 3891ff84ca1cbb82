"""options.json, the sizes and settings of an LSTM ELMo as AllenNLP and bilm-tf write them."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PositiveFloat, PositiveInt

from elmore.checkpoint.loose_json import read_json
from elmore.config import Foreign, valid
from elmore.errors import FormatError
from elmore.models.bilm import BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.word_char import WordCharConfig, WordTableConfig
from elmore.text.byte_reader import N_CHARACTER_IDS

_WHEN_ABSENT: dict[str, Any] = {
    "use_skip_connections": False,
    "n_highway": 0,
    "n_characters": N_CHARACTER_IDS,
}


def read_options(path: Path) -> dict[str, Any]:
    options = read_json(path)
    if not isinstance(options.get("lstm"), dict):
        raise FormatError(f"{path}: no 'lstm' section; expected the options.json of an LSTM ELMo.")
    return options


Filters = list[Annotated[list[PositiveInt], Field(min_length=2, max_length=2)]]
"""(width, count) of each convolution, as foreign files write them."""


class LSTMSection(Foreign):
    """What shapes the LSTM, under the names of bilm-tf; training settings beside it are ignored."""

    dim: PositiveInt
    projection_dim: PositiveInt
    n_layers: PositiveInt
    cell_clip: PositiveFloat | None = None
    proj_clip: PositiveFloat | None = None

    def config(self, *, skip: bool = True, forget_bias: float = 1.0) -> LSTMConfig:
        return LSTMConfig(
            dim=self.projection_dim,
            cell_dim=self.dim,
            n_layers=self.n_layers,
            cell_clip=self.cell_clip,
            proj_clip=self.proj_clip,
            skip=skip,
            forget_bias=forget_bias,
        )


class _LSTMOptions(LSTMSection):
    """The section 'lstm'."""

    use_skip_connections: bool = _WHEN_ABSENT["use_skip_connections"]


class _EmbeddingOptions(Foreign):
    """The section 'char_cnn.embedding'."""

    dim: PositiveInt


class _CharCNNOptions(Foreign):
    """The section 'char_cnn'; `n_characters` is 261 as trained, 262 as edited for inference."""

    activation: Literal["relu", "tanh"]
    embedding: _EmbeddingOptions
    filters: Filters
    max_characters_per_token: int
    n_characters: Literal[261, 262] = _WHEN_ABSENT["n_characters"]
    n_highway: int | None = _WHEN_ABSENT["n_highway"]


class _Options(Foreign):
    """options.json. Errors use the names written there."""

    lstm: _LSTMOptions
    char_cnn: _CharCNNOptions | None = None


def config_from_options(options: dict[str, Any], path: Path, n_words: int | None) -> BiLMConfig:
    """Options say everything but the size of a word-input model's table."""
    with valid(path):
        said = _Options.model_validate(options)
        context = said.lstm.config(skip=said.lstm.use_skip_connections)
        if said.char_cnn is not None:
            return BiLMConfig(words=_char_cnn_config(said.char_cnn, context.dim), context=context)
        if n_words is None:
            raise FormatError(
                f"{path}: no 'char_cnn' section, and the weights have no 'embedding' table; "
                "a model needs one of the two."
            )
        return BiLMConfig(words=WordTableConfig(n_words=n_words, dim=context.dim), context=context)


def _char_cnn_config(cnn: _CharCNNOptions, dim: int) -> CharCNNConfig:
    filters = tuple((width, count) for width, count in cnn.filters)
    return CharCNNConfig(
        char_dim=cnn.embedding.dim,
        filters=filters,
        activation=cnn.activation,
        n_highway=cnn.n_highway or 0,
        max_characters=cnn.max_characters_per_token,
        dim=dim,
        project=sum(count for _, count in filters) != dim,
    )


def refuse_unwritable(config: BiLMConfig) -> None:
    """HDF5 is for LSTM ELMos that read bytes or whole words, and nothing else."""
    words, why = config.words, None
    if not isinstance(config.context, LSTMConfig):
        why = "this one is a Transformer"
    elif isinstance(words, WordCharConfig):
        why = "this one spells by a character dictionary of its own"
    elif isinstance(words, CharCNNConfig) and (
        words.layer_norm or words.project_at != "after_highway"
    ):
        why = "this one's character network has a layer norm or an early projection"
    elif isinstance(words, CharCNNConfig) and words.project and words.n_filters == words.dim:
        why = f"this one projects from {words.dim} filters to as many"
    if why is not None:
        raise FormatError(
            f"HDF5 holds LSTM ELMos as AllenNLP and bilm-tf know them; {why}. "
            "Write elmore's own format instead: name a folder."
        )


def options_from_config(config: BiLMConfig, known: Any) -> dict[str, Any]:
    """Options for `config`; whatever else `known` said (training settings) is kept beside."""
    assert isinstance(config.context, LSTMConfig)
    options: dict[str, Any] = {k: v for k, v in known.items() if k not in ("lstm", "char_cnn")}
    context, words = config.context, config.words
    lstm = {
        "dim": context.cell_dim,
        "projection_dim": context.dim,
        "n_layers": context.n_layers,
        "cell_clip": context.cell_clip,
        "proj_clip": context.proj_clip,
        "use_skip_connections": context.skip,
    }
    options["lstm"] = _said_anew(lstm, known.get("lstm", {}))
    if isinstance(words, CharCNNConfig):
        old = known.get("char_cnn", {})
        cnn = {
            "activation": words.activation,
            "embedding": {**old.get("embedding", {}), "dim": words.char_dim},
            "filters": [list(pair) for pair in words.filters],
            "max_characters_per_token": words.max_characters,
            "n_characters": old.get("n_characters", N_CHARACTER_IDS),
            "n_highway": words.n_highway,
        }
        options["char_cnn"] = _said_anew(cnn, old)
    return options


def _said_anew(new: dict[str, Any], old: dict[str, Any]) -> dict[str, Any]:
    """What is still true stays as it was: absent stays absent, an int 3 stays an int."""
    if not old:
        return new  # all of it, even a null clip: AllenNLP asks for the key
    return old | {k: v for k, v in new.items() if (old.get(k) or _WHEN_ABSENT.get(k)) != v}
