"""GPT-2 in a Hugging Face folder, which is also how elmore saves one: config.json, the weights, and
the files of its byte pairs. It is a causal model whose context is a `GPT`.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from elmore.checkpoint.bert_config import AS_THE_FILES_SAY, WordOptions
from elmore.checkpoint.bilm import SOFTMAX, build_softmax
from elmore.checkpoint.causal import causal_checkpoint, causal_of, subwords_of
from elmore.checkpoint.checkpoint import Checkpoint, build_model, empty_model
from elmore.checkpoint.gpt2_config import (
    config_from_options,
    is_gpt2_like,
    options_from_config,
    refuse_relatives,
)
from elmore.checkpoint.gpt2_pieces import read_byte_pairs
from elmore.checkpoint.loose_json import read_json
from elmore.checkpoint.native import CONFIG, MODEL, save_tensors
from elmore.checkpoint.torch_file import TorchTensors
from elmore.checkpoint.weight_files import read_weights
from elmore.errors import FormatError
from elmore.files.atomic import atomic_folder
from elmore.models.causal import Causal, CausalConfig
from elmore.nn.gpt import GPTConfig
from elmore.nn.softmax import Softmax
from elmore.text.subwords import BytePairs
from elmore.text.wordpiece import TOKENIZER_CONFIG

PREFIX, HEAD = "transformer.", "lm_head.weight"

# Ours: theirs, without the prefix that they have where there is a head.
_NAMES = {
    "pieces": "wte",
    "context.positions": "wpe",
    "context.blocks.N.norm_1": "h.N.ln_1",
    "context.blocks.N.attention.qkv": "h.N.attn.c_attn",
    "context.blocks.N.attention.out": "h.N.attn.c_proj",
    "context.blocks.N.norm_2": "h.N.ln_2",
    "context.blocks.N.expand": "h.N.mlp.c_fc",
    "context.blocks.N.contract": "h.N.mlp.c_proj",
    "context.norm": "ln_f",
}
_PARTS = ("wte.", "wpe.", "h.", "ln_f.")  # of the model; others are heads
_TRANSPOSED = re.compile(r"\.c_\w+\.weight$")  # (inputs, outputs)
_BUFFERS = re.compile(r"^h\.\d+\.attn\.(bias|masked_bias)$")  # the causal mask


def gpt2_name(ours: str) -> str:
    """`context.blocks.3.norm_1.weight` -> `h.3.ln_1.weight`."""
    module, _, kind = ours.rpartition(".")
    number = re.search(r"\.(\d+)\.", module)
    known = module if number is None else module.replace(number[0], ".N.", 1)
    return f"{_NAMES[known]}.{kind}".replace(".N.", number[0] if number else "")


def is_gpt2(folder: Path) -> bool:
    try:
        return (folder / CONFIG).is_file() and is_gpt2_like(read_json(folder / CONFIG))
    except FormatError:  # other formats will report it
        return False


def read_gpt2(
    folder: Path, *, heads: bool = False, words: WordOptions = AS_THE_FILES_SAY
) -> Checkpoint:
    """The softmax only if asked for and present."""
    options, path = read_json(folder / CONFIG), folder / CONFIG
    refuse_relatives(options, path)
    config = config_from_options(options, path, words)
    raw, weights = read_weights(folder)
    tensors = TorchTensors(_plain(raw, weights), str(weights))
    model = _read_model(tensors, config)
    tensors.expect_nothing_else(_PARTS)
    head = _read_head(tensors, model)
    pieces = read_byte_pairs(folder, options, config.n_pieces)
    unused = config.n_pieces - len(pieces)
    left = sorted(set(tensors.names()) - tensors.taken)
    notes: tuple[str, ...] = (f"not read: {', '.join(left)[:200]}.",) if left else ()
    notes += (f"{unused:,} rows of its table have no piece.",) if unused else ()
    found = causal_checkpoint(model, pieces, head if heads else None, notes)
    return replace(found, options=options)


def _plain(raw: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """By names without the prefix, without the masks that old files have."""
    named: dict[str, Tensor] = {}
    for theirs, tensor in raw.items():
        name = theirs.removeprefix(PREFIX)
        if name in named:
            raise FormatError(f"{path}: has two tensors called '{name}', one as '{theirs}'.")
        if not _BUFFERS.match(name):
            named[name] = tensor
    return named


def _read_model(tensors: TorchTensors, config: CausalConfig) -> Causal:
    n_layers = config.context.n_layers
    top = gpt2_name(f"context.blocks.{n_layers - 1}.expand.weight")
    if top not in tensors:
        raise FormatError(
            f"{tensors.where}: the tensor '{top}' of the top layer is missing; the model's config "
            f"calls for {n_layers} layers."
        )
    read: dict[str, Tensor] = {}
    for ours, like in empty_model(config, tensors.where).state_dict().items():
        name, shape = gpt2_name(ours), tuple(like.shape)
        if _TRANSPOSED.search(name):
            read[ours] = tensors.take(name, shape[::-1]).t().contiguous()
        else:
            read[ours] = tensors.take(name, shape)
    model = build_model(config, read, tensors.where)
    assert isinstance(model, Causal)
    return model


def _read_head(tensors: TorchTensors, model: Causal) -> Softmax | None:
    """It predicts through the table of pieces, of which a file may have a copy, or through a table
    of its own."""
    table = model.pieces.weight.detach()
    weight = tensors.take(HEAD, tuple(table.shape)) if HEAD in tensors else None
    if model.config.tied:
        if weight is not None and not weight.equal(table):
            raise FormatError(
                f"{tensors.where}: '{HEAD}' is not 'wte.weight', but its config says that they are "
                "one; expected equal tables, or tie_word_embeddings=false in config.json."
            )
        weight = table
    if weight is None:
        return None
    if not weight.isfinite().all():
        raise FormatError(f"{tensors.where}: '{HEAD}' contains NaN or infinite values; damaged.")
    return Softmax.from_linear(build_softmax(weight, table.new_zeros(len(table))))


# Writing ------------------------------------------------------------------------------------------


def writable(checkpoint: Checkpoint) -> bool:
    """Whether a causal model is what a GPT-2 folder can hold."""
    config = causal_of(checkpoint).config
    plain = isinstance(config.context, GPTConfig) and not (config.softmax_bias or config.mark)
    return plain and isinstance(subwords_of(checkpoint), BytePairs)


def write_gpt2(checkpoint: Checkpoint, folder: Path) -> None:
    """A new folder, complete or absent, which `transformers` opens too."""
    with atomic_folder(folder) as beside:
        write_gpt2_files(checkpoint, beside)


def write_gpt2_files(checkpoint: Checkpoint, folder: Path) -> None:
    model, pieces = causal_of(checkpoint), subwords_of(checkpoint)
    head = checkpoint.heads.get(SOFTMAX)
    options: dict[str, Any] = options_from_config(model.config, checkpoint.options)
    options |= {"bos_token_id": pieces.begin, "eos_token_id": pieces.end}
    options["architectures"] = ["GPT2Model" if head is None else "GPT2LMHeadModel"]
    text = json.dumps(options, indent=2, ensure_ascii=False)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    save_tensors(_named(model, head), folder / MODEL)
    assert isinstance(pieces, BytePairs)
    files = {**checkpoint.need_reader().files(), TOKENIZER_CONFIG: pieces.settings()}
    for name, content in files.items():
        (folder / name).write_bytes(content)


def _named(model: Causal, head: nn.Module | None) -> dict[str, Tensor]:
    """All tensors by the names of Hugging Face; a table that is tied is there once."""
    prefix = "" if head is None else PREFIX
    named: dict[str, Tensor] = {}
    for ours, tensor in model.state_dict().items():
        name = gpt2_name(ours)
        named[prefix + name] = tensor.t().contiguous() if _TRANSPOSED.search(name) else tensor
    if head is not None and not model.config.tied:
        named[HEAD] = head.state_dict()["weight"]
    return named
