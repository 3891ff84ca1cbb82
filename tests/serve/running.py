"""An application on a free port of this machine, with the limits of `elmore serve`."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from fastapi import FastAPI

from elmore.serve.connections import limited


@contextmanager
def running(app: FastAPI, host: str = "127.0.0.1") -> Iterator[str]:
    """Its address, while the block runs."""
    http = limited(app.state.server.config)
    config = uvicorn.Config(app, host, port=0, http=http, ws="none", log_level="error")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server ended before it started"
        thread.join(0.01)
    try:
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
    finally:
        server.should_exit = True
        thread.join()
