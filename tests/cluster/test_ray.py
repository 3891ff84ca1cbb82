"""On Ray itself, which takes from 20 seconds to minutes to start: all of these are slow."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from time import sleep
from typing import Any, Self

import pytest

from elmore.cli.main import main
from elmore.cluster.address import Place
from elmore.cluster.pooled_embedder import PooledEmbedder
from elmore.cluster.ray_pool import Load, RayPool
from elmore.cluster.shard import EmbedShard, Layers, Shard
from elmore.dump.config import DumpConfig
from elmore.dump.dump import dump
from elmore.embedder import Embedder
from elmore.tasks.compare.trials import read_outcome
from tests.cluster.test_shard import assert_same_files
from tests.tasks.tiny_data import write_columns

pytest.importorskip("ray", reason="ray is not installed: pip install 'elmore[cluster]'")
pytestmark = pytest.mark.slow

LINES = [f"line {i} of {i % 7 * 'many '} words" for i in range(600)]
CONFIG = DumpConfig(format="npz", batch_words=32)


class Interrupted(RayPool[Shard, Layers]):
    """One worker stands still from the start, so that it surely has shards when it is killed."""

    def __init__(self, embedder: Embedder, place: Place, node: Any = None):
        load = Load(work_bytes=0, result_bytes=0)
        super().__init__(EmbedShard(embedder), place, load)
        self.node, self.started, self.lost, self.killed = node, 0, 0, False

    def __enter__(self) -> Self:
        super().__enter__()
        while not all(hand.ready for hand in self._hands):
            self.finished()
        for hand in self._hands:
            self.pid, place = self._ray.get(hand.actor.__ray_call__.remote(where))
            if self.node is None or place == self.node.node_id:
                self.victim = hand
                break
        else:
            raise AssertionError("no worker on the second node")
        os.kill(self.pid, signal.SIGSTOP)
        return self

    def start(self, shard: Shard) -> None:
        super().start(shard)
        self.started += 1
        if self.started > 3 and self.victim.jobs and not self.killed:
            self.killed = True
            self.kill()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def finished(self) -> list[tuple[Shard, Layers | None]]:
        found = super().finished()
        self.lost += sum(layers is None for _, layers in found)
        return found


def where(_: object) -> tuple[int, str]:
    import ray

    return os.getpid(), ray.get_runtime_context().get_node_id()


@pytest.fixture
def expected(tiny_embedder: Embedder, tmp_path: Path) -> bytes:
    dump(tiny_embedder, LINES, tmp_path / "one.npz", CONFIG)
    return (tmp_path / "one.npz").read_bytes()


def test_the_command_writes_the_same_bytes(tiny_model: Path, tmp_path: Path):
    text, one, many = (tmp_path / name for name in ("in.txt", "one.npz", "many.npz"))
    text.write_text("".join(line + "\n" for line in LINES))
    options = ["--model", str(tiny_model), "--batch-words", "32", "--device", "cpu", "--quiet"]
    assert main(["embed", str(text), str(one), *options]) == 0
    on = ["--on", "ray", "--workers", "2"]
    assert main(["embed", str(text), str(many), *options, *on]) == 0
    assert one.read_bytes() == many.read_bytes()


def test_an_index_has_the_same_bytes(tiny_model: Path, tmp_path: Path):
    text, one, many = (tmp_path / name for name in ("in.txt", "one", "many"))
    text.write_text("".join(line + "\n" for line in LINES))
    options = ["--model", str(tiny_model), "--device", "cpu", "--quiet"]
    assert main(["index", str(text), "--output", str(one), *options]) == 0
    on = ["--on", "ray", "--workers", "2"]
    assert main(["index", str(text), "--output", str(many), *options, *on]) == 0
    assert_same_files(one, many)


def comparison(data: Path, output: Path) -> list[str]:
    files = [f"--{name}={data / name}.txt" for name in ("train", "dev", "test")]
    settings = ["--epochs=40", "--set", "task.hidden=4", "--set", "patience=99", "--seeds=2"]
    encoders = f"--encoders=none,glove:{data / 'glove.txt'}"
    return ["compare", "ner", encoders, *files, f"--output={output}", *settings, "--quiet"]


def on_ray(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """In a process group of its own, as a terminal starts it."""
    given = [sys.executable, "-m", "elmore", *command, "--on", "ray", "--workers", "2"]
    with log.open("wb") as file:
        return subprocess.Popen(given, stdout=file, stderr=file, start_new_session=True)


def first_of(process: subprocess.Popen[bytes], found: Callable[[], list[Path]], log: Path) -> Path:
    """Wait for a file of the process."""
    while not (files := found()):
        assert process.poll() is None, log.read_text()
        sleep(0.005)
    return files[0]


def test_a_comparison_survives_a_killed_worker_and_stops_at_ctrl_c(tmp_path: Path):
    write_columns(tmp_path)
    here, there, log = tmp_path / "here", tmp_path / "there", tmp_path / "log"
    assert main(comparison(tmp_path, here)) == 0
    stopped = on_ray(comparison(tmp_path, there), log)
    # A worker that has begun to train; its lock says which.
    begun = first_of(stopped, lambda: list(there.glob("work/*/run/config.json")), log)
    os.kill(json.loads((begun.parents[1] / "lock").read_bytes())["pid"], signal.SIGKILL)
    first_of(stopped, lambda: list(there.glob("results/*.json")), log)
    os.killpg(stopped.pid, signal.SIGINT)
    assert stopped.wait(900) == 130, log.read_text()
    assert "Run it again to continue." in log.read_text()
    before = {path: path.stat().st_mtime_ns for path in there.glob("results/*.json")}
    ended = on_ray(comparison(tmp_path, there), log)
    assert ended.wait(900) == 0, log.read_text()
    assert all(path.stat().st_mtime_ns == then for path, then in before.items())
    assert len(scores(here)) == 4
    assert scores(there) == scores(here)


def scores(output: Path) -> dict[str, Any]:
    found = {path.name: read_outcome(path) for path in (output / "results").glob("*.json")}
    return {name: outcome.scores for name, outcome in found.items() if outcome.kind == "done"}


def test_a_killed_worker_costs_its_shards(tiny_embedder: Embedder, tmp_path: Path, expected: bytes):
    with Interrupted(tiny_embedder, Place(workers=2)) as pool:
        dump(PooledEmbedder(tiny_embedder, pool), LINES, tmp_path / "many.npz", CONFIG)
    assert 1 <= pool.lost <= 2
    assert (tmp_path / "many.npz").read_bytes() == expected


@pytest.fixture
def cluster() -> Iterator[Any]:
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 100_000_000, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    yield cluster
    cluster.shutdown()


def test_a_killed_node_costs_its_shards(
    tiny_embedder: Embedder, tmp_path: Path, expected: bytes, cluster: Any
):
    node = cluster.add_node(num_cpus=1, object_store_memory=100_000_000)
    place = Place(address=cluster.address, workers=2)

    class NodeKilled(Interrupted):
        def kill(self) -> None:
            cluster.remove_node(node, allow_graceful=False)

    with NodeKilled(tiny_embedder, place, node) as pool:
        dump(PooledEmbedder(tiny_embedder, pool), LINES, tmp_path / "many.npz", CONFIG)
    assert pool.lost >= 1
    assert (tmp_path / "many.npz").read_bytes() == expected
