"""`pretrain`: a corpus and a config become a run folder that can be loaded as a model at once. This
file knows the folder, run.json and what a run may be resumed with; objectives know the models.
"""

import ctypes
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path
from typing import Any, Protocol

from elmore.config import load_json
from elmore.errors import ConfigError, FormatError, InputError
from elmore.files.atomic import remove, write_text, writing
from elmore.files.lock import LOCK, Lock
from elmore.files.text_file import find_files
from elmore.pretrain.config import RUN_VERSION, AnyConfig, Asked, Run
from elmore.pretrain.objectives import (
    autoencoder,
    bilm,
    causal,
    context2vec,
    glove,
    masked,
    sgns,
)
from elmore.pretrain.sentences import Counting, Counts, ReadingConfig, count_words
from elmore.pretrain.static_config import GloveConfig, SgnsConfig
from elmore.train.loop import Loop, LoopConfig, Objective, Progress
from elmore.train.precision import measured_note, resolve
from elmore.train.run_folder import Report, RunFolder, checkpoints
from elmore.train.world import World

RUN = "run.json"
_MOST_BYTES = 1 << 26  # of run.json, which names the files of the corpus
_NOT_A_RUN = ("config.json", "log.jsonl", "best", "checkpoints")  # of something else, without RUN
_TRIM_THRESHOLD, _MMAP_MAX, _NEVER = -1, -4, 2**31 - 1  # glibc names of what mallopt sets


class Kind(Protocol):
    """What a file in objectives/ offers."""

    def prepare(
        self, asked: Asked, files: list[Path], counts: Counts, steps: int | None
    ) -> tuple[AnyConfig, list[str]]:
        """Before the first step: check what was given, then write what the run starts from.
        Returns the config with the model that is trained, and what the user should know."""

    def resumed_config(self, run: Run, asked: Asked) -> AnyConfig:
        """What is asked for now, in the terms of the run. Refuses a vocabulary not the run's."""

    def steps_per_epoch(self, run: Run) -> float: ...

    def build(self, run: Run, folder: Path, world: World, newest: Path | None) -> "Trained":
        """From the newest checkpoint if there is one."""


class Trained(Objective, Protocol):
    """An objective that can say what it has left out so far."""

    def untrained(self) -> str | None:
        """Which part of the model has not been trained yet; None if all of it has."""


def kind_of(config: AnyConfig) -> Kind:
    match config.kind:
        case "bilm":
            return bilm
        case "masked":
            return masked
        case "causal":
            return causal
        case "autoencoder":
            return autoencoder
        case "sgns":
            return sgns
        case "glove":
            return glove
        case "context2vec":
            return context2vec


def pretrain(
    corpus: Iterable[str | Path],
    output: str | Path,
    config: AnyConfig,
    *,
    valid: str | Path | None = None,
    vocabulary: str | Path | None = None,
    source: str | Path | None = None,
    resume: bool = False,
    report: Report | None = None,
    counting: Counting | None = None,
    tell: Callable[[str], None] | None = None,
) -> Progress:
    """Train until the config's end. With `resume`, continue the run in `output`. `tell` is given
    what the user should know about the run, line by line; it is in run.json and in the log too."""
    output = Path(output)
    asked = Asked(
        corpus=list(corpus),
        output=output,
        config=config,
        valid=None if valid is None else Path(valid),
        vocabulary=None if vocabulary is None else Path(vocabulary),
        source=None if source is None else str(source),
        counting=counting,
    )
    _refuse_other_folders(output)
    keep_large_blocks()
    world = World()
    with closing(world), _locked(output) if world.first else nullcontext():
        resuming = resume and bool(checkpoints(output))
        if not resuming and world.first:
            if (output / RUN).exists() and not resume:
                raise InputError(f"{output} holds a run already; add --resume, or remove it.")
            _prepare(asked, world)
        world.wait()
        run, kind = _with_old_precision(read_run(output), world), kind_of(config)
        if resuming:
            _refuse_other_data(run, asked)
            run = _with_new_end(run, kind.resumed_config(run, asked), output)
        newest = checkpoints(output)[-1] if resuming else None
        objective = kind.build(run, output, world, newest)
        recorder = RunFolder(output, keep=run.config.loop.keep, report=report, notes=run.notes)
        loop = Loop(objective, ending(run, world.size), recorder, world)
        if resuming:
            loop.resume()
        if world.first and tell is not None:
            for note in run.notes:
                tell(note)
        progress = loop.run()
        untrained = objective.untrained()
        if world.first and progress.fraction >= 1 and untrained:
            recorder.note(progress.step, f"The run has ended, but {untrained}.")
            warn = tell or warnings.warn
            warn(f"{output}: the run has ended, but {untrained}; resume it with more steps.")
        return progress


def ending(run: Run, n_processes: int) -> LoopConfig:
    """Epochs as steps."""
    config, loop = run.config, run.config.loop
    if config.epochs is None:
        return loop
    once = kind_of(config).steps_per_epoch(run)
    steps = math.ceil(config.epochs * once / (n_processes * loop.accumulate))
    return loop.model_copy(update={"steps": min(steps, loop.steps or steps)})


