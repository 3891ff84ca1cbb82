"""The trainable use: a biLM inside your own model, frozen or fine-tuned, with a learnt mix."""

# B sentences, T words, L layers, D vector dim
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import load
from elmore.embedder import Sentence, read_words
from elmore.engine.engine import Engine, is_plain
from elmore.errors import ConfigError
from elmore.models.layers import LayerStates
from elmore.nn.scalar_mix import ScalarMix
from elmore.text.batching import batch_words


@dataclass(frozen=True, slots=True)
class Mixed:
    """Vectors of each mix, and which places are words."""

    vectors: list[Tensor]  # one (B, T, D) a mix
    mask: Tensor  # (B, T)


class Elmo(nn.Module):
    """Sentences -> one or several learnt mixes of all layers, from one pass of the biLM."""

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
        super().__init__()
        if n_mixes < 1:
            raise ConfigError(f"n_mixes is {n_mixes}; expected 1 or more.")
        if not 0.0 <= dropout < 1.0:
            raise ConfigError(f"dropout is {dropout}; expected from 0 up to, but not, 1.")
        # A copy: training this one must not change what an Embedder was given.
        self.bilm = copy.deepcopy(checkpoint.model).requires_grad_(fine_tune)
        self.speller = checkpoint.speller()
        self._made: tuple[tuple[tuple[int, int], ...], Engine] | None = None
        self.mixes = nn.ModuleList(
            ScalarMix(checkpoint.model.config.n_layers, layer_norm=layer_norm, l2=l2)
            for _ in range(n_mixes)
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
    ) -> "Elmo":
        """From anything `Embedder.load` takes."""
        return cls(
            load(source, options=options),
            n_mixes=n_mixes,
            fine_tune=fine_tune,
            layer_norm=layer_norm,
            dropout=dropout,
            l2=l2,
        )

    @property
    def dim(self) -> int:
        return self.bilm.config.dim

    def forward(self, sentences: Sequence[Sentence]) -> Mixed:
        """Strings are tokenised, lists of words are taken as they are."""
        states = self.layers(sentences)
        vectors = [self.dropout(mix(states.layers, states.mask)) for mix in self.mixes]
        return Mixed(vectors, states.mask)

    def layers(self, sentences: Sequence[Sentence]) -> LayerStates:
        """Every layer of the biLM, unmixed; gradients only where it is being fine-tuned."""
        words = read_words(sentences)
        device = next(self.bilm.parameters()).device
        if (engine := self._engine()) is not None:
            config = self.bilm.config
            return LayerStates.padded(engine.embed(words), config.n_layers, config.dim)
        batch = batch_words(words, self.speller)
        tensors = [torch.from_numpy(a).to(device) for a in (batch.rows, batch.index, batch.lengths)]
        with torch.set_grad_enabled(self._learns and torch.is_grad_enabled()):
            states: LayerStates = self.bilm(*tensors).states.without_marks()
        return states

    def _engine(self) -> Engine | None:
        """The fast way, for a biLM that nothing trains, on a CPU; made anew when its weights have
        changed."""
        unseen = any(p.is_inference() for p in self._all())  # changes of theirs are not counted
        if torch.compiler.is_compiling() or unseen or self._learns or not is_plain(self.bilm):
            self._made = None
            return None
        self.bilm.eval()
        weights = tuple((p.data_ptr(), p._version) for p in self._all())
        if self._made is None or self._made[0] != weights:
            self._made = weights, Engine(self.bilm, self.speller)
        return self._made[1]

    def forget(self) -> None:
        """To be called when weights of a frozen biLM were written past PyTorch, by `.data`."""
        self._made = None

    def _all(self) -> Iterator[Tensor]:
        yield from self.bilm.parameters()
        yield from self.bilm.buffers()

    def __getstate__(self) -> dict[str, Any]:
        """A copy, here or in another process, makes an engine of its own."""
        return {**self.__dict__, "_made": None}

    @property
    def _learns(self) -> bool:
        """Whether any of the biLM is to be trained; it may be set free after the beginning."""
        return any(parameter.requires_grad for parameter in self.bilm.parameters())

    def penalty(self) -> Tensor:
        """To add to the loss: the L2 of all mixes."""
        penalties = [mix.penalty() for mix in self.mixes if isinstance(mix, ScalarMix)]
        return torch.stack(penalties).sum()

    def train(self, mode: bool = True) -> "Elmo":
        """A frozen biLM stays in evaluation mode, so that its dropout stays off."""
        super().train(mode)
        self.bilm.train(mode and self._learns)
        return self
