"""A biLM with the softmax it is trained by: both directions predict through one table."""

# S = 2 directions, T steps, B rows, W distinct words, N predictions, P projection dim
import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from elmore.models.bilm import BiLM
from elmore.nn.dropout import Dropout
from elmore.nn.lstm import BiLSTM, LSTMState
from elmore.nn.softmax import AdaptiveSoftmax, Softmax


class LanguageModel(nn.Module):
    """What is pretrained. Row streams keep their state; sentences are independent."""

    def __init__(self, bilm: BiLM, softmax: Softmax | AdaptiveSoftmax, dropout: float = 0.0):
        super().__init__()
        self.bilm, self.softmax = bilm, softmax
        self.dropout = Dropout(dropout)  # on what the softmax sees

    def read_rows(
        self, spelled: Tensor, index: Tensor, state: LSTMState
    ) -> tuple[Tensor, LSTMState]:
        """spelled (W, C), index (S, T, B), each direction in its own order -> top (S, T, B, P)."""
        assert isinstance(self.bilm.context, BiLSTM)
        # F.embedding, not indexing: its gradient adds up in a fixed order
        x = F.embedding(index, self.bilm.words(spelled))  # (S, T, B, P)
        outputs, state = self.bilm.context.run(x, state)
        return self.dropout(outputs[-1]), state

    def read_sentences(self, spelled: Tensor, index: Tensor, lengths: Tensor) -> Tensor:
        """index (B, T) with marks -> the vector of every prediction, (N, P): forward ones first.

        Forward, every word but the last mark predicts the next; backward, every word but the
        first mark predicts the one before. `prediction_targets` lists them in the same order.
        """
        top = self.bilm.run(spelled, index, lengths).states.layers[-1]  # (B, T, 2P)
        ahead, behind = prediction_places(lengths, index.shape[1])
        forward, backward = top.chunk(2, dim=-1)
        h: Tensor = self.dropout(torch.cat([forward[ahead], backward[behind]]))
        return h

    def loss(self, h: Tensor, targets: Tensor, rng: np.random.Generator) -> Tensor:
        return self.softmax.loss(h, targets, rng)


def prediction_places(lengths: Tensor, n_steps: int) -> tuple[Tensor, Tensor]:
    """Masks (B, T): where the forward and where the backward direction predicts."""
    step = torch.arange(n_steps, device=lengths.device)
    ahead = step < lengths.unsqueeze(1) - 1
    return ahead, (step > 0) & (step < lengths.unsqueeze(1))


def prediction_targets(ids: Tensor, lengths: Tensor) -> Tensor:
    """ids (B, T) of the words with marks -> targets (N,) in the order of `read_sentences`."""
    ahead, behind = prediction_places(lengths, ids.shape[1])
    return torch.cat([ids.roll(-1, dims=1)[ahead], ids.roll(1, dims=1)[behind]])
