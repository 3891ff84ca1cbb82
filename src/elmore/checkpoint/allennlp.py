"""AllenNLP archives once they are unpacked: config.json, weights.th, vocabulary/. A Transformer
language model is an ELMo itself. A model of a task contains one ELMo or several, of either kind.
"""

# P projection dim, F filters, D model dim, V words
import re
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from elmore.checkpoint.allennlp_task import CHAR_TABLE, read_mixes, read_task
from elmore.checkpoint.bilm import bilm_checkpoint, build_softmax, check_vocabulary
from elmore.checkpoint.checkpoint import Checkpoint, build_model
from elmore.checkpoint.companions import choose_part
from elmore.checkpoint.loose_json import loads_loose, read_json
from elmore.checkpoint.options import Filters
from elmore.checkpoint.torch_blocks import (
    SIDES,
    filters_of,
    read_convolutions,
    read_highways,
    read_linear,
)
from elmore.checkpoint.torch_file import TorchTensors, read_torch_file
from elmore.config import Foreign, valid
from elmore.errors import FormatError
from elmore.models.bilm import BiLMConfig
from elmore.models.layers import LayerModel
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.transformer import TransformerConfig
from elmore.text.byte_reader import N_CHARACTER_IDS
from elmore.text.vocabulary import Vocabulary

CONFIG, VOCABULARY = "config.json", Path("vocabulary") / "tokens.txt"
WEIGHTS = ("weights.th", "best.th")  # in an archive; in the folder of a training run

_POSITIONS = "_contextualizer._position.positional_encoding"
_SOFTMAX = "_softmax_loss.softmax_"
_TABLE = "._embedding._module.weight"
_ASSUMED = (
    "The archive lacks the language model's config: sizes are the tensors' own; relu, 8 heads and "
    "50 characters per word are assumed."
)
_LM = "_lm."  # what a task's token embedder calls the language model in it
_ENCODER = re.compile(
    r"_text_field_embedder\.token_embedder_(.+)\._encoder\._module\.char_conv_0\."
)
_PADDING = "@@PADDING@@"


def is_allennlp(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and weights_of(folder) is not None


def weights_of(folder: Path) -> Path | None:
    return next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)


def read_allennlp(folder: Path, *, heads: bool = False, part: str | None = None) -> Checkpoint:
    """The ELMo in the folder, `part` of its name if there are several; the heads of a language
    model only if asked for."""
    weights = weights_of(folder)
    assert weights is not None
    config = read_json(folder / CONFIG, loads_loose)
    tensors = TorchTensors(read_torch_file(weights), str(weights))
    if _POSITIONS in tensors:
        shape = _transformer_config(folder / CONFIG, config, tensors, _embedder_name(tensors, ""))
        return _read_transformer(folder, config, tensors, shape, heads)
    found = {
        name.removesuffix(end): end
        for name in sorted(tensors.tensors)
        for end in (CHAR_TABLE, _LM + _POSITIONS)
        if name.endswith(end)
    }
    if not found:
        raise FormatError(
            f"{weights}: contains no ELMo. Looked for '{_POSITIONS}' (a Transformer ELMo) and for "
            f"'…{CHAR_TABLE}' (a task model with an LSTM ELMo inside)."
        )
    names = {prefix.rstrip(".") or ".": prefix for prefix in found}
    prefix = names[choose_part(str(folder), list(names), part)]
    if found[prefix] == CHAR_TABLE:
        return read_task(folder, config, tensors, prefix)
    return read_task_transformer(tensors, prefix)


class _EncoderSection(Foreign):
    """The section of the character encoder."""

    type: Literal["cnn-highway"] = "cnn-highway"
    activation: Literal["relu", "tanh"] = "relu"
    embedding_dim: PositiveInt
    filters: Filters
    num_highway: Annotated[int, Field(ge=0)]
    projection_dim: PositiveInt
    projection_location: Literal["after_highway", "after_cnn"] = "after_highway"
    do_layer_norm: bool = False


class _ContextSection(Foreign):
    """The section 'contextualizer'."""

    type: Literal["bidirectional_language_model_transformer"]
    input_dim: PositiveInt
    hidden_dim: PositiveInt
    num_layers: PositiveInt
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.1
    input_dropout: Annotated[float, Field(ge=0, lt=1)] | None = None


