"""config.json of a GPT-2: its sizes. Relatives that compute something else are refused by name."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmore.checkpoint.bert_config import PIECES, WordOptions
from elmore.config import Foreign, valid
from elmore.errors import ConfigError, FormatError
from elmore.models.causal import CausalConfig, WordPooling
from elmore.nn.gpt import GPTConfig
from elmore.nn.post_norm import Activation

_REFUSED = {
    "openai-gpt": "the first GPT has norms after its sums and reads other byte pairs",
    "gpt_neo": "GPT-Neo attends by windows in every second layer",
    "gptj": "GPT-J has rotary positions",
    "gpt_neox": "GPT-NeoX has rotary positions",
    "gpt_bigcode": "GPT-BigCode has one key for all heads",
    "codegen": "CodeGen has rotary positions",
    "ctrl": "CTRL has fixed positions and reads other byte pairs",
    "opt": "OPT counts positions from 2",
    "bloom": "BLOOM has no positions but in attention",
}


class _GPT2(Foreign):
    vocab_size: int
    n_embd: int
    n_layer: int
    n_head: int
    n_positions: int
    n_inner: int | None = None
    activation_function: Activation = "gelu_new"
    embd_pdrop: float = 0.1
    attn_pdrop: float = 0.1
    resid_pdrop: float = 0.1
    layer_norm_epsilon: float = 1e-5
    tie_word_embeddings: bool = True
    elmore_pieces: WordPooling = "last"


class _Common(Foreign):
    """What decides whether a model is computed as GPT-2 computes."""

    model_type: str = "gpt2"
    activation_function: str = "gelu_new"
    scale_attn_weights: bool = True
    scale_attn_by_inverse_layer_idx: bool = False
    add_cross_attention: bool = False


def is_gpt2_like(options: Mapping[str, Any]) -> bool:
    """Whether this is a config.json of GPT-2 or of a relative. The oldest ones do not say it."""
    kind = options.get("model_type")
    if kind is None:
        return "n_embd" in options and "n_head" in options
    return kind == "gpt2" or (isinstance(kind, str) and kind in _REFUSED)


def refuse_relatives(options: Mapping[str, Any], path: Path) -> None:
    """An error if this is another kind of model."""
    with valid(path):
        said = _Common.model_validate(options)
    why = _REFUSED.get(said.model_type)
    if "afn" in options:  # as the first GPT calls its activation
        why = _REFUSED["openai-gpt"]
    elif said.activation_function not in ("gelu_new", "gelu", "relu"):
        why = f"its activation_function is {said.activation_function[:40]!r}, not gelu_new"
    elif not said.scale_attn_weights:
        why = "scale_attn_weights is false: its attention is not scaled"
    elif said.scale_attn_by_inverse_layer_idx:
        why = "scale_attn_by_inverse_layer_idx is true: its attention is scaled by layer"
    elif said.add_cross_attention:
        why = "add_cross_attention is true: it is the decoder of another model"
    if why is not None:
        raise FormatError(f"{path}: {why}; expected a GPT-2 as published.")


def config_from_options(options: Mapping[str, Any], path: Path, words: WordOptions) -> CausalConfig:
    """The sizes in a config."""
    if words.lowercase is not None:
        raise ConfigError(
            f"{path}: `lowercase` is for BERT; the byte pairs of a GPT-2 keep the case. "
            "Leave it out."
        )
    with valid(path):
        said = _GPT2.model_validate(options)
        context = GPTConfig(
            dim=said.n_embd,
            ff_dim=4 * said.n_embd if said.n_inner is None else said.n_inner,
            n_layers=said.n_layer,
            n_heads=said.n_head,
            activation=said.activation_function,
            dropout=said.resid_pdrop,
            attention_dropout=said.attn_pdrop,
            input_dropout=said.embd_pdrop,
            norm_eps=said.layer_norm_epsilon,
            max_positions=said.n_positions,
        )
        return CausalConfig(
            n_pieces=said.vocab_size,
            context=context,
            tied=said.tie_word_embeddings,
            softmax_bias=False,
            mark=False,
            word=words.pieces or said.elmore_pieces,
        )


def options_from_config(config: CausalConfig, known: Mapping[str, Any]) -> dict[str, Any]:
    """A config.json that `transformers` opens; whatever else `known` said is kept beside."""
    context = config.context
    assert isinstance(context, GPTConfig)
    sizes = {
        "vocab_size": config.n_pieces,
        "n_embd": context.dim,
        "n_layer": context.n_layers,
        "n_head": context.n_heads,
        "n_positions": context.max_positions,
        "n_inner": None if context.ff_dim == 4 * context.dim else context.ff_dim,
        "activation_function": context.activation,
        "embd_pdrop": context.input_dropout,
        "attn_pdrop": context.attention_dropout,
        "resid_pdrop": context.dropout,
        "layer_norm_epsilon": context.norm_eps,
        "tie_word_embeddings": config.tied,
    }
    left_out = {"torch_dtype", "model_type", PIECES}
    kept = {name: value for name, value in known.items() if name not in left_out}
    pooled = {} if config.word == "last" else {PIECES: config.word}
    return {"model_type": "gpt2", **kept, **sizes, "dtype": "float32", **pooled}
