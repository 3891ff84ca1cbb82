"""Options that several commands share, each written once."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Errors(StrEnum):
    """What to do with bytes that are not UTF-8."""

    STRICT = "strict"
    REPLACE = "replace"


class LineKind(StrEnum):
    """What a line of raw text is."""

    AUTO = "auto"
    SENTENCE = "sentence"
    PARAGRAPH = "paragraph"
    WRAPPED = "wrapped"


class Precision(StrEnum):
    """The weights of an LSTM or a BERT while it runs."""

    FLOAT32 = "float32"
    BFLOAT16 = "bfloat16"
    INT8 = "int8"


class Pooling(StrEnum):
    """A word's vector, where a model reads pieces of words."""

    FIRST = "first"
    MEAN = "mean"


class VectorPrecision(StrEnum):
    """The numbers of stored vectors."""

    FLOAT32 = "float32"
    FLOAT16 = "float16"
    INT8 = "int8"


# Text
SentenceFile = Annotated[
    str,
    typer.Argument(help="One sentence per line (.gz, .xz, .zst too); a glob; - reads stdin."),
]
Corpus = Annotated[
    list[str],
    typer.Argument(help="Files or globs, one sentence per line; .gz, .xz, .zst too."),
]
Tokenize = Annotated[
    bool, typer.Option("--tokenize", help="The text is raw: split it into sentences and words.")
]
_LINES = typer.Option("--lines", help="With --tokenize: what a line of the text is.")
LinesAre = Annotated[LineKind, _LINES]
LinesAsked = Annotated[LineKind | None, _LINES]  # None: as a stored run, a recipe or `auto` says
AsIs = Annotated[
    bool, typer.Option("--as-is", help="Split at spaces, even if it looks like raw text.")
]
BadBytes = Annotated[Errors, typer.Option("--errors", help="For bytes that are not UTF-8.")]

# Models
_MODEL = "A name from `elmore models`, a folder, a file, or hf:owner/name."
Model = Annotated[str, typer.Option(help=_MODEL)]
ModelOfText = Annotated[
    str | None,
    typer.Option("--model", help=f"{_MODEL} Default: by the text's language."),
]
Source = Annotated[str, typer.Argument(help=_MODEL)]
OptionsFile = Annotated[
    Path | None, typer.Option("--options", help="The options file, if not beside the weights.")
]
Pieces = Annotated[
    Pooling | None,
    typer.Option(help="BERT, GPT-2: a word's vector is that of its first piece, or the mean."),
]
Lowercase = Annotated[
    bool | None,
    typer.Option("--lowercase/--cased", help="BERT: if the model's files do not say which."),
]
Device = Annotated[str, typer.Option(help="auto, cpu or cuda.")]
RunPrecision = Annotated[
    Precision,
    typer.Option("--precision", help="int8 is faster and less exact; BERT: also bfloat16."),
]

# Clusters
On = Annotated[
    str | None, typer.Option("--on", help="ray (started here), ray://auto or ray://HOST:PORT.")
]
Workers = Annotated[
    int | None, typer.Option("--workers", help="With --on: how many; default: one per core.")
]

# Indexes
IndexFolder = Annotated[Path, typer.Argument(help="A folder written by `elmore index`.")]
Layer = Annotated[
    str | None,
    typer.Option(
        help="meaning (default if the index has it), mix, top, a number, or weights: 0.2,0.5,0.3."
    ),
]

# Training and tasks
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", help="Change a setting, for example --set a.b=5; can be repeated."),
]
Train = Annotated[Path, typer.Option(help="Examples to train on; .gz, .xz, .zst too.")]
Dev = Annotated[Path, typer.Option(help="Examples that choose the best epoch.")]
Epochs = Annotated[int | None, typer.Option(help="The largest number of epochs.")]
FineTune = Annotated[bool, typer.Option("--fine-tune", help="Also train the model's own weights.")]
Cache = Annotated[
    Path | None, typer.Option(help="Keep a frozen model's vectors here for later runs.")
]

# Output
Resume = Annotated[bool, typer.Option("--resume", help="Continue a stopped run.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print only results and errors.")]
