"""ELMo, and more: contextual word vectors you can load, train, store, search and plug in."""

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
