"""`pretrain`: a corpus and a config become a run folder that is at once an `Embedder` source."""

import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import ValidationError
from safetensors.torch import load_file, save_file

from elmore.checkpoint.bilm import bilm_checkpoint, bilm_of, reader_of, softmax_of
from elmore.checkpoint.checkpoint import Checkpoint, build_model
from elmore.checkpoint.native import read_native
from elmore.checkpoint.sources import load
from elmore.config import Frozen, one_line
from elmore.errors import ConfigError, FormatError, InputError
from elmore.files.atomic import atomic_file
from elmore.files.find_files import find_files
from elmore.models.bilm import BiLM
from elmore.models.language_model import LanguageModel
from elmore.models.layers import LayerModel
from elmore.nn.lstm import LSTMConfig
from elmore.nn.softmax import (
    AdaptiveSoftmax,
    AdaptiveSoftmaxConfig,
    Softmax,
    build_softmax,
    samples_of,
)
from elmore.nn.word_table import WordTableConfig
from elmore.pretrain.batches import (
    RowBatches,
    RowsConfig,
    SentenceBatches,
    SentencesConfig,
    pieces,
)
from elmore.pretrain.config import PretrainConfig
from elmore.pretrain.counts import Counting, Counts, count_words
from elmore.pretrain.objective import BiLMObjective
from elmore.pretrain.sentences import Position, SentenceStream, Words, read_sentences
from elmore.pretrain.static_start import start_softmax
from elmore.text.dictionary_reader import DictionaryReader
from elmore.text.vocabulary import MARKS, Vocabulary
from elmore.text.word_reader import WordReader
from elmore.train.loop import Loop, Progress
from elmore.train.memory import keep_large_blocks
from elmore.train.run_folder import Report, RunFolder, checkpoints
from elmore.train.world import World

RUN, VOCABULARY, START = "run.json", "vocab.txt", "softmax-start.safetensors"
_SOMEBODYS = ("config.json", "log.jsonl", "best", "checkpoints")


class Run(Frozen):
    """run.json: what a run is made of, so that it can be gone on with."""

    config: PretrainConfig
    corpus: list[str]
    valid: str | None = None
    source: str | None = None
    sentences: int
    words: int
    """Of the corpus, once through."""


def pretrain(
    corpus: Iterable[str | Path],
    output: str | Path,
    config: PretrainConfig,
    *,
    valid: str | Path | None = None,
    vocabulary: str | Path | None = None,
    source: str | Path | None = None,
    resume: bool = False,
    report: Report | None = None,
    counting: Counting | None = None,
) -> Progress:
    """Train until the config says stop. With `resume`, from where the folder stands."""
    output = Path(output)
    valid = None if valid is None else Path(valid)
    vocabulary = None if vocabulary is None else Path(vocabulary)
    keep_large_blocks()
    world = World()
    try:
        going_on = resume and bool(checkpoints(output))
        if not going_on and world.first:
            _prepare(list(corpus), output, config, valid, vocabulary, source, resume, counting)
        world.wait()
        run = read_run(output)
        if going_on:
            _refuse_other_data(run, list(corpus), valid, source, output)
            run = _with_new_end(run, config, output)
            _refuse_other_words(vocabulary, output)
        newest = checkpoints(output)[-1:] if going_on else []
        objective = _objective(run, output, world, newest)
        recorder = RunFolder(output, keep=run.config.loop.keep, report=report)
        loop = Loop(objective, _ending(run, world.size), recorder, world)
        if going_on:
            loop.resume()
        return loop.run()
    finally:
        world.close()


# Before the first step ----------------------------------------------------------------------------


