"""Its presence beside __init__.py puts the repository root on the path: `from tests.oracle ...`."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from elmore.checkpoint.sources import load, save
from elmore.embedder import Embedder
from tests.tiny_models import Tiny, make


@pytest.fixture(scope="session", autouse=True)
def interruptible() -> Iterator[None]:
    """A shell gives what it runs in the background a SIGINT that is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    """A small random model in the HDF5 format, with the arrays the oracle runs on."""
    return make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny_model(tiny: Tiny) -> Path:
    """The same model as a native folder."""
    folder = tiny.weights.parent / "native"
    save(load(tiny.weights), folder)
    return folder


@pytest.fixture(scope="session")
def tiny_embedder(tiny_model: Path) -> Embedder:
    return Embedder.load(tiny_model, device="cpu")
