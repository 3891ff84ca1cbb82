"""A causal language model in elmore's own folder: config.json, model.safetensors, the files of its
pieces, heads/softmax.safetensors, and a lens if it has one. A tied softmax has only its biases
there.
"""

from pathlib import Path

from torch import Tensor

from elmore.checkpoint.bilm import SOFTMAX, build_softmax
from elmore.checkpoint.checkpoint import Checkpoint, build_model, check_tensors
from elmore.checkpoint.lens import write_lens
from elmore.checkpoint.native import (
    CONFIG,
    HEADS,
    MODEL,
    VERSION,
    check_version,
    read_tensors,
    save_tensors,
)
from elmore.config import Frozen, load_json
from elmore.errors import FormatError
from elmore.files.atomic import atomic_folder
from elmore.models.causal import Causal, CausalConfig, CausalLM
from elmore.nn.softmax import Softmax
from elmore.text.causal_reader import CausalReader
from elmore.text.subwords import Subwords, read_subwords

FORMAT = "elmore"


class CausalFolderConfig(Frozen):
    """config.json."""

    format: str = FORMAT
    version: int = VERSION
    model: CausalConfig
    notes: tuple[str, ...] = ()


def causal_checkpoint(
    model: Causal, subwords: Subwords, softmax: Softmax | None = None, notes: tuple[str, ...] = ()
) -> Checkpoint:
    heads = {} if softmax is None else {SOFTMAX: softmax.linear()}
    config = model.config
    reader = CausalReader(
        subwords, mark=config.mark, max_positions=config.max_positions, backward=config.backward
    )
    return Checkpoint(model=model, reader=reader, heads=heads, notes=notes)


def read_causal(folder: Path, *, heads: bool = False) -> Checkpoint:
    config = load_json(folder / CONFIG, CausalFolderConfig)
    check_version(folder / CONFIG, config.format, config.version)
    tensors = read_tensors(folder / MODEL)
    model = build_model(config.model, tensors, str(folder / MODEL))
    assert isinstance(model, Causal)
    subwords = read_subwords(folder)
    if len(subwords) != config.model.n_pieces:
        raise FormatError(
            f"{folder}: its vocabulary has {len(subwords):,} pieces, but the model "
            f"{config.model.n_pieces:,}; expected the vocabulary it was trained with."
        )
    softmax = _read_softmax(folder, model) if heads else None
    return causal_checkpoint(model, subwords, softmax, config.notes)


def _read_softmax(folder: Path, model: Causal) -> Softmax | None:
    path = folder / HEADS / f"{SOFTMAX}.safetensors"
    if not path.is_file():
        return None
    tensors, shape = read_tensors(path), (model.config.n_pieces, model.config.dim)
    expected: dict[str, tuple[int, ...]] = {"bias": shape[:1]}
    if not model.config.tied:
        expected["weight"] = shape
    check_tensors(expected, tensors, str(path))
    weight = tensors.get("weight", model.pieces.weight.detach())
    return Softmax.from_linear(build_softmax(weight, tensors["bias"]))


def write_causal(checkpoint: Checkpoint, folder: Path) -> None:
    """A new folder, complete or absent."""
    with atomic_folder(folder) as beside:
        write_causal_files(checkpoint, beside)


def write_causal_files(checkpoint: Checkpoint, folder: Path) -> None:
    model = causal_of(checkpoint)
    config = CausalFolderConfig(model=model.config, notes=checkpoint.notes)
    (folder / CONFIG).write_text(config.model_dump_json(indent=2) + "\n", encoding="utf-8")
    save_tensors(model.state_dict(), folder / MODEL)
    if (softmax := checkpoint.heads.get(SOFTMAX)) is not None:
        named: dict[str, Tensor] = softmax.state_dict()
        kept = {name: t for name, t in named.items() if name == "bias" or not model.config.tied}
        (folder / HEADS).mkdir()
        save_tensors(kept, folder / HEADS / f"{SOFTMAX}.safetensors")
    if checkpoint.lens is not None:
        write_lens(checkpoint.lens, folder)
    for name, content in checkpoint.need_reader().files().items():
        (folder / name).write_bytes(content)


def causal_of(checkpoint: Checkpoint) -> Causal:
    """The model, or an error if it is of another kind."""
    if not isinstance(checkpoint.model, Causal):
        kind = type(checkpoint.model).__name__
        raise FormatError(
            f"The model is a {kind}; expected a causal language model, made by "
            "`elmore pretrain --recipe causal-laptop`."
        )
    return checkpoint.model


def subwords_of(checkpoint: Checkpoint) -> Subwords:
    reader = checkpoint.need_reader()
    assert isinstance(reader, CausalReader)
    return reader.subwords


def causal_lm(checkpoint: Checkpoint, source: str, dropout: float = 0.0) -> CausalLM:
    """A checkpoint that can predict, or what it lacks."""
    try:
        model, softmax = causal_of(checkpoint), checkpoint.heads.get(SOFTMAX)
    except FormatError as error:
        raise FormatError(f"{source}: {error}") from None
    if softmax is None:
        raise FormatError(f"{source}: has no softmax, so it cannot predict.")
    return CausalLM(model, Softmax.from_linear(softmax), dropout)  # type: ignore[arg-type]
