"""Hundreds of damaged files for every reader, and a table of what became of them.

    python -m tests.fuzz.campaign --mutants 300

A file is read or refused: by one line, within 2 s, in memory of at most 1 GB or three times the
file. Nothing in it is run. Stores and indexes notice every damage that changes what they hold.
"""

import argparse
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
GOOD = ("read", "refused")


def outcomes(readers: Iterable[str], n: int, seed: int, keep: Path | None) -> Iterator[Any]:
    """What the worker says, line by line."""
    command = [sys.executable, "-m", "tests.fuzz.worker", *readers]
    command += ["--mutants", str(n), "--seed", str(seed), *(["--keep", str(keep)] if keep else [])]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, cwd=ROOT, env=environment
    )
    assert process.stdout is not None
    with process.stdout:
        yield from map(json.loads, process.stdout)
    if process.wait():
        raise SystemExit(f"The worker ended with {process.returncode}.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("readers", nargs="*", help="their names; all unless given")
    parser.add_argument("--mutants", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder for the mutants that fail")
    given = parser.parse_args()
    found: dict[str, list[Any]] = {}
    for outcome in outcomes(given.readers, given.mutants, given.seed, given.keep):
        found.setdefault(outcome["reader"], []).append(outcome)
    print_table(found)
    bad = [one for rows in found.values() for one in rows if one["kind"] not in GOOD]
    for one in bad:
        where = f"{one['reader']} #{one.get('number')} {one.get('file')} by {one.get('how')}"
        print(f"{one['kind']}: {where}: {one['said']}")
    raise SystemExit(1 if bad else 0)


def print_table(found: dict[str, list[Any]]) -> None:
    row = "{:26} {:>7} {:>6} {:>8} {:>6} {:>9} {:>9}  {}"
    print(row.format("reader", "mutants", "read", "refused", "bad", "longest", "memory", "which"))
    for name, rows in found.items():
        kinds = Counter(one["kind"] for one in rows)
        bad = {kind: n for kind, n in kinds.items() if kind not in GOOD}
        longest = max((one.get("seconds", 0.0) for one in rows), default=0.0)
        memory = max((one.get("growth", 0) for one in rows), default=0) >> 20
        which = ", ".join(f"{n} {kind}" for kind, n in bad.items())
        counts = (len(rows), kinds["read"], kinds["refused"], sum(bad.values()))
        print(row.format(name, *counts, f"{longest:.2f} s", f"{memory} MB", which))


if __name__ == "__main__":
    main()
