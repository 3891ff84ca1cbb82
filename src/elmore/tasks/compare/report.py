"""Everything a comparison found, as a table in Markdown and as JSON; `page.py` draws it."""

import json
from dataclasses import dataclass
from typing import Any

from elmore.tasks.compare.outcome import Failed, Summary, labels
from elmore.tasks.compare.table import cells, heading, markdown


@dataclass(frozen=True, slots=True)
class Report:
    """Everything a comparison found."""

    task: str
    settings: dict[str, Any]
    """Files and settings shared by every row."""
    rows: list[Summary]
    failures: list[Failed]
    notes: tuple[str, ...] = ()
    """What readers should know, such as examples that could not be used."""

    @property
    def largest(self) -> list[Summary]:
        """The rows with the most training examples: the first two plots show these."""
        most = max(row.fraction for row in self.rows)
        return [row for row in self.rows if row.fraction == most]

    def table(self) -> list[list[str]]:
        """A heading and one line per row, as text."""
        names = labels(row.encoder for row in self.rows)
        return [heading(self.rows), *(cells(row, names) for row in self.rows)]

    def markdown(self) -> str:
        return markdown(self.table()) if self.rows else "Nothing is finished yet.\n"

    def json(self) -> str:
        content = {
            "task": self.task,
            "settings": self.settings,
            "rows": [_row_values(row) for row in self.rows],
            "notes": list(self.notes),
            "failures": [failed.model_dump(mode="json") for failed in self.failures],
        }
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _row_values(row: Summary) -> dict[str, Any]:
    figures = {"measure": row.measure, "mean": row.mean, "spread": row.spread}
    return {**row.model_dump(mode="json"), **figures}
