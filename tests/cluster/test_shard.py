"""Shards without Ray: a pool in this process, which may end in any order and lose what it likes."""

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.cli.main import main
from elmore.cluster import address
from elmore.cluster.address import Place, place_of
from elmore.cluster.pooled_embedder import PooledEmbedder
from elmore.cluster.shard import MOST_TRIES, Layers, Shard, embed_shard, in_order
from elmore.dump.config import DumpConfig
from elmore.dump.dump import dump
from elmore.embedder import Embedder
from elmore.errors import ConfigError, InputError
from elmore.store.store import Store

LINES = [f"line {i} of {i % 7 * 'many '} words" if i % 11 else "" for i in range(300)]
WORDS = 32  # per batch: the text is a dozen shards


class LocalPool:
    """Three at a time, the last first; every `lose`-th is lost."""

    room_of_all, ahead = 3, 5

    def __init__(self, embedder: Embedder | None, lose: int = 0):
        self.embedder, self.lose = embedder, lose
        self.running: list[Shard] = []
        self.started: list[int] = []

    @property
    def room(self) -> int:
        return self.room_of_all - len(self.running)

    def start(self, shard: Shard) -> None:
        assert self.room > 0
        self.running.append(shard)
        self.started.append(shard.number)

    def finished(self) -> list[tuple[Shard, Layers | None]]:
        shard = self.running.pop()
        if self.lose and len(self.started) % self.lose == 0:
            return [(shard, None)]
        return [(shard, [] if self.embedder is None else embed_shard(self.embedder, shard))]


def shards(n: int) -> Iterator[Shard]:
    return (Shard(number, [["a"]], WORDS) for number in range(n))


@pytest.mark.parametrize("lose", [0, 2])
@pytest.mark.parametrize("ending", ["hdf5", "npz", "jsonl"])
def test_the_bytes_are_those_of_one_process(
    ending: str, lose: int, tiny_embedder: Embedder, tmp_path: Path
):
    config = DumpConfig(format=ending, batch_words=WORDS)
    one, many = tmp_path / f"one.{ending}", tmp_path / f"many.{ending}"
    pool = LocalPool(tiny_embedder, lose)
    seen: list[int] = []
    dump(tiny_embedder, LINES, one, config)
    dump(
        PooledEmbedder(tiny_embedder, pool),
        LINES,
        many,
        config,
        progress=lambda now: seen.append(now.lines),
    )
    assert len(set(pool.started)) > 10
    assert (len(pool.started) > len(set(pool.started))) == bool(lose)
    assert one.read_bytes() == many.read_bytes()
    assert seen == sorted(set(seen))  # what is finished, not what has been read
    assert seen[-1] == len(LINES)


def test_a_stopped_run_is_resumed_after_its_finished_shards(
    tiny_embedder: Embedder, tmp_path: Path
):
    def stopping() -> Iterator[str]:
        yield from LINES[:200]
        raise KeyboardInterrupt

    one, many = tmp_path / "one.hdf5", tmp_path / "many.hdf5"
    config = DumpConfig(batch_words=WORDS, resume=True)
    dump(tiny_embedder, LINES, one, config)
    with pytest.raises(KeyboardInterrupt):
        dump(PooledEmbedder(tiny_embedder, LocalPool(tiny_embedder)), stopping(), many, config)
    pool = LocalPool(tiny_embedder)
    report = dump(PooledEmbedder(tiny_embedder, pool), LINES, many, config)
    assert 0 < report.lines_before < 200
    assert report.lines == len(LINES)
    with h5py.File(one) as a, h5py.File(many) as b:
        assert set(a) == set(b)
        for key in set(a) - {"sentence_to_index"}:
            np.testing.assert_array_equal(a[key], b[key])


def test_a_store_is_filled_with_the_same_bytes(tiny_embedder: Embedder, tmp_path: Path):
    text = [f"{i} {i % 7 * 'many '}words".split() for i in range(9000)] * 2
    pool = LocalPool(tiny_embedder, lose=3)
    one = Store.create(tmp_path / "one", tiny_embedder)
    many = Store.create(tmp_path / "many", PooledEmbedder(tiny_embedder, pool))
    assert one.fill(text).added == many.fill(text).added == 9000
    assert len(pool.started) > len(set(pool.started)) > 1
    files = {path.relative_to(one.path) for path in one.path.rglob("*") if path.is_file()}
    assert len(files) > 2
    for file in files - {Path("lock")}:  # which tells who wrote last, and when
        assert (one.path / file).read_bytes() == (many.path / file).read_bytes(), file


def test_what_stands_before_a_bad_line_is_given_first():
    def bad() -> Iterator[Shard]:
        yield from shards(4)
        raise InputError("line 5")

    found = in_order(bad(), LocalPool(None))
    assert [next(found) for _ in range(4)] == [[]] * 4
    with pytest.raises(InputError, match="line 5"):
        next(found)


def test_a_shard_that_kills_its_workers_ends_the_run():
    pool = LocalPool(None, lose=1)
    pool.room_of_all = 1
    with pytest.raises(InputError, match=r"Shard 0 \(1 sentences\) was lost with 5 workers"):
        list(in_order(shards(3), pool))
    assert pool.started == [0] * MOST_TRIES


def test_no_more_is_begun_than_memory_holds():
    pool = LocalPool(None)
    for taken, _ in enumerate(in_order(shards(40), pool)):
        assert max(pool.started) < taken + pool.ahead
    assert sorted(pool.started) == list(range(40))


def test_stateful_runs_have_no_shards(tiny_embedder: Embedder):
    with pytest.raises(ConfigError, match="one after another"):
        PooledEmbedder(tiny_embedder, LocalPool(None)).stateful()


@pytest.mark.parametrize(
    ("on", "workers", "said"),
    [
        (None, 2, "--workers is for --on"),
        ("dask", None, "--on is 'dask'; expected ray"),
        ("ray://", None, "expected ray"),
        ("ray", 0, "--workers is 0; expected 1 or more"),
    ],
)
def test_bad_places_are_refused(on: str | None, workers: int | None, said: str):
    with pytest.raises(ConfigError, match=said):
        place_of(on, workers)


def test_a_place_is_an_address_and_a_number(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(address, "find_spec", lambda _: object())
    assert place_of(None, None) is None
    assert place_of("ray", 3) == Place(workers=3)
    assert place_of("ray://10.0.0.1:6379", None) == Place(address="10.0.0.1:6379")


def test_without_ray_one_line_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(address, "find_spec", lambda _: None)
    (tmp_path / "in.txt").write_text("a b\n")
    command = ["embed", str(tmp_path / "in.txt"), str(tmp_path / "a.npz"), "--on", "ray"]
    assert main(command) == 2
    assert capsys.readouterr().err == (
        "elmore: --on ray needs Ray: pip install 'elmore[cluster]'.\n"
    )
