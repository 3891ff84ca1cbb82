"""Archives from strangers: what comes out, and all that must not."""

import gzip
import io
import stat
import tarfile
import time
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmore.checkpoint import archive as archive_module
from elmore.checkpoint.archive import is_archive, unpacked
from elmore.checkpoint.bilm import softmax_of
from elmore.checkpoint.sources import load, save
from elmore.embedder import Embedder
from elmore.errors import FormatError
from tests.checkpoint.foreign_models import make_manylangs, make_transformer, pack_tar, pack_zip
from tests.tiny_models import SENTENCES, WORDS, make


def tar_of(path: Path, *members: tuple[tarfile.TarInfo, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for info, content in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


def zip_of(path: Path, *members: tuple[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as container:
        for name, content in members:
            container.writestr(name, content)
    return path


def names_in(path: Path) -> list[str]:
    with unpacked(path) as folder:
        files = (p for p in folder.rglob("*") if p.is_file())
        return sorted(str(p.relative_to(folder)) for p in files)


def refusal(path: Path) -> str:
    """Unpacking must end in one line, soon, with little memory and nothing left behind."""
    tracemalloc.start()
    start = time.process_time()
    with pytest.raises(FormatError) as caught:
        names_in(path)
    assert time.process_time() - start < 5
    assert tracemalloc.get_traced_memory()[1] < 64 << 20
    tracemalloc.stop()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def make_tar(path: Path, name: str, content: bytes) -> Path:
    return tar_of(path, (tarfile.TarInfo(name), content))


def make_zip(path: Path, name: str, content: bytes) -> Path:
    return zip_of(path, (name, content))


MAKERS: list[Callable[[Path, str, bytes], Path]] = [make_tar, make_zip]


@pytest.mark.parametrize("make", MAKERS)
def test_only_what_a_model_is_made_of_comes_out(
    tmp_path: Path, make: Callable[[Path, str, bytes], Path]
):
    for name in ("a/weights.th", "checkpoint", "m.data-00000-of-00001", "fta/model.options_file"):
        assert names_in(make(tmp_path / "archive", name, b"x")) == [name]
    for name in ("train.py", "log/events.out", "model.tar.gz", "stdout.log"):
        assert names_in(make(tmp_path / "archive", name, b"x")) == []


def test_the_folder_is_gone_after_the_block(tmp_path: Path):
    with unpacked(make_zip(tmp_path / "a.zip", "config.json", b"{}")) as folder:
        assert (folder / "config.json").read_bytes() == b"{}"
    assert not folder.exists()


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    "name",
    [
        "../out.json",
        "a/../../out.json",
        "/tmp/out.json",
        "..\\out.json",
        "C:out.json",
        "a/..",
        "..",
    ],
)
def test_no_name_leads_outside(tmp_path: Path, make: Callable[[Path, str, bytes], Path], name: str):
    assert "leads out of the archive" in refusal(make(tmp_path / "archive", name, b"x"))
    assert not (tmp_path / "out.json").exists()


@pytest.mark.parametrize(
    "kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE]
)
def test_links_and_devices_are_refused_in_a_tar(tmp_path: Path, kind: bytes):
    info = tarfile.TarInfo("weights.th")
    info.type, info.linkname = kind, "/etc/passwd"
    assert "a link or a device" in refusal(tar_of(tmp_path / "a.tar.gz", (info, b"")))


@pytest.mark.parametrize("kind", [stat.S_IFLNK, stat.S_IFCHR, stat.S_IFIFO])
def test_links_and_devices_are_refused_in_a_zip(tmp_path: Path, kind: int):
    info = zipfile.ZipInfo("weights.th")
    info.external_attr = (kind | 0o777) << 16
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as container:
        container.writestr(info, "/etc/passwd")
    assert "a link or a device" in refusal(tmp_path / "a.zip")


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("name", ["weights.th", "unwanted.bin"])
def test_bombs_stop_early(tmp_path: Path, make: Callable[[Path, str, bytes], Path], name: str):
    bomb = make(tmp_path / "bomb", name, bytes(200 << 20))
    if name == "weights.th" or make is make_tar:  # what is not wanted is skipped in a zip
        assert "unpacks to over 50 times its size" in refusal(bomb)
    else:
        assert names_in(bomb) == []


def test_a_bomb_of_many_members_stops_early(tmp_path: Path):
    members = [(f"{i}.json", bytes(1 << 20)) for i in range(100)]
    assert "unpacks to over" in refusal(zip_of(tmp_path / "a.zip", *members))


def test_a_bomb_in_a_header_stops_early(tmp_path: Path):
    header = tarfile.TarInfo("././@PaxHeader")
    header.type = tarfile.XHDTYPE
    refusal(tar_of(tmp_path / "a.tar.gz", (header, b" " * (100 << 20))))


def test_a_size_declared_but_not_there(tmp_path: Path):
    info = tarfile.TarInfo("weights.th")
    info.size = 1 << 50
    path = tmp_path / "a.tar.gz"
    path.write_bytes(gzip.compress(info.tobuf() + b"x" * 2048))
    assert "damaged" in refusal(path)


def test_too_many_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(archive_module, "_MAX_MEMBERS", 3)
    path = zip_of(tmp_path / "a.zip", *((f"{i}.json", b"{}") for i in range(4)))
    assert "over 3 files" in refusal(path)


def test_a_name_that_comes_twice(tmp_path: Path):
    twice = [(tarfile.TarInfo("config.json"), b"{}")] * 2
    assert "contains 'config.json' twice" in refusal(tar_of(tmp_path / "a.tar.gz", *twice))


def test_a_wrong_checksum_is_seen_in_both(tmp_path: Path):
    path = make_zip(tmp_path / "a.zip", "config.json", b"{}")
    raw = bytearray(path.read_bytes())
    at = raw.index(b"config.json") + len("config.json")
    raw[at + 1] ^= 4  # in the compressed bytes
    path.write_bytes(raw)
    assert "damaged" in refusal(path)
    path = make_tar(tmp_path / "a.tar.gz", "config.json", b"{}")
    raw = bytearray(path.read_bytes())
    raw[-8] ^= 1  # gzip's checksum of the whole
    path.write_bytes(raw)
    assert "a.tar.gz" in refusal(path)


def test_an_encrypted_zip_is_refused(tmp_path: Path):
    path = make_zip(tmp_path / "a.zip", "config.json", b"{}")
    raw = bytearray(path.read_bytes())
    raw[6] |= 1
    raw[raw.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(raw)
    assert "password" in refusal(path)


def test_archives_are_known_by_how_they_begin(tmp_path: Path):
    path = tmp_path / "model"
    path.write_bytes(b"PK\x03\x04")
    assert is_archive(path)
    path.write_bytes(b"\x89HDF")
    assert not is_archive(path)
    path.write_bytes(b"")
    assert not is_archive(path)


def test_errors_name_the_archive_and_not_the_folder_it_was_unpacked_to(tmp_path: Path):
    make_transformer(tmp_path / "model")
    (tmp_path / "model" / "weights.th").write_bytes(b"no tensors")
    path = pack_tar(tmp_path / "model", tmp_path / "model.tar.gz")
    with pytest.raises(FormatError, match=r"model\.tar\.gz/weights\.th: not a readable file"):
        load(path)


def test_an_archive_without_a_model_says_what_was_looked_for(tmp_path: Path):
    path = make_zip(tmp_path / "a.zip", "notes.txt", b"nothing here")
    with pytest.raises(FormatError, match=r"a\.zip: no model here\. Looked for .*encoder\.pkl"):
        load(path)


def test_models_in_folders_inside_are_found(tmp_path: Path):
    make_manylangs(tmp_path / "model")
    path = pack_zip(tmp_path / "model", tmp_path / "a.zip", "deep/er/")
    assert load(path).model.config.words.kind == "dictionary"


@pytest.mark.parametrize("inside", ["", "155/"])
def test_a_zip_of_hdf5_options_and_vocabulary_is_a_model(tmp_path: Path, inside: str):
    tiny = make(tmp_path / "model")
    (tmp_path / "model" / "vocab.txt").write_text("".join(w + "\n" for w in WORDS), "utf-8")
    (tmp_path / "model" / "meta.json").write_text('{"id": 155}')
    checkpoint = load(pack_zip(tmp_path / "model", tmp_path / "155.zip", inside))
    assert checkpoint.vocabulary is not None
    assert checkpoint.vocabulary.words == WORDS
    for words, found in zip(SENTENCES, Embedder(checkpoint).embed(SENTENCES), strict=True):
        np.testing.assert_allclose(found.layers, tiny.layers(words)[0], rtol=0, atol=5e-6)


def test_a_native_folder_may_be_packed_too(tmp_path: Path):
    make_transformer(tmp_path / "model")
    save(load(tmp_path / "model", heads=True), tmp_path / "native")
    packed = pack_tar(tmp_path / "native", tmp_path / "native.tar.gz")
    assert Embedder.load(packed).fingerprint == Embedder.load(tmp_path / "model").fingerprint
    assert softmax_of(load(packed, heads=True)) is not None
