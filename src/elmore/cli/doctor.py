"""`elmore doctor`: show what is installed, or describe a model."""

import sys
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmore import __version__
from elmore.cli.options import Lowercase, OptionsFile, Pieces

if TYPE_CHECKING:
    from elmore.checkpoint.bert_config import WordOptions
    from elmore.checkpoint.checkpoint import Checkpoint, LearnedMix
    from elmore.checkpoint.sources import Source
    from elmore.models.bert import BertConfig
    from elmore.models.causal import CausalConfig
    from elmore.nn.awd_lstm import AWDConfig
    from elmore.nn.char_cnn import CharCNNConfig
    from elmore.nn.gpt import GPTConfig
    from elmore.nn.lstm import LSTMConfig
    from elmore.nn.transformer import TransformerConfig
    from elmore.nn.word_char import WordCharConfig, WordTableConfig

EXTRAS = {
    "bert": "tokenizers",
    "generate": "sacrebleu",
    "zh": "jieba",
    "zst": "zstandard",
    "tensorboard": "tensorboard",
    "arrow": "pyarrow",
    "plot": "matplotlib",
    "search": "faiss",
    "serve": "fastapi",
    "hub": "huggingface_hub",
}
_SHORT = 12  # characters of a fingerprint that tell models apart


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSummary:
    """The parts of a model."""

    format: str
    files: list[Path]
    input: str
    context: str
    layers: str
    dim: int
    parameters: int
    vocabulary: str
    heads: tuple[str, str]
    """What they are called, and which are there."""
    lens: str
    mixes: list[str]
    notes: list[str]
    fingerprint: str | None


def doctor(
    source: Annotated[
        str | None, typer.Argument(help="A model; without one, describe this machine.")
    ] = None,
    options: OptionsFile = None,
    pieces: Pieces = None,
    lowercase: Lowercase = None,
) -> None:
    """Show what is installed, or describe a model."""
    from elmore.checkpoint.bert_config import word_options

    words = word_options(lowercase, pieces)
    lines = environment_lines() if source is None else model_lines(examine(source, options, words))
    for name, value in lines:
        print(f"{name:<15}{value}")


def environment_lines() -> list[tuple[str, str]]:
    """What elmore runs on."""
    import torch

    from elmore.checkpoint.source_names import shipped_names
    from elmore.engine.runner import describe

    extras = [
        (f"[{extra}]", "installed" if find_spec(module) else f"missing: pip install {package!r}")
        for extra, module in EXTRAS.items()
        for package in [f"elmore[{extra}]"]
    ]
    return [
        ("elmore", __version__),
        ("Python", ".".join(str(number) for number in sys.version_info[:3])),
        *((name, version(name)) for name in ("torch", "numpy", "h5py")),
        ("threads", str(torch.get_num_threads())),
        ("engine", describe()),
        ("bfloat16", _bfloat16()),
        ("CUDA", torch.cuda.get_device_name() if torch.cuda.is_available() else "none"),
        *extras,
        ("models", ", ".join(shipped_names()) or "none shipped"),
    ]


def _bfloat16() -> str:
    """Whether it is worth it in training, measured."""
    from elmore.train.precision import LEAST_SPEEDUP, bfloat16_speedup

    speedup = bfloat16_speedup()
    found = f"{speedup:.1f} times as fast as float32 in training products on the CPU"
    if speedup >= LEAST_SPEEDUP:
        return f"{found}: precision=auto uses it"
    return f"{found}: precision=auto does not use it there"


