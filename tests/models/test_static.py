"""Static vectors: every layout gives the same table, and damage is told with its place."""

import gzip
import io
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest

from elmore.errors import ElmoreError, FormatError
from elmore.models.static import StaticVectors

WORDS = ["the", "Bank", "bank", "New York", "naïve"]
VECTORS = np.linspace(-2, 2, len(WORDS) * 3, dtype=np.float32).reshape(-1, 3)


def text(words: list[str] = WORDS, header: str = "") -> str:
    rows = zip(words, VECTORS, strict=False)
    return header + "".join(f"{w} {' '.join(str(n) for n in row)}\n" for w, row in rows)


def binary() -> bytes:
    rows = [
        w.encode() + b" " + row.tobytes() + b"\n" for w, row in zip(WORDS, VECTORS, strict=True)
    ]
    spaced = [row.replace(b"New York", b"New_York") for row in rows]
    return f"{len(WORDS)} 3\n".encode() + b"".join(spaced)


def write(folder: Path, name: str) -> Path:
    path = folder / name
    match name:
        case "v.txt":
            path.write_text(text(), encoding="utf-8")
        case "v.vec":
            path.write_text(text(header=f"{len(WORDS)} 3\n"), encoding="utf-8")
        case "v.txt.gz":
            path.write_bytes(gzip.compress(text().encode()))
        case "v.bin":
            path.write_bytes(binary())
        case "v.bin.gz":
            path.write_bytes(gzip.compress(binary()))
        case "v.npz":
            np.savez(path, words=np.array(WORDS), vectors=VECTORS)
    return path


@pytest.mark.parametrize("name", ["v.txt", "v.vec", "v.txt.gz", "v.bin", "v.bin.gz", "v.npz"])
def test_every_layout_gives_the_same_table(tmp_path: Path, name: str):
    found = StaticVectors.load(write(tmp_path, name))
    words = [word.replace("New_York", "New York") for word in found.words]
    assert words == WORDS
    np.testing.assert_array_equal(found.vectors, VECTORS)
    assert found.dim == 3


def test_binary_without_ends_of_line_is_read_too(tmp_path: Path):
    rows = b"".join(w.encode() + b" " + v.tobytes() for w, v in zip("ab", VECTORS, strict=False))
    (tmp_path / "v.bin").write_bytes(b"2 3\n" + rows)
    assert StaticVectors.load(tmp_path / "v.bin").words == ("a", "b")


def test_a_word_is_looked_up_as_written_and_then_in_lower_case(tmp_path: Path):
    found = StaticVectors.load(write(tmp_path, "v.txt"))
    assert found.row("Bank") == 1
    assert found.row("BANK") == 2
    assert found.row("The") == 0
    assert found.row("river") is None


def test_of_a_word_listed_twice_the_first_counts(tmp_path: Path):
    (tmp_path / "v.txt").write_text("a 1 2\na 3 4\n", encoding="utf-8")
    assert StaticVectors.load(tmp_path / "v.txt").row("a") == 0


def test_the_fingerprint_is_of_words_and_numbers(tmp_path: Path):
    one = StaticVectors.load(write(tmp_path, "v.txt"))
    same = StaticVectors.load(write(tmp_path, "v.npz"))
    other = StaticVectors(one.words, one.vectors + 1)
    assert one.fingerprint == same.fingerprint != other.fingerprint


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("v.txt", b"a 1 2\nb 1\n", r"v.txt, line 2: 'b 1'.*a word and 2 numbers"),
        ("v.txt", b"a 1 2\nb 1 x\n", r"v.txt, line 2"),
        ("v.txt", b"the .1 .2 .3\nof .2 .3 .4 .5\n", r"v.txt, line 2: 'of .2"),
        ("v.txt", b"the .1 .2\nof .2 .3 .4\n", r"v.txt, line 2: 'of .2"),
        ("v.txt", b"1000 2\nthe .1 .2\n", r"ends after 1 of the 1,000 words"),
        ("v.txt", b"1 300\nthe .1 .2 .3\n", r"v.txt, line 2: .*a word and 300 numbers"),
        ("v.txt", b"a 1 2\nb nan 2\n", r"word 2, 'b', contains NaN or infinite"),
        (
            "v.bin",
            b"1 1\na " + np.float32("inf").tobytes(),
            r"word 1, 'a', contains NaN or infinite",
        ),
        ("v.npz", b"", r"not a readable .npz"),
        ("v.txt", b"", r"no vectors"),
        ("v.bin", b"2 3\na " + b"\0" * 12, r"ends after 1 of the 2 words"),
        ("v.bin", b"99999999999 300\na ", r"ends after 0 of the 99,999,999,999 words"),
        ("v.bin", b"no counts here", r"no counts"),
        ("v.npz", b"PK nothing", r"not a readable .npz"),
    ],
)
def test_damage_is_told_with_its_place(tmp_path: Path, name: str, content: bytes, said: str):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=said):
        StaticVectors.load(tmp_path / name)


