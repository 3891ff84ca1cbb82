"""The folder of one comparison. A training's outcome is a file of its own.

output/
  settings.json   what all trainings have in common
  results/        one file per training that is finished or has failed
  work/           trainings that are not finished
  table.md, comparison.json, index.html
"""

import hashlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from elmore.errors import ConfigError, InputError
from elmore.files.atomic import write_text
from elmore.tasks.compare.outcome import Done, Failed, Trial, label, read_outcome
from elmore.tasks.compare.page import page
from elmore.tasks.compare.report import Report

RESULTS, WORK, SETTINGS = "results", "work", "settings.json"
TABLE, JSON, PAGE = "table.md", "comparison.json", "index.html"


class TrialFiles:
    """Where the outcome of a training is written, and where it works until then."""

    def __init__(self, output: Path, trial: Trial):
        digest = hashlib.sha256(trial.encoder.encode()).hexdigest()[:8]
        plain = re.sub(r"[^\w.-]+", "-", label(trial.encoder))[:40]
        fraction = repr(trial.fraction).removesuffix(".0")
        name = f"{plain}-{digest}-{fraction}-{trial.seed}"
        self.result = output / RESULTS / f"{name}.json"
        self.work = output / WORK / name
        self.run = self.work / "run"

    def finished(self) -> bool:
        return self.result.exists() and read_outcome(self.result).kind == "done"


def read_outcomes(output: Path) -> Iterator[tuple[Path, Done | Failed]]:
    for path in sorted((output / RESULTS).glob("*.json")):
        yield path, read_outcome(path)


def write_report(report: Report, output: Path) -> None:
    write_text(output / TABLE, report.markdown())
    write_text(output / JSON, report.json())
    write_text(output / PAGE, page(report))


def claim_folder(settings: dict[str, Any], output: Path) -> None:
    """Make the folder, or refuse one that is of another task, other files or other settings."""
    path = output / SETTINGS
    if path.exists():
        try:
            before = json.loads(path.read_bytes())
        except ValueError:
            raise ConfigError(
                f"{path}: damaged; remove the folder, or choose another --output."
            ) from None
        if changed := sorted(_changes(before, settings)):
            raise ConfigError(
                f"{output}: a comparison with other settings or files ({', '.join(changed)}); "
                "choose another --output, or remove that folder."
            )
        return
    if any(output.glob("[!.]*")):
        raise InputError(f"{output}: has files in it, but no comparison; choose another --output.")
    output.mkdir(parents=True, exist_ok=True)
    # Written first: another process that starts now must see that this is a comparison.
    write_text(path, json.dumps(settings, indent=1, ensure_ascii=False) + "\n")


def _changes(before: Any, now: Any, name: str = "") -> Iterator[str]:
    """Names of settings that have changed, as `--set` writes them."""
    if isinstance(before, dict) and isinstance(now, dict):
        for key in {**before, **now}:
            inner = f"{name}.{key}" if name else key
            yield from _changes(before.get(key), now.get(key), inner)
    elif before != now:
        yield name.removeprefix("fit.").removeprefix("sha256.")
