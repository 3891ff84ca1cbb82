"""`elmore compare` from the outside: the table, the exit codes, going on."""

import io
import json
import multiprocessing
import os
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any

import pytest

from elmore.cli.main import main
from elmore.tasks.compare import compare as module
from elmore.tasks.fit import fit
from tests.tasks.tiny_data import write_columns


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_columns(tmp_path)
    return tmp_path


def command(data: Path, *arguments: str) -> list[str]:
    files = [f"--{name}={data / name}.txt" for name in ("train", "dev", "test")]
    encoders = f"--encoders=none,glove:{data / 'glove.txt'}"
    small = ["--epochs=1", "--set", "task.hidden=4", "--set", "batch=8", "--seeds=1"]
    return ["compare", "ner", encoders, *files, f"--output={data / 'out'}", *small, *arguments]


def compare(data: Path, *arguments: str) -> int:
    return main(command(data, *arguments))


def failing(config: Any, *arguments: Any, **options: Any) -> Any:
    if config.encoder.source != "none":
        raise RuntimeError("out of\nluck")
    return fit(config, *arguments, **options)


def test_it_prints_the_table_and_where_the_page_is(data: Path, capsys: pytest.CaptureFixture[str]):
    assert compare(data) == 0
    out, err = capsys.readouterr()
    table = (data / "out" / "table.md").read_text()
    assert out == f"{table}\n{data / 'out' / 'index.html'}\n"
    rows = [[cell.strip() for cell in line.split("|")] for line in table.splitlines()[2:]]
    assert [row[1] for row in rows] == ["none", "glove"]
    (none, glove) = (f"test f1 {row[3]}" for row in rows)
    told = "dev: f1 is exactly 0: no prediction is right"  # so small a model may learn nothing
    assert all(line.endswith(told) for line in err.splitlines()[4:])
    assert [line.split("  ")[0] for line in err.splitlines()[:4]] == [
        "1/2 none 1 #1: epoch 1", f"1/2 none 1 #1: {none}",
        "2/2 glove 1 #1: epoch 1", f"2/2 glove 1 #1: {glove}",
    ]  # fmt: skip


def test_quiet_leaves_the_table(data: Path, capsys: pytest.CaptureFixture[str]):
    assert compare(data, "--quiet") == 0
    assert capsys.readouterr() == ((data / "out" / "table.md").read_text(), "")


def test_a_failure_is_exit_code_1_and_the_next_run_mends_it(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(module, "fit", failing)
    assert compare(data, "--quiet") == 1
    out, err = capsys.readouterr()
    assert "| none " in out
    assert err.startswith("elmore: glove:")
    assert err.endswith(", 1 of the examples, seed 1: RuntimeError: out of luck\n")
    monkeypatch.setattr(module, "fit", fit)
    assert compare(data, "--quiet") == 0
    assert "| glove " in capsys.readouterr().out


def test_who_interrupts_it_is_told_how_to_go_on(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "fit", interrupted)
    assert compare(data) == 130
    assert capsys.readouterr() == ("", "elmore: stopped. Run it again to continue.\n")


def in_a_process(data: Path, told: Path) -> None:
    with told.open("w") as err, redirect_stderr(err), redirect_stdout(io.StringIO()):
        code = compare(data, "--seeds=3")
    os._exit(code)


def test_two_processes_share_the_work(data: Path):
    fork = multiprocessing.get_context("fork")  # torch is imported already
    both = [fork.Process(target=in_a_process, args=(data, data / f"{i}.err")) for i in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join()
    assert [process.exitcode for process in both] == [0, 0]
    told = "".join((data / f"{i}.err").read_text() for i in range(2))
    assert told.count(": test f1") == 6  # two encoders, three seeds: each trained once
    found = json.loads((data / "out" / "comparison.json").read_text())
    assert [len(row["scores"]["f1"]) for row in found["rows"]] == [3, 3]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--fractions=0,1"], "fractions"),
        (["--fractions=half"], "fractions"),
        (["--seeds=0"], "seeds"),
        (["--test=absent.txt"], "absent.txt"),
        (["--encoders=none,absent-model"], "absent-model"),
        (["--encoders=none,none"], "encoders: the same is given twice"),
        (["--encoders=none,"], "empty"),
        (["--set", "task.hiden=3"], "hiden"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_trained(
    arguments: list[str], said: str, data: Path, capsys: pytest.CaptureFixture[str]
):
    assert compare(data, *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("elmore: ")
    assert err.count("\n") == 1
    assert said in err


def test_other_settings_for_the_same_folder_are_refused(
    data: Path, capsys: pytest.CaptureFixture[str]
):
    assert compare(data, "--quiet") == 0
    capsys.readouterr()
    assert compare(data, "--epochs=2") == 2
    assert (
        "(encoder.gpt.epochs, encoder.lm.epochs, epochs, tuning.epochs)" in capsys.readouterr().err
    )
