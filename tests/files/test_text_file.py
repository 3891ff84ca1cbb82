"""Lines from plain and compressed files; damage is named by file and line, never passed over."""

import gzip
import io
import lzma
import sys
import zlib
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
import zstandard

from elmore.errors import InputError
from elmore.files import text_file as corpus
from elmore.files.text_file import find_files, read_lines

LINES = [f"line {i} {'naïve 東京 ' * (i % 7)}{i * 7919 % 9973}" for i in range(2000)]
TEXT = "".join(line + "\n" for line in LINES).encode()
COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    ".txt": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}
PACKED = [".gz", ".xz", ".zst"]


def write(folder: Path, content: bytes, ending: str = ".txt") -> Path:
    path = folder / f"corpus{ending}"
    path.write_bytes(COMPRESS[ending](content))
    return path


def complaint(path: str | Path) -> str:
    with pytest.raises(InputError) as caught:
        list(read_lines(path))
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("ending", COMPRESS)
def test_every_kind_of_file_gives_its_lines(tmp_path: Path, ending: str):
    path = write(tmp_path, TEXT, ending)
    assert list(read_lines(path)) == LINES
    assert list(read_lines(str(path))) == LINES


@pytest.mark.parametrize("ending", COMPRESS)
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\n", [""]),
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"\xef\xbb\xbfa\n\xef\xbb\xbfb\n", ["a", "\ufeffb"]),
        (b"a\n\n\nb\n\n", ["a", "", "", "b", ""]),
        ("a\u2028b\x85c\x0bd\re\n".encode(), ["a\u2028b\x85c\x0bd\re"]),
        (b" a \t\n", [" a \t"]),
        (b"\x00\n", ["\x00"]),
    ],
)
def test_only_a_line_feed_ends_a_line(
    tmp_path: Path, ending: str, content: bytes, lines: list[str]
):
    assert list(read_lines(write(tmp_path, content, ending))) == lines


@pytest.mark.parametrize("ending", PACKED)
def test_several_compressed_pieces_are_one_file(tmp_path: Path, ending: str):
    path = write(tmp_path, b"", ending)
    path.write_bytes(b"".join(COMPRESS[ending](part) for part in (b"a\nb", b"", b"c\nd\n")))
    assert list(read_lines(path)) == ["a", "bc", "d"]


@pytest.mark.parametrize("ending", PACKED)
@pytest.mark.parametrize("share", [0.3, 0.9, 0.999])
def test_a_truncated_file_is_never_taken_for_a_whole_one(tmp_path: Path, ending: str, share: float):
    path = write(tmp_path, TEXT, ending)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    read: list[str] = []
    with pytest.raises(InputError) as caught:
        read.extend(read_lines(path))  # what came before the damage is kept
    assert read == LINES[: len(read)]
    assert f"{path}, line {len(read) + 1}: the compressed data ends" in str(caught.value)


@pytest.mark.parametrize("ending", PACKED)
def test_corrupt_data_is_named_by_line(tmp_path: Path, ending: str):
    path = write(tmp_path, TEXT, ending)
    damaged = bytearray(path.read_bytes())
    middle = len(damaged) // 2
    damaged[middle : middle + 40] = bytes(40)
    path.write_bytes(damaged)
    assert f"{path}, line " in complaint(path)
    # Half a deflate stream may still give letters, wrong ones: its checksum is what notices.
    with pytest.raises(InputError, match=r"line \d+: the compressed data ends or is damaged here"):
        list(read_lines(path, errors="replace"))


@pytest.mark.parametrize("ending", PACKED)
def test_a_plain_file_with_a_compressed_name(tmp_path: Path, ending: str):
    path = tmp_path / f"plain{ending}"
    path.write_bytes(b"just text\n" * 10)
    assert f"{path}, line 1" in complaint(path)


@pytest.mark.parametrize("ending", COMPRESS)
def test_bytes_that_are_not_utf8_are_named_by_line_and_place(tmp_path: Path, ending: str):
    path = write(tmp_path, b"fine\nna\xefve\n", ending)
    assert f"{path}, line 2: not UTF-8 (byte 0xef at position 2)" in complaint(path)
    assert list(read_lines(path, errors="replace")) == ["fine", "na\ufffdve"]


@pytest.mark.parametrize(
    "content", [b"\xff\xfeh\x00i\x00", b"cut \xe6\x9d", b"\xed\xa0\x80", b"\xc0\x80"]
)
def test_other_encodings_are_not_utf8(tmp_path: Path, content: bytes):
    assert "line 1: not UTF-8" in complaint(write(tmp_path, content))


