"""BERT in a Hugging Face folder, which is also how elmore saves one: config.json, the weights of
the model and its heads in one file, and the files of the tokenizer.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from elmore.checkpoint.bert_config import (
    AS_THE_FILES_SAY,
    WordOptions,
    config_from_options,
    is_bert_like,
    options_from_config,
    refuse_relatives,
)
from elmore.checkpoint.bert_names import DECODERS, Family, hugging_face_names, plain_name
from elmore.checkpoint.checkpoint import Checkpoint, LearnedMix, build_model, empty_model
from elmore.checkpoint.lens import write_lens
from elmore.checkpoint.loose_json import read_json
from elmore.checkpoint.native import CONFIG, MODEL, save_tensors
from elmore.checkpoint.torch_file import TorchTensors
from elmore.checkpoint.weight_files import read_weights
from elmore.checkpoint.wordpiece import read_wordpiece
from elmore.config import valid
from elmore.errors import FormatError
from elmore.files.atomic import atomic_folder
from elmore.models.bert import MASKED, NEXT, Bert, BertConfig, MaskedHead, next_head
from elmore.small_files import read_small
from elmore.text.piece_reader import PieceReader
from elmore.text.wordpiece import WordPiece

MODULES = "modules.json"
_MIXES = "elmore_mixes"  # in config.json, beside what Hugging Face's programs look for
_PARTS = ("embeddings.", "encoder.", "pooler.", "transformer.")  # of the model; others are heads


def bert_checkpoint(
    model: Bert,
    wordpiece: WordPiece,
    *,
    heads: Mapping[str, nn.Module] | None = None,
    options: Mapping[str, object] | None = None,
    notes: tuple[str, ...] = (),
) -> Checkpoint:
    """A BERT with what belongs to it."""
    reader = PieceReader(wordpiece, model.config.max_positions, pairs=model.config.n_segments != 1)
    return Checkpoint(
        model=model, reader=reader, heads=heads or {}, options=options or {}, notes=notes
    )


def bert_of(checkpoint: Checkpoint) -> Bert:
    """The model, or an error if it is of another kind."""
    if not isinstance(checkpoint.model, Bert):
        raise FormatError(f"The model is a {type(checkpoint.model).__name__}; expected a BERT.")
    return checkpoint.model


def bert_folder(folder: Path) -> Path | None:
    """Where a BERT, or a relative of it, is in a folder; None if there is none. Folders of
    sentence-transformers list their modules, the first of which may be in a folder of its own."""
    first = _first_module(folder)
    for place in (folder, *([] if first is None else [first])):
        if (place / CONFIG).is_file():
            try:
                if is_bert_like(read_json(place / CONFIG)):
                    return place
            except FormatError:  # of no use here; other formats will report it
                continue
    return None


def _first_module(folder: Path) -> Path | None:
    try:
        name = json.loads(read_small(folder / MODULES))[0]["path"]
    except (FormatError, ValueError, LookupError, TypeError, RecursionError):
        return None
    return folder / name if isinstance(name, str) and name and Path(name).name == name else None


def read_bert(
    folder: Path,
    *,
    heads: bool = False,
    words: WordOptions = AS_THE_FILES_SAY,
) -> Checkpoint:
    """Heads only if asked for."""
    options, path = read_json(folder / CONFIG), folder / CONFIG
    refuse_relatives(options, path)
    raw, weights = read_weights(folder)
    tensors = TorchTensors(_plain(raw, weights), str(weights))
    has_pooler = "pooler.dense.weight" in tensors
    config = config_from_options(options, path, words, pooler=has_pooler)
    family: Family = "bert" if config.n_segments else "distilbert"
    model = read_model(tensors, config, family)
    tensors.expect_nothing_else(_PARTS)
    found, left = dict[str, nn.Module](), tuple[str, ...]()
    if heads:
        found = read_heads(tensors, model, family)
        others, left = _linear_heads(tensors)
        found |= others
    wordpiece, notes = read_wordpiece(folder, config.n_pieces, words.lowercase)
    with valid(path):
        mixes = tuple(LearnedMix(**mix) for mix in options.get(_MIXES, ()))
    read = bert_checkpoint(model, wordpiece, heads=found, options=options, notes=notes + left)
    return replace(read, mixes=mixes)


class BertTensors(Protocol):
    """Tensors by the names of Hugging Face, whatever file they are in."""

    where: str

    def __contains__(self, name: str) -> bool: ...

    def take(self, name: str, shape: tuple[int, ...]) -> Tensor: ...


def read_model(tensors: BertTensors, config: BertConfig, family: Family) -> Bert:
    top = hugging_face_names(f"blocks.{config.n_layers - 1}.expand.weight", family)[0]
    if top not in tensors:
        raise FormatError(
            f"{tensors.where}: the tensor '{top}' of the top layer is missing; the model's config "
            f"calls for {config.n_layers} layers."
        )
    shapes = empty_model(config, tensors.where).state_dict()
    model = build_model(config, _take(tensors, shapes, family), tensors.where)
    assert isinstance(model, Bert)
    return model


def read_heads(tensors: BertTensors, model: Bert, family: Family) -> dict[str, nn.Module]:
    """BERT's own heads, those that are there."""
    config, found = model.config, dict[str, nn.Module]()
    if hugging_face_names(f"{MASKED}.dense.weight", family)[0] in tensors:
        with torch.device("meta"):
            masked = MaskedHead(config)
        found[MASKED] = _filled(MASKED, masked, tensors, family)
        _check_tied(tensors, model, family)
    for name in hugging_face_names(f"{NEXT}.weight", family):
        if name in tensors:
            if model.pooler is None:
                raise FormatError(f"{tensors.where}: has '{name}' but no pooler, which it needs.")
            with torch.device("meta"):
                following = next_head(config)
            found[NEXT] = _filled(NEXT, following, tensors, family)
    return found


