"""CRC-32C, the checksum of TensorFlow's files, at memory speed without a compiled extension.

A checksum is the remainder of the message, read as a polynomial over GF(2), divided by P. Moving
bytes is cheap in NumPy, so a long message is first divided by a sparse multiple of P,
x^(8*5685) + x^(8*1362) + x^(8*426) + 1: a byte is moved by xoring it into three later places.
What is left, under six kilobytes, goes through the usual table, byte by byte.
"""

import numpy as np
from numpy.typing import NDArray

POLYNOMIAL = 0x82F63B78  # bits reversed, as in every implementation of CRC-32C
SPARSE_MULTIPLE = (5685, 1362, 426)  # exponents in bytes, besides 0; a search over all triples
SCALES = (64, 16, 4, 1)  # powers of two only: squaring a polynomial over GF(2) doubles exponents
PIECE = 4 << 20  # bytes copied at a time


def _byte_table() -> list[int]:
    table = list(range(256))
    for _ in range(8):
        table = [(crc >> 1) ^ (POLYNOMIAL if crc & 1 else 0) for crc in table]
    return table


TABLE = _byte_table()


def crc32c(data: bytes | NDArray[np.uint8]) -> int:
    """The CRC-32C of bytes, or of a flat array of bytes."""
    message = np.frombuffer(data, np.uint8) if isinstance(data, bytes) else data
    state = 0xFFFFFFFF
    for start in range(0, len(message), PIECE):
        state = _update(state, message[start : start + PIECE].copy())
    return state ^ 0xFFFFFFFF


def unmask(crc: int) -> int:
    """Undo the rotation and offset under which checksums are stored inside files."""
    rotated = (crc - 0xA282EAD8) & 0xFFFFFFFF
    return (rotated >> 17) | (rotated << 15) & 0xFFFFFFFF


def _update(state: int, piece: NDArray[np.uint8]) -> int:
    """Feed one piece, which is overwritten, to a running checksum."""
    if len(piece) > SPARSE_MULTIPLE[0]:
        # The running state acts as if xored into the first four bytes; then it starts from zero.
        piece[:4] ^= np.frombuffer(state.to_bytes(4, "little"), np.uint8)
        state, piece = 0, _fold(piece)
    for byte in piece.tobytes():
        state = (state >> 8) ^ TABLE[(state ^ byte) & 0xFF]
    return state


def _fold(piece: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Reduce a piece in place; return its last bytes, which leave the same remainder."""
    start = 0
    for scale in SCALES:
        degree, *lower = (scale * exponent for exponent in SPARSE_MULTIPLE)
        while (excess := len(piece) - start - degree) > 0:
            step = min(excess, degree - max(lower))  # so that no target is itself being moved
            moved = piece[start : start + step]
            for exponent in (*lower, 0):
                piece[start + degree - exponent :][:step] ^= moved
            start += step
    return piece[start:]
