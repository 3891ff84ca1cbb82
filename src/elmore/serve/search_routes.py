"""The routes that need an index: nearest uses and senses."""

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from elmore.errors import InputError
from elmore.serve.index_service import IndexService, not_indexed
from elmore.serve.problems import RefusedError, documented
from elmore.serve.routes import MODEL_PROBLEMS
from elmore.serve.schemas import Layer, NeighborsAnswer, NeighborsRequest, SensesAnswer
from elmore.serve.server import Server, TheServer, unless_gone
from elmore.serve.vectors import JSON

router = APIRouter()


@router.post("/neighbors", responses=documented(*MODEL_PROBLEMS, 404))
async def neighbors(
    request: Request, asked: NeighborsRequest, server: TheServer
) -> NeighborsAnswer:
    """The indexed uses that are most like a word in a sentence, and its static neighbors."""
    searching = _searching(server)
    (read,) = reads = await server.read([asked.sentence])
    if asked.position >= len(read.words):
        raise InputError(f"position is {asked.position}; the sentence has {len(read.words)} words.")
    word = read.words[asked.position]
    if asked.same_word and searching.spelling(word) is None:
        raise not_indexed(word)
    (layers,) = await server.embed(request, reads)
    found = searching.neighbors(asked, read.words, layers[:, asked.position])
    return await unless_gone(request, found)


@router.get("/senses", response_model=SensesAnswer, responses=documented(401, 404, 422, 429))
async def senses_of(
    request: Request,
    server: TheServer,
    word: Annotated[str, Query(min_length=1)],
    layer: Annotated[Layer, Query()] = "mix",
) -> Response:
    """The same for any word: clients fold `.` and `..` out of a path."""
    return await senses(request, server, word, layer)


@router.get(
    "/senses/{word:path}", response_model=SensesAnswer, responses=documented(401, 404, 422, 429)
)
async def senses(
    request: Request,
    server: TheServer,
    word: Annotated[str, Path(min_length=1)],
    layer: Annotated[Layer, Query()] = "mix",
) -> Response:
    """A word's uses in groups, the most frequent first, and all of them as points in a plane."""
    found = await unless_gone(request, _searching(server).senses(word, layer))
    return Response(found, media_type=JSON)


def _searching(server: Server) -> IndexService:
    if server.searching is None:
        raise RefusedError(404, "This server has no index; start it with --index.")
    return server.searching
