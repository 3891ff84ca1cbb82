"""The fast way to run a finished model where no gradient is needed: `runner_for` chooses it.

A biLM spells each distinct word once and reads sentences without padding; so does a BERT with its
pieces; any other model is run as it is. A sentence's vectors depend on that sentence alone.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Protocol
from weakref import WeakSet

import torch
from numpy.typing import NDArray
from torch import nn

from elmore.engine.bert import BertRunner
from elmore.engine.kernel import Kernel, NoKernel, find_kernel
from elmore.engine.lstm import LSTMRunner
from elmore.engine.module import ModuleRunner, TransformerRunner
from elmore.engine.native_lstm import NativeLayer, Precision
from elmore.engine.torch_lstm import TorchLayer
from elmore.engine.word_vectors import WordVectors
from elmore.errors import ConfigError
from elmore.models.bert import Bert
from elmore.models.bilm import BiLM
from elmore.models.layers import LayerModel
from elmore.nn.lstm import BiLSTM, LSTMLayer, LSTMState
from elmore.nn.transformer import BiTransformer
from elmore.text.batching import batches_by_length
from elmore.text.reader import Input, Reader

Layers = NDArray[Any]  # (layers, words, dim)

BUILD = "python -m elmore.engine.build_kernel"


def check_precision(
    precision: str, model: LayerModel, device: torch.device, kernel: Kernel | NoKernel | None = None
) -> Precision:
    """`precision`, or an error that says why this model cannot be run with it here."""
    if precision == "float32":
        return "float32"
    if precision not in ("bfloat16", "int8"):
        raise ConfigError(f"precision is {precision!r}; expected 'float32', 'bfloat16' or 'int8'.")
    if precision == "bfloat16":
        if not isinstance(model, Bert):
            raise ConfigError("precision is 'bfloat16', which is for BERT; this is another model.")
        return "bfloat16"
    if not isinstance(model, Bert) and not (isinstance(model, BiLM) and model.config.has_state):
        raise ConfigError(
            "precision is 'int8', which is for LSTM models and BERT; this is another model."
        )
    if device.type != "cpu":
        raise ConfigError(f"precision is 'int8', which runs on a CPU; device is '{device}'.")
    found = find_kernel() if kernel is None else kernel
    if isinstance(found, NoKernel):
        raise ConfigError(
            f"precision is 'int8', which needs the compiled kernel, and {found.reason}; "
            f"with a C++ compiler, `{BUILD}` makes it."
        )
    return "int8"


def is_plain(model: nn.Module) -> bool:
    """Whether all of it is float32 on a CPU, as the kernel needs."""
    return all(p.device.type == "cpu" and p.dtype == torch.float32 for p in model.parameters())


def describe() -> str:
    """Which engine runs LSTM models and BERT on this machine's CPU, and why."""
    match find_kernel():
        case Kernel(name=name):
            return f"compiled kernel ({name}), float32 and int8"
        case NoKernel(reason=reason):
            return f"PyTorch, float32 only: {reason} (`{BUILD}` makes it)"


class BatchRunner(Protocol):
    """How one kind of model runs one batch."""

    @property
    def remembers(self) -> bool:
        """Whether what is kept from call to call never changes a result."""

    def embed(self, inputs: Sequence[Any]) -> list[Layers]: ...

    def forget(self) -> None:
        """Drop whatever is kept from earlier calls."""


class Runner:
    """Sentences of words in, layers out. The model's weights must not change from now on."""

    def __init__(self, model: LayerModel, reader: Reader, batch_runner: BatchRunner):
        self._device = next(model.parameters()).device.type
        self._model, self._reader, self._inner = model, reader, batch_runner
        self._lock = Lock()  # the tables of known words are shared by all callers
        _RUNNERS.add(self)

    def embed(self, inputs: Sequence[Input], batch_words: int = 2**62) -> list[Layers]:
        """(layers, words, dim) of each input, which depends on that input alone."""
        done: dict[int, Layers] = {}
        with self._lock, exactly(self._device):
            self._begin()
            for batch in batches_by_length([*map(self._reader.length, inputs)], batch_words):
                layers = self._inner.embed([inputs[i] for i in batch])
                done.update(zip(batch, layers, strict=True))
        return [done[i] for i in range(len(inputs))]

    def zero_state(self) -> LSTMState:
        """Of no rows yet; an error if the model carries no state."""
        if not isinstance(self._model, BiLM):
            raise ConfigError("Only an LSTM carries state; this model has none. Use embed().")
        return self._model.zero_state(0)

    def embed_on(
        self, sentences: Sequence[Sequence[str]], state: LSTMState
    ) -> tuple[list[Layers], LSTMState]:
        """Sentence i continues from row i of `state`; the rows after it are returned too."""
        assert isinstance(self._inner, LSTMRunner)  # other models have no state
        with self._lock, exactly(self._device):
            self._begin()
            return self._inner.embed_on(sentences, state)

    def forget(self) -> None:
        """Drop all known words; this changes only how long the next call takes."""
        with self._lock:
            self._inner.forget()

    def _begin(self) -> None:
        """The same call gives the same bits, whatever came before: a word is kept from call to call
        only if its vector does not depend on the words it was computed with."""
        if not self._inner.remembers:
            self._inner.forget()


def runner_for(
    model: LayerModel,
    reader: Reader,
    *,
    precision: Precision = "float32",
    kernel: Kernel | NoKernel | None = None,
) -> Runner:
    """The fastest way to run this kind of model. `kernel` is found unless it is given."""
    found = find_kernel() if kernel is None else kernel
    usable = found if isinstance(found, Kernel) and is_plain(model) else None
    with exactly(next(model.parameters()).device.type):
        return Runner(model, reader, _batch_runner(model, reader, precision, usable))


def _batch_runner(
    model: LayerModel, reader: Any, precision: Precision, kernel: Kernel | None
) -> BatchRunner:
    match model:
        case BiLM(context=BiLSTM() as lstm):
            words = WordVectors(model.words, lstm.config.dim, reader, kernel)
            return _lstm_runner(lstm, words, precision, kernel)
        case BiLM(context=BiTransformer() as transformer):
            words = WordVectors(model.words, transformer.config.dim, reader, kernel)
            return TransformerRunner(transformer, words)
        case Bert():
            return BertRunner(model, reader, kernel, precision)
    return ModuleRunner(model, reader)


def _lstm_runner(
    context: BiLSTM, words: WordVectors, precision: Precision, kernel: Kernel | None
) -> LSTMRunner:
    layers = [layer for layer in context.layers if isinstance(layer, LSTMLayer)]
    if kernel is None:
        n_gates = 4 * context.config.cell_dim
        return LSTMRunner(context, words, [TorchLayer(layer) for layer in layers], n_gates)
    native = [NativeLayer(layer, kernel, precision, first=i == 0) for i, layer in enumerate(layers)]
    return LSTMRunner(context, words, native, native[0].n_gates)


@contextmanager
def exactly(device: str) -> Iterator[None]:
    """In the model's own precision, also inside the caller's autocast."""
    with torch.inference_mode(), torch.autocast(device, enabled=False):
        yield


_RUNNERS: WeakSet[Runner] = WeakSet()


def _after_fork() -> None:
    """A thread that held a lock in the parent does not exist in the child."""
    for runner in list(_RUNNERS):
        runner._lock = Lock()
        runner._inner.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
