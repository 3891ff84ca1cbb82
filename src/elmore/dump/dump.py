"""The vectors of every line of a text, in one file that is there whole or not at all.
The layouts are AllenNLP's, so that what read its `elmo` output reads this.
"""

import sys
import zipfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from elmore.dump.config import STDOUT, DumpConfig, check_target
from elmore.dump.lines import LineReader, SentenceMap, Window, embedded
from elmore.dump.resumable import Parts, RunSettings
from elmore.dump.writers import DumpWriter, Hdf5Writer, JsonlWriter, NpzWriter, Tally
from elmore.embedder import Embedder
from elmore.embedding import layer_choice
from elmore.files.atomic import atomic_file
from elmore.files.hdf5_file import hdf5_file
from elmore.files.stop_signals import StopSignals


@dataclass(slots=True)
class DumpProgress:
    """How far a dump has come."""

    lines: int = 0
    words: int = 0
    bytes: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class DumpReport:
    """What a dump did. `lines` is everything, blank and repeated lines included."""

    lines: int
    words: int
    blank: int
    repeated: int
    seconds: float
    map_left_out: bool = False
    lines_before: int = 0
    """Found finished by a resumed run."""
    words_before: int = 0

    @property
    def words_per_second(self) -> float:
        return (self.words - self.words_before) / max(self.seconds, 1e-9)


def dump(
    embedder: Embedder,
    lines: Iterable[str],
    target: str | Path,
    config: DumpConfig,
    *,
    progress: Callable[[DumpProgress], None] = lambda _: None,
) -> DumpReport:
    """Embed `lines`, one sentence each, into `target`; `-` is standard output.

    Memory does not grow with the input. `progress` is called after every window of it.
    """
    target, begin = Path(target), monotonic()
    check_target(target, config)
    layer_choice(config.layers, embedder.n_layers)  # refused now, not when the work has begun
    reader = LineReader(lines)
    sentence_map = SentenceMap(wanted=config.has_map)
    windows = _watched(embedded(embedder, reader, config), reader, progress)
    with StopSignals() as stop:
        if config.in_parts:
            parts = Parts(target, RunSettings.of(embedder, config), config.part_seconds, stop)
            return _dump_parts(parts, reader, windows, sentence_map, begin)
        with stop.allowed():
            return _dump_whole(target, config, windows, sentence_map, begin)


def _watched(
    windows: Iterator[Window], reader: LineReader, progress: Callable[[DumpProgress], None]
) -> Iterator[Window]:
    words = 0
    for window in windows:
        words += sum(len(item.words) for item in window.items)
        progress(DumpProgress(reader.lines, words, reader.bytes))
        yield window


def _dump_parts(
    parts: Parts,
    reader: LineReader,
    windows: Iterator[Window],
    sentence_map: SentenceMap,
    begin: float,
) -> DumpReport:
    parts.open(reader, sentence_map)
    before = list(parts.records)
    parts.write(windows, sentence_map)
    records = parts.records
    return DumpReport(
        lines=parts.lines,
        words=sum(r.words for r in records),
        blank=sum(r.blank for r in records),
        repeated=sum(r.repeated for r in records),
        seconds=monotonic() - begin,
        map_left_out=sentence_map.left_out,
        lines_before=before[-1].lines if before else 0,
        words_before=sum(r.words for r in before),
    )


def _dump_whole(
    target: Path,
    config: DumpConfig,
    windows: Iterator[Window],
    sentence_map: SentenceMap,
    begin: float,
) -> DumpReport:
    tally, n_lines = Tally(), 0
    with _writer(target, config) as writer:
        for window in windows:
            tally.add(window, writer, sentence_map)
            n_lines = window.lines
        writer.finish(sentence_map.text())
    return DumpReport(
        lines=n_lines,
        words=tally.words,
        blank=tally.blank,
        repeated=tally.repeated,
        seconds=monotonic() - begin,
        map_left_out=sentence_map.left_out,
    )


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
