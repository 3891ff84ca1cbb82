"""From a vector to the next word: over the whole vocabulary, over a sample of it, or in clusters.
The losses process their rows in slices and compute the gradient in the same pass, so that the full
table of scores (rows × words) is never in memory.
"""

# N predictions, V words, K sampled words, P vector dim
import math
from typing import Annotated, Any, Literal

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.nn.bf16_kernel import Kernel, find_bf16, multiply, panels, product_dtype

_SCORES_IN_A_SLICE = 1 << 21  # 8 MB of float32: stays in cache
_KEPT = 1 << 25  # gradients of scores in bfloat16 that are multiplied at once: 64 MB
_LOW = torch.bfloat16
_MULTIPLE = 64


class FullSoftmaxConfig(Frozen):
    """Every word is scored. Exact; right for small vocabularies."""

    kind: Literal["full"] = "full"


class SampledSoftmaxConfig(Frozen):
    """The true word against words drawn by rank: cost no longer grows with the vocabulary."""

    kind: Literal["sampled"] = "sampled"
    n_samples: int = Field(default=8192, ge=1)


class AdaptiveSoftmaxConfig(Frozen):
    """Rare words in clusters of smaller vectors (torch's own)."""

    kind: Literal["adaptive"] = "adaptive"
    cutoffs: tuple[int, ...] = (2000, 10000)
    div_value: float = 4.0


SoftmaxConfig = Annotated[
    FullSoftmaxConfig | SampledSoftmaxConfig | AdaptiveSoftmaxConfig, Field(discriminator="kind")
]


class Softmax(nn.Module):
    """One row and one bias per word, shared by both directions; trained in full or by samples."""

    def __init__(self, n_words: int, dim: int, n_samples: int | None = None):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_words, dim))  # (V, P)
        self.bias = nn.Parameter(torch.empty(n_words, 1))  # (V, 1), a row like the weight's
        self.n_samples = n_samples
        self.reset_parameters()

    def reset_parameters(self) -> None:
        nn.init.normal_(self.weight, std=self.weight.shape[1] ** -0.5)
        nn.init.zeros_(self.bias)

    @classmethod
    def from_linear(cls, linear: nn.Linear, n_samples: int | None = None) -> "Softmax":
        """Shares the numbers of `linear`."""
        softmax = cls(1, linear.in_features, n_samples)
        softmax.weight = nn.Parameter(linear.weight.data)
        softmax.bias = nn.Parameter(linear.bias.data.unsqueeze(1))
        return softmax

    def linear(self) -> nn.Linear:
        """The same numbers as a plain layer."""
        linear = nn.Linear(self.weight.shape[1], len(self.weight), device="meta")
        linear.weight = nn.Parameter(self.weight.data)
        linear.bias = nn.Parameter(self.bias.data.squeeze(1))
        return linear

    @property
    def sparse(self) -> bool:
        """Whether a step touches only some rows."""
        return self.n_samples is not None

    def loss(self, h: Tensor, targets: Tensor, rng: np.random.Generator) -> Tensor:
        """Σ -log p of h (N, P) at targets (N,); by samples if `n_samples` is set."""
        if self.n_samples is None:
            kernel = _kernel_for(h)
            with torch.autocast(h.device.type, enabled=False):
                loss: Tensor = _FullLoss.apply(  # type: ignore[no-untyped-call]
                    h, self.weight, self.bias.squeeze(1), targets, kernel
                )
            return loss
        drawn, tries = log_uniform_sample(len(self.weight), self.n_samples, rng)
        samples = torch.from_numpy(drawn).to(targets.device)
        return self.sampled_loss(h, targets, samples, tries)

    def sampled_loss(self, h: Tensor, targets: Tensor, samples: Tensor, tries: int) -> Tensor:
        """Against explicit samples (K,), each score minus the log of its expected count."""
        n_words, n = len(self.weight), len(targets)
        ids = torch.cat([targets, samples])  # (N + K,)
        rows = F.embedding(ids, self.weight, sparse=True)  # (N + K, P)
        offsets = log_expected_counts(ids, n_words, tries).to(h.dtype)
        scores = F.embedding(ids, self.bias, sparse=True).squeeze(1) - offsets  # (N + K,)
        parts = rows[:n], scores[:n], rows[n:], scores[n:]
        kernel = _kernel_for(h)
        with torch.autocast(h.device.type, enabled=False):
            loss: Tensor = _SampledLoss.apply(h, *parts, targets, samples, kernel)  # type: ignore[no-untyped-call]
        return loss

    @torch.no_grad()
    def log_probs(self, h: Tensor, targets: Tensor) -> Tensor:
        """log p of each target by the whole vocabulary: (N, P), (N,) -> (N,)."""
        found = []
        for rows in _slices(len(h), len(self.weight)):
            scores = F.linear(h[rows], self.weight, self.bias.squeeze(1))
            found.append(torch.log_softmax(scores, -1).gather(1, targets[rows, None]).squeeze(1))
        return torch.cat(found) if found else h.new_zeros(0)

    @torch.no_grad()
    def distribution(self, h: Tensor) -> Tensor:
        """log p of every word: (N, P) -> (N, V)."""
        return torch.log_softmax(F.linear(h, self.weight, self.bias.squeeze(1)), -1)


