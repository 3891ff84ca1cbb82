"""`elmore task`: train a model of a task on pretrained vectors, score it, and use it.

The names are repeated here because importing the recipes would load torch; a test compares them.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from elmore.cli.options import Cache, Dev, Epochs, FineTune, Quiet, Resume, Settings, Train
from elmore.cli.progress import Bar, counting_bar
from elmore.cli.task_gap import gap
from elmore.cli.task_senses import probes, wic, wsd

if TYPE_CHECKING:
    from elmore.tasks.encoders.source import LearnedMix
    from elmore.tasks.fit import EpochReport, Fitted
    from elmore.tasks.model import TaskModel
    from elmore.tasks.recipes import FitConfig
    from elmore.tasks.task import Score, Task

STDOUT = "-"
TRAINED = {
    "ner": "Named entities, in CoNLL columns.",
    "chunking": "Chunks, in CoNLL columns.",
    "taglm": "Spans with the biLM after the first of two layers.",
    "pos": "Parts of speech, in CoNLL-U.",
    "sst": "Sentiment trees, their roots.",
    "classify": "Texts with a label each, TSV, CSV or JSON lines.",
    "entailment": "Sentence pairs, TSV or JSON lines.",
    "qa": "Questions on paragraphs, SQuAD 1.1.",
    "srl": "Semantic roles, JSON lines or CoNLL columns.",
    "coref": "Clusters of mentions, CoNLL-2012 columns or JSON lines.",
    "translate": "Texts and their translations, TSV, JSON lines or two files.",
    "summarize": "Texts and their summaries or titles, the same.",
}

task = typer.Typer(
    help="Tagging, roles, coreference, questions, senses, translation.", rich_markup_mode=None
)
_evaluate = typer.Typer(help="Scores of a trained model, or of vectors.", rich_markup_mode=None)
task.add_typer(_evaluate, name="evaluate")

Name = Annotated[str, typer.Argument(help=f"One of {', '.join(TRAINED)}.")]
Encoder = Annotated[
    str,
    typer.Option(
        help="none, glove:FILE, store:DIR, a model, bert:DIR, lm:DIR, gpt:DIR; some with +."
    ),
]
Moved = Annotated[
    str | None, typer.Option("--encoder", help="The pretrained vectors, if they have moved.")
]
SourceLM = Annotated[
    str | None, typer.Option(help="translate, summarize: a causal model of the source's language.")
]
TargetLM = Annotated[str | None, typer.Option(help="The same for the target's language.")]
Predicting = Annotated[
    list[str] | None,
    typer.Option("--set", help="translate, summarize: such as search.beam=10; can be repeated."),
]
Model = Annotated[Path, typer.Option(help="A folder written by `elmore task train`.")]


@task.command()
def train(
    name: Name,
    train: Train,
    dev: Dev,
    output: Annotated[Path, typer.Option(help="The folder of the model.")],
    encoder: Encoder = "none",
    source_lm: SourceLM = None,
    target_lm: TargetLM = None,
    start: Annotated[
        str | None,
        typer.Option(
            help="What is taken from them: none, encoder, decoder, both …; default: all given."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Same seed, same model.")] = 1,
    epochs: Epochs = None,
    fine_tune: FineTune = False,
    settings: Settings = None,
    cache: Cache = None,
    resume: Resume = False,
    quiet: Quiet = False,
) -> None:
    """Train the model of a task; the epoch that is best on --dev is kept."""
    from elmore.tasks.fit import fit

    given = [f"encoder.source={json.dumps(encoder)}", f"seed={seed}"]
    given += from_language_models(source_lm, target_lm, start)
    config = configured(name, [*given, *(settings or [])], epochs, fine_tune)
    _check_used(config, settings or [])
    examples, held_out = config.task.read(train, training=True), config.task.read(dev)
    tell_notes([(train, examples.notes), (dev, held_out.notes)], quiet)
    with EpochBar(quiet, if_stopped="Continue with --resume.") as bar:
        fitted = fit(
            config,
            examples.examples,
            held_out.examples,
            output,
            cache=cache,
            resume=resume,
            report=bar.epoch,
        )
    tell_notes([(train, fitted.notes)], quiet)
    if not quiet:
        print(_fitted(fitted, output))
        for mix in fitted.model.encoder.mixes():
            print(_mix(mix))


def evaluate_trained(
    context: typer.Context,
    model: Model,
    test: Annotated[Path, typer.Option(help="Labeled examples; .gz, .xz, .zst too.")],
    encoder: Moved = None,
    settings: Predicting = None,
    cache: Cache = None,
    quiet: Quiet = False,
) -> None:
    """Scores in percent."""
    found = opened(context.info_name or "", model, encoder, cache)
    found.adjust(settings or [])
    corpus = found.task.read(test)
    with counting_bar(quiet) as watch:
        score = found.evaluate(corpus.examples, watch)
    tell_notes([(test, (*corpus.notes, *score.notes))], quiet)
    print(_figures(score))


for _name, _help in TRAINED.items():
    _evaluate.command(_name, help=_help)(evaluate_trained)
for _command in (gap, wsd, wic, probes):
    _evaluate.command()(_command)


@task.command()
def predict(
    name: Name,
    input: Annotated[Path, typer.Argument(help="Examples without labels.")],
    model: Model,
    output: Annotated[Path | None, typer.Option(help="JSON lines; default: stdout.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Also a page with colors and brackets (srl, coref).")
    ] = None,
    encoder: Moved = None,
    text: Annotated[
        bool, typer.Option("--text", help="translate, summarize: the output alone, line by line.")
    ] = False,
    n_best: Annotated[
        int | None, typer.Option(min=1, help="translate, summarize: so many outputs of each text.")
    ] = None,
    attention: Annotated[
        bool, typer.Option("--attention", help="translate, summarize: where the model looked.")
    ] = False,
    picture: Annotated[
        Path | None, typer.Option(help="translate, summarize: attention of the first text, SVG.")
    ] = None,
    settings: Predicting = None,
    cache: Cache = None,
    quiet: Quiet = False,
) -> None:
    """Predict for new text with a trained model: one JSON object per line."""
    from elmore.files.atomic import atomic_file, write_text
    from elmore.tasks.prediction_page import drawing_of

    found = opened(name, model, encoder, cache)
    drawing = None if html is None else drawing_of(found.task)
    written = {"--text": text, "--n-best": n_best, "--attention": attention, "--picture": picture}
    _check_writes(found.task, [option for option, value in written.items() if value])
    asked = [] if n_best is None else [f"n_best={n_best}"]
    found.adjust([*(settings or []), *asked, *(["attention=true"] if attention or picture else [])])
    corpus = found.task.read_plain(input)
    tell_notes([(input, (*corpus.notes, *found.cut_words(corpus.examples)))], quiet)
    with counting_bar(quiet) as watch:
        predictions = found.predict(corpus.examples, watch)
    if html is not None and drawing is not None:
        write_text(html, drawing(corpus.examples, predictions))
    pairs = zip(corpus.examples, predictions, strict=True)
    rows = [found.task.shown(*pair) for pair in pairs]
    if picture is not None:
        _draw(next(row for row in rows if "attention" in row), picture)  # not of a blank line
    lines = (_line(row, text) for row in rows)
    if output is None or str(output) == STDOUT:
        for line in lines:
            print(line)
        return
    with atomic_file(output) as beside, beside.open("w", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)


def _draw(row: "dict[str, Any]", picture: Path) -> None:
    from elmore.files.atomic import write_text
    from elmore.tasks.attention_picture import attention_svg

    drawn = attention_svg(row["source_pieces"], row["pieces"], row["attention"])
    write_text(picture, drawn)


def _check_writes(task: "Task[Any, Any, Any]", options: list[str]) -> None:
    """Before anything is predicted: some options are for tasks whose answer is text."""
    from elmore.errors import ConfigError
    from elmore.tasks.generation_config import GenerationConfig

    if options and not isinstance(task, GenerationConfig):
        raise ConfigError(f"{options[0]} is for translate and summarize; leave it out.")


def _line(row: "dict[str, Any]", text: bool) -> str:
    return str(row["output"]) if text else json.dumps(row, ensure_ascii=False)


def from_language_models(
    source_lm: str | None, target_lm: str | None, start: str | None = None
) -> list[str]:
    """Settings of the tasks that begin with language models."""
    given = {"source_lm": source_lm, "target_lm": target_lm, "from_lms": start}
    return [f"task.{name}={json.dumps(value)}" for name, value in given.items() if value]


def configured(name: str, settings: list[str], epochs: int | None, fine_tune: bool) -> "FitConfig":
    """The settings of a task, with what the command line changes."""
    from elmore.config import override
    from elmore.tasks.recipes import find_task

    changes = list(settings)
    places = ("epochs", "tuning.epochs", "encoder.lm.epochs", "encoder.gpt.epochs")
    changes += [] if epochs is None else [f"{place}={epochs}" for place in places]
    changes += ["encoder.fine_tune=true"] if fine_tune else []
    return override(find_task(name), changes)


_SETTINGS = {"bert": "tuning.", "lm": "encoder.lm.", "gpt": "encoder.gpt."}
"""Of each way to fine-tune."""


def _check_used(config: "FitConfig", settings: list[str]) -> None:
    """Refuse a setting that this training would not use: fine-tuning has its own."""
    from elmore.errors import ConfigError
    from elmore.tasks.recipes import FitConfig

    tunes = config.encoder.tunes
    all_have = {"task", "encoder", "seed", "tuning", "precision"}
    ways = FitConfig.model_fields.keys() - all_have
    for setting in settings:
        name = setting.partition("=")[0]
        if tunes is not None and name in ways:
            raise ConfigError(
                f"--set {setting}: a model that is fine-tuned so has settings of its own, "
                f"{_SETTINGS[tunes]}lr and so on (docs/tasks.md, docs/finetuning.md)."
            )
        for way, prefix in _SETTINGS.items():
            if f"{name}.".startswith(prefix) and tunes != way:
                raise ConfigError(
                    f"--set {setting}: only for a model that is fine-tuned; expected --encoder "
                    f"{way}:DIR+tune."
                )


def opened(name: str, folder: Path, encoder: str | None, cache: Path | None) -> "TaskModel":
    """A trained model of the task with this name."""
    from elmore.errors import ConfigError
    from elmore.tasks.model import TaskModel
    from elmore.tasks.recipes import find_task
    from elmore.tasks.saved import read_saved

    wanted, found = find_task(name).task, read_saved(folder).fit.task
    if _answer(found) != _answer(wanted):
        raise ConfigError(f"{folder}: is a model for {_answer(found)}, not for {name}.")
    return TaskModel.load(folder, source=encoder, cache=cache)


def _answer(task: "Task[Any, Any, Any]") -> str:
    """What a task's model gives; names like `ner` and `chunking` have it in common."""
    match getattr(task, "spans", None):
        case True:
            return "tagging spans"
        case False:
            return "tagging words"
    return task.kind