def keep_large_blocks() -> None:
    """Have glibc reuse large blocks. By default it hands those over 32 MB back to the system at
    once, and a training step, which asks for the same ones every time, spends a quarter of its time
    on page faults. Elsewhere than on glibc this does nothing."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, _NEVER)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """No other process trains in the folder. A new folder in which no run has begun is removed."""
    new = not folder.exists()
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    with Lock(folder):
        try:
            yield
        finally:
            if new and [path.name for path in folder.iterdir()] == [LOCK]:
                remove(folder)


# Before the first step ----------------------------------------------------------------------------


def _refuse_other_folders(output: Path) -> None:
    for name in _NOT_A_RUN:
        if (output / name).exists() and not (output / RUN).exists():
            raise InputError(f"{output}: holds {name}, but no run; choose another --output.")


def _prepare(asked: Asked, world: World) -> None:
    files, config = find_files(asked.corpus), asked.config
    if asked.valid is not None:
        find_files([asked.valid])
    elif config.loop.patience is not None or config.loop.schedule.kind == "plateau":
        raise ConfigError(
            "loop.patience and a plateau schedule follow the validation, and there is none; add "
            "--valid TEXT."
        )
    counts = count_words(files, config.reading, asked.counting)
    run = Run(
        version=RUN_VERSION,
        config=config,
        corpus=[str(path.resolve()) for path in files],
        valid=None if asked.valid is None else str(asked.valid.resolve()),
        source=asked.source,
        sentences=counts.n_sentences,
        words=counts.n_words,
    )
    steps = ending(run, world.size).steps
    config, notes = kind_of(config).prepare(asked, files, counts, steps)
    config, more = _with_precision(config, world)
    notes += more
    run = run.model_copy(update={"config": config, "notes": tuple(notes)})
    write_text(asked.output / RUN, run.model_dump_json(indent=2) + "\n")


def _with_precision(config: AnyConfig, world: World) -> tuple[AnyConfig, list[str]]:
    """`auto` is decided here, for all processes and for every resumption: run.json keeps it."""
    if isinstance(config, SgnsConfig | GloveConfig) or config.precision != "auto":
        return config, []
    device = world.device()
    chosen = resolve("auto", device, config.model.dim)
    measured = chosen == "bfloat16" and device.type == "cpu"
    notes = [measured_note()] if measured else []
    return config.model_copy(update={"precision": chosen}), notes


# Resuming -----------------------------------------------------------------------------------------


def read_run(folder: Path) -> Run:
    path = folder / RUN
    if path.exists() and not (path.is_file() and path.stat().st_size <= _MOST_BYTES):
        raise FormatError(f"{path}: not a file of at most {_MOST_BYTES:,} bytes; not a run.")
    return load_json(path, Run)


def _with_old_precision(run: Run, world: World) -> Run:
    """A run of a version that kept `auto` in run.json goes on as it was begun: it was bfloat16 on a
    GPU and float32 elsewhere."""
    config = run.config
    if isinstance(config, SgnsConfig | GloveConfig) or config.precision != "auto":
        return run
    was = "bfloat16" if world.device().type == "cuda" else "float32"
    return run.model_copy(update={"config": config.model_copy(update={"precision": was})})


def _refuse_other_data(run: Run, asked: Asked) -> None:
    now = {
        "corpus": [str(path.resolve()) for path in find_files(asked.corpus)],
        "valid": run.valid if asked.valid is None else str(asked.valid.resolve()),
        "source": run.source if asked.source is None else asked.source,
    }
    old = {"corpus": run.corpus, "valid": run.valid, "source": run.source}
    if old != now:
        raise ConfigError(
            f"{asked.output / RUN}: {_first_difference(old, now)}; a run is resumed with the text "
            "it was started with."
        )


def _with_new_end(run: Run, config: AnyConfig, output: Path) -> Run:
    """Resuming may change the length of a run, and nothing that its numbers depend on."""
    old, new = run.config.model_dump(), config.model_dump()
    free = {"steps", "minutes", "patience"}
    free |= {"log_steps", "checkpoint_minutes", "valid_steps", "keep"}
    for name, field in ReadingConfig.model_fields.items():
        if name in ("lines", "longest", "as_is") and new["reading"][name] == field.default:
            new["reading"][name] = old["reading"][name]  # not asked for: the run's own
    if new.get("precision") == "auto":
        new["precision"] = old["precision"]
    for values in (old, new):
        values.pop("epochs")
        values["loop"] = {k: v for k, v in values["loop"].items() if k not in free}
    if old != new:
        name = _first_difference(old, new)
        raise ConfigError(
            f"{output / RUN}: {name} differs from what is asked for now; a run is resumed with "
            "the config it was started with (only its length may change)."
        )
    names = [name for name in ("reading", "precision") if name in old]
    own: dict[str, Any] = {name: getattr(run.config, name) for name in names}
    return run.model_copy(update={"config": config.model_copy(update=own)})


def _first_difference(old: Any, new: Any, path: str = "") -> str:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return f"{path} ({json.dumps(old)} there, {json.dumps(new)} now)"
    name = next(k for k in {**old, **new} if old.get(k) != new.get(k))
    return _first_difference(old.get(name), new.get(name), f"{path}.{name}".lstrip("."))
