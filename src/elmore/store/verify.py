"""Everything compared with its checksum. A file that is whole vouches for its sentences; in one
that is not, sentence after sentence is looked at, so that the damage has a name and the rest is
known to be sound.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from elmore.errors import FormatError
from elmore.store.layout import PROJECTION, RECORDS, WORDS, FileState, index_name, shard_name
from elmore.store.records import is_sound
from elmore.store.snapshot import Snapshot, mapped
from elmore.store.words import shown, unpack

_CHUNK = 1 << 24


@dataclass(frozen=True, slots=True)
class Damage:
    """Something that is not as it was committed."""

    file: str
    what: str
    sentence: int | None = None
    """Its number in the order of storing, where one sentence is concerned."""

    def __str__(self) -> str:
        where = "" if self.sentence is None else f"sentence {self.sentence}, "
        return f"{self.file}: {where}{self.what}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a store was found to be."""

    sentences: int
    bytes: int
    damages: list[Damage]

    @property
    def damaged_sentences(self) -> int:
        """Those that can be named."""
        return len({d.sentence for d in self.damages if d.sentence is not None})


def verify(snapshot: Snapshot) -> Verdict:
    """Read the whole store once; twice where something is wrong."""
    states = snapshot.manifest.files
    broken = {
        name: what for name, state in states.items() if (what := _file(snapshot, name, state))
    }
    damages = list(_sentences(snapshot)) if broken else []
    damages += _unfound(snapshot)
    named = {damage.file for damage in damages}
    damages += [Damage(file, what) for file, what in broken.items() if file not in named]
    try:
        _ = snapshot.projection
    except FormatError:
        damages.append(Damage(PROJECTION, "missing or changed"))
    return Verdict(snapshot.manifest.sentences, sum(s.bytes for s in states.values()), damages)


def _file(snapshot: Snapshot, name: str, state: FileState) -> str | None:
    """What is wrong with a file, if something is."""
    data = mapped(snapshot.folder / name, state.bytes)
    if len(data) < state.bytes:
        return f"cut: {len(data):,} bytes of {state.bytes:,} are left"
    crc = 0
    for begin in range(0, state.bytes, _CHUNK):
        crc = zlib.crc32(data[begin : begin + _CHUNK], crc)
    return None if crc == state.crc32 else "its checksum does not fit"


def _sentences(snapshot: Snapshot) -> Iterator[Damage]:
    for number in range(snapshot.manifest.sentences):
        if (damage := sentence_damage(snapshot, number)) is not None:
            yield damage


def words_damage(snapshot: Snapshot, number: int) -> Damage | None:
    """What is wrong with one sentence's record or words, if something is."""
    if number >= snapshot.n_records:
        return Damage(RECORDS, "its record is cut off", number)
    if not is_sound(snapshot.records, number):
        return Damage(RECORDS, "its record has changed", number)
    record = snapshot.record(number)
    if zlib.crc32(snapshot.packed(record)) != record.text_crc:
        return Damage(WORDS, "its words have changed", number)
    return None


def sentence_damage(snapshot: Snapshot, number: int) -> Damage | None:
    """What is wrong with one sentence, if something is."""
    if (damage := words_damage(snapshot, number)) is not None:
        return damage
    record = snapshot.record(number)
    packed = snapshot.packed(record)
    try:
        block: Any = snapshot.block(record).numpy()
    except FormatError:
        what = "lie beyond the file's end"
    else:
        what = "have changed" if zlib.crc32(block) != record.vectors_crc else ""
    if not what:
        return None
    about = f"the vectors of {shown(unpack(packed))} {what}"
    return Damage(shard_name(record.shard), about, number)


def _unfound(snapshot: Snapshot) -> list[Damage]:
    """Sound records that the index does not lead to."""
    numbers = range(snapshot.n_records)
    lost = sum(
        snapshot.find(snapshot.record(n).key) != n for n in numbers if is_sound(snapshot.records, n)
    )
    name = index_name(snapshot.manifest.index)
    missing = not (snapshot.folder / name).exists()
    if not lost and not missing:
        return []
    what = "missing" if missing else f"does not lead to {lost:,} sentence(s); remove the file"
    return [Damage(name, f"{what} (it is made again from {RECORDS})")]
