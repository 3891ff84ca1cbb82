"""A server under load: many clients on loopback at once, with requests sharing batches and one by
one. Counts the answers, times them, and watches the server's memory. Writes results/serve.json and
serve.md.

    python benchmarks/serve.py --text FILE --seconds 60              # the original's size, random
    python benchmarks/serve.py --text FILE --seconds 60 --model small-en --write-docs
"""

import argparse
import asyncio
import contextlib
import itertools
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Any

HERE = Path(__file__).resolve().parent
DOCS = HERE.parent / "docs" / "serve.md"
BEGIN, END = "<!-- figures -->", "<!-- end of figures -->"
# Name of a row: options of its server.
MODES = {
    "one by one": ["--batch-words", "1"],
    "shared batches": [],
    "shared batches, short queue": ["--queue-words", "512"],
}
ALLOWED = {200, 429}
RETRY_SECONDS = 0.05  # a client that was turned away comes back sooner than it was told to
SAMPLE_SECONDS = 1.0


@dataclass(slots=True)
class Tally:
    """What the clients of one row saw."""

    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    words: int = 0
    memory: list[int] = field(default_factory=list)
    """Bytes the server takes, sampled."""


@dataclass(frozen=True, slots=True)
class Request:
    """Bytes to send, and how many words they ask about."""

    content: bytes
    n_words: int


def main() -> None:
    options = parse()
    requests = read_requests(options.text, options.sentences)
    with tempfile.TemporaryDirectory() as folder:
        model = options.model or write_model(Path(folder) / "original-size")
        rows = {
            name: measure(str(model), given, requests, options) for name, given in MODES.items()
        }
    result = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "python": platform.python_version(),
        "model": Path(options.model).name if options.model else "original size, random weights",
        "clients": options.clients,
        "seconds": options.seconds,
        "words_a_request": sum(request.n_words for request in requests) / len(requests),
        "rows": rows,
    }
    options.output.mkdir(parents=True, exist_ok=True)
    (options.output / "serve.json").write_text(json.dumps(result, indent=2) + "\n")
    page = table(result)
    (options.output / "serve.md").write_text(f"# A server under load\n\n{page}", encoding="utf-8")
    if options.write_docs:
        write_docs(page)
    print(page)
    check(rows)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=Path, required=True, help="one sentence a line")
    parser.add_argument("--sentences", type=int, default=1000, help="asked about, over and over")
    parser.add_argument("--model", help="any source; none: the original's size, random weights")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60.0, help="for each row of the table")
    parser.add_argument("--output", type=Path, default=HERE / "results")
    parser.add_argument("--write-docs", action="store_true")
    return parser.parse_args()


def write_model(folder: Path) -> Path:
    from elmore.checkpoint.bilm import bilm_checkpoint
    from elmore.checkpoint.sources import save
    from elmore.models.bilm import BiLM, BiLMConfig

    save(bilm_checkpoint(BiLM(BiLMConfig())), folder)
    return folder


def read_requests(text: Path, n: int) -> list[Request]:
    """One sentence each, to the route with the smallest answers: the model is what is measured."""
    from elmore.files.text_file import read_lines
    from elmore.text.tokenize import words

    sentences = filter(None, (words(line) for line in read_lines(str(text))))
    return [request(sentence) for sentence in itertools.islice(sentences, n)]


def request(words: list[str]) -> Request:
    body = json.dumps({"input": [words], "encoding_format": "base64"}).encode()
    head = (
        "POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    return Request(head.encode() + body, len(words))


# One row ----------------------------------------------------------------------------------------


def measure(
    model: str, given: list[str], requests: list[Request], options: argparse.Namespace
) -> dict[str, Any]:
    with server(model, given) as (port, process):
        asyncio.run(load(port, process, iter(requests), options.clients))  # words get known
        began, cpu = time.perf_counter(), processor_seconds(process)
        deadline = began + options.seconds
        endless = itertools.cycle(requests)
        tally = asyncio.run(load(port, process, endless, options.clients, deadline))
        seconds, cpu = time.perf_counter() - began, processor_seconds(process) - cpu
        alive = process.poll() is None
    cuts = quantiles(tally.seconds, n=100)
    return {
        "requests_per_second": tally.statuses[200] / seconds,
        "words_per_second": tally.words / seconds,
        "processor_ms": 1000 * cpu / tally.statuses[200],
        "p50_ms": 1000 * median(tally.seconds),
        "p99_ms": 1000 * cuts[98],
        "statuses": {str(status): n for status, n in sorted(tally.statuses.items())},
        "memory_first": tally.memory[0],
        "memory_last": tally.memory[-1],
        "memory_most": max(tally.memory),
        "alive": alive,
    }


@contextlib.contextmanager
def server(model: str, given: list[str]) -> Iterator[tuple[int, "subprocess.Popen[str]"]]:
    """`elmore serve` in a process of its own; its port."""
    command = [sys.executable, "-m", "elmore", "serve", "--model", model, "--port", "0", *given]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        welcome = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)", welcome)
        if found is None:
            raise SystemExit(f"The server did not start: {welcome}{process.stderr.read()}")
        yield int(found[1]), process
    finally:
        process.terminate()
        process.communicate()


