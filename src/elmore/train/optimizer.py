"""Adagrad and AdamW. Rows that a step did not touch are left alone: a softmax over 800,000 words
must not be updated as a whole for the 10,000 that were used.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import ConfigDict, Field
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.errors import ConfigError

Share = Annotated[float, Field(ge=0, lt=1)]


class AdagradConfig(Frozen):
    """bilm-tf's optimizer, at its settings."""

    model_config = ConfigDict(allow_inf_nan=False)

    kind: Literal["adagrad"] = "adagrad"
    lr: float = Field(default=0.2, gt=0)
    initial_accumulator: float = Field(default=1.0, ge=0)


class AdamWConfig(Frozen):
    """Adam with decoupled weight decay, which is for weights alone: no biases, no gains."""

    model_config = ConfigDict(allow_inf_nan=False)

    kind: Literal["adamw"] = "adamw"
    lr: float = Field(default=1e-3, gt=0)
    betas: tuple[Share, Share] = (0.9, 0.999)
    eps: float = Field(default=1e-8, gt=0)
    weight_decay: float = Field(default=0.0, ge=0)


class InPlaceConfig(Frozen):
    """None: the objective changes its weights itself, at this rate, and gives no gradients."""

    model_config = ConfigDict(allow_inf_nan=False)

    kind: Literal["in-place"] = "in-place"
    lr: float = Field(default=0.025, gt=0)


OptimizerConfig = Annotated[
    AdagradConfig | AdamWConfig | InPlaceConfig, Field(discriminator="kind")
]
Params = Iterable[nn.Parameter] | Iterable[dict[str, Any]]


class RowAdagrad(torch.optim.Optimizer):
    """Adagrad on the rows that have a gradient."""

    def __init__(self, params: Params, config: AdagradConfig):
        self.initial = config.initial_accumulator
        super().__init__(params, {"lr": config.lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                rows, grad = row_gradient(p)
                if not self.state[p]:
                    self.state[p]["sum"] = torch.full_like(p, self.initial)
                total = self.state[p]["sum"][rows].addcmul_(grad, grad)
                self.state[p]["sum"][rows] = total
                p[rows] = p[rows].addcdiv_(grad, total.sqrt_(), value=-group["lr"])


class RowAdam(torch.optim.Optimizer):
    """Adam on the rows that have a gradient; the moments of the others do not change."""

    def __init__(self, params: Params, config: AdamWConfig):
        self.betas, self.eps = config.betas, config.eps
        super().__init__(params, {"lr": config.lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        assert closure is None
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, group["lr"])

    def _update(self, p: nn.Parameter, lr: float) -> None:
        rows, grad = row_gradient(p)
        state, (beta1, beta2) = self.state[p], self.betas
        if not state:
            state["step"] = torch.tensor(0.0)
            state["mean"], state["square"] = torch.zeros_like(p), torch.zeros_like(p)
        state["step"] += 1
        mean = state["mean"][rows].lerp_(grad, 1 - beta1)
        square = state["square"][rows].mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
        state["mean"][rows], state["square"][rows] = mean, square
        n = float(state["step"])
        scale = (square / (1 - beta2**n)).sqrt_().add_(self.eps)
        p[rows] = p[rows].addcdiv_(mean, scale, value=-lr / (1 - beta1**n))


def row_gradient(p: nn.Parameter) -> tuple[Tensor, Tensor]:
    """Row numbers and their gradients; the gradient is sparse and already coalesced."""
    assert p.grad is not None
    return p.grad._indices().squeeze(0), p.grad._values()


@dataclass(frozen=True, slots=True)
class Group:
    """Parameters that are trained alike."""

    parameters: Sequence[nn.Parameter]
    rate: float = 1.0
    """What the learning rate is multiplied by."""
    decay: bool = True
    """Whether weight decay applies; even then, vectors do not decay."""
    by_rows: bool = False
    """Their gradients are sparse: rows that a step does not touch are left alone."""


def by_decay(module: nn.Module, parameters: Sequence[nn.Parameter]) -> list[Group]:
    """Weights decay. Biases and other vectors do not, also where biases are stored as a matrix: an
    LSTM's have a row per direction, a softmax's a row per word."""
    names = {id(p): name.rpartition(".")[2] for name, p in module.named_parameters()}
    free = [p for p in parameters if p.ndim <= 1 or names[id(p)].startswith("bias")]
    apart = {id(p) for p in free}
    return [Group([p for p in parameters if id(p) not in apart]), Group(free, decay=False)]


def build_optimizers(
    config: OptimizerConfig, groups: Sequence[Group]
) -> list[torch.optim.Optimizer]:
    """One for whole tensors, and one for tensors that are updated by rows, if there are any."""
    if isinstance(config, InPlaceConfig):
        if groups:
            raise ConfigError(
                "loop.optimizer.kind is in-place, which is for static vectors; this model needs "
                "adamw or adagrad."
            )
        return []
    whole = [g for g in groups if not g.by_rows]
    rows = [{"params": g.parameters, "lr": config.lr * g.rate} for g in groups if g.by_rows]
    if isinstance(config, AdagradConfig):
        start = config.initial_accumulator
        # eps only guards a division that the accumulator's start already guards
        first: torch.optim.Optimizer = torch.optim.Adagrad(
            [{"params": g.parameters, "lr": config.lr * g.rate} for g in whole],
            initial_accumulator_value=start,
            eps=0.0 if start else 1e-10,
        )
        return [first, RowAdagrad(rows, config)] if rows else [first]
    parts = [part for group in whole for part in _by_decay(config, group)]
    first = torch.optim.AdamW(parts, betas=config.betas, eps=config.eps, fused=True)
    return [first, RowAdam(rows, config)] if rows else [first]


def _by_decay(config: AdamWConfig, group: Group) -> list[dict[str, Any]]:
    """Matrices decay, and vectors do not."""
    lr = config.lr * group.rate
    if not group.decay:
        return [{"params": group.parameters, "lr": lr, "weight_decay": 0.0}]
    matrices = [p for p in group.parameters if p.ndim > 1]
    vectors = [p for p in group.parameters if p.ndim <= 1]
    return [
        {"params": matrices, "lr": lr, "weight_decay": config.weight_decay},
        {"params": vectors, "lr": lr, "weight_decay": 0.0},
    ]
