"""config.json of a Hugging Face folder, and Google's bert_config.json: the sizes of a BERT. Models
that are relatives of BERT but compute something else are refused by name.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmore.config import Foreign, valid
from elmore.errors import ConfigError, FormatError
from elmore.models.bert import MASKED, NEXT, BertConfig, Pooling
from elmore.nn.post_norm import Activation

PIECES = "elmore_pieces"
"""How pieces are pooled to words, if not the usual way; other programs ignore it."""

_REFUSED = {
    "roberta": "RoBERTa counts positions from 2 and reads byte pairs",
    "xlm-roberta": "XLM-RoBERTa counts positions from 2 and reads SentencePiece",
    "camembert": "CamemBERT is a RoBERTa, which counts positions from 2",
    "albert": "ALBERT shares one layer and factors its embeddings",
    "modernbert": "ModernBERT has rotary positions and norms before its sums",
    "deberta": "DeBERTa attends by relative positions",
    "deberta-v2": "DeBERTa attends by relative positions",
    "mpnet": "MPNet adds relative positions to attention",
    "mobilebert": "MobileBERT has bottlenecks in its layers",
    "convbert": "ConvBERT has convolutions in its layers",
    "funnel": "Funnel shortens its sequences",
    "longformer": "Longformer attends by windows",
    "big_bird": "BigBird attends by blocks",
    "nomic_bert": "Nomic BERT has rotary positions",
    "xlnet": "XLNet attends by relative positions",
}


@dataclass(frozen=True, slots=True)
class WordOptions:
    """What a model that reads pieces of words may be told. None: as its files say."""

    lowercase: bool | None = None
    """Whether text is lowercased first; some files do not say it."""
    pieces: Pooling | None = None
    """A word's vector: that of its first piece, or the mean of its pieces."""


def word_options(lowercase: bool | None = None, pieces: str | None = None) -> WordOptions:
    """Checked."""
    if pieces is not None and pieces not in _POOLINGS:
        raise ConfigError(f"pieces is {pieces!r}; expected 'first' or 'mean'.")
    return WordOptions(lowercase, None if pieces is None else _POOLINGS[pieces])


_POOLINGS: dict[str, Pooling] = {"first": "first", "mean": "mean"}
AS_THE_FILES_SAY = WordOptions()


class _Bert(Foreign):
    """Under the names of BERT, the same in Google's files."""

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    intermediate_size: int
    hidden_act: Activation
    max_position_embeddings: int
    type_vocab_size: int = 2
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    layer_norm_eps: float = 1e-12
    elmore_pieces: Pooling = "first"


class _DistilBert(Foreign):
    """Under the names of DistilBERT."""

    vocab_size: int
    dim: int
    n_layers: int
    n_heads: int
    hidden_dim: int
    activation: Activation = "gelu"
    max_position_embeddings: int = 512
    dropout: float = 0.1
    attention_dropout: float = 0.1
    elmore_pieces: Pooling = "first"


class _Common(Foreign):
    """What decides whether a model is computed as BERT computes."""

    model_type: str | None = None
    position_embedding_type: str = "absolute"
    is_decoder: bool = False
    embedding_size: int | None = None
    hidden_size: int | None = None


def is_bert_like(options: Mapping[str, Any]) -> bool:
    """Whether this is a config.json of Hugging Face, of BERT or of a relative."""
    named = isinstance(options.get("model_type"), str)
    return named or ("hidden_size" in options and "num_attention_heads" in options)


def refuse_relatives(options: Mapping[str, Any], path: Path) -> None:
    """An error if this is another kind of model."""
    with valid(path):
        said = _Common.model_validate(options)
    kind, why = said.model_type or "bert", None
    if kind in _REFUSED:
        why = _REFUSED[kind]
    elif kind == "electra" and said.embedding_size not in (None, said.hidden_size):
        why = f"this ELECTRA has embeddings of {said.embedding_size}, not {said.hidden_size}"
    elif kind not in ("bert", "distilbert", "electra"):
        why = f"its model_type is {kind[:40]!r}"
    elif said.position_embedding_type != "absolute":
        why = f"its position_embedding_type is {said.position_embedding_type[:40]!r}"
    elif said.is_decoder:
        why = "it is a decoder, which sees what comes before a word only"
    if why is not None:
        raise FormatError(f"{path}: {why}; expected a BERT or DistilBERT with absolute positions.")