def _read_transformer(
    folder: Path, config: dict[str, Any], tensors: TorchTensors, shape: BiLMConfig, heads: bool
) -> Checkpoint:
    model = _read_model(tensors, "", shape)
    by_word = config["model"].get("num_samples") is not None
    n_words = _softmax_rows(tensors, by_word)
    dim = shape.context.dim
    output = _read_softmax(tensors, n_words, dim, by_word) if heads and n_words else None
    words = _read_vocabulary(folder / VOCABULARY, n_words)
    check_vocabulary(words, shape, output, str(folder / VOCABULARY))
    return bilm_checkpoint(model, vocabulary=words, softmax=output, options=config)


def read_task_transformer(tensors: TorchTensors, prefix: str) -> Checkpoint:
    """The language model under `prefix` of a task's tensors, with the mix the task has learned.
    Its own config is in another archive, so its sizes are read off the tensors."""
    shape = _transformer_config_of(tensors, f"{prefix}{_LM}")
    model = _read_model(tensors, f"{prefix}{_LM}", shape)
    mixes = read_mixes(tensors, f"{prefix}_scalar_mix.", layer_norm=False)
    return bilm_checkpoint(model, mixes=mixes, notes=(_ASSUMED,))


def _read_model(tensors: TorchTensors, root: str, shape: BiLMConfig) -> LayerModel:
    """All of the language model whose names begin with `root`, but its softmax."""
    at = f"{root}_text_field_embedder.token_embedder_{_embedder_name(tensors, root)}"
    read = _read_spelling(tensors, shape, at) | _read_stacks(tensors, root, shape)
    tensors.expect_nothing_else((f"{root}_contextualizer.", f"{root}_text_field_embedder."))
    return build_model(shape, read, tensors.where)


def _embedder_name(tensors: TorchTensors, root: str) -> str:
    begun = [name.removeprefix(root) for name in tensors.tensors if name.startswith(root)]
    found = [match[1] for name in begun if (match := _ENCODER.match(name))]
    if not found:
        raise FormatError(f"{tensors.where}: no character convolutions; expected ELMo's spelling.")
    return found[0]


def _transformer_config_of(tensors: TorchTensors, root: str) -> BiLMConfig:
    """Sizes read off the tensors; the rest as in the published model."""
    name = _embedder_name(tensors, root)
    at = f"{root}_text_field_embedder.token_embedder_{name}._encoder._module"
    stack = f"{root}_contextualizer._forward_transformer.layers."
    n_highway = tensors.count(at + "._highways._layers.{}.weight")
    dim, before = tensors.shape(f"{at}._projection.weight", 2)
    width = tensors.shape(f"{at}._highways._layers.0.weight", 2)[1] if n_highway else before
    with valid(tensors.where):
        words = CharCNNConfig(
            char_dim=tensors.shape(f"{at.removesuffix('._encoder._module')}{_TABLE}", 2)[1],
            filters=filters_of(tensors, at + ".char_conv_{}"),
            n_highway=n_highway,
            dim=dim,
            project_at="after_highway" if width == before else "after_cnn",
            layer_norm=f"{at}._layer_norm.gamma" in tensors,
        )
        context = TransformerConfig(
            dim=dim,
            ff_dim=tensors.shape(f"{stack}0.feed_forward.w_1.weight", 2)[0],
            n_layers=tensors.count(stack + "{}.feed_forward.w_1.weight"),
            max_positions=tensors.shape(root + _POSITIONS, 3)[1],
        )
        return BiLMConfig(words=words, context=context)


def _transformer_config(
    path: Path, config: dict[str, Any], tensors: TorchTensors, embedder: str
) -> BiLMConfig:
    model = _section(path, config, "model")
    embedders = _section(path, model, "text_field_embedder")
    embedders = embedders.get("token_embedders", embedders)
    encoder = _section(path, _section(path, embedders, embedder), "encoder")
    with valid(path):
        spelling = _EncoderSection(**encoder)
        stack = _ContextSection(**_section(path, model, "contextualizer"))
        words = CharCNNConfig(
            char_dim=spelling.embedding_dim,
            filters=tuple((width, count) for width, count in spelling.filters),
            activation=spelling.activation,
            n_highway=spelling.num_highway,
            dim=spelling.projection_dim,
            project_at=spelling.projection_location,
            layer_norm=spelling.do_layer_norm,
        )
        context = TransformerConfig(
            dim=stack.input_dim,
            ff_dim=stack.hidden_dim,
            n_layers=stack.num_layers,
            dropout=stack.dropout,
            input_dropout=stack.input_dropout or 0.0,
            max_positions=tensors.shape(_POSITIONS, 3)[1],
        )
        return BiLMConfig(words=words, context=context)


