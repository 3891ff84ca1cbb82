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
    from elmore.tasks.scorers.gap import GapScore

score = typer.Typer(
    help="Predictions in files: entities, roles, answers, clusters.", rich_markup_mode=None
)

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
    """Semantic roles in CoNLL-2005 columns or JSON lines: figures of srl-eval.pl."""
    from elmore.tasks.readers.role_lines import read_compared_roles
    from elmore.tasks.scorers.roles import role_counts

    found = role_counts(*read_compared_roles(gold, predicted))
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


@score.command()
def coref(
    key: Annotated[Path, typer.Argument(help="CoNLL-2012 columns, the clusters in the last one.")],
    response: Annotated[Path, typer.Argument(help="The same documents with predicted clusters.")],
    metric: Annotated[
        str, typer.Option(help="all, or one of muc, bcub, ceafm, ceafe, blanc, lea.")
    ] = "all",
    as_json: Json = False,
) -> None:
    """Clusters of mentions: figures of scorer.pl 8.01, and LEA."""
    from elmore.errors import ConfigError
    from elmore.tasks.readers.coref import read_clusters
    from elmore.tasks.scorers.coref import CONLL, METRICS, score_documents

    asked = (*METRICS, CONLL) if metric == "all" else (metric,)
    if not {*asked} <= {*METRICS, CONLL}:
        raise ConfigError(f"--metric {metric}: expected all, or one of {', '.join(METRICS)}.")
    clusters, _ = read_clusters(key)
    found, repeated = read_clusters(response, response=True)
    absent = len(clusters.keys() - found.keys())
    ignored = len(found.keys() - clusters.keys())
    counts = {
        "mentions of the response are given twice: the first one counts": repeated,
        "documents are not in the response: all their mentions are missed": absent,
        "documents of the response are not in the key: they are ignored": ignored,
    }
    tell(f"{n:,} {text}" for text, n in counts.items() if n)
    figures = score_documents(clusters, found).figures()
    if as_json:
        print_json({name: figures[name].percent() for name in asked})
        return
    rows = [[name, *figures[name].as_printed()] for name in asked]
    print_table([["", "recall", "precision", "f1"], *rows])


@score.command()
def gap(
    gold: Annotated[Path, typer.Argument(help="GAP's TSV; .gz, .xz, .zst too.")],
    predicted: Annotated[Path, typer.Argument(help="Lines of id, A and B: TRUE or FALSE, TSV.")],
    as_json: Json = False,
) -> None:
    """Pronouns and names: figures of GAP's scorer."""
    from elmore.tasks.readers.gap import read_gap, read_gap_answers
    from elmore.tasks.scorers.gap import score_gap

    right = {text.id: text.gold for text in read_gap(gold)}
    found = score_gap(right, read_gap_answers(predicted))
    missing = f"{found.missing:,} texts have no answer: each counts as two missed names"
    tell([missing] if found.missing else [])
    if as_json:
        figures = {name: counts.figures() for name, counts in found.by_gender().items()}
        print_json({**figures, "bias": found.bias})
        return
    print_gap(found)


def print_gap(found: "GapScore") -> None:
    rows = [
        [name, *(f"{value:.2f}" for value in (counts.recall, counts.precision, counts.f1))]
        for name, counts in found.by_gender().items()
    ]
    print_table([["", "recall", "precision", "f1"], *rows])
    print(f"bias {found.bias:.2f} (F1 of feminine pronouns / F1 of masculine ones)")


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
