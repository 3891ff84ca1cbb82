"""Runs that are stopped, killed or out of disk, and what a resumed run makes of them."""

import json
import os
import resource
import signal
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.dump import resumable as parts
from elmore.dump.config import DumpConfig, format_of
from elmore.dump.dump import dump
from elmore.dump.lines import Item
from elmore.embedder import Embedder
from elmore.engine.kernel import NoKernel, find_kernel
from elmore.errors import FormatError, InputError
from elmore.files.lock import BusyError
from tests.tiny_models import make

LINES = [f"sentence {i} says {'again ' * (i % 9)}." if i % 13 else "" for i in range(800)]
FEW = LINES[:300]
# A window is 8 * 16 words, and every window a part: many chances to stop in the wrong place.
CONFIG = DumpConfig(batch_words=16, part_seconds=0.0)
RESUME = CONFIG.model_copy(update={"resume": True})


def same(one: Path, other: Path) -> None:
    """Dataset by dataset, bit by bit."""
    with h5py.File(one) as a, h5py.File(other) as b:
        assert set(a) == set(b)
        for name in a:
            np.testing.assert_array_equal(a[name][...], b[name][...])
            assert dict(a[name].attrs) == dict(b[name].attrs)


def stopping(lines: Iterable[str], after: int, error: BaseException) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == after:
            raise error
        yield line


def stop(embedder: Embedder, target: Path, after: int, config: DumpConfig = CONFIG) -> None:
    with pytest.raises(KeyboardInterrupt) as caught:
        dump(embedder, stopping(FEW, after, KeyboardInterrupt(2)), target, config)
    assert "continue with --resume" in caught.value.__notes__[0]
    assert not target.exists()
    assert (target.parent / f"{target.name}.partial" / "run.json").exists()


