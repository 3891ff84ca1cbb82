"""The files of a run when the disk is full, when they are damaged, and when they are hostile: one
line of error, no more memory than the file, and what was saved before stays.
"""

import os
import resource
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch

from elmore.errors import FormatError, InputError
from elmore.train.run_folder import checkpoints
from tests.train.toy import Toy, loop, resumed


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Ten steps, and a checkpoint at their end."""
    (tmp_path / "run").mkdir()
    loop(Toy(), tmp_path / "run").run()
    return tmp_path / "run"


def training(run: Path) -> Path:
    return checkpoints(run)[-1] / "training.pt"


def refused(run: Path) -> str:
    with pytest.raises(FormatError) as found:
        resumed(Toy(), run, steps=12)
    assert len(str(found.value).splitlines()) == 1
    return str(found.value)


# The disk -----------------------------------------------------------------------------------------


class Large(Toy):
    """Its training state takes a megabyte, its model a kilobyte."""

    def state(self) -> Any:
        return {"at": self.at, "much": torch.zeros(250_000)}

    def restore(self, state: Any) -> None:
        self.at = state["at"] if isinstance(state, dict) else state


def test_a_disk_that_fills_while_the_training_state_is_written(run: Path):
    again = resumed(Large(), run, steps=12)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, before[1]))
    try:
        with pytest.raises(InputError, match=r"step-000000012: cannot be written \(File too large"):
            again.run()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        again.recorder.close()
    assert [path.name for path in (run / "checkpoints").iterdir()] == ["step-000000010"]
    assert resumed(Large(), run, steps=12).run().step == 12


def test_a_disk_that_fills_while_the_log_is_written(run: Path):
    again = resumed(Toy(), run, steps=12)
    again.recorder.start(10)

    def full(text: str) -> None:
        raise OSError(28, os.strerror(28))

    again.recorder._log._file.write = full  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"log\.jsonl: cannot be written \(No space left"):
        again.recorder.report(again.progress, {"loss": 1.0})
    again.recorder.close()


def test_what_a_killed_run_has_left_is_swept(run: Path):
    for name in (".best.0123456789ab.elmore-tmp", ".run.json.0123456789ab.elmore-tmp"):
        (run / name).write_text("half")
    (run / "checkpoints" / ".step-000000011.0123456789ab.elmore-tmp").mkdir()
    resumed(Toy(), run, steps=12).run()
    assert not list(run.rglob("*.elmore-tmp"))


def test_a_kill_while_an_old_checkpoint_is_deleted_leaves_no_half_of_it(
    run: Path, monkeypatch: pytest.MonkeyPatch
):
    """It would look like a checkpoint, and nothing could resume from it."""

    def killed(folder: Path, **_: object) -> None:
        (folder / "training.pt").unlink()
        raise KeyboardInterrupt

    again = resumed(Toy(), run, steps=12, keep=1)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            again.run()
    again.recorder.close()
    assert [path.name for path in checkpoints(run)] == ["step-000000012"]
    assert resumed(Toy(), run, steps=14, keep=1).run().step == 14
    assert not list(run.rglob("*.elmore-tmp"))


def test_copies_of_checkpoints_are_left_alone(run: Path):
    """Only the run's own names are resumed from and removed."""
    copy = shutil.copytree(checkpoints(run)[-1], run / "checkpoints" / "step-000000010-copy")
    (run / "checkpoints" / "step-000000099").write_text("a file")
    for steps in (12, 14, 16):
        assert resumed(Toy(), run, steps=steps, keep=1).run().step == steps
    assert (copy / "training.pt").is_file()
    assert [path.name for path in checkpoints(run)] == ["step-000000016"]


# The log ------------------------------------------------------------------------------------------


def test_a_byte_that_is_not_utf8_in_the_log_costs_its_line_alone(run: Path):
    lines = (run / "log.jsonl").read_bytes().splitlines()
    lines[3] = lines[3].replace(b"loss", b"lo\xffs")
    lines.insert(5, b"[" * 100_000)
    (run / "log.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    resumed(Toy(), run, steps=11).run()
    found = (run / "log.jsonl").read_bytes().splitlines()
    assert found[:9] == [*lines[:3], lines[4], *lines[6:]]
    assert len(found) == 10


def test_a_log_without_end_is_refused(run: Path):
    (run / "log.jsonl").unlink()
    (run / "log.jsonl").symlink_to("/dev/zero")
    with pytest.raises(FormatError, match=r"log\.jsonl: not a file"):
        resumed(Toy(), run, steps=12).run()


# The training state -------------------------------------------------------------------------------


def test_a_training_state_without_end_is_refused(run: Path):
    path = training(run)
    path.unlink()
    path.symlink_to("/dev/zero")
    assert "missing" in refused(run)


def test_a_flipped_bit_is_found(run: Path):
    path = training(run)
    with zipfile.ZipFile(path) as archive:
        name = next(i for i in archive.infolist() if "/data/" in i.filename)
    whole = bytearray(path.read_bytes())
    header = 30 + int.from_bytes(whole[name.header_offset + 26 :][:2], "little")
    header += int.from_bytes(whole[name.header_offset + 28 :][:2], "little")
    whole[name.header_offset + header] ^= 1
    path.write_bytes(whole)
    assert f"the checksum of {name.filename} is wrong" in refused(run)


def test_a_bomb_is_not_opened(run: Path):
    path = training(run)
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(path.with_name("new"), "w", 8) as new:
        for info in old.infolist():
            new.writestr(info.filename, old.read(info))
    path.with_name("new").replace(path)
    assert "it is compressed" in refused(run)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({}, "'data'"),
        ([1, 2], "list indices"),
        ({"data": [0], "progress": {"no such": 1}, "optimizers": []}, "no such"),
        ({"data": [0], "progress": {"step": 3}, "optimizers": []}, "zip"),
    ],
)
def test_a_state_of_something_else_is_refused(state: Any, said: str, run: Path):
    torch.save(state, training(run))
    found = refused(run)
    assert found.startswith(f"{training(run)}: not a readable training state (")
    assert said in found
    assert f"Remove {training(run).parent} to resume" in found


def test_an_optimizer_of_other_shapes_is_refused(run: Path):
    state = torch.load(training(run), weights_only=True)
    state["optimizers"][0]["state"][0]["sum"] = torch.zeros(7, 7)
    torch.save(state, training(run))
    assert "an optimizer's sum has shape (7, 7), expected (1, 3)" in refused(run)


def test_a_name_of_the_best_without_end_is_no_obstacle(run: Path):
    (run / "best").symlink_to("/dev/zero")
    assert resumed(Toy(), run, steps=12).run().step == 12