def _read_spelling(tensors: TorchTensors, shape: BiLMConfig, prefix: str) -> dict[str, Tensor]:
    cnn, encoder = shape.words, f"{prefix}._encoder._module"
    assert isinstance(cnn, CharCNNConfig)
    table = (N_CHARACTER_IDS, cnn.char_dim)
    read = {"words.embed.weight": tensors.take(prefix + _TABLE, table)}
    read |= read_convolutions(tensors, encoder + ".char_conv_{}", cnn, "words.")
    width = cnn.dim if cnn.project_at == "after_cnn" else cnn.n_filters
    read |= read_highways(tensors, f"{encoder}._highways", cnn.n_highway, width, "words.")
    both = (cnn.dim, cnn.n_filters)
    read |= read_linear(tensors, f"{encoder}._projection", both, "words.project")
    if cnn.layer_norm:
        read |= _read_norm(tensors, f"{encoder}._layer_norm", cnn.dim, "words.norm")
    return read


def _read_stacks(tensors: TorchTensors, root: str, shape: BiLMConfig) -> dict[str, Tensor]:
    config = shape.context
    assert isinstance(config, TransformerConfig)
    positions = tensors.take(root + _POSITIONS, (1, config.max_positions, config.dim))
    read = {"context.positions": positions[0]}
    for d, side in enumerate(SIDES):
        theirs, ours = f"{root}_contextualizer._{side}_transformer", f"context.directions.{d}"
        for layer in range(config.n_layers):
            at = f"{ours}.blocks.{layer}"
            read |= _read_block(tensors, f"{theirs}.layers.{layer}", config, at)
        read |= _read_norm(tensors, f"{theirs}.norm", config.dim, f"{ours}.norm")
    return read


def _read_block(
    tensors: TorchTensors, name: str, config: TransformerConfig, at: str
) -> dict[str, Tensor]:
    dim, wide = config.dim, config.ff_dim
    linears = [
        read_linear(tensors, f"{name}.self_attn.linears.{i}", (dim, dim), "") for i in range(4)
    ]
    read = {
        f"{at}.attention.qkv{part}": torch.cat([linear[part] for linear in linears[:3]])
        for part in (".weight", ".bias")
    }
    read |= {f"{at}.attention.out{part}": tensor for part, tensor in linears[3].items()}
    into, out = (wide, dim), (dim, wide)
    read |= read_linear(tensors, f"{name}.feed_forward.w_1", into, f"{at}.feed_forward.0")
    read |= read_linear(tensors, f"{name}.feed_forward.w_2", out, f"{at}.feed_forward.3")
    for i in range(2):
        read |= _read_norm(tensors, f"{name}.sublayer.{i}.norm", dim, f"{at}.norm_{i + 1}")
    return read


def _read_norm(tensors: TorchTensors, name: str, dim: int, at: str) -> dict[str, Tensor]:
    return {f"{at}.{part}": tensors.take(f"{name}.{part}", (dim,)) for part in ("gamma", "beta")}


def _softmax_rows(tensors: TorchTensors, by_word: bool) -> int | None:
    """V. Stored as tables when sparse, as (V, D) when trained by samples, else as (D, V)."""
    if (sparse := f"{_SOFTMAX}w.weight") in tensors:
        return tensors.shape(sparse, 2)[0]
    if (plain := f"{_SOFTMAX}w") not in tensors:
        return None
    return tensors.shape(plain, 2)[0 if by_word else 1]


def _read_softmax(tensors: TorchTensors, n_words: int, dim: int, by_word: bool) -> nn.Linear:
    if (sparse := f"{_SOFTMAX}w.weight") in tensors:
        weight = tensors.take(sparse, (n_words, dim))
        return build_softmax(weight, tensors.take(f"{_SOFTMAX}b.weight", (n_words, 1))[:, 0])
    weight = tensors.take(f"{_SOFTMAX}w", (n_words, dim) if by_word else (dim, n_words))
    weight = weight if by_word else weight.T.contiguous()
    return build_softmax(weight, tensors.take(f"{_SOFTMAX}b", (n_words,)))


def _read_vocabulary(path: Path, n_rows: int | None) -> Vocabulary | None:
    """The line of a word is its row. Padding has no line, but the softmax has a last row
    for it. It is never a target, but it is in the softmax's sum: it gets the name of padding."""
    if not path.is_file():
        return None
    words = Vocabulary.read(path)
    return Vocabulary([*words.words, _PADDING]) if n_rows == len(words) + 1 else words


def _section(path: Path, config: object, name: str) -> dict[str, Any]:
    found = config.get(name) if isinstance(config, dict) else None
    if not isinstance(found, dict):
        raise FormatError(
            f"{path}: no section '{name}'; expected the config of a Transformer ELMo."
        )
    return found
