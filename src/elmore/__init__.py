"""ELMo, and more: contextual word vectors you can load, train, store, search and plug in.

    >>> import elmore
    >>> embedder = elmore.Embedder.load("small-en")          # or a folder, a file, an archive
    >>> embedding = embedder.embed(["We sat on the river bank."])[0]
    >>> embedding["bank"]                                    # the vector of a word, (dim,)
    >>> embedder.sentence_vectors(["We sat.", "We ate."])    # one vector per sentence

Embedder         text in, vectors out: load, embed, stream, sentence_vectors, save
Embedding        one sentence: words, layers (layers, words, dim), top, average, mix
Elmo             a model inside your own PyTorch model, frozen or fine-tuned
ScalarMix        a learned mix of layers
Predictor        the words most likely in a place
Store            vectors on disk, each sentence once
CachedEmbedder   an Embedder that keeps what it has computed
Index            the uses of the words of a corpus: neighbors, senses
pretrain         train a language model on your own text
compare          train a task with and without each encoder
ElmoreError      what every error raised on purpose is

`elmore.integrations` has drop-ins for AllenNLP, bilm-tf, simple_elmo and ELMoForManyLangs. The
command `elmore --help` does all of this without Python.
"""

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from elmore.errors import ElmoreError

if TYPE_CHECKING:
    from elmore.elmo import Elmo
    from elmore.embedder import Embedder
    from elmore.embedding import Embedding
    from elmore.nn.scalar_mix import ScalarMix
    from elmore.predictor.predictor import Predictor
    from elmore.pretrain.run import pretrain
    from elmore.search.index import Index
    from elmore.store.cached import CachedEmbedder
    from elmore.store.store import Store
    from elmore.tasks.compare.compare import compare

__version__ = "0.1.0"
__all__ = [
    "CachedEmbedder",
    "Elmo",
    "ElmoreError",
    "Embedder",
    "Embedding",
    "Index",
    "Predictor",
    "ScalarMix",
    "Store",
    "compare",
    "pretrain",
]

# Imported on first use, because torch takes seconds to import and `elmore --help` should not.
_HOMES = {
    "CachedEmbedder": "elmore.store.cached",
    "Elmo": "elmore.elmo",
    "Embedder": "elmore.embedder",
    "Embedding": "elmore.embedding",
    "Index": "elmore.search.index",
    "Predictor": "elmore.predictor.predictor",
    "ScalarMix": "elmore.nn.scalar_mix",
    "Store": "elmore.store.store",
    "compare": "elmore.tasks.compare.compare",
    "pretrain": "elmore.pretrain.run",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'elmore' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


class _FrontDoor(ModuleType):
    """This module. `elmore.pretrain` is a function, but also a package, and Python sets the name to
    the package on import. The function keeps the name; modules of the package are its attributes,
    so that `elmore.pretrain.config` is found as in any package."""

    @property
    def pretrain(self) -> Any:
        function = __getattr__("pretrain")
        for name, module in vars(sys.modules["elmore.pretrain"]).items():
            if isinstance(module, ModuleType):
                setattr(function, name, module)
        return function

    @pretrain.setter
    def pretrain(self, package: ModuleType) -> None:
        """Called by the import system."""


sys.modules[__name__].__class__ = _FrontDoor
