"""A table of pieces that knows them before the first step: static vectors counted from the corpus,
as in static_start.py. The same table reads pieces and predicts them, and its biases are the log of
each piece's share of the text. About three minutes for 60 million pieces.
"""

# V pieces, P vector dim
from itertools import islice
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor

from elmore.checkpoint.native import save_tensors
from elmore.files.atomic import atomic_file
from elmore.pretrain.piece_corpus import PieceCorpus
from elmore.pretrain.static_start import counted

PIECE_START = "piece-start.safetensors"
_CHUNK, _CHUNKS = 2_000_000, 15  # pieces counted together, and how often
_NOTHING = 1e-4  # a shorter row is rounding: its piece was not met


def write_piece_start(
    folder: Path, corpus: PieceCorpus, shape: tuple[int, int], seed: int, *marks: int
) -> list[str]:
    """Counted once, by one process; `marks` are predicted after every sentence. Returns what the
    user should know."""
    n_pieces, dim = shape
    vectors, shares = counted(islice(corpus.chunks(_CHUNK, *marks), _CHUNKS), n_pieces, dim, seed)
    found = {"shares": shares}
    if vectors is not None:
        found["vectors"] = vectors.contiguous()
    with atomic_file(folder / PIECE_START) as path:
        save_tensors(found, path)
    note = "There is too little text for table_start=static: its rows are random."
    return [] if vectors is not None else [note]


@torch.no_grad()
def start_table(table: Tensor, bias: Tensor | None, folder: Path) -> None:
    """table (V, P), bias with V numbers. All rows are as long as a random one."""
    found = load_file(folder / PIECE_START)
    if bias is not None:
        bias.copy_(found["shares"].view_as(bias))
    if (vectors := found.get("vectors")) is not None:
        length = vectors.square().mean(1, keepdim=True).sqrt()
        known = length.squeeze(1) > _NOTHING * length.max()
        usual = table.square().mean().sqrt()
        table[: len(vectors)][known] = (vectors / length)[known] * usual