async def load(
    port: int,
    process: "subprocess.Popen[str]",
    requests: Iterator[Request],
    n_clients: int,
    deadline: float = float("inf"),
) -> Tally:
    """Clients that ask again as soon as they are answered."""
    tally = Tally()
    watcher = asyncio.create_task(watch(process, tally))
    await asyncio.gather(*(client(port, requests, deadline, tally) for _ in range(n_clients)))
    watcher.cancel()
    tally.memory.append(memory(process))
    return tally


async def client(port: int, requests: Iterator[Request], deadline: float, tally: Tally) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    for asked in requests:
        began = time.perf_counter()
        if began > deadline:
            break
        writer.write(asked.content)
        status = await answer(reader)
        tally.statuses[status] += 1
        if status == 200:
            tally.seconds.append(time.perf_counter() - began)
            tally.words += asked.n_words
        else:
            await asyncio.sleep(RETRY_SECONDS)
    writer.close()


async def answer(reader: asyncio.StreamReader) -> int:
    """The status of an answer, which is read to its end."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    length = re.search(r"content-length: (\d+)", head)
    assert length is not None, head
    await reader.readexactly(int(length[1]))
    return int(head.split()[1])


async def watch(process: "subprocess.Popen[str]", tally: Tally) -> None:
    while True:
        tally.memory.append(memory(process))
        await asyncio.sleep(SAMPLE_SECONDS)


def memory(process: "subprocess.Popen[str]") -> int:
    """Bytes in use."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", status)
    assert found is not None
    return 1024 * int(found[1])


def processor_seconds(process: "subprocess.Popen[str]") -> float:
    """Of all the server's threads."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# The page ---------------------------------------------------------------------------------------


def table(result: dict[str, Any]) -> str:
    rows = result["rows"]
    slowest = rows["one by one"]["requests_per_second"]
    about = (
        f"{result['machine']}, Python {result['python']}. {result['model']}; "
        f"{result['clients']} clients, {result['seconds']:g} s per row, "
        f"{result['words_a_request']:.1f} words per request."
    )
    names = "requests/s | × | words/s | p50 | p99 | CPU time per request | responses | memory"
    lines = [about, "", f"| | {names}, start → end (peak) |", f"|---|{'---:|' * 6}---|---|"]
    for name, row in rows.items():
        answers = ", ".join(f"{status}: {n:,}" for status, n in row["statuses"].items())
        first, last, most = (
            f"{row[key] / 1e6:,.0f}" for key in ("memory_first", "memory_last", "memory_most")
        )
        lines.append(
            f"| {name} | {row['requests_per_second']:,.1f} "
            f"| {row['requests_per_second'] / slowest:.1f} | {row['words_per_second']:,.0f} "
            f"| {row['p50_ms']:,.0f} ms | {row['p99_ms']:,.0f} ms "
            f"| {row['processor_ms']:.1f} ms | {answers} "
            f"| {first} → {last} ({most}) MB |"
        )
    return "\n".join(lines) + "\n"


def write_docs(page: str) -> None:
    before, rest = DOCS.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    DOCS.write_text(f"{before}{BEGIN}\n{page}{END}{after}", encoding="utf-8")


def check(rows: dict[str, dict[str, Any]]) -> None:
    """Anything but an answer or a full queue is a failure of the run."""
    for name, row in rows.items():
        others = {int(status) for status in row["statuses"]} - ALLOWED
        if others or not row["alive"]:
            raise SystemExit(f"{name}: answers {sorted(others)}, alive: {row['alive']}.")


if __name__ == "__main__":
    main()
