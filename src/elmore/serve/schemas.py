"""What goes over the wire: a model for every request and every answer. The OpenAPI document is made
from these, so what a client may send is said here and nowhere else.
"""

# L layers, n words, D vector dim
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from elmore.config import Foreign, Frozen

MAX_K = 100
MAX_WEIGHT = 1000.0  # far above any learned share, and far below what float32 can multiply


def _text(value: str) -> str:
    """JSON can spell halves of characters, which no answer could be written with."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("unicode", "Input has half of a surrogate pair") from None
    return value


def _sentence(value: Any) -> Any:
    """One line for people; a union's own errors name each of its branches."""
    if isinstance(value, str):
        return _text(value)
    if not isinstance(value, list):
        raise PydanticCustomError("sentence", "Input should be a string or a list of words")
    for i, word in enumerate(value):
        if not isinstance(word, str):
            raise PydanticCustomError("sentence", "Word {i} should be a string", {"i": i})
        _text(word)
    return value


def _whole(value: Any) -> Any:
    """To JSON 2.0 is an integer, and some languages write all their numbers so."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)  # behind the bounds: before them it would hide them from OpenAPI
Text = Annotated[str, AfterValidator(_text)]
Sentence = Annotated[
    str | list[str],
    Field(description="A text to be tokenized, or its words."),
    BeforeValidator(_sentence),
]
Weight = Annotated[float, Field(ge=-MAX_WEIGHT, le=MAX_WEIGHT, allow_inf_nan=False)]
LayerNumber = Annotated[int, Field(ge=0, le=999), WHOLE]
Layer = LayerNumber | Literal["mix"]
Weights = Annotated[
    Annotated[list[Weight], Field(fail_fast=True)] | None,
    Field(description="Shares of the layers in the mix, one a layer; equal when left out."),
]
Span = Annotated[list[int], Field(min_length=2, max_length=2)]


class _Request(Frozen):
    model_config = ConfigDict(strict=True)


class _Answer(BaseModel):
    model_config = ConfigDict(frozen=True, from_attributes=True)


# Errors -----------------------------------------------------------------------------------------


class Problem(_Answer):
    """What went wrong, in one line."""

    message: str
    type: str


class ProblemAnswer(_Answer):
    """Every answer that is not a 2xx; OpenAI's shape, so its clients show the message."""

    error: Problem


# Words and vectors ------------------------------------------------------------------------------


class WordsRequest(_Request):
    text: Text


class WordsAnswer(_Answer):
    """Text as the model will see it."""

    words: list[str]
    spans: list[Span] = Field(description="From, to of each word, in Unicode characters.")


class EmbedRequest(_Request):
    sentences: Annotated[list[Sentence], Field(fail_fast=True)]
    layers: Literal["all", "mix"] | LayerNumber = "all"
    weights: Weights = None
    gamma: Weight = Field(default=1.0, description="The scale of the mix.")


class EmbeddedSentence(_Answer):
    """One sentence: its words and the layers asked for."""

    words: list[str]
    spans: list[Span] | None = Field(description="null when words were given, not a text.")
    layers: list[list[list[float]]] = Field(description="Layers × words × numbers.")


class EmbedAnswer(_Answer):
    model: str
    dim: int
    sentences: list[EmbeddedSentence]


class SimilarityRequest(_Request):
    a: Sentence
    b: Sentence
    weights: Weights = None


class SimilarityAnswer(_Answer):
    """How alike each word of one sentence is to each of another."""

    words_a: list[str]
    words_b: list[str]
    layers: list[list[list[float]]] = Field(
        description="Cosines, words of a × words of b: of each layer, and last of their mix."
    )


# OpenAI's shape ---------------------------------------------------------------------------------


class OpenAIRequest(Foreign):
    """Fields that this server has no use for are ignored, as clients send many."""

    input: (
        Annotated[Text, Field(min_length=1)]
        | Annotated[list[Sentence], Field(min_length=1, fail_fast=True)]
    )
    model: str = Field(default="", description="Any; the answer names the model that is served.")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1), WHOLE] | None = Field(
        default=None, description="Only the model's own."
    )


class OpenAIEmbedding(_Answer):
    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str = Field(description="base64 is little-endian float32.")


class OpenAIUsage(_Answer):
    prompt_tokens: int = Field(description="Words.")
    total_tokens: int


class OpenAIAnswer(_Answer):
    object: Literal["list"] = "list"
    data: list[OpenAIEmbedding]
    model: str
    usage: OpenAIUsage


# Search -----------------------------------------------------------------------------------------


class NeighborsRequest(_Request):
    sentence: Sentence
    position: Annotated[int, Field(ge=0, le=2**31, description="Counted from 0."), WHOLE]
    k: Annotated[int, Field(ge=1, le=MAX_K), WHOLE] = 10
    layer: Layer = "mix"
    weights: Weights = None
    same_word: bool = Field(default=True, description="Uses of the same word only.")


class WordAt(_Answer):
    words: list[str]
    position: int


class Use(WordAt):
    """A word where it stands in an indexed sentence."""

    id: int


class Neighbor(Use):
    score: float = Field(description="Cosine.")


class WordScore(_Answer):
    word: str
    score: float


class NeighborsAnswer(_Answer):
    query: WordAt
    neighbors: list[Neighbor]
    static: list[WordScore] = Field(description="Nearest words where context plays no part.")


class Sense(_Answer):
    """A cluster of a word's uses."""

    size: int
    typical: list[Use]
    characteristic: list[str] = Field(description="Words that stand around this sense.")


class MapPoint(Use):
    x: float
    y: float
    sense: int = Field(description="Position in the list of senses.")


class SensesAnswer(_Answer):
    word: str
    n_uses: int
    senses: list[Sense]
    map: list[MapPoint]


# The server -------------------------------------------------------------------------------------


class Limits(_Answer):
    """More than this is refused with 413."""

    bytes: int
    sentences: int
    words: int


class IndexInfo(_Answer):
    n_words: int = Field(description="Distinct words.")
    n_uses: int
    n_sentences: int
    layers: list[int | Literal["mix"]] = Field(description="What can be searched by.")


class InfoAnswer(_Answer):
    name: str
    dim: int
    n_layers: int = Field(description="The context-free one counted.")
    fingerprint: str
    precision: str
    version: str
    limits: Limits
    index: IndexInfo | None


class HealthAnswer(_Answer):
    status: Literal["ok"] = "ok"
