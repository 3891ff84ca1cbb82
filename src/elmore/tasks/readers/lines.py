"""What the readers share: lines with their place, JSON, and sentences without labels."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from elmore.errors import InputError
from elmore.files.sentence_files import SentenceFiles
from elmore.files.text_file import read_lines
from elmore.tasks.corpus import Corpus, Words

E = TypeVar("E")

_FREE_BYTES = 1 << 26
_MAYBE_HALF = re.compile(r"\\u[dD][89a-fA-F]")


def task_lines(path: str | Path) -> Iterator[str]:
    """Lines of a file that is kept in memory. Text is at most some 20 times as large as its
    compressed file: one that is 200 times as large was made to fill the memory."""
    known = Path(path)
    most = _FREE_BYTES + 200 * (known.stat().st_size if known.is_file() else 0)
    for number, line in enumerate(read_lines(path), start=1):
        most -= len(line) + 1
        if most < 0:
            raise InputError(f"{path}, line {number}: far more text than its size allows.")
        yield line


def placed_lines(path: str | Path) -> Iterator[tuple[str, str]]:
    """Every line that is not blank, and its place as errors name it: `FILE, line 3`."""
    for number, line in enumerate(task_lines(path), start=1):
        if line.strip():
            yield f"{path}, line {number}", line


def parse_json(text: str, where: str, *, whole_file: bool = False) -> Any:
    """The JSON of one line, or of a whole file; errors name the place."""
    try:
        found = json.loads(text)
        if _MAYBE_HALF.search(text):
            json.dumps(found, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        line = f", line {error.lineno}" if whole_file else ""
        raise InputError(f"{where}{line}, place {error.colno}: not JSON ({error.msg}).") from None
    except UnicodeEncodeError:
        raise InputError(
            f"{where}: half a surrogate pair (\\ud800 to \\udfff alone), which is not a character; "
            "correct or remove it."
        ) from None
    except RecursionError:
        raise InputError(f"{where}: JSON nested too deep.") from None
    except ValueError as error:  # a number of thousands of digits
        raise InputError(f"{where}: JSON that cannot be read ({error}).") from None
    return found


def read_plain_sentences(path: Path, example: Callable[[Words], E]) -> Corpus[E]:
    """One example per line, and a note on the blank lines."""
    text = SentenceFiles([path], tokenize=True, lines="sentence", keep_blank=True)
    lines = [tuple(words) for words in text]
    examples = [example(words) for words in lines if words]
    if not examples:
        raise InputError(f"{path}: no words found; expected text, one sentence per line.")
    blank = len(lines) - len(examples)
    return Corpus(examples, (f"{blank:,} blank lines left out",) if blank else ())
