"""Recipes are what they say, files of one's own work, and overrides are strict."""

from pathlib import Path

import pytest
import torch

from elmore.config import override
from elmore.errors import ConfigError
from elmore.models.bilm import BiLM
from elmore.nn.lstm import LSTMConfig
from elmore.nn.softmax import FullSoftmaxConfig, SampledSoftmaxConfig
from elmore.pretrain.batches import RowsConfig, SentencesConfig
from elmore.pretrain.recipes import RECIPES, elmo_small, elmo_transformer, find_recipe
from elmore.train.optimizer import AdagradConfig, AdamWConfig
from elmore.train.schedule import CosineSchedule


@pytest.mark.parametrize(
    ("name", "millions"), [("elmo-small", 13.6), ("elmo-medium", 28.0), ("elmo-original", 93.6)]
)
def test_the_published_sizes_have_their_published_numbers_of_parameters(name: str, millions: float):
    config = find_recipe(name)
    with torch.device("meta"):
        model = BiLM(config.model)
    n = sum(p.numel() for p in model.parameters())
    assert n / 1e6 == pytest.approx(millions, abs=0.05)
    assert config.loop.optimizer == AdagradConfig(lr=0.2, initial_accumulator=1.0)
    assert (config.loop.clip, config.loop.loss_scale, config.epochs) == (10.0, 20.0, 10)
    assert config.batches == RowsConfig(rows=128, steps=20)
    assert config.softmax == SampledSoftmaxConfig(n_samples=8192)


@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_is_a_full_config_that_survives_its_own_json(name: str):
    config = find_recipe(name)
    assert type(config).model_validate_json(config.model_dump_json()) == config
    assert override(config, []) == config


def test_a_function_in_a_file_of_ones_own_is_a_recipe(tmp_path: Path):
    path = tmp_path / "my_runs.py"
    path.write_text(
        "from elmore.pretrain.recipes import elmo_small\n"
        "def short():\n    return elmo_small().model_copy(update={'epochs': 1.5})\n"
        "def wrong():\n    return 7\n"
    )
    assert find_recipe(f"{path}:short").epochs == 1.5
    with pytest.raises(ConfigError, match=r"wrong returned a int; expected one of PretrainConfig"):
        find_recipe(f"{path}:wrong")
    with pytest.raises(ConfigError, match=r"my_runs.py: no function 'absent'"):
        find_recipe(f"{path}:absent")


@pytest.mark.parametrize("name", ["elmo-tiny", "elmo_small", "x.txt:f", ""])
def test_an_unknown_recipe_is_answered_with_the_known_ones(name: str):
    with pytest.raises(ConfigError, match="elmo-small, elmo-medium"):
        find_recipe(name)


def test_a_recipe_in_a_missing_file_is_told(tmp_path: Path):
    with pytest.raises(ConfigError, match="no such file"):
        find_recipe(f"{tmp_path / 'absent.py'}:short")


def test_settings_change_what_they_name_and_nothing_else():
    found = override(elmo_small(), ["loop.clip=5", "loop.steps=70", "reading.tokenize=true"])
    assert (found.loop.clip, found.loop.steps, found.reading.tokenize) == (5.0, 70, True)
    assert override(found, ["loop.clip=10", "loop.steps=null", "reading.tokenize=false"]) == (
        elmo_small()
    )


def test_another_kind_brings_its_own_settings_which_can_be_set_too():
    found = override(
        elmo_small(),
        [
            "softmax.kind=full",
            "loop.optimizer.kind=adamw",
            "loop.optimizer.lr=0.003",
            'loop.schedule={"kind": "cosine", "warmup": 7}',
            "batches.kind=sentences",
            "batches.words=99",
        ],
    )
    assert found.softmax == FullSoftmaxConfig()
    assert found.loop.optimizer == AdamWConfig(lr=0.003)
    assert found.loop.schedule == CosineSchedule(warmup=7)
    assert found.batches == SentencesConfig(words=99)


def test_a_section_can_be_given_in_part_as_json():
    found = override(elmo_small(), ['model.context={"cell_dim": 64}'])
    assert found.model.context == LSTMConfig(dim=128, cell_dim=64, dropout=0.1)


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("loop.clop=5", r"no 'clop' there; there are steps, minutes"),
        ("lop.clip=5", r"no section 'lop'"),
        ("loop.clip.x=5", r"no section 'clip'"),
        ("loop.clip", r"expected name=value"),
        ("loop.clip=much", r"loop.clip: .*'much'"),
        ("loop.clip=-1", r"loop.clip: .*greater than 0"),
        ("loop.steps=2.5", r"loop.steps: .*2.5"),
        ("loop.steps=true", r"loop.steps: .*True"),
        ('loop.steps="7"', r"loop.steps: .*'7'"),
        ("reading.tokenize=yes", r"reading.tokenize: .*'yes'"),
        ("loop.kind=fast", r"no 'kind' there"),
        ("softmax.kind=hierarchical", r"softmax: .*hierarchical"),
        ("model.context.dim=64", r"words.dim=128 but context.dim=64"),
    ],
)
def test_a_setting_that_does_not_fit_is_refused_in_one_line(setting: str, said: str):
    with pytest.raises(ConfigError, match=said) as found:
        override(elmo_small(), [setting])
    assert "\n" not in str(found.value)


def test_settings_of_the_kind_that_was_left_are_unknown():
    with pytest.raises(ConfigError, match=r"softmax.*n_samples: Extra inputs"):
        override(elmo_small(), ["softmax.kind=full", "softmax.n_samples=5"])


def test_a_transformer_in_rows_is_refused():
    with pytest.raises(ConfigError, match=r"batches.kind=sentences"):
        override(elmo_transformer(), ["batches.kind=rows"])