def config_from_options(
    options: Mapping[str, Any], path: Path, words: WordOptions, *, pooler: bool
) -> BertConfig:
    """The sizes in a config; whether there is a pooler is seen in the weights."""
    refuse_relatives(options, path)
    with valid(path):
        if options.get("model_type") == "distilbert":
            small = _DistilBert.model_validate(options)
            return BertConfig(
                n_pieces=small.vocab_size,
                dim=small.dim,
                n_layers=small.n_layers,
                n_heads=small.n_heads,
                ff_dim=small.hidden_dim,
                max_positions=small.max_position_embeddings,
                n_segments=0,
                activation=small.activation,
                dropout=small.dropout,
                attention_dropout=small.attention_dropout,
                pooler=False,
                pieces=words.pieces or small.elmore_pieces,
            )
        said = _Bert.model_validate(options)
        return BertConfig(
            n_pieces=said.vocab_size,
            dim=said.hidden_size,
            n_layers=said.num_hidden_layers,
            n_heads=said.num_attention_heads,
            ff_dim=said.intermediate_size,
            max_positions=said.max_position_embeddings,
            n_segments=said.type_vocab_size,
            activation=said.hidden_act,
            dropout=said.hidden_dropout_prob,
            attention_dropout=said.attention_probs_dropout_prob,
            norm_eps=said.layer_norm_eps,
            pooler=pooler,
            pieces=words.pieces or said.elmore_pieces,
        )


def options_from_config(
    config: BertConfig, known: Mapping[str, Any], heads: Mapping[str, object]
) -> dict[str, Any]:
    """A config.json that `transformers` opens; whatever else `known` said is kept beside."""
    distil = config.n_segments == 0
    sizes: dict[str, Any] = {
        "vocab_size": config.n_pieces,
        "max_position_embeddings": config.max_positions,
    }
    if distil:
        sizes |= {
            "dim": config.dim,
            "n_layers": config.n_layers,
            "n_heads": config.n_heads,
            "hidden_dim": config.ff_dim,
            "activation": config.activation,
            "dropout": config.dropout,
            "attention_dropout": config.attention_dropout,
        }
    else:
        sizes |= {
            "hidden_size": config.dim,
            "num_hidden_layers": config.n_layers,
            "num_attention_heads": config.n_heads,
            "intermediate_size": config.ff_dim,
            "type_vocab_size": config.n_segments,
            "hidden_act": config.activation,
            "hidden_dropout_prob": config.dropout,
            "attention_probs_dropout_prob": config.attention_dropout,
            "layer_norm_eps": config.norm_eps,
        }
    left_out = {"torch_dtype", "model_type", PIECES}
    kept = {name: value for name, value in known.items() if name not in left_out}
    kept["architectures"] = [_architecture(distil, known, heads)]
    pooled = {} if config.pieces == "first" else {PIECES: config.pieces}
    kind = "distilbert" if distil else "bert"
    return {"model_type": kind, **kept, **sizes, "dtype": "float32", **pooled}


def _architecture(distil: bool, known: Mapping[str, Any], heads: Mapping[str, object]) -> str:
    """The class of `transformers` that has these heads."""
    family, before = "DistilBert" if distil else "Bert", str(known.get("architectures"))
    match MASKED in heads, NEXT in heads:
        case True, True:
            return f"{family}ForPreTraining"
        case True, False:
            return f"{family}ForMaskedLM"
        case False, True:
            return f"{family}ForNextSentencePrediction"
    published = re.search(rf"'({family}\w+)'", before) if heads else None
    return f"{family}Model" if published is None else published[1]
