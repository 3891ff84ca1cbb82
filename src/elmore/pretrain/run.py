"""`pretrain`: a corpus and a config become a run folder that can be loaded as a model at once. This
file knows the folder, run.json and what a run may be resumed with; objectives know the models.
"""

import ctypes
import json
import math
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Protocol

from elmore.config import load_json
from elmore.errors import ConfigError, InputError
from elmore.files.atomic import write_text
from elmore.files.text_file import find_files
from elmore.pretrain.config import Asked, PretrainConfig, Run
from elmore.pretrain.objectives import bilm
from elmore.pretrain.sentences import Counting, Counts, ReadingConfig, count_words
from elmore.train.loop import Loop, LoopConfig, Objective, Progress
from elmore.train.run_folder import Report, RunFolder, checkpoints
from elmore.train.world import World

RUN = "run.json"
_NOT_A_RUN = ("config.json", "log.jsonl", "best", "checkpoints")  # of something else, without RUN
_TRIM_THRESHOLD, _MMAP_MAX, _NEVER = -1, -4, 2**31 - 1  # glibc names of what mallopt sets


class Kind(Protocol):
    """What a file in objectives/ offers."""

    def prepare(self, asked: Asked, files: list[Path], counts: Counts) -> None:
        """Before the first step: check what was given, then write what the run starts from."""

    def check_resumed(self, asked: Asked) -> None:
        """Refuse a vocabulary that is not the run's."""

    def steps_per_epoch(self, run: Run) -> float: ...

    def build(self, run: Run, folder: Path, world: World, newest: Path | None) -> Objective:
        """From the newest checkpoint if there is one."""


def _kind(config: PretrainConfig) -> Kind:
    match config.kind:
        case "bilm":
            return bilm


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
    """Train until the config's end. With `resume`, continue the run in `output`."""
    output = Path(output)
    asked = Asked(
        corpus=list(corpus),
        output=output,
        config=config,
        valid=None if valid is None else Path(valid),
        vocabulary=None if vocabulary is None else Path(vocabulary),
        source=None if source is None else str(source),
    )
    _keep_large_blocks()
    world = World()
    try:
        resuming = resume and bool(checkpoints(output))
        if not resuming and world.first:
            _refuse_other_folders(output, resume)
            _prepare(asked, counting)
        world.wait()
        run, kind = read_run(output), _kind(config)
        if resuming:
            _refuse_other_data(run, asked)
            run = _with_new_end(run, config, output)
            kind.check_resumed(asked)
        newest = checkpoints(output)[-1] if resuming else None
        objective = kind.build(run, output, world, newest)
        recorder = RunFolder(output, keep=run.config.loop.keep, report=report)
        loop = Loop(objective, ending(run, world.size), recorder, world)
        if resuming:
            loop.resume()
        return loop.run()
    finally:
        world.close()


def ending(run: Run, n_processes: int) -> LoopConfig:
    """Epochs as steps."""
    config, loop = run.config, run.config.loop
    if config.epochs is None:
        return loop
    once = _kind(config).steps_per_epoch(run)
    steps = math.ceil(config.epochs * once / (n_processes * loop.accumulate))
    return loop.model_copy(update={"steps": min(steps, loop.steps or steps)})


def _keep_large_blocks() -> None:
    """Have glibc reuse large blocks. By default it hands those over 32 MB back to the system at
    once, and a training step, which asks for the same ones every time, spends a quarter of its time
    on page faults. Elsewhere than on glibc this does nothing."""
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_MAX, 0)
        mallopt(_TRIM_THRESHOLD, _NEVER)


# Before the first step ----------------------------------------------------------------------------


def _refuse_other_folders(output: Path, resume: bool) -> None:
    if (output / RUN).exists():
        if not resume:
            raise InputError(f"{output} holds a run already; add --resume, or remove it.")
        return
    for name in _NOT_A_RUN:
        if (output / name).exists():
            raise InputError(f"{output}: holds {name}, but no run; choose another --output.")


def _prepare(asked: Asked, counting: Counting | None) -> None:
    files = find_files(asked.corpus)
    if asked.valid is not None:
        find_files([asked.valid])
    counts = count_words(files, asked.config.reading, counting)
    _kind(asked.config).prepare(asked, files, counts)
    run = Run(
        config=asked.config,
        corpus=[str(path.resolve()) for path in files],
        valid=None if asked.valid is None else str(asked.valid.resolve()),
        source=asked.source,
        sentences=counts.n_sentences,
        words=counts.n_words,
    )
    write_text(asked.output / RUN, run.model_dump_json(indent=2) + "\n")


# Resuming -----------------------------------------------------------------------------------------


def read_run(folder: Path) -> Run:
    return load_json(folder / RUN, Run)


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


def _with_new_end(run: Run, config: PretrainConfig, output: Path) -> Run:
    """Resuming may change the length of a run, and nothing that its numbers depend on."""
    old, new = run.config.model_dump(), config.model_dump()
    free = {"steps", "minutes", "patience"}
    free |= {"log_steps", "checkpoint_minutes", "valid_steps", "keep"}
    for name, field in ReadingConfig.model_fields.items():
        if name in ("lines", "longest", "as_is") and new["reading"][name] == field.default:
            new["reading"][name] = old["reading"][name]  # not asked for: the run's own
    for values in (old, new):
        values.pop("epochs")
        values["loop"] = {k: v for k, v in values["loop"].items() if k not in free}
    if old != new:
        name = _first_difference(old, new)
        raise ConfigError(
            f"{output / RUN}: {name} differs from what is asked for now; a run is resumed with "
            "the config it was started with (only its length may change)."
        )
    reading = run.config.reading
    return run.model_copy(update={"config": config.model_copy(update={"reading": reading})})


def _first_difference(old: Any, new: Any, path: str = "") -> str:
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return f"{path} ({json.dumps(old)} there, {json.dumps(new)} now)"
    name = next(k for k in {**old, **new} if old.get(k) != new.get(k))
    return _first_difference(old.get(name), new.get(name), f"{path}.{name}".lstrip("."))
