"""The routes: words, vectors, cosines, OpenAI's format, substitutes, information about the server
and, with an index, nearest uses and senses.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Path, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import StringConstraints
from starlette.concurrency import run_in_threadpool

from elmore import __version__
from elmore.embedding import ReadSentence, Vectors
from elmore.errors import ConfigError, InputError
from elmore.predictor.place import Place
from elmore.serve import vectors
from elmore.serve.index_service import IndexService, not_indexed
from elmore.serve.metrics import MEDIA_TYPE
from elmore.serve.problems import RefusedError, documented, too_large
from elmore.serve.schemas import (
    EmbedAnswer,
    EmbedRequest,
    Examples,
    InfoAnswer,
    Layer,
    Limits,
    NeighborsAnswer,
    NeighborsRequest,
    OpenAIAnswer,
    OpenAIRequest,
    Passage,
    SensesAnswer,
    SimilarityAnswer,
    SimilarityRequest,
    SubstitutesAnswer,
    SubstitutesRequest,
    WordsAnswer,
    WordsAsked,
    WordsOfIndex,
    WordsRequest,
)
from elmore.serve.server import Server, TheServer, unless_gone

MAX_PAIRS = 1 << 16
"""Of words in `/similarity`; nobody can look at a picture of more."""
BODY_PROBLEMS = (400, 401, 408, 413, 422)
MODEL_PROBLEMS = (*BODY_PROBLEMS, 429)
LENGTHS, UNREADABLE = "X-Sentence-Lengths", "X-Unreadable-Share"

router = APIRouter()

_BINARY: dict[str, Any] = {"schema": {"type": "string", "format": "binary"}}
_EMBED_CONTENT: dict[str, Any] = {
    "description": f"JSON, or NumPy's bytes by the Accept header: {vectors.NPY} has all sentences "
    f"in one array (layers, words, dim), and {LENGTHS} gives the length of each; "
    f"{vectors.NPZ} has one array per sentence, named 0, 1, …",
    "content": {vectors.NPY: _BINARY, vectors.NPZ: _BINARY},
}
_SENSES: dict[str, Any] = {
    "response_model": SensesAnswer,
    "responses": documented(401, 404, 422, 429),
}


@router.post("/words", responses=documented(*BODY_PROBLEMS))
async def words(asked: WordsRequest, server: TheServer) -> WordsAnswer:
    """Split a text into words, without running the model."""
    (read,) = reads = await server.read([asked.text])
    spans = [list(span) for span in read.spans or []]
    return WordsAnswer(words=read.words, spans=spans, unreadable=server.unreadable(reads))


@router.post(
    "/embed",
    response_model=EmbedAnswer,
    responses={200: _EMBED_CONTENT, **documented(*MODEL_PROBLEMS)},
)
async def embed(
    request: Request,
    asked: EmbedRequest,
    server: TheServer,
    accept: Annotated[str, Header(include_in_schema=False)] = "",
) -> Response:
    """A vector of every layer for every word, or one layer's, or a mix of all: γ Σ s_j h_j."""
    n_layers, dim = server.embedder.n_layers, server.embedder.dim
    lens = server.embedder.lens
    choice = vectors.choose(asked.layers, asked.weights, n_layers, asked.gamma, lens)
    kept, _ = choice.shape(dim)
    reads = await server.read(asked.sentences)
    n_words = sum(len(read.words) for read in reads)
    request.state.hold.add(vectors.held_bytes(n_words, kept, dim))
    found = await server.embed(request, reads)
    layers = await run_in_threadpool(lambda: [choice.select(some, lens) for some in found])
    unread = server.unreadable(reads)
    match media := vectors.media_type(accept):
        case vectors.NPY:
            parts = vectors.npy_parts(layers, dim, kept)
        case vectors.NPZ:
            parts = vectors.npz_parts(layers)
        case _:
            head = {"model": server.name, "dim": dim, "unreadable": unread}
            parts = vectors.json_parts(head, reads, layers)
    headers = {LENGTHS: ",".join(str(len(read.words)) for read in reads)}
    if unread is not None:
        headers[UNREADABLE] = f"{unread.share:.3f}"
    pieces = vectors.gathered(parts)
    return StreamingResponse(pieces, media_type=media, headers=headers)


@router.post("/similarity", response_model=SimilarityAnswer, responses=documented(*MODEL_PROBLEMS))
async def similarity(request: Request, asked: SimilarityRequest, server: TheServer) -> Response:
    """The cosine of every word of one sentence with every word of another, layer by layer."""
    weights = vectors.mix_weights(asked.weights, server.embedder.n_layers)
    reads = await server.read([asked.a, asked.b])
    n_pairs = len(reads[0].words) * len(reads[1].words)
    if n_pairs > MAX_PAIRS:
        raise too_large("pairs of words", n_pairs, MAX_PAIRS)
    a, b = await server.embed(request, reads)
    layers = await run_in_threadpool(vectors.cosines, a, b, weights)
    meaning = await run_in_threadpool(vectors.meaning_cosines, a, b, server.embedder.lens)
    answer = {
        "words_a": reads[0].words,
        "words_b": reads[1].words,
        "layers": layers,
        "meaning": meaning,
        "unreadable": server.unreadable(reads),
    }
    return Response(vectors.to_json(answer), media_type=vectors.JSON)


