"""`elmore demo`: show what contextual vectors are for, in a minute and without a network."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmore.cli.options import Lowercase, Pieces
from elmore.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from elmore.demo.accuracy import Accuracy
    from elmore.demo.ambiguous_words import Language
    from elmore.demo.demo import Demo
    from elmore.uses.use import Use

SHIPPED: "dict[Language, str]" = {"en": "small-en", "zh": "small-zh"}
_NAMES: "dict[Language, str]" = {"en": "English", "zh": "Chinese"}
_NEXT: "dict[Language, tuple[str, str, str]]" = {  # a word, words between spaces, raw text
    "en": ("spring", "We sat on the river bank .", "My bank account."),
    "zh": ("苹果", "这种 苹果 又 甜 又 脆 。", "他在苹果当工程师。"),
}
_FEW_LAYERS = 3  # with headings in words, beside the senses, in 80 columns
_WIDE = 10_000
_ENDINGS = (".html", ".png")
_ABOUT_MEANING = "meaning: the model's lens,\na linear map learned without labels (docs/lens.md)."


def demo(
    model: Annotated[
        str | None, typer.Option(help="Any model; default: the included models.")
    ] = None,
    pieces: Pieces = None,
    lowercase: Lowercase = None,
    word: Annotated[
        str | None, typer.Option(help="The word whose uses are shown, in its language only.")
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Draw the word's uses: x.html, or x.png (extra plot).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="All figures, as JSON.")] = False,
) -> None:
    """Show how the uses of ambiguous words separate by meaning, in example sentences."""
    from rich.console import Console

    from elmore.demo.ambiguous_words import language_read_by
    from elmore.demo.demo import SHOWN
    from elmore.demo.demo import demo as run
    from elmore.embedder import Embedder

    check_plot(plot)
    plan = choose_models(model, word)
    console, figures = Console(highlight=False, soft_wrap=True), []
    for asked, source in plan.items():
        embedder = Embedder.load(source, pieces=pieces, lowercase=lowercase)
        picked = model is not None and word is None
        language = language_read_by(embedder.reader) if picked else asked
        found = run(embedder, language, word or SHOWN[language])
        figures.append(as_dict(found, source))
        if not as_json:
            _print_demo(console, found, source)
        if plot is not None and asked == next(iter(plan)):
            draw(found, source, plot)
    skipped = [] if model or word else [language for language in SHIPPED if language not in plan]
    if as_json:
        escaped = sys.stdout.encoding.lower() not in ("utf-8", "utf8")
        print(json.dumps({"demos": figures, "skipped": skipped}, ensure_ascii=escaped, indent=2))
    else:
        first = figures[0]
        _print_end(console, skipped, (first["language"], first["model"]), plot)


def check_plot(plot: Path | None) -> None:
    """Find problems with writing the picture before the work begins."""
    if plot is None:
        return
    if plot.suffix not in _ENDINGS:
        raise InputError(f"--plot {plot}: ends in {plot.suffix!r}; expected .html or .png.")
    if not plot.parent.is_dir():
        raise InputError(f"--plot {plot}: {plot.parent}: no such folder; create it first.")
    if plot.suffix == ".png":
        from elmore.demo.drawing import check_matplotlib

        check_matplotlib()


def choose_models(model: str | None, word: str | None) -> "dict[Language, str]":
    """The model for each language: both included models, or that of the word's language. Without
    a word, a given model is asked which language it reads when it is loaded."""
    from elmore.checkpoint.source_names import shipped_names
    from elmore.demo.ambiguous_words import language_of

    asked: list[Language] = [language_of(word)] if word else ["en"]
    if model is not None:
        return {asked[0]: model}
    there = shipped_names()
    if SHIPPED[asked[0]] not in there:
        raise InputError(
            f"The model {SHIPPED[asked[0]]} is not part of this installation; "
            "add --model SOURCE, any model that `elmore doctor SOURCE` can read."
        )
    if word is None and SHIPPED["zh"] in there:
        asked.append("zh")
    return {language: SHIPPED[language] for language in asked}


def draw(found: "Demo", source: str, target: Path) -> None:
    from elmore.demo.drawing import write_html, write_png
    from elmore.demo.picture import picture_uses

    picture = picture_uses(found.vectors, found.word, Path(source).name)
    write = write_png if target.suffix == ".png" else write_html
    write(picture, target)


def as_dict(found: "Demo", source: str) -> dict[str, Any]:
    """Everything that the tables show, with all digits."""
    return {
        "model": source,
        "language": found.language,
        "sentences": len(found.vectors.uses),
        "total": asdict(found.total),
        "words": [asdict(word) for word in found.words],
        "neighbors": {
            "word": found.word,
            "static": [{"word": word, "cosine": near} for word, near in found.static_neighbors],
            "contextual": [
                {
                    **_use_dict(query.use),
                    "nearest": [
                        {**_use_dict(near.use), "cosine": near.score} for near in query.nearest
                    ],
                }
                for query in found.queries
            ],
        },
    }


def _use_dict(use: "Use") -> dict[str, str]:
    return {"sense": use.sense, "sentence": use.sentence}


# What is printed ----------------------------------------------------------------------------------


def _print_demo(console: "Console", found: "Demo", source: str) -> None:
    from rich.markup import escape

    sentences, n_words = len(found.vectors.uses), len(found.words)
    senses = sum(len(word.senses) for word in found.words)
    console.print(
        f"[bold]{_NAMES[found.language]}[/]: {escape(source)} has read {sentences} sentences with "
        f"{n_words} ambiguous words in {senses} senses\n"
    )
    near = ", ".join(word for word, _ in found.static_neighbors)
    console.print(
        f"Without context [bold]{found.word}[/] is one vector. Nearest words:\n  {near}\n"
    )
    by = "" if found.total.meaning is None else " by the lens for meaning"
    console.print(f"In context every use of [bold]{found.word}[/] has its own. Nearest uses{by}:")
    for query in found.queries:
        console.print(f"\n  [bold]{query.use.sense:10}[/]        {_marked(query.use)}")
        for one in query.nearest:
            console.print(f"    {one.use.sense:10} {one.score:5.2f}  {_marked(one.use)}")
    console.print("\nUses whose nearest other use of the same word has the same sense, in percent:")
    _print_accuracies(console, found)
    console.print(
        "static: the word's vector without context, which gives chance. sentence: the mean of the\n"
        "sentence's vectors without context. average: of all layers."
        + ("\n" if found.total.meaning is None else f" {_ABOUT_MEANING}\n")
    )


def _marked(use: "Use") -> str:
    return use.marked("[bold]", "[/]")


def _print_accuracies(console: "Console", found: "Demo") -> None:
    """Many layers leave no room for senses and long headings. No word and no figure is cut: lines
    may be longer than the window."""
    narrow = len(found.total.layers) > _FEW_LAYERS
    table = _accuracy_table(found, narrow=narrow)
    if narrow:
        console.print("The numbered columns are layers.")
        table.width = console.measure(table, options=console.options.update(width=_WIDE)).maximum
    console.print(table, width=max(console.width, table.width or 0), crop=False)


def _accuracy_table(found: "Demo", *, narrow: bool = False) -> "Table":
    from rich import box
    from rich.table import Table

    start = found.vectors.first_contextual
    layers = [f"{'' if narrow else 'layer '}{i}" for i, _ in enumerate(found.total.layers, start)]
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1), pad_edge=False, collapse_padding=narrow)
    table.add_column("word", no_wrap=True)
    if not narrow:
        table.add_column("senses")
    meaning = [] if found.total.meaning is None else ["meaning"]
    for name in ("static", "sentence", *layers, "average", *meaning):
        table.add_column(name, justify="right", no_wrap=True)
    for word in found.words:
        senses = [] if narrow else [", ".join(word.senses)]
        table.add_row(word.word, *senses, *_percents(word.accuracy, 0))
    table.add_section()
    blank = [] if narrow else [""]
    table.add_row("[bold]all[/]", *blank, *_percents(found.total, 1), style="bold")
    return table


def _percents(shares: "Accuracy", digits: int) -> list[str]:
    meaning = () if shares.meaning is None else (shares.meaning,)
    values = (shares.static, shares.sentence, *shares.layers, shares.average, *meaning)
    return [f"{100 * value:.{digits}f}" for value in values]


def _print_end(
    console: "Console",
    skipped: "list[Language]",
    shown: "tuple[Language, str]",
    plot: Path | None,
) -> None:
    language, source = shown
    word, words, text = _NEXT[language]
    for other in skipped:
        console.print(
            f"{_NAMES[other]} is skipped: there is no {SHIPPED[other]} here. With a model of "
            "your own:\n  elmore demo --model SOURCE --word 苹果\n"
        )
    if plot is not None:
        console.print(f"{plot} is drawn.\n", markup=False)
    given = "" if source in SHIPPED.values() else f" --model {source}"
    console.print(
        "Next:\n"
        f"  elmore demo --word {word} --plot {word}.html{given}\n"
        f"  echo '{words}' | elmore embed - - --model {source} --layers top\n"
        f"  python -c \"from elmore import Embedder; print(Embedder.load('{source}')"
        f".embed(['{text}'])[0].layers.shape)\"",
        markup=False,
    )
