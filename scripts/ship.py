"""Put a trained model into the package: `elmore pretrain`'s run folder becomes a shipped name.

    python scripts/ship.py RUN NAME --figures figures.json --licence LICENCE-OF-THE-WEIGHTS.txt \\
        [--lens MODEL-WITH-ITS-LENS]

Weights are halved to float16; the softmax, which predicts words, comes along when everything stays
under the limit: in float16, or else as int8 with a scale per row. A lens comes along too:
its own, or that of a copy of it that `elmore lens --output` has made.
MODEL_CARD.md is written from the run itself and from the measured figures; the shipped model is
read back and compared with the run's on the demo's sentences.
"""

import argparse
import copy
import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.lens import write_lens
from elmore.checkpoint.native import write_native_files
from elmore.checkpoint.sources import find_source, load
from elmore.cli.doctor import ModelSummary, examine
from elmore.config import one_line
from elmore.demo.ambiguous_words import Language, read_uses
from elmore.embedder import Embedder
from elmore.errors import ElmoreError, FormatError, InputError
from elmore.files.atomic import atomic_folder
from elmore.pretrain.config import Run
from elmore.pretrain.run import read_run
from elmore.text.vocabulary import WordReader

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "elmore" / "pretrained"
LIMIT = 25_000_000
"""Bytes a shipped model may take."""
CARD, LICENCE = "MODEL_CARD.md", "LICENSE"
_CURVE_POINTS = 12
_NO_SOFTMAX = "the softmax is not included, to keep the package small."

Module = TypeVar("Module", bound=torch.nn.Module)


class Corpus(BaseModel):
    """A text the model was trained on."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    words: int
    licence: str


class Perplexity(BaseModel):
    """What `elmore evaluate` said of a text the model never saw."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    text: str
    forward: float
    backward: float
    average: float
    outside: float
    """Share of words outside the vocabulary, 0 to 1."""


