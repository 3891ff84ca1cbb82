"""From a key to the number of its record: a hash table in a file, of which only the slots that are
looked at are read.

A slot is 0 or holds a record's number and some bits of its key. Only the record says whether the
slot is right, so slots left by a commit that never happened do no harm, and a lost or damaged
table can be made again from the records.
"""

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmore.store.records import KEYS, RECORD_BYTES

SLOT_BYTES = 8
_FEWEST = 1024
_NUMBER_BITS = 40
_NUMBER = (1 << _NUMBER_BITS) - 1
_TAG_BYTES = 3

Table = NDArray[np.uint64]


def slots_for(n_records: int) -> int:
    """A power of two, at most two thirds of it in use."""
    return max(_FEWEST, 1 << (n_records * 3 // 2).bit_length())


def find(table: Any, records: Any, n_records: int, key: bytes) -> int | None:
    """The number of the record with this key. `table` gives a slot by its place."""
    mask = len(table) - 1
    place = int.from_bytes(key[:8], "little") & mask
    tag = int.from_bytes(key[8 : 8 + _TAG_BYTES], "little")
    for _ in range(mask):  # a sound table ends it much earlier
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
    """The table of all records at once. Taken in the order of where they would like to be, each
    gets that place or the one after its neighbor's."""
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
    for slot in slots[inside:]:  # a few run over the end and go on at the beginning
        table[int(np.argmin(table != 0))] = slot
    return table


def insert(path: Path, table: Any, keys: list[bytes], first: int) -> None:
    """Write slots for new records into the file, numbers from `first` on.

    By write, not through memory: a full disk is then an error and not the end of the process.
    """
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
