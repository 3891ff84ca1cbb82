"""The command `elmore`: one verb per file in this folder. An error that a user can fix is printed
in one line. Nothing here imports torch; each verb does when it runs.
"""

import codecs
import json
import os
import signal
import sys
import traceback
import warnings
from contextlib import suppress
from typing import Annotated, Any

import typer

from elmore import __version__
from elmore.cli.card import card
from elmore.cli.compare import compare
from elmore.cli.convert import convert
from elmore.cli.demo import demo
from elmore.cli.doctor import doctor
from elmore.cli.download import download
from elmore.cli.embed import embed
from elmore.cli.evaluate import evaluate
from elmore.cli.export import export
from elmore.cli.index import index
from elmore.cli.lens import lens
from elmore.cli.models import models
from elmore.cli.neighbors import neighbors
from elmore.cli.pretrain import pretrain
from elmore.cli.progress import download_bar
from elmore.cli.push import push
from elmore.cli.score import score
from elmore.cli.senses import senses
from elmore.cli.serve import serve
from elmore.cli.store import store
from elmore.cli.substitutes import substitutes
from elmore.cli.task import task
from elmore.errors import ElmoreError, ElmoreWarning
from elmore.published.download import watched_by

DEBUG = "--debug"
FAILED = 2
_ESCAPE = "elmore-escape"
_COMPLETE = "_ELMORE_COMPLETE"

app = typer.Typer(rich_markup_mode=None, context_settings={"help_option_names": ["-h", "--help"]})
for verb in (
    demo,
    embed,
    pretrain,
    evaluate,
    convert,
    export,
    compare,
    lens,
    neighbors,
    senses,
    substitutes,
    doctor,
    serve,
    models,
    download,
    card,
    push,
):
    app.command()(verb)
app.add_typer(score, name="score")
app.add_typer(index, name="index")
app.add_typer(store, name="store")
app.add_typer(task, name="task")


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"elmore {__version__}")
        raise typer.Exit


@app.callback()
def elmore(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-V", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show tracebacks (anywhere).")] = False,
) -> None:
    """ELMo, and more: contextual word vectors."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command line; the exit code."""
    given = sys.argv[1:] if arguments is None else arguments
    debug = DEBUG in given
    given = [argument for argument in given if argument != DEBUG]
    _prepare_streams()
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _Warned(warnings.showwarning)
            with watched_by(lambda: download_bar("--quiet" in given)):
                code = _run(given or ["--help"])
        sys.stdout.flush()
        return code
    except (Exception, KeyboardInterrupt) as error:
        if debug:
            traceback.print_exc()
        return _explain(error, quiet=debug)


def _prepare_streams() -> None:
    """A stream that is closed leads nowhere (`embed` to standard output says so). Characters that
    a terminal or a pipe cannot show are written as JSON writes them, \\u82f9."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # otherwise the next file would become this stream
            os.open(os.devnull, os.O_RDWR)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_ESCAPE)


def _discard_output() -> None:
    """What nobody can have any more, Python would try to write again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


codecs.register_error(_ESCAPE, _escaped)


class _Warned:
    """Shows elmore's own warnings in one line, each once; under torchrun one process speaks."""

    def __init__(self, others: Any):
        self._others, self._seen = others, set[str]()

    def __call__(
        self, message: Warning | str, category: type[Warning], *where: Any, **more: Any
    ) -> None:
        line = " ".join(str(message).split())
        if not issubclass(category, ElmoreWarning):
            self._others(message, category, *where, **more)
        elif line not in self._seen and os.environ.get("RANK", "0") == "0":
            self._seen.add(line)
            print(f"elmore: warning: {line}", file=sys.stderr, flush=True)


def _run(arguments: list[str]) -> int:
    """Without click's own handling, which would take interrupts for itself."""
    command = typer.main.get_command(app)
    if _COMPLETE in os.environ:  # a shell asks what could come next
        command(prog_name="elmore")
    try:
        with command.make_context("elmore", arguments) as context:
            command.invoke(context)
    except typer.Exit as leaving:
        return leaving.exit_code
    return 0


def _explain(error: Exception | KeyboardInterrupt, quiet: bool) -> int:
    """Print the error in one line, unless it was shown already; a bug is raised again."""
    match error:
        case BrokenPipeError():  # nobody reads stdout any more
            _discard_output()
            return 128 + signal.SIGPIPE
        case KeyboardInterrupt():
            message = "stopped."
        case OSError(filename=str(path), strerror=str(reason)):
            message = f"{path}: {reason}."
        case ElmoreError() | OSError():
            message = str(error)
        case _ if hasattr(error, "format_message"):  # click's usage errors
            context = getattr(error, "ctx", None)
            path = "elmore" if context is None else context.command_path
            message = f"{error.format_message().rstrip('.')}. See {path} --help."
        case _:
            raise error
    if not quiet:
        line = " ".join(" ".join([message, *getattr(error, "__notes__", [])]).split())
        with suppress(OSError):  # nobody reads stderr either
            print(f"elmore: {line}", file=sys.stderr, flush=True)
    _discard_output()
    if isinstance(error, KeyboardInterrupt):
        return 128 + (error.args[0] if error.args else signal.SIGINT)
    return FAILED
