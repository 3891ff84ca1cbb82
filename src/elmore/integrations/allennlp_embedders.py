"""AllenNLP's token embedders: one vector per word, for a model that takes nothing else. One is for
LSTM ELMos, the other for the Transformer ELMo of allennlp-models.
"""

# B sentences, T words, C character ids per word, D vector dim
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn

from elmore.integrations.allennlp_bilm import ElmoBiLm
from elmore.integrations.allennlp_elmo import Elmo, ScalarMix
from elmore.models.bilm import without_marks
from elmore.models.layers import LayerStates


class ElmoTokenEmbedder(nn.Module):
    """`Elmo` with one mix, and a linear projection if `projection_dim` is given."""

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: int | None = None,
        vocab_to_cache: Sequence[str] | None = None,
        scalar_mix_parameters: Sequence[float] | None = None,
        *,
        stateful: bool = False,
    ):
        super().__init__()
        self._elmo = Elmo(
            options_file,
            weight_file,
            1,
            requires_grad=requires_grad,
            do_layer_norm=do_layer_norm,
            dropout=dropout,
            vocab_to_cache=vocab_to_cache,
            scalar_mix_parameters=scalar_mix_parameters,
            stateful=stateful,
        )
        self._projection = (
            nn.Linear(self._elmo.get_output_dim(), projection_dim) if projection_dim else None
        )

    def get_output_dim(self) -> int:
        if self._projection is not None:
            return self._projection.out_features
        return self._elmo.get_output_dim()

    def forward(self, elmo_tokens: Tensor | None, word_inputs: Tensor | None = None) -> Tensor:
        """(B, T, C) -> (B, T, D)."""
        vectors = self._elmo(elmo_tokens, word_inputs)["elmo_representations"][0]
        projected: Tensor = vectors if self._projection is None else self._projection(vectors)
        return projected


class BidirectionalLanguageModelTokenEmbedder(nn.Module):
    """A learned mix of the layers of the language model in `archive_file`.

    With `bos_eos_tokens=None` a sentence is read as it is, without marks around it. Otherwise
    they are <S> and </S>, which `remove_bos_eos` takes off the output again.
    """

    def __init__(
        self,
        archive_file: str | Path,
        dropout: float | None = None,
        bos_eos_tokens: tuple[str, str] | None = ("<S>", "</S>"),
        remove_bos_eos: bool = True,
        requires_grad: bool = False,
    ):
        super().__init__()
        marks = bos_eos_tokens is not None
        self._lm = ElmoBiLm(None, archive_file, requires_grad, marks=marks)
        self._remove_bos_eos = remove_bos_eos and marks
        self._dropout = nn.Dropout(dropout or 0.0)
        self._scalar_mix = ScalarMix(self._lm.num_layers)

    def get_output_dim(self) -> int:
        return self._lm.get_output_dim()

    def forward(self, tokens: Tensor) -> Tensor:
        """(B, T, C) -> (B, T, D), or (B, T + 2, D) with the marks."""
        output = self._lm(tokens)
        mixed = self._scalar_mix(output["activations"], output["mask"])
        if self._remove_bos_eos:
            mixed = without_marks(LayerStates(mixed.unsqueeze(0), output["mask"])).layers[0]
        dropped: Tensor = self._dropout(mixed)
        return dropped


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """(B, T + 2, D) and its mask -> (B, T, D) without the first and last word, and the mask."""
    states = without_marks(LayerStates(tensor.unsqueeze(0), mask.bool()))
    return states.layers[0], states.mask.to(torch.bool)
