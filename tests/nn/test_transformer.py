"""The Transformer context against the NumPy oracle's own blocks, and its promises as a module."""

import numpy as np
import pytest
import torch

from elmore.errors import InputError
from elmore.nn.transformer import BiTransformer, TransformerConfig, sinusoids
from tests.oracle import transformer_elmo

TINY = TransformerConfig(dim=16, ff_dim=7, n_layers=3, max_positions=40)
SIDES = ("forward", "backward")


def build(config: TransformerConfig = TINY) -> BiTransformer:
    torch.manual_seed(7)
    context = BiTransformer(config).eval()
    for name, parameter in context.named_parameters():
        if "gamma" in name or "beta" in name or "bias" in name:
            parameter.data.add_(0.3 * torch.randn_like(parameter))
    return context


def as_oracle(context: BiTransformer) -> dict[str, np.ndarray]:
    """The same weights under the names the oracle knows."""
    W: dict[str, np.ndarray] = {}
    for side, stack in zip(SIDES, context.directions, strict=True):
        root = f"_contextualizer._{side}_transformer"
        for i, block in enumerate(stack.blocks):
            at = f"{root}.layers.{i}"
            for part in ("weight", "bias"):
                linears = [*getattr(block.attention.qkv, part).chunk(3)]
                linears.append(getattr(block.attention.out, part))
                for k, tensor in enumerate(linears):
                    W[f"{at}.self_attn.linears.{k}.{part}"] = tensor.detach().numpy()
                for name, layer in (("w_1", block.feed_forward[0]), ("w_2", block.feed_forward[3])):
                    W[f"{at}.feed_forward.{name}.{part}"] = getattr(layer, part).detach().numpy()
            for k, norm in enumerate((block.norm_1, block.norm_2)):
                W[f"{at}.sublayer.{k}.norm.gamma"] = norm.gamma.detach().numpy()
                W[f"{at}.sublayer.{k}.norm.beta"] = norm.beta.detach().numpy()
        W[f"{root}.norm.gamma"] = stack.norm.gamma.detach().numpy()
        W[f"{root}.norm.beta"] = stack.norm.beta.detach().numpy()
    return W


def expected(context: BiTransformer, x: torch.Tensor) -> np.ndarray:
    """Layers (L, T, 2D) of one sentence x (T, D) without padding, by the oracle."""
    n = len(x)
    causal = np.tril(np.ones((n, n), dtype=bool))
    positioned = x.double().numpy() + transformer_elmo.positional_encoding(n, x.shape[1])
    W = as_oracle(context)
    sides = zip(SIDES, (causal, causal.T), strict=True)
    both = [transformer_elmo.stack(W, side, positioned, visible) for side, visible in sides]
    return np.stack([np.concatenate(pair, axis=1) for pair in zip(*both, strict=True)])


def test_every_layer_agrees_with_the_oracle_whatever_the_batch_mates_are():
    context, lengths = build(), [9, 2, 5, 1]
    x = torch.randn(4, 9, 16)
    layers, state = context(x, torch.tensor(lengths))
    assert state is None
    assert len(layers) == 3
    for row, n in enumerate(lengths):
        ours = torch.stack(layers)[:, row, :n].detach().numpy()
        np.testing.assert_allclose(ours, expected(context, x[row, :n]), rtol=0, atol=5e-6)


def test_the_position_table_is_the_papers():
    table = transformer_elmo.positional_encoding(50, 12)
    np.testing.assert_allclose(sinusoids(50, 12).numpy(), table, rtol=0, atol=1e-6)


def test_a_sentence_beyond_the_positions_is_refused_with_both_numbers():
    with pytest.raises(InputError, match=r"41 words .* 40 positions"):
        build()(torch.zeros(1, 41, 16), torch.tensor([41]))


def test_heads_must_share_the_dim_evenly():
    with pytest.raises(ValueError, match="is not divisible by n_heads=8"):
        TransformerConfig(dim=12)


def test_fresh_matrices_are_xavier_and_q_k_v_are_three_matrices():
    weight = BiTransformer(TransformerConfig(dim=64, ff_dim=8, n_layers=1)).directions[0].blocks[0]
    bound = (6 / (64 + 64)) ** 0.5
    for part in weight.attention.qkv.weight.chunk(3):
        assert 0.95 * bound < part.abs().max() <= bound


def test_a_small_transformer_learns_to_repeat_the_word_before():
    torch.manual_seed(0)
    config = TransformerConfig(dim=16, ff_dim=32, n_layers=1, n_heads=2, max_positions=12)
    context, table = BiTransformer(config), torch.randn(5, 16)
    words = torch.randint(5, (64, 12))
    lengths = torch.full((64,), 12)
    out = torch.nn.Linear(16, 5)
    optimizer = torch.optim.Adam([*context.parameters(), *out.parameters()], lr=0.01)
    for _ in range(150):
        top = context(table[words], lengths)[0][-1][:, 1:, :16]  # forward half
        loss = torch.nn.functional.cross_entropy(out(top).flatten(0, 1), words[:, :-1].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    assert loss.item() < 1.0  # chance is 1.6
    gradients = [p.grad for p in context.directions[0].parameters()]
    assert all(g is not None and torch.isfinite(g).all() for g in gradients)
