"""All steps of an LSTM layer, with gradients written by hand: autograd is slow at many small steps.
The equations are those of nn/lstm.py.
"""

# S = 2 directions, T steps, B rows, N rows of all steps, D input and output dim, C cell dim
from typing import Any

import torch
from torch import Tensor

from elmore.nn.lstm_bf16 import kernel_for, whole_layer
from elmore.nn.lstm_rows import Clips, Weights, ends_of, pack, spans_of, unpack
from elmore.nn.lstm_steps import NativeSteps, Step, TorchSteps, find_native

_KERNEL_DIRECTIONS = 2


def all_steps(
    x: Tensor,
    h: Tensor,
    c: Tensor,
    weights: Weights,
    active: list[int],
    clips: Clips,
    products: torch.dtype,
) -> tuple[Tensor, Tensor, Tensor]:
    """x (S, T, B, D), h (S, B, D), c (S, B, C) -> outputs (S, T, B, D), last h, last c. The input
    may have another width than h and the outputs.

    `active[t]` rows are still reading at step t. Products are computed in the dtype `products`.
    """
    if products == torch.bfloat16 and (kernel := kernel_for(x, c, weights)) is not None:
        return whole_layer(kernel, x, h, c, weights, active, clips)
    w_input, bias, w_state, w_project = weights
    low = w_input.to(products), w_state.to(products)
    weights = low[0], bias, low[1], None if w_project is None else w_project.to(products)
    steps = _steps_for(x, h, c, weights[0])
    out: tuple[Tensor, Tensor, Tensor] = _Layer.apply(x, h, c, *weights, active, clips, steps)  # type: ignore[no-untyped-call]
    return out


def _steps_for(*tensors: Tensor) -> TorchSteps | NativeSteps:
    """The kernel where it is built, for two directions, float32 and the CPU; else PyTorch."""
    fits = all(t.device.type == "cpu" and t.dtype == torch.float32 for t in tensors)
    fits = fits and tensors[0].shape[0] == _KERNEL_DIRECTIONS
    return (find_native() if fits else None) or TorchSteps()


class _Layer(torch.autograd.Function):
    """All steps of one layer, both directions. Clipped numbers pass no gradient.

    The rows of all steps are packed, one step after the other: N = Σ active. In one large buffer
    the contributions of the inputs become, step by step, the gates. Products are computed in the
    dtype of the weights; sums, cells and gates stay in the dtype of the input.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: Tensor,
        h: Tensor,
        c: Tensor,
        w_input: Tensor,
        bias: Tensor,
        w_state: Tensor,
        w_project: Tensor | None,
        active: list[int],
        clips: Clips,
        steps: TorchSteps | NativeSteps,
    ) -> tuple[Tensor, Tensor, Tensor]:
        training = any(ctx.needs_input_grad)
        h0, c0, n_rows, packed = h.contiguous(), c.contiguous(), x.shape[2], pack(x, active)
        gates = steps.gate_sums(packed, w_input, bias)  # (S, N, 4C)
        outputs = packed.new_empty(*packed.shape[:2], h.shape[-1])  # (S, N, D)
        # What the backward pass does not need is overwritten by the next step: (S, N or B, C).
        cells = c0.new_empty(*gates.shape[:2], c.shape[-1]) if training else c0.clone()
        hidden = outputs if w_project is None else torch.empty_like(cells)
        to_gates = _laid_out(w_state.mT, len(active))
        to_output = None if w_project is None else _laid_out(w_project.mT, len(active))
        h, c = h0, c0
        for rows, n in zip(spans_of(active), active, strict=True):
            here = rows if training else slice(n)
            out, z = outputs[:, rows], _add_product(gates[:, rows], h[:, :n], to_gates)
            shown = out if to_output is None else hidden[:, here]
            steps.forward(Step(z, c[:, :n], cells[:, here], shown, clips[0]), bias)
            if to_output is not None:
                _set_product(out, shown, to_output)
            if clips[1] is not None:
                out.clamp_(-clips[1], clips[1])
            h, c = out, cells[:, here]
        if training:
            saved = packed, h0, c0, w_input, w_state, w_project, gates, cells, hidden, outputs
            ctx.save_for_backward(*saved)
        ctx.active, ctx.clips, ctx.steps = active, clips, steps
        c_end = ends_of(c0, cells, active) if training else cells
        return unpack(outputs, active, n_rows), ends_of(h0, outputs, active), c_end

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        packed, h0, c0, w_input, w_state, w_project, gates, cells, hidden, outputs = (
            ctx.saved_tensors
        )
        active, (cell_clip, proj_clip), spans = ctx.active, ctx.clips, spans_of(ctx.active)
        dh, dc = (g.clone(memory_format=torch.contiguous_format) for g in grads[1:])
        d_out = pack(grads[0], active).clone(memory_format=torch.contiguous_format)  # (S, N, D)
        unclipped = None if proj_clip is None else outputs.abs() < proj_clip
        d_gates = torch.empty_like(gates)  # (S, N, 4C)
        for t, n in reversed(list(enumerate(active))):
            rows, dz = spans[t], d_gates[:, spans[t]]
            d_shown = d_out[:, rows].add_(dh[:, :n])
            if unclipped is not None:
                d_shown.mul_(unclipped[:, rows])
            if w_project is not None:
                d_shown = _product(d_shown, w_project)  # (S, n, C)
            before = (cells[:, spans[t - 1]] if t else c0)[:, :n]
            step = Step(gates[:, rows], before, cells[:, rows], hidden[:, rows], cell_clip)
            ctx.steps.backward(step, d_shown, dc[:, :n], dz)
            _set_product(dh[:, :n], dz, w_state)
        low = w_input.dtype
        d_bias, flat = d_gates.sum(1), d_gates.to(low)
        befores = [h0, *(outputs[:, rows] for rows in spans)]
        before_h = torch.cat([h[:, :n] for h, n in zip(befores, active, strict=False)], dim=1)
        d_state = torch.bmm(flat.mT, before_h.to(low))  # (S, 4C, D)
        d_input = torch.bmm(flat.mT, packed.to(low))  # (S, 4C, D)
        d_x = unpack(_product(flat, w_input, packed.dtype), active, h0.shape[1])
        d_project = None
        if w_project is not None:
            d_project = torch.bmm(d_out.to(low).mT, hidden.to(low))  # (S, D, C)
        return d_x, dh, dc, d_input, d_bias, d_state, d_project, None, None, None


def _product(a: Tensor, w: Tensor, dtype: torch.dtype | None = None) -> Tensor:
    return torch.bmm(a.to(w.dtype), w).to(dtype or a.dtype)


def _add_product(z: Tensor, a: Tensor, w: Tensor) -> Tensor:
    """In place."""
    if a.dtype == w.dtype:
        return z.baddbmm_(a, w)
    return z.add_(torch.bmm(a.to(w.dtype), w))


def _set_product(z: Tensor, a: Tensor, w: Tensor) -> None:
    """In place; `out=` would copy a tensor that is not contiguous."""
    if a.dtype == w.dtype:
        z.baddbmm_(a, w, beta=0)
    else:
        z.copy_(torch.bmm(a.to(w.dtype), w))


def _laid_out(w: Tensor, n_steps: int) -> Tensor:
    """Contiguous on CPUs, where products are then faster, if there are enough steps to pay off."""
    return w.contiguous() if w.device.type == "cpu" and n_steps >= 8 else w
