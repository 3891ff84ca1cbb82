"""Lines of one language for its model's own loss, which goes on beside the task: of the text that
the language model was trained on if its run has it still, or else of the pairs themselves.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from elmore.errors import FormatError
from elmore.pretrain.config import LinesConfig
from elmore.pretrain.line_batches import LineBatches, Lines
from elmore.pretrain.objectives.causal import CORPUS
from elmore.pretrain.piece_corpus import PieceCorpus
from elmore.text.causal_reader import padded
from elmore.text.subwords import Subwords


class OwnLines:
    """One side of the training pairs."""

    def __init__(self, rows: Sequence[Sequence[int]]):
        self.rows = rows
        self.mean_length = sum(map(len, rows)) / len(rows)

    def draw(self, n_pieces: int) -> Lines:
        """Lines of about so many pieces, by torch's generator, which the training seeds."""
        drawn = torch.randint(len(self.rows), (_n_lines(n_pieces, self.mean_length),)).tolist()
        return padded([self.rows[i] for i in drawn])


class RunLines:
    """The corpus of a pretraining run."""

    def __init__(self, corpus: PieceCorpus, subwords: Subwords, longest: int):
        self.batches = LineBatches(corpus, LinesConfig(longest=max(2, longest)), subwords)
        self.mean_length = float(corpus.lengths.sum()) / self.batches.n_lines + 2

    def draw(self, n_pieces: int) -> Lines:
        n = _n_lines(n_pieces, self.mean_length)
        return self.batches.read(np.sort(torch.randint(self.batches.n_lines, (n,)).numpy()))


def _n_lines(n_pieces: int, mean_length: float) -> int:
    return max(1, round(n_pieces / mean_length))


def monolingual(
    lm: str | None, subwords: Subwords, own: Sequence[Sequence[int]], longest: int
) -> OwnLines | RunLines:
    """`own` are the pairs' rows with both marks."""
    folder = None if lm is None else Path(lm) / CORPUS
    if folder is not None and folder.is_dir():
        try:
            return RunLines(PieceCorpus(folder), subwords, longest)
        except FormatError:  # it is of use for this only
            pass
    return OwnLines(own)