def test_a_line_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(corpus, "MAX_LINE_BYTES", 100)
    assert list(read_lines(write(tmp_path, b"x" * 98 + b"\n"))) == ["x" * 98]
    assert "line 2: over 100 bytes" in complaint(write(tmp_path, b"a\n" + b"x" * 200))


def test_files_that_cannot_be_read(tmp_path: Path):
    for name in ("no.txt", "no.gz", "no.xz", "no.zst"):
        assert f"{tmp_path / name}: no such file" in complaint(tmp_path / name)
    (tmp_path / "folder.gz").mkdir()
    assert "cannot be read" in complaint(tmp_path)
    assert "cannot be read" in complaint(tmp_path / "folder.gz")


def test_standard_input(monkeypatch: pytest.MonkeyPatch):
    stdin = io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfa\r\nb"))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert list(read_lines("-")) == ["a", "b"]
    assert not stdin.closed
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n\xff")))
    assert "-, line 2: not UTF-8" in complaint("-")


@pytest.mark.parametrize("ending", COMPRESS)
def test_reading_is_lazy_and_the_file_is_closed(tmp_path: Path, ending: str):
    path = write(tmp_path, TEXT, ending)
    lines = read_lines(path)
    assert list(islice(lines, 3)) == LINES[:3]
    lines.close()
    assert list(lines) == []


def test_an_xz_file_cannot_ask_for_all_memory(tmp_path: Path):
    """Its header asks for a dictionary of 1.5 GB, which liblzma would allocate at once."""
    content = bytearray(lzma.compress(b"a b\n", preset=0))
    size, flags = content[12], 12 + 4  # the block header: size, flags, filter 0x21, 1, property
    assert content[14:16] == b"\x21\x01"
    content[flags] = 37
    end = 12 + (size + 1) * 4
    content[end - 4 : end] = zlib.crc32(content[12 : end - 4]).to_bytes(4, "little")
    path = tmp_path / "greedy.xz"
    path.write_bytes(content)
    assert "line 1: the compressed data ends or is damaged here (Memory usage" in complaint(path)


def test_streams_of_xz_may_be_padded_and_an_empty_file_is_no_stream(tmp_path: Path):
    path = tmp_path / "two.xz"
    path.write_bytes(lzma.compress(b"a\n") + bytes(8) + lzma.compress(b"b\n") + bytes(4))
    assert list(read_lines(path)) == ["a", "b"]
    path.write_bytes(b"")
    assert "the compressed data ends" in complaint(path)


def test_a_bomb_of_zst_is_read_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(corpus, "MAX_LINE_BYTES", 1 << 16)
    path = write(tmp_path, bytes(1 << 27), ".zst")
    assert path.stat().st_size < 1 << 16
    assert "line 1: over 65,536 bytes" in complaint(path)


def test_files_and_globs_are_found_once_each_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    files = [tmp_path / f"shard{i}.txt" for i in range(3)]
    for path in files:
        path.write_text("word\n")
    assert find_files([tmp_path / "*.txt"]) == files
    assert find_files([files[2], str(tmp_path / "shard?.txt")]) == [files[2], files[0], files[1]]
    monkeypatch.chdir(tmp_path)
    assert find_files(["shard*.txt"]) == [Path(path.name) for path in files]


def test_a_name_with_a_bracket_is_that_file(tmp_path: Path):
    odd = tmp_path / "a[1].txt"
    odd.write_text("word\n")
    assert find_files([odd]) == [odd]


@pytest.mark.parametrize("pattern", ["nothing.txt", "*.nothing", "folder"])
def test_a_pattern_that_finds_nothing_is_an_error_that_names_it(tmp_path: Path, pattern: str):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="no such file"):
        find_files([tmp_path / pattern])


def test_an_xz_file_cannot_ask_for_more_memory_than_text_needs(tmp_path: Path):
    """The header of a block asks for a dictionary of 4 GiB; the text is one line."""
    data = bytearray(lzma.compress(b"text\n"))
    header = slice(12, 12 + 4 * (data[12] + 1))
    at = data.index(b"\x21\x01", header.start) + 2  # LZMA2, one byte of properties
    data[at] = 40
    checked = bytes(data[header.start : header.stop - 4])
    data[header.stop - 4 : header.stop] = zlib.crc32(checked).to_bytes(4, "little")
    path = tmp_path / "large.txt.xz"
    path.write_bytes(data)
    with pytest.raises(InputError, match="Memory usage limit exceeded"):
        list(read_lines(path))


def test_xz_streams_one_after_another_are_one_text(tmp_path: Path):
    path = tmp_path / "two.txt.xz"
    path.write_bytes(lzma.compress(b"one\ntw") + b"\0" * 4 + lzma.compress(b"o\nthree"))
    assert list(read_lines(path)) == ["one", "two", "three"]
