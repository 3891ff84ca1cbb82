"""A server on loopback for a while: healthy clients beside clients that never read their answers,
never finish their requests, or only hold a connection open. The healthy ones must be answered, and
the server's memory must stay where it was.

    python -m tests.serve.soak --clients 64 --seconds 60
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import quantiles

MAX_CLIENTS, MAX_SECONDS = 256, 600  # this is a test, not a weapon
ALLOWED = {200, 429}
MAX_GROWTH = 100e6  # bytes
SAMPLE_SECONDS = 0.25
HOLD_SECONDS = 25  # longer than an idle connection may be open
WORDS = "the bank of the river was steep and the boat was tied to an old tree .".split()
HUGE = [(WORDS * 300)[:4096]]  # the most words of a request


@dataclass(slots=True)
class Report:
    """What the clients saw, and the server's memory in bytes."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    """Of healthy clients' requests."""
    refusals: Counter[str] = field(default_factory=Counter)
    """What they were told instead of an answer."""
    hostile: Counter[str] = field(default_factory=Counter)
    """How often each kind of hostile client began."""
    before: int = 0
    after: int = 0
    peak: int = 0

    def problems(self) -> list[str]:
        found = [f"{n} answers {s}" for s, n in self.statuses.items() if s not in ALLOWED]
        if not self.statuses[200]:
            found.append("no healthy client was answered")
        for name, level in (("peak", self.peak), ("after", self.after)):
            if level - self.before > MAX_GROWTH:
                found.append(f"{name}: {(level - self.before) / 1e6:.0f} MB more than before")
        return found

    def __str__(self) -> str:
        cuts = quantiles(self.seconds, n=100) if len(self.seconds) > 1 else [0.0] * 99
        times = ", ".join(f"p{n} {1000 * cuts[n - 1]:.0f} ms" for n in (50, 90, 99))
        levels = (self.before, self.after, self.peak)
        memory = "before {:.0f} MB, after {:.0f} MB, peak {:.0f} MB".format(
            *(level / 1e6 for level in levels)
        )
        return (
            f"statuses of healthy clients: {dict(sorted(self.statuses.items()))}\n"
            f"refusals: {dict(self.refusals)}\n"
            f"their latencies: {times}, longest {1000 * max(self.seconds, default=0):.0f} ms\n"
            f"hostile connections: {dict(sorted(self.hostile.items()))}\nRSS: {memory}"
        )


@contextlib.contextmanager
def serving(model: str) -> Iterator[tuple[int, int]]:
    """`elmore serve` in a process of its own: its port and process number."""
    command = [sys.executable, "-m", "elmore", "serve", "--model", model, "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        welcome = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", welcome)
        assert found, welcome + process.stderr.read()
        yield int(found[1]), process.pid
        assert process.poll() is None, "the server died"
    finally:
        process.terminate()
        _, errors = process.communicate(timeout=60)
        assert errors == "", errors


def rss(pid: int) -> int:
    found = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return 1024 * int(found[1])


def request(sentences: list[list[str]]) -> bytes:
    body = json.dumps({"sentences": sentences}).encode()
    head = (
        "POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The status of an answer, which is read to its end, and its body if it is short."""
    head, body = (await reader.readuntil(b"\r\n\r\n")).decode().lower(), b""
    if length := re.search(r"content-length: (\d+)", head):
        body = await reader.readexactly(int(length[1]))
    else:
        while size := int(await reader.readline(), 16):
            await reader.readexactly(size + 2)
        await reader.readline()
    return int(head.split()[1]), body


# Clients ----------------------------------------------------------------------------------------

Client = Callable[[int, Report], Awaitable[None]]


async def healthy(port: int, report: Report, words: list[list[str]] | None = None) -> None:
    """Asks again and again on one connection."""
    content = request(words or [WORDS])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    with contextlib.closing(writer):
        while True:
            began = time.perf_counter()
            writer.write(content)
            status, body = await answer(reader)
            report.statuses[status] += 1
            if status != 200:
                report.refusals[json.loads(body)["error"]["message"].partition(";")[0]] += 1
            report.seconds.append(time.perf_counter() - began)
            if words is not None:
                return
            await asyncio.sleep(0.02 if status == 200 else 0.5)


def hostile(name: str, content: bytes, then: bytes = b"", n: int = 1) -> Client:
    """On `n` connections, sends the content at once and the rest a byte per second, and reads
    nothing; begins again when the server has closed them, or after a while."""

    async def client(port: int, report: Report) -> None:
        while True:
            report.hostile[name] += n
            with contextlib.suppress(OSError):
                await hold(port)
            await asyncio.sleep(0.1)

    async def hold(port: int) -> None:
        with contextlib.ExitStack() as stack:
            writers = []
            for _ in range(n):
                _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
                writers.append(stack.enter_context(contextlib.closing(writer)))
                writer.write(content)
            for i in range(HOLD_SECONDS):
                for writer in writers:
                    writer.write(then[i : i + 1])
                await asyncio.sleep(1)
                if all(writer.is_closing() for writer in writers):
                    return

    return client


CLIENTS: list[Client] = [
    healthy,
    hostile("never reads", request(HUGE)),
    healthy,
    hostile("idle", b"", n=50),
    healthy,
    hostile("slow head", b"POST /embed HTTP/1.1\r\n", b"X: " + b"x" * HOLD_SECONDS),
    healthy,
    hostile("slow body", request(HUGE)[:-1000], b"[" * HOLD_SECONDS),
]


async def load(port: int, pid: int, n_clients: int, seconds: float) -> Report:
    report = Report()
    for _ in range(2):  # the largest request belongs to the level before
        await healthy(port, Report(), HUGE)
    await until(asyncio.gather(*(healthy(port, Report()) for _ in range(n_clients))), 3)
    report.before = report.peak = rss(pid)
    kinds = (CLIENTS[i % len(CLIENTS)] for i in range(n_clients))
    tasks = asyncio.gather(*(kind(port, report) for kind in kinds), watch(pid, report))
    await until(tasks, seconds)
    await asyncio.sleep(1)
    report.after = rss(pid)
    return report


async def until(work: "asyncio.Future[list[None]]", seconds: float) -> None:
    """Raises what a client has raised."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(work, seconds)


async def watch(pid: int, report: Report) -> None:
    while True:
        report.peak = max(report.peak, rss(pid))
        await asyncio.sleep(SAMPLE_SECONDS)


def soak(model: str, n_clients: int, seconds: float) -> Report:
    with serving(model) as (port, pid):
        return asyncio.run(load(port, pid, min(n_clients, MAX_CLIENTS), min(seconds, MAX_SECONDS)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="small-en")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    report = soak(options.model, options.clients, options.seconds)
    about = f"{os.cpu_count()} cores, {options.model}, {options.clients} clients"
    sys.stdout.write(f"{about}, {options.seconds:g} s\n{report}\n")
    if problems := report.problems():
        raise SystemExit("; ".join(problems))


if __name__ == "__main__":
    main()
