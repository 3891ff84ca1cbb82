"""Progress of long work on stderr: a bar in a terminal, plain lines elsewhere, nothing if quiet."""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Self

from elmore.files.text_file import COMPRESSED


class Bar:
    """Description, bar, percentage, figures, time passed and time left.

    The description, the total and the figures stay as they are until they are given again.
    """

    def __init__(self, quiet: bool, *, transient: bool = True, if_stopped: str = ""):
        """`if_stopped` tells a user who interrupts the work how to continue it."""
        from rich import progress as rich
        from rich.console import Console

        self.quiet, self.in_terminal, self._if_stopped = quiet, sys.stderr.isatty(), if_stopped
        self._bars = rich.Progress(
            rich.TextColumn("{task.description}", markup=False),
            rich.BarColumn(bar_width=24),
            rich.TaskProgressColumn(),
            rich.TextColumn("{task.fields[figures]}", markup=False),
            rich.TimeElapsedColumn(),
            rich.TimeRemainingColumn(),
            console=Console(file=sys.stderr),
            disable=quiet or not self.in_terminal,
            transient=transient,
        )
        self._task = self._bars.add_task("", total=None, figures="")

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if not self._bars.disable:  # rich before 15 would print an empty line
            self._bars.stop()
        if isinstance(error, KeyboardInterrupt) and self._if_stopped:
            error.add_note(self._if_stopped)

    def update(
        self,
        done: float | None = None,
        total: float | None = None,
        *,
        description: str | None = None,
        figures: str | None = None,
    ) -> None:
        fields: dict[str, Any] = {} if figures is None else {"figures": figures}
        self._bars.update(
            self._task, completed=done, total=total, description=description, **fields
        )

    @property
    def seconds(self) -> float:
        """Since the start."""
        return self._bars.tasks[0].elapsed or 0.0

    def line(self, text: str) -> None:
        """Print a line that stays, above the bar."""
        if self.quiet:
            return
        if self.in_terminal:
            self._bars.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)


@contextmanager
def counting_bar(quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar of how many sentences or examples are done, of how many."""
    with Bar(quiet) as bar:
        yield lambda done, of: bar.update(done, of, figures=f"{done:,}/{of:,}")


def text_bytes(paths: list[Path]) -> int | None:
    """The size of a text, where it can be known before reading."""
    plain = all(path.is_file() and path.suffix not in COMPRESSED for path in paths)
    return sum(path.stat().st_size for path in paths) if plain else None


@contextmanager
def download_bar(quiet: bool) -> Iterator[Callable[[str, int, int | None], None]]:
    """A bar of the bytes of a file, which appears with the first of them. Where there is no
    terminal, one line says what is downloaded and how large it is."""
    bars: list[Bar] = []
    told: set[str] = set()
    with ExitStack() as stack:

        def show(name: str, done: int, total: int | None) -> None:
            if not bars:
                again = "Run it again to continue the download."
                bars.append(stack.enter_context(Bar(quiet, if_stopped=again)))
            if name not in told:
                told.add(name)
                size = "size unknown" if total is None else f"{total / 1e6:,.1f} MB"
                bars[0].line(f"Downloading {name} ({size})")
            bars[0].update(done, total, figures=f"{done / 1e6:,.1f} MB")

        yield show
