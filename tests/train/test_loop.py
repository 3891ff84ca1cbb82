"""The loop on a toy: what a step adds up to, what a run keeps, and how it comes to an end."""

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from elmore.errors import ConfigError, FormatError, InputError
from elmore.train.loop import Loop, LoopConfig, scale_gradients
from elmore.train.run_folder import RunFolder, checkpoints
from elmore.train.schedule import PlateauSchedule
from elmore.train.world import World
from tests.pretrain.tiny_runs import logged
from tests.train.toy import Toy, loop, resumed

ROOT = Path(__file__).resolve().parents[2]


def kept(folder: Path) -> list[str]:
    return [path.name.removeprefix("step-").lstrip("0") for path in checkpoints(folder)]


# Steps --------------------------------------------------------------------------------------------


def test_four_micro_batches_are_one_of_four_times_the_size(tmp_path: Path):
    runs = []
    for name, size, accumulate in [("one", 16, 1), ("four", 4, 4)]:
        toy = Toy(size)
        (tmp_path / name).mkdir()
        loop(toy, tmp_path / name, accumulate=accumulate, steps=5).run()
        runs.append(torch.cat([p.detach().flatten() for p in toy.module.parameters()]))
    torch.testing.assert_close(runs[0], runs[1], rtol=0, atol=1e-6)


@pytest.mark.parametrize(("clip", "scale"), [(None, 1.0), (0.5, 1.0), (1e9, 1.0), (0.5, 20.0)])
def test_gradients_are_means_scaled_then_clipped_by_their_norm(clip: float | None, scale: float):
    toy = Toy(8)
    loss = toy.next_loss(None)  # type: ignore[arg-type]
    loss.total.backward()
    before = torch.cat([p.grad.flatten() for p in toy.module.parameters()]) * scale / 8
    norm = scale_gradients(list(toy.module.parameters()), scale / 8, clip)
    after = torch.cat([p.grad.flatten() for p in toy.module.parameters()])
    assert norm == pytest.approx(float(before.norm()), rel=1e-6)
    shrunk = before if clip is None else before * min(1.0, clip / float(before.norm()))
    torch.testing.assert_close(after, shrunk, rtol=1e-5, atol=1e-7)


def test_the_log_holds_means_over_predictions(tmp_path: Path):
    toy = Toy(4)
    first = Toy(4).next_loss(None)  # type: ignore[arg-type]
    loop(toy, tmp_path, steps=1).run()
    (line,) = logged(tmp_path)
    assert line["loss"] == pytest.approx(first.total.item() / 4)
    assert line["largest"] == pytest.approx(first.parts["largest"] / 4)
    assert line["words"] == 4


def test_a_loss_that_is_not_a_number_stops_the_run_and_keeps_what_was_saved(tmp_path: Path):
    toy = Toy()
    loop(toy, tmp_path, steps=3).run()
    broken = resumed(Toy(), tmp_path, steps=6)
    broken.objective.points[:] = torch.inf  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"Step 4: the gradient is NaN or infinite.*lr=…"):
        broken.run()
    assert broken.recorder._log._file.closed  # type: ignore[attr-defined]
    assert kept(tmp_path) == ["3"]
    assert resumed(Toy(), tmp_path, steps=6).run().step == 6


# Ends ---------------------------------------------------------------------------------------------


def test_a_run_without_an_end_is_refused(tmp_path: Path):
    with pytest.raises(ConfigError, match="would not end"):
        Loop(Toy(), LoopConfig(), RunFolder(tmp_path, keep=1), World())


def test_minutes_end_a_run_and_whichever_end_comes_first_counts(tmp_path: Path):
    (tmp_path / "time").mkdir()
    (tmp_path / "steps").mkdir()
    by_time = loop(Toy(), tmp_path / "time", steps=10**9, minutes=0.2 / 60).run()
    assert 0.2 <= by_time.seconds < 5
    assert by_time.interrupted == 0
    assert loop(Toy(), tmp_path / "steps", steps=3, minutes=60).run().step == 3


