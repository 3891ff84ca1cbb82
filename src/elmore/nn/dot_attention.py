"""Attention by scaled dot products, in the precision that is fastest."""

# B rows, H heads, T steps, D/H dim of a head
import torch
import torch.nn.functional as F
from torch import Tensor


def attend(q: Tensor, k: Tensor, v: Tensor, dropout: float, causal: bool = False) -> Tensor:
    """(B, H, T, D/H) each. On CPUs always in float32: its products are small beside those of the
    layer, and with bfloat16 the way back takes twice as long."""
    if q.device.type != "cpu":
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal)
    with torch.autocast("cpu", enabled=False):
        q, k, v = (x if x.dtype == torch.float64 else x.float() for x in (q, k, v))
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=causal)
