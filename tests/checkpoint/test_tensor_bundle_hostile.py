"""The checkpoint reader against damaged and hostile files: every one is read rightly or refused
with a FormatError of one line that names the file, within a second and a bounded memory."""

from __future__ import annotations

import re
import time
import tracemalloc
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from elmore.checkpoint.sstable import MAX_ENTRIES, MAX_TABLE_BYTES
from elmore.checkpoint.tensor_bundle import TensorBundle, latest_checkpoint
from elmore.errors import FormatError
from tests.checkpoint.table_writer import (
    HEADER,
    RESTARTS,
    block,
    compress,
    entry,
    field,
    float_entries,
    seal,
    table,
    varint,
    with_index,
    write,
)

BILM = Path(__file__).parent / "data" / "tf_bundle" / "bilm"
MAX_PEAK = 8 * MAX_TABLE_BYTES


def refusal(action: Callable[[], object], peak: int = MAX_PEAK) -> str | None:
    """What an action says when it refuses; None if it works. Anything else it does fails here."""
    start = time.process_time()
    message = outcome(action)
    assert time.process_time() - start < 1  # not under tracemalloc, which slows it threefold
    tracemalloc.start()
    assert outcome(action) == message
    used = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert used < peak
    assert message is None or "\n" not in message
    return message


def outcome(action: Callable[[], object]) -> str | None:
    try:
        action()
    except FormatError as error:
        return str(error)
    return None


# --- well-formed up to the one lie they tell

HUGE = (1 << 63) - 1
LONG_KEYS = [(b"k" * 4000 + b"%04d" % n, b"") for n in range(2000)]
MANY_KEYS = [(b"%06d" % n, b"") for n in range(MAX_ENTRIES + 1)]


def one(shape: tuple[int, ...] = (2,), **fields: int) -> bytes:
    return table([block([HEADER, (b"x", entry(shape, **fields))])])


def header(data: bytes) -> bytes:
    return table([block([(b"", data)])])


