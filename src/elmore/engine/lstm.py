"""Sentences through an LSTM biLM: shared tables first, then each direction, and each group of
sentences if there are enough threads, runs through all layers on its own.
"""

# B sentences, N words of all of them, n words of one, W distinct words, L layers, S = 2 directions,
# T steps, P projection dim (D of a layer), C cells
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmore.engine.gate_table import GateTable
from elmore.engine.threads import side_by_side
from elmore.engine.word_vectors import WordVectors
from elmore.nn.lstm import DIRECTIONS, BiLSTM, LSTMConfig, LSTMState
from elmore.text.reader import SENTENCE_BEGIN, SENTENCE_END

Array = NDArray[Any]
Positions = NDArray[np.int64]
_ROWS_WORTH_A_THREAD = 16
_BLOCK = 512  # places whose input gates are computed together


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows that are read together. Their state is updated in place."""

    active: NDArray[np.int32]  # (T,), how many rows still read at each step
    h: Tensor  # (B, D)
    c: Tensor  # (B, C)


class Layer(ABC):
    """One LSTM layer without gradients, both directions; outputs have no skip connection yet. The
    compiled kernel and plain PyTorch are two ways to compute its steps."""

    @abstractmethod
    def input_gates(self, direction: int, x: Tensor) -> Tensor:
        """x (N, D) -> gate sums (N, 4C), the recurrent part still missing."""

    @abstractmethod
    def fill(self, direction: int, x: Tensor, table: Tensor, numbers: Tensor) -> None:
        """The same, written to these rows of a table."""

    @abstractmethod
    def read_gates(
        self, direction: int, table: Tensor, numbers: Tensor | None, rows: Rows
    ) -> Tensor:
        """Place i has the input gates `table[numbers[i]]`, or `table[i]` -> outputs (N, D)."""

    def read(self, direction: int, x: Tensor, rows: Rows) -> Tensor:
        """x (N, D) -> outputs (N, D); input gates are computed for many steps at a time."""
        outputs, ends = torch.empty_like(x), np.cumsum(rows.active)
        start = first = 0
        while start < len(x):
            last = max(first + 1, int(np.searchsorted(ends, start + _BLOCK, side="right")))
            end, n = int(ends[last - 1]), int(rows.active[first])
            gates = self.input_gates(direction, x[start:end])
            some = Rows(rows.active[first:last], rows.h[:n], rows.c[:n])
            outputs[start:end] = self.read_gates(direction, gates, None, some)
            start, first = end, last
        return outputs


@dataclass(frozen=True, slots=True)
class _Words:
    """The distinct words of a batch, and their rows in the gate table unless they are too many."""

    number: dict[str, int]
    vectors: Tensor  # (W, P)
    rows: Tensor | None  # (W,)


@dataclass(frozen=True, slots=True)
class Plan:
    """The order of work without padding: sentences by decreasing length, and at each step only the
    rows that are not finished. It says where each word of some sentences, one after another, is
    read and found again. Both directions have the same shape; they differ in which word is read."""

    order: Positions  # (B,), which sentence is row b
    starts: Positions  # (B,), where row b begins among all words
    lengths: Positions  # (B,), decreasing
    active: NDArray[np.int32]  # (T,), rows still reading
    reads: tuple[Positions, Positions]  # (N,) per direction: the word that each place reads
    places: tuple[Positions, Positions]  # (N,) per direction: the place where each word is read


@dataclass(frozen=True, slots=True)
class _Group:
    """Sentences read together: which of the batch, in which order, and their words' numbers."""

    members: list[int]
    plan: Plan
    numbers: Tensor  # (N,), of the words of row after row


