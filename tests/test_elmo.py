"""The trainable use: what learns, what stays as it is, and that the mixes are the oracle's."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from elmore.checkpoint.bilm import bilm_checkpoint
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.hdf5 import read_hdf5
from elmore.checkpoint.native import write_native
from elmore.elmo import Elmo
from elmore.embedder import Embedder
from elmore.errors import ConfigError, InputError
from elmore.models.bilm import BiLM
from tests.lens.lensed import with_lens
from tests.oracle.scalar_mix import scalar_mix
from tests.tiny_models import SENTENCES, Tiny, make

BATCH = [SENTENCES[0], SENTENCES[2], [], SENTENCES[5]]
LENGTHS = [len(words) for words in BATCH]


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return make(tmp_path)


@pytest.fixture
def checkpoint(tiny: Tiny) -> Checkpoint:
    return read_hdf5(tiny.weights, tiny.options_path)


def set_mix(elmo: Elmo, k: int, weights: list[float], gamma: float) -> None:
    with torch.no_grad():
        elmo.mixes[k].scalars.copy_(torch.tensor(weights))
        elmo.mixes[k].gamma.fill_(gamma)


def expected_layers(tiny: Tiny) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """(L, B, T, D) by the oracle, zero where there is no word, and the mask."""
    layers = np.zeros((3, len(BATCH), max(LENGTHS), 16))
    for b, words in enumerate(BATCH):
        layers[:, b, : len(words)] = tiny.layers(words)[0]
    return layers, np.arange(max(LENGTHS)) < np.array(LENGTHS)[:, None]


def grads(elmo: Elmo) -> dict[str, Tensor | None]:
    return {name: p.grad for name, p in elmo.named_parameters()}


@pytest.mark.parametrize("layer_norm", [False, True])
def test_several_mixes_from_one_pass_agree_with_the_oracle(
    tiny: Tiny, checkpoint: Checkpoint, layer_norm: bool
):
    elmo = Elmo(checkpoint, n_mixes=2, layer_norm=layer_norm).eval()
    mixes = [([0.0, 0.0, 0.0], 1.0), ([1.5, -0.5, 0.3], 0.7)]
    for k, (weights, gamma) in enumerate(mixes):
        set_mix(elmo, k, weights, gamma)
    mixed = elmo(BATCH)
    layers, mask = expected_layers(tiny)
    np.testing.assert_array_equal(mixed.mask.numpy(), mask)
    assert len(mixed.vectors) == 2
    for vectors, (weights, gamma) in zip(mixed.vectors, mixes, strict=True):
        expected = scalar_mix(layers, weights, gamma, layer_norm=layer_norm, mask=mask)
        np.testing.assert_allclose(
            vectors.detach().numpy()[mask], expected[mask], rtol=0, atol=5e-6
        )


def test_a_frozen_bilm_learns_nothing_and_its_mix_does(checkpoint: Checkpoint):
    elmo = Elmo(checkpoint, dropout=0.0)
    assert not elmo.layers(BATCH).layers.requires_grad
    torch.sin(elmo(BATCH).vectors[0]).sum().backward()
    learnt = {name for name, grad in grads(elmo).items() if grad is not None and grad.any()}
    assert learnt == {"mixes.0.scalars", "mixes.0.gamma"}
    assert [n for n, p in elmo.named_parameters() if p.requires_grad] == sorted(learnt)[::-1]


def test_a_fine_tuned_bilm_learns_everywhere(checkpoint: Checkpoint):
    elmo = Elmo(checkpoint, fine_tune=True, dropout=0.0)
    torch.sin(elmo(BATCH).vectors[0]).sum().backward()
    idle = [name for name, grad in grads(elmo).items() if grad is None or not grad.any()]
    assert idle == []


def test_gradients_are_those_of_finite_differences(checkpoint: Checkpoint):
    elmo = Elmo(checkpoint, fine_tune=True, dropout=0.0).double()

    def loss() -> Tensor:
        return torch.sin(elmo(BATCH).vectors[0]).sum()

    loss().backward()
    for name in ("bilm.words.embed.weight", "bilm.context.layers.0.w_state", "mixes.0.scalars"):
        p = elmo.get_parameter(name)
        assert p.grad is not None
        place = int(p.grad.abs().argmax())
        flat, eps = p.data.view(-1), 1e-6
        flat[place] += eps
        above = loss().item()
        flat[place] -= 2 * eps
        slope = (above - loss().item()) / (2 * eps)
        flat[place] += eps
        assert slope == pytest.approx(p.grad.view(-1)[place].item(), rel=1e-5)


def test_no_gradients_where_the_caller_wants_none(checkpoint: Checkpoint):
    elmo = Elmo(checkpoint, fine_tune=True)
    with torch.no_grad():
        assert not elmo(BATCH).vectors[0].requires_grad


def test_training_it_does_not_change_the_embedder(checkpoint: Checkpoint):
    embedder = Embedder(checkpoint)
    before = embedder.embed(BATCH)
    elmo = Elmo(checkpoint, fine_tune=True)
    optimiser = torch.optim.SGD(elmo.parameters(), lr=1.0)
    start = elmo.eval()(BATCH).vectors[0].detach()
    elmo.train()(BATCH).vectors[0].square().sum().backward()
    optimiser.step()
    assert not torch.allclose(elmo.eval()(BATCH).vectors[0], start)
    for a, b in zip(before, embedder.embed(BATCH), strict=True):
        np.testing.assert_array_equal(a.layers, b.layers)
    assert not any(p.requires_grad for p in checkpoint.model.parameters())


def test_dropout_is_on_in_training_and_off_otherwise(checkpoint: Checkpoint):
    elmo = Elmo(checkpoint, dropout=0.5)
    words = elmo(BATCH).mask
    torch.manual_seed(0)
    dropped = elmo(BATCH).vectors[0][words] == 0
    assert 0.4 < dropped.float().mean() < 0.6
    elmo.eval()
    assert torch.equal(elmo(BATCH).vectors[0], elmo(BATCH).vectors[0])
    assert (elmo(BATCH).vectors[0][words] != 0).all()


def with_dropout(checkpoint: Checkpoint) -> Checkpoint:
    config = checkpoint.model.config
    context = config.context.model_copy(update={"dropout": 0.5})
    model = BiLM(config.model_copy(update={"context": context}))
    model.load_state_dict(checkpoint.model.state_dict())
    return bilm_checkpoint(model)


def test_a_frozen_bilm_stays_in_evaluation_mode(checkpoint: Checkpoint):
    lively = with_dropout(checkpoint)
    frozen = Elmo(lively).train()
    assert frozen.training
    assert not any(module.training for module in frozen.bilm.modules())
    assert torch.equal(frozen.layers(BATCH).layers, frozen.layers(BATCH).layers)
    tuned = Elmo(lively, fine_tune=True).train()
    assert tuned.bilm.training
    assert not torch.equal(tuned.layers(BATCH).layers, tuned.layers(BATCH).layers)
    assert not tuned.eval().bilm.training


def test_the_penalty_is_the_sum_over_the_mixes(checkpoint: Checkpoint):
    elmo = Elmo(checkpoint, n_mixes=2, l2=0.1)
    set_mix(elmo, 0, [1.0, 2.0, -1.0], 3.0)
    set_mix(elmo, 1, [0.0, 0.0, 2.0], 1.0)
    assert elmo.penalty().item() == pytest.approx(0.1 * (1 + 4 + 1 + 4))
    elmo.penalty().backward()
    assert elmo.mixes[0].scalars.grad.tolist() == pytest.approx([0.2, 0.4, -0.2])
    assert Elmo(checkpoint).penalty().item() == 0


def test_a_lens_of_other_weights_is_not_saved_with_it(tiny: Tiny, tmp_path: Path):
    elmo = Elmo.load(with_lens(tiny.weights, tmp_path / "with"), fine_tune=True)
    with torch.no_grad():
        for parameter in elmo.model.parameters():
            parameter.mul_(1.5)
    elmo.save(tmp_path / "tuned")
    assert Embedder.load(tmp_path / "tuned").lens is None


def test_its_state_is_saved_and_loaded(checkpoint: Checkpoint):
    elmo, other = Elmo(checkpoint, fine_tune=True), Elmo(checkpoint, fine_tune=True)
    with torch.no_grad():
        for p in elmo.parameters():
            p.mul_(1.01)
    other.load_state_dict(elmo.state_dict())
    assert torch.equal(elmo.eval()(BATCH).vectors[0], other.eval()(BATCH).vectors[0])


def test_loading_takes_what_the_embedder_takes(tiny: Tiny, checkpoint: Checkpoint, tmp_path: Path):
    write_native(checkpoint, tmp_path / "native")
    expected = Elmo(checkpoint).eval()(BATCH).vectors[0]
    for source in (tiny.weights, str(tmp_path / "native")):
        elmo = Elmo.load(source).eval()
        assert elmo.dim == 16
        assert torch.equal(elmo(BATCH).vectors[0], expected)


def test_strings_are_tokenised_as_the_embedder_does(checkpoint: Checkpoint):
    elmo = Elmo(checkpoint).eval()
    mixed = elmo(["The river bank.", SENTENCES[0]])
    torch.testing.assert_close(mixed.vectors[0][0], mixed.vectors[0][1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("batch", [[], [[]], [[], []]])
def test_a_batch_without_words(checkpoint: Checkpoint, batch: list[list[str]]):
    mixed = Elmo(checkpoint, layer_norm=True).eval()(batch)
    assert mixed.vectors[0].shape == (len(batch), 0, 16)
    assert mixed.mask.shape == (len(batch), 0)


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({"n_mixes": 0}, "n_mixes is 0; expected 1 or more"),
        ({"dropout": 1.5}, "dropout is 1.5"),
        ({"dropout": -0.1}, "dropout is -0.1"),
    ],
)
def test_a_setting_out_of_range(checkpoint: Checkpoint, setting: dict[str, Any], expected: str):
    with pytest.raises(ConfigError, match=expected):
        Elmo(checkpoint, **setting)


def test_bad_input_is_named(checkpoint: Checkpoint):
    elmo = Elmo(checkpoint)
    with pytest.raises(InputError, match="one string"):
        elmo("We sat.")
    with pytest.raises(InputError, match="Sentence 1, word 0 is a int"):
        elmo([["a"], [3]])


def test_a_bilm_that_is_set_free_later_learns_from_then_on(checkpoint: Checkpoint):
    elmo = Elmo(checkpoint, dropout=0.0)
    sentences = [["My", "bank"], ["The", "river"]]
    elmo(sentences).vectors[0].sum().backward()
    assert all(p.grad is None for p in elmo.bilm.parameters())
    elmo.bilm.context.requires_grad_(True)
    assert elmo.train().bilm.training
    elmo(sentences).vectors[0].sum().backward()
    assert all(p.grad is not None for p in elmo.bilm.context.parameters())
    assert all(p.grad is None for p in elmo.bilm.words.parameters())


# The fast way -------------------------------------------------------------------------------------

TWO = [["My", "bank", "account"], ["The", "river"]]


def layers_of(elmo: Elmo) -> Tensor:
    return elmo.layers(TWO).layers


def test_a_frozen_bilm_gives_what_a_free_one_gives(checkpoint: Checkpoint):
    frozen, free = Elmo(checkpoint), Elmo(checkpoint, fine_tune=True)
    assert frozen._runner() is not None
    assert free._runner() is None
    torch.testing.assert_close(layers_of(frozen), layers_of(free), rtol=0, atol=1e-5)
    assert torch.equal(frozen.layers(TWO).mask, free.layers(TWO).mask)
    assert frozen([]).vectors[0].shape == free([]).vectors[0].shape
    assert frozen([[], ["a"]]).vectors[0].shape == free([[], ["a"]]).vectors[0].shape


def test_weights_that_change_are_seen(checkpoint: Checkpoint):
    elmo = Elmo(checkpoint)
    before = layers_of(elmo)
    halves = {name: value / 2 for name, value in elmo.bilm.state_dict().items()}
    elmo.bilm.load_state_dict(halves)
    loaded = layers_of(elmo)
    assert not torch.equal(loaded, before)
    elmo.bilm.requires_grad_(True)
    torch.testing.assert_close(layers_of(elmo), loaded, rtol=0, atol=1e-5)
    optimizer = torch.optim.SGD(elmo.bilm.parameters(), lr=0.5)
    elmo(TWO).vectors[0].sum().backward()
    optimizer.step()
    elmo.bilm.requires_grad_(False)
    stepped = layers_of(elmo)
    assert not torch.equal(stepped, loaded)
    elmo.bilm.requires_grad_(True)
    torch.testing.assert_close(layers_of(elmo), stepped, rtol=0, atol=1e-5)


def test_a_copy_makes_an_engine_of_its_own(checkpoint: Checkpoint, tmp_path: Path):
    elmo = Elmo(checkpoint)
    expected = layers_of(elmo)
    copied = copy.deepcopy(elmo)
    torch.save(elmo, tmp_path / "elmo.pt")
    saved = torch.load(tmp_path / "elmo.pt", weights_only=False)
    for other in (copied, saved):
        assert torch.equal(layers_of(other), expected)
        assert other._runner() is not elmo._runner()


def test_other_numbers_than_float32_go_the_plain_way(checkpoint: Checkpoint):
    elmo = Elmo(checkpoint).double()
    assert elmo._runner() is None
    assert layers_of(elmo).dtype == torch.float64


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float64])
def test_a_model_of_two_kinds_of_numbers_does_not_reach_the_kernel(
    checkpoint: Checkpoint, kind: torch.dtype
):
    elmo = Elmo(checkpoint)
    layers_of(elmo)
    elmo.bilm.context.to(kind)
    assert elmo._runner() is None


def test_autocast_does_not_round_what_is_kept(checkpoint: Checkpoint):
    expected = layers_of(Elmo(checkpoint))
    elmo = Elmo(checkpoint)
    with torch.autocast("cpu", torch.bfloat16):
        inside = layers_of(elmo)
    assert torch.equal(inside, expected)
    assert torch.equal(layers_of(elmo), expected)


def test_what_is_written_past_pytorch_is_seen_after_forgetting(checkpoint: Checkpoint):
    elmo = Elmo(checkpoint)
    before = layers_of(elmo)
    for parameter in elmo.bilm.parameters():
        parameter.data.mul_(0.5)
    elmo.forget()
    assert not torch.equal(layers_of(elmo), before)


def test_a_bilm_frozen_in_mid_training_is_in_evaluation_mode(checkpoint: Checkpoint):
    elmo = Elmo(checkpoint, fine_tune=True).train()
    assert elmo.bilm.training
    elmo.bilm.requires_grad_(False)
    layers_of(elmo)
    assert not elmo.bilm.training


@pytest.mark.parametrize("fine_tune", [False, True])
def test_a_compiled_elmo_gives_the_same(tiny: Tiny, fine_tune: bool):
    """The backend that changes no numbers: what is tested is that torch can follow the program."""
    elmo = Elmo.load(tiny.weights, fine_tune=fine_tune, dropout=0.0).eval()
    compiled = torch.compile(elmo, backend="eager")
    for sentences in ([["the", "bank"], ["a"]], [["one"]], ["A text, not words."], [[]]):
        mine, theirs = elmo(sentences), compiled(sentences)
        torch.testing.assert_close(theirs.vectors[0], mine.vectors[0], rtol=0, atol=0)
        assert torch.equal(theirs.mask, mine.mask)
    compiled([["the", "bank"]]).vectors[0].sum().backward()
    assert elmo.mixes[0].gamma.grad is not None
    learned = [parameter.grad is not None for parameter in elmo.model.parameters()]
    assert all(learned) if fine_tune else not any(learned)
