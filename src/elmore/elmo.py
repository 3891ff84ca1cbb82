"""The trainable use: a model inside your own, frozen or fine-tuned, with a learned mix."""

# B sentences, T words, L layers, D vector dim
import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from elmore.checkpoint.allennlp_names import mixes_to_ours, to_ours
from elmore.checkpoint.bert_config import word_options
from elmore.checkpoint.checkpoint import Checkpoint, LearnedMix
from elmore.checkpoint.sources import load, save
from elmore.embedding import Sentence, read_inputs
from elmore.engine.runner import Runner, is_plain, runner_for
from elmore.errors import ConfigError
from elmore.models.bilm import BiLM
from elmore.models.layers import LayerModel, LayerStates
from elmore.nn.scalar_mix import ScalarMix
from elmore.text.reader import Pair


class TrainableLayers(nn.Module):
    """Sentences -> every layer of a model, which is frozen or trained with the model around it."""

    def __init__(self, checkpoint: Checkpoint, *, fine_tune: bool = False):
        super().__init__()
        if not isinstance(checkpoint, Checkpoint):
            name = type(self).__name__
            raise ConfigError(
                f"{name}({checkpoint!r:.80}): this is for a Checkpoint that is loaded already; "
                f"write {name}.load({checkpoint!r:.80})."
            )
        # A copy: training this one must not change what an Embedder was given.
        self.model: LayerModel = copy.deepcopy(checkpoint.model).requires_grad_(fine_tune)
        self.reader = checkpoint.need_reader()
        # Without its heads and lens, which no longer fit once the model is fine-tuned.
        self.checkpoint = replace(checkpoint, model=self.model, heads={}, lens=None)
        self._made: tuple[tuple[tuple[int, int], ...], Runner] | None = None
        self.register_load_state_dict_pre_hook(_rename_model)  # type: ignore[no-untyped-call]

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
        layer_norm: bool | None = None,
        dropout: float = 0.5,
        l2: float = 0.0,
    ):
        """Mixes start equal, or as the task that the checkpoint comes from has learned them; that
        also says whether they use a layer norm, unless `layer_norm` does."""
        if n_mixes < 1:
            raise ConfigError(f"n_mixes is {n_mixes}; expected 1 or more.")
        if not 0.0 <= dropout < 1.0:
            raise ConfigError(f"dropout is {dropout}; expected 0 or more and less than 1.")
        super().__init__(checkpoint, fine_tune=fine_tune)
        learned = [*checkpoint.mixes[:n_mixes], *[None] * (n_mixes - len(checkpoint.mixes))]
        self.mixes = nn.ModuleList(self._mix(start, layer_norm, l2) for start in learned)
        self.dropout = nn.Dropout(dropout)
        self.register_load_state_dict_pre_hook(_rename_mixes)  # type: ignore[no-untyped-call]

    @classmethod
    def load(
        cls,
        source: str | Path,
        *,
        options: str | Path | None = None,
        n_mixes: int = 1,
        fine_tune: bool = False,
        layer_norm: bool | None = None,
        dropout: float = 0.5,
        l2: float = 0.0,
        pieces: str | None = None,
        lowercase: bool | None = None,
    ) -> "Elmo":
        """From anything `Embedder.load` takes; the mixes start as a task has learned them, if the
        source says so: an AllenNLP archive of a task, or a folder that `save` wrote."""
        return cls(
            load(source, options=options, words=word_options(lowercase, pieces)),
            n_mixes=n_mixes,
            fine_tune=fine_tune,
            layer_norm=layer_norm,
            dropout=dropout,
            l2=l2,
        )

    def save(self, target: str | Path) -> list[Path]:
        """The model as it is now, with its mixes: a new folder, or HDF5 if the name ends so (which
        has no place for mixes). `Elmo.load` and `Embedder.load` take it. Returns what was written.
        """
        mixes = tuple(
            LearnedMix(
                scalars=tuple(mix.scalars.tolist()),
                gamma=mix.gamma.item(),
                layer_norm=mix.layer_norm,
            )
            for mix in self.mixes
            if isinstance(mix, ScalarMix)
        )
        return save(replace(self.checkpoint, mixes=mixes), Path(target))

    def _mix(self, start: LearnedMix | None, layer_norm: bool | None, l2: float) -> ScalarMix:
        if start is None:
            return ScalarMix(self.n_layers, layer_norm=bool(layer_norm), l2=l2)
        norm = start.layer_norm if layer_norm is None else layer_norm
        mix = ScalarMix(self.n_layers, layer_norm=norm, initial=start.scalars, l2=l2)
        with torch.no_grad():
            mix.gamma.fill_(start.gamma)
        return mix

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


def _rename_model(module: TrainableLayers, state: dict[str, Any], prefix: str, *_: object) -> None:
    """State dicts of version 0.1 call the model `bilm`; those of AllenNLP have their own names."""
    old, new = f"{prefix}bilm.", f"{prefix}model."
    for name in [name for name in state if name.startswith(old)]:
        state[new + name.removeprefix(old)] = state.pop(name)
    if isinstance(module.model, BiLM):
        to_ours(state, f"{prefix}_elmo_lstm.", module.model, new)


def _rename_mixes(_: nn.Module, state: dict[str, Any], prefix: str, *__: object) -> None:
    mixes_to_ours(state, prefix, f"{prefix}mixes.")
