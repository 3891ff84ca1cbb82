"""A task folder with one thing damaged, a few hundred times: it can be used, or is refused in
one line, in little time. Seeded, so that a failure can be repeated by its number.
"""

import json
import random
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from elmore.errors import ElmoreError, FormatError
from elmore.tasks.fit import fit
from elmore.tasks.model import TaskModel
from tests.tasks.tiny_tasks import tagged, tagging_config

VALUES: list[Any] = [
    0, -1, 10**6, 10**9, 2**70, 1e308, "", "x", "\u0000", None, True, [], {}, [[]], {"a": 1},
    "/dev/zero", ["O"] * 9000, "epoch-999", ["", "B-"], [[1, 1]] * 500,
]  # fmt: skip
SMALL = ["config.json", "best", "progress.json"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    fit(tagging_config(epochs=1), tagged(16, 1), tagged(8, 2), folder, device="cpu")
    return folder


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    match value:
        case dict():
            inner: Any = value.items()
        case list():
            inner = enumerate(value)
        case _:
            inner = ()
    return [at, *(place for key, found in inner for place in places(found, (*at, key)))]


def changed(value: Any, at: tuple[Any, ...], new: Any) -> Any:
    if not at:
        return new
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[at[0]] = changed(value[at[0]], at[1:], new)
    return copy


def unchecked(path: Path) -> Any:
    """As an older version wrote it, or somebody who leaves the checksum out."""
    value = json.loads(path.read_text())
    assert len(value.pop("checksum")) == 64
    return value


def mutate(folder: Path, rng: random.Random) -> str:
    """Damage one file, and say how."""
    (epoch,) = (folder / "checkpoints").iterdir()
    files = [folder / "config.json", folder / "best", epoch / "progress.json"]
    files.append(epoch / "model.safetensors")
    path, how = rng.choice(files), rng.choice(["value", "value", "byte", "cut", "device", "gone"])
    if rng.random() < 0.5:  # as an older version wrote it, without checksums
        files[0].write_text(json.dumps(unchecked(files[0])))
        files[2].write_text(json.dumps({**unchecked(files[2]), "sha256": {}}))
    content = path.read_bytes()
    if how == "value" and path.suffix == ".json":
        value = json.loads(content)
        at, new = rng.choice(places(value)), rng.choice(VALUES)
        path.write_text(json.dumps(changed(value, at, new)))
        return f"{path.name} {at} = {str(new)[:40]}"
    match how:
        case "value" | "byte":
            where = rng.randrange(min(len(content), 2000))
            path.write_bytes(content[:where] + rng.randbytes(1) + content[where + 1 :])
        case "cut":
            path.write_bytes(content[: rng.randrange(len(content))])
        case _:
            path.unlink()
            if how == "device":
                path.symlink_to("/dev/zero")
    return f"{path.name} {how}"


def examine(whole: Path, folder: Path, seeds: range) -> None:
    examples = tagged(6, 3)
    TaskModel.load(whole, device="cpu").predict(examples)
    refused, lines = 0, [0]
    for seed in seeds:
        mutant = folder / str(seed)
        shutil.copytree(whole, mutant)
        what = mutate(mutant, random.Random(seed))
        started = time.process_time()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                TaskModel.load(mutant, device="cpu").predict(examples)
        except ElmoreError as error:
            refused += 1
            lines.append(str(error).count("\n"))
        except Exception as error:
            raise AssertionError(f"mutant {seed}, {what}: {error!r}") from error
        assert time.process_time() - started < 2, (seed, what)
        shutil.rmtree(mutant)
    assert refused > len(seeds) / 3
    assert max(lines) == 0


def test_damaged_folders_are_refused_in_one_line(whole: Path, tmp_path: Path):
    examine(whole, tmp_path, range(40))


@pytest.mark.slow
def test_more_damaged_folders(whole: Path, tmp_path: Path):
    examine(whole, tmp_path, range(40, 340))


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ("fit.task.n_layers", 10**6),
        ("fit.task.hidden", 10**6),
        ("fit.task.hidden", 60_000),
        ("fit.encoder.own.word_dim", 60_000),
        ("fit.encoder.own.filters", [[2, 50_000]]),
        ("state.labels", ["O", ""]),
        ("state.labels", [f"B-{i}" for i in range(4_900)]),
    ],
)
def test_a_config_that_asks_for_too_much_is_refused_before_it_is_built(
    place: str, value: Any, whole: Path, tmp_path: Path
):
    shutil.copytree(whole, tmp_path / "run")
    path = tmp_path / "run" / "config.json"
    path.write_text(json.dumps(changed(unchecked(path), tuple(place.split(".")), value)))
    started = time.process_time()
    with pytest.raises(ElmoreError, match=r"config|model\.safetensors"):
        TaskModel.load(tmp_path / "run", device="cpu")
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("config.json", '"B-PER"', '"B-ORG"'),
        ("config.json", '"batch": 8', '"batch": 9'),
        ("checkpoints/epoch-001/progress.json", '"rate": 1.0', '"rate": 0.5'),
    ],
)
def test_a_change_of_valid_form_is_noticed(
    name: str, before: str, after: str, whole: Path, tmp_path: Path
):
    """With a checksum; a folder of an older version has none, and is read."""
    shutil.copytree(whole, tmp_path / "run")
    path = tmp_path / "run" / name
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after, 1))
    with pytest.raises(FormatError, match=rf"{path.name}: damaged, its checksum does not match; "):
        TaskModel.load(tmp_path / "run", device="cpu")
    path.write_text(json.dumps(unchecked(path)))
    TaskModel.load(tmp_path / "run", device="cpu")
