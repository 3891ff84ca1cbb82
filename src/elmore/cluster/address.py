"""Where work runs, as `--on` says it: here, or on Ray. Nothing here imports torch or ray."""

from importlib.util import find_spec

from elmore.config import Frozen
from elmore.errors import ConfigError

RAY = "ray"


class Place(Frozen):
    """A Ray cluster, and how many workers to start on it."""

    address: str | None = None
    """HOST:PORT of a running cluster, or auto; None starts one here."""
    workers: int | None = None
    """One core each; None is all cores."""


def place_of(on: str | None, workers: int | None) -> Place | None:
    """What `--on` and `--workers` ask for; None is this process."""
    if on is None:
        if workers is not None:
            raise ConfigError("--workers is for --on: add --on ray, or remove it.")
        return None
    name, _, address = on.partition("://")
    if name != RAY or on.endswith("://"):
        raise ConfigError(f"--on is {on!r}; expected ray, ray://auto or ray://HOST:PORT.")
    if workers is not None and workers < 1:
        raise ConfigError(f"--workers is {workers}; expected 1 or more.")
    if find_spec(RAY) is None:
        raise ConfigError("--on ray needs Ray: pip install 'elmore[cluster]'.")
    return Place(address=address or None, workers=workers)
