"""BERT without gradients: rows of similar length in batches of a bounded number of pieces, a batch
per thread, so that nothing waits inside a block. Only the words' own places go through the end of
the top block, and each layer is written into the arrays that are returned.
"""

# B inputs, W words of all, P pieces of all words, R rows, N positions of all rows, L layers, D dim
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from elmore.engine.kernel import Kernel
from elmore.engine.native_bert import NativeBlock
from elmore.engine.threads import side_by_side
from elmore.models.bert import Bert, equal_lengths, with_free
from elmore.nn.post_norm import PostNormBlock
from elmore.nn.rounding import free_rows
from elmore.text.piece_reader import PieceBatch, PieceReader
from elmore.text.reader import Input, IntArray

PIECES = 1024
"""Positions computed together by one thread. More takes more memory and is not faster."""
_WORTH_A_THREAD = 32  # positions

Array = NDArray[Any]


class Block(Protocol):
    """One block on rows of these lengths; of all positions, or of some places alone."""

    def __call__(
        self, x: Tensor, lengths: IntArray, places: Tensor | None, threads: int
    ) -> Tensor: ...


class TorchBlock:
    """By PyTorch; in bfloat16, products have 8 bits, and sums and norms all of theirs."""

    def __init__(self, block: PostNormBlock, *, bf16: bool):
        self._block, self._bf16 = block, bf16
        if bf16:
            self._block = copy.deepcopy(block)
            for part in self._block.modules():
                if isinstance(part, nn.Linear):
                    part.to(torch.bfloat16)

    def __call__(self, x: Tensor, lengths: IntArray, places: Tensor | None, threads: int) -> Tensor:
        n = len(x) if places is None else len(places)
        with torch.autocast(x.device.type, torch.bfloat16, enabled=self._bf16):
            if free := free_rows(len(x), x.device):
                x, lengths = F.pad(x, (0, 0, 0, free)), with_free(lengths, free)
            if places is not None:
                places = F.pad(places, (0, free_rows(n, x.device)))
            y: Tensor = self._block(x, equal_lengths(lengths), places)
        return y[:n].float() if self._bf16 else y


@dataclass(frozen=True, slots=True)
class Span:
    """Words of one input that stand in one row."""

    owner: int  # 0 to B - 1
    words: slice
    places: slice  # of the chunk's places
    begins: IntArray  # the first of these places of each word
    shares: Array  # (words, 1), one divided by the number of the word's pieces


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows that are computed together."""

    ids: IntArray  # (n,)
    segments: IntArray  # (n,)
    lengths: IntArray  # (R,)
    places: IntArray  # positions that are returned, span by span
    spans: list[Span]


class BertRunner:
    """A finished BERT behind its reader; nothing is kept from call to call."""

    remembers = True

    def __init__(self, model: Bert, reader: PieceReader, kernel: Kernel | None, precision: str):
        self._model, self._reader = model, reader
        self._blocks = [_block(block, kernel, precision) for block in model.blocks]
        self._on_cpu = model.embed.pieces.weight.device.type == "cpu"

    def embed(self, inputs: Sequence[Input]) -> list[Array]:
        """(L + 1, n, D) per input."""
        batch, first = self._reader.read(inputs), self._model.config.pieces == "first"
        new, sizes = np.empty if first else np.zeros, (self._model.n_layers, self._model.dim)
        kind = np.float64 if self._model.embed.norm.weight.dtype == torch.float64 else np.float32
        layers = [new((sizes[0], n, sizes[1]), kind) for n in batch.n_words]
        threads = torch.get_num_threads() if self._on_cpu else 1
        chunks, shared = chunked(batch, threads, first=first)
        run = partial(self._run, layers, threads=threads if len(chunks) == 1 else 1)
        side_by_side([partial(run, chunk) for chunk in chunks], 1 if shared else threads)
        return layers

    def forget(self) -> None:
        """Nothing to drop."""

    def _run(self, layers: list[Array], chunk: Chunk, *, threads: int) -> None:
        device = self._model.embed.pieces.weight.device
        starts = np.cumsum(chunk.lengths) - chunk.lengths
        columns = np.arange(len(chunk.ids)) - np.repeat(starts, chunk.lengths)
        inputs = (chunk.ids, chunk.segments, columns)
        x = self._model.embed(*(torch.from_numpy(a).to(device) for a in inputs))  # (n, D)
        self._write(layers, 0, chunk, x, chunk.places)
        for i, block in enumerate(self._blocks, start=1):
            top = i == len(self._blocks)
            places = torch.from_numpy(chunk.places).to(device) if top else None
            x = block(x, chunk.lengths, places, threads)
            self._write(layers, i, chunk, x, np.arange(len(x)) if top else chunk.places)

    def _write(
        self, layers: list[Array], layer: int, chunk: Chunk, x: Tensor, places: IntArray
    ) -> None:
        """The spans' vectors; `places` are their rows of x."""
        rows, first = x.cpu().numpy(), self._model.config.pieces == "first"
        for span in chunk.spans:
            target = layers[span.owner][layer, span.words]
            if first:
                np.take(rows, places[span.places], axis=0, out=target, mode="clip")
            else:
                found = rows[places[span.places]]
                target += np.add.reduceat(found, span.begins, axis=0) * span.shares