class AdaptiveSoftmax(nn.Module):
    """torch's adaptive softmax with the same methods."""

    def __init__(self, n_words: int, dim: int, config: AdaptiveSoftmaxConfig):
        super().__init__()
        self.config, self.out_features = config, n_words
        cutoffs = [cutoff for cutoff in config.cutoffs if cutoff < n_words - 1]
        self.inner = nn.AdaptiveLogSoftmaxWithLoss(
            dim, n_words, cutoffs or [n_words - 1], div_value=config.div_value, head_bias=True
        )

    @property
    def sparse(self) -> bool:
        return False

    def loss(self, h: Tensor, targets: Tensor, rng: np.random.Generator) -> Tensor:
        del rng  # nothing is drawn
        with torch.autocast(h.device.type, enabled=False):
            loss: Tensor = self.inner(h, targets).loss * len(h)
        return loss

    @torch.no_grad()
    def log_probs(self, h: Tensor, targets: Tensor) -> Tensor:
        log_probs: Tensor = self.inner(h, targets).output
        return log_probs

    @torch.no_grad()
    def distribution(self, h: Tensor) -> Tensor:
        log_probs: Tensor = self.inner.log_prob(h)
        return log_probs


def build_softmax(config: SoftmaxConfig, n_words: int, dim: int) -> Softmax | AdaptiveSoftmax:
    match config:
        case FullSoftmaxConfig():
            return Softmax(n_words, dim)
        case SampledSoftmaxConfig():
            return Softmax(n_words, dim, samples_of(config, n_words))
        case AdaptiveSoftmaxConfig():
            return AdaptiveSoftmax(n_words, dim, config)


def samples_of(config: FullSoftmaxConfig | SampledSoftmaxConfig, n_words: int) -> int | None:
    """How many are drawn. None if that is nearly all words: drawing the rarest takes long, and the
    full softmax is exact and cheaper."""
    if isinstance(config, FullSoftmaxConfig) or config.n_samples >= n_words - 1:
        return None
    return config.n_samples


# Sampling -----------------------------------------------------------------------------------------


def log_uniform_sample(
    n_words: int, n_samples: int, rng: np.random.Generator
) -> tuple[NDArray[np.int64], int]:
    """Distinct word ids drawn by P(k) = log((k+2)/(k+1)) / log(V+1), and how many draws it took."""
    assert n_samples < n_words, "nothing would be left out: use the full softmax"
    draws = np.empty(0, dtype=np.int64)
    while True:
        u = rng.random(max(4 * n_samples, len(draws)))
        more = np.exp(u * math.log(n_words + 1)).astype(np.int64) - 1
        draws = np.concatenate([draws, np.minimum(more, n_words - 1)])
        words, first = np.unique(draws, return_index=True)
        if len(words) >= n_samples:
            order = np.argsort(first)[:n_samples]
            return words[order], int(first[order[-1]]) + 1


def log_expected_counts(ids: Tensor, n_words: int, tries: int) -> Tensor:
    """log of the probability that a word is among the distinct ones after `tries` draws."""
    k = ids.double()
    p = torch.log((k + 2) / (k + 1)) / math.log(n_words + 1)
    return torch.log(-torch.expm1(tries * torch.log1p(-p)))


# Losses with their gradients ----------------------------------------------------------------------


