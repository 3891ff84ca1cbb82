"""AllenNLP's `Elmo` and `ScalarMix`: character ids in, learned mixes of all layers out."""

# B sentences, T words, C character ids per word, L layers with the context-free one, D vector dim
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from elmore.errors import ConfigError
from elmore.integrations.allennlp_bilm import ElmoBiLm
from elmore.models.bilm import without_marks
from elmore.models.layers import LayerStates

_EPS = 1e-13  # what AllenNLP adds to a variance since 1.0


class ElmoOutput(TypedDict):
    """What `Elmo` returns: one tensor per mix, and which places are words."""

    elmo_representations: list[Tensor]  # (B, T, D) each
    mask: Tensor  # (B, T), bool


class ScalarMix(nn.Module):
    """γ Σ softmax(w)_j h_j, each w_j a parameter of its own as in AllenNLP's checkpoints."""

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ):
        super().__init__()
        initial = [0.0] * mixture_size
        if initial_scalar_parameters is not None:
            initial = [float(w) for w in initial_scalar_parameters]
        if len(initial) != mixture_size:
            raise ConfigError(f"{len(initial)} mix weights given for {mixture_size} layers.")
        self.mixture_size = mixture_size
        self.do_layer_norm = do_layer_norm
        self.scalar_parameters = nn.ParameterList(
            nn.Parameter(torch.tensor([w]), requires_grad=trainable) for w in initial
        )
        self.gamma = nn.Parameter(torch.tensor([1.0]), requires_grad=trainable)

    def forward(self, tensors: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """Tensors of one shape (..., D) -> their mix; `mask` (...) is for the layer norm alone."""
        if len(tensors) != self.mixture_size:
            raise ConfigError(f"{len(tensors)} tensors given to a mix of {self.mixture_size}.")
        if self.do_layer_norm:
            if mask is None:
                raise ConfigError("do_layer_norm=True needs the mask: call mix(tensors, mask).")
            tensors = [_normalize(tensor, mask.bool()) for tensor in tensors]
        weights = torch.softmax(torch.cat(list(self.scalar_parameters)), dim=0)  # (L,)
        mixed: Tensor = self.gamma * torch.tensordot(weights, torch.stack(list(tensors)), dims=1)
        return mixed  # (..., D)


class Elmo(nn.Module):
    """Character ids -> one or several mixes of the biLM's layers, from one pass.

    As AllenNLP's, with these notes:

    - `options_file` may be None where `weight_file` is anything `elmore.Embedder.load` takes.
    - `stateful=False` gives a sentence the same vectors whatever was read before. With True each
      row goes on from what the same row of the last batch left, as AllenNLP always did: for
      getting old numbers again.
    - `vocab_to_cache` saves no time here, since a batch's distinct words are spelled once anyway.
      Where `inputs` are given they are read, and `word_inputs` need only agree with them; with
      `inputs=None` the ids in `word_inputs` index `vocab_to_cache`, whose place 0 is padding.
    - `module`, instead of the two files, is anything that is called and answers as `ElmoBiLm`:
      (inputs, word_inputs) -> {"activations", "mask"}, `num_layers`, `get_output_dim()`.
    - A state dict has AllenNLP's names, and can be read there. State dicts with elmore's names
      (`_elmo_lstm.bilm.…`), as version 0.1 wrote them, are read too.
    """

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path | None,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: Sequence[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        module: nn.Module | None = None,
        *,
        stateful: bool = False,
    ):
        super().__init__()
        if num_output_representations < 1:
            raise ConfigError(
                f"num_output_representations is {num_output_representations}; expected 1 or more."
            )
        if (module is None) == (weight_file is None):
            raise ConfigError("Give Elmo a weight_file or a module: one of the two, not both.")
        if module is not None and (options_file is not None or vocab_to_cache or stateful):
            raise ConfigError("module comes with its own options, vocabulary and state: pass none.")
        self._elmo_lstm: Any = module
        if weight_file is not None:
            self._elmo_lstm = ElmoBiLm(
                options_file, weight_file, requires_grad, vocab_to_cache, stateful=stateful
            )
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._dropout = nn.Dropout(dropout)
        self._mix_names = [f"scalar_mix_{k}" for k in range(num_output_representations)]
        for name in self._mix_names:
            mix = ScalarMix(
                self._elmo_lstm.num_layers,
                do_layer_norm=do_layer_norm,
                initial_scalar_parameters=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(name, mix)

    def get_output_dim(self) -> int:
        dim: int = self._elmo_lstm.get_output_dim()
        return dim

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> ElmoOutput:
        """inputs (B, T, C); dimensions before these are folded into B and come back."""
        leading = _leading(inputs, word_inputs)
        output = self._elmo_lstm(_fold(inputs, 3), _fold(word_inputs, 2))
        layers, mask = output["activations"], output["mask"]
        # Normalized with the marks, as in the original; marks are dropped after that.
        mixed = torch.stack([getattr(self, name)(layers, mask) for name in self._mix_names])
        states = LayerStates(mixed, mask)
        if not self._keep_sentence_boundaries:
            states = without_marks(states)
        vectors = [self._dropout(mix) for mix in states.layers]
        return {
            "elmo_representations": [v.reshape(*leading, *v.shape[1:]) for v in vectors],
            "mask": states.mask.reshape(*leading, states.mask.shape[1]),
        }


def _normalize(tensor: Tensor, mask: Tensor) -> Tensor:
    """By one mean and one variance over every number of every real word of the batch."""
    kept = tensor[mask]  # (words, D)
    return (tensor - kept.mean()) / torch.sqrt(kept.var(correction=0) + _EPS)


def _leading(inputs: Tensor | None, word_inputs: Tensor | None) -> torch.Size:
    if inputs is not None:
        return inputs.shape[:-2]
    return torch.Size() if word_inputs is None else word_inputs.shape[:-1]


def _fold(tensor: Tensor | None, n_dims: int) -> Tensor | None:
    """Merge the first dimensions if there are more than `n_dims`."""
    if tensor is None or tensor.dim() <= n_dims:
        return tensor
    return tensor.reshape(-1, *tensor.shape[1 - n_dims :])
