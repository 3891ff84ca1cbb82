"""What a store keeps of a model's layers: some of them, their average, a learnt mix, or a
projection. Each kind is a config that the manifest remembers.
"""

# L layers of the model, K layers kept, n words, D vector dim
import math
import re
from collections.abc import Sequence
from typing import Annotated, Literal, cast

import numpy as np
from pydantic import Field

from elmore.config import Frozen
from elmore.embedding import Vectors
from elmore.errors import ConfigError
from elmore.nn.scalar_mix import ScalarMix
from elmore.store.projection import Projection

_NUMBERS = re.compile(r"[0-9]{1,4}(,[0-9]{1,4})*")
_MIX = "mix:"


class KeepLayers(Frozen):
    """Layers as they are, in the order given."""

    kind: Literal["layers"] = "layers"
    numbers: tuple[int, ...] = Field(min_length=1)


class KeepAverage(Frozen):
    """The mean of all layers."""

    kind: Literal["average"] = "average"


class KeepMix(Frozen):
    """γ Σ s_j h_j, with the shares a task has learnt."""

    kind: Literal["mix"] = "mix"
    weights: tuple[float, ...]
    """s_j, after the softmax."""
    gamma: float


class KeepProjection(Frozen):
    """Principal components of all layers; the numbers lie in a file beside the manifest."""

    kind: Literal["projection"] = "projection"
    dim: int = Field(ge=1)
    explained: float
    sha256: str = ""


Keep = Annotated[KeepLayers | KeepAverage | KeepMix | KeepProjection, Field(discriminator="kind")]
Choice = str | Sequence[int] | ScalarMix | Projection | KeepMix


def keep_of(choice: Choice, n_layers: int) -> KeepLayers | KeepAverage | KeepMix | KeepProjection:
    """What a caller asks for, checked: all, top, average, 0,2, mix:0.2,0.5,0.3, or an object."""
    match choice:
        case Projection():
            return KeepProjection(dim=choice.dim, explained=choice.explained)
        case ScalarMix():
            return _checked_mix(_learnt(choice), n_layers)
        case KeepMix():
            return _checked_mix(choice, n_layers)
        case str():
            return _named(choice, n_layers)
        case Sequence():
            return _numbered(tuple(cast(Sequence[int], choice)), n_layers)
    raise ConfigError(f"keep is a {type(choice).__name__}; {_EXPECTED}")


_EXPECTED = "expected all, top, average, layer numbers, a ScalarMix or a Projection."


def _named(name: str, n_layers: int) -> KeepLayers | KeepAverage | KeepMix:
    if name == "average":
        return KeepAverage()
    if name in ("all", "top"):
        return KeepLayers(numbers=tuple(range(n_layers))[0 if name == "all" else -1 :])
    if _NUMBERS.fullmatch(name):
        return _numbered(tuple(int(number) for number in name.split(",")), n_layers)
    try:
        weights = tuple(float(w) for w in name.removeprefix(_MIX).split(","))
    except ValueError:
        weights = ()
    if name.startswith(_MIX) and weights:
        return _checked_mix(KeepMix(weights=weights, gamma=1.0), n_layers)
    raise ConfigError(f"keep is {name!r}; {_EXPECTED}")


def _numbered(numbers: tuple[int, ...], n_layers: int) -> KeepLayers:
    if not numbers or len(set(numbers)) < len(numbers):
        raise ConfigError(f"keep is {numbers}; expected layer numbers, each once.")
    if not all(type(number) is int and 0 <= number < n_layers for number in numbers):
        raise ConfigError(f"keep is {numbers}, but the model has the layers 0 to {n_layers - 1}.")
    return KeepLayers(numbers=numbers)


def _learnt(mix: ScalarMix) -> KeepMix:
    if mix.layer_norm:
        raise ConfigError(
            "A mix with layer norm depends on the whole batch, so no sentence can be stored "
            "with it; store the layers instead: keep='all'."
        )
    return KeepMix(weights=tuple(mix.weights.tolist()), gamma=mix.gamma.item())


def _checked_mix(mix: KeepMix, n_layers: int) -> KeepMix:
    if len(mix.weights) != n_layers:
        raise ConfigError(f"{len(mix.weights)} mix weights given for {n_layers} layers.")
    if not all(math.isfinite(number) for number in (*mix.weights, mix.gamma)):
        raise ConfigError(f"A mix of {mix.weights} times {mix.gamma}; expected finite numbers.")
    return mix


def kept_shape(keep: Keep, dim: int) -> tuple[int, int]:
    """(K, D) of what is kept of a model whose vectors are `dim` long."""
    match keep:
        case KeepLayers():
            return len(keep.numbers), dim
        case KeepProjection():
            return 1, keep.dim
        case _:
            return 1, dim


def select(keep: Keep, layers: Vectors, projection: Projection | None) -> Vectors:
    """(L, n, D) -> what is kept of it, (K, n, D)."""
    match keep:
        case KeepLayers():
            return layers[list(keep.numbers)]
        case KeepAverage():
            return np.asarray(layers.mean(axis=0, keepdims=True), np.float32)
        case KeepMix():
            weights = np.asarray(keep.weights, np.float32) * np.float32(keep.gamma)
            return np.asarray(np.tensordot(weights, layers, axes=1)[None], np.float32)
        case KeepProjection():
            assert projection is not None
            return projection.project(layers)


def described(keep: Keep) -> str:
    """In words, for people."""
    match keep:
        case KeepLayers():
            return f"layers {', '.join(map(str, keep.numbers))}"
        case KeepAverage():
            return "the average of all layers"
        case KeepMix():
            shares = " ".join(f"{weight:.3f}" for weight in keep.weights)
            return f"a mix, weights {shares}, gamma {keep.gamma:.3f}"
        case KeepProjection():
            return f"a projection to {keep.dim} numbers, {keep.explained:.1%} of the variance"
