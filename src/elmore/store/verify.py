"""Compare everything with its checksum. If a file is intact, so are its sentences. In a damaged
file every sentence is checked, to list the damaged ones and to know that the others are intact.
"""

import zlib
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import Any

from elmore.errors import FormatError
from elmore.store.layout import (
    INDEXES,
    PROJECTION,
    RECORDS,
    WORDS,
    FileState,
    index_name,
    is_sound,
    shard_name,
)
from elmore.store.snapshot import Snapshot, mapped
from elmore.store.words import shown, unpack

_CHUNK = 1 << 24


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that differs from what was committed."""

    file: str
    what: str
    sentence: int | None = None
    """The number of the damaged sentence in the order of storing, if it is a single one."""

    def __str__(self) -> str:
        where = "" if self.sentence is None else f"sentence {self.sentence}, "
        return f"{self.file}: {where}{self.what}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found in a store."""

    sentences: int
    bytes: int
    damages: list[Damage]

    @property
    def is_table_only(self) -> bool:
        """The next writer builds the hash table again; nothing else is damaged."""
        return all(fnmatch(damage.file, INDEXES) for damage in self.damages)

    @property
    def damaged_sentences(self) -> int:
        """How many damaged sentences are known by number."""
        return len({d.sentence for d in self.damages if d.sentence is not None})


def verify(snapshot: Snapshot) -> Verdict:
    """Read the whole store once; damaged files twice."""
    states = snapshot.manifest.files
    broken = {
        name: what for name, state in states.items() if (what := _file(snapshot, name, state))
    }
    numbers = range(snapshot.manifest.sentences if broken else 0)
    damages = [found for n in numbers if (found := sentence_damage(snapshot, n)) is not None]
    damages += _unfound(snapshot)
    named = {damage.file for damage in damages}
    damages += [Damage(file, what) for file, what in broken.items() if file not in named]
    try:
        _ = snapshot.projection
    except FormatError:
        damages.append(Damage(PROJECTION, "missing or changed"))
    return Verdict(snapshot.manifest.sentences, sum(s.bytes for s in states.values()), damages)


def _file(snapshot: Snapshot, name: str, state: FileState) -> str | None:
    """What is wrong with a file; None if it is intact."""
    data = mapped(snapshot.folder / name, state.bytes)
    if len(data) < state.bytes:
        return f"truncated, {len(data):,} bytes of {state.bytes:,} are left"
    crc = 0
    for begin in range(0, state.bytes, _CHUNK):
        crc = zlib.crc32(data[begin : begin + _CHUNK], crc)
    return None if crc == state.crc32 else "its checksum does not match"


def words_damage(snapshot: Snapshot, number: int) -> Damage | None:
    """What is wrong with the record or the words of a sentence; None if they are intact."""
    if number >= snapshot.n_records:
        return Damage(RECORDS, "its record is missing", number)
    if not is_sound(snapshot.records, number):
        return Damage(RECORDS, "its record has changed", number)
    record = snapshot.record(number)
    if zlib.crc32(snapshot.packed(record)) != record.text_crc:
        return Damage(WORDS, "its words have changed", number)
    return None


def sentence_damage(snapshot: Snapshot, number: int) -> Damage | None:
    """What is wrong with a sentence; None if it is intact."""
    if (damage := words_damage(snapshot, number)) is not None:
        return damage
    record = snapshot.record(number)
    try:
        block: Any = snapshot.block(record).numpy()
        if zlib.crc32(block) == record.vectors_crc:
            return None
        what = "have changed"
    except FormatError:
        what = "are after the file's end"
    about = f"the vectors of {shown(unpack(snapshot.packed(record)))} {what}"
    return Damage(shard_name(record.shard), about, number)


def _unfound(snapshot: Snapshot) -> list[Damage]:
    """Intact records that the hash table does not find, or finds another one for."""
    numbers = [n for n in range(snapshot.n_records) if is_sound(snapshot.records, n)]
    found = [snapshot.find(snapshot.record(n).key) for n in numbers]
    lost = found.count(None)
    repeated = sum(other not in (None, n) for n, other in zip(numbers, found, strict=True))
    name = index_name(snapshot.manifest.index)
    missing = not (snapshot.folder / name).exists()
    damages = []
    if lost or missing:
        what = "missing" if missing else f"does not find {lost:,} sentence(s)"
        damages.append(Damage(name, f"{what}; the next `elmore store fill` builds it again"))
    if repeated:
        what = f"{repeated:,} sentence(s) are repeated; `elmore store merge` copies each once"
        damages.append(Damage(RECORDS, what))
    return damages
