"""`embed_documents` and `embed_query`, the two methods that LangChain and its like call. There is
nothing to install for it.
"""

from collections.abc import Sequence

from elmore.embedder import LayerSource
from elmore.integrations.text_vectors import Pooling, check_pooling, loaded, text_vectors


class TextEmbeddings:
    """One vector per text; a query is a text like any other."""

    def __init__(
        self,
        model: str | LayerSource = "small-en",
        *,
        pooling: Pooling = "mean",
        layers: str = "average",
    ):
        check_pooling(pooling)
        self.source = loaded(model) if isinstance(model, str) else model
        self.pooling, self.layers = pooling, layers

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        vectors = text_vectors(self.source, texts, self.pooling, self.layers)
        return [[float(number) for number in row] for row in vectors]

    def embed_query(self, text: str) -> list[float]:
        (vector,) = self.embed_documents([text])
        return vector
