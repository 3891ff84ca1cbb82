"""`elmore task evaluate gap`: pronouns and names, answered by a trained model of coreference."""

from pathlib import Path
from typing import Annotated

import typer

from elmore.cli.options import Cache, Quiet
from elmore.cli.progress import counting_bar
from elmore.cli.score import print_gap


def gap(
    model: Annotated[Path, typer.Option(help="A folder written by `elmore task train coref`.")],
    test: Annotated[Path, typer.Option(help="GAP's TSV; .gz, .xz, .zst too.")],
    output: Annotated[
        Path | None, typer.Option(help="Also write the answers: id, A, B, split by tabs.")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="The pretrained vectors, if they have moved.")
    ] = None,
    cache: Cache = None,
    quiet: Quiet = False,
) -> None:
    """Pronouns and names, by a model of coref."""
    from elmore.files.atomic import write_text
    from elmore.tasks.gap import evaluate_gap
    from elmore.tasks.model import TaskModel

    loaded = TaskModel.load(model, source=encoder, cache=cache)
    with counting_bar(quiet) as watch:
        score, answers = evaluate_gap(loaded, test, watch)
    print_gap(score)
    if output is not None:
        rows = ([name, *(str(known).upper() for known in found)] for name, found in answers.items())
        write_text(output, "".join("\t".join(row) + "\n" for row in rows))