def _filled(name: str, head: nn.Module, tensors: BertTensors, family: Family) -> nn.Module:
    shapes = {f"{name}.{key}": value for key, value in head.state_dict().items()}
    read = _take(tensors, shapes, family)
    head.load_state_dict({k.removeprefix(f"{name}."): v for k, v in read.items()}, assign=True)
    return _finished(head, name, tensors.where)


def _finished(head: nn.Module, name: str, where: str) -> nn.Module:
    if not all(torch.isfinite(p).all() for p in head.parameters()):
        raise FormatError(f"{where}: the head '{name}' contains NaN or infinite values; damaged.")
    return head.requires_grad_(False).eval()


def _check_tied(tensors: BertTensors, model: Bert, family: Family) -> None:
    """The head predicts through the table of pieces; a copy of the table must be equal to it."""
    table, name = model.embed.pieces.weight, f"{DECODERS[family]}.weight"
    if name in tensors and not torch.equal(tensors.take(name, tuple(table.shape)), table):
        raise FormatError(
            f"{tensors.where}: '{name}' is not the table of pieces; heads with a table of their "
            "own are not supported."
        )


def _take(tensors: BertTensors, shapes: Mapping[str, Tensor], family: Family) -> dict[str, Tensor]:
    """Tensors by our names, put together from their parts."""
    read: dict[str, Tensor] = {}
    for ours, like in shapes.items():
        names = hugging_face_names(ours, family)
        shape = (like.shape[0] // len(names), *like.shape[1:])
        parts = [tensors.take(name, shape) for name in names]
        read[ours] = parts[0] if len(parts) == 1 else torch.cat(parts)
    return read


def _plain(raw: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """By names without prefixes. Position numbers, which old files have, are of no use, and the
    bias of a head may have its second name only."""
    named: dict[str, Tensor] = {}
    for theirs, tensor in raw.items():
        name = plain_name(theirs)
        if name in named:
            raise FormatError(f"{path}: has two tensors called '{name}', one as '{theirs}'.")
        if not name.endswith("embeddings.position_ids"):
            named[name] = tensor
    bias = named.pop("cls.predictions.decoder.bias", None)
    if bias is not None:
        named.setdefault("cls.predictions.bias", bias)
    return named


def _linear_heads(tensors: TorchTensors) -> tuple[dict[str, nn.Module], tuple[str, ...]]:
    """Heads of tasks, such as `classifier`: whatever is left and has a weight and a bias; and a
    note on what has not."""
    heads: dict[str, nn.Module] = {}
    left = sorted(set(tensors.names()) - tensors.taken)
    for name in [n.removesuffix(".weight") for n in left if n.endswith(".weight")]:
        (_, shape), bias = tensors.find(f"{name}.weight") or ("", ()), f"{name}.bias"
        if len(shape) == 2 and bias in tensors:
            head = nn.Linear(shape[1], shape[0], device="meta")
            state = {"weight": tensors.take(f"{name}.weight", shape)}
            state["bias"] = tensors.take(bias, shape[:1])
            head.load_state_dict(state, assign=True)
            heads[name] = _finished(head, name, tensors.where)
    left = [name for name in left if name not in tensors.taken]
    return heads, (f"not read: {', '.join(left)[:200]}.",) if left else ()


# Writing ------------------------------------------------------------------------------------------


def write_bert(checkpoint: Checkpoint, folder: Path) -> None:
    """A new folder, complete or absent, which `transformers` opens too."""
    with atomic_folder(folder) as beside:
        write_bert_files(checkpoint, beside)


def write_bert_files(checkpoint: Checkpoint, folder: Path) -> None:
    config = bert_of(checkpoint).config
    options = options_from_config(config, checkpoint.options, checkpoint.heads)
    options |= {_MIXES: [mix.model_dump() for mix in checkpoint.mixes]} if checkpoint.mixes else {}
    text = json.dumps(options, indent=2, ensure_ascii=False)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
    save_tensors(_named(checkpoint), folder / MODEL)
    for name, content in checkpoint.need_reader().files().items():
        (folder / name).write_bytes(content)
    if checkpoint.lens is not None:
        write_lens(checkpoint.lens, folder)


def _named(checkpoint: Checkpoint) -> dict[str, Tensor]:
    """All tensors by the names of Hugging Face."""
    model = bert_of(checkpoint)
    family: Family = "bert" if model.config.n_segments else "distilbert"
    prefix = f"{family}." if checkpoint.heads else ""
    named: dict[str, Tensor] = {}
    for ours, tensor in model.state_dict().items():
        names = hugging_face_names(ours, family)
        named |= zip((prefix + name for name in names), tensor.chunk(len(names)), strict=True)
    for name, head in checkpoint.heads.items():
        for key, tensor in head.state_dict().items():
            known = name in (MASKED, NEXT)
            theirs = hugging_face_names(f"{name}.{key}", family) if known else (f"{name}.{key}",)
            named[theirs[0]] = tensor
    return named
