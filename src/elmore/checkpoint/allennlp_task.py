"""The LSTM ELMo inside a task's AllenNLP archive, with the mixes the task has learned. Its options
are a separate file, which AllenNLP usually puts into the archive's folder fta.
"""

# P projection dim, F filters
import itertools
import re
from pathlib import Path
from typing import Any

from elmore.checkpoint.allennlp_names import TABLE, read_bilm
from elmore.checkpoint.bilm import bilm_checkpoint
from elmore.checkpoint.checkpoint import Checkpoint, LearnedMix, build_model
from elmore.checkpoint.options import config_from_options, read_options
from elmore.checkpoint.torch_blocks import ASSUMED, filters_of, lstm_of
from elmore.checkpoint.torch_file import TorchTensors
from elmore.config import valid
from elmore.models.bilm import BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig

CHAR_TABLE = f"_elmo_lstm.{TABLE}"


def read_task(
    folder: Path, config: dict[str, Any], tensors: TorchTensors, prefix: str
) -> Checkpoint:
    """The ELMo whose tensors' names begin with `prefix`, which depends on the task."""
    section = _elmo_section(config)
    options = _options_file(folder, section)
    if options is None:
        raw, shape = {}, _task_config_of(tensors, prefix)
    else:
        raw = read_options(options)
        shape = _as_allennlp(config_from_options(raw, options, n_words=None))
    model = build_model(shape, read_bilm(tensors, f"{prefix}_elmo_lstm.", shape), tensors.where)
    notes = () if raw else (f"The archive lacks ELMo's options file: {ASSUMED}",)
    norm = bool(section.get("do_layer_norm", False))
    mixes = read_mixes(tensors, prefix + "scalar_mix_{}.", layer_norm=norm)
    return bilm_checkpoint(model, options=raw, mixes=mixes, notes=notes)


def _elmo_section(config: object) -> dict[str, Any]:
    """The part of the config that names an options file; empty if there is none."""
    if isinstance(config, dict):
        if "options_file" in config:
            return config
        config = list(config.values())
    found = (_elmo_section(part) for part in config) if isinstance(config, list) else iter(())
    return next((section for section in found if section), {})


def _options_file(folder: Path, section: dict[str, Any]) -> Path | None:
    """fta/….options_file as AllenNLP writes it, or else a file with the base name of the path."""
    name = re.split(r"[/\\]", str(section.get("options_file", "")))[-1]
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    kept = [path for path in files if path.parent.name == "fta"]
    kept = [path for path in kept if path.name.endswith("options_file")]
    return next((path for path in [*kept, *(f for f in files if f.name == name)]), None)


def _as_allennlp(config: BiLMConfig) -> BiLMConfig:
    """The same sizes; AllenNLP adds the forget bias to the bias and always has a projection."""
    context, words = config.context, config.words
    assert isinstance(context, LSTMConfig)
    assert isinstance(words, CharCNNConfig)  # without a word table, options must have a char_cnn
    return BiLMConfig(
        words=words.model_copy(update={"project": True}),
        context=context.model_copy(update={"forget_bias": 0.0, "skip": True}),
    )


def _task_config_of(tensors: TorchTensors, prefix: str) -> BiLMConfig:
    """Sizes read off the tensors; the rest as in all published models."""
    root = prefix + "_elmo_lstm._token_embedder"
    with valid(tensors.where):
        words = CharCNNConfig(
            char_dim=tensors.shape(prefix + CHAR_TABLE, 2)[1],
            filters=filters_of(tensors, root + ".char_conv_{}"),
            n_highway=tensors.count(root + "._highways._layers.{}.weight"),
            dim=tensors.shape(f"{root}._projection.weight", 2)[0],
        )
        context = lstm_of(tensors, prefix + "_elmo_lstm._elmo_lstm.")
        return BiLMConfig(words=words, context=context)


def read_mixes(tensors: TorchTensors, pattern: str, *, layer_norm: bool) -> tuple[LearnedMix, ...]:
    """The mixes called `pattern`, with a place for their number or without one."""
    starts = [pattern] if "{}" not in pattern else map(pattern.format, itertools.count())
    mixes = []
    for at in itertools.takewhile(lambda at: f"{at}gamma" in tensors, starts):
        numbered = at + "scalar_parameters.{}"
        names = map(numbered.format, range(tensors.count(numbered)))
        scalars = tuple(float(tensors.take(name, (1,))) for name in names)
        gamma = float(tensors.take(f"{at}gamma", (1,)))
        mixes.append(LearnedMix(scalars=scalars, gamma=gamma, layer_norm=layer_norm))
    return tuple(mixes)