def test_an_npz_with_other_arrays_is_refused(tmp_path: Path):
    np.savez(tmp_path / "v.npz", vectors=VECTORS)
    with pytest.raises(FormatError, match="expected the arrays `words` and `vectors`"):
        StaticVectors.load(tmp_path / "v.npz")
    np.savez(tmp_path / "w.npz", vectors=VECTORS, words=np.array(WORDS[:2]))
    with pytest.raises(FormatError, match="as many texts as rows"):
        StaticVectors.load(tmp_path / "w.npz")
    np.savez(tmp_path / "x.npz", vectors=VECTORS.astype(str), words=np.array(WORDS))
    with pytest.raises(FormatError, match="rows of numbers"):
        StaticVectors.load(tmp_path / "x.npz")
    np.save(tmp_path / "y.npy", VECTORS)
    (tmp_path / "y.npy").rename(tmp_path / "y.npz")
    with pytest.raises(FormatError, match=r"not a readable \.npz"):
        StaticVectors.load(tmp_path / "y.npz")


# Files that lie about their sizes, or are of another kind inside ----------------------------------


def npz(folder: Path, words: bytes, vectors: bytes, kind: int = zipfile.ZIP_STORED) -> Path:
    with zipfile.ZipFile(folder / "v.npz", "w", kind) as archive:
        archive.writestr("words.npy", words)
        archive.writestr("vectors.npy", vectors)
    return folder / "v.npz"


def npy(array: np.ndarray, *edits: tuple[bytes, bytes]) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array)
    raw = file.getvalue()
    for old, new in edits:
        assert old in raw
        raw = raw.replace(old, new.ljust(len(old)))  # headers are padded by spaces
    return raw


TEXTS = np.array(["a", "b"])
NUMBERS = np.ones((2, 3), np.float32)
LIES: dict[str, tuple[bytes, bytes]] = {
    "4 TB": (npy(TEXTS), npy(NUMBERS, (b"(2, 3), }" + b" " * 12, b"(2, 549755813888), }"))),
    "beyond any memory": (
        npy(TEXTS),
        npy(NUMBERS, (b"(2, 3), }" + b" " * 20, b"(2, " + b"9" * 20 + b"), }")),
    ),
    "a negative size": (npy(TEXTS), npy(NUMBERS, (b"(2, 3)", b"(2,-3)"))),
    "two negative sizes": (npy(TEXTS), npy(NUMBERS, (b"(2, 3), }  ", b"(-2, -3), }"))),
    "fewer numbers": (npy(TEXTS), npy(NUMBERS, (b"(2, 3)", b"(2, 2)"))),
    "objects": (npy(TEXTS), npy(NUMBERS, (b"'<f4'", b"'|O' "))),
    "objects for words": (npy(TEXTS, (b"'<U1'", b"'|O' ")), npy(NUMBERS)),
    "complex numbers": (npy(TEXTS), npy(NUMBERS.astype(np.complex64))),
    "truth values": (npy(TEXTS), npy(NUMBERS.astype(bool))),
    "dates": (npy(TEXTS), npy(NUMBERS.astype("M8[s]"))),
    "records": (npy(TEXTS), npy(np.ones(2, [("a", "f4", (3,))]))),
    "an unknown type": (npy(TEXTS), npy(NUMBERS, (b"'<f4'", b"'<f9'"))),
    "a header of code": (npy(TEXTS), npy(NUMBERS, (b"{'descr'", b"exit(3)#"))),
    "a header that never closes": (npy(TEXTS), npy(NUMBERS, (b"(2, 3), }", b"(2, 3, {{"))),
    "another version": (npy(TEXTS), npy(NUMBERS, (b"\x93NUMPY\x01", b"\x93NUMPY\x09"))),
    "no array": (npy(TEXTS), b"not an array"),
    "nothing": (b"", b""),
    "a letter that does not exist": (npy(TEXTS, (b"a\0\0\0", b"a\0\0\x7f")), npy(NUMBERS)),
    "a header longer than the file": (
        npy(TEXTS),
        npy(NUMBERS)[:8] + b"\xff\xff" + npy(NUMBERS)[10:],
    ),
}


