"""The biLM's parts fit together: which ways in and which contexts a config can name."""

import pytest
import torch
from pydantic import ValidationError

from elmore.errors import ConfigError
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.transformer import TransformerConfig
from elmore.nn.word_char import WordCharConfig, WordTableConfig

SPELLING = CharCNNConfig(char_dim=3, filters=((1, 4), (2, 6)), n_highway=1, dim=8)
BARE = CharCNNConfig(n_characters=9, char_dim=3, filters=((1, 4), (2, 6)), dim=10, project=False)
WAYS_IN = {
    "characters": SPELLING,
    "characters, early projection, norm": SPELLING.model_copy(
        update={"project_at": "after_cnn", "layer_norm": True}
    ),
    "words": WordTableConfig(n_words=9, dim=8),
    "words and characters": WordCharConfig(characters=BARE, n_words=9, word_dim=5, dim=8),
    "a dictionary of characters": WordCharConfig(characters=BARE, dim=8),
}
CONTEXTS = {
    "lstm": LSTMConfig(dim=8, cell_dim=12, n_layers=2),
    "transformer": TransformerConfig(dim=8, ff_dim=12, n_layers=2, n_heads=2, max_positions=10),
}
ROW_LENGTH = {"words": 1, "words and characters": 51}


@pytest.mark.parametrize("way_in", WAYS_IN)
@pytest.mark.parametrize("context", CONTEXTS)
def test_every_way_in_goes_with_every_context(way_in: str, context: str):
    torch.manual_seed(0)
    config = BiLMConfig(words=WAYS_IN[way_in], context=CONTEXTS[context])
    assert BiLMConfig.model_validate_json(config.model_dump_json()) == config
    model = BiLM(config).train()
    rows = torch.randint(9, (5, ROW_LENGTH.get(way_in, 50)))
    output = model.run(rows, torch.randint(5, (3, 6)), torch.tensor([6, 2, 4]))
    assert output.states.layers.shape == (3, 3, 6, 16)
    assert (output.state is None) == (context == "transformer")
    output.states.layers[:, output.states.mask].square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())


def test_only_an_lstm_has_a_state_to_begin_with():
    lstm = BiLM(BiLMConfig(words=SPELLING, context=CONTEXTS["lstm"]))
    assert lstm.zero_state(4).c.shape == (2, 2, 4, 12)
    transformer = BiLM(BiLMConfig(words=SPELLING, context=CONTEXTS["transformer"]))
    with pytest.raises(ConfigError, match="carries no state"):
        transformer.zero_state(4)


def test_a_table_too_small_for_bytes_is_refused():
    small = SPELLING.model_copy(update={"n_characters": 200})
    with pytest.raises(ValidationError, match="bytes and marks are 262"):
        BiLMConfig(words=small, context=CONTEXTS["lstm"])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"characters": SPELLING}, "share a projection"),
        ({"n_words": 4}, "n_words=4 with word_dim=0"),
        ({"word_dim": 4}, "n_words=0 with word_dim=4"),
    ],
)
def test_a_dictionary_config_that_cannot_be(change: dict[str, object], expected: str):
    with pytest.raises(ValidationError, match=expected):
        WordCharConfig(**{"characters": BARE, "dim": 8, **change})
