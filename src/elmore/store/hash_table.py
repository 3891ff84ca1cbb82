"""A hash table in a file, from a key to the number of its record. Only the slots that a search
visits are read, and a writer checks them all before it writes.

A slot is 0, or it contains a record's number and some bits of its key. A search always compares the
key in the record, so slots left by an unfinished commit do no harm, and a lost or damaged table can
be built again from the records.
"""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.store.layout import KEYS, RECORD_BYTES

SLOT_BYTES = 8
_FEWEST = 1024
_NUMBER_BITS = 40
_NUMBER = (1 << _NUMBER_BITS) - 1
_TAG_BYTES = 3
_CHUNK = 1 << 18

Table = NDArray[np.uint64]


def slots_for(n_records: int) -> int:
    """A power of two, of which at most two thirds are used."""
    return max(_FEWEST, 1 << (n_records * 3 // 2).bit_length())


def find(table: Any, records: Any, n_records: int, key: bytes) -> int | None:
    """The number of the record with this key."""
    mask = len(table) - 1
    place = int.from_bytes(key[:8], "little") & mask
    tag = int.from_bytes(key[8 : 8 + _TAG_BYTES], "little")
    for _ in range(mask):  # in an intact table the search ends much earlier
        slot = table[place]
        if not slot:
            return None
        if slot >> _NUMBER_BITS == tag:
            number: int = (slot & _NUMBER) - 1
            begin = number * RECORD_BYTES
            if number < n_records and records[begin : begin + len(key)] == key:
                return number
        place = (place + 1) & mask
    return None


def build(records: Any, n_records: int) -> Table:
    """The table of all records at once. Sorted by home slot, each record gets its home slot, or the
    slot after that of the record before it."""
    n_slots = slots_for(n_records)
    table = np.zeros(n_slots, np.uint64)
    keys = np.frombuffer(records, KEYS, n_records)
    home = keys["home"] & np.uint64(n_slots - 1)
    order = np.argsort(home, kind="stable")
    steps = np.arange(n_records)
    places = np.maximum.accumulate(home[order].astype(np.int64) - steps) + steps
    tags = keys["tag"][order] & np.uint64((1 << 8 * _TAG_BYTES) - 1)
    slots = tags << np.uint64(_NUMBER_BITS) | (order + 1).astype(np.uint64)
    inside = int(np.searchsorted(places, n_slots))
    table[places[:inside]] = slots[:inside]
    for slot in slots[inside:]:  # the last few may wrap around to the beginning
        table[int(np.argmin(table != 0))] = slot
    return table


def finds_all(table: Any, records: Any, n_records: int) -> bool:
    """Whether a search finds every record: some slot contains its number and tag, and no slot from
    its home slot to this one is empty."""
    slots, keys = np.frombuffer(table, np.uint64), np.frombuffer(records, KEYS, n_records)
    mask, found = len(slots) - 1, np.zeros(n_records, bool)
    after = np.flatnonzero(slots[-_CHUNK:] == 0)  # before slot 0 comes the last one
    empty = int(after[-1]) - min(len(slots), _CHUNK) if len(after) else -len(slots)
    for begin in range(0, len(slots), _CHUNK):
        some = slots[begin : begin + _CHUNK]
        places = np.arange(begin, begin + len(some))
        before = np.maximum.accumulate(np.where(some == 0, places, empty))  # the last empty slot
        empty = int(before[-1])
        numbers = (some & np.uint64(_NUMBER)).astype(np.int64) - 1
        used = (numbers >= 0) & (numbers < n_records)
        numbers, places, before = numbers[used], places[used], before[used]
        home, tag = keys["home"][numbers], keys["tag"][numbers]
        distance = places - (home & np.uint64(mask)).astype(np.int64) & mask
        same = some[used] >> np.uint64(_NUMBER_BITS) == tag & np.uint64((1 << 8 * _TAG_BYTES) - 1)
        found[numbers[same & (distance < places - before)]] = True
    return bool(found.all())


def insert(path: Path, table: Any, keys: list[bytes], first: int) -> None:
    """Write the slots of new records, numbered from `first` on, into the file. With `write`, not
    through mapped memory: a full disk is then an error and does not kill the process."""
    mask = len(table) - 1
    taken: set[int] = set()
    with path.open("r+b", buffering=0) as file:
        for number, key in enumerate(keys, start=first):
            place = int.from_bytes(key[:8], "little") & mask
            while table[place] or place in taken:
                place = (place + 1) & mask
            taken.add(place)
            tag = int.from_bytes(key[8 : 8 + _TAG_BYTES], "little")
            slot = tag << _NUMBER_BITS | number + 1
            _write_slot(file, place, slot)
        os.fsync(file.fileno())


def _write_slot(file: io.FileIO, place: int, slot: int) -> None:
    file.seek(place * SLOT_BYTES)
    file.write(slot.to_bytes(SLOT_BYTES, "little"))