@pytest.fixture(scope="module")
def whole(tiny_embedder: Embedder, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run in one part."""
    target = tmp_path_factory.mktemp("whole") / "few.hdf5"
    dump(tiny_embedder, FEW, target, CONFIG.model_copy(update={"part_seconds": 1e9}))
    return target


def test_several_parts_become_the_file_that_one_part_makes(
    tiny_embedder: Embedder, whole: Path, tmp_path: Path
):
    report = dump(tiny_embedder, FEW, tmp_path / "a.hdf5", CONFIG)
    same(tmp_path / "a.hdf5", whole)
    assert report.lines == 300
    assert report.blank == FEW.count("")
    assert report.words == sum(len(line.split()) for line in FEW)
    assert [path.name for path in tmp_path.iterdir()] == ["a.hdf5"]


@pytest.mark.parametrize("after", [40, 155, 299])
def test_a_stopped_run_goes_on_to_the_same_bits(
    tiny_embedder: Embedder, whole: Path, tmp_path: Path, after: int
):
    target = tmp_path / "a.hdf5"
    stop(tiny_embedder, target, after)
    report = dump(tiny_embedder, FEW, target, RESUME)
    same(target, whole)
    assert 0 < report.lines_before <= after
    assert report.words == sum(len(line.split()) for line in FEW)
    assert [path.name for path in tmp_path.iterdir()] == ["a.hdf5"]


def test_a_stop_keeps_the_part_being_written(tiny_embedder: Embedder, tmp_path: Path):
    target = tmp_path / "a.hdf5"
    stop(tiny_embedder, target, 200, CONFIG.model_copy(update={"part_seconds": 1e9}))
    (part,) = (tmp_path / "a.hdf5.partial").glob("*.hdf5")
    with h5py.File(part) as file:
        assert 150 < len(file) <= 200


def test_a_bad_line_stops_a_run_that_goes_on_once_it_is_mended(
    tiny_embedder: Embedder, whole: Path, tmp_path: Path
):
    target = tmp_path / "a.hdf5"
    with pytest.raises(InputError) as caught:
        dump(tiny_embedder, [*FEW[:200], "\ud800", *FEW[201:]], target, CONFIG)
    assert "lines are kept in" in caught.value.__notes__[0]
    dump(tiny_embedder, FEW, target, RESUME)
    same(target, whole)


def test_a_finished_run_is_recognised(tiny_embedder: Embedder, tmp_path: Path):
    target = tmp_path / "a.hdf5"
    dump(tiny_embedder, FEW, target, CONFIG)
    (tmp_path / "a.hdf5.partial").mkdir()  # as if killed just before its end
    before = target.read_bytes()
    report = dump(tiny_embedder, FEW, target, RESUME)
    assert report.lines == report.lines_before == 300
    assert target.read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.hdf5"]
    with pytest.raises(InputError, match="more than the 300 lines"):
        dump(tiny_embedder, [*FEW, "more"], target, RESUME)


def test_a_foreign_file_is_not_taken_for_a_finished_run(tiny_embedder: Embedder, tmp_path: Path):
    target = tmp_path / "a.hdf5"
    with h5py.File(target, "w") as file:
        file["0"] = [1.0]
    with pytest.raises(FormatError, match="not written by a dump"):
        dump(tiny_embedder, FEW, target, RESUME)


def test_other_text_is_refused_with_the_lines_that_differ(tiny_embedder: Embedder, tmp_path: Path):
    target = tmp_path / "a.hdf5"
    stop(tiny_embedder, target, 200)
    with h5py.File(tmp_path / "a.hdf5.partial" / "00000001.hdf5") as file:
        record = json.loads(file.attrs["elmore"])
    changed = list(FEW)
    changed[record["first"]] += " changed"
    with pytest.raises(InputError, match=f"lines {record['first'] + 1} to {record['lines']}"):
        dump(tiny_embedder, changed, target, RESUME)
    with pytest.raises(InputError, match="input differs"):
        dump(tiny_embedder, FEW[:20], target, RESUME)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"layers": "top"}, "layers was 'all' and is now 'top'"),
        ({"batch_words": 17}, "batch_words was 16 and is now 17"),
        ({"tokenize": True}, "tokenize was False and is now True"),
        ({"use_sentence_keys": True}, "use_sentence_keys was False"),
        ({"forget_sentences": True}, "forget_sentences was False"),
    ],
)
def test_other_settings_are_refused(
    tiny_embedder: Embedder, tmp_path: Path, change: dict[str, object], message: str
):
    stop(tiny_embedder, tmp_path / "a.hdf5", 60)
    with pytest.raises(InputError, match=message):
        dump(tiny_embedder, FEW, tmp_path / "a.hdf5", RESUME.model_copy(update=change))


def test_another_model_is_refused(tiny_embedder: Embedder, tmp_path: Path):
    stop(tiny_embedder, tmp_path / "a.hdf5", 60)
    other = Embedder.load(make(tmp_path / "other", seed=1).weights, device="cpu")
    with pytest.raises(InputError, match="the model has changed"):
        dump(other, FEW, tmp_path / "a.hdf5", RESUME)


def test_damaged_and_missing_parts_are_told(tiny_embedder: Embedder, tmp_path: Path):
    stop(tiny_embedder, tmp_path / "a.hdf5", 200)
    first, second, *_ = sorted((tmp_path / "a.hdf5.partial").glob("*.hdf5"))
    second.write_bytes(second.read_bytes()[:500])
    with pytest.raises(FormatError, match=r"00000001\.hdf5: not a readable HDF5 file"):
        dump(tiny_embedder, FEW, tmp_path / "a.hdf5", RESUME)
    second.unlink()
    with pytest.raises(FormatError, match="parts are missing"):
        dump(tiny_embedder, FEW, tmp_path / "a.hdf5", RESUME)
    assert first.exists()


def test_a_sentence_repeated_across_parts_is_stored_once(tiny_embedder: Embedder, tmp_path: Path):
    lines = [f"sentence {i % 90} / again" for i in range(300)]
    keys = CONFIG.model_copy(update={"use_sentence_keys": True})
    long = keys.model_copy(update={"part_seconds": 1e9})
    one = dump(tiny_embedder, lines, tmp_path / "one.hdf5", long)
    many = dump(tiny_embedder, lines, tmp_path / "many.hdf5", keys)
    assert one.repeated == many.repeated == 210
    same(tmp_path / "one.hdf5", tmp_path / "many.hdf5")


def test_a_run_whose_first_part_never_came_leaves_nothing(tiny_embedder: Embedder, tmp_path: Path):
    with pytest.raises(KeyboardInterrupt):
        dump(tiny_embedder, stopping(FEW, 3, KeyboardInterrupt()), tmp_path / "a.hdf5", CONFIG)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a.hdf5", "a.npz", "a.jsonl"])
def test_a_second_run_is_told_who_writes_and_the_first_is_unharmed(
    tiny_embedder: Embedder, whole: Path, tmp_path: Path, name: str
):
    target, told = tmp_path / name, []
    config = CONFIG.model_copy(update={"format": format_of(target)})
    seconds = [config] if name != "a.hdf5" else [config, RESUME]

    def with_a_second_run() -> Iterator[str]:
        for number, line in enumerate(FEW):
            if number in (3, 150, 299):
                for other in seconds:
                    with pytest.raises(BusyError) as caught:
                        dump(tiny_embedder, FEW, target, other)
                    told.append(str(caught.value))
            yield line

    report = dump(tiny_embedder, with_a_second_run(), target, config)
    assert report.lines == 300
    assert len(told) == 3 * len(seconds)
    for line in told:
        assert f"process {os.getpid()} on {socket.gethostname()} (since " in line
        assert "remove" not in line
    assert [path.name for path in tmp_path.iterdir()] == [name]
    if name == "a.hdf5":
        same(target, whole)


# Signals ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_with_everything_kept(
    tiny_embedder: Embedder, whole: Path, tmp_path: Path, number: signal.Signals
):
    def signalled() -> Iterator[str]:
        for i, line in enumerate(FEW):
            if i == 150:
                os.kill(os.getpid(), number)
            yield line

    target = tmp_path / "a.hdf5"
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt) as caught:
        dump(tiny_embedder, signalled(), target, CONFIG.model_copy(update={"part_seconds": 1e9}))
    assert caught.value.args == (number,)
    assert signal.getsignal(number) is before
    report = dump(tiny_embedder, FEW, target, RESUME)
    assert 100 < report.lines_before <= 150
    same(target, whole)


def test_a_signal_while_a_window_is_written_waits_for_its_end(
    tiny_embedder: Embedder, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    add, target = parts.Hdf5Writer.add, tmp_path / "a.hdf5"

    def add_and_signal(self: parts.Hdf5Writer, item: Item) -> bool:
        if item.index == 101:
            os.kill(os.getpid(), signal.SIGINT)
        return add(self, item)

    monkeypatch.setattr(parts.Hdf5Writer, "add", add_and_signal)
    with pytest.raises(KeyboardInterrupt):
        dump(tiny_embedder, FEW, target, CONFIG.model_copy(update={"part_seconds": 1e9}))
    monkeypatch.undo()
    assert dump(tiny_embedder, FEW, target, RESUME).lines_before > 102
    same(target, whole)


@contextmanager
def small_disk(n_bytes: int) -> Iterator[None]:
    """No file may grow past `n_bytes`: like a full disk, the write fails in the middle."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("n_bytes", [3_000, 60_000, 200_000])
def test_a_full_disk_is_told_and_leaves_nothing_that_looks_whole(
    tiny_embedder: Embedder, tmp_path: Path, n_bytes: int
):
    one_part = DumpConfig()
    others = {"a.npz": DumpConfig(format="npz"), "a.jsonl": DumpConfig(format="jsonl")}
    for name, config in {"a.hdf5": one_part, **others}.items():
        with small_disk(n_bytes), pytest.raises(InputError, match=r"cannot be written \(File too"):
            dump(tiny_embedder, FEW, tmp_path / name, config)
    assert list(tmp_path.iterdir()) == []


def test_a_disk_too_full_for_the_merge_keeps_the_parts(
    tiny_embedder: Embedder, whole: Path, tmp_path: Path
):
    target = tmp_path / "a.hdf5"
    with small_disk(100_000), pytest.raises(InputError, match="cannot be written") as caught:
        dump(tiny_embedder, FEW, target, CONFIG)
    assert "300 lines are kept" in caught.value.__notes__[0]
    assert not target.exists()
    dump(tiny_embedder, FEW, target, RESUME)
    same(target, whole)


@pytest.mark.skipif(isinstance(find_kernel(), NoKernel), reason="no kernel was built here")
def test_a_resumed_run_keeps_its_precision(
    tiny_model: Path, tiny_embedder: Embedder, tmp_path: Path
):
    stop(tiny_embedder, tmp_path / "x.hdf5", after=250)
    rough = Embedder.load(tiny_model, device="cpu", precision="int8")
    with pytest.raises(InputError, match="precision was 'float32' and is now 'int8'"):
        dump(rough, FEW, tmp_path / "x.hdf5", RESUME)