@pytest.mark.parametrize("lie", LIES)
def test_an_npz_that_lies_is_refused_in_one_line(tmp_path: Path, lie: str):
    with pytest.raises(FormatError, match=r"v\.npz: ") as caught:
        StaticVectors.load(npz(tmp_path, *LIES[lie]))
    assert "\n" not in str(caught.value)


def test_an_npz_of_other_numbers_is_read(tmp_path: Path):
    for kind in ("f2", "f8", ">f4", "i2", "u1"):
        path = npz(tmp_path, npy(np.array([b"a", b"b"])), npy(NUMBERS.astype(kind)))
        found = StaticVectors.load(path)
        assert found.words == ("a", "b")
        np.testing.assert_array_equal(found.vectors, NUMBERS)
    path = npz(tmp_path, npy(TEXTS), npy(np.asfortranarray(np.arange(6.0).reshape(2, 3))))
    np.testing.assert_array_equal(StaticVectors.load(path).vectors, [[0, 1, 2], [3, 4, 5]])


@pytest.mark.parametrize("name", ["v.npz", "v.bin.gz", "v.txt.gz"])
def test_bombs_stop_early(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("elmore.models.static._SPARE", 1 << 20)
    path, n = tmp_path / name, 1 << 19
    match name:
        case "v.npz":
            words = npy(np.full(n, "a"))
            path = npz(tmp_path, words, npy(np.zeros((n, 8), np.float32)), zipfile.ZIP_DEFLATED)
        case "v.bin.gz":
            path.write_bytes(gzip.compress(f"{n} 8\n".encode() + (b"a " + bytes(32)) * n))
        case "v.txt.gz":
            path.write_bytes(gzip.compress(b"a 0 0 0\n" * n))
    with pytest.raises(FormatError, match="unpacks to over 8 times its size"):
        StaticVectors.load(path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("v.txt", "² ³\na 1\n".encode()),
        ("v.txt", b"9" * 5000 + b" 3\na 1 2 3\n"),
        ("v.txt", b"3 0\nword\n"),
        ("v.bin", b"0 99999999999999\na "),
        ("v.bin", b"0 0\n"),
        ("v.bin", b"9" * 40 + b" 9\n"),
        ("v.bin.gz", b"\x1f\x8b not really"),
        ("v.npz", b"PK\x05\x06" + bytes(18)),
    ],
)
def test_counts_that_are_none_are_refused(tmp_path: Path, name: str, content: bytes):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ElmoreError) as caught:
        StaticVectors.load(tmp_path / name)
    assert "\n" not in str(caught.value)


@pytest.mark.skipif(os.name == "nt", reason="devices and pipes have no names there")
@pytest.mark.parametrize("name", ["v.npz", "v.bin", "v.bin.gz"])
def test_devices_and_pipes_are_refused(tmp_path: Path, name: str):
    (tmp_path / name).symlink_to("/dev/zero")
    with pytest.raises(FormatError, match="not a regular file"):
        StaticVectors.load(tmp_path / name)
    (tmp_path / name).unlink()
    os.mkfifo(tmp_path / name)
    with pytest.raises(FormatError, match="not a regular file"):
        StaticVectors.load(tmp_path / name)
