"""`elmore card`: a model card with what the files of a model say about it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.options import OptionsFile, Source

if TYPE_CHECKING:
    from elmore.integrations.model_card import CardFacts

License = Annotated[str | None, typer.Option(help="For example mit or cc-by-sa-4.0.")]
Language = Annotated[str | None, typer.Option(help="A code such as en or zh.")]
Data = Annotated[str | None, typer.Option(help="What the model was trained on, in a sentence.")]


def card(
    source: Source,
    output: Annotated[Path | None, typer.Option(help="A new file; default: print it.")] = None,
    name: Annotated[str | None, typer.Option(help="What the card calls the model.")] = None,
    license: License = None,
    language: Language = None,
    data: Data = None,
    options: OptionsFile = None,
) -> None:
    """Write a model card: sizes, data, perplexity and license."""
    from elmore.errors import InputError
    from elmore.files.atomic import write_text
    from elmore.integrations.model_card import CardFacts

    facts = CardFacts(name=name or source, license=license, language=language, data=data)
    text = described(source, facts, options)
    if output is None:
        print(text, end="")
        return
    if output.exists():
        raise InputError(f"{output} exists already; remove it or choose another name.")
    write_text(output, text)


def described(
    source: str, facts: "CardFacts", options: Path | None, files: list[Path] | None = None
) -> str:
    """The card of a model, with the lines that `elmore doctor` prints about it. `files` are those
    of the model, if they are not the source's."""
    from elmore.cli.doctor import examine, model_lines
    from elmore.integrations.model_card import card_text, run_of

    found = examine(source, options)
    parts = [(name, value) for name, value in model_lines(found) if name not in ("format", "file")]
    return card_text(facts, parts, run_of(source), files or found.files)
