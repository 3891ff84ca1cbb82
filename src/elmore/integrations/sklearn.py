"""scikit-learn: texts to vectors, as the first step of a pipeline.

make_pipeline(ElmoVectorizer("elmo-original"), LogisticRegression())
"""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from elmore.embedder import LayerSource, lens_of
from elmore.embedding import Vectors, layer_choice
from elmore.integrations.text_vectors import (
    Pooling,
    cached_in,
    check_pooling,
    loaded,
    text_vectors,
)


class ElmoVectorizer(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Frozen vectors of texts. It holds the name of a model, not its weights: a copy, also in
    another process, loads the model itself, once per process."""

    def __init__(
        self,
        model: str = "small-en",
        *,
        pooling: Pooling = "mean",
        layers: str = "average",
        store: str | None = None,
        device: str = "auto",
        precision: str = "float32",
    ):
        """`layers`: all (side by side), top, average, meaning, or numbers such as 0,2. `store` is a
        folder that keeps the vectors of all layers, so that each text is computed once."""
        self.model = model
        self.pooling = pooling
        self.layers = layers
        self.store = store
        self.device = device
        self.precision = precision

    def fit(self, X: Any, y: Any = None) -> "ElmoVectorizer":
        """Learns nothing; checks the settings and the texts."""
        _texts(X)
        check_pooling(self.pooling)
        source = self._source()
        choice = layer_choice(self.layers, source.n_layers, lens=lens_of(source))
        self.n_columns_ = int(np.prod(choice.shape(source.dim)))
        return self

    def transform(self, X: Any) -> Vectors:
        """(texts, columns)."""
        check_is_fitted(self)
        return text_vectors(self._source(), _texts(X), self.pooling, self.layers)

    def get_feature_names_out(self, input_features: Any = None) -> Any:
        check_is_fitted(self)
        name = type(self).__name__.lower()
        return np.asarray([f"{name}{i}" for i in range(self.n_columns_)], dtype=object)

    def _source(self) -> LayerSource:
        embedder = loaded(str(self.model), self.device, self.precision)
        return embedder if self.store is None else cached_in(embedder, self.store)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.string = True
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.requires_fit = True
        return tags


def _texts(X: Any) -> list[Any]:
    """Strings or lists of words; a TypeError or ValueError as scikit-learn expects them."""
    if isinstance(X, str | bytes) or not hasattr(X, "__iter__"):
        raise ValueError(f"X is a {type(X).__name__}; expected a list of texts.")
    texts = list(X)
    for i, text in enumerate(texts):
        if not isinstance(text, str | list | tuple):
            raise ValueError(
                f"Text {i} is a {type(text).__name__}; expected a string or a list of words."
            )
    return texts
