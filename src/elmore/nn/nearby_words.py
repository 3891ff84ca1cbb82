"""Skip-gram with negative sampling: a vector predicts which words are near it, each by a sigmoid.

    Σ over pairs (i, w) of  -log σ(y_i · o_w)  +  k / S · Σ over samples s of  -log σ(-y_i · o_s)

The S samples are shared by all pairs of a step, so that the second sum is one matrix product.
"""

# M vectors, P pairs, S samples, V words, D vector dim
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, softplus


class NearbyWords(nn.Module):
    """An output vector per word; they start at zero, and are thrown away when all is learned."""

    def __init__(self, n_words: int, dim: int, negatives: float):
        super().__init__()
        self.outputs = nn.Parameter(torch.zeros(n_words, dim))
        self.negatives = negatives
        """k: how many samples a pair counts as much as."""

    def forward(self, vectors: Tensor, places: Tensor, words: Tensor, samples: Tensor) -> Tensor:
        """The sum over all pairs of a vector (M, D), by its place (P,), and a word near it (P,);
        the gradient of the output vectors is sparse."""
        rows = torch.cat([words, samples])
        outputs = embedding(rows, self.outputs, sparse=True)  # (P + S, D)
        near, far = outputs.split([len(words), len(samples)])
        scores = torch.einsum("pd,pd->p", vectors[places], near)  # (P,)
        counts = torch.bincount(places, minlength=len(vectors)).to(vectors.dtype)  # (M,)
        others = softplus(vectors @ far.T).sum(dim=1)  # (M,)
        return softplus(-scores).sum() + self.negatives / len(samples) * (counts @ others)