_PAUSED = """
import sys, time
from pathlib import Path
from tests.train.toy import Toy, loop
print("began", flush=True)
began = time.monotonic()
progress = loop(Toy(), Path(sys.argv[1]), steps=10**9, minutes=0.6 / 60).run()
print(progress.seconds, time.monotonic() - began)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="no SIGSTOP on this system")
def test_a_pause_is_not_training_time(tmp_path: Path):
    """Stopped for a second and a half, as by Ctrl-Z: no time of the limit passes."""
    command = [sys.executable, "-c", _PAUSED, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "began\n"
        time.sleep(0.2)
        child.send_signal(signal.SIGSTOP)
        time.sleep(1.5)
        child.send_signal(signal.SIGCONT)
        counted, took = map(float, child.stdout.read().split())
    assert 0.6 <= counted < took - 1.2
    assert took >= 2.0


def test_a_finished_run_resumed_does_nothing_and_says_that_it_is_done(tmp_path: Path):
    loop(Toy(), tmp_path, steps=4).run()
    before = logged(tmp_path)
    toy = Toy()
    progress = resumed(toy, tmp_path, steps=4).run()
    assert (progress.step, progress.fraction, progress.interrupted) == (4, 1.0, 0)
    assert toy.at == 16
    assert logged(tmp_path) == before


class Stopped(Toy):
    """Sends itself a signal while its sixth batch is under way."""

    def __init__(self, number: signal.Signals):
        super().__init__()
        self.number = number

    def next_loss(self, rng: Any) -> Any:
        if self.at == 5 * self.size:
            os.kill(os.getpid(), self.number)
        return super().next_loss(rng)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_step_saves_and_is_told(tmp_path: Path, number: signal.Signals):
    before = signal.getsignal(number)
    progress = loop(Stopped(number), tmp_path).run()
    assert progress.step == 6
    assert progress.interrupted == number
    assert kept(tmp_path) == ["6"]
    assert signal.getsignal(number) == before


def test_a_signal_in_the_very_last_step_interrupts_nothing(tmp_path: Path):
    progress = loop(Stopped(signal.SIGTERM), tmp_path, steps=6).run()
    assert (progress.step, progress.interrupted) == (6, 0)


# Resuming -----------------------------------------------------------------------------------------


def test_a_report_of_several_steps_survives_a_stop_in_the_middle(tmp_path: Path):
    for name in ("whole", "stopped"):
        (tmp_path / name).mkdir()
    loop(Toy(), tmp_path / "whole", log_steps=4, steps=8).run()
    loop(Stopped(signal.SIGINT), tmp_path / "stopped", log_steps=4, steps=8).run()
    resumed(Toy(), tmp_path / "stopped", log_steps=4, steps=8).run()
    assert logged(tmp_path / "stopped") == logged(tmp_path / "whole")
    assert [line["step"] for line in logged(tmp_path / "whole")] == [4, 8]


def test_log_lines_after_the_resumed_step_are_dropped(tmp_path: Path):
    """As after a kill: the log is ahead of the checkpoint, and its last line half written."""
    loop(Toy(), tmp_path, steps=4).run()
    whole = logged(tmp_path)
    with (tmp_path / "log.jsonl").open("a") as file:
        file.write('{"step": 5, "loss": 123.0}\n{"step": 6, "los')
    assert resumed(Toy(), tmp_path, steps=6).run().step == 6
    assert logged(tmp_path)[:4] == whole
    assert [line["step"] for line in logged(tmp_path)] == [1, 2, 3, 4, 5, 6]
    assert logged(tmp_path)[4]["loss"] != 123.0


def test_what_a_kill_left_half_written_is_neither_resumed_nor_kept(tmp_path: Path):
    loop(Toy(), tmp_path, steps=4).run()
    left = tmp_path / "checkpoints" / ".step-000000007.99.elmore-tmp"
    left.mkdir()
    (left / "model.pt").write_bytes(b"half")
    again = resumed(Toy(), tmp_path, steps=5)
    assert again.progress.step == 4
    again.run()
    assert not left.exists()


def test_another_number_of_processes_is_refused(tmp_path: Path):
    loop(Toy(), tmp_path, steps=2).run()
    path = checkpoints(tmp_path)[-1] / "training.pt"
    state = torch.load(path, weights_only=True)
    torch.save({**state, "data": [*state["data"], 0]}, path)
    with pytest.raises(ConfigError, match=r"written by 2 processes, resumed by 1"):
        resumed(Toy(), tmp_path)


@pytest.mark.parametrize("damage", ["cut", "garbage", "empty"])
def test_a_damaged_training_state_is_named_with_the_way_out(tmp_path: Path, damage: str):
    loop(Toy(), tmp_path, steps=2).run()
    path = checkpoints(tmp_path)[-1] / "training.pt"
    whole = path.read_bytes()
    path.write_bytes({"cut": whole[: len(whole) // 2], "garbage": b"x" * 999, "empty": b""}[damage])
    with pytest.raises(FormatError, match=r"training.pt: not a readable.*Remove .*step-0") as found:
        resumed(Toy(), tmp_path)
    assert "\n" not in str(found.value)


def test_a_missing_training_state_is_named(tmp_path: Path):
    loop(Toy(), tmp_path, steps=2).run()
    (checkpoints(tmp_path)[-1] / "training.pt").unlink()
    with pytest.raises(FormatError, match=r"training.pt: missing"):
        resumed(Toy(), tmp_path)


# Checkpoints --------------------------------------------------------------------------------------


def test_the_newest_checkpoints_and_the_best_are_kept(tmp_path: Path):
    """Validated every second step: 9, 7, 8, 8, 8. Checkpoints come with every step."""
    toy = Toy(scores=[9.0, 7.0, 8.0, 8.0, 8.0])
    progress = loop(toy, tmp_path, checkpoint_minutes=1e-9, valid_steps=2, keep=2).run()
    assert kept(tmp_path) == ["4", "9", "10"]
    assert (tmp_path / "best").read_text() == "step-000000004\n"
    assert (progress.best, progress.best_step) == (7.0, 4)


def test_the_best_is_the_very_model_that_was_validated(tmp_path: Path):
    """No checkpoint is due by the clock: the validated steps are saved for being the best."""
    loop(Toy(scores=[9.0, 7.0, 8.0]), tmp_path, valid_steps=3, keep=1).run()
    assert (tmp_path / "best").read_text() == "step-000000006\n"
    assert kept(tmp_path) == ["6", "10"]


def test_a_kill_between_the_checkpoint_and_its_naming_as_best_is_mended(tmp_path: Path):
    loop(Toy(scores=[9.0]), tmp_path, valid_steps=2, steps=2).run()
    (tmp_path / "best").unlink()
    resumed(Toy(), tmp_path)
    assert (tmp_path / "best").read_text() == "step-000000002\n"


def test_without_validation_there_is_no_best_and_no_line_of_it(tmp_path: Path):
    progress = loop(Toy(), tmp_path, valid_steps=2).run()
    assert progress.best is None
    assert not (tmp_path / "best").exists()
    assert not any("valid" in key for line in logged(tmp_path) for key in line)


def test_a_run_that_never_was_validated_is_at_its_end(tmp_path: Path):
    loop(Toy(scores=[3.0]), tmp_path, steps=5).run()
    found = [(line["step"], line["valid_score"]) for line in logged(tmp_path)[5:]]
    assert found == [(5, 3.0)]


def test_a_plateau_drops_the_rate_and_remembers_it(tmp_path: Path):
    schedule = PlateauSchedule(drop=0.5)
    toy = Toy(scores=[5.0, 6.0, 6.0])
    loop(toy, tmp_path, schedule=schedule, valid_steps=2, steps=6).run()
    rates = {line["step"]: line["lr"] for line in logged(tmp_path) if "loss" in line}
    assert [rates[n] for n in (2, 4, 5)] == pytest.approx([0.1, 0.1, 0.05])
    again = resumed(Toy(), tmp_path, schedule=schedule, steps=8)
    assert again.progress.drops == 2
    again.run()
    assert logged(tmp_path)[-1]["lr"] == pytest.approx(0.025)


def full_disk(*_: Any, **__: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_disk_that_is_full_when_saving_leaves_the_checkpoint_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    loop(Toy(), tmp_path, steps=3).run()
    again = resumed(Toy(), tmp_path, steps=6)
    monkeypatch.setattr(torch, "save", full_disk)  # after the model's folder has been begun
    with pytest.raises(InputError, match=r"step-000000006: cannot be written \(No space") as found:
        again.run()
    assert "\n" not in str(found.value)
    monkeypatch.undo()
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == ["step-000000003"]
    assert resumed(Toy(), tmp_path, steps=6).run().step == 6


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
def test_the_training_state_on_a_full_disk_is_an_error_with_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """torch.save by path would say "unexpected pos": it must go through a file of Python's."""
    opened = Path.open

    def full(path: Path, *args: Any, **kwargs: Any) -> Any:
        return opened(Path("/dev/full") if path.name == "training.pt" else path, *args, **kwargs)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(InputError, match="No space left"):
        loop(Toy(), tmp_path, steps=1).run()


