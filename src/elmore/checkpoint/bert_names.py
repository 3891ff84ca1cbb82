"""What the tensors of a BERT are called: here, by Hugging Face (BERT and DistilBERT), and in
Google's TensorFlow checkpoints. One table, read in either direction.
"""

import re
from typing import Literal

Family = Literal["bert", "distilbert"]
FAMILIES: tuple[Family, ...] = ("bert", "distilbert")
PREFIXES = ("bert.", "distilbert.", "electra.")
"""Before the names of the model itself, where it was saved together with a head."""

_BERT, _DISTIL = "encoder.layer.N.", "transformer.layer.N."

# Ours: BERT's, DistilBERT's. Several names are parts of one tensor, one below another.
_NAMES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "embed.pieces": (("embeddings.word_embeddings",),) * 2,
    "embed.positions": (("embeddings.position_embeddings",),) * 2,
    "embed.segments": (("embeddings.token_type_embeddings",), ()),
    "embed.norm": (("embeddings.LayerNorm",),) * 2,
    "blocks.N.attention.qkv": (
        tuple(f"{_BERT}attention.self.{part}" for part in ("query", "key", "value")),
        tuple(f"{_DISTIL}attention.{part}_lin" for part in "qkv"),
    ),
    "blocks.N.attention.out": (
        (f"{_BERT}attention.output.dense",),
        (f"{_DISTIL}attention.out_lin",),
    ),
    "blocks.N.norm_1": ((f"{_BERT}attention.output.LayerNorm",), (f"{_DISTIL}sa_layer_norm",)),
    "blocks.N.expand": ((f"{_BERT}intermediate.dense",), (f"{_DISTIL}ffn.lin1",)),
    "blocks.N.contract": ((f"{_BERT}output.dense",), (f"{_DISTIL}ffn.lin2",)),
    "blocks.N.norm_2": ((f"{_BERT}output.LayerNorm",), (f"{_DISTIL}output_layer_norm",)),
    "pooler": (("pooler.dense",), ()),
    "mlm.dense": (("cls.predictions.transform.dense",), ("vocab_transform",)),
    "mlm.norm": (("cls.predictions.transform.LayerNorm",), ("vocab_layer_norm",)),
    "mlm": (("cls.predictions",), ("vocab_projector",)),
    "nsp": (("cls.seq_relationship",), ()),
}
DECODERS: dict[Family, str] = {"bert": "cls.predictions.decoder", "distilbert": "vocab_projector"}
"""Doubles of the table of pieces (`.weight`) and of the head's bias (`.bias`)."""
_TF_HEADS = {
    "cls.predictions.bias": "cls/predictions/output_bias",
    "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
    "cls.seq_relationship.bias": "cls/seq_relationship/output_bias",
}


def hugging_face_names(ours: str, family: Family) -> tuple[str, ...]:
    """`blocks.3.norm_1.weight` -> `encoder.layer.3.attention.output.LayerNorm.weight`."""
    module, _, kind = ours.rpartition(".")
    number = re.search(r"\.(\d+)\.", module)
    known = module if number is None else module.replace(number[0], ".N.", 1)
    theirs = _NAMES[known][FAMILIES.index(family)]
    return tuple(f"{name}.{kind}".replace(".N.", number[0] if number else "") for name in theirs)


def plain_name(theirs: str) -> str:
    """A tensor's name without a prefix, and with today's names of what a layer norm learns."""
    for prefix in PREFIXES:
        theirs = theirs.removeprefix(prefix)
    theirs = re.sub(r"\bLayerNorm\.gamma$", "LayerNorm.weight", theirs)
    return re.sub(r"\bLayerNorm\.beta$", "LayerNorm.bias", theirs)


def tensorflow_name(theirs: str) -> tuple[str, bool]:
    """Google's name for a tensor of Hugging Face, and whether it is transposed there."""
    if theirs in _TF_HEADS:
        return _TF_HEADS[theirs], False
    module, _, kind = theirs.rpartition(".")
    path = re.sub(r"layer\.(\d+)", r"layer_\1", module).replace(".", "/")
    path = path if path.startswith("cls/") else f"bert/{path}"
    if module.endswith("LayerNorm"):
        return f"{path}/{'gamma' if kind == 'weight' else 'beta'}", False
    if module.endswith("_embeddings"):
        return path, False
    return f"{path}/{'kernel' if kind == 'weight' else kind}", kind == "weight"
