"""Protocol-buffer messages in a file: varints, and fields that carry their number.

Only what TensorFlow's checkpoint metadata uses, so no schema: the caller asks for fields by number.
"""

from elmore.errors import FormatError

MAX_VARINT_BYTES = 10  # 64 bits, seven at a time

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned number that starts at `at`, and the place after it."""
    if at < len(data) and data[at] < 0x80:  # nearly all are one byte
        return data[at], at + 1
    value = 0
    for n, byte in enumerate(data[at : at + MAX_VARINT_BYTES]):
        value |= (byte & 0x7F) << (7 * n)
        if byte < 0x80:
            if value >> 64:
                raise FormatError("a number is larger than 64 bits")
            return value, at + n + 1
    raise FormatError("a number is cut off or longer than 64 bits")


def read_bytes(data: bytes, at: int, size: int) -> tuple[bytes, int]:
    """`size` bytes that start at `at`, and the place after them."""
    if at + size > len(data):
        raise FormatError(f"{size} bytes were announced, {max(len(data) - at, 0)} are left")
    return data[at : at + size], at + size


class Message:
    """One message, split into its fields; absent fields read as 0 or empty, as the format says."""

    def __init__(self, data: bytes):
        self._integers: dict[int, int] = {}
        self._parts: dict[int, list[bytes]] = {}
        at = 0
        while at < len(data):
            at = self._read_field(data, at)

    def _read_field(self, data: bytes, at: int) -> int:
        tag, at = read_varint(data, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            self._integers[number], at = read_varint(data, at)
        elif kind == BYTES:
            size, at = read_varint(data, at)
            part, at = read_bytes(data, at, size)
            self._parts.setdefault(number, []).append(part)
        elif kind in (FIXED32, FIXED64):
            raw, at = read_bytes(data, at, 4 if kind == FIXED32 else 8)
            self._integers[number] = int.from_bytes(raw, "little")
        else:
            raise FormatError(f"field {number} of a message has the unknown kind {kind}")
        return at

    def natural(self, number: int) -> int:
        """An integer of which no negative value makes sense here (int32, int64, fixed32, enum)."""
        value = self._integers.get(number, 0)
        if value >> 63:
            raise FormatError(f"field {number} of a message is negative: {value - (1 << 64)}")
        return value

    def message(self, number: int) -> "Message":
        """A message inside this one; if it comes in parts, they are merged."""
        return Message(b"".join(self.parts(number)))

    def parts(self, number: int) -> list[bytes]:
        """Every value of a repeated field of messages or strings."""
        return self._parts.get(number, [])