def _prepare(
    corpus: list[str | Path],
    output: Path,
    config: PretrainConfig,
    valid: Path | None,
    vocabulary: Path | None,
    source: str | Path | None,
    resume: bool,
    counting: Counting | None,
) -> None:
    """The run folder: vocabulary and run.json. An old run's folder is not written over."""
    if (output / RUN).exists() and not resume:
        raise InputError(f"{output} holds a run already; add --resume to go on, or remove it.")
    if not (output / RUN).exists():
        for name in _SOMEBODYS:
            if (output / name).exists():
                raise InputError(f"{output}: holds {name}, but no run; choose another --output.")
    files = find_files(corpus)
    if valid is not None:
        find_files([valid])
    counts = count_words(files, config.reading, counting)
    words = _vocabulary(config, counts, vocabulary, source)
    output.mkdir(parents=True, exist_ok=True)
    (output / START).unlink(missing_ok=True)  # of a run that was begun and never got anywhere
    with atomic_file(output / VOCABULARY) as path:
        path.write_text("".join(words.lines()), encoding="utf-8")
    if config.softmax_start == "static" and source is None:
        _write_start(files, output, config, words)
    run = Run(
        config=config,
        corpus=[str(path.resolve()) for path in files],
        valid=None if valid is None else str(valid.resolve()),
        source=None if source is None else str(source),
        sentences=counts.n_sentences,
        words=counts.n_words,
    )
    with atomic_file(output / RUN) as path:
        path.write_text(run.model_dump_json(indent=2) + "\n", encoding="utf-8")


def _vocabulary(
    config: PretrainConfig, counts: Counts, given: Path | None, source: str | Path | None
) -> Vocabulary:
    kept = None if source is None else _fixed_vocabulary(load(source, heads=True))
    if given is not None:
        words = Vocabulary.read(given)
        if not any(word in counts.words for word in words.words if word not in MARKS):
            raise InputError(f"{given}: none of its words is in the corpus; is it the right file?")
        if kept is not None and kept.words != words.words:
            raise ConfigError(
                f"{given}: not the vocabulary of {source}, whose rows are tied to its own words; "
                "leave out --vocabulary."
            )
        return words
    if kept is not None:
        return kept
    wanted = config.vocabulary
    found = Vocabulary.from_counts(
        counts.words, min_count=wanted.min_count, max_size=wanted.max_size
    )
    if len(found) == len(MARKS):
        raise InputError(
            f"No word of the corpus is seen {wanted.min_count} times, so there is nothing to "
            "predict; expected more text, or a lower vocabulary.min_count."
        )
    return found


def _write_start(
    files: list[Path], output: Path, config: PretrainConfig, vocabulary: Vocabulary
) -> None:
    """Counted once, by one process: all processes of a run must begin with the same numbers."""
    torch.manual_seed(config.loop.seed)
    softmax = Softmax(len(vocabulary), config.model.context.dim)
    sentences = (words for path in files for words in read_sentences(path, config.reading))
    start_softmax(softmax, vocabulary, sentences, config.loop.seed)
    with atomic_file(output / START) as path:
        save_file({"weight": softmax.weight.data, "bias": softmax.bias.data}, path)


def _fixed_vocabulary(source: Checkpoint) -> Vocabulary | None:
    """The words that a softmax or a word table has rows for."""
    tied = softmax_of(source) is not None or isinstance(source.reader, WordReader)
    return source.vocabulary if tied else None


def read_run(folder: Path) -> Run:
    path = folder / RUN
    try:
        return Run.model_validate_json(path.read_bytes())
    except OSError as error:
        raise FormatError(f"{path}: cannot be read ({error.strerror}).") from None
    except ValidationError as error:
        raise FormatError(f"{path}: {one_line(error)}.") from None


def _refuse_other_data(
    run: Run,
    corpus: list[str | Path],
    valid: Path | None,
    source: str | Path | None,
    output: Path,
) -> None:
    now = {
        "corpus": [str(path.resolve()) for path in find_files(corpus)],
        "valid": run.valid if valid is None else str(valid.resolve()),
        "source": run.source if source is None else str(source),
    }
    old = {"corpus": run.corpus, "valid": run.valid, "source": run.source}
    if old != now:
        raise ConfigError(
            f"{output / RUN}: {_first_difference(old, now)}; a run is resumed with the text it was "
            "started with."
        )


