"""`elmore evaluate`: the perplexity of a text under a model, both directions."""

import json
from typing import Annotated

import typer

from elmore.cli.options import (
    AsIs,
    BadBytes,
    Errors,
    LineKind,
    LinesAre,
    OptionsFile,
    SentenceFile,
    Tokenize,
)


def evaluate(
    source: Annotated[str, typer.Argument(help="A model with its softmax and vocabulary.")],
    text: SentenceFile,
    options: OptionsFile = None,
    tokenize: Tokenize = False,
    lines: LinesAre = LineKind.AUTO,
    as_is: AsIs = False,
    errors: BadBytes = Errors.STRICT,
    carry_state: Annotated[
        bool,
        typer.Option(
            "--carry-state", help="Read the text as one: carry LSTM state from line to line."
        ),
    ] = False,
    per_sentence: Annotated[
        bool, typer.Option("--per-sentence", help="Print one JSON line per sentence.")
    ] = False,
) -> None:
    """Perplexity per token with the full softmax; </S> counts, <S> is never predicted."""
    from elmore.checkpoint.bilm import speller_of
    from elmore.checkpoint.sources import load
    from elmore.errors import ConfigError
    from elmore.files.sentence_files import SentenceFiles
    from elmore.files.text_file import find_files
    from elmore.pretrain.evaluate import evaluate as score
    from elmore.pretrain.evaluate import language_model, perplexity, summarize

    if carry_state and per_sentence:
        raise ConfigError("--carry-state and --per-sentence cannot be used together.")
    paths = find_files([text], read_once=True)
    checkpoint = load(source, options=options, heads=True)
    sentences = SentenceFiles(paths, tokenize, errors.value, lines=lines.value, as_is=as_is)
    if per_sentence:
        for found in score(checkpoint, sentences, source):
            row = {"forward": found.forward, "backward": found.backward, "unknown": found.unknown}
            print(json.dumps({"sentence": " ".join(found.words), **row}, ensure_ascii=False))
        return
    if carry_state:
        model = language_model(checkpoint, source).eval()
        assert checkpoint.vocabulary is not None
        result = perplexity(
            model,
            checkpoint.vocabulary,
            list(sentences),
            speller=speller_of(checkpoint),
            carry=True,
        )
    else:
        result = summarize(score(checkpoint, sentences, source))
    print(f"forward perplexity   {result.forward:.2f}")
    print(f"backward perplexity  {result.backward:.2f}")
    print(f"average perplexity   {result.average:.2f}")
    share = result.unknown / max(1, result.words)
    print(
        f"{result.sentences:,} sentences, {result.words:,} words, "
        f"{result.unknown:,} outside the vocabulary ({share:.2%})"
    )