class LSTMRunner:
    """A finished BiLSTM behind its word vectors."""

    def __init__(self, context: BiLSTM, words: WordVectors, layers: Sequence[Layer], n_gates: int):
        self._zero_state = context.zero_state
        self._config: LSTMConfig = context.config
        self._words, self._layers = words, layers
        like = next(context.parameters())
        self._threads = None if like.device.type == "cpu" else 1
        self.table = GateTable(like, n_gates, layers[0].fill)
        self._marks = self._after_marks()

    @property
    def remembers(self) -> bool:
        return self._words.alike

    def embed(self, sentences: Sequence[Sequence[str]]) -> list[Array]:
        """(L + 1, n, 2P) per sentence; each starts from the state after its mark."""
        marks = (self._marks.h, self._marks.c)
        state = LSTMState(*(part.expand(-1, -1, len(sentences), -1) for part in marks))
        layers, _ = self._embed(sentences, state)
        return layers

    def embed_on(
        self, sentences: Sequence[Sequence[str]], state: LSTMState
    ) -> tuple[list[Array], LSTMState]:
        """The same from a given state: sentence i, with its marks, continues from row i."""
        marked = [[SENTENCE_BEGIN, *words, SENTENCE_END] for words in sentences]
        layers, after = self._embed(marked, state)
        return [of_one[:, 1:-1].copy() for of_one in layers], after

    def forget(self) -> None:
        """Drop all known words."""
        self._words.known.forget()
        self.table.known.forget()

    def _after_marks(self) -> LSTMState:
        """The state after a sentence's first mark: `<S>` forward, `</S>` backward."""
        _, after = self._embed([[SENTENCE_BEGIN], [SENTENCE_END]], self._zero_state(2))
        parts = (after.h, after.c)
        h, c = (torch.stack([part[:, 0, :1], part[:, 1, 1:]], dim=1) for part in parts)
        return LSTMState(h, c)  # of one row

    def _embed(
        self, sentences: Sequence[Sequence[str]], state: LSTMState
    ) -> tuple[list[Array], LSTMState]:
        words = self._look_up(sentences)
        groups = [_group(sentences, members, words) for members in self._deal(sentences)]
        after = LSTMState(torch.empty_like(state.h), torch.empty_like(state.c))

        def task(group: _Group, direction: int) -> Callable[[], list[Tensor]]:
            return lambda: self._read(group, direction, words, state, after)

        tasks = [task(group, direction) for group in groups for direction in range(DIRECTIONS)]
        outputs = side_by_side(tasks, self._n_threads())
        layers: dict[int, Array] = {}
        x = words.vectors.cpu().numpy()
        for i, group in enumerate(groups):
            layers |= _assembled(group, x, outputs[DIRECTIONS * i : DIRECTIONS * (i + 1)])
        return [layers[i] for i in range(len(sentences))], after

    def _look_up(self, sentences: Sequence[Sequence[str]]) -> _Words:
        number: dict[str, int] = {}
        for words in sentences:
            for word in words:
                number.setdefault(word, len(number))
        distinct = list(number)
        vectors = self._words(distinct, self._n_threads())
        rows = self.table.rows(distinct, vectors, self._n_threads())
        return _Words(number, vectors, None if rows is None else torch.from_numpy(rows))

    def _n_threads(self) -> int:
        return self._threads or torch.get_num_threads()

    def _deal(self, sentences: Sequence[Sequence[str]]) -> list[list[int]]:
        """Groups of similar sizes and lengths, as many as there are threads for both directions."""
        most = max(1, len(sentences) // _ROWS_WORTH_A_THREAD)
        n = max(1, min(self._n_threads() // DIRECTIONS, most))
        order = sorted(range(len(sentences)), key=lambda i: -len(sentences[i]))
        return [order[i::n] for i in range(n)]

    def _read(
        self, group: _Group, direction: int, words: _Words, before: LSTMState, after: LSTMState
    ) -> list[Tensor]:
        """One direction of one group: outputs (N, P) of each layer, in the plan's places."""
        device = words.vectors.device
        members = torch.tensor(group.members, device=device)[torch.from_numpy(group.plan.order)]
        numbers = group.numbers[torch.from_numpy(group.plan.reads[direction])]  # (N,)
        outputs: list[Tensor] = []
        for i, layer in enumerate(self._layers):
            h, c = before.h[i, direction, members], before.c[i, direction, members]
            rows = Rows(group.plan.active, h, c)
            if i > 0 or words.rows is None:
                x = outputs[-1] if i else words.vectors[numbers.to(device)]
                y = layer.read(direction, x, rows)
            else:
                known = words.rows[numbers].to(device)
                y = layer.read_gates(direction, self.table.gates[direction], known, rows)
            outputs.append(y.add_(outputs[-1]) if i and self._config.skip else y)
            after.h[i, direction, members], after.c[i, direction, members] = h, c
        return outputs


def _group(sentences: Sequence[Sequence[str]], members: list[int], words: _Words) -> _Group:
    work = plan([len(sentences[i]) for i in members])
    numbers = [words.number[word] for b in work.order for word in sentences[members[b]]]
    return _Group(members, work, torch.tensor(numbers, dtype=torch.int64))


def _assembled(group: _Group, x: Array, outputs: list[list[Tensor]]) -> dict[int, Array]:
    """Each sentence's own array: [x; x], then [forward; backward] of each layer."""
    sides = [[y.cpu().numpy() for y in side] for side in outputs]
    n_layers, dim = 1 + len(sides[0]), x.shape[1]
    work, numbers = group.plan, group.numbers.numpy()
    done: dict[int, Array] = {}
    for b, start, n in zip(work.order, work.starts, work.lengths, strict=True):
        span = slice(start, start + n)
        layers = np.empty((n_layers, n, DIRECTIONS * dim), x.dtype)
        layers[0, :, :dim] = layers[0, :, dim:] = x[numbers[span]]
        for direction, side in enumerate(sides):
            half = slice(direction * dim, (direction + 1) * dim)
            for i, y in enumerate(side):
                layers[i + 1, :, half] = y[work.places[direction][span]]
        done[group.members[b]] = layers
    return done


def plan(lengths: Sequence[int]) -> Plan:
    """Rows of equal length keep their order, so that the same sentences give the same plan."""
    given = np.asarray(lengths, dtype=np.int64)
    order = np.argsort(-given, kind="stable")
    falling = given[order]  # (B,)
    starts = np.cumsum(falling) - falling
    n_steps = int(falling.max(initial=0))
    active = np.searchsorted(-falling, -np.arange(n_steps), side="left")  # (T,)
    step = np.repeat(np.arange(n_steps), active)  # (N,)
    row = np.arange(len(step)) - np.repeat(np.cumsum(active) - active, active)
    ahead, behind = starts[row] + step, starts[row] + falling[row] - 1 - step
    return Plan(
        order=order,
        starts=starts,
        lengths=falling,
        active=active.astype(np.int32),
        reads=(ahead, behind),
        places=(_inverse(ahead), _inverse(behind)),
    )


def _inverse(permutation: Positions) -> Positions:
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(len(permutation))
    return inverse
