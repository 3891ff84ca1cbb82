"""The RNN that tasks put on top of word vectors: torch's LSTM in both directions over packed
sentences, with one dropout mask for all words of a sentence.
"""

# B sentences, T words in the longest, D input dim, H hidden units of one direction
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

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
        self.lstm = nn.LSTM(dim, hidden, batch_first=True, bidirectional=True)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Orthogonal from state to state, Glorot's uniform from the input, forget gates open."""
        for name, parameter in self.lstm.named_parameters():
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
        if not mask.any():
            return x.new_zeros(*mask.shape, self.dim)
        lengths = mask.sum(dim=1).clamp(min=1).cpu()  # packing knows no empty sentence
        packed = pack_padded_sequence(self.dropout(x), lengths, True, enforce_sorted=False)
        y, _ = pad_packed_sequence(self.lstm(packed)[0], True, total_length=x.shape[1])
        return y * mask.unsqueeze(-1).to(y.dtype)  # (B, T, 2H)
