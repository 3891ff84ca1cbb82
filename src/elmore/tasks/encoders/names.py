"""How an encoder is written: sources joined by `+`, each followed by its options.

none                 glove:FILE           store:DIR
MODEL                bert:DIR             MODEL+last4          bert:DIR+tune
glove:FILE+MODEL     glove:FILE+MODEL+tune                     lm:DIR+tune, gpt:DIR+tune
lm:DIR+tune+lm:DIR+tune
"""

from dataclasses import dataclass
from typing import Literal

from elmore.errors import ConfigError

NONE, STATIC, STORE = "none", "glove:", "store:"
Way = Literal["bert", "lm", "gpt"]
"""What a model is called: then it is fine-tuned as the paper of its kind does."""
WAYS: dict[str, Way] = {"bert:": "bert", "lm:": "lm", "gpt:": "gpt"}
TUNE, LAST = "tune", "last4"
_OPTIONS = (TUNE, LAST)


@dataclass(frozen=True, slots=True)
class Part:
    """One source of vectors: its name, and what is asked of it."""

    name: str
    tune: bool = False
    """Its weights are trained too."""
    last: bool = False
    """Its last four layers side by side, not a mix of all."""

    @property
    def is_model(self) -> bool:
        return self.name != NONE and not self.name.startswith((STATIC, STORE))

    @property
    def way(self) -> Way | None:
        return next((way for prefix, way in WAYS.items() if self.name.startswith(prefix)), None)

    @property
    def model(self) -> str:
        """What `Embedder.load` takes."""
        return self.name if self.way is None else self.name.partition(":")[2]


def parts_of(source: str) -> list[Part]:
    """The sources of an encoder, `none` among them."""
    words = [word.strip() for word in source.split("+")]
    if not all(words):
        raise ConfigError(
            f"encoder {source!r}: a part of it is empty; expected none, glove:FILE, "
            "store:DIR, a model, or several of them joined by +."
        )
    names = [i for i, word in enumerate(words) if word not in _OPTIONS]
    if names[:1] != [0]:
        raise ConfigError(f"encoder {source!r}: begins with an option; expected a model before it.")
    ends = [*names[1:], len(words)]
    return [_part(words[i], words[i + 1 : end], source) for i, end in zip(names, ends, strict=True)]


def _part(name: str, options: list[str], source: str) -> Part:
    part = Part(name, tune=TUNE in options, last=LAST in options)
    if options and not part.is_model:
        raise ConfigError(f"encoder {source!r}: +{options[0]} is for a model, not for {name!r}.")
    if part.tune and part.last:
        raise ConfigError(f"encoder {source!r}: +{LAST} is for a frozen model, without +{TUNE}.")
    return part
