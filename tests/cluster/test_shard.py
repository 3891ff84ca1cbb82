"""Shards without Ray: a pool in this process, where jobs end in any order and some are lost."""

from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmore.cli.main import main
from elmore.cluster import address
from elmore.cluster.address import Place, place_of
from elmore.cluster.pool import MOST_TRIES, as_finished, in_order
from elmore.cluster.pooled_embedder import PooledEmbedder
from elmore.cluster.shard import EmbedShard, Layers, Shard
from elmore.dump.config import DumpConfig
from elmore.dump.dump import dump
from elmore.embedder import Embedder
from elmore.errors import ConfigError, InputError
from elmore.search.index import Index
from elmore.store.store import Store
from tests.cluster.local_pool import LocalPool
from tests.search.corpora import corpus
from tests.tiny_bert import tiny_bert

LINES = [f"line {i} of {i % 7 * 'many '} words" if i % 11 else "" for i in range(300)]
WORDS = 32  # per batch: the text is a dozen shards


def shards(n: int) -> Iterator[Shard]:
    return (Shard(number, [["a"]], WORDS) for number in range(n))


def nothing(_: Shard) -> Layers:
    return []


def numbers(pool: LocalPool[Shard, Layers]) -> list[int]:
    return [shard.number for shard in pool.started]


def assert_same_files(one: Path, many: Path) -> None:
    """But for the lock, which tells who wrote last, and when."""
    files = {path.relative_to(one) for path in one.rglob("*") if path.is_file()}
    assert files == {path.relative_to(many) for path in many.rglob("*") if path.is_file()}
    assert len(files) > 2
    for file in files - {Path("lock")}:
        assert (one / file).read_bytes() == (many / file).read_bytes(), file


@pytest.mark.parametrize("lose", [0, 2])
@pytest.mark.parametrize("ending", ["hdf5", "npz", "jsonl"])
def test_the_bytes_are_those_of_one_process(
    ending: str, lose: int, tiny_embedder: Embedder, tmp_path: Path
):
    config = DumpConfig(format=ending, batch_words=WORDS)
    one, many = tmp_path / f"one.{ending}", tmp_path / f"many.{ending}"
    pool = LocalPool(EmbedShard(tiny_embedder), lose)
    seen: list[int] = []
    dump(tiny_embedder, LINES, one, config)
    dump(
        PooledEmbedder(tiny_embedder, pool),
        LINES,
        many,
        config,
        progress=lambda now: seen.append(now.lines),
    )
    assert len(set(numbers(pool))) > 10
    assert (len(pool.started) > len(set(numbers(pool)))) == bool(lose)
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
    config, first = DumpConfig(batch_words=WORDS, resume=True), LocalPool(EmbedShard(tiny_embedder))
    dump(tiny_embedder, LINES, one, config)
    with pytest.raises(KeyboardInterrupt):
        dump(PooledEmbedder(tiny_embedder, first), stopping(), many, config)
    pool = LocalPool(EmbedShard(tiny_embedder))
    report = dump(PooledEmbedder(tiny_embedder, pool), LINES, many, config)
    assert 0 < report.lines_before < 200
    assert report.lines == len(LINES)
    with h5py.File(one) as a, h5py.File(many) as b:
        assert set(a) == set(b)
        for key in set(a) - {"sentence_to_index"}:
            np.testing.assert_array_equal(a[key], b[key])


def test_a_store_is_filled_with_the_same_bytes(tiny_embedder: Embedder, tmp_path: Path):
    text = [f"{i} {i % 7 * 'many '}words".split() for i in range(9000)] * 2
    pool = LocalPool(EmbedShard(tiny_embedder), lose=3)
    one = Store.create(tmp_path / "one", tiny_embedder)
    many = Store.create(tmp_path / "many", PooledEmbedder(tiny_embedder, pool))
    assert one.fill(text).added == many.fill(text).added == 9000
    assert len(pool.started) > len(set(numbers(pool))) > 1
    assert_same_files(one.path, many.path)


def test_an_index_has_the_same_bytes(tiny_embedder: Embedder, tmp_path: Path):
    text = [[f"w{i % 40}", f"and{i}"] for i in range(5000)]
    pool = LocalPool(EmbedShard(tiny_embedder), lose=2)
    Index.build(text, tiny_embedder, tmp_path / "one", words=40, max_uses=500)
    Index.build(
        text, PooledEmbedder(tiny_embedder, pool), tmp_path / "many", words=40, max_uses=500
    )
    assert len(pool.started) > len(set(numbers(pool))) > 1
    assert_same_files(tmp_path / "one", tmp_path / "many")


def test_words_without_context_do_not_disturb_a_stream(tmp_path: Path):
    """An index of a model whose layer 0 knows the context asks for them in between."""
    embedder = Embedder(tiny_bert(max_positions=64), device="cpu")
    pool = LocalPool(EmbedShard(embedder))
    assert not embedder.context_free
    Index.build(corpus(40), embedder, tmp_path / "one")
    Index.build(corpus(40), PooledEmbedder(embedder, pool), tmp_path / "many")
    assert_same_files(tmp_path / "one", tmp_path / "many")


def test_what_stands_before_a_bad_line_is_given_first():
    def bad() -> Iterator[Shard]:
        yield from shards(4)
        raise InputError("line 5")

    found = in_order(bad(), LocalPool(nothing))
    assert [next(found) for _ in range(4)] == [[]] * 4
    with pytest.raises(InputError, match="line 5"):
        next(found)


def test_a_shard_that_kills_its_workers_ends_the_run():
    pool = LocalPool(nothing, lose=1)
    pool.room_of_all = 1
    with pytest.raises(InputError, match=r"Shard 0 \(1 sentences\) was lost with 5 workers"):
        list(in_order(shards(3), pool))
    assert numbers(pool) == [0] * MOST_TRIES


def test_no_more_is_begun_than_memory_holds():
    pool = LocalPool(nothing)
    for taken, _ in enumerate(in_order(shards(40), pool)):
        assert max(numbers(pool)) < taken + pool.ahead
    assert sorted(numbers(pool)) == list(range(40))


def test_what_is_left_of_a_stream_that_was_given_up_is_not_taken_for_the_next():
    pool = LocalPool(lambda shard: shard.sentences)
    first = in_order((Shard(i, [["old"]], WORDS) for i in range(9)), pool)
    next(first)
    next(first)
    first.close()
    assert pool.running
    pool.room_of_all += len(pool.running)
    assert list(in_order(shards(9), pool)) == [[["a"]]] * 9


def test_jobs_as_they_finish():
    pool = LocalPool(lambda shard: shard.number, lose=4)
    found = list(as_finished(shards(9), pool))
    assert all(result == shard.number for shard, result in found)
    assert [result for _, result in found] != sorted(range(9))
    assert sorted(result for _, result in found) == list(range(9))


def test_a_job_that_kills_its_workers_is_given_back_without_a_result():
    pool = LocalPool(nothing, lose=1)
    pool.room_of_all = 1
    assert [result for _, result in as_finished(shards(2), pool)] == [None, None]
    assert numbers(pool) == [0] * MOST_TRIES + [1] * MOST_TRIES


def test_stateful_runs_have_no_shards(tiny_embedder: Embedder):
    with pytest.raises(ConfigError, match="one after another"):
        PooledEmbedder(tiny_embedder, LocalPool(nothing)).stateful()


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
