"""Write the vectors of every line of a text to one file, which is complete or absent. The layouts
are AllenNLP's: programs that read the output of its `elmo` command can read this.
"""

import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from time import monotonic

from elmore.dump.config import STDOUT, DumpConfig, target_lock
from elmore.dump.lines import LineReader, SentenceMap, Window, embedded
from elmore.dump.resumable import Parts, RunSettings
from elmore.dump.writers import DumpWriter, Hdf5Writer, JsonlWriter, NpzWriter, Tally
from elmore.embedder import Embedder
from elmore.embedding import layer_choice
from elmore.files.atomic import atomic_file
from elmore.files.hdf5_file import hdf5_file
from elmore.files.sentence_files import TextSentence
from elmore.files.stop_signals import StopSignals


@dataclass(slots=True)
class DumpProgress:
    """The progress of a dump."""

    lines: int = 0
    words: int = 0
    bytes: int = 0


@dataclass(kw_only=True, slots=True)
class DumpReport(Tally):
    """The result of a dump. `lines` includes blank and repeated lines."""

    seconds: float
    map_left_out: bool = False
    lines_before: int = 0
    """Lines that an earlier run had finished."""
    words_before: int = 0

    @property
    def words_per_second(self) -> float:
        return (self.words - self.words_before) / max(self.seconds, 1e-9)


def dump(
    embedder: Embedder,
    lines: Iterable[str | TextSentence],
    target: str | Path,
    config: DumpConfig,
    *,
    progress: Callable[[DumpProgress], None] = lambda _: None,
) -> DumpReport:
    """Embed `lines`, one sentence each, into `target`; `-` is standard output.

    Memory does not grow with the input. `progress` is called after every window of lines.
    """
    target, begin = Path(target), monotonic()
    # an error now, not after the work has begun
    layer_choice(config.layers, embedder.n_layers, lens=embedder.lens)
    reader, before = LineReader(lines), Tally()
    sentence_map = SentenceMap(wanted=config.has_map)
    windows = _watched(embedded(embedder, reader, config), progress)
    with target_lock(target, config), StopSignals() as stop:
        if config.in_parts:
            parts = Parts(target, RunSettings.of(embedder, config), config.part_seconds, stop)
            parts.open(reader, sentence_map)
            before = parts.tally
            parts.write(windows, sentence_map)
            done = parts.tally
        else:
            done = Tally()
            with stop.allowed(), _writer(target, config) as writer:
                for window in windows:
                    done.add(window, writer, sentence_map)
                writer.finish(sentence_map.text())
    return DumpReport(
        **asdict(done),
        seconds=monotonic() - begin,
        map_left_out=sentence_map.left_out,
        lines_before=before.lines,
        words_before=before.words,
    )


def _watched(
    windows: Iterator[Window], progress: Callable[[DumpProgress], None]
) -> Iterator[Window]:
    words = 0
    for window in windows:
        words += sum(len(item.words) for item in window.items)
        progress(DumpProgress(window.lines, words, window.bytes))
        yield window


@contextmanager
def _writer(target: Path, config: DumpConfig) -> Iterator[DumpWriter]:
    if str(target) == STDOUT:
        yield JsonlWriter(sys.stdout.buffer)
        return
    with atomic_file(target) as path:
        match config.format:
            case "hdf5":
                with hdf5_file(path) as (file, disk):
                    yield Hdf5Writer(file, disk, config.use_sentence_keys)
            case "npz":
                with zipfile.ZipFile(path, "w") as archive:
                    yield NpzWriter(archive, config.use_sentence_keys)
            case "jsonl":
                with path.open("wb") as plain:
                    yield JsonlWriter(plain)
