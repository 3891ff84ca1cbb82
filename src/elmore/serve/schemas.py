"""Requests and answers: a model for each. The OpenAPI document is made from these models, so they
are the only place that says what a client may send.
"""

# L layers, n words, D vector dim
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError

from elmore.config import Foreign, Frozen
from elmore.serve.word_list import Order

MAX_K = 1000
MAX_TOP = 100
MAX_WORDS = 500  # of the index in one answer
MAX_WEIGHT = 1000.0  # far above any learned weight; its products fit into float32


def _text(value: str) -> str:
    """JSON can contain half of a surrogate pair; no answer could be encoded with it."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise PydanticCustomError("unicode", "Input has half of a surrogate pair") from None
    return value


def _sentence(value: Any) -> Any:
    """Gives one error line; the errors of a union name each of its members."""
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
    """In JSON 2.0 is an integer, and some languages write all numbers like this."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


WHOLE = BeforeValidator(_whole)  # after the bounds; before them it hides them from OpenAPI
Text = Annotated[str, AfterValidator(_text)]
Sentence = Annotated[
    str | list[str],
    Field(description="A text to be tokenized, or its words."),
    BeforeValidator(_sentence),
]
Weight = Annotated[float, Field(ge=-MAX_WEIGHT, le=MAX_WEIGHT, allow_inf_nan=False)]
LayerNumber = Annotated[int, Field(ge=0, le=999), WHOLE]
Layer = LayerNumber | Literal["mix", "meaning"]
LayerAsked = Annotated[
    Layer | None,
    Field(description="null: the lens for meaning if the index has it, otherwise the mix."),
]
Weights = Annotated[
    Annotated[list[Weight], Field(fail_fast=True)] | None,
    Field(description="Weights of the layers in the mix, one per layer; equal if left out."),
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
    """Every answer that is not 2xx; in OpenAI's format, so its clients show the message."""

    error: Problem


# Words and vectors ------------------------------------------------------------------------------


class Unreadable(_Answer):
    """Words that the model cannot read. They all look alike to it; their vectors mean nothing."""

    share: float = Field(description="Of the words, from 0 to 1.")
    message: str


class _Read(_Answer):
    """An answer about a text."""

    unreadable: Unreadable | None = Field(
        default=None, description="null if the model can read more than four fifths of the words."
    )


class WordsRequest(_Request):
    text: Text


class WordsAnswer(_Read):
    """The words that the model will read."""

    words: list[str]
    spans: list[Span] = Field(description="Start and end of each word, in Unicode characters.")


class EmbedRequest(_Request):
    sentences: Annotated[list[Sentence], Field(fail_fast=True)]
    layers: Literal["all", "mix", "meaning"] | LayerNumber = Field(
        default="all", description="meaning: the vectors of the model's lens, if it has one."
    )
    weights: Weights = None
    gamma: Weight = Field(default=1.0, description="The scale of the mix.")


class EmbeddedSentence(_Answer):
    """One sentence: its words and the requested layers."""

    words: list[str]
    spans: list[Span] | None = Field(description="null if words were given, not a text.")
    layers: list[list[list[float]]] = Field(description="Layers × words × numbers.")


class EmbedAnswer(_Read):
    model: str
    dim: int
    sentences: list[EmbeddedSentence]


class SimilarityRequest(_Request):
    a: Sentence
    b: Sentence
    weights: Weights = None


class SimilarityAnswer(_Read):
    """The similarity of each word of one sentence to each word of another."""

    words_a: list[str]
    words_b: list[str]
    layers: list[list[list[float]]] = Field(
        description="Cosines, words of a × words of b: for each layer, then for the mix."
    )
    meaning: list[list[float]] | None = Field(
        default=None, description="The same by the model's lens; null if it has none."
    )


# OpenAI's format -------------------------------------------------------------------------------


class OpenAIRequest(Foreign):
    """Other fields are ignored: clients send many."""

    input: (
        Annotated[Text, Field(min_length=1)]
        | Annotated[list[Sentence], Field(min_length=1, fail_fast=True)]
    )
    model: str = Field(default="", description="Any name; the answer has the real one.")
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1), WHOLE] | None = Field(
        default=None, description="Must be the dim of the model."
    )