def _with_new_end(run: Run, config: PretrainConfig, output: Path) -> Run:
    """Resuming may change how long the run goes on, and nothing that made its numbers."""
    old, new = run.config.model_dump(), config.model_dump()
    free = {"steps", "minutes", "log_steps", "checkpoint_minutes", "valid_steps", "keep"}
    for values in (old, new):
        values.pop("epochs")
        values["loop"] = {k: v for k, v in values["loop"].items() if k not in free}
    if old != new:
        name = _first_difference(old, new)
        raise ConfigError(
            f"{output / RUN}: {name} differs from what is asked for now; a run is resumed with "
            "the config it was started with (only its length may change)."
        )
    return run.model_copy(update={"config": config})


def _refuse_other_words(vocabulary: Path | None, output: Path) -> None:
    if vocabulary is None:
        return
    if Vocabulary.read(vocabulary).words != Vocabulary.read(output / VOCABULARY).words:
        raise ConfigError(f"{vocabulary}: not the vocabulary of {output}; leave out --vocabulary.")


def _first_difference(old: Any, new: Any, path: str = "") -> str:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return f"{path} ({json.dumps(old)} there, {json.dumps(new)} now)"
    name = next(k for k in {**old, **new} if old.get(k) != new.get(k))
    return _first_difference(old.get(name), new.get(name), f"{path}.{name}".lstrip("."))


def _ending(run: Run, n_processes: int) -> Any:
    """Epochs as steps."""
    loop, batches = run.config.loop, run.config.batches
    if run.config.epochs is None:
        return loop
    if isinstance(batches, RowsConfig):
        once = (run.words + run.sentences) / (batches.rows * batches.steps)
    else:
        once = (run.words + 2 * run.sentences) / batches.words
    steps = math.ceil(run.config.epochs * once / (n_processes * loop.accumulate))
    return loop.model_copy(update={"steps": min(steps, loop.steps or steps)})


# The objective ------------------------------------------------------------------------------------


def _objective(run: Run, folder: Path, world: World, newest: list[Path]) -> BiLMObjective:
    config, vocabulary = run.config, Vocabulary.read(folder / VOCABULARY)
    torch.manual_seed(config.loop.seed)  # every process begins with the same numbers
    checkpoint, fresh_softmax = _start(run, vocabulary, newest)
    if not bilm_of(checkpoint).has_state and config.batches.kind == "rows":
        raise ConfigError(
            f"{run.source}: a Transformer carries no state; add --set batches.kind=sentences."
        )
    softmax = _softmax(config, checkpoint, len(vocabulary))
    begun = config.softmax_start == "static" and run.source is None
    if softmax_of(checkpoint) is None and begun and (folder / START).exists():
        softmax.load_state_dict(load_file(folder / START))
    model = LanguageModel(bilm_of(checkpoint), softmax, config.output_dropout)
    model = _at_home(model.requires_grad_(True).train().to(world.device()))
    speller = reader_of(bilm_of(checkpoint).config, vocabulary, _dictionary(checkpoint))
    assert speller is not None
    files, seed = [Path(name) for name in run.corpus], config.loop.seed

    def open_stream(direction: Literal["forward", "backward"], start: Position) -> SentenceStream:
        return SentenceStream(
            files,
            config.reading,
            seed=(seed, direction == "backward"),
            rank=world.rank,
            n_ranks=world.size,
            start=start,
        )

    batches: RowBatches | SentenceBatches
    if isinstance(config.batches, RowsConfig):
        batches = RowBatches(open_stream, config.batches, speller, vocabulary)
    else:
        batches = SentenceBatches(open_stream, config.batches, speller, vocabulary, seed)
    valid = _valid(run)
    first = config.softmax_first * config.loop.accumulate if fresh_softmax else 0
    return BiLMObjective(
        model,
        batches,
        vocabulary,
        valid,
        softmax_first=first,
        bf16=_in_bf16(config, world.device().type),
        seed=seed,
        rank=world.rank,
        dictionary=_dictionary(checkpoint),
    )


