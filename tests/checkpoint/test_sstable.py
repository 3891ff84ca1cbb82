"""Snappy decompression, element by element, and what it must refuse before it takes memory."""

from __future__ import annotations

import tracemalloc
from contextlib import suppress

import numpy as np
import pytest

from elmore.checkpoint.sstable import decompress
from elmore.errors import FormatError


def test_literals_of_every_length_form():
    short = b"\x03" + bytes([2 << 2]) + b"abc"
    assert decompress(short, 3) == b"abc"
    for n_length_bytes in (1, 2, 3, 4):
        tag = bytes([(59 + n_length_bytes) << 2])
        block = b"\x46" + tag + (69).to_bytes(n_length_bytes, "little") + b"x" * 70
        assert decompress(block, 70) == b"x" * 70


@pytest.mark.parametrize(
    ("copy", "expected"),
    [
        (bytes([1 | 0 << 2, 4]), b"abcdabcd"),  # 4 from 4 back, distance in 11 bits
        (bytes([2 | 1 << 2, 3, 0]), b"abcdbc"),  # 2 from 3 back, in 16 bits
        (bytes([3 | 1 << 2, 3, 0, 0, 0]), b"abcdbc"),  # the same in 32 bits
        (bytes([1 | 7 << 2, 1]), b"abcd" + b"d" * 11),  # longer than its distance: it repeats
        (bytes([2 | 6 << 2, 2, 0]), b"abcd" + b"cdcdcdc"),
    ],
)
def test_copies_of_every_form(copy: bytes, expected: bytes):
    block = bytes([len(expected), 3 << 2]) + b"abcd" + copy
    assert decompress(block, 100) == expected


def test_a_far_copy_takes_the_high_bits_of_its_distance():
    literal = bytes(range(256)) * 3
    block = b"\x84\x06" + bytes([61 << 2]) + (767).to_bytes(2, "little") + literal
    assert decompress(block + bytes([1 | 0 << 2 | 2 << 5, 0xF6]), 1000) == literal + b"\n\x0b\x0c\r"


@pytest.mark.parametrize(
    "block",
    [
        b"",
        b"\x80",
        b"\x05",
        b"\x03" + bytes([2 << 2]) + b"ab",  # literal cut off
        b"\x03" + bytes([62 << 2, 1]),  # length of the literal cut off
        b"\x02" + bytes([2 << 2]) + b"abc",  # more than announced
        b"\x04" + bytes([2 << 2]) + b"abc",  # less than announced
        b"\x08" + bytes([3 << 2]) + b"abcd" + bytes([1, 0]),  # copy from 0 back
        b"\x08" + bytes([3 << 2]) + b"abcd" + bytes([1, 5]),  # copy from before the start
        b"\x08" + bytes([3 << 2]) + b"abcd" + bytes([2, 1]),  # distance cut off
        b"\xff" * 9 + b"\x7f" + b"x",
    ],
)
def test_damage_is_refused(block: bytes):
    with pytest.raises(FormatError):
        decompress(block, 1000)


def test_a_bomb_is_refused_before_memory_is_taken():
    tracemalloc.start()
    with pytest.raises(FormatError, match="claims to hold"):
        decompress(b"\xff\xff\xff\xff\x0f" + b"\xfe\x01\x00" * 100, 1 << 40)
    over_the_limit = b"\xc0\x84\x3d" + b"\x00x" + b"\xfe\x01\x00" * 50_000  # 1,000,000 bytes
    with pytest.raises(FormatError, match="claims to hold"):
        decompress(over_the_limit, 999_999)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_random_bytes_are_refused_or_unpacked_but_nothing_else():
    rng = np.random.default_rng(5)
    for _ in range(2000):
        block = bytes([rng.integers(128)]) + rng.bytes(int(rng.integers(1, 60)))
        with suppress(FormatError):
            assert len(decompress(block, 1 << 10)) == block[0]