class OpenAIEmbedding(_Answer):
    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str = Field(description="Numbers, or base64 of little-endian float32.")


class OpenAIUsage(_Answer):
    prompt_tokens: int = Field(description="Words.")
    total_tokens: int


class OpenAIAnswer(_Read):
    object: Literal["list"] = "list"
    data: list[OpenAIEmbedding]
    model: str
    usage: OpenAIUsage


# Search -----------------------------------------------------------------------------------------


class NeighborsRequest(_Request):
    sentence: Sentence
    position: Annotated[int, Field(ge=0, le=2**31, description="Counted from 0."), WHOLE]
    k: Annotated[int, Field(ge=1, le=MAX_K), WHOLE] = 10
    layer: LayerAsked = None
    weights: Weights = None
    same_word: bool = Field(default=True, description="Search only uses of the same word.")


class WordAt(_Answer):
    words: list[str]
    position: int


class Use(WordAt):
    """A word in an indexed sentence."""

    id: int
    text: str | None = Field(
        default=None,
        description="The sentence as it is written in the file, if that is known and differs from "
        "its words with a space between them.",
    )
    file: str | None = Field(default=None, description="Where the sentence stands, if known.")
    line: int | None = Field(default=None, description="In the file, from 1.")


class Passage(Use):
    """An indexed use with the text around its sentence: a paragraph, or a few lines."""

    before: str
    after: str


class Examples(_Answer):
    examples: list[Use]


class WordsAsked(BaseModel):
    """The query of `/index/words`."""

    model_config = ConfigDict(extra="forbid")

    letters: str = Field(default="", max_length=100)
    order: Order = "uses"
    start: int = Field(default=0, ge=0)
    n: int = Field(default=50, ge=1, le=MAX_WORDS)


class WordOfIndex(_Answer):
    word: str
    uses: int = Field(description="How often it occurs in the text.")
    senses: int | None = Field(description="None: not counted yet.")


class WordsOfIndex(_Answer):
    words: list[WordOfIndex]
    total: int = Field(description="How many words there are with these letters.")
    counted: float = Field(description="The share of words whose senses have been counted.")


class Neighbor(Use):
    score: float = Field(description="Cosine.")


class WordScore(_Answer):
    word: str
    score: float


class NeighborsAnswer(_Read):
    query: WordAt
    neighbors: list[Neighbor]
    static: list[WordScore] = Field(description="The nearest words without context.")


class Sense(_Answer):
    """A cluster of uses of a word."""

    size: int
    typical: list[Use]
    characteristic: list[str] = Field(description="Words that are frequent around this sense.")


class MapPoint(Use):
    x: float
    y: float
    sense: int = Field(description="Position in the list of senses.")


class SensesAnswer(_Answer):
    word: str
    n_uses: int
    senses: list[Sense]
    map: list[MapPoint]


# Words that fit a place --------------------------------------------------------------------------


class SubstitutesRequest(_Request):
    sentence: Sentence
    position: Annotated[int, Field(ge=0, le=2**31, description="Counted from 0."), WHOLE]
    top: Annotated[int, Field(ge=1, le=MAX_TOP), WHOLE] = 10


class WordProbability(_Answer):
    word: str
    probability: float


class SubstitutesAnswer(_Read):
    """The words most likely in the place of a word, which the model does not see."""

    query: WordAt
    substitutes: list[WordProbability] = Field(description="The most likely first.")


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
    origins: bool = Field(description="Whether it knows in which file and line sentences stand.")
    layers: list[int | Literal["mix", "meaning"]] = Field(
        description="Layers that can be searched."
    )


class InfoAnswer(_Answer):
    name: str
    dim: int
    n_layers: int = Field(description="Including layer 0.")
    context_free: bool = Field(description="Whether layer 0 depends on the word alone.")
    fingerprint: str
    precision: str
    version: str
    limits: Limits
    index: IndexInfo | None
    substitutes: bool = Field(description="Whether the model can predict words.")
    meaning: bool = Field(description="Whether the model has a lens for meaning.")


class HealthAnswer(_Answer):
    status: Literal["ok"] = "ok"
