"""HDF5 dumps that survive `kill -9`. An unfinished HDF5 file does not, so a folder of finished
parts is written; at the end they become one file. A resumed run continues after the last part, if
the text, the model and the settings are the same.
"""

import hashlib
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from time import monotonic

import h5py
from pydantic import ValidationError

from elmore.config import Frozen, load_json
from elmore.dump.config import DumpConfig, partial_folder
from elmore.dump.lines import LineReader, SentenceMap, Window
from elmore.dump.writers import Hdf5Writer, Tally
from elmore.embedder import Embedder
from elmore.embedding import need_lens
from elmore.errors import FormatError, InputError
from elmore.files.atomic import atomic_file, sweep, write_text, writing
from elmore.files.hdf5_file import hdf5_file
from elmore.files.sentence_files import Lines
from elmore.files.stop_signals import StopSignals
from elmore.models.lens import MEANING

RUN = "run.json"
RECORD = "elmore"  # the attribute of a part, and of the finished file


class RunSettings(Frozen):
    """What must not change when a run is resumed."""

    precision: str = "float32"
    """Before the fingerprint, which depends on it: errors name the first difference."""
    fingerprint: str
    layers: str
    batch_words: int
    forget_sentences: bool
    use_sentence_keys: bool
    tokenize: bool
    lines: Lines = "sentence"
    longest: int | None = None

    @classmethod
    def of(cls, embedder: Embedder, config: DumpConfig) -> "RunSettings":
        seen = embedder.fingerprint
        if config.layers == MEANING:
            both = f"{seen} {need_lens(embedder.lens).digest}"
            seen = hashlib.sha256(both.encode()).hexdigest()
        return cls(
            fingerprint=seen,
            precision=embedder.precision,
            **config.model_dump(include=set(cls.model_fields) - {"fingerprint", "precision"}),
        )


def started_with(target: Path) -> RunSettings | None:
    """The settings of an unfinished or finished run that is to be resumed, if there is one."""
    if target.is_file():
        return _read_record(target).run
    file = partial_folder(target) / RUN
    return _read_run(file) if file.exists() else None


class PartRecord(Frozen):
    """A part: the lines from `first` up to but not including `lines`, and their counts."""

    run: RunSettings
    first: int
    lines: int
    sha256: str
    """Of the whole input up to `lines`."""
    words: int = 0
    blank: int = 0
    repeated: int = 0
    complete: bool = False
    """The input ends here."""


