"""Each distinct word is spelled once. On a CPU, convolutions are sums of look-ups: a character at
an offset always adds the same numbers to a window, so these are computed in advance.
"""

# W words, K places in a word's row, F filters, D output dim
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmore.engine.gate_table import LruRows
from elmore.engine.kernel import Kernel, with_native_linears
from elmore.engine.threads import side_by_side
from elmore.nn.char_cnn import CharCNN, without_spare_padding
from elmore.nn.word_char import WordChar
from elmore.text.reader import Speller

TABLE_BYTES = 64_000_000
"""The size of the table of known words."""
_CHUNK = 256  # words spelled together; limits the memory for windows of long words
_MAX_CHARACTERS = 1024  # a larger alphabet's look-up tables would be larger than the model
_WHOLE = 32  # torch's vector size; numbers left over are rounded differently


class WordVectors:
    """From words to their context-free vectors; the most recently used are kept."""

    def __init__(
        self,
        module: nn.Module,
        dim: int,
        speller: Speller,
        kernel: Kernel | None = None,
        n_bytes: int = TABLE_BYTES,
    ):
        like = next(module.parameters())
        self._module = module if kernel is None else with_native_linears(module, kernel)
        self._speller, self._kernel = speller, kernel
        self.known = LruRows(max(1, n_bytes // (dim * like.element_size())))
        self._table = like.new_empty(self.known.capacity, dim)
        spelling = module.spell if isinstance(module, WordChar) else module
        self._look_ups = _look_ups(spelling) if isinstance(spelling, CharCNN) else None
        sizes = [size for tensor in module.parameters() for size in tensor.shape[:1]]
        self._odd = any(size % _WHOLE for size in sizes)

    @property
    def alike(self) -> bool:
        """Whether a word gets the same bits whatever words are computed with it."""
        return self._kernel is not None and self._look_ups is not None

    def __call__(self, words: Sequence[str], n_threads: int = 1) -> Tensor:
        """Vectors of distinct words, (W, D)."""
        size = self.known.capacity
        parts = [self._some(words[i : i + size], n_threads) for i in range(0, len(words), size)]
        return torch.cat(parts) if parts else self._table[:0]

    def _some(self, words: Sequence[str], n_threads: int) -> Tensor:
        rows, new = self.known.rows(words)
        places = torch.from_numpy(rows).to(self._table.device)
        # Similar lengths together: a chunk is as wide as its longest word.
        new.sort(key=lambda i: len(words[i]))
        size = min(_CHUNK, -(-len(new) // n_threads)) or 1
        chunks = [new[start : start + size] for start in range(0, len(new), size)]

        def task(chunk: list[int]) -> Callable[[], Tensor]:
            return lambda: self._compute([words[i] for i in chunk])

        try:
            vectors = side_by_side([task(chunk) for chunk in chunks], n_threads)
        except BaseException:
            self.known.forget()
            raise
        for chunk, computed in zip(chunks, vectors, strict=True):
            self._table[places[chunk]] = computed
        return self._table[places]

    def _compute(self, words: list[str]) -> Tensor:
        rows = torch.from_numpy(self._speller.spell(words)).to(self._table.device)  # (W, K)
        if self.alike and self._odd:
            rows = F.pad(rows, (0, 0, 0, -len(rows) % _WHOLE))
        vectors: Tensor
        if self._look_ups is None:
            vectors = self._module(rows)
        elif isinstance(self._module, WordChar):
            known = self._module.embed
            spelled = self._spell(self._module.spell, rows if known is None else rows[:, 1:])
            parts = [spelled] if known is None else [known(rows[:, 0]), spelled]
            vectors = self._module.project(torch.cat(parts, dim=-1))
        else:
            assert isinstance(self._module, CharCNN)
            vectors = self._spell(self._module, rows)
        return vectors[: len(words)]  # (W, D)

    def _spell(self, spelling: CharCNN, rows: Tensor) -> Tensor:
        assert self._look_ups is not None
        rows = without_spare_padding(rows, spelling.config)
        maxima = [
            _maxima(rows, table, conv)
            for table, conv in zip(self._look_ups, spelling.convolutions, strict=True)
        ]
        return spelling.finish(torch.cat(maxima, dim=-1))


def _look_ups(spelling: CharCNN) -> list[Tensor] | None:
    """Per width, a table from (offset, character) to what it adds to the filters of its window."""
    alphabet = spelling.embed.weight  # (A, E)
    if alphabet.device.type != "cpu" or len(alphabet) > _MAX_CHARACTERS:
        return None
    return [
        torch.einsum("ae,nek->kan", alphabet, conv.weight).flatten(0, 1).contiguous()
        for conv in spelling.convolutions
        if isinstance(conv, nn.Conv1d)
    ]  # (k A, n) each


def _maxima(rows: Tensor, table: Tensor, conv: nn.Module) -> Tensor:
    assert isinstance(conv, nn.Conv1d)
    assert conv.bias is not None
    (width,) = conv.kernel_size
    windows = rows.unfold(1, width, 1)  # (W, K - k + 1, k)
    at = windows + torch.arange(width) * (len(table) // width)  # one alphabet per offset
    sums = F.embedding_bag(at.reshape(-1, width), table, mode="sum")
    maxima: Tensor = sums.unflatten(0, windows.shape[:2]).amax(dim=1) + conv.bias  # (W, n)
    return maxima
