"""ELMo, and more: contextual word vectors you can load, train, store, search and plug in."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from elmore.errors import ElmoreError

if TYPE_CHECKING:
    from elmore.elmo import Elmo
    from elmore.embedder import Embedder, Embedding
    from elmore.nn.scalar_mix import ScalarMix
    from elmore.store.store import Store

__version__ = "0.1.0"
__all__ = ["Elmo", "ElmoreError", "Embedder", "Embedding", "ScalarMix", "Store"]

# Found on first use, because torch takes seconds to import and `elmore --help` should not.
_HOMES = {
    "Elmo": "elmore.elmo",
    "Embedder": "elmore.embedder",
    "Embedding": "elmore.embedder",
    "ScalarMix": "elmore.nn.scalar_mix",
    "Store": "elmore.store.store",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'elmore' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
