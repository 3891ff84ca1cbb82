"""The curves of a run, from its log: the loss of training, and what validation has found."""

import json
from importlib.util import find_spec
from pathlib import Path

from elmore.errors import ConfigError, InputError
from elmore.files.atomic import atomic_file
from elmore.files.text_file import read_lines
from elmore.train.log import LOG

CURVE = "curve.png"
_LOSSES = ("loss", "forward", "backward", "mlm", "nsp")  # of training, in the order of the legend

Points = dict[str, list[tuple[float, float]]]


def check_installed() -> None:
    if find_spec("matplotlib") is None:
        raise ConfigError("A picture of the run needs: pip install 'elmore[plot]'")


def read_curves(folder: Path) -> tuple[Points, Points]:
    """(step, figure) of each figure of training, and of each of validation."""
    path = folder / LOG
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected the log of a run.")
    training: Points = {}
    validation: Points = {}
    for line in read_lines(path, errors="replace"):
        try:
            figures = json.loads(line)
            step = float(figures.pop("step"))
        except (ValueError, KeyError, AttributeError, TypeError):
            continue  # the last line of a killed run may be half written
        for name, value in figures.items():
            if isinstance(value, int | float):
                if name.startswith("valid"):
                    validation.setdefault(name, []).append((step, value))
                elif name in _LOSSES:
                    training.setdefault(name, []).append((step, value))
    return training, validation


def draw_curve(folder: Path) -> Path:
    """Write curve.png beside the log, and return its path."""
    check_installed()
    training, validation = read_curves(folder)
    if not training and not validation:
        raise InputError(f"{folder / LOG}: no figures yet; train for some more steps.")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.5 if not validation else 7), layout="constrained")
    parts = [part for part in (training, validation) if part]
    axes = figure.subplots(len(parts), 1, sharex=True, squeeze=False)[:, 0]
    for axis, part in zip(axes, parts, strict=True):
        for name, points in sorted(part.items()):
            axis.plot(*zip(*points, strict=True), label=name.replace("_", " "), marker=".")
        axis.grid(alpha=0.3)
        axis.legend()
        axis.set_ylabel("loss" if part is training else "validation")
    axes[0].set_title(folder.name)
    axes[-1].set_xlabel("steps")
    target = folder / CURVE
    with atomic_file(target) as beside:
        figure.savefig(beside, format="png", dpi=110)
    return target
