"""BERT's engine gives what the model gives: by PyTorch, by every kernel, in every precision."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from elmore.checkpoint.bert import bert_of
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.embedder import Embedder
from elmore.engine import bert
from elmore.engine.bert import chunked
from elmore.engine.native_bert import NativeProduct
from elmore.engine.native_lstm import Precision
from elmore.engine.runner import check_precision
from elmore.errors import ConfigError
from elmore.text.reader import Input, Pair
from tests.engine.engines import ENGINES, KERNELS, engine
from tests.tiny_bert import tiny_bert
from tests.toy_model import toy_checkpoint

WORDS = "the river bank money we sat on a grassy one lent of Zürich .".split()
every_engine = pytest.mark.parametrize("name", ENGINES)
every_kernel = pytest.mark.parametrize("name", list(KERNELS) or ["none built"])
needs_kernel = pytest.mark.skipif(not KERNELS, reason="no kernel was built here")


def text(n: int, seed: int = 0) -> list[str]:
    return [WORDS[i] for i in np.random.default_rng(seed).integers(len(WORDS), size=n)]


INPUTS: list[Input] = [
    text(5), [], ["one"], text(9, 1), text(5, 2), text(70, 3), Pair(text(4), text(3, 4)),
    Pair(text(30, 5), text(2, 6)), ["Zürich"],
]  # fmt: skip


def by_module(checkpoint: Checkpoint, inputs: list[Input]) -> list[NDArray[Any]]:
    with torch.inference_mode():
        states = checkpoint.model(checkpoint.need_reader().read(inputs))
    layers, mask = states.layers.numpy(), states.mask.numpy()
    return [layers[:, i, mask[i]] for i in range(len(inputs))]


def cosines(ours: NDArray[Any], truth: NDArray[Any]) -> NDArray[Any]:
    norms = np.linalg.norm(ours, axis=-1) * np.linalg.norm(truth, axis=-1)
    return np.asarray((ours * truth).sum(-1) / norms)


@every_engine
@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"pieces": "mean"},
        {"activation": "gelu_new", "dim": 40, "n_heads": 2, "ff_dim": 100},
        {"activation": "relu", "dim": 21, "n_heads": 7, "ff_dim": 9, "n_layers": 1},
        {"pieces": "mean", "max_positions": 7},  # words that are read in several windows
    ],
)
def test_it_gives_what_the_model_gives(
    name: str, changed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
):
    checkpoint = tiny_bert(**changed)
    truth = by_module(checkpoint, INPUTS)
    for pieces in (16, 1024):
        monkeypatch.setattr(bert, "PIECES", pieces)
        for ours, theirs in zip(engine(checkpoint, name).embed(INPUTS), truth, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=0, atol=5e-6)


@every_engine
@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_a_sentence_is_the_same_alone_among_200_and_beside_one_of_500_words(
    name: str, precision: Precision
):
    """By a kernel to the last bit, whatever the threads."""
    if precision == "int8" and name == "torch":
        pytest.skip("int8 needs a kernel")
    run = engine(tiny_bert(max_positions=64), name, precision)
    (alone,) = run.embed([text(12)])
    crowd = [text(n % 40 + 1, n) for n in range(200)]
    threads = torch.get_num_threads()
    for others in (crowd, [text(500)]):
        for n in (1, 2):
            torch.set_num_threads(n)
            found = run.embed([*others, text(12)])[-1]
            atol = 1e-5 if name == "torch" else 0.0
            np.testing.assert_allclose(found, alone, rtol=0, atol=atol)
    torch.set_num_threads(threads)


def test_a_long_text_is_computed_in_parts_of_bounded_size():
    checkpoint = tiny_bert()
    batch = checkpoint.need_reader().read([text(20_000), text(3)])
    for threads in (1, 2, 3):
        chunks, shared = chunked(batch, threads, first=True)
        assert not shared
        assert (
            max(len(chunk.ids) for chunk in chunks)
            <= bert.PIECES + bert_of(checkpoint).config.max_positions
        )
        assert sum(len(chunk.ids) for chunk in chunks) == len(batch.ids)
        assert sum(len(chunk.places) for chunk in chunks) == 20_003


@needs_kernel
@every_kernel
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (12, 36), (64, 16), (700, 130)])
@pytest.mark.parametrize("activation", [None, "gelu", "gelu_new", "relu"])
def test_float32_products(name: str, inputs: int, outputs: int, activation: Any):
    torch.manual_seed(0)
    linear, x = nn.Linear(inputs, outputs).requires_grad_(False), 3 * torch.randn(23, inputs)
    product = NativeProduct(linear, KERNELS[name], int8=False, activation=activation)
    exact = activated(linear.double()(x.double()), activation)
    torch.testing.assert_close(product(x).double(), exact, rtol=2e-6, atol=5e-6)
    for n in (0, 1, 5, 22):
        for threads in (1, 2, 9):
            assert torch.equal(product(x[:n], threads), product(x)[:n])


@needs_kernel
@every_kernel
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (12, 36), (64, 16), (700, 130)])
@pytest.mark.parametrize("extreme", [False, True])
def test_int8_products_are_those_of_the_rounded_numbers(
    name: str, inputs: int, outputs: int, extreme: bool
):
    """Also where every number is the largest: nothing is cut off on the way."""
    torch.manual_seed(0)
    linear, x = nn.Linear(inputs, outputs).requires_grad_(False), torch.randn(23, inputs)
    if extreme:
        linear.weight.copy_(linear.weight.sign() * 0.5)
        x = x.sign() * 2 + 1.5
        x[0], linear.weight[0] = 3.5, 0.5
    product = NativeProduct(linear, KERNELS[name], int8=True)
    wanted = rounded(x, 127, signed=False) @ rounded(linear.weight, 64, signed=True).T
    torch.testing.assert_close(
        product(x).double(), wanted + linear.bias.double(), rtol=2e-6, atol=1e-5
    )
    for n in (0, 1, 5, 22):
        assert torch.equal(product(x[:n], 2), product(x)[:n])


def activated(x: torch.Tensor, activation: str | None) -> torch.Tensor:
    match activation:
        case "gelu":
            return nn.functional.gelu(x)
        case "gelu_new":
            return nn.functional.gelu(x, approximate="tanh")
        case "relu":
            return x.relu()
    return x


def rounded(x: torch.Tensor, levels: int, *, signed: bool) -> torch.Tensor:
    """Groups of 64 numbers rounded to as many levels, the slow and obvious way."""
    out = x.clone()
    for row in out:
        for group in row.split(64):
            low, high = min(0.0, float(group.min())), max(0.0, float(group.max()))
            unit = torch.tensor(max(-low, high) / levels if signed else (high - low) / levels)
            if unit > 0:
                zero = 0 if signed else round(-low / float(unit))
                bytes_ = (group / unit).round() + zero
                group.copy_(((bytes_ if signed else bytes_.clamp(0, levels)) - zero) * unit)
    return out.double()


def middling() -> Checkpoint:
    """Large enough for rounding errors to average out."""
    checkpoint = tiny_bert(dim=96, n_heads=4, ff_dim=384, n_layers=3, max_positions=64)
    torch.manual_seed(0)
    for parameter in checkpoint.model.parameters():
        if parameter.ndim > 1:
            nn.init.normal_(parameter, std=parameter.shape[1] ** -0.5)
    return checkpoint


@needs_kernel
@every_kernel
def test_int8_stays_close(name: str):
    """Relative error 2e-2 and cosine 0.999 at worst."""
    checkpoint, inputs = middling(), [text(n % 30 + 1, n) for n in range(40)]
    exact = np.concatenate(engine(checkpoint, name).embed(inputs), axis=1)
    rough = np.concatenate(engine(checkpoint, name, "int8").embed(inputs), axis=1)
    np.testing.assert_array_equal(rough[0], exact[0])  # the embedding output stays exact
    for ours, truth in zip(rough[1:], exact[1:], strict=True):
        assert 0 < np.linalg.norm(ours - truth) < 2e-2 * np.linalg.norm(truth)
        assert cosines(ours, truth).min() > 0.999


@pytest.mark.skipif(len(KERNELS) < 2, reason="fewer than two kernels to compare")
def test_int8_is_the_same_on_every_machine_but_for_rounding():
    checkpoint, inputs = middling(), [text(n % 30 + 1, n) for n in range(20)]
    first, *others = (engine(checkpoint, name, "int8").embed(inputs) for name in KERNELS)
    for other in others:
        for ours, theirs in zip(other, first, strict=True):
            assert np.linalg.norm(ours - theirs) < 5e-3 * np.linalg.norm(theirs)


def test_bfloat16_stays_close_and_is_another_fingerprint():
    checkpoint, inputs = middling(), [text(n % 30 + 1, n) for n in range(40)]
    exact, rough = (
        Embedder(checkpoint, device="cpu", precision=p) for p in ("float32", "bfloat16")
    )
    assert exact.fingerprint != rough.fingerprint
    for ours, truth in zip(rough.embed(inputs), exact.embed(inputs), strict=True):
        assert ours.layers.dtype == np.float32
        np.testing.assert_array_equal(ours.layers[0], truth.layers[0])
        assert np.abs(ours.layers - truth.layers).max() > 0
        assert cosines(ours.layers, truth.layers).min() > 0.999
    for name, parameter in checkpoint.model.named_parameters():
        assert parameter.dtype == torch.float32, name  # the model itself stays as it is


def test_what_cannot_be_is_refused_in_one_line():
    model, cpu = toy_checkpoint().model, torch.device("cpu")
    for precision, words in {
        "bfloat16": "which is for BERT",
        "int8": "LSTM models and BERT",
        "int4": "expected 'float32', 'bfloat16' or 'int8'",
    }.items():
        with pytest.raises(ConfigError, match=words) as caught:
            check_precision(precision, model, cpu)
        assert "\n" not in str(caught.value)
