"""The log of a run: one JSON object per line, and TensorBoard's files if it is installed."""

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from elmore.files.atomic import atomic_file


class Log:
    """Appends to `log.jsonl`; a resumed run drops the lines after the step it resumes from."""

    def __init__(self, folder: Path, start_step: int):
        self.path = folder / "log.jsonl"
        _drop_after(self.path, start_step)
        self._file = self.path.open("a", encoding="utf-8")
        self._board: Any = None
        if find_spec("tensorboard") is not None:
            from torch.utils.tensorboard import SummaryWriter

            self._board = SummaryWriter(str(folder / "tensorboard"), purge_step=start_step + 1)

    def write(self, step: int, figures: dict[str, float]) -> None:
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
    kept = [line for line in path.read_text(encoding="utf-8").splitlines() if _step(line) <= step]
    with atomic_file(path) as beside:
        beside.write_text("".join(line + "\n" for line in kept), encoding="utf-8")


def _step(line: str) -> float:
    try:
        return float(json.loads(line)["step"])
    except (ValueError, KeyError, TypeError):  # the last line of a killed run may be half written
        return float("inf")
