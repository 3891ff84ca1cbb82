"""The trainable use: a model inside your own, frozen or fine-tuned, with a learned mix."""

# B sentences, T words, L layers, D vector dim
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmore.checkpoint.bert_config import word_options
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load
from elmore.embedding import Sentence, read_inputs
from elmore.engine.runner import Runner, is_plain, runner_for
from elmore.errors import ConfigError
from elmore.models.layers import LayerModel, LayerStates
from elmore.nn.scalar_mix import ScalarMix
from elmore.text.reader import Pair


class TrainableLayers(nn.Module):
    """Sentences -> every layer of a model, which is frozen or trained with the model around it."""

    def __init__(self, checkpoint: Checkpoint, *, fine_tune: bool = False):
        super().__init__()
        # A copy: training this one must not change what an Embedder was given.
        self.model: LayerModel = copy.deepcopy(checkpoint.model).requires_grad_(fine_tune)
        self.reader = checkpoint.need_reader()
        self._made: tuple[tuple[tuple[int, int], ...], Runner] | None = None
        self.register_load_state_dict_pre_hook(_rename_bilm)  # type: ignore[no-untyped-call]

    @property
    def dim(self) -> int:
        return self.model.dim

    @property
    def n_layers(self) -> int:
        return self.model.n_layers

    def layers(self, inputs: Sequence[Sentence | Pair]) -> LayerStates:
        """Every layer, unmixed; gradients only where the model is being fine-tuned. Inside of
        `torch.compile` this part runs as it is: it reads text, and it has a kernel of its own."""
        if torch.compiler.is_compiling():
            uncompiled: LayerStates = torch.compiler.disable(self._layers)(inputs)
            return uncompiled
        return self._layers(inputs)

    def _layers(self, inputs: Sequence[Sentence | Pair]) -> LayerStates:
        read = read_inputs(inputs)
        if (runner := self._runner()) is not None:
            return LayerStates.padded(runner.embed(read), self.n_layers, self.dim)
        with torch.set_grad_enabled(self._learns and torch.is_grad_enabled()):
            states: LayerStates = self.model(self.reader.read(read))
        return states

    def _runner(self) -> Runner | None:
        """The fast way, for a frozen model on a CPU; rebuilt when its weights have changed."""
        unseen = any(p.is_inference() for p in self._tensors())  # has no change counter
        if unseen or self._learns or not is_plain(self.model):
            self._made = None
            return None
        self.model.eval()
        weights = tuple((p.data_ptr(), p._version) for p in self._tensors())
        if self._made is None or self._made[0] != weights:
            self._made = weights, runner_for(self.model, self.reader)
        return self._made[1]

    def forget(self) -> None:
        """Call this after weights of a frozen model were changed through `.data`."""
        self._made = None

    def _tensors(self) -> Iterator[Tensor]:
        yield from self.model.parameters()
        yield from self.model.buffers()

    def __getstate__(self) -> dict[str, Any]:
        """A copy, here or in another process, builds its own runner."""
        return {**self.__dict__, "_made": None}

    @property
    def _learns(self) -> bool:
        """Whether any of the model is trained; this may change at any time."""
        return any(parameter.requires_grad for parameter in self.model.parameters())

    def train(self, mode: bool = True) -> "TrainableLayers":
        """A frozen model stays in evaluation mode, so that its dropout stays off."""
        super().train(mode)
        self.model.train(mode and self._learns)
        return self


@dataclass(frozen=True, slots=True)
class Mixed:
    """Vectors of each mix, and which places are words."""

    vectors: list[Tensor]  # one (B, T, D) per mix
    mask: Tensor  # (B, T)


class Elmo(TrainableLayers):
    """Sentences -> one or several learned mixes of all layers, from one pass of the model."""

    def __init__(
        self,
        checkpoint: Checkpoint,
        *,
        n_mixes: int = 1,
        fine_tune: bool = False,
        layer_norm: bool = False,
        dropout: float = 0.5,
        l2: float = 0.0,
    ):
        if n_mixes < 1:
            raise ConfigError(f"n_mixes is {n_mixes}; expected 1 or more.")
        if not 0.0 <= dropout < 1.0:
            raise ConfigError(f"dropout is {dropout}; expected 0 or more and less than 1.")
        super().__init__(checkpoint, fine_tune=fine_tune)
        self.mixes = nn.ModuleList(
            ScalarMix(self.n_layers, layer_norm=layer_norm, l2=l2) for _ in range(n_mixes)
        )
        self.dropout = nn.Dropout(dropout)

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        options: str | Path | None = None,
        n_mixes: int = 1,
        fine_tune: bool = False,
        layer_norm: bool = False,
        dropout: float = 0.5,
        l2: float = 0.0,
        pieces: str | None = None,
        lowercase: bool | None = None,
    ) -> "Elmo":
        """From anything `Embedder.load` takes."""
        return cls(
            load(source, options=options, words=word_options(lowercase, pieces)),
            n_mixes=n_mixes,
            fine_tune=fine_tune,
            layer_norm=layer_norm,
            dropout=dropout,
            l2=l2,
        )

    @property
    def bilm(self) -> LayerModel:
        """The model under its older name."""
        return self.model

    def forward(self, sentences: Sequence[Sentence]) -> Mixed:
        """Strings are tokenized, lists of words are taken as they are."""
        states = self.layers(sentences)
        vectors = [self.dropout(mix(states.layers, states.mask)) for mix in self.mixes]
        return Mixed(vectors, states.mask)

    def penalty(self) -> Tensor:
        """The L2 penalty of all mixes, to add to the loss."""
        penalties = [mix.penalty() for mix in self.mixes if isinstance(mix, ScalarMix)]
        return torch.stack(penalties).sum()


def _rename_bilm(_: nn.Module, state: dict[str, Any], prefix: str, *__: object) -> None:
    """State dicts of version 0.1 call the model `bilm`."""
    old = f"{prefix}bilm."
    for name in [name for name in state if name.startswith(old)]:
        state[f"{prefix}model.{name.removeprefix(old)}"] = state.pop(name)
