"""Attention between two sequences. ESIM aligns them in both directions; BiDAF's attention flow
gives each word of one what is relevant to it in the other. Padding has weight 0, and a sequence
without words gives zeros, never NaN.
"""

# B rows, T words of one sequence, J words of the other, D vector dim
import torch
from torch import Tensor, nn


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last axis where `mask` is true, zero elsewhere; all zero if it never is."""
    hidden = scores.masked_fill(~mask, torch.finfo(scores.dtype).min)
    return torch.softmax(hidden, dim=-1) * mask


def masked_mean(x: Tensor, mask: Tensor) -> Tensor:
    """x (B, T, D) over its words -> (B, D)."""
    total = (x * mask.unsqueeze(-1)).sum(dim=1)
    return total / mask.sum(dim=1, keepdim=True).clamp(min=1)


def masked_max(x: Tensor, mask: Tensor) -> Tensor:
    """The maximum over the words: x (B, T, D) -> (B, D)."""
    highest = x.masked_fill(~mask.unsqueeze(-1), torch.finfo(x.dtype).min).amax(dim=1)
    return highest * mask.any(dim=1, keepdim=True)


def align(a: Tensor, mask_a: Tensor, b: Tensor, mask_b: Tensor) -> tuple[Tensor, Tensor]:
    """For each word of `a` the mean of b's words weighted by similarity, and the reverse.

    a (B, T, D), b (B, J, D) -> (B, T, D), (B, J, D).
    """
    scores = a @ b.mT  # (B, T, J)
    from_b = masked_softmax(scores, mask_b.unsqueeze(1)) @ b  # (B, T, D)
    from_a = masked_softmax(scores.mT, mask_a.unsqueeze(1)) @ a  # (B, J, D)
    return from_b, from_a


class AttentionFlow(nn.Module):
    """BiDAF's: each word of the text with the question's words that are similar to it, and with the
    text's words that the question is most similar to. The measure is
    w · [text; asked; text ∘ asked].
    """

    def __init__(self, dim: int):
        super().__init__()
        self.text = nn.Linear(dim, 1)
        self.asked = nn.Linear(dim, 1, bias=False)
        self.both = nn.Parameter(torch.empty(dim))
        nn.init.uniform_(self.both, -(dim**-0.5), dim**-0.5)

    @staticmethod
    def out_dim(dim: int) -> int:
        return 4 * dim

    def scores(self, text: Tensor, asked: Tensor) -> Tensor:
        product = (text * self.both) @ asked.mT  # (B, T, J)
        scores: Tensor = product + self.text(text) + self.asked(asked).mT
        return scores

    def forward(self, text: Tensor, mask: Tensor, asked: Tensor, asked_mask: Tensor) -> Tensor:
        """text (B, T, D), asked (B, J, D) -> [text; from asked; and their products] (B, T, 4D)."""
        scores = self.scores(text, asked)  # (B, T, J)
        from_asked = masked_softmax(scores, asked_mask.unsqueeze(1)) @ asked  # (B, T, D)
        lowest = torch.finfo(scores.dtype).min
        best = scores.masked_fill(~asked_mask.unsqueeze(1), lowest).amax(dim=-1)  # (B, T)
        from_text = masked_softmax(best, mask).unsqueeze(1) @ text  # (B, 1, D)
        return torch.cat([text, from_asked, text * from_asked, text * from_text], dim=-1)
