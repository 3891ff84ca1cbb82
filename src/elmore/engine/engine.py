"""The fast way to run a finished biLM where no gradient is needed. Each distinct word is spelled
once and, before an LSTM, its input gates are computed once; sentences are read without padding;
the steps over the marks are the same for every sentence and are taken once; the two directions
run side by side.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any
from weakref import WeakSet

import torch
from numpy.typing import NDArray

from elmore.engine.kernel import Kernel, NoKernel, find_kernel
from elmore.engine.lstm import LSTMEngine
from elmore.engine.native_lstm import NativeLayer, Precision
from elmore.engine.torch_lstm import TorchLayer
from elmore.engine.transformer import TransformerEngine
from elmore.engine.word_vectors import WordVectors
from elmore.errors import ConfigError
from elmore.models.bilm import BiLM
from elmore.nn.lstm import BiLSTM, LSTMLayer, LSTMState
from elmore.text.batching import Speller, batches_by_length

BUILD = "python -m elmore.engine.build_kernel"


def check_precision(
    precision: str, model: BiLM, device: torch.device, kernel: Kernel | NoKernel | None = None
) -> Precision:
    """The same, or an error that says why a model cannot be run with it here."""
    if precision == "float32":
        return "float32"
    if precision != "int8":
        raise ConfigError(f"precision is {precision!r}; expected 'float32' or 'int8'.")
    if not isinstance(model.context, BiLSTM):
        raise ConfigError("precision is 'int8', which is for LSTM models; this is a Transformer.")
    if device.type != "cpu":
        raise ConfigError(f"precision is 'int8', which runs on a CPU; device is '{device}'.")
    found = find_kernel() if kernel is None else kernel
    if isinstance(found, NoKernel):
        raise ConfigError(
            f"precision is 'int8', which needs the compiled kernel, and {found.reason}; "
            f"with a C++ compiler, `{BUILD}` makes it."
        )
    return "int8"


def is_plain(model: BiLM) -> bool:
    """All of it in float32 on a CPU, as the kernel reads it."""
    return all(p.device.type == "cpu" and p.dtype == torch.float32 for p in model.parameters())


def describe() -> str:
    """Which engine runs LSTM models on this machine's CPU, and why."""
    match find_kernel():
        case Kernel(name=name):
            return f"compiled kernel ({name}), float32 and int8"
        case NoKernel(reason=reason):
            return f"PyTorch, float32 only: {reason} (`{BUILD}` makes it)"


class Engine:
    """Sentences of words in, layers out. The model's weights must not change any more."""

    def __init__(
        self,
        model: BiLM,
        speller: Speller,
        *,
        precision: Precision = "float32",
        kernel: Kernel | NoKernel | None = None,
    ):
        """`kernel` is found unless it is given."""
        found = find_kernel() if kernel is None else kernel
        usable = found if isinstance(found, Kernel) and is_plain(model) else None
        self._device = next(model.parameters()).device.type
        self._lock = Lock()  # the tables of known words are shared by all callers
        with self._exactly():
            words = WordVectors(model.words, model.config.words.dim, speller, usable)
            self._inner = (
                _lstm_engine(model.context, words, precision, usable)
                if isinstance(model.context, BiLSTM)
                else TransformerEngine(model.context, words)
            )
        self._remembers = words.alike
        _ENGINES.add(self)

    def embed(
        self, sentences: Sequence[Sequence[str]], batch_words: int = 2**62
    ) -> list[NDArray[Any]]:
        """(layers, words, dim) of each sentence, which depends on that sentence alone."""
        done: dict[int, NDArray[Any]] = {}
        with self._lock, self._exactly():
            self._begin()
            for batch in batches_by_length([len(words) for words in sentences], batch_words):
                layers = self._inner.embed([sentences[i] for i in batch])
                done.update(zip(batch, layers, strict=True))
        return [done[i] for i in range(len(sentences))]

    def embed_on(
        self, sentences: Sequence[Sequence[str]], state: LSTMState
    ) -> tuple[list[NDArray[Any]], LSTMState]:
        """Sentence i goes on from row i of `state`; an LSTM's rows after it come back too."""
        assert isinstance(self._inner, LSTMEngine)  # a Transformer has no state to give
        with self._lock, self._exactly():
            self._begin()
            return self._inner.embed_on(sentences, state)

    def forget(self) -> None:
        """As if no word had been seen yet; changes how long the next call takes, nothing else."""
        with self._lock:
            self._inner.forget()

    @contextmanager
    def _exactly(self) -> Iterator[None]:
        """In the model's own numbers, also where the caller would have them rounded."""
        with torch.inference_mode(), torch.autocast(self._device, enabled=False):
            yield

    def _begin(self) -> None:
        """The same call gives the same bits, whatever was asked before: a word is remembered from
        call to call only if its vector does not depend on the words it was computed with."""
        if not self._remembers:
            self._inner.forget()


def _lstm_engine(
    context: BiLSTM, words: WordVectors, precision: Precision, kernel: Kernel | None
) -> LSTMEngine:
    layers = [layer for layer in context.layers if isinstance(layer, LSTMLayer)]
    if kernel is None:
        n_gates = 4 * context.config.cell_dim
        return LSTMEngine(context, words, [TorchLayer(layer) for layer in layers], n_gates)
    native = [NativeLayer(layer, kernel, precision, first=i == 0) for i, layer in enumerate(layers)]
    return LSTMEngine(context, words, native, native[0].n_gates)


_ENGINES: WeakSet[Engine] = WeakSet()


def _after_fork() -> None:
    """Another thread may have been at work in them, and is not here to let go or to finish."""
    for engine in list(_ENGINES):
        engine._lock = Lock()
        engine._inner.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