def examine(
    source: str, options: Path | None = None, words: "WordOptions | None" = None
) -> ModelSummary:
    """Read a model and describe it."""
    from elmore.checkpoint.bert_config import AS_THE_FILES_SAY
    from elmore.checkpoint.bilm import SOFTMAX
    from elmore.checkpoint.sources import find_source, open_source, read_source
    from elmore.models.bert import Bert
    from elmore.models.causal import Causal
    from elmore.models.context2vec import Context2vec
    from elmore.models.static_table import StaticTable

    given = find_source(source, options, download=False)
    with open_source(source, options, download=False) as found:
        # In these the softmax is a file of its own.
        inside = found.format not in ("native", "causal", "hdf5")
        checkpoint = read_source(found, heads=inside, words=words or AS_THE_FILES_SAY)
        files, parts = _files(given), [found.softmax, *_files(found)]
    softmax = SOFTMAX in checkpoint.heads or any(p and SOFTMAX in p.name for p in parts)
    match checkpoint.model:
        case Bert(config=config):
            described = _bert(config, checkpoint)
        case Causal(config=config):
            described = _causal(config, checkpoint, softmax)
        case StaticTable() | Context2vec():
            described = _words(checkpoint)
        case _:
            described = _bilm(checkpoint, softmax)
    return ModelSummary(
        format=found.format + (" in an archive" if given != found else ""),
        files=files,
        dim=checkpoint.model.dim,
        mixes=[_mix(mix) for mix in checkpoint.mixes],
        notes=list(checkpoint.notes),
        fingerprint=None if checkpoint.reader is None else checkpoint.fingerprint(),
        lens="none" if checkpoint.lens is None else checkpoint.lens.described(),
        **described,
    )


def _bilm(checkpoint: "Checkpoint", softmax: bool) -> dict[str, Any]:
    from elmore.checkpoint.bilm import bilm_of

    config, words = bilm_of(checkpoint).config, checkpoint.vocabulary
    return {
        "input": _input(config.words),
        "context": _context(config.context),
        "layers": f"{config.n_layers}, including the context-free one",
        "parameters": _parameters(checkpoint),
        "vocabulary": "missing" if words is None else f"{len(words):,} words",
        "heads": ("softmax", "there" if softmax else "missing"),
    }


def _bert(config: "BertConfig", checkpoint: "Checkpoint") -> dict[str, Any]:
    from elmore.text.piece_reader import PieceReader

    reader = checkpoint.need_reader()
    assert isinstance(reader, PieceReader)
    case = "lowercased" if reader.wordpiece.config.lowercase else "cased"
    word = "the first piece" if config.pieces == "first" else "the mean of its pieces"
    sizes = f"{config.n_heads} heads, feed-forward {config.ff_dim} ({config.activation})"
    return {
        "input": f"word pieces, {case}; a word is {word}",
        "context": f"BERT, {config.n_layers} layers, {sizes}, {config.max_positions} positions",
        "layers": f"{config.n_layers + 1}, the embeddings first",
        "parameters": sum(tensor.numel() for tensor in checkpoint.model.parameters()),
        "vocabulary": f"{len(reader.wordpiece):,} pieces",
        "heads": ("heads", ", ".join(checkpoint.heads) or "none"),
    }


def _words(checkpoint: "Checkpoint") -> dict[str, Any]:
    n_words, n_layers = len(checkpoint.vocabulary or ()), checkpoint.model.n_layers
    both = "an LSTM in each direction: all words of the sentence but the word itself"
    return {
        "input": f"words, a table of {n_words:,}",
        "context": "none: a word has one vector" if n_layers == 1 else both,
        "layers": "1, context-free" if n_layers == 1 else "2: the word, and its context without it",
        "parameters": sum(tensor.numel() for tensor in checkpoint.model.parameters()),
        "vocabulary": f"{n_words:,} words",
        "heads": ("heads", "none"),
    }


def _causal(config: "CausalConfig", checkpoint: "Checkpoint", softmax: bool) -> dict[str, Any]:
    from elmore.checkpoint.causal import subwords_of

    tied = "tied to the table of pieces" if config.tied else "with weights of its own"
    word = {
        "last": "its last piece, the mean of its pieces in the first layer",
        "first": "its first piece",
        "mean": "the mean of its pieces",
    }[config.word]
    seen = "words after, none before" if config.backward else "words before, none after"
    first = (
        "the embeddings first" if config.context.kind == "gpt" else "including the context-free one"
    )
    return {
        "input": f"pieces; a word is {word}",
        "context": f"one direction only: {seen}; {_context(config.context)}",
        "layers": f"{checkpoint.model.n_layers}, {first}",
        "parameters": sum(tensor.numel() for tensor in checkpoint.model.parameters()),
        "vocabulary": f"{len(subwords_of(checkpoint)):,} pieces",
        "heads": ("softmax", f"there, {tied}" if softmax else "missing"),
    }


