"""Spelling to vector: the reference numbers, and padding left out without a trace."""

from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch import Tensor

from elmore.nn import char_cnn
from elmore.nn.char_cnn import CharCNN, CharCNNConfig
from elmore.text.byte_reader import ByteReader
from tests.oracle import lstm_elmo

CONFIG = CharCNNConfig(char_dim=4, filters=((1, 3), (2, 4), (7, 5)), n_highway=1, dim=6)


def filled(config: CharCNNConfig) -> CharCNN:
    """Parameters are a fixed wave: the same on any machine, seed and torch version."""
    module = CharCNN(config).double()
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(torch.sin(torch.arange(p.numel()) * (1.0 + 0.1 * i)).view_as(p))
    return module


def full_width(module: CharCNN, rows: Tensor) -> Tensor:
    """The same with every column kept."""
    with patch.object(char_cnn, "without_spare_padding", lambda rows, config: rows):
        vectors: Tensor = module(rows)
    return vectors


def spelled(words: list[str], max_characters: int = 50) -> Tensor:
    return torch.from_numpy(ByteReader(max_characters).spell(words))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text(max_size=60), min_size=1, max_size=5),
    st.integers(7, 60),
    st.sampled_from(["relu", "tanh"]),
)
def test_leaving_out_padding_changes_nothing(words: list[str], max_characters: int, kind: str):
    module = filled(
        CONFIG.model_copy(update={"max_characters": max_characters, "activation": kind})
    )
    rows = spelled(words, max_characters)
    torch.testing.assert_close(module(rows), full_width(module, rows), rtol=0, atol=1e-13)


def test_leaving_out_padding_does_leave_it_out():
    kept = char_cnn.without_spare_padding(spelled(["a", "bank"]), CONFIG)
    assert kept.shape == (2, 6 + 7)  # "bank", its two marks, and one window of padding
    for words in (["a", "x" * 48], ["a", "x" * 60], ["x" * 41]):
        assert char_cnn.without_spare_padding(spelled(words), CONFIG).shape[1] == 50
    assert char_cnn.without_spare_padding(spelled(["x" * 40]), CONFIG).shape[1] == 49


def test_the_window_of_padding_that_stays_is_needed():
    """A filter that likes padding best must still see a whole window of it."""
    module, rows = filled(CONFIG), spelled(["a"])
    with torch.no_grad():
        module.embed.weight.copy_((torch.arange(262) == 261).double().unsqueeze(1))
        for conv in module.convolutions:
            conv.weight.fill_(1.0)
    needed = full_width(module, rows)
    assert not torch.allclose(full_width(module, rows[:, : 3 + 6]), needed, atol=1e-3)
    torch.testing.assert_close(full_width(module, rows[:, : 3 + 7]), needed, rtol=0, atol=1e-13)


def test_a_row_of_zeros_is_a_word_of_no_characters():
    module = filled(CONFIG)
    rows = torch.cat([spelled(["bank"]), torch.zeros(1, 50, dtype=torch.int64)])
    torch.testing.assert_close(module(rows), full_width(module, rows), rtol=0, atol=1e-13)


def test_no_words_give_no_vectors():
    assert filled(CONFIG)(spelled([])).shape == (0, 6)


def test_words_do_not_depend_on_each_other():
    module, words = filled(CONFIG), ["a", "bank", "", "x" * 99, "naïve"]
    together = module(spelled(words))
    for word, vector in zip(words, together, strict=True):
        torch.testing.assert_close(module(spelled([word]))[0], vector, rtol=0, atol=1e-13)


def test_a_word_has_the_oracles_vector():
    module = filled(CONFIG)
    state = {name: p.detach().numpy() for name, p in module.state_dict().items()}
    W = {"char_embed": state["embed.weight"][1:]}
    for i in range(3):
        W[f"CNN/W_cnn_{i}"] = state[f"convolutions.{i}.weight"].transpose(2, 1, 0)[None]
        W[f"CNN/b_cnn_{i}"] = state[f"convolutions.{i}.bias"]
    candidate, gate = np.split(state["highway.layers.0.weight"], 2)
    W["CNN_high_0/W_transform"], W["CNN_high_0/W_carry"] = candidate.T, gate.T
    W["CNN_high_0/b_transform"], W["CNN_high_0/b_carry"] = np.split(
        state["highway.layers.0.bias"], 2
    )
    W["CNN_proj/W_proj"], W["CNN_proj/b_proj"] = state["project.weight"].T, state["project.bias"]
    options = {"char_cnn": {"activation": "relu", "filters": [0, 0, 0], "n_highway": 1}}
    expected = lstm_elmo.word_vector(W, options, lstm_elmo.char_ids("bank"))
    np.testing.assert_allclose(
        module(spelled(["bank"]))[0].detach().numpy(), expected, rtol=0, atol=1e-12
    )


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"filters": ()}, "filters"),
        ({"filters": ((0, 3),)}, "filters"),
        ({"filters": ((51, 3),)}, "filter width 51 is over max_characters=50"),
        ({"project": False}, "project=False with 2048 filters and dim=512"),
        ({"n_characters": 0}, "n_characters"),
        ({"n_highway": -1}, "n_highway"),
        ({"char_dim": 0}, "char_dim"),
        ({"max_characters": 2}, "max_characters"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_a_config_that_cannot_be(change: dict[str, object], expected: str):
    with pytest.raises(ValidationError, match=expected):
        CharCNNConfig(**change)  # type: ignore[arg-type]
