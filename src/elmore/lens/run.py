"""`learn_lens`: a model and a text become a lens, in the model's own folder or in a copy of it. A
run that is stopped, or killed, is continued by the same call with the same result.
"""

import shutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from elmore.checkpoint.bert_config import AS_THE_FILES_SAY, WordOptions
from elmore.checkpoint.companions import HDF5_ENDINGS
from elmore.checkpoint.lens import FILE, write_lens
from elmore.checkpoint.source_names import exists, is_remote, shipped_names
from elmore.checkpoint.sources import WITH_LENS, find_source, load, save
from elmore.config import load_json
from elmore.embedder import Embedder
from elmore.embedding import Layers, layer_choice
from elmore.errors import ConfigError, InputError
from elmore.files.atomic import write_text, writing
from elmore.files.lock import Lock
from elmore.files.sentence_files import SentenceFiles
from elmore.files.text_file import find_files
from elmore.lens.config import LensConfig, LensRun
from elmore.lens.nearby_pairs import PredictedWords
from elmore.lens.objective import LensObjective
from elmore.lens.sample import SampleWatch, Words, draw, from_file, to_text
from elmore.models.lens import Lens
from elmore.train.loop import Loop, Progress
from elmore.train.run_folder import Report, RunFolder, checkpoints
from elmore.train.world import World

RUN, SAMPLE = "run.json", "sample.jsonl"


@dataclass(frozen=True, slots=True)
class LensReport:
    """What was learned; `lens` is None if the run was stopped."""

    lens: Lens | None
    target: Path
    progress: Progress
    words: int
    """Of the sample."""


def learn_lens(
    source: str | Path,
    corpus: Iterable[str | Path],
    output: str | Path | None = None,
    config: LensConfig | None = None,
    *,
    options: str | Path | None = None,
    word_options: WordOptions = AS_THE_FILES_SAY,
    report: Report | None = None,
    sampling: SampleWatch = lambda _: None,
) -> LensReport:
    """Without `output` the lens is written into the model's own folder; with it, the model and its
    lens are written to this new folder. The same call continues a stopped run."""
    config = config or LensConfig()
    files = find_files(list(corpus))
    target = _in_place(source) if output is None else _new_place(Path(output))
    folder = target.with_name(f"{target.name}.partial")
    checkpoint = load(source, options=options, words=word_options)
    embedder = Embedder(checkpoint, device="cpu")
    numbers = _numbers(config.layers, embedder.n_layers)
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with Lock(folder):
        run = LensRun(
            fingerprint=embedder.fingerprint,
            corpus=[str(path.resolve()) for path in files],
            config=config,
        )
        sentences = _sample(folder, run, files, sampling)
        words = sum(map(len, sentences))
        known = PredictedWords.counted(sentences, config)
        if len(known.numbers) < 2:
            raise InputError(
                f"The text has {len(known.numbers)} words that occur {config.min_count} times or "
                "more; expected at least 2: give more text, or --set min_count=1."
            )
        objective = LensObjective(embedder, sentences, known, numbers, config)
        steps = config.loop.model_copy(update={"steps": objective.n_batches, "minutes": None})
        recorder = RunFolder(folder, keep=1, report=report, board=False)
        loop = Loop(objective, steps, recorder, World(alone=True))
        if done := checkpoints(folder):
            objective.load(done[-1])
            loop.resume()
        progress = loop.run()
        if progress.interrupted:
            return LensReport(None, target, progress, words)
        names = ", ".join(path.name for path in files[:3]) + (", …" if len(files) > 3 else "")
        lens = objective.map.lens(numbers, f"learned from {words:,} words of {names}")
        if output is None:
            write_lens(lens, target.parents[1])
        else:
            whole = load(source, options=options, heads=True, words=word_options)
            save(replace(whole, lens=lens), target)
    shutil.rmtree(folder)
    return LensReport(lens, target, progress, words)


def _in_place(source: str | Path) -> Path:
    """The file of the lens in the model's own folder, or an error that asks for `output`."""
    if str(source) in shipped_names():
        raise ConfigError(f"{source} is part of elmore; write it and its lens elsewhere: --output.")
    here = exists(Path(source)) or not is_remote(str(source))  # otherwise it would be downloaded
    found = find_source(source) if here else None
    if found is None or found.format not in WITH_LENS or found.path != Path(source):
        raise ConfigError(
            f"{source}: only a folder of elmore's own or of Hugging Face's BERT can get a lens in "
            "its place; write the model and its lens to a new folder: --output."
        )
    target = found.path / FILE
    if target.exists():
        raise InputError(f"{target} exists already; remove it to learn another lens.")
    return target


def _new_place(output: Path) -> Path:
    """Where the model and its lens can be written, or an error before minutes are spent."""
    if output.exists():
        raise InputError(f"{output} exists already; remove it or choose another name.")
    if output.suffix in HDF5_ENDINGS:
        raise ConfigError(f"{output}: HDF5 has no place for a lens; expected a new folder.")
    return output


def _numbers(asked: str, n_layers: int) -> tuple[int, ...]:
    choice = layer_choice(asked, n_layers)
    if not isinstance(choice, Layers) or len(set(choice.numbers)) < len(choice.numbers):
        raise ConfigError(f"layers is {asked!r}; expected top, all, or numbers such as 4,5,6.")
    return choice.numbers


def _sample(folder: Path, run: LensRun, files: list[Path], watch: SampleWatch) -> list[Words]:
    """Drawn once; a run that is continued reads what was drawn."""
    if (folder / RUN).exists():
        _check_same(folder, run)
    if (folder / SAMPLE).exists():
        return from_file(folder / SAMPLE)
    reading = run.config.reading
    text = SentenceFiles(
        files,
        reading.tokenize,
        reading.errors,
        lines=reading.lines,
        as_is=reading.as_is,
        longest=reading.longest,
    )
    sentences = draw(text, run.config.words, run.config.loop.seed, watch)
    write_text(folder / RUN, run.model_dump_json(indent=2) + "\n")
    write_text(folder / SAMPLE, to_text(sentences))
    return sentences


def _check_same(folder: Path, run: LensRun) -> None:
    before = load_json(folder / RUN, LensRun)
    for name in ("fingerprint", "corpus", "config"):
        if getattr(before, name) != getattr(run, name):
            raise InputError(
                f"{folder}: a stopped run with another {name.replace('fingerprint', 'model')}; "
                "continue it with the same, or remove it to start again."
            )