def _slices(n_rows: int, n_columns: int) -> list[slice]:
    step = max(1, _SCORES_IN_A_SLICE // n_columns)
    return [slice(i, min(i + step, n_rows)) for i in range(0, n_rows, step)]


class _Products:
    """The three products of a loss: h (N, P) and rows (K, P) give scores, slice by slice, whose
    gradients give those of h, of the rows and of their biases (K,)."""

    def __init__(self, h: Tensor, rows: Tensor, bias: Tensor):
        self.h, self.rows, self.bias = h, rows, bias
        self.dh, self.d_bias = torch.empty_like(h), torch.zeros_like(bias)
        self.d_rows = torch.zeros_like(rows)

    def scores(self, part: slice) -> Tensor:
        return F.linear(self.h[part], self.rows, self.bias)

    def add(self, part: slice, p: Tensor, size: Tensor) -> None:
        """p (n, K), each row to be divided by its size (n, 1)."""
        self.d_bias.addmv_(p.T, 1 / size.squeeze(1))
        self.dh[part] = torch.mm(p, self.rows).div_(size)
        self.d_rows.addmm_(p.T, self.h[part] / size)

    def finish(self) -> None:
        """The gradients are complete."""


class _RoundedProducts(_Products):
    """The same of numbers rounded to bfloat16. Scores are not rounded. Gradients of many slices are
    multiplied at once; rows of zeros fill up what is multiplied, because PyTorch prepares and keeps
    its products anew for every number of rows."""

    def __init__(self, h: Tensor, rows: Tensor, bias: Tensor, kernel: Kernel):
        self.h, self.low_h, self.rows = h, h.to(_LOW), rows.to(_LOW)
        self.n_rows, self.kernel, self.panels = len(rows), kernel, panels(self.rows, kernel)
        self.bias = F.pad(bias, (0, -len(bias) % kernel.lanes))
        self.dh, self.d_bias = torch.empty_like(h), torch.zeros_like(bias)
        self.d_rows = torch.zeros_like(rows)
        most = max(_MULTIPLE, _KEPT // len(rows))
        self.p = self.rows.new_empty(_filled(min(most, len(h))), len(rows))  # of the slices since
        self.begin = self.end = 0  # the rows of h that they are of
        self.sizes = h.new_empty(len(h), 1)

    def scores(self, part: slice) -> Tensor:
        found = multiply(self.kernel, self.panels, self.low_h[part], self.bias)
        return found[:, : self.n_rows]

    def add(self, part: slice, p: Tensor, size: Tensor) -> None:
        if part.stop - self.begin > len(self.p):
            self.finish()
        self.d_bias.addmv_(p.T, 1 / size.squeeze(1))
        self.p[part.start - self.begin : part.stop - self.begin] = p
        self.sizes[part], self.end = size, part.stop

    def finish(self) -> None:
        part, n = slice(self.begin, self.end), self.end - self.begin
        p = self.p[: _filled(n)]
        p[n:] = 0
        self.dh[part] = torch.mm(p, self.rows)[:n].float().div_(self.sizes[part])
        h = F.pad((self.h[part] / self.sizes[part]).to(_LOW), (0, 0, 0, len(p) - n))
        self.d_rows.add_(torch.mm(p.T, h))
        self.begin = self.end


def _filled(n: int) -> int:
    return n + -n % _MULTIPLE


def _kernel_for(h: Tensor) -> Kernel | None:
    """For products that autocast rounds, if it can do them."""
    low = product_dtype(h) == torch.bfloat16 and h.device.type == "cpu"
    return find_bf16() if low and h.shape[1] % 2 == 0 else None


def _products(h: Tensor, rows: Tensor, bias: Tensor, kernel: Kernel | None) -> _Products:
    if kernel is None:
        return _Products(h, rows, bias)
    return _RoundedProducts(h, rows, bias, kernel)


class _FullLoss(torch.autograd.Function):
    """Σ (logsumexp of all scores - the true score)."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        kernel: Kernel | None = None,
    ) -> Tensor:
        products = _products(h, weight, bias, kernel)
        total = h.new_zeros((), dtype=torch.float64)
        for rows in _slices(len(h), len(weight)):
            scores, at = products.scores(rows), targets[rows, None]
            top = scores.amax(-1, keepdim=True)  # (n, 1)
            true = scores.gather(1, at) - top
            p = scores.sub_(top).exp_()  # (n, V), to be divided by the sum of its row
            size = p.sum(-1, keepdim=True)
            total += (size.log() - true).double().sum()
            p.scatter_add_(1, at, -size)
            products.add(rows, p, size)
        products.finish()
        ctx.save_for_backward(products.dh, products.d_rows, products.d_bias)
        return total.to(h.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        dh, dw, db = ctx.saved_tensors
        return dh * grad, dw * grad, db * grad, None, None


class _SampledLoss(torch.autograd.Function):
    """The same over a prediction's target and the samples that are not its target."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        true_rows: Tensor,
        true_bias: Tensor,
        rows: Tensor,
        bias: Tensor,
        targets: Tensor,
        samples: Tensor,
        kernel: Kernel | None = None,
    ) -> Tensor:
        products = _products(h, rows, bias, kernel)
        d_true = torch.empty_like(true_bias)
        total = h.new_zeros((), dtype=torch.float64)
        hit_row, hit_column = _hits(targets, samples)
        for part in _slices(len(h), len(rows)):
            scores = products.scores(part)  # (n, K)
            inside = (hit_row >= part.start) & (hit_row < part.stop)
            scores[hit_row[inside] - part.start, hit_column[inside]] = -torch.inf
            true = torch.einsum("np,np->n", h[part], true_rows[part]) + true_bias[part]
            top = torch.maximum(scores.amax(-1), true)  # (n,)
            p = scores.sub_(top.unsqueeze(1)).exp_()  # (n, K), to be divided by the row's size
            others = p.sum(-1)
            size = others + torch.exp(true - top)
            total += (size.log() + top - true).double().sum()
            d_true[part] = -others / size
            products.add(part, p, size.unsqueeze(1))
        products.finish()
        dh = products.dh.addcmul_(d_true.unsqueeze(1), true_rows)
        of_true = d_true.unsqueeze(1) * h
        ctx.save_for_backward(dh, of_true, d_true, products.d_rows, products.d_bias)
        return total.to(h.dtype)

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        return (*(saved * grad for saved in ctx.saved_tensors), None, None, None)


def _hits(targets: Tensor, samples: Tensor) -> tuple[Tensor, Tensor]:
    """Where a sample is the target itself: (prediction, sample) pairs."""
    ordered, column = samples.sort()
    place = torch.searchsorted(ordered, targets).clamp(max=len(ordered) - 1)
    hit = ordered[place] == targets
    return hit.nonzero().squeeze(1), column[place[hit]]
