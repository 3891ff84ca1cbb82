"""`elmore score`: predictions in a file compared with the right answers, by the rules of the
official scorers. A table, or with `--json` every digit.
"""

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from elmore.tasks.scorers.counts import LabelCounts

score = typer.Typer(help="Predictions in files: entities, roles, answers.", rich_markup_mode=None)

Gold = Annotated[Path, typer.Argument(help="The right answers; .gz, .xz, .zst too.")]
Predicted = Annotated[Path, typer.Argument(help="The predictions, in the same layout.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON with every digit, not a table.")]


@score.command()
def ner(
    gold: Annotated[Path, typer.Argument(help="CoNLL columns, the tag in the last one.")],
    predicted: Annotated[
        Path | None,
        typer.Argument(help="The same words; default: the last two columns of GOLD."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Entities or chunks in CoNLL columns: figures of conlleval."""
    from elmore.tasks.readers.compared_tags import read_compared_tags
    from elmore.tasks.scorers.accuracy import tag_accuracy
    from elmore.tasks.scorers.conlleval import span_counts

    tags, found = read_compared_tags(gold, predicted)
    counts = span_counts(tags, found)
    accuracy = tag_accuracy(tags, found).main
    if as_json:
        figures = counts.figures()
        print_json({**figures, "overall": {**figures["overall"], "accuracy": accuracy}})
        return
    print_table(label_rows(counts))
    n_words = sum(map(len, tags))
    print(f"{len(tags):,} sentences, {n_words:,} words, {accuracy:.2f} % of their tags are right")


@score.command()
def srl(gold: Gold, predicted: Predicted, as_json: Json = False) -> None:
    """Semantic roles in CoNLL-2005 columns: figures of srl-eval.pl."""
    from elmore.tasks.readers.role_columns import read_props
    from elmore.tasks.scorers.roles import role_counts

    found = role_counts(*read_props(gold, predicted))
    counted = {
        "gold propositions have no predicted one: all their arguments are missed": found.missing,
        "predicted propositions are not in the gold file: they are skipped": found.skipped,
        "predicates have another lemma: all their gold arguments are missed": found.other_lemmas,
    }
    tell(f"{n:,} {what}" for what, n in counted.items() if n)
    if as_json:
        print_json(found.figures())
        return
    print_table(label_rows(found.counts))
    print(
        f"{found.sentences:,} sentences, {found.propositions:,} propositions, "
        f"{found.perfect:.2f} % of them perfect; V is not counted in overall"
    )


@score.command()
def squad(
    gold: Annotated[Path, typer.Argument(help="Questions with answers, SQuAD 1.1 JSON.")],
    predicted: Annotated[Path, typer.Argument(help="JSON: the answer to each question id.")],
    as_json: Json = False,
) -> None:
    """Answers to questions: figures of the official SQuAD 1.1 script."""
    from elmore.tasks.readers.squad_predictions import read_squad_predictions
    from elmore.tasks.scorers.squad_answers import squad_score

    answers, texts = read_squad_predictions(gold, predicted)
    missing = texts.count(None)
    tell([f"{missing:,} questions have no prediction: they count as wrong"] if missing else [])
    figures = squad_score(answers, texts).figures
    named = {"exact_match": figures["exact match"], "f1": figures["F1"]}
    if as_json:
        print_json(named)
        return
    print_table([["", *named], ["", *(f"{value:.2f}" for value in named.values())]])


# Shared by the scorers ----------------------------------------------------------------------------


def label_rows(counts: "LabelCounts") -> list[list[str]]:
    """Counts and percentages, of everything and of each label, with a heading."""
    rows = {"overall": counts.overall, **counts.labels}
    cells = [[name, *map(_cell, found.figures().values())] for name, found in rows.items()]
    return [["", *counts.overall.figures()], *cells]


def _cell(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.2f}"


def print_table(rows: Sequence[Sequence[str]]) -> None:
    from elmore.tasks.markdown import markdown

    print(markdown(rows), end="")


def print_json(found: dict[str, Any]) -> None:
    print(json.dumps(found, indent=1, ensure_ascii=False))


def tell(notes: Iterable[str]) -> None:
    for note in notes:
        print(note, file=sys.stderr)
