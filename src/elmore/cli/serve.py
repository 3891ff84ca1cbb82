"""`elmore serve`: the model over HTTP, and the explorer page."""

import ctypes
import math
import signal
import socket
import sys
from contextlib import suppress
from importlib.util import find_spec
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from elmore.cli.early import check_files
from elmore.cli.options import (
    Device,
    Lowercase,
    Model,
    OptionsFile,
    Pieces,
    Precision,
    Quiet,
    RunPrecision,
)
from elmore.errors import ConfigError

if TYPE_CHECKING:
    from fastapi import FastAPI

    from elmore.serve.config import ServeConfig

_NEEDED = ("fastapi", "uvicorn", "prometheus_client", "orjson")
_STOP_SECONDS = 30  # for running requests
_M_ARENA_MAX = -8  # of malloc.h
_ARENAS = 2


def serve(
    model: Model,
    index: Annotated[
        Path | None, typer.Option(help="A folder written by `elmore index`, for neighbors.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; 0.0.0.0: all addresses.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0: any free port.", min=0, max=65535)] = 8000,
    api_key: Annotated[
        str | None,
        typer.Option(
            envvar="ELMORE_API_KEY",
            show_envvar=True,
            help="Clients must send it. Set the variable: other users can see command lines.",
        ),
    ] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Another host name to answer to without a key; can be repeated."),
    ] = None,
    options: OptionsFile = None,
    pieces: Pieces = None,
    lowercase: Lowercase = None,
    substitutes: Annotated[
        bool,
        typer.Option(
            "--substitutes/--no-substitutes",
            help="Load what predicts words, if the model has it.",
        ),
    ] = True,
    device: Device = "auto",
    precision: RunPrecision = Precision.FLOAT32,
    max_words: Annotated[int | None, typer.Option(help="Words per request, 4096.")] = None,
    max_bytes: Annotated[int | None, typer.Option(help="Bytes per request, 1048576.")] = None,
    batch_words: Annotated[
        int | None, typer.Option(help="Words per batch, 4096; fewer need less memory.")
    ] = None,
    queue_words: Annotated[
        int | None, typer.Option(help="Words that may wait, 16384; more are refused (429).")
    ] = None,
    held_bytes: Annotated[
        int | None,
        typer.Option(help="Bytes of requests and unread answers, 67108864; more are refused."),
    ] = None,
    max_connections: Annotated[int | None, typer.Option(help="Connections, 512.")] = None,
    client_connections: Annotated[
        int | None, typer.Option(help="Connections from one address, 256.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Answer over HTTP until Ctrl-C; the page is at /, the API description at /openapi.json."""
    _check_installed()
    from elmore.serve.config import ServeConfig

    limits = {
        "api_key": api_key,
        "allow_hosts": allow_host,
        "max_words": max_words,
        "max_bytes": max_bytes,
        "batch_words": batch_words,
        "queue_words": queue_words,
        "held_bytes": held_bytes,
        "max_connections": max_connections,
        "client_connections": client_connections,
    }
    given = {name: value for name, value in limits.items() if value is not None}
    config = ServeConfig.model_validate(given)
    _share_memory()
    with _bound(host, port) as listener:  # before the model, which may take a while to load
        check_files(model=model)
        from elmore.embedder import Embedder
        from elmore.search.index import Index
        from elmore.serve.app import create_app

        embedder = Embedder.load(
            model,
            options=options,
            device=device,
            precision=precision.value,
            pieces=pieces,
            lowercase=lowercase,
            heads=substitutes,
            download=False,
        )
        name = Path(model).name
        found = None if index is None else Index.open(index, embedder)
        app = create_app(embedder, index=found, name=name, config=config)
        at_home = ip_address(listener.getsockname()[0]).is_loopback
        if not (quiet or api_key or at_home):
            warning = f"elmore: other machines can use {host}, and no key is needed."
            print(warning, file=sys.stderr)
        place = f"[{host}]" if ":" in host else host
        address = f"http://{place}:{listener.getsockname()[1]}"
        welcome = f"{name} is served at {address} (Ctrl-C stops)"
        _run(app, config, listener, "" if quiet else welcome)


def _share_memory() -> None:
    """The engine starts threads for every batch. glibc would give each thread a memory arena of its
    own, up to eight per core, and memory freed in one arena cannot be used in another."""
    if sys.platform == "linux":
        with suppress(AttributeError):  # another C library
            ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _ARENAS)


def _check_installed() -> None:
    missing = [name for name in _NEEDED if find_spec(name) is None]
    if missing:
        raise ConfigError(f"{', '.join(missing)}: not installed; pip install 'elmore[serve]'.")


def _bound(host: str, port: int) -> socket.socket:
    """A socket with its port; connections are refused until the server is ready."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
    except OSError as error:
        raise ConfigError(f"--host {host}: {error.strerror or error}.") from None
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
    except OSError as error:
        listener.close()
        raise ConfigError(
            f"{host} port {port}: {error.strerror or error}; choose others with --host and --port."
        ) from None
    return listener


def _run(app: "FastAPI", limits: "ServeConfig", listener: socket.socket, welcome: str) -> None:
    """Until a signal; requests in flight are finished."""
    import uvicorn

    from elmore.serve.connections import limited

    class Server(uvicorn.Server):
        """Says when it is ready."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if welcome:
                print(welcome, file=sys.stderr, flush=True)

    config = uvicorn.Config(
        app,
        access_log=False,
        log_level="error",  # any client can cause warnings
        server_header=False,
        http=limited(limits),
        ws="none",
        timeout_keep_alive=math.ceil(limits.idle_seconds),
        timeout_graceful_shutdown=_STOP_SECONDS,
    )
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn stops by itself, then sends itself the signal again; that one must do nothing.
        signal.signal(number, lambda *_: None)
    Server(config).run(sockets=[listener])
