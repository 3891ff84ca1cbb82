"""The log of a run: one JSON object per line, and TensorBoard's files if it is installed."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from elmore.errors import FormatError
from elmore.files.atomic import atomic_file, writing

LOG = "log.jsonl"


class Log:
    """Appends to `log.jsonl`; a resumed run drops the lines after the step it resumes from."""

    def __init__(self, folder: Path, start_step: int, *, board: bool = True):
        self.path = folder / LOG
        _drop_after(self.path, start_step)
        with writing(self.path):
            self._file = self.path.open("a", encoding="utf-8")
        self._board: Any = None
        if board and find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=start_step + 1)

    def write(self, step: int, figures: dict[str, float]) -> None:
        with writing(self.path):
            self._file.write(json.dumps({"step": step, **figures}) + "\n")
            self._file.flush()
        if self._board is not None:
            for name, value in figures.items():
                self._board.add_scalar(name, value, step)

    def close(self) -> None:
        self._file.close()
        if self._board is not None:
            self._board.close()


def _drop_after(path: Path, step: int) -> None:
    if not path.exists():
        return
    if not path.is_file():
        raise FormatError(f"{path}: not a file; expected the log of the run. Remove it.")
    with path.open("rb") as old, atomic_file(path) as beside, beside.open("wb") as new:
        for line in old:
            if _step(line) <= step:
                new.write(line.rstrip(b"\n") + b"\n")


def _step(line: bytes) -> float:
    """Infinite for a damaged line: the last one of a killed run may be half written."""
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return float("inf")