def _dictionary(checkpoint: Checkpoint) -> DictionaryReader | None:
    return checkpoint.reader if isinstance(checkpoint.reader, DictionaryReader) else None


def _in_bf16(config: PretrainConfig, device: str) -> bool:
    return config.precision == "bfloat16" or (config.precision == "auto" and device == "cuda")


def _at_home(model: LanguageModel) -> LanguageModel:
    """In memory of its own: weights mapped from a file may lie where sums round differently."""
    for p in model.parameters():
        p.data = p.data.clone()
    return model


def _start(run: Run, vocabulary: Vocabulary, newest: list[Path]) -> tuple[Checkpoint, bool]:
    """The run's own weights, a source's, or new ones; and whether a new softmax goes first."""
    if newest:
        found = read_native(newest[0], heads=True)
        if softmax_of(found) is None or found.vocabulary is None:
            raise FormatError(f"{newest[0]}: its softmax or vocabulary is missing; remove it.")
        if found.vocabulary.words != vocabulary.words:
            raise FormatError(
                f"{newest[0]}: its vocabulary is not that of the run; put {VOCABULARY} back."
            )
        return found, False  # how far it has come is restored
    if run.source is None:
        words = run.config.model.words
        if isinstance(words, WordTableConfig) and words.n_words != len(vocabulary):
            raise ConfigError(
                f"model.words.n_words is {words.n_words}, but the vocabulary has "
                f"{len(vocabulary)} words; they must be equal."
            )
        return bilm_checkpoint(BiLM(run.config.model), vocabulary=vocabulary), False
    source = load(run.source, heads=True)
    model = _with_dropout(bilm_of(source), run.config)
    kept = source.heads if source.vocabulary is not None else {}
    return replace(source, model=model, heads=kept), not kept


def _with_dropout(model: BiLM, config: PretrainConfig) -> LayerModel:
    """The source's sizes, the recipe's dropout."""
    context, wanted = model.config.context, config.model.context
    if isinstance(context, LSTMConfig) and isinstance(wanted, LSTMConfig):
        context = context.model_copy(update={"dropout": wanted.dropout})
    new = model.config.model_copy(update={"context": context})
    return build_model(new, model.state_dict(), "source")


def _softmax(
    config: PretrainConfig, checkpoint: Checkpoint, n_words: int
) -> Softmax | AdaptiveSoftmax:
    kept = softmax_of(checkpoint)
    if kept is None:
        return build_softmax(config.softmax, n_words, bilm_of(checkpoint).config.context.dim)
    if isinstance(kept, AdaptiveSoftmax):
        return kept
    if isinstance(config.softmax, AdaptiveSoftmaxConfig):
        raise ConfigError("softmax.kind is adaptive, but the model begun from has a plain softmax.")
    return Softmax.from_linear(kept, samples_of(config.softmax, n_words))


def _valid(run: Run) -> list[Words]:
    """The first `valid_words` words of the validation text, whole sentences, unless they are so
    long that training cuts them too."""
    if run.valid is None:
        return []
    sentences: list[Words] = []
    n_words, batches = 0, run.config.batches
    for words in read_sentences(Path(run.valid), run.config.reading):
        if isinstance(batches, SentencesConfig):
            sentences += pieces([words], batches.max_words)
        else:
            sentences.append(words)
        n_words += len(words)
        if run.config.valid_words is not None and n_words >= run.config.valid_words:
            break
    if not sentences:
        raise InputError(f"{run.valid}: no sentence found; expected one a line.")
    return sentences
