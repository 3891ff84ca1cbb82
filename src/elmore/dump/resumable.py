"""HDF5 that survives `kill -9`. A file being written does not, so the work goes into a folder of
finished parts; at the end they become one file. A resumed run goes on after the last of them, once
the text, the model and the settings have proved to be the same.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import h5py
from pydantic import ValidationError

from elmore.config import Frozen
from elmore.dump.config import DumpConfig, partial_folder
from elmore.dump.lines import LineReader, SentenceMap, Window
from elmore.dump.writers import Hdf5Writer, Tally
from elmore.embedder import Embedder
from elmore.errors import FormatError, InputError
from elmore.files.atomic import atomic_file, cannot_write
from elmore.files.hdf5_file import hdf5_file
from elmore.files.stop_signals import StopSignals

RUN = "run.json"
RECORD = "elmore"  # the attribute of a part, and of the finished file


class RunSettings(Frozen):
    """What must not change between a run and its resumption."""

    precision: str = "float32"
    """Before the fingerprint, which it changes: the first difference is the one that is told."""
    fingerprint: str
    layers: str
    batch_words: int
    forget_sentences: bool
    use_sentence_keys: bool
    tokenize: bool

    @classmethod
    def of(cls, embedder: Embedder, config: DumpConfig) -> "RunSettings":
        return cls(
            fingerprint=embedder.fingerprint,
            precision=embedder.precision,
            **config.model_dump(include=set(cls.model_fields) - {"fingerprint", "precision"}),
        )


class PartRecord(Frozen):
    """What a part holds: the lines from `first` to before `lines`, counted there."""

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
    """The parts of one target, finished ones and the next."""

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

    def open(self, reader: LineReader, sentence_map: SentenceMap) -> None:
        """Find what an earlier run finished and read its lines again, or begin."""
        if self.target.exists():
            self.records = [_read_record(self.target)]
        elif self.folder.exists():
            self._sweep()
            self.records = [_read_record(path) for path in self._paths()]
        self._check_settings()
        self._check_input(reader, sentence_map)
        if not self.complete:
            self._begin()

    def write(self, windows: Iterator[Window], sentence_map: SentenceMap) -> None:
        """Part after part until the input ends; what is finished stays whatever happens."""
        try:
            while not self.complete:
                self._write_part(windows, sentence_map)
            self._close()
        except BaseException as error:
            if self.records:
                error.add_note(
                    f"The first {self.lines:,} lines are kept in {self.folder}: "
                    "go on with --resume."
                )
            else:
                shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def _close(self) -> None:
        """Make one file of the parts, and leave nothing else."""
        if not self.target.exists():
            paths = self._paths()
            if len(paths) == 1:
                _rename(paths[0], self.target)
            else:
                with self.stop.allowed():
                    self._merge(paths)
        shutil.rmtree(self.folder, ignore_errors=True)

    # Beginning and going on ---------------------------------------------------------------------

    def _begin(self) -> None:
        try:
            self.folder.mkdir(exist_ok=True)
        except OSError as error:
            raise cannot_write(self.folder, error) from None
        with atomic_file(self.folder / RUN) as path:
            path.write_text(self.run.model_dump_json(indent=2) + "\n", encoding="utf-8")

    def _paths(self) -> list[Path]:
        return sorted(self.folder.glob("[0-9]*.hdf5"))

    def _sweep(self) -> None:
        """A killed run leaves the part it was writing."""
        for path in self.folder.glob(".*.elmore-tmp"):
            path.unlink()

    def _check_settings(self) -> None:
        then = [record.run for record in self.records]
        file = self.folder / RUN
        if not then and file.exists():
            then = [_read_run(file)]
        for run in then:
            for name in RunSettings.model_fields:
                before, now = getattr(run, name), getattr(self.run, name)
                if before != now:
                    where = self.target if self.target.exists() else self.folder
                    raise InputError(
                        f"{where}: {_difference(name, before, now)} Resume with what it began "
                        "with, or remove it to start afresh."
                    )

    def _check_input(self, reader: LineReader, sentence_map: SentenceMap) -> None:
        for record in self.records:
            if record.first != reader.lines:
                raise FormatError(
                    f"{self.folder}: a part begins at line {record.first + 1:,}, expected "
                    f"{reader.lines + 1:,}; parts are missing. Remove the folder to start afresh."
                )
            with self.stop.allowed():
                self._read_again(reader, record, sentence_map)
            if (reader.lines, reader.sha256) != (record.lines, record.sha256):
                raise InputError(
                    f"The input differs from what {self.target.name} was begun with, somewhere in "
                    f"lines {record.first + 1:,} to {record.lines:,}. Resume with the same text, "
                    f"or remove {self.folder.name} to start afresh."
                )
        if self.complete and reader.read() is not None:
            raise InputError(
                f"The input has more than the {self.lines:,} lines that {self.target.name} was "
                "made of. Resume with the same text, or choose another name."
            )

    @staticmethod
    def _read_again(reader: LineReader, record: PartRecord, sentence_map: SentenceMap) -> None:
        while reader.lines < record.lines and (line := reader.read()) is not None:
            sentence_map.add(line.strip(), reader.lines - 1)

    # Writing ------------------------------------------------------------------------------------

    def _write_part(self, windows: Iterator[Window], sentence_map: SentenceMap) -> None:
        """One part, closed when its time is over, the input ends, or something stops the run."""
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
        tally, last, complete, stopped = Tally(), self._end(), False, None
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
                last = window
                if monotonic() >= deadline:
                    break
        record = PartRecord(
            run=self.run,
            first=self.lines,
            lines=last.lines,
            sha256=last.sha256,
            words=tally.words,
            blank=tally.blank,
            repeated=tally.repeated,
            complete=complete,
        )
        return record, stopped

    def _end(self) -> Window:
        """Where the finished parts end, as a window without items."""
        sha256 = self.records[-1].sha256 if self.records else LineReader([]).sha256
        return Window([], self.lines, 0, sha256)

    def _merge(self, paths: list[Path]) -> None:
        if [_read_record(path) for path in paths] != self.records:
            raise InputError(f"{self.folder}: another run has written there at the same time.")
        repeated = 0
        with atomic_file(self.target) as beside, hdf5_file(beside) as (out, disk):
            for path in paths:
                with h5py.File(path, "r") as part:
                    for name in part:
                        if name in out:
                            repeated += 1
                        else:
                            part.copy(name, out)
                        disk.check()
            whole = _sum(self.records, repeated)
            out.attrs[RECORD] = whole.model_dump_json()
        self.records = [whole]


def _sum(records: list[PartRecord], repeated: int) -> PartRecord:
    return records[-1].model_copy(
        update={
            "first": 0,
            "words": sum(r.words for r in records),
            "blank": sum(r.blank for r in records),
            "repeated": sum(r.repeated for r in records) + repeated,
        }
    )


def _rename(part: Path, target: Path) -> None:
    try:
        part.replace(target)
    except OSError as error:
        raise cannot_write(target, error) from None


def _read_record(path: Path) -> PartRecord:
    try:
        with h5py.File(path, "r") as file:
            text = file.attrs.get(RECORD)
        return PartRecord.model_validate_json(text if isinstance(text, str) else "")
    except OSError as error:
        raise FormatError(f"{path}: not a readable HDF5 file ({error}); remove it.") from None
    except ValidationError:
        raise FormatError(
            f"{path}: was not written by a dump that can be resumed; remove it or choose another "
            "name."
        ) from None


def _read_run(path: Path) -> RunSettings:
    try:
        return RunSettings.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        raise FormatError(
            f"{path}: cannot be read; remove {path.parent.name} to start afresh."
        ) from None


def _difference(name: str, before: object, now: object) -> str:
    if name == "fingerprint":
        return f"the model was another one ({str(before)[:12]}, now {str(now)[:12]})."
    return f"{name} was {before!r} and is now {now!r}."
