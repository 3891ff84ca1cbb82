"""What AllenNLP's `Elmo` module calls the tensors of its biLM and of its mixes, in both directions.
A user's own `torch.save(elmo.state_dict())` has these names, and so has an archive of a task.
"""

# P projection dim, C cell dim, F filters
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from elmore.checkpoint.torch_blocks import (
    SIDES,
    read_convolutions,
    read_highways,
    read_linear,
    read_lstm,
)
from elmore.checkpoint.torch_file import TorchTensors
from elmore.errors import FormatError
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.text.byte_reader import N_CHARACTER_IDS

SPELLING, STACKS = "_token_embedder", "_elmo_lstm."
TABLE = f"{SPELLING}._char_embedding_weights"
CACHE = "_word_embedding.weight"  # vectors of `vocab_to_cache`, made from the other tensors


def has_allennlp_names(config: BiLMConfig) -> bool:
    """Whether AllenNLP's `_ElmoBiLm` can hold such a model at all."""
    words, lstm = config.words, config.context
    return (
        isinstance(words, CharCNNConfig)
        and isinstance(lstm, LSTMConfig)
        and not words.layer_norm
        and words.project_at == "after_highway"
        and lstm.skip
    )


def read_bilm(tensors: TorchTensors, prefix: str, config: BiLMConfig) -> dict[str, Tensor]:
    """AllenNLP's tensors under `prefix` -> ours, their forget bias as `config` has it."""
    cnn, lstm = config.words, config.context
    assert isinstance(cnn, CharCNNConfig)
    assert isinstance(lstm, LSTMConfig)
    root = prefix + SPELLING
    table = tensors.take(prefix + TABLE, (N_CHARACTER_IDS, cnn.char_dim))
    read = {"words.embed.weight": table}
    read |= read_convolutions(tensors, root + ".char_conv_{}", cnn, "words.")
    read |= read_highways(tensors, f"{root}._highways", cnn.n_highway, cnn.n_filters, "words.")
    if cnn.project:
        both = (cnn.dim, cnn.n_filters)
        read |= read_linear(tensors, f"{root}._projection", both, "words.project")
    read |= read_lstm(tensors, prefix + STACKS, lstm)
    for layer in range(lstm.n_layers):
        forget_gates(read[f"context.layers.{layer}.bias"]).sub_(lstm.forget_bias)
    return read


def write_bilm(tensors: Mapping[str, Tensor], config: BiLMConfig) -> dict[str, Tensor]:
    """The reverse, without any prefix."""
    cnn, lstm = config.words, config.context
    assert isinstance(cnn, CharCNNConfig)
    assert isinstance(lstm, LSTMConfig)
    written = {TABLE: tensors["words.embed.weight"]}
    for part in ("weight", "bias"):
        for i in range(len(cnn.filters)):
            convolution = tensors[f"words.convolutions.{i}.{part}"]
            written[f"{SPELLING}.char_conv_{i}.{part}"] = convolution
        for k in range(cnn.n_highway):
            turned = tensors[f"words.highway.layers.{k}.{part}"].clone()
            turned[cnn.n_filters :].neg_()  # see torch_blocks.py
            written[f"{SPELLING}._highways._layers.{k}.{part}"] = turned
        if cnn.project:
            written[f"{SPELLING}._projection.{part}"] = tensors[f"words.project.{part}"]
    for layer in range(lstm.n_layers):
        ours = f"context.layers.{layer}."
        bias = tensors[ours + "bias"].clone()
        forget_gates(bias).add_(lstm.forget_bias)
        for d, side in enumerate(SIDES):
            theirs = f"{STACKS}{side}_layer_{layer}."
            written[theirs + "input_linearity.weight"] = tensors[ours + "w_input"][d]
            written[theirs + "state_linearity.weight"] = tensors[ours + "w_state"][d]
            written[theirs + "state_linearity.bias"] = bias[d]
            if lstm.project:
                written[theirs + "state_projection.weight"] = tensors[ours + "w_project"][d]
    return written


def forget_gates(bias: Tensor) -> Tensor:
    """The second quarter of (directions, 4C), as a view."""
    return bias.view(len(bias), 4, -1)[:, 1]


def to_ours(state: dict[str, Tensor], prefix: str, model: BiLM, at: str) -> bool:
    """Rename AllenNLP's biLM under `prefix` of a state dict to our names under `at`, in place.
    False if there is none; a tensor that is missing or of another shape is an error."""
    if prefix + TABLE not in state:
        return False
    if not has_allennlp_names(model.config):
        raise FormatError(
            "The state dict contains AllenNLP's LSTM ELMo, but this model is of another kind; "
            "load the model that was fine-tuned."
        )
    tensors = TorchTensors(state, "The state dict")
    found = read_bilm(tensors, prefix, model.config)
    drop(state, [*tensors.taken, prefix + CACHE])
    state.update({at + name: tensor for name, tensor in found.items()})
    return True


def mixes_to_ours(state: dict[str, Tensor], prefix: str, at: str) -> None:
    """AllenNLP keeps each weight of a mix by itself, elmore's `ScalarMix` all of them together."""
    tensors, k = TorchTensors(state, "The state dict"), 0
    while (gamma := f"{prefix}scalar_mix_{k}.gamma") in state:
        pattern = f"{prefix}scalar_mix_{k}.scalar_parameters.{{}}"
        names = [pattern.format(i) for i in range(tensors.count(pattern))]
        if names:
            state[f"{at}{k}.scalars"] = torch.cat([state[name].reshape(1) for name in names])
        state[f"{at}{k}.gamma"] = state[gamma].reshape(())
        drop(state, [*names, gamma])
        k += 1


def drop(state: dict[str, Tensor], names: Iterable[str]) -> None:
    for name in names:
        state.pop(name, None)