LIES: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "last bytes"),
    "only the magic": (table([])[-8:], "last bytes"),
    "another magic": (table([block([HEADER])])[:-1] + b"\0", "last bytes"),
    "too large a file": (bytes(MAX_TABLE_BYTES) + one(), "over 4 MiB"),
    "no header": (table([block([(b"x", entry((2,)))])]), "no header"),
    "no data files": (header(b""), "no data files"),
    "big-endian": (header(field(1, 1) + field(2, 1)), "big-endian"),
    "version 9": (header(field(1, 1) + field(3, field(2, 9))), "version 9"),
    "group field": (header(b"\x0b"), "unknown kind 3"),
    "field past the end": (header(b"\x0a" + varint(HUGE)), "were announced"),
    "endless number": (header(b"\x08" + b"\xff" * 12), "longer than 64 bits"),
    "number over 64 bits": (header(b"\x08" + b"\xff" * 9 + b"\x02"), "larger than 64 bits"),
    "shard 1 of 1": (one(shard=1), "data file 1 of 1"),
    "negative shard": (one(shard=-1), "negative: -1"),
    "negative offset": (one(offset=-8), "negative: -8"),
    "negative size": (one(size=-8), "negative: -8"),
    "negative dimension": (one((-2,)), "negative: -2"),
    "vast dimensions": (one((1 << 62, 1 << 62)), "impossible shape"),
    "vast but empty": (one((0, 1 << 40, 1 << 40)), "impossible shape"),
    "rank 33": (one((1,) * 33), "impossible shape"),
    "no type": (one(dtype=0), "type 0"),
    "name not UTF-8": (table([block([HEADER, (b"\xff", entry((2,)))])]), "not UTF-8"),
    "keys falling": (table([block([HEADER, (b"b", entry(())), (b"a", entry(()))])]), "order"),
    "key twice": (table([block([HEADER]), block([HEADER])]), "order"),
    "large value": (table([block([HEADER, (b"x", b"\x0a\x00" * 40_000)])]), "plenty"),
    "too many entries": (table([block(MANY_KEYS)]), "more than"),
    "keys that outgrow their block": (table([block(LONG_KEYS)]), "more than"),
    "long key": (table([block([(b"k" * 5000, b"")])]), "a key of 5000 bytes"),
    "prefix of nothing": (table([b"\x05\x01\x00x" + RESTARTS]), "a key of 6 bytes after one of 0"),
    "key past the end": (table([b"\x00\x7f\x00x" + RESTARTS]), "were announced"),
    "value past the end": (table([b"\x00\x00" + varint(HUGE) + RESTARTS]), "were announced"),
    "block of nothing": (table([b""]), "0 restarts"),
    "many restarts": (table([b"\xff\xff\xff\xff"]), "restarts"),
    "unknown packing": (table([block([HEADER])], kind=2), "unknown compression 2"),
    "snappy bomb": (table([varint((1 << 32) - 1) + b"\xfe\x01\x00" * 99], kind=1), "claims"),
    "larger bomb": (table([varint(5_000_000) + b"\xfe\x01\x00" * 80_000], kind=1), "claims"),
    "bombs that add up": (
        table([compress(block(LONG_KEYS[n : n + 1])) for n in range(1200)], kind=1),
        "claims|more than",
    ),
    "block twice": (
        with_index(seal(block([])), block([(b"a", b"\x00\x08"), (b"b", b"\x00\x08")])),
        "overlaps",
    ),
    "index that lists itself": (with_index(b"", block([(b"a", b"\x0d\x0e")])), "overlaps"),
    "block past the end": (with_index(b"", block([(b"a", varint(HUGE) * 2)])), "overlaps"),
    "handle with a tail": (with_index(seal(block([])), block([(b"a", b"\0\x08\0")])), "overlaps"),
    "index past the end": ((varint(HUGE) * 4).ljust(40, b"\0") + table([])[-8:], "after the file"),
    "endless handle": (b"\xff" * 40 + table([])[-8:], "longer than 64 bits"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_index_is_refused(tmp_path: Path, lie: str):
    file, complaint = LIES[lie]
    prefix = write(tmp_path, file)
    message = refusal(lambda: TensorBundle.open(prefix))
    assert message is not None
    assert re.match(rf"{prefix}\.index: .*({complaint})", message)


@pytest.mark.parametrize(
    ("file", "complaint"),
    [
        (one((1 << 36,), size=1 << 38), r"data-00000-of-00001: has 8 bytes, but 'x' ends at"),
        (one((2,), size=8, offset=HUGE), r"data-00000-of-00001: has 8 bytes, but 'x' ends at"),
        (
            one((2,), size=12),
            r"index: tensor 'x' has 12 bytes, which do not fill \(2,\) of float32",
        ),
        (one((2,), size=8, dtype=99), r"index: tensor 'x' is of type number 99"),
        (one((2,), size=8), r"data-00000-of-00001: the values of 'x' do not match the checksum"),
    ],
)
def test_a_lie_about_one_tensor_is_refused_when_it_is_read(
    tmp_path: Path, file: bytes, complaint: str
):
    bundle = TensorBundle.open(write(tmp_path, file, bytes(8)))
    message = refusal(lambda: bundle.read("x"), peak=1 << 20)
    assert message is not None
    assert re.match(rf"{bundle.prefix}\.{complaint}", message)


# --- damage by chance, with fixed seeds


def mutate(data: bytes, rng: np.random.Generator) -> bytes:
    """One bit flip, cut, run of noise, splice, repetition, or a number made huge."""
    at, other = (int(n) for n in rng.integers(len(data), size=2))
    size = int(rng.integers(1, 40))
    huge = [b"\xff" * size, varint(HUGE), varint((1 << 64) - 1), b"\xff\xff\xff\x7f", bytes(size)]
    match rng.integers(7):
        case 0:
            return data[:at] + bytes([data[at] ^ 1 << int(rng.integers(8))]) + data[at + 1 :]
        case 1:
            return data[:at]
        case 2:
            return data[:at] + rng.bytes(size) + data[at + size :]
        case 3:
            return data[:at] + data[other : other + size] + data[at + size :]
        case 4:
            return data[:at] + data[other:]
        case 5:
            return data[:at] + data[at : at + size] * 2 + data[at + size :]
        case _:
            patch = huge[int(rng.integers(len(huge)))]
            return data[:at] + patch + data[at + len(patch) :]


def survives(action: Callable[[], object], folder: Path) -> bool:
    """Whether an action works; if not, its complaint begins with the file."""
    message = refusal(action, peak=1 << 20)
    assert message is None or message.startswith(str(folder))
    return message is None


def values_of(prefix: Path) -> dict[str, np.ndarray]:
    bundle = TensorBundle.open(prefix)
    return {name: bundle.read(name) for name in bundle.names}


def copy_of_bilm(folder: Path) -> Path:
    for path in BILM.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return folder / "model.ckpt-1234"


def test_a_damaged_index_is_read_rightly_or_refused(tmp_path: Path):
    prefix, rng = copy_of_bilm(tmp_path), np.random.default_rng(1)
    expected = values_of(prefix)
    index = Path(f"{prefix}.index").read_bytes()

    def reads_the_same() -> None:
        found = values_of(prefix)
        assert found.keys() == expected.keys()
        assert all(np.array_equal(found[name], expected[name]) for name in expected)

    for _ in range(600):
        Path(f"{prefix}.index").write_bytes(mutate(index, rng))
        survives(reads_the_same, tmp_path)


def test_damaged_data_is_read_rightly_or_refused_tensor_by_tensor(tmp_path: Path):
    prefix, rng = copy_of_bilm(tmp_path), np.random.default_rng(2)
    expected, bundle = values_of(prefix), TensorBundle.open(prefix)
    path = Path(f"{prefix}.data-00000-of-00002")
    data, refused = path.read_bytes(), 0

    def reads_the_same(name: str) -> None:
        assert np.array_equal(bundle.read(name), expected[name])

    for _ in range(300):
        path.write_bytes(mutate(data, rng))
        for name in rng.choice(list(expected), size=10, replace=False):
            refused += not survives(partial(reads_the_same, name), tmp_path)
    assert 300 < refused < 2700


def test_a_damaged_checkpoint_file_leads_to_the_right_prefix_or_is_refused(tmp_path: Path):
    prefix, rng = copy_of_bilm(tmp_path), np.random.default_rng(3)
    state = (tmp_path / "checkpoint").read_bytes()

    def finds_the_same() -> None:
        assert latest_checkpoint(tmp_path) == prefix

    for _ in range(400):
        (tmp_path / "checkpoint").write_bytes(mutate(state, rng))
        survives(finds_the_same, tmp_path)


def reseal_plain(contents: bytes, rng: np.random.Generator) -> bytes:
    return table([mutate(contents, rng)])


def reseal_compressed(contents: bytes, rng: np.random.Generator) -> bytes:
    return table([mutate(compress(contents), rng)], kind=1)


def reseal_index(contents: bytes, rng: np.random.Generator) -> bytes:
    handles = [(b"a", varint(0) + varint(len(contents))), (b"z", varint(HUGE) + varint(9))]
    return with_index(seal(contents), mutate(block(handles[: int(rng.integers(1, 3))]), rng))


def reseal_entry(contents: bytes, rng: np.random.Generator) -> bytes:
    return table([block([HEADER, (b"x", mutate(entry((2, 2), size=16), rng))])])


@pytest.mark.parametrize(
    "reseal",
    [reseal_plain, reseal_compressed, reseal_index, reseal_entry],
    ids=lambda f: f.__name__,
)
def test_damage_under_a_valid_checksum_is_survived(
    tmp_path: Path, reseal: Callable[[bytes, np.random.Generator], bytes]
):
    rng = np.random.default_rng(4)
    values = {f"some/name_{n}": np.full((n, 2), n, np.float32) for n in range(8)}
    entries, data = float_entries(values)
    opened = 0
    for _ in range(600):
        prefix = write(tmp_path, reseal(block(entries), rng), data)
        if survives(partial(TensorBundle.open, prefix), tmp_path):
            opened += 1
            survives(partial(values_of, prefix), tmp_path)
    assert 0 < opened < 600
