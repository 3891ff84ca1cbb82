"""What a comparison trains: every encoder, training size and seed once, and with which settings."""

import hashlib
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field, field_validator

from elmore.config import Frozen
from elmore.tasks.compare.outcome import Trial, names_in
from elmore.tasks.encoders.encoder import STATIC, STORE, EncoderConfig
from elmore.tasks.fit_config import FitConfig

_MOST_STRETCH = 4.0


class CompareConfig(Frozen):
    """What is compared, and on what. Only `encoders` differ between the rows of a table."""

    task: str
    """The name of the comparison."""
    fit: FitConfig
    """Its encoder's source and its seed are replaced by each training's own."""
    train: Path
    dev: Path
    test: Path
    encoders: tuple[str, ...] = Field(min_length=1)
    fractions: tuple[float, ...] = Field(default=(1.0,), min_length=1)
    seeds: int = Field(default=3, ge=1)

    @field_validator("encoders", "fractions")
    @classmethod
    def _each_once(cls, given: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(set(given)) < len(given):
            raise ValueError("the same is given twice")
        return given

    @field_validator("fractions")
    @classmethod
    def _shares(cls, fractions: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < fraction <= 1 for fraction in fractions):
            raise ValueError("a fraction is more than 0 and at most 1")
        return tuple(sorted(fractions))

    @property
    def files(self) -> dict[str, Path]:
        return {"train": self.train, "dev": self.dev, "test": self.test}

    def shared_settings(self) -> dict[str, Any]:
        """What all trainings have in common, whatever their encoder and seed. Of the files, the
        contents count: a file may be moved."""
        fit = self.fit.model_dump(mode="json", exclude={"encoder": {"source"}, "seed": True})
        contents = {name: path.read_bytes() for name, path in self.files.items()}
        digests = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        return {"task": self.task, "fit": fit, "sha256": digests}

    def trials(self) -> list[Trial]:
        """Seed by seed, so that an unfinished table already has a figure in every row."""
        return [
            Trial(encoder=encoder, fraction=fraction, seed=seed)
            for seed in range(1, self.seeds + 1)
            for fraction in self.fractions
            for encoder in self.encoders
        ]


def share(examples: Sequence[Any], trial: Trial) -> list[Any]:
    """Chosen by the seed, not the encoder; a smaller share is a subset of a larger one."""
    order = np.random.default_rng(trial.seed).permutation(len(examples))
    kept = order[: max(1, round(trial.fraction * len(examples)))]
    return [examples[index] for index in sorted(kept.tolist())]


def trial_settings(config: FitConfig, trial: Trial) -> FitConfig:
    """Fewer examples get more epochs and smaller batches: otherwise a small share would have hardly
    any steps."""
    stretch = min(_MOST_STRETCH, trial.fraction**-0.5)
    stretched = {
        name: math.ceil(getattr(config, name) * stretch)
        for name in ("epochs", "patience", "halve_after")
    }
    own = {"encoder": encoder_settings(config, trial.encoder), "seed": trial.seed}
    batch = max(1, round(config.batch / stretch))
    return config.model_copy(update={**own, **stretched, "batch": batch})


def encoder_settings(config: FitConfig, source: str) -> EncoderConfig:
    """Only encoders that contain a model are fine-tuned."""
    models = [name for name in names_in(source) if not name.startswith((STATIC, STORE))]
    fine_tune = config.encoder.fine_tune and bool(models)
    return config.encoder.model_copy(update={"source": source, "fine_tune": fine_tune})
