"""`hf:owner/name` with the real client library, its real cache, and a Hub on this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from elmore import Embedder
from elmore.checkpoint.sources import load
from elmore.cli.main import main
from elmore.errors import ConfigError, FormatError, InputError
from elmore.published import hub as module
from elmore.published.hub import HubName, hub_folder, hub_name, wanted_files
from tests.published.fake_hub import Hub, hub_here

ModelCard = pytest.importorskip("huggingface_hub").ModelCard
constants = pytest.importorskip("huggingface_hub.constants")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with hub_here() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        files = "/{repo_id}/resolve/{revision}/{filename}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", hub.url + files)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "token"))
        monkeypatch.setenv("HF_TOKEN", "a-token-of-this-test")
        monkeypatch.delenv("ELMORE_OFFLINE", raising=False)
        yield hub


def files_of(folder: Path) -> dict[str, bytes]:
    found = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}


def test_a_model_on_the_hub(hub: Hub, tiny_model: Path, tmp_path: Path):
    old = hub.commit("someone/tiny", files_of(tiny_model))
    hub.commit("someone/tiny", {"config.json": b"{}", "model.safetensors": b""})
    model = Embedder.load(f"hf:someone/tiny@{old}", device="cpu")
    assert model.fingerprint == Embedder.load(tiny_model, device="cpu").fingerprint
    place = tmp_path / "hub" / "models--someone--tiny" / "snapshots" / old
    assert (place / "model.safetensors").is_symlink()  # the Hub's own layout: blobs and links
    asked = len(hub.asked)
    assert hub_folder(f"hf:someone/tiny@{old}", download=False) == place
    assert len(hub.asked) == asked


def test_a_branch_and_offline(hub: Hub, tiny_model: Path, monkeypatch: pytest.MonkeyPatch):
    hub.commit("someone/tiny", files_of(tiny_model))
    folder = hub_folder("hf:someone/tiny")
    monkeypatch.setenv("ELMORE_OFFLINE", "1")
    asked = len(hub.asked)
    assert hub_folder("hf:someone/tiny") == hub_folder("hf:someone/tiny@main") == folder
    with pytest.raises(InputError, match=r"hf:someone/other is not complete in the Hub's cache"):
        hub_folder("hf:someone/other")
    assert len(hub.asked) == asked


def test_a_server_does_not_ask_the_hub(hub: Hub, capsys: pytest.CaptureFixture[str]):
    assert main(["serve", "--model", "hf:someone/tiny", "--port", "0"]) == 2
    assert "elmore download hf:someone/tiny" in capsys.readouterr().err
    assert hub.asked == []


def test_an_interrupted_download_is_not_taken_for_a_model(hub: Hub, tiny_model: Path):
    hub.commit("someone/tiny", files_of(tiny_model))
    (hub_folder("hf:someone/tiny") / "model.safetensors").unlink()
    with pytest.raises(InputError, match="not complete"):
        hub_folder("hf:someone/tiny", download=False)


def test_only_files_of_a_model_are_downloaded(hub: Hub, tiny_model: Path):
    more = {"evil.py": b"exit()", "pytorch_model.bin": b"x", "notes.pdf": b"x", "flax.msgpack": b""}
    hub.commit("someone/tiny", {**files_of(tiny_model), **more})
    folder = hub_folder("hf:someone/tiny")
    assert files_of(folder) == files_of(tiny_model)


def test_what_is_not_there(hub: Hub, tiny_model: Path):
    with pytest.raises(InputError, match="hf:someone/none: no such model on the Hub"):
        hub_folder("hf:someone/none")
    hub.commit("someone/tiny", files_of(tiny_model))
    with pytest.raises(InputError, match="it has no revision 'v9'"):
        hub_folder("hf:someone/tiny@v9")
    hub.commit("someone/text", {"README.md": b"hello"})
    with pytest.raises(FormatError, match="no files of a model there, only 1 others"):
        hub_folder("hf:someone/text")


def test_a_hub_that_is_not_there(monkeypatch: pytest.MonkeyPatch, hub: Hub):
    with hub_here() as gone:
        monkeypatch.setattr(constants, "ENDPOINT", gone.url)
    with pytest.raises(InputError, match=r"hf:someone/tiny: the Hub cannot be used \("):
        hub_folder("hf:someone/tiny")
    monkeypatch.setattr(constants, "ENDPOINT", "http://example.org")
    with pytest.raises(InputError, match="not an https address"):
        hub_folder("hf:someone/tiny")


NAME = HubName("o/n")


@pytest.mark.parametrize("path", ["../x.json", "/etc/x.json", "a/../../x.json", "a\\..\\x.json"])
def test_a_listing_cannot_lead_out_of_its_folder(path: str):
    with pytest.raises(FormatError, match="leads out of its folder"):
        wanted_files([("config.json", 1), (path, 1)], NAME)


def test_a_listing_has_a_limit():
    with pytest.raises(FormatError, match="17,179,869,185 bytes; expected at most 17,179,869,184"):
        wanted_files([("model.safetensors", (1 << 34) + 1)], NAME)
    with pytest.raises(FormatError, match="1,001 files"):
        wanted_files([(f"{i}.json", 1) for i in range(1001)], NAME)


def test_safetensors_come_before_everything_else():
    listed = [("config.json", 1), ("pytorch_model.bin", 9), ("vocab.txt", 1), ("x.hdf5", 1)]
    assert wanted_files(listed, NAME) == [name for name, _ in listed]
    listed.append(("model.safetensors", 9))
    assert wanted_files(listed, NAME) == ["config.json", "vocab.txt", "model.safetensors"]


@pytest.mark.parametrize(
    "name", ["hf:", "hf:name", "hf:a/b/c", "hf:../b", "hf:a/b@", "hf:a/b@../x", "hf:a/b c", "hf:/b"]
)
def test_names_that_are_none(name: str):
    with pytest.raises(InputError, match="expected hf:owner/name or hf:owner/name@revision"):
        hub_name(name)


def test_names():
    assert hub_name("hf:a/b") == HubName("a/b")
    assert hub_name("hf:a/b@refs/pr/1") == HubName("a/b", "refs/pr/1")
    assert str(hub_name("hf:a/b@v1")) == "hf:a/b@v1"


def test_without_the_library(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match=r"pip install 'elmore\[hub\]'"):
        Embedder.load("hf:someone/tiny")


# There and back -----------------------------------------------------------------------------------


def test_push_and_load_again(
    hub: Hub, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    given = ["push", str(tiny_model), "someone/tiny", "--license", "mit", "--language", "en"]
    assert main(given) == 0
    sha = hub.branches["someone/tiny"]["main"]
    assert capsys.readouterr().out == f"{hub.url}/someone/tiny/commit/{sha}\n"
    model = Embedder.load("hf:someone/tiny", device="cpu")
    assert model.fingerprint == Embedder.load(tiny_model, device="cpu").fingerprint
    uploaded = hub.commits["someone/tiny"][sha]
    assert {name: uploaded[name] for name in files_of(tiny_model)} == files_of(tiny_model)
    card = uploaded["README.md"].decode()
    said = ModelCard(card).data.to_dict()
    assert (said["license"], said["language"], said["library_name"]) == ("mit", "en", "elmore")
    assert "Embedder.load('hf:someone/tiny')" in card
    assert load("hf:someone/tiny").options == load(tiny_model).options


def test_push_offline(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("ELMORE_OFFLINE", "1")
    assert main(["push", str(tiny_model), "someone/tiny"]) == 2
    assert "cannot be uploaded while ELMORE_OFFLINE is set" in capsys.readouterr().err
