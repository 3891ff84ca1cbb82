"""`elmore evaluate`: the perplexity of a text under a model, in both directions or in one."""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.early import check_files
from elmore.cli.options import (
    AsIs,
    BadBytes,
    Errors,
    LineKind,
    LinesAre,
    OptionsFile,
    Quiet,
    SentenceFile,
)
from elmore.cli.progress import Bar

if TYPE_CHECKING:
    from elmore.checkpoint.checkpoint import Checkpoint, TrainedOn


def evaluate(
    source: Annotated[
        str,
        typer.Argument(help="A model with its softmax and vocabulary."),
    ],
    text: SentenceFile,
    options: OptionsFile = None,
    tokenize: Annotated[
        bool | None,
        typer.Option(
            "--tokenize/--no-tokenize",
            help="Lines are raw text, or words between spaces; default: as in training.",
        ),
    ] = None,
    lines: LinesAre = LineKind.AUTO,
    as_is: AsIs = False,
    errors: BadBytes = Errors.STRICT,
    carry_state: Annotated[
        bool | None,
        typer.Option(
            "--carry-state/--no-carry-state",
            help="Carry LSTM state from line to line, or not; default: as in training.",
        ),
    ] = None,
    max_words: Annotated[
        int | None,
        typer.Option(min=0, help="Cut longer sentences; 0: never; default: as in training."),
    ] = None,
    first_words: Annotated[
        int | None,
        typer.Option(min=1, help="Stop after so many words, at the end of a sentence."),
    ] = None,
    per_sentence: Annotated[
        bool, typer.Option("--per-sentence", help="Print one JSON line per sentence.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Perplexity per token with the full softmax; </S> counts, <S> is never predicted."""
    check_files(model=source, text=text)
    from elmore.checkpoint.bilm import language_model, speller_of
    from elmore.checkpoint.checkpoint import TrainedOn
    from elmore.checkpoint.sources import load
    from elmore.errors import ConfigError
    from elmore.files.sentence_files import SentenceFiles
    from elmore.files.text_file import find_files
    from elmore.models.causal import Causal
    from elmore.pretrain import evaluate as scores

    if carry_state and per_sentence:
        raise ConfigError("--carry-state and --per-sentence cannot be used together.")
    paths = find_files([text], read_once=True)
    checkpoint = load(source, options=options, heads=True)
    if isinstance(checkpoint.model, Causal):
        if carry_state:
            raise ConfigError("--carry-state is for biLMs; a causal model reads line by line.")
        sentences = SentenceFiles(paths, bool(tokenize), errors.value, lines.value, as_is=True)
        some = scores.first_words(sentences, first_words)
        _causal(checkpoint, some, source, max_words or None, per_sentence)
        return
    trained = checkpoint.trained_on
    known = trained or TrainedOn(tokenize=False, carry_state=False)
    carry = (known.carry_state and not per_sentence) if carry_state is None else carry_state
    longest = known.max_words if max_words is None else max_words or None
    read = TrainedOn(
        tokenize=known.tokenize if tokenize is None else tokenize,
        carry_state=carry,
        max_words=None if carry else longest,
    )
    sentences = SentenceFiles(paths, read.tokenize, errors.value, lines=lines.value, as_is=as_is)
    some = scores.first_words(sentences, first_words)
    if per_sentence:
        for found in scores.evaluate(checkpoint, some, source, read.max_words):
            row = {"forward": found.forward, "backward": found.backward, "unknown": found.unknown}
            print(json.dumps({"sentence": " ".join(found.words), **row}, ensure_ascii=False))
        print(_reading(read, trained), file=sys.stderr)
        return
    model = language_model(checkpoint, source).eval()
    assert checkpoint.vocabulary is not None
    with Bar(quiet) as bar:
        result = scores.perplexity(
            model,
            checkpoint.vocabulary,
            _counted(some, bar),
            speller=speller_of(checkpoint),
            carry=carry,
            max_words=read.max_words,
        )
    print(f"forward perplexity   {result.forward:.2f}")
    print(f"backward perplexity  {result.backward:.2f}")
    print(f"average perplexity   {result.average:.2f}")
    share = result.unknown / max(1, result.words)
    cut = f", {result.cut:,} sentences cut into pieces" if result.cut else ""
    print(
        f"{result.sentences:,} sentences, {result.words:,} words, "
        f"{result.unknown:,} outside the vocabulary ({share:.2%}){cut}"
    )
    print(_reading(read, trained))


def _counted(sentences: Iterable[list[str]], bar: Bar) -> Iterator[list[str]]:
    """The bar shows how many words have been read; how many there are is not known."""
    n_words = 0
    for words in sentences:
        yield words
        n_words += len(words)
        bar.update(n_words, figures=f"{n_words:,} words")


def _causal(
    checkpoint: "Checkpoint",
    sentences: Iterable[list[str]],
    source: str,
    max_words: int | None,
    per_sentence: bool,
) -> None:
    from elmore.pretrain.evaluate_causal import evaluate_causal, summarize_causal

    found = evaluate_causal(checkpoint, sentences, source, max_words)
    if per_sentence:
        for score in found:
            row = {"forward": score.log_prob, "pieces": score.pieces, "unknown": score.unknown}
            print(json.dumps({"sentence": " ".join(score.words), **row}, ensure_ascii=False))
        return
    result = summarize_causal(found)
    print(f"perplexity per piece  {result.per_piece:.2f}")
    print(f"perplexity per word   {result.per_word:.2f}")
    print(
        f"{result.lines:,} lines, {result.words:,} words, {result.pieces:,} pieces with the ends "
        f"of lines, {result.unknown:,} unknown words"
    )
    print("read: words between spaces, each line on its own, one direction")


def _reading(read: "TrainedOn", trained: "TrainedOn | None") -> str:
    """How the text was read, and how the model's was."""
    if trained is None:
        return f"read: {_said(read)}; how the model read its text is not recorded"
    if read == trained:
        return f"read as in training: {_said(read)}"
    return f"NOT read as in training: {_said(read)}; in training: {_said(trained)}"


def _said(read: "TrainedOn") -> str:
    words = "raw text, tokenized" if read.tokenize else "words separated by spaces"
    state = "state carried between sentences" if read.carry_state else "each sentence on its own"
    cut = "" if read.max_words is None else f", at most {read.max_words:,} words"
    return f"{words}, {state}{cut}"
