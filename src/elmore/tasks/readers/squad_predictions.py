"""Answers to SQuAD's questions: one JSON object of ids and texts, as the official script reads
them, or the JSON lines that `elmore task predict qa` writes.
"""

from pathlib import Path
from typing import Any

from elmore.errors import InputError
from elmore.tasks.readers.lines import parse_json, task_lines
from elmore.tasks.readers.squad import read_answers


def read_squad_predictions(
    gold: Path, predicted: Path
) -> tuple[list[tuple[str, ...]], list[str | None]]:
    """The right answers and the predicted one of every question; None where there is none."""
    asked, given = read_answers(gold), _predictions(predicted)
    if not given.keys() & {number for number, _ in asked}:
        raise InputError(f"{predicted}: answers no question of {gold}; are the ids right?")
    return [answers for _, answers in asked], [given.get(number) for number, _ in asked]


def _predictions(path: Path) -> dict[str, str]:
    lines = list(task_lines(path))
    first = next((line for line in lines if line.strip()), "")
    if first.startswith("{") and first.rstrip().endswith("}"):
        match parse_json(first, f"{path}, line 1"):
            case {"id": str(), "answer": str()}:
                rows = enumerate(lines, start=1)
                return dict(_row(line, f"{path}, line {n}") for n, line in rows if line.strip())
    found = parse_json("\n".join(lines), str(path), whole_file=True)
    if not isinstance(found, dict):
        raise InputError(f"{path}: expected one JSON object with the answer to each question id.")
    for number, text in found.items():
        if not isinstance(text, str):
            raise InputError(f"{path}: the answer to {number!r} is no text; expected a string.")
    return found


def _row(line: str, where: str) -> tuple[str, str]:
    found: Any = parse_json(line, where)
    match found:
        case {"id": str(number), "answer": str(text)}:
            return number, text
    raise InputError(f"{where}: expected an object with 'id' and 'answer', both strings.")
