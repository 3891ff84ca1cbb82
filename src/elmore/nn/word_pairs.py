"""Static word vectors learned from pairs of words, one pair after another: by gradient descent on
skip-grams with negative samples (word2vec), by AdaGrad on counts (GloVe).

    skip-grams   -log σ(w · c) - Σ over drawn words s of log σ(-w · c_s)
    GloVe        ½ min(1, x / most)^power · (w · c + b + b' - log x)²    for words met x times

The compiled kernel does it; without one NumPy does the same, a hundred times slower. They differ by
rounding only. Tables are changed in place.
"""

# V words, D vector dim, n pairs, k words drawn for each
import ctypes
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.kernel_files import find_library

Ids = NDArray[np.int32]
Numbers = NDArray[np.float32]
COUNTED = np.dtype([("first", "<i4"), ("second", "<i4"), ("count", "<f4")])
"""Two words and how often they were met; one record stands for both orders."""
_LEAST = np.float32(1e-10)  # of a probability in the loss


@dataclass(frozen=True, slots=True)
class SkipGramTables:
    """What predicts, and what is predicted."""

    words: Tensor  # (V, D)
    contexts: Tensor  # (V, D)

    def learn(self, predicting: Ids, predicted: Ids, rate: float) -> float:
        """A step on each pair: predicting (n,); predicted (n, 1 + k), the word that was met, then
        those drawn. One that was drawn but is the word that was met does not count. Returns the
        summed loss before the steps."""
        return _skip_grams()(self, predicting, predicted, rate)


@dataclass(frozen=True, slots=True)
class GloveTables:
    """Vectors of words and of their contexts, a bias at the end of each row, and beside every
    number the sum of its squared steps, which starts at one."""

    words: Tensor  # (V, D + 1)
    contexts: Tensor
    words_sum: Tensor
    contexts_sum: Tensor

    def learn(
        self, pairs: NDArray[np.void], rate: float, *, most: float = 100.0, power: float = 0.75
    ) -> float:
        """A step on both orders of each record (n,) of `COUNTED`; returns the summed loss."""
        return _glove()(self, pairs, rate, most, power)


def _skip_grams() -> Callable[[SkipGramTables, Ids, Ids, float], float]:
    return numpy_skip_grams if find_library() is None else native_skip_grams


def _glove() -> Callable[[GloveTables, NDArray[np.void], float, float, float], float]:
    return numpy_glove if find_library() is None else native_glove


# In NumPy -----------------------------------------------------------------------------------------


def numpy_skip_grams(tables: SkipGramTables, predicting: Ids, predicted: Ids, rate: float) -> float:
    words, contexts = (table.numpy() for table in (tables.words, tables.contexts))
    loss = 0.0
    for word, rows in zip(predicting, predicted, strict=True):
        counts = rows != rows[0]
        counts[0] = True
        rows = rows[counts]
        met = np.zeros(len(rows), np.float32)
        met[0] = 1.0
        old = contexts[rows]  # (1 + k, D)
        with np.errstate(over="ignore"):  # of words that cannot be near each other
            scores = 1 / (1 + np.exp(-(old @ words[word])))  # σ
        loss -= float(np.log(np.maximum(np.where(met, scores, 1 - scores), _LEAST)).sum())
        step = np.float32(rate) * (met - scores)
        np.add.at(contexts, rows, np.outer(step, words[word]))
        words[word] += step @ old
    return loss


def numpy_glove(
    tables: GloveTables, pairs: NDArray[np.void], rate: float, most: float, power: float
) -> float:
    arrays = (tables.words, tables.contexts, tables.words_sum, tables.contexts_sum)
    words, contexts, words_sum, contexts_sum = (array.numpy() for array in arrays)
    loss = 0.0
    for first, second, count in pairs.tolist():
        for i, j in {(first, second): 0, (second, first): 0}:  # one order of a word with itself
            word, context = words[i], contexts[j]
            error = word[:-1] @ context[:-1] + word[-1] + context[-1] - np.log(count)
            weight = min(1.0, count / most) ** power
            loss += 0.5 * weight * error**2
            off = np.float32(rate * weight * error)
            steps = off * np.append(context[:-1], 1), off * np.append(word[:-1], 1)
            for row, total, step in zip(
                (word, context), (words_sum[i], contexts_sum[j]), steps, strict=True
            ):
                row -= step / np.sqrt(total)
                total += step * step
    return loss


# In the kernel ------------------------------------------------------------------------------------


class _SkipGrams(ctypes.Structure):
    """`SkipGrams` of pairs.cpp."""

    _fields_ = (
        ("words", ctypes.c_void_p),
        ("contexts", ctypes.c_void_p),
        ("words_of", ctypes.c_void_p),
        ("predicted", ctypes.c_void_p),
        ("n", ctypes.c_int64),
        ("others", ctypes.c_int64),
        ("dim", ctypes.c_int64),
        ("rate", ctypes.c_float),
    )


class _Glove(ctypes.Structure):
    """`Glove` of pairs.cpp."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in GloveTables.__slots__),
        ("pairs", ctypes.c_void_p),
        ("n", ctypes.c_int64),
        ("dim", ctypes.c_int64),
        ("rate", ctypes.c_float),
        ("most", ctypes.c_float),
        ("power", ctypes.c_float),
    )


def native_skip_grams(
    tables: SkipGramTables, predicting: Ids, predicted: Ids, rate: float
) -> float:
    n_words, dim = tables.words.shape
    _check((tables.words, tables.contexts), (n_words, dim))
    n, k = predicted.shape
    assert predicting.shape == (n,)
    predicting, predicted = (_ids(array, n_words) for array in (predicting, predicted))
    step = _SkipGrams(
        tables.words.data_ptr(), tables.contexts.data_ptr(),
        predicting.ctypes.data, predicted.ctypes.data, n, k - 1, dim, rate,
    )  # fmt: skip
    scratch = np.empty(dim + k, np.float32)
    return _call("elmore_skip_grams", ctypes.byref(step), ctypes.c_void_p(scratch.ctypes.data))


def native_glove(
    tables: GloveTables, pairs: NDArray[np.void], rate: float, most: float, power: float
) -> float:
    n_words, width = tables.words.shape
    arrays = (tables.words, tables.contexts, tables.words_sum, tables.contexts_sum)
    _check(arrays, (n_words, width))
    pairs = np.ascontiguousarray(pairs, COUNTED)
    for name in ("first", "second"):
        _ids(pairs[name], n_words)
    pointers = (array.data_ptr() for array in arrays)
    step = _Glove(*pointers, pairs.ctypes.data, len(pairs), width - 1, rate, most, power)
    return _call("elmore_glove", ctypes.byref(step))


def _check(tables: tuple[Tensor, ...], shape: tuple[int, int]) -> None:
    """The kernel itself looks at nothing."""
    for table in tables:
        assert table.is_contiguous()
        assert table.device.type == "cpu"
        assert table.dtype == torch.float32
        assert tuple(table.shape) == shape


def _ids(array: Ids, n_words: int) -> Ids:
    assert array.size == 0 or (array.min() >= 0 and array.max() < n_words)
    return np.ascontiguousarray(array, np.int32)


def _call(name: str, *arguments: object) -> float:
    library = find_library()
    assert library is not None
    function = getattr(library, name)
    function.restype = ctypes.c_double
    return float(function(*arguments))