@router.post("/v1/embeddings", response_model=OpenAIAnswer, responses=documented(*MODEL_PROBLEMS))
async def openai_embeddings(request: Request, asked: OpenAIRequest, server: TheServer) -> Response:
    """One vector per text: the mean over its words and the model's layers, in OpenAI's format."""
    if asked.dimensions not in (None, server.embedder.dim):
        dim = server.embedder.dim
        raise ConfigError(f"dimensions is {asked.dimensions}; the model's vectors have {dim}.")
    inputs = [asked.input] if isinstance(asked.input, str) else asked.input
    reads = await server.read(inputs)
    for i, read in enumerate(reads):
        if not read.words:
            raise InputError(f"input.{i}: has no words, so no mean.")
    found = await server.embed(request, reads)
    rows = await run_in_threadpool(_openai_rows, found, asked.encoding_format == "base64")
    n_words = sum(len(read.words) for read in reads)
    usage = {"prompt_tokens": n_words, "total_tokens": n_words}
    answer = {
        "object": "list",
        "data": rows,
        "model": server.name,
        "usage": usage,
        "unreadable": server.unreadable(reads),
    }
    return Response(vectors.to_json(answer), media_type=vectors.JSON)


def _openai_rows(found: list[Vectors], as_base64: bool) -> list[dict[str, Any]]:
    means = [vectors.mean_vector(layers) for layers in found]
    encoded = map(vectors.to_base64, means) if as_base64 else means
    return [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(encoded)]


@router.post("/substitutes", responses=documented(*MODEL_PROBLEMS, 404))
async def substitutes(
    request: Request, asked: SubstitutesRequest, server: TheServer
) -> SubstitutesAnswer:
    """The words most likely in the place of a word, by a model that was trained to predict them."""
    if (predictor := server.predictor) is None:
        raise RefusedError(404, "The model of this server has no head or softmax for words.")
    (read,) = await server.read([asked.sentence])
    _word_at(read, asked.position)
    place = Place(read.words, asked.position)
    found = await server.substitutes(request, predictor, place, asked.top)
    answer = {"query": {"words": read.words, "position": asked.position}, "substitutes": found}
    return SubstitutesAnswer.model_validate(answer)


def _word_at(read: ReadSentence, position: int) -> str:
    if position >= len(read.words):
        raise InputError(f"position is {position}; the sentence has {len(read.words)} words.")
    return read.words[position]


@router.get("/info", responses=documented(401))
async def info(server: TheServer) -> InfoAnswer:
    """Which model this is, what it is limited to, and what its index holds."""
    config, embedder = server.config, server.embedder
    return InfoAnswer(
        name=server.name,
        dim=embedder.dim,
        n_layers=embedder.n_layers,
        context_free=embedder.context_free,
        fingerprint=embedder.fingerprint,
        precision=embedder.precision,
        version=__version__,
        limits=Limits(
            bytes=config.max_bytes, sentences=config.max_sentences, words=config.max_words
        ),
        index=None if server.searching is None else server.searching.info(),
        substitutes=server.predictor is not None,
        meaning=embedder.lens is not None,
    )


@router.get(
    "/metrics",
    response_class=Response,
    responses={200: {"content": {"text/plain": {}}}, **documented(401)},
)
async def metrics(server: TheServer) -> Response:
    """Counts and times for Prometheus."""
    return Response(server.metrics.page(), headers={"Content-Type": MEDIA_TYPE})


# With an index ----------------------------------------------------------------------------------


@router.post("/neighbors", responses=documented(*MODEL_PROBLEMS, 404))
async def neighbors(
    request: Request, asked: NeighborsRequest, server: TheServer
) -> NeighborsAnswer:
    """The indexed uses that are most like a word in a sentence, and its static neighbors."""
    searching = _searching(server)
    (read,) = reads = await server.read([asked.sentence])
    word = _word_at(read, asked.position)
    if asked.same_word and searching.spelling(word) is None:
        raise not_indexed(word)
    (layers,) = await server.embed(request, reads)
    found = searching.neighbors(asked, read.words, layers[:, asked.position])
    answer = await unless_gone(request, found)
    return answer.model_copy(update={"unreadable": server.unreadable(reads)})


# Two paths: clients drop `.` and `..` from a path, and a query takes any word.
@router.get("/senses", name="senses_of", **_SENSES)
@router.get("/senses/{word:path}", **_SENSES)
async def senses(
    request: Request,
    server: TheServer,
    word: Annotated[str, StringConstraints(min_length=1)],
    layer: Annotated[Layer | None, Query()] = None,
) -> Response:
    """A word's uses in groups, the most frequent first, and all of them as points in a plane."""
    found = await unless_gone(request, _searching(server).senses(word, layer))
    return Response(found, media_type=vectors.JSON)


@router.get("/index/words", responses=documented(401, 404, 422, 429))
async def index_words(
    request: Request, server: TheServer, asked: Annotated[WordsAsked, Query()]
) -> WordsOfIndex:
    """Words of the index, by their frequency or their number of senses. Without `letters`, function
    words are left out."""
    return await unless_gone(request, _searching(server).words(asked))


@router.get("/index/examples", responses=documented(401, 404, 429))
async def index_examples(request: Request, server: TheServer) -> Examples:
    """Uses of a few words of the index, in two senses each where they have two."""
    return await unless_gone(request, _searching(server).examples())


@router.get("/index/uses/{number}", responses=documented(401, 404, 422, 429))
async def index_use(
    request: Request, server: TheServer, number: Annotated[int, Path(ge=0, le=2**53)]
) -> Passage:
    """A use by its id, with the text before and after its sentence."""
    return await unless_gone(request, _searching(server).passage(number))


def _searching(server: Server) -> IndexService:
    if server.searching is None:
        raise RefusedError(404, "This server has no index; start it with --index.")
    return server.searching
