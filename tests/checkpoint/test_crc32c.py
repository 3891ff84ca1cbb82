"""CRC-32C against published values, a bit-by-bit reference, and the algebra it rests on."""

from __future__ import annotations

import time

import numpy as np
import pytest

from elmore.checkpoint.crc32c import PIECE, SPARSE_MULTIPLE, crc32c, unmask

CASTAGNOLI = 0x11EDC6F41  # the polynomial with its bits in the written order


def remainder(polynomial: int) -> int:
    while (excess := polynomial.bit_length() - CASTAGNOLI.bit_length()) >= 0:
        polynomial ^= CASTAGNOLI << excess
    return polynomial


def power_of_x(exponent: int) -> int:
    """x^exponent modulo the polynomial, by squaring: over GF(2) that spreads the bits."""
    result = 1
    for bit in f"{exponent:b}":
        result = remainder(int("0".join(f"{result:b}"), 2))
        result = remainder(result << int(bit))
    return result


def bit_by_bit(message: bytes) -> int:
    register = 0xFFFFFFFF
    for byte in message:
        for n in range(8):
            bit = (register ^ (byte >> n)) & 1
            register = (register >> 1) ^ (0x82F63B78 if bit else 0)
    return register ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("message", "checksum"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),  # this and the next three: RFC 3720, B.4
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
    ],
)
def test_published_checksums_come_out(message: bytes, checksum: int):
    assert crc32c(message) == checksum
    assert crc32c(np.frombuffer(message, np.uint8)) == checksum


def test_the_sparse_polynomial_is_a_multiple():
    total = 1
    for exponent in SPARSE_MULTIPLE:
        total ^= power_of_x(8 * exponent)
    assert total == 0


@pytest.mark.parametrize("size", [5684, 5685, 5686, 5689, 10_008, 22_741, 100_003])
def test_folding_agrees_with_the_bit_by_bit_checksum(size: int):
    message = np.random.default_rng(size).bytes(size)
    assert crc32c(message) == bit_by_bit(message)


def test_pieces_chain_and_the_argument_is_left_alone():
    zeros = np.zeros(PIECE + 9, np.uint8)
    zeros[:9] = np.frombuffer(b"123456789", np.uint8)
    before = zeros.copy()
    # Zeros after a message multiply its register by x^8 each; so do these polynomials.
    register = int(f"{0xE3069283 ^ 0xFFFFFFFF:032b}"[::-1], 2)
    product = 0
    for n, bit in enumerate(f"{power_of_x(8 * PIECE):b}"[::-1]):
        product ^= (register << n) * int(bit)
    expected = int(f"{remainder(product):032b}"[::-1], 2) ^ 0xFFFFFFFF
    assert crc32c(zeros) == expected
    assert np.array_equal(zeros, before)


def test_every_single_flipped_bit_shows():
    message = bytearray(np.random.default_rng(0).bytes(7000))
    checksum = crc32c(bytes(message))
    for place in range(0, 7000, 97):
        message[place] ^= 1 << place % 8
        assert crc32c(bytes(message)) != checksum
        message[place] ^= 1 << place % 8


def test_unmasking_undoes_the_mask_of_the_files():
    for checksum in (0, 1, 0xE3069283, 0xFFFFFFFF):
        masked = ((checksum >> 15 | checksum << 17) + 0xA282EAD8) & 0xFFFFFFFF
        assert unmask(masked) == checksum


def test_at_least_200_megabytes_a_second():
    message = np.zeros(64_000_000, np.uint8)
    seconds = []
    for _ in range(3):
        start = time.process_time()
        crc32c(message)
        seconds.append(time.process_time() - start)
    assert 64 / min(seconds) > 200