def model_lines(found: ModelSummary) -> list[tuple[str, str]]:
    return [
        ("format", found.format),
        *(("file", f"{path} ({path.stat().st_size:,} bytes)") for path in found.files),
        ("input", found.input),
        ("context", found.context),
        ("layers", found.layers),
        ("dim", str(found.dim)),
        ("parameters", f"{found.parameters:,}"),
        ("vocabulary", found.vocabulary),
        found.heads,
        ("lens", found.lens),
        *(("learned mix", mix) for mix in found.mixes),
        *(("note", note) for note in found.notes),
        ("fingerprint", (found.fingerprint or "")[:_SHORT] or "none without the vocabulary"),
    ]


def _files(found: "Source") -> list[Path]:
    if found.path.is_dir():
        return sorted(path for path in found.path.rglob("*") if path.is_file())
    stored = [found.path]
    if found.format in ("bilm-tf", "bert-tf"):  # its path is a name without ending
        beside = sorted(found.path.parent.glob("*"))
        stored = [path for path in beside if path.name.startswith(f"{found.path.name}.")]
    parts = (*stored, found.options, found.vocabulary, found.softmax)
    return [path for path in parts if path is not None]


def _mix(mix: "LearnedMix") -> str:
    weights = " ".join(f"{weight:.3f}" for weight in mix.weights)
    return f"weights {weights}, gamma {mix.gamma:.3f}" + ", layer norm" * mix.layer_norm


def _input(words: "CharCNNConfig | WordTableConfig | WordCharConfig") -> str:
    from elmore.text.character_classes import character_classes
    from elmore.text.dictionary_reader import CHARACTER_MARKS

    match words.kind:
        case "words":
            return f"words, a table of {words.n_words:,}"
        case "dictionary":
            table = f"words, a table of {words.n_words:,}, and " if words.n_words else ""
            classes = character_classes() if words.classes else []
            known = words.characters.n_characters - len(CHARACTER_MARKS) - len(classes)
            return f"{table}{_input(words.characters)}, {known:,} characters known"
        case "characters":
            filters = " ".join(f"{width}x{count}" for width, count in words.filters)
            return (
                f"characters, at most {words.max_characters} per word, filters {filters} "
                f"({words.activation}), {words.n_highway} highway"
            )


def _context(context: "LSTMConfig | AWDConfig | TransformerConfig | GPTConfig") -> str:
    if context.kind == "awd":
        return f"AWD-LSTM, {context.n_layers} layers: {', '.join(map(str, context.widths))}"
    if context.kind == "gpt":
        sizes = f"{context.n_heads} heads, feed-forward {context.ff_dim} ({context.activation})"
        return f"GPT-2, {context.n_layers} layers, {sizes}, {context.max_positions:,} positions"
    if context.kind == "transformer":
        sizes = f"{context.dim} per direction, feed-forward {context.ff_dim}"
        return f"Transformer, {context.n_layers} layers, {context.n_heads} heads, {sizes}"
    clips = (
        f"cell clip {context.cell_clip or 'none'}, projection clip {context.proj_clip or 'none'}"
    )
    sizes = f"{context.cell_dim} cells, {context.dim} per direction"
    skip = "skip connections" if context.skip else "no skip connections"
    return f"LSTM, {context.n_layers} layers, {sizes}, {clips}, {skip}"


def _parameters(checkpoint: "Checkpoint") -> int:
    """As published: without the padding row of a character table, which was never learned."""
    from elmore.checkpoint.bilm import bilm_of
    from elmore.nn.char_cnn import CharCNNConfig

    words = bilm_of(checkpoint).config.words
    padding = words.char_dim if isinstance(words, CharCNNConfig) else 0
    return sum(tensor.numel() for tensor in checkpoint.model.parameters()) - padding
