"""A model card: README.md as the Hugging Face Hub shows it, with facts that are in the files."""

import json
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elmore.errors import ConfigError, FormatError
from elmore.pretrain.run import RUN, read_run
from elmore.train.log import LOG

_CODE = re.compile(r"[a-z][a-z0-9.+-]*")


@dataclass(frozen=True, kw_only=True, slots=True)
class CardFacts:
    """What the files of a model do not say."""

    name: str
    license: str | None = None
    language: str | None = None
    data: str | None = None


def card_text(
    facts: CardFacts, parts: Sequence[tuple[str, str]], run: Path | None, files: Sequence[Path]
) -> str:
    """`parts` describe the model, as `elmore doctor` does; `run` is a folder of `pretrain`."""
    sizes = [f"| `{path.name}` | {path.stat().st_size:,} |" for path in files]
    return "\n".join(
        [
            *_front_matter(facts),
            f"# {_plain(facts.name)}",
            "",
            "Contextual word vectors, made with elmore.",
            "",
            "```python",
            "from elmore import Embedder",
            "",
            f"model = Embedder.load({facts.name!r})",
            "```",
            "",
            "## Model",
            "",
            *_table(("part", "value"), parts),
            "",
            "## Data",
            "",
            *_data(facts, run),
            "",
            "## Perplexity",
            "",
            *_perplexity(run),
            "",
            *(["## Files", "", "| file | bytes |", "|---|---|", *sizes, ""] if sizes else []),
            "## License",
            "",
            facts.license or "Not stated.",
            "",
        ]
    )


def _front_matter(facts: CardFacts) -> list[str]:
    said = {"license": facts.license, "language": facts.language}
    for key, value in said.items():
        if value and not _CODE.fullmatch(value):
            raise ConfigError(f"{key} is {value!r}; expected a code such as mit, or en.")
    given = {key: value for key, value in said.items() if value}
    if given.get("language") == "no":
        given["language"] = "nb"  # YAML reads a plain `no` as false
    return [
        "---",
        "library_name: elmore",
        "pipeline_tag: feature-extraction",
        "tags: [elmo, elmore]",
        *(
            f"{key}: {json.dumps(value, ensure_ascii=False)}"
            for key, value in given.items()
            if value
        ),
        "---",
        "",
    ]


def _data(facts: CardFacts, run: Path | None) -> list[str]:
    said = [] if facts.data is None else [facts.data, ""]
    if run is None:
        return said or ["Not recorded."]
    read = read_run(run)
    names = ", ".join(f"`{_plain(Path(path).name)}`" for path in read.corpus)
    counts = f"{read.words:,} words in {read.sentences:,} sentences"
    start = [f"It continues from `{_plain(read.source)}`."] if read.source else []
    return [*said, f"{counts}: {names}.", *start, *(_plain(note) for note in read.notes)]


def _perplexity(run: Path | None) -> list[str]:
    rows = [] if run is None else _validations(run / LOG)
    if not rows:
        return ["Not recorded; `elmore evaluate MODEL TEXT` computes it."]
    step, best = min(rows, key=lambda row: row[1])
    assert run is not None
    of = "of masked pieces " if read_run(run).config.kind == "masked" else ""
    return [f"Validation perplexity {of}{best:.2f} after step {step:,}, the best of {len(rows)}."]


def _validations(log: Path) -> list[tuple[int, float]]:
    """Step and perplexity of every validation in a run's log."""
    found = []
    try:
        with log.open(encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                if "valid_average" in row:
                    found.append((int(row["step"]), float(row["valid_average"])))
                elif "valid_mlm" in row:  # a loss per piece
                    found.append((int(row["step"]), math.exp(row["valid_mlm"])))
    except (OSError, ValueError, TypeError, KeyError, OverflowError) as error:
        raise FormatError(f"{log}: cannot be read as the log of a run ({error!s:.100}).") from None
    return found


def _table(head: tuple[str, str], rows: Sequence[tuple[str, str]]) -> list[str]:
    cells = [f"| {_plain(name)} | {_plain(value)} |" for name, value in rows]
    return [f"| {head[0]} | {head[1]} |", "|---|---|", *cells]


def _plain(text: str) -> str:
    """In one line, without marks that would end a cell or begin HTML."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def run_of(source: str) -> Path | None:
    """The folder of `elmore pretrain` that a model is in; None for any other model."""
    for folder in (Path(source), Path(source).parent.parent):
        if (folder / RUN).is_file():
            return folder
    return None