class Figures(BaseModel):
    """What was measured and cannot be read from the run folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    summary: str
    language: Language
    licence: str
    """Of the weights, in a few words; the text is a file of its own."""
    corpora: list[Corpus]
    perplexities: list[Perplexity]
    machine: str
    remake: str
    """The command that trains it again."""
    limits: list[str]
    """What not to expect of it."""
    segmented: bool = False
    """The words were found before the training: the model is for raw text all the same."""
    sections: dict[str, str] = Field(default_factory=dict)
    """Further sections of the card, by heading."""


@dataclass(frozen=True, slots=True)
class Step:
    """A line of the training curve."""

    step: int
    words: int
    perplexity: float


def main() -> int:
    parser = argparse.ArgumentParser(description="Put a trained model into the package.")
    parser.add_argument("run", type=Path)
    parser.add_argument("name")
    parser.add_argument("--figures", type=Path, required=True)
    parser.add_argument("--licence", type=Path, required=True)
    parser.add_argument("--lens", type=Path, help="what `elmore lens RUN --output` has written")
    parser.add_argument("--limit", type=int, default=LIMIT, help="bytes, %(default)s if not given")
    parser.add_argument("--output", type=Path, default=PACKAGE, help="the package's folder")
    given = parser.parse_args()
    try:
        figures = read_figures(given.figures)
        target = given.output / given.name
        licence = given.licence.read_text("utf-8")
        ship(given.run, target, figures, licence, given.limit, lens=given.lens)
        report(given.run, target, figures.language)
    except (ElmoreError, OSError) as error:
        parser.exit(2, f"ship: {error}\n")
    return 0


def ship(
    run: Path,
    target: Path,
    figures: Figures,
    licence: str,
    limit: int = LIMIT,
    *,
    lens: Path | None = None,
) -> None:
    """The folder of a shipped model, there whole and small enough or not at all."""
    checkpoint = halved(load(run, heads=True))
    if lens is not None:
        checkpoint = replace(checkpoint, lens=load(lens).lens)
    if figures.segmented and checkpoint.trained_on is not None:
        raw = checkpoint.trained_on.model_copy(update={"tokenize": True})
        checkpoint = replace(checkpoint, trained_on=raw)
    target.parent.mkdir(parents=True, exist_ok=True)
    with atomic_folder(target) as folder:
        without = _without_softmax(checkpoint)
        for version, int8 in ((checkpoint, False), (checkpoint, True), (without, False)):
            shutil.rmtree(folder)
            folder.mkdir()
            write_native_files(version, folder, int8_heads=int8)
            if version.lens is not None:
                write_lens(version.lens, folder, half=True)
            (folder / LICENCE).write_text(licence, encoding="utf-8")
            card = model_card(target.name, examine(str(folder)), run, figures)
            (folder / CARD).write_text(card, encoding="utf-8")
            if size(folder) <= limit:
                return
        raise InputError(f"{run}: takes {size(folder):,} bytes, more than {limit:,}.")


def halved(checkpoint: Checkpoint) -> Checkpoint:
    """In float16. Adding up stays in float32: readers widen what they read."""
    model = _half(checkpoint.model, "model")
    heads = {name: _half(head, name) for name, head in checkpoint.heads.items()}
    return replace(checkpoint, model=model, heads=heads)


def _half(module: Module, name: str) -> Module:
    half = copy.deepcopy(module).half()
    for part, tensor in half.state_dict().items():
        if not tensor.isfinite().all():
            raise FormatError(f"{name}: tensor '{part}' has numbers too large for float16.")
    return half


def _without_softmax(checkpoint: Checkpoint) -> Checkpoint:
    """And without the vocabulary, unless words are read by it."""
    reads_words = isinstance(checkpoint.reader, WordReader)
    return replace(checkpoint, heads={}, vocabulary=checkpoint.vocabulary if reads_words else None)


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def read_figures(path: Path) -> Figures:
    try:
        return Figures.model_validate_json(path.read_bytes())
    except ValidationError as error:
        raise InputError(f"{path}: {one_line(error)}.") from None


# The card -----------------------------------------------------------------------------------------


def model_card(name: str, model: ModelSummary, folder: Path, figures: Figures) -> str:
    run, log = read_run(folder), read_log(folder)
    sections = [
        f"# {name}\n\n{figures.summary}",
        _use(name, model),
        _model(model, folder),
        _data(figures, run),
        _training(figures, run, log),
        _perplexities(figures.perplexities),
        *(f"## {heading}\n\n{text}" for heading, text in figures.sections.items()),
        "## Limits\n\n" + "\n".join(f"- {limit}" for limit in figures.limits),
        f"## License\n\n{figures.licence}; the text is in `{LICENCE}`.",
    ]
    return "\n\n".join(sections) + "\n"


def read_log(folder: Path) -> list[dict[str, float]]:
    lines = (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()
    told = [json.loads(line) for line in lines if line.endswith("}")]
    told = [line for line in told if "words" in line]  # not the notes
    # the log counts predictions, and each word is predicted by both directions
    return [{**line, "words": line["words"] / 2} for line in told]


def _use(name: str, model: ModelSummary) -> str:
    code = f'```python\nfrom elmore import Embedder\n\nelmo = Embedder.load("{name}")\n```'
    return (
        code
        if model.heads[1] == "there"
        else f"{code}\n\nIt gives vectors, not perplexities: {_NO_SOFTMAX}"
    )


def _model(model: ModelSummary, folder: Path) -> str:
    words = len((folder / "vocab.txt").read_text(encoding="utf-8").splitlines())
    rows = [
        ("input", model.input),
        ("context", model.context),
        ("layers", f"{model.layers}; {model.dim} dimensions"),
        ("parameters", f"{model.parameters:,} without the softmax, in float16"),
        ("words it learned to predict", f"{words:,}; others are read by their characters"),
    ]
    return f"## Model\n\n{_table(('', ''), rows)}"


def _data(figures: Figures, run: Run) -> str:
    rows = [(c.name, f"{c.words:,}", c.licence) for c in figures.corpora]
    counted = f"{run.words:,} words in {run.sentences:,} sentences after tokenizing, read as "
    share = f"{'raw text' if run.config.reading.tokenize else 'words between spaces'}."
    return f"## Data\n\n{_table(('text', 'words', 'license'), rows)}\n\n{counted}{share}"


def _training(figures: Figures, run: Run, log: list[dict[str, float]]) -> str:
    last = log[-1]
    speed = last["words"] / last["seconds"]
    facts = (
        f"{last['seconds'] / 3600:.1f} hours on {figures.machine}: {last['step']:,.0f} steps, "
        f"{last['words']:,.0f} words seen ({last['words'] / run.words:.1f} times the corpus), "
        f"{speed:,.0f} words per second. `{figures.remake}` reproduces it."
    )
    rows = [(f"{s.step:,}", f"{s.words:,}", f"{s.perplexity:.1f}") for s in curve(log)]
    heads = ("step", "words seen", "validation perplexity")
    return f"## Training\n\n{facts}\n\n{_table(heads, rows)}"


def curve(log: list[dict[str, float]]) -> list[Step]:
    """A dozen points of the validation curve, first and last among them."""
    valid = [line for line in log if "valid_average" in line]
    chosen = np.unique(np.linspace(0, len(valid) - 1, _CURVE_POINTS).round().astype(int))
    kept = [valid[i] for i in chosen] if valid else []
    return [Step(int(k["step"]), int(k["words"]), k["valid_average"]) for k in kept]


def _perplexities(found: list[Perplexity]) -> str:
    rows = [
        (p.text, f"{p.forward:.1f}", f"{p.backward:.1f}", f"{p.average:.1f}", f"{p.outside:.1%}")
        for p in found
    ]
    heads = ("text", "forward", "backward", "average", "words outside the vocabulary")
    said = (
        "Computed with the full softmax, each sentence on its own. None of this text was used in "
        "training."
    )
    return f"## Perplexity\n\n{_table(heads, rows)}\n\n{said}"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# What came of it ----------------------------------------------------------------------------------


def report(run: Path, target: Path, language: Language) -> None:
    for file in sorted(path for path in target.rglob("*") if path.is_file()):
        print(f"{file.stat().st_size:>12,}  {file.relative_to(target)}")
    print(f"{size(target):>12,}  {target}")
    apart = difference(find_source(run).path, target, language)
    print(f"vectors differ from the run's by {apart:.1e} of their length at most")


def difference(run: Path, target: Path, language: Language) -> float:
    """The farthest that any word's vector has moved, beside its length."""
    sentences = [use.words for use in read_uses(language)]
    worst = 0.0
    pairs = zip(
        Embedder.load(run).embed(sentences), Embedder.load(target).embed(sentences), strict=True
    )
    for a, b in pairs:
        moved = np.linalg.norm(a.layers - b.layers, axis=-1) / np.linalg.norm(a.layers, axis=-1)
        worst = max(worst, float(moved.max()))
    return worst


if __name__ == "__main__":
    raise SystemExit(main())
