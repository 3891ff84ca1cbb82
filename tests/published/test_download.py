"""Published models by name: cache, checksums, offline, by hand. The server is on this machine."""

import json
import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from elmore import Embedder
from elmore.cli.main import main
from elmore.errors import ElmoreError, ElmoreWarning, FormatError, InputError
from elmore.files.lock import Lock
from elmore.published import download as module
from elmore.published import fetch
from elmore.published.cache import cache_folder
from elmore.published.catalog import catalog, find_published
from elmore.published.download import by_hand, download, find_files
from elmore.published.fetch import UnreachableError, check_url
from tests.published.server import Site, serving
from tests.tiny_models import SENTENCES, Tiny

LARGE = "2x4096_512_2048cnn_2xhighway"
SMALL = find_published("elmo-small")
OPTIONS, WEIGHTS = (f"/elmo-small/{file.name}" for file in SMALL.files)


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ELMORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("ELMORE_OFFLINE", raising=False)
    monkeypatch.setattr(fetch, "_PAUSE", 0.001)
    return tmp_path / "cache"


@pytest.fixture
def site(tiny: Tiny, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    files = {OPTIONS: tiny.options_path.read_bytes(), WEIGHTS: tiny.weights.read_bytes()}
    with serving(Site(files=files)) as site:
        monkeypatch.setenv("ELMORE_MIRROR", site.url)
        yield site


def folder() -> Path:
    return cache_folder() / "models" / "elmo-small"


def test_a_name_is_downloaded_once_and_loaded(site: Site, tiny: Tiny):
    with pytest.warns(ElmoreWarning, match=r"elmo-small is downloaded to .*models/elmo-small"):
        model = Embedder.load("elmo-small", device="cpu")
    expected = Embedder.load(tiny.weights, device="cpu")
    assert model.fingerprint == expected.fingerprint
    for one, other in zip(model.embed(SENTENCES), expected.embed(SENTENCES), strict=True):
        np.testing.assert_array_equal(one.layers, other.layers)
    asked = len(site.asked)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Embedder.load("elmo-small", device="cpu")
    assert len(site.asked) == asked == 2


def test_a_cut_download_is_continued_by_the_next_one(site: Site, tiny: Tiny):
    options = len(site.files[OPTIONS])
    site.cut_after = [options, *[1000] * 5]  # the options come, the weights do not
    with pytest.raises(UnreachableError, match=r"cut|ended"):
        download("elmo-small")
    site.asked.clear()
    with pytest.raises(InputError, match="run `elmore download elmo-small` first"):
        find_files("elmo-small", download=False)
    found = download("elmo-small")
    assert site.asked == [(WEIGHTS, "bytes=5000-")]
    assert (found.folder / SMALL.weights.name).read_bytes() == tiny.weights.read_bytes()
    assert sorted(path.name for path in folder().iterdir()) == sorted(f.name for f in SMALL.files)


def test_a_file_that_has_changed_since_the_first_download_is_refused(site: Site):
    download("elmo-small")
    shutil.rmtree(folder())
    old = site.files[WEIGHTS]
    site.files[WEIGHTS], site.etag = old[:-1] + b"?", '"two"'
    with pytest.raises(FormatError, match=r"not the one of the first download .*; not kept"):
        download("elmo-small")
    assert [path.name for path in folder().iterdir()] == [SMALL.files[0].name]
    download("elmo-small", accept_changed=True)
    assert (folder() / SMALL.weights.name).read_bytes() == site.files[WEIGHTS]
    download("elmo-small")  # the new one is the expected one now


def test_a_damaged_file_in_the_cache_is_noticed(site: Site):
    download("elmo-small")
    path = folder() / SMALL.weights.name
    content = bytearray(path.read_bytes())
    content[100] ^= 1
    path.write_bytes(content)
    assert main(["models", "--verify"]) == 2  # the same size: only a thorough look sees it
    path.write_bytes(content[:-1])
    with pytest.raises(FormatError, match=r"bytes, but .* at the first download; damaged"):
        Embedder.load("elmo-small")


def test_offline_says_which_files_to_fetch_and_where_to_put_them(
    monkeypatch: pytest.MonkeyPatch, tiny: Tiny
):
    monkeypatch.setenv("ELMORE_OFFLINE", "1")
    with pytest.raises(InputError) as caught:
        Embedder.load("elmo-small")
    said = str(caught.value)
    assert "\n" not in said
    assert all(file.urls[0] in said for file in SMALL.files)
    assert said.endswith(f"put what you get in {folder()}.")
    folder().mkdir(parents=True)
    shutil.copy(tiny.options_path, folder() / SMALL.files[0].name)
    shutil.copy(tiny.weights, folder() / SMALL.weights.name)
    assert Embedder.load("elmo-small").fingerprint == Embedder.load(tiny.weights).fingerprint
    (folder() / SMALL.weights.name).write_bytes(b"")  # recorded when it was first used
    with pytest.raises(FormatError, match="damaged"):
        Embedder.load("elmo-small")


def test_an_unreachable_server_says_the_same(monkeypatch: pytest.MonkeyPatch):
    with serving(Site()) as site:
        monkeypatch.setenv("ELMORE_MIRROR", site.url)
    with pytest.raises(UnreachableError, match=r"cannot be reached .* Fetch https://.* elsewhere"):
        download("elmo-small")


def test_the_second_address_is_tried(site: Site, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ELMORE_MIRROR")
    urls = {f.name: (f"{site.url}/gone", f"{site.url}/elmo-small/{f.name}") for f in SMALL.files}
    monkeypatch.setattr(module, "_urls", lambda _, file: urls[file.name])
    assert not download("elmo-small").missing()
    assert [path for path, _ in site.asked] == ["/gone", OPTIONS, "/gone", WEIGHTS]


@pytest.mark.parametrize("value", ["maybe", "2"])
def test_offline_is_yes_or_no(value: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("ELMORE_OFFLINE", value)
    with pytest.raises(ElmoreError, match="expected 1 or 0"):
        find_files("elmo-small")


def test_two_downloads_do_not_mix(site: Site):
    folder().mkdir(parents=True)
    with Lock(folder(), beside=True), pytest.raises(InputError, match="is writing to it"):
        download("elmo-small")


def test_a_folder_of_that_name_comes_first(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    shutil.copytree(tiny.weights.parent, tmp_path / "elmo-small", dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "elmo-small" / "native", ignore_errors=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ELMORE_OFFLINE", "1")
    assert Embedder.load("elmo-small").source == "elmo-small"


def test_the_cache_is_where_it_is_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("ELMORE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "elmore"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "elmore"


def test_every_name_has_safe_addresses_and_plain_file_names():
    assert len(catalog()) == 7 + 7 + 5 + 44
    for model in catalog().values():
        for file in model.files:
            assert Path(file.name).name == file.name
            for url in file.urls:
                check_url(url)
                assert url.endswith(f"/{file.name}")
        assert by_hand(module.cached(model)).startswith("Fetch https://")


@pytest.mark.parametrize(
    ("name", "ending"),
    [
        ("elmo-original", f"/elmo/{LARGE}/elmo_{LARGE}_weights.hdf5"),
        ("elmo-large", f"/elmo/{LARGE}_5.5B/elmo_{LARGE}_5.5B_weights.hdf5"),
        ("elmo-pubmed", f"/contributed/pubmed/elmo_{LARGE}_weights_PubMed_only.hdf5"),
        ("transformer-elmo", "/models/transformer-elmo-2019.01.10.tar.gz"),
        ("manylangs-de", "/repository/11/142.zip"),
        ("manylangs-zh", "/repository/11/179.zip"),
        ("manylangs-nl", "/repository/11/164.zip"),
    ],
)  # fmt: skip
def test_names_that_people_know(name: str, ending: str):
    assert find_published(name).weights.urls[0].endswith(ending)


def test_a_name_that_is_almost_right():
    with pytest.raises(InputError, match="Did you mean elmo-medium"):
        find_published("elmo-medum")
    with pytest.raises(InputError, match=r"elmore models.*Did you mean elmo-pubmed"):
        Embedder.load("elmo-pubmedd")


# From the command line ----------------------------------------------------------------------------


def test_download_and_models(site: Site, tiny: Tiny, capsys: pytest.CaptureFixture[str]):
    assert main(["models", "--json"]) == 0
    listed = {row["name"]: row for row in json.loads(capsys.readouterr().out)["models"]}
    assert listed["small-en"]["complete"]
    assert not listed["elmo-small"]["complete"]
    assert main(["download", "elmo-small"]) == 0
    out, err = capsys.readouterr()
    assert out == f"{folder()}\n"
    size = f"{tiny.weights.stat().st_size / 1e6:,.1f} MB"
    assert f"Downloading {SMALL.weights.name} ({size})" in err
    assert main(["models", "--cached", "--verify"]) == 0
    said = capsys.readouterr().out
    assert "elmo-small" in said
    assert "elmo-medium" not in said
    assert str(cache_folder()) in said


def test_a_command_downloads_what_it_is_given(
    site: Site, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "text").write_text("the river bank .\n")
    given = ["embed", str(tmp_path / "text"), str(tmp_path / "x.npz"), "--model", "elmo-small"]
    assert main([*given, "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert (tmp_path / "x.npz").is_file()


@pytest.mark.parametrize(
    "command", [["serve", "--port", "0", "--model"], ["doctor"]], ids=["serve", "doctor"]
)
def test_a_server_and_the_doctor_download_nothing(
    site: Site, command: list[str], capsys: pytest.CaptureFixture[str]
):
    assert main([*command, "elmo-small"]) == 2
    assert "run `elmore download elmo-small` first" in capsys.readouterr().err
    assert site.asked == []


def test_download_of_nothing_known(capsys: pytest.CaptureFixture[str]):
    assert main(["download", "elmo-smol"]) == 2
    assert "Did you mean elmo-small" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["../../etc", "a/b", "..", ""])
def test_a_name_cannot_lead_out_of_the_cache(name: str):
    with pytest.raises(InputError):
        download(name)
