"""The application: the routes behind their guard, the page, and a model that starts and stops with
the application. `uvicorn` or any other ASGI server can run it.
"""

from pathlib import Path

from fastapi import Depends, FastAPI
from fastapi.responses import FileResponse
from fastapi.security import HTTPBearer
from starlette.staticfiles import StaticFiles

from elmore import __version__
from elmore.embedder import Embedder
from elmore.search.index import Index
from elmore.serve import problems, routes
from elmore.serve.auth import OPEN_FOLDER
from elmore.serve.config import ServeConfig
from elmore.serve.guard import Guard
from elmore.serve.metrics import Measured
from elmore.serve.schemas import HealthAnswer
from elmore.serve.server import Server

PAGE = Path(__file__).parent / "page"


def create_app(
    embedder: Embedder,
    *,
    index: Index | None = None,
    name: str = "elmore",
    config: ServeConfig | None = None,
) -> FastAPI:
    """Everything `elmore serve` serves; without an index there are no neighbors and no senses."""
    if index is not None:
        index.check_model(embedder)
    server = Server(embedder, index, name, config or ServeConfig())
    app = FastAPI(
        title="elmore",
        summary="Contextual word vectors over HTTP.",
        version=__version__,
        lifespan=lambda _: server.running(),
        docs_url=None,  # both of FastAPI's pages load their scripts from other servers
        redoc_url=None,
        generate_unique_id_function=lambda route: route.name,
    )
    app.state.server = server
    # The guard checks the key; this documents in OpenAPI that there is one.
    told = [Depends(HTTPBearer(auto_error=False))] if server.config.api_key else []
    app.include_router(routes.router, dependencies=told)
    _add_open_paths(app)
    problems.install(app)
    app.add_middleware(Guard, config=server.config, memory=server.memory)
    app.add_middleware(Measured, metrics=server.metrics)  # the outer one: refusals count
    return app


def _add_open_paths(app: FastAPI) -> None:
    """Paths that need no key: the health check, and the page, which asks for the key."""

    @app.get("/health")
    async def health() -> HealthAnswer:
        """Whether the server answers."""
        return HealthAnswer()

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    app.mount(OPEN_FOLDER, StaticFiles(directory=PAGE))