class Parts:
    """The finished parts of a target, and the part that is being written."""

    def __init__(self, target: Path, run: RunSettings, seconds: float, stop: StopSignals):
        self.target, self.run, self.seconds, self.stop = target, run, seconds, stop
        self.folder = partial_folder(target)
        self.records: list[PartRecord] = []

    @property
    def lines(self) -> int:
        return self.records[-1].lines if self.records else 0

    @property
    def complete(self) -> bool:
        return bool(self.records) and self.records[-1].complete

    @property
    def tally(self) -> Tally:
        """The counts of all finished parts."""
        names = ("words", "blank", "repeated")
        return Tally(self.lines, *(sum(getattr(r, name) for r in self.records) for name in names))

    def open(self, reader: LineReader, sentence_map: SentenceMap) -> None:
        """Find what an earlier run finished and read its lines again, or begin."""
        if self.target.exists():
            self.records = [_read_record(self.target)]
        elif self.folder.exists():
            sweep(self.folder)
            self.records = [_read_record(path) for path in self._paths()]
        self._check_settings()
        self._check_input(reader, sentence_map)
        if not self.complete:
            with writing(self.folder):
                self.folder.mkdir(exist_ok=True)
            write_text(self.folder / RUN, self.run.model_dump_json(indent=2) + "\n")

    def write(self, windows: Iterator[Window], sentence_map: SentenceMap) -> None:
        """One part after another until the input ends; if it stops, finished parts are kept."""
        try:
            while not self.complete:
                self._write_part(windows, sentence_map)
            self._close()
        except BaseException as error:
            if self.records:
                error.add_note(
                    f"The first {self.lines:,} lines are kept in {self.folder}: "
                    "continue with --resume."
                )
            else:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def _close(self) -> None:
        """Make one file of the parts and remove the folder."""
        paths = self._paths()
        if not self.target.exists() and len(paths) == 1:
            with writing(self.target):
                paths[0].replace(self.target)
        elif not self.target.exists():
            with self.stop.allowed():
                self._merge(paths)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.hdf5"))

    # Resuming -----------------------------------------------------------------------------------

    def _check_settings(self) -> None:
        earlier = [record.run for record in self.records]
        file = self.folder / RUN
        if not earlier and file.exists():
            earlier = [_read_run(file)]
        for run in earlier:
            for name in RunSettings.model_fields:
                before, now = getattr(run, name), getattr(self.run, name)
                if before != now:
                    where = self.target if self.target.exists() else self.folder
                    raise InputError(
                        f"{where}: {_difference(name, before, now)} Resume with the same settings, "
                        "or remove it to start again."
                    )

    def _check_input(self, reader: LineReader, sentence_map: SentenceMap) -> None:
        for record in self.records:
            if record.first != reader.lines:
                raise FormatError(
                    f"{self.folder}: a part begins at line {record.first + 1:,}, expected "
                    f"{reader.lines + 1:,}; parts are missing. Remove the folder to start again."
                )
            with self.stop.allowed():
                while reader.lines < record.lines and (line := reader.read()) is not None:
                    sentence_map.add(line.strip(), reader.lines - 1)
            if (reader.lines, reader.sha256) != (record.lines, record.sha256):
                raise InputError(
                    f"The input differs from the text that {self.target.name} was started with, in "
                    f"lines {record.first + 1:,} to {record.lines:,}. Resume with the same text, "
                    f"or remove {self.folder.name} to start again."
                )
        if self.complete and reader.read() is not None:
            raise InputError(
                f"The input has more than the {self.lines:,} lines that {self.target.name} was "
                "made from. Resume with the same text, or choose another name."
            )

    # Writing ------------------------------------------------------------------------------------

    def _write_part(self, windows: Iterator[Window], sentence_map: SentenceMap) -> None:
        """One part; it ends when its time is over, the input ends, or the run is stopped."""
        path = self.folder / f"{len(self.records):08}.hdf5"
        with atomic_file(path) as beside, hdf5_file(beside) as (file, disk):
            writer = Hdf5Writer(file, disk, self.run.use_sentence_keys)
            record, stopped = self._fill(writer, windows, sentence_map)
            if stopped is not None and record.lines == record.first:
                raise stopped
            file.attrs[RECORD] = record.model_dump_json()
        self.records.append(record)
        if stopped is not None:
            raise stopped

    def _fill(
        self, writer: Hdf5Writer, windows: Iterator[Window], sentence_map: SentenceMap
    ) -> tuple[PartRecord, BaseException | None]:
        deadline = monotonic() + self.seconds
        tally, complete, stopped = Tally(self.lines), False, None
        sha256 = self.records[-1].sha256 if self.records else LineReader([]).sha256
        while not complete:
            try:
                with self.stop.allowed():
                    window = next(windows, None)
            except BaseException as error:
                stopped = error
                break
            if window is None:
                complete = True
                writer.finish(sentence_map.text())
            else:
                tally.add(window, writer, sentence_map)
                sha256 = window.sha256
                if monotonic() >= deadline:
                    break
        counts = asdict(tally)
        record = PartRecord(
            run=self.run, first=self.lines, sha256=sha256, complete=complete, **counts
        )
        return record, stopped

    def _merge(self, paths: list[Path]) -> None:
        if [_read_record(path) for path in paths] != self.records:
            raise InputError(f"{self.folder}: another run has written to it at the same time.")
        tally = self.tally
        with atomic_file(self.target) as beside, hdf5_file(beside) as (out, disk):
            for path in paths:
                with h5py.File(path, "r") as part:
                    for name in part:
                        if name in out:
                            tally.repeated += 1
                        else:
                            part.copy(name, out)
                        disk.check()
            whole = self.records[-1].model_copy(update={"first": 0, **asdict(tally)})
            out.attrs[RECORD] = whole.model_dump_json()
        self.records = [whole]


def _read_record(path: Path) -> PartRecord:
    try:
        with h5py.File(path, "r") as file:
            text = file.attrs.get(RECORD)
        return PartRecord.model_validate_json(text if isinstance(text, str) else "")
    except OSError as error:
        raise FormatError(f"{path}: not a readable HDF5 file ({error}); remove it.") from None
    except ValidationError:
        raise FormatError(
            f"{path}: not written by a dump that can be resumed; remove it or choose another name."
        ) from None


def _read_run(path: Path) -> RunSettings:
    try:
        return load_json(path, RunSettings)
    except FormatError:
        raise FormatError(
            f"{path}: cannot be read; remove {path.parent.name} to start again."
        ) from None


def _difference(name: str, before: object, now: object) -> str:
    if name == "fingerprint":
        return f"the model has changed ({str(before)[:12]}, now {str(now)[:12]})."
    return f"{name} was {before!r} and is now {now!r}."