# What is told -------------------------------------------------------------------------------------


def tell_notes(notes: Iterable[tuple[Path, Iterable[str]]], quiet: bool) -> None:
    """Print which parts of a file could not be used as they are."""
    for path, said in notes if not quiet else ():
        for note in said:
            print(f"{path}: {note}", file=sys.stderr)


class EpochBar(Bar):
    """A bar over epochs, with the newest loss and score; each epoch also leaves a line."""

    dev = ""

    def epoch(self, now: "EpochReport", before: str = "") -> None:
        """After each batch and each epoch; `before` names the training."""
        if now.dev is not None:
            self.dev = f"dev {_figures(now.dev)}"
            self.line(f"{before}epoch {now.epoch}  loss {now.loss:.4f}  {self.dev}")
        self.update(
            now.fraction,
            1.0,
            description=f"{before}epoch {now.epoch}",
            figures=f"loss {now.loss:.4f}  {self.dev}",
        )


def _figures(score: "Score") -> str:
    return "  ".join(f"{name} {value:.2f}" for name, value in score.figures.items())


def _fitted(fitted: "Fitted", folder: Path) -> str:
    return (
        f"{folder}: epoch {fitted.best_epoch} of {fitted.epochs}, dev {_figures(fitted.dev)}, "
        f"{fitted.seconds:,.0f} s"
    )


def _mix(mix: "LearnedMix") -> str:
    weights = " ".join(f"{weight:.3f}" for weight in mix.weights)
    return f"{mix.source} {mix.place}: s = {weights}, γ = {mix.gamma:.3f}"
