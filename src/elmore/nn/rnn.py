"""The RNN that tasks put on top of word vectors: torch's LSTM in both directions, with one dropout
mask for all words of a sentence. Nothing is packed, because that misses torch's fast path: the
backward LSTM reads each sentence reversed within its own length, so padding is always last.
"""

# B sentences, T words in the longest, D input dim, H hidden units of one direction
import torch
from torch import Tensor, nn

from elmore.nn.dropout import Dropout


class SentenceDropout(Dropout):
    """Variational dropout: what is dropped is dropped for every word of a sentence."""

    def forward(self, x: Tensor) -> Tensor:
        return x * super().forward(x.new_ones(x.shape[0], 1, x.shape[2]))  # (B, T, D)


class BiRNN(nn.Module):
    """One bidirectional LSTM layer over sentences of different lengths; dropout on its input."""

    def __init__(self, dim: int, hidden: int, dropout: float = 0.0):
        super().__init__()
        self.dim = 2 * hidden
        """Of what comes out: forward and backward side by side."""
        self.dropout = SentenceDropout(dropout)
        self.ahead, self.behind = (nn.LSTM(dim, hidden, batch_first=True) for _ in range(2))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Orthogonal from state to state, Glorot's uniform from the input, forget gates open."""
        for name, parameter in self.named_parameters():
            if "weight_hh" in name:
                for gate in parameter.data.chunk(4):
                    nn.init.orthogonal_(gate)
            elif "weight_ih" in name:
                nn.init.xavier_uniform_(parameter)
            else:
                nn.init.zeros_(parameter)
                if "bias_ih" in name:
                    _, forget, _, _ = parameter.data.chunk(4)
                    forget.fill_(1.0)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """x (B, T, D), mask (B, T) -> (B, T, 2H), zero beyond each sentence's end."""
        if x.shape[1] == 0:
            return x.new_zeros(*mask.shape, self.dim)
        x = self.dropout(x)
        back = mirror(mask.sum(dim=1), x.shape[1])  # (B, T)
        ahead = self.ahead(x)[0]  # (B, T, H)
        behind = take(self.behind(take(x, back))[0], back)  # (B, T, H)
        y = torch.cat([ahead, behind], dim=-1)
        return y * mask.unsqueeze(-1).to(y.dtype)  # (B, T, 2H)


def mirror(lengths: Tensor, n_words: int) -> Tensor:
    """For each row, the positions that read its words backwards and leave its padding in place."""
    step = torch.arange(n_words, device=lengths.device)
    end = lengths.unsqueeze(1)  # (B, 1)
    return torch.where(step < end, end - 1 - step, step)  # (B, T)


def take(x: Tensor, positions: Tensor) -> Tensor:
    """x (B, T, D) at the positions (B, T) of each row."""
    return x.gather(1, positions.unsqueeze(-1).expand(-1, -1, x.shape[-1]))  # (B, T, D)
