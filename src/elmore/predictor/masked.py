"""A BERT at a place: the word there is replaced by one `[MASK]`, however many pieces it has, and
the head of masked words says which piece is behind it.
"""

# B places, W words of all, R rows, N positions of all rows, V pieces
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from elmore.checkpoint.bert import bert_of
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.errors import FormatError
from elmore.models.bert import MASKED, MaskedHead
from elmore.models.masked_model import MaskedModel
from elmore.predictor.place import Place
from elmore.text.piece_reader import PieceBatch, PieceReader
from elmore.text.reader import IntArray, Words
from elmore.text.wordpiece import WordPiece

_ONE_PIECE = ""
"""A word without pieces is read as exactly one, `[UNK]`, which then becomes `[MASK]`."""


class Masked:
    """A BERT with its head of masked words."""

    def __init__(self, checkpoint: Checkpoint, source: str, device: torch.device):
        bert, head, reader = bert_of(checkpoint), checkpoint.heads.get(MASKED), checkpoint.reader
        if not isinstance(head, MaskedHead):
            raise FormatError(
                f"{source}: has no head for masked words (MLM), so it cannot predict words; models "
                "of sentences and of tasks come without one. Take a BertForMaskedLM or "
                "BertForPreTraining, or train one with: elmore pretrain CORPUS --from SOURCE."
            )
        assert isinstance(reader, PieceReader)
        self._model = MaskedModel(bert, head, None).to(device).eval()
        self._reader, self._device = reader, device
        spare = [""] * (bert.config.n_pieces - len(reader.wordpiece))  # rows without a piece
        self.words = [*reader.wordpiece.vocabulary, *spare]
        self.whole = np.array([_is_word(piece, reader.wordpiece) for piece in self.words])

    def length(self, place: Place) -> int:
        return self._reader.length(place.words)

    def log_probs(self, places: Sequence[Place]) -> Tensor:
        batch = self._reader.read([_without_word(place) for place in places])
        at = _first_pieces(batch)[np.cumsum(batch.n_words) - batch.n_words + _positions(places)]
        batch.ids[at] = self._reader.wordpiece.mask
        order, positions, lengths, at = _rows_with(batch, at)
        arrays = (batch.ids[positions], batch.segments[positions], at)
        ids, segments, masks = (torch.from_numpy(a).to(self._device) for a in arrays)
        logits = self._model(ids, segments, lengths, masks, masks).pieces  # (B, V)
        back = torch.from_numpy(np.argsort(order)).to(self._device)
        return torch.log_softmax(logits.float(), dim=-1).index_select(0, back)


def _is_word(piece: str, wordpiece: WordPiece) -> bool:
    """Not a mark such as `[SEP]`, nor `[unused1]`, nor a piece that continues a word."""
    config = wordpiece.config
    bracketed = len(piece) > 2 and piece[0] == "[" and piece[-1] == "]"
    mark = not piece or bracketed or piece in config.marks
    return not mark and not piece.startswith(config.prefix)


def _without_word(place: Place) -> Words:
    return [*place.words[: place.position], _ONE_PIECE, *place.words[place.position + 1 :]]


def _positions(places: Sequence[Place]) -> IntArray:
    return np.array([place.position for place in places], dtype=np.int64)


def _first_pieces(batch: PieceBatch) -> IntArray:
    """The position of the first piece of each word, (W,)."""
    return batch.places[np.flatnonzero(np.diff(batch.words, prepend=-1))]


def _rows_with(batch: PieceBatch, at: IntArray) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Of a long text only the window that shows the place best is run. For one position (B,) in
    each input: the order of inputs by their rows, the positions (N,) and lengths (B,) of these rows
    and where each of the given positions is now, in that order."""
    ends = np.cumsum(batch.lengths)  # (R,)
    rows = np.searchsorted(ends, at, side="right")  # (B,)
    order = np.argsort(rows)
    lengths, starts = batch.lengths[rows[order]], (ends - batch.lengths)[rows[order]]
    spans = [np.arange(s, s + n) for s, n in zip(starts, lengths, strict=True)]
    now = np.cumsum(lengths) - lengths + at[order] - starts
    return order, np.concatenate(spans), lengths, now