# Patience and epochs ------------------------------------------------------------------------------


class Rising(Toy):
    """A toy whose scores are better when higher."""

    higher_is_better = True


def test_patience_ends_a_run_after_validations_without_a_better_one(tmp_path: Path):
    toy = Toy(scores=[5.0, 6.0, 4.0, 4.0, 4.5, 1.0])
    progress = loop(toy, tmp_path, steps=100, valid_steps=2, patience=2).run()
    assert (progress.step, progress.best, progress.bad) == (10, 4.0, 2)
    assert (progress.fraction, progress.interrupted) == (1.0, 0)
    assert resumed(Toy(), tmp_path, steps=100, valid_steps=2, patience=2).finished


def test_higher_may_be_better_and_zero_is_no_reason_to_stop(tmp_path: Path):
    toy = Rising(scores=[0.0, 0.0, 0.0, 3.0, 2.0, 1.0])
    schedule = PlateauSchedule(after=2)
    changes = {"schedule": schedule, "valid_steps": 1, "patience": 2, "steps": 100}
    progress = loop(toy, tmp_path, **changes).run()
    assert (progress.step, progress.best, progress.best_step) == (6, 3.0, 4)
    assert (progress.bad, progress.drops) == (2, 1)


def test_without_minutes_checkpoints_come_with_validations_and_signals_are_not_held(tmp_path: Path):
    scores, changes = [3.0, 4.0, 5.0], {"checkpoint_minutes": None, "keep": 9}
    loop(Toy(scores=list(scores)), tmp_path, valid_steps=3, steps=9, **changes).run()
    assert kept(tmp_path) == ["3", "6", "9"]
    (tmp_path / "stopped").mkdir()
    with pytest.raises(KeyboardInterrupt):
        loop(Stopped(signal.SIGINT), tmp_path / "stopped", valid_steps=4, **changes).run()


def test_losses_that_are_means_are_clipped_as_torch_does(tmp_path: Path):
    one, other = Toy(8), Toy(8)
    loop(one, tmp_path, steps=1, clip=0.5, loss_scale=None).run()
    other.next_loss(None).total.backward()  # type: ignore[arg-type]
    torch.nn.utils.clip_grad_norm_(other.module.parameters(), 0.5)
    torch.optim.Adagrad(
        other.module.parameters(), lr=0.1, initial_accumulator_value=1.0, eps=0.0
    ).step()
    for mine, theirs in zip(one.module.parameters(), other.module.parameters(), strict=True):
        assert torch.equal(mine, theirs)
