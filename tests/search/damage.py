"""Indexes whose files are changed at random places, and what they answer."""

import random
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from elmore.embedder import LayerSource
from elmore.errors import ElmoreError
from elmore.search.index import Index
from elmore.search.verify import verify
from tests.search.corpora import corpus

ASKED = ["the", "bank", "was", "near", "the", "river"]
KINDS = ("flip", "flip", "zero", "cut", "longer", "empty", "gone", "swap", "noise")
SECONDS = 2.0
BYTES = 1_000_000_000


def made(path: Path, source: LayerSource) -> Path:
    """Two segments, deleted sentences, and approximate indexes if there are enough uses."""
    index = Index.build(corpus(150), source, path, keep="all", max_uses=60)
    index.add(["a new bank, again.", "the old bank 银行"])
    index.delete(corpus(150)[3:6])
    (path / "lock").unlink()
    return path


class Mutant(NamedTuple):
    """A changed file."""

    file: str
    kind: str
    seed: int


def mutants(folder: Path, n: int) -> list[Mutant]:
    """Every file in turn, so that small ones are changed as often as large ones."""
    files = sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())
    chance = random.Random(n)
    return [Mutant(files[i % len(files)], chance.choice(KINDS), i) for i in range(n)]


def mutate(path: Path, mutant: Mutant) -> bool:
    """Whether the file has changed."""
    chance, before = random.Random(mutant.seed), path.read_bytes()
    data, place = bytearray(before), chance.randrange(len(before))
    match mutant.kind:
        case "flip":
            data[place] ^= 1 << chance.randrange(8)
        case "zero":
            data[place : place + 16] = bytes(len(data[place : place + 16]))
        case "cut":
            del data[place:]
        case "longer":
            data += chance.randbytes(9)
        case "empty":
            data.clear()
        case "swap":
            middle = len(data) // 2
            data = data[middle:] + data[:middle]
        case "noise":
            data[place : place + 64] = chance.randbytes(len(data[place : place + 64]))
        case "gone":
            path.unlink()
            return True
    path.write_bytes(data)
    return bytes(data) != before


def answers(folder: Path, source: LayerSource) -> list[Any]:
    """To questions that read every file."""
    index = Index.open(folder, source)
    return [
        index.words,
        index._snapshot.counts,
        [(use.words, use.position, use.origin) for word in index.words for use in index.uses(word)],
        [index.use(use.id or 0) for use in index.uses("bank")],
        [
            index.neighbors(ASKED, 1, 10_000, same_word=same, distinct=False, layer=layer)
            for same in (True, False)
            for layer in ("mix", *index.layers)
        ],
        index.neighbors(ASKED, 1, 5, same_word=False),
        index.static_neighbors("bank", 1000),
        index.senses("bank"),
        index.delete([["never", "there"]]),
    ]


def old_answers(folder: Path) -> list[Any]:
    """The same for an index whose model is not there."""
    index = Index.open(folder)
    vectors = index._snapshot.space.center * 2 + 1
    return [
        index.words,
        [(use.words, use.position) for word in index.words for use in index.uses(word)],
        index.neighbors_of(vectors, None, 1000, distinct=False),
        [index.senses(word) for word in index.words[:5]],
        index.static_neighbors(index.words[0], 1000),
        index.compact(),
    ]


class Outcome(NamedTuple):
    """What came of a mutant: "same", "other" or "told", and what `verify` says."""

    answered: str
    damages: list[str]
    changed: bool


def tried(
    folder: Path, work: Path, ask: Callable[[Path], list[Any]], want: list[Any], one: Mutant
) -> Outcome:
    """Any other exception than an ElmoreError of one line is raised."""
    shutil.copytree(folder, work)
    changed = mutate(work / one.file, one)
    begin, before = time.process_time(), peak_bytes()
    damages = told(lambda: verify(work).damages)
    found = told(lambda: ask(work))
    assert time.process_time() - begin < SECONDS, one
    assert peak_bytes() - before < BYTES, one
    shutil.rmtree(work)
    answered = "same" if found == want else "told" if isinstance(found, Told) else "other"
    return Outcome(answered, damages, changed)


class Told(list[str]):
    """The line of an error."""


def told(ask: Callable[[], list[Any]]) -> list[Any]:
    try:
        return ask()
    except ElmoreError as error:
        line = str(error)
    assert line
    assert "\n" not in line
    return Told([line])


def peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