def _block(block: Any, kernel: Kernel | None, precision: str) -> Block:
    if kernel is None or precision == "bfloat16":
        return TorchBlock(block, bf16=precision == "bfloat16")
    return NativeBlock(block, kernel, int8=precision == "int8")


def chunked(batch: PieceBatch, threads: int, *, first: bool) -> tuple[list[Chunk], bool]:
    """The batch in parts of about equal size, and whether two of them share a word."""
    places, words = batch.places, batch.words  # (P,)
    counts = np.bincount(words)  # (W,)
    if first:
        begins = np.flatnonzero(np.diff(words, prepend=-1))
        places, words = places[begins], words[begins]
    ends = np.cumsum(batch.lengths)  # (R,)
    row = np.searchsorted(ends, places, side="right")
    owner = np.repeat(np.arange(len(batch.n_words)), batch.n_words)[words]
    new = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(owner, prepend=-1) != 0))
    spans = np.split(np.arange(len(places)), new[1:]) if len(new) else []
    spans.sort(key=lambda span: int(row[span[0]]))  # stable
    shared = len(new) > 1 and bool((words[new[1:]] == words[new[1:] - 1]).any())
    offset = np.cumsum(batch.n_words) - batch.n_words  # (B,)
    span_rows = np.array([row[span[0]] for span in spans], dtype=np.int64)
    chunks = []
    for a, b in _parts(ends, threads):
        at = slice(int(ends[a] - batch.lengths[a]), int(ends[b - 1]))
        mine = spans[slice(*np.searchsorted(span_rows, [a, b]))]
        chosen = np.concatenate([np.zeros(0, np.int64), *mine])
        starts = np.cumsum([0, *map(len, mine)])
        chunks.append(
            Chunk(
                batch.ids[at],
                batch.segments[at],
                np.ascontiguousarray(batch.lengths[a:b]),
                places[chosen] - at.start,
                [
                    _span(owner[span[0]], words[span], offset, start, counts)
                    for span, start in zip(mine, starts, strict=False)
                ],
            )
        )
    return chunks, shared


def _span(owner: int, words: IntArray, offset: IntArray, start: int, counts: IntArray) -> Span:
    first, last = words[0], words[-1] + 1
    begin = int(first - offset[owner])
    return Span(
        int(owner),
        slice(begin, begin + int(last - first)),
        slice(int(start), int(start) + len(words)),
        np.flatnonzero(np.diff(words, prepend=-1)),
        (1 / counts[first:last]).astype(np.float32)[:, None],
    )


def _parts(ends: IntArray, threads: int) -> Iterator[tuple[int, int]]:
    """Rows from … to: as many parts as threads can share, none much over the limit."""
    total = int(ends[-1]) if len(ends) else 0
    n = -(-total // PIECES)
    if threads > 1 and total >= threads * _WORTH_A_THREAD:
        n = -(-n // threads) * threads
    limits = np.searchsorted(ends, [total * i / max(1, n) for i in range(1, n)], side="left") + 1
    edges = np.unique([0, *limits, len(ends)])
    yield from zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
