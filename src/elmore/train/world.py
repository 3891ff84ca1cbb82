"""The processes that train together (torchrun), or the one that trains alone."""

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from elmore.errors import InputError


class World:
    """This process among those of a run. With one process, every call is the identity."""

    def __init__(self, *, alone: bool = False) -> None:
        """`alone` whatever torchrun has put into the environment."""
        self.size = 1 if alone else int(os.environ.get("WORLD_SIZE", "1"))
        self.rank = 0 if alone else int(os.environ.get("RANK", "0"))
        if self.size > 1 and not dist.is_initialized():
            # one process may count a large corpus for hours while the others wait
            kind = "nccl" if torch.cuda.is_available() else "gloo"
            dist.init_process_group(kind, timeout=timedelta(days=7))
        if torch.cuda.is_available() and not alone:
            torch.cuda.set_device(self.device())  # tensors are sent from this device

    @property
    def first(self) -> bool:
        return self.rank == 0

    def device(self) -> torch.device:
        if not torch.cuda.is_available():
            return torch.device("cpu")
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))

    def sum(self, numbers: list[float], device: torch.device) -> list[float]:
        """Element by element over all processes."""
        if self.size == 1:
            return numbers
        total = torch.tensor(numbers, dtype=torch.float64, device=device)
        with _peers():
            dist.all_reduce(total)
        return [float(n) for n in total]

    def mean(self, number: float, device: torch.device) -> float:
        """Clocks and rounding differ between processes; with the mean they all decide the same."""
        return self.sum([number], device)[0] / self.size

    def sum_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Sum over all processes; dense gradients are sent as one tensor."""
        if self.size == 1:
            return
        trained = self._touched([p for p in parameters if p.requires_grad])
        grads = [p.grad for p in trained if p.grad is not None]
        dense = [grad for grad in grads if not grad.is_sparse]
        if dense:
            flat = torch.cat([grad.flatten() for grad in dense])
            dist.all_reduce(flat)
            for grad, part in zip(dense, flat.split([g.numel() for g in dense]), strict=True):
                grad.copy_(part.view_as(grad))
        for p in trained:
            if p.grad is not None and p.grad.is_sparse:
                p.grad = self._sum_rows(p.grad.coalesce())

    def _touched(self, trained: list[nn.Parameter]) -> list[nn.Parameter]:
        """Those that some process has a gradient of, zeros elsewhere; the others stay without,
        as they would in one process: an optimizer decays even what has a gradient of zero."""
        if not trained:
            return []
        found = [float(p.grad is not None) for p in trained]
        counts = self.sum(found, trained[0].device)
        touched = [p for p, n in zip(trained, counts, strict=True) if n]
        for p in touched:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        return touched

    def _sum_rows(self, grad: Tensor) -> Tensor:
        count = torch.tensor([grad._nnz()], device=grad.device)
        counts = [torch.empty_like(count) for _ in range(self.size)]
        dist.all_gather(counts, count)
        most = int(torch.stack(counts).max())
        rows = self._gather(grad.indices().squeeze(0), counts, most)
        values = self._gather(grad.values(), counts, most)
        summed = torch.sparse_coo_tensor(
            rows.unsqueeze(0), values, grad.shape, check_invariants=False
        )
        return summed.coalesce()

    def _gather(self, part: Tensor, counts: list[Tensor], most: int) -> Tensor:
        """Parts of different lengths: padded before they are sent, cut afterwards."""
        padded = part.new_zeros(most, *part.shape[1:])
        padded[: len(part)] = part
        parts = [torch.empty_like(padded) for _ in range(self.size)]
        dist.all_gather(parts, padded)
        return torch.cat([p[: int(n)] for p, n in zip(parts, counts, strict=True)])

    def gather(self, item: Any) -> list[Any]:
        """Each process's item, by rank, for the first process; the others get theirs alone."""
        if self.size == 1:
            return [item]
        items: list[Any] | None = [None] * self.size if self.first else None
        dist.gather_object(item, items)
        return items if items is not None else [item]

    def wait(self) -> None:
        if self.size > 1:
            with _peers():
                dist.barrier()

    def close(self) -> None:
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


@contextmanager
def _peers() -> Iterator[None]:
    """The process that fails first says why; the others show no traceback."""
    try:
        yield
    except RuntimeError as error:
        raise InputError("Another process of this run has ended; its message says why.") from error
