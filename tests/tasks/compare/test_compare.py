"""Comparisons: what is trained, what is kept, what is done again and what is refused."""

import hashlib
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest

from elmore.cluster.address import Place
from elmore.cluster.ray_pool import Load
from elmore.config import override
from elmore.embedder import Embedder
from elmore.errors import ConfigError, ElmoreError, InputError
from elmore.files.lock import BusyError, Lock
from elmore.store.store import Store
from elmore.tasks.compare import compare as module
from elmore.tasks.compare.compare import CompareProgress, compare
from elmore.tasks.compare.page import page
from elmore.tasks.compare.trials import CompareConfig, Trial, read_outcome, share
from elmore.tasks.fit import Fitted, fit
from elmore.tasks.recipes import ner
from tests.cluster.local_pool import LocalPool
from tests.tasks.bert_tasks import write_tiny_bert
from tests.tasks.tiny_data import write_columns

SMALL = ["epochs=1", "task.hidden=4", "batch=8", "encoder.own.word_dim=4"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_columns(tmp_path)
    return tmp_path


def config(data: Path, *settings: str, **changes: Any) -> CompareConfig:
    given: dict[str, Any] = {
        "task": "ner",
        "fit": override(ner(), [*SMALL, *settings]),
        "train": data / "train.txt",
        "dev": data / "dev.txt",
        "test": data / "test.txt",
        "encoders": ("none", f"glove:{data / 'glove.txt'}"),
        "seeds": 2,
    }
    return CompareConfig.model_validate({**given, **changes})


def results(output: Path) -> list[Any]:
    return [read_outcome(path) for path in sorted((output / "results").iterdir())]


class Fits:
    """Stands for `fit`: notes what it is asked for, fails where it is told to, else does it."""

    def __init__(self, fails: Callable[[Any], BaseException | None] = lambda _: None):
        self.fails = fails
        self.asked: list[Any] = []

    def __call__(self, config: Any, *arguments: Any, **options: Any) -> Fitted:
        self.asked.append(config)
        if error := self.fails(config):
            raise error
        return fit(config, *arguments, **options)

    @property
    def trials(self) -> list[tuple[str, int]]:
        return [(asked.encoder.source.partition(":")[0], asked.seed) for asked in self.asked]


@pytest.fixture
def fits(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Fits]:
    def put(*arguments: Any) -> Fits:
        found = Fits(*arguments)
        monkeypatch.setattr(module, "fit", found)
        return found

    return put


# What is done -------------------------------------------------------------------------------------


def test_every_encoder_share_and_seed_is_a_file_and_a_part_of_the_report(data: Path):
    told: list[CompareProgress] = []
    output = data / "out"
    report = compare(config(data, fractions=(0.5, 1)), output, tell=told.append)
    assert len(results(output)) == 2 * 2 * 2
    assert [(row.fraction, row.encoder[:5]) for row in report.rows] == [
        (0.5, "none"), (0.5, "glove"), (1.0, "none"), (1.0, "glove"),
    ]  # fmt: skip
    assert [row.examples for row in report.rows] == [12, 12, 24, 24]
    assert [len(row.scores["f1"]) for row in report.rows] == [2, 2, 2, 2]
    assert (output / "table.md").read_text() == report.markdown()
    assert json.loads((output / "comparison.json").read_text())["task"] == "ner"
    assert (output / "index.html").read_text() == page(report)
    assert sum(now.outcome is not None for now in told) == 8
    assert not list(output.rglob("*.safetensors"))  # figures are kept, models are not


def test_a_models_mix_and_frozen_parameters_are_in_the_report(data: Path, tiny_model: Path):
    encoders = ("none", str(tiny_model))
    report = compare(config(data, encoders=encoders, seeds=1), data / "out")
    none, elmo = report.rows
    ((mix,),) = elmo.mixes
    assert none.mixes == ((),)
    assert sum(mix.weights) == pytest.approx(1.0)
    assert len(mix.weights) == 3
    assert none.frozen == 0 < elmo.frozen
    # Besides the wider input to both directions' gates, three weights and a scale are trained.
    wider = 2 * 4 * 4 * Embedder.load(tiny_model).dim
    assert elmo.trainable == none.trainable + wider + 4


def test_one_seed_chooses_the_same_examples_for_everyone_and_smaller_shares_are_parts_of_larger():
    examples = list(range(100))

    def chosen(fraction: float, seed: int, encoder: str = "none") -> list[int]:
        return share(examples, Trial(encoder=encoder, fraction=fraction, seed=seed))

    assert chosen(0.1, 1) == chosen(0.1, 1, "x")
    assert set(chosen(0.1, 1)) < set(chosen(0.3, 1))
    assert chosen(0.1, 1) != chosen(0.1, 2)
    assert chosen(1.0, 2) == examples
    assert len(chosen(0.001, 1)) == 1


def test_a_small_share_is_read_more_often_and_in_smaller_batches(data: Path, fits: Callable):
    asked = fits().asked
    report = compare(config(data, "epochs=2", fractions=(0.25, 1), seeds=1), data / "out")
    told = [note for note in report.notes if "of the examples, trainings have" in note]
    (note,) = told
    assert "with 0.25 of the examples" in note
    assert "about 2.0 times as many epochs, in batches as many times smaller" in note
    assert [(fit.epochs, fit.patience, fit.halve_after, fit.batch) for fit in asked] == [
        (4, 12, 4, 4), (4, 12, 4, 4), (2, 6, 2, 8), (2, 6, 2, 8),
    ]  # fmt: skip


def test_only_models_are_fine_tuned(data: Path, tiny_model: Path, fits: Callable):
    asked = fits().asked
    encoders = ("none", str(tiny_model), f"glove:{data / 'glove.txt'}+{tiny_model}")
    tuned = config(data, "encoder.fine_tune=true", encoders=encoders, seeds=1)
    report = compare(tuned, data / "out")
    assert [fit.encoder.fine_tune for fit in asked] == [False, True, True]
    assert not report.failures


def test_a_bert_is_a_row_frozen_and_another_fine_tuned(data: Path, fits: Callable):
    asked = fits().asked
    bert = f"bert:{write_tiny_bert(data / 'bert', n_layers=3, max_positions=64)}"
    encoders = ("none", bert, f"{bert}+last4", f"{bert}+tune")
    given = config(data, "tuning.epochs=2", encoders=encoders, fractions=(0.25, 1), seeds=1)
    report = compare(given, data / "out")
    assert not report.failures
    assert [(fit.tuning.epochs, fit.tuning.batch) for fit in asked] == [(4, 16)] * 4 + [(2, 32)] * 4
    none, frozen, last, tuned = report.rows[4:]
    assert none.gain is None
    assert [row.gain.over for row in (frozen, last, tuned)] == ["none", bert, bert]
    size = sum(p.numel() for p in Embedder.load(data / "bert").model.parameters())
    assert [row.frozen for row in (none, frozen, last, tuned)] == [0, size, size, 0]
    assert tuned.trainable == size + 25 * 9  # a linear layer to nine tags
    assert "\n| bert + tune " in report.markdown()
    again = fits()
    assert compare(given, data / "out").json() == report.json()
    assert again.asked == []


def test_a_comparison_older_than_the_fine_tuning_of_bert_goes_on(data: Path):
    compare(config(data, encoders=("none",), seeds=1), data / "out")
    path = data / "out" / "settings.json"
    settings = json.loads(path.read_text())
    del settings["fit"]["tuning"]
    path.write_text(json.dumps(settings))
    later = config(data, "tuning.epochs=1", encoders=("none",), seeds=1)
    assert not compare(later, data / "out").failures
    with pytest.raises(ConfigError, match=r"other settings or files \(tuning.epochs\)"):
        compare(config(data, "tuning.epochs=2", encoders=("none",), seeds=1), data / "out")


# Going on -----------------------------------------------------------------------------------------


def test_what_is_finished_is_not_done_again(data: Path, fits: Callable):
    first = compare(config(data), data / "out")
    again = fits()
    assert compare(config(data), data / "out").json() == first.json()
    assert again.asked == []


def test_more_seeds_and_encoders_join_what_is_there(data: Path, fits: Callable):
    compare(config(data, encoders=("none",), seeds=1), data / "out")
    more = fits()
    report = compare(config(data, seeds=2), data / "out")
    assert more.trials == [("glove", 1), ("none", 2), ("glove", 2)]
    assert [len(row.scores["f1"]) for row in report.rows] == [2, 2]


def test_a_failure_is_noted_the_others_go_on_and_it_is_tried_again(data: Path, fits: Callable):
    def fails(fit: Any) -> BaseException | None:
        return MemoryError("none\nleft") if fit.seed == 1 and fit.encoder.source != "none" else None

    fits(fails)
    report = compare(config(data), data / "out")
    (failed,) = report.failures
    assert failed.error == "MemoryError: none left"
    assert "MemoryError" in failed.traceback
    assert [(len(row.scores["f1"]), row.failed) for row in report.rows] == [(2, 0), (1, 1)]
    assert "MemoryError: none left" in (data / "out" / "index.html").read_text()
    again = fits()
    assert not compare(config(data), data / "out").failures
    assert again.trials == [("glove", 1)]


def test_an_interrupt_ends_it_and_the_next_run_goes_on(data: Path, fits: Callable):
    fits(lambda fit: KeyboardInterrupt() if fit.seed == 2 else None)
    with pytest.raises(KeyboardInterrupt):
        compare(config(data), data / "out")
    assert len(results(data / "out")) == 2
    again = fits()
    compare(config(data), data / "out")
    assert again.trials == [("none", 2), ("glove", 2)]


def test_a_training_that_was_stopped_goes_on_from_its_last_epoch(data: Path):
    def stop(now: CompareProgress) -> None:
        if now.epoch is not None and now.epoch.epoch == 3:
            raise KeyboardInterrupt

    epochs: list[int] = []

    def note(now: CompareProgress) -> None:
        if now.epoch is not None and now.epoch.dev is not None:
            epochs.append(now.epoch.epoch)

    longer = config(data, "epochs=4", "patience=9", encoders=("none",), seeds=1)
    with pytest.raises(KeyboardInterrupt):
        compare(longer, data / "out", tell=stop)
    stopped = compare(longer, data / "out", tell=note)
    assert epochs == [3, 4]
    straight = compare(longer, data / "straight")
    assert stopped.rows[0].scores == straight.rows[0].scores


def test_a_training_that_another_process_has_is_left_to_it(data: Path, fits: Callable):
    compare(config(data, seeds=1), data / "out")
    (result,) = (data / "out" / "results").glob("none*")
    result.unlink()
    lock = Lock(data / "out" / "work" / result.stem)
    asked, asked_for = fits().asked, config(data, seeds=1)
    refused(BusyError, r"process \d+ on .* \(since .*\)", lambda: compare(asked_for, data / "out"))
    assert asked == []
    again = json.loads((data / "out" / "comparison.json").read_text())
    assert len(again["rows"]) == 2  # as it was
    for name in (data / "out" / "results").glob("glove*"):
        name.unlink()
    report = compare(asked_for, data / "out")  # there is something to do: it is done
    assert len(asked) == 1
    assert len(report.rows) == 1
    assert "1 of 2 trainings are not finished" in report.notes[0]
    lock.release()
    whole = compare(config(data, seeds=1), data / "out")
    assert len(whole.rows) == 2
    assert not any("not finished" in note for note in whole.notes)


def test_files_that_change_while_it_runs_do_not_end_it_nor_change_what_it_says_of_them(data: Path):
    digest = hashlib.sha256((data / "test.txt").read_bytes()).hexdigest()

    def spoil(now: CompareProgress) -> None:
        (data / "test.txt").unlink(missing_ok=True)

    report = compare(config(data, seeds=1), data / "out", tell=spoil)
    assert len(report.rows) == 2
    assert report.settings["sha256"]["test"] == digest


def test_a_folder_is_somebodys_before_the_first_training(data: Path, fits: Callable):
    asked = fits(lambda _: KeyboardInterrupt()).asked
    with pytest.raises(KeyboardInterrupt):
        compare(config(data), data / "out")
    other = config(data, "lr=0.1")
    refused(ConfigError, r"out: .* \(lr\)", lambda: compare(other, data / "out"))
    assert len(asked) == 1


def test_shares_that_are_nearly_the_same_are_two(data: Path):
    shares = (0.1234567, 0.12345674)
    asked = config(data, encoders=("none",), seeds=1, fractions=shares)
    compare(asked, data / "out")
    assert {result.trial.fraction for result in results(data / "out")} == set(shares)


def test_words_too_long_in_the_test_file_are_told(data: Path):
    (data / "test.txt").write_text(f"{'x' * 70} O\n")
    report = compare(config(data, seeds=1, encoders=("none",)), data / "out")
    assert any("none: test: 1 different words are longer" in note for note in report.notes)


def test_what_lies_behind_a_store_is_not_counted_as_nothing(data: Path, tiny_embedder: Embedder):
    files = [ner().task.read(data / f"{name}.txt") for name in ("train", "dev", "test")]
    store = Store.create(data / "a.store", tiny_embedder)
    store.fill([list(example.words) for file in files for example in file.examples])
    encoders = (f"store:{data / 'a.store'}",)
    report = compare(config(data, encoders=encoders, seeds=1), data / "out")
    assert report.rows[0].frozen is None
    assert "unknown" in report.markdown()


# What is refused ----------------------------------------------------------------------------------


def refused(kind: type[ElmoreError], said: str, run: Callable[[], object]) -> None:
    with pytest.raises(kind, match=said) as caught:
        run()
    assert "\n" not in str(caught.value)


def test_other_settings_in_the_same_folder(data: Path):
    compare(config(data, seeds=1), data / "out")
    other = config(data, "task.hidden=5", "lr=0.1")
    refused(ConfigError, r"out: .* \(lr, task\.hidden\)", lambda: compare(other, data / "out"))


def test_settings_that_cannot_be_read(data: Path):
    compare(config(data, seeds=1), data / "out")
    (data / "out" / "settings.json").write_text("")
    refused(ConfigError, "damaged", lambda: compare(config(data), data / "out"))


def test_a_store_without_every_sentence_is_found_out_before_anything_is_trained(
    data: Path, tiny_embedder: Embedder, fits: Callable
):
    asked = fits().asked
    store = Store.create(data / "a.store", tiny_embedder)
    store.fill([list(example.words) for example in ner().task.read(data / "train.txt").examples])
    lacking = config(data, encoders=("none", f"store:{data / 'a.store'}"))
    refused(InputError, "is not in", lambda: compare(lacking, data / "out"))
    assert asked == []


def test_other_examples_in_the_same_folder_but_the_same_ones_elsewhere_are_fine(
    data: Path, fits: Callable
):
    compare(config(data, seeds=1), data / "out")
    (data / "moved.txt").write_text((data / "test.txt").read_text())
    asked = fits().asked
    moved = config(data, seeds=1, test=data / "moved.txt")
    compare(moved, data / "out")
    assert asked == []
    (data / "test.txt").write_text("Bob B-PER\n")
    refused(ConfigError, r"\(test\)", lambda: compare(config(data), data / "out"))


def test_other_vectors_by_the_same_name(data: Path):
    compare(config(data, seeds=1), data / "out")
    glove = data / "glove.txt"
    glove.write_text(glove.read_text().replace("1", "2"))
    refused(ConfigError, "has changed since", lambda: compare(config(data), data / "out"))


def test_a_folder_that_holds_something_else(data: Path):
    (data / "out").mkdir()
    (data / "out" / "thesis.tex").write_text("")
    refused(InputError, "no comparison", lambda: compare(config(data), data / "out"))


def test_an_encoder_that_is_not_there_is_found_out_before_anything_is_trained(
    data: Path, fits: Callable
):
    asked = fits().asked
    missing = config(data, encoders=("none", "glove:absent.txt"))
    refused(ElmoreError, r"absent\.txt", lambda: compare(missing, data / "out"))
    assert asked == []
    compare(config(data, "lr=0.1", seeds=1), data / "out")  # nothing there yet to be at odds with
    assert len(asked) == 2


@pytest.mark.parametrize(
    "changes",
    [{"encoders": ()}, {"encoders": ("none", "none")}, {"fractions": (0.0, 1)},
     {"fractions": (1.5,)}, {"seeds": 0}],
)  # fmt: skip
def test_a_config_that_makes_no_sense(data: Path, changes: dict[str, Any]):
    with pytest.raises(ValueError, match="validation error"):
        config(data, **changes)


# On a cluster -------------------------------------------------------------------------------------


class InThisProcess(LocalPool[Any, Any]):
    """Stands for `RayPool`: what goes to a worker and comes back is pickled, as there."""

    made: ClassVar[list["InThisProcess"]] = []

    def __init__(self, work: Any, place: Place, load: Load):
        super().__init__(lambda job: pickle.loads(pickle.dumps(sent(job))), lose=place.workers or 0)
        sent = pickle.loads(pickle.dumps(work))
        self.made.append(self)

    def __enter__(self) -> "InThisProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.running.clear()


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[InThisProcess]:
    monkeypatch.setattr(module, "RayPool", InThisProcess)
    monkeypatch.setattr(InThisProcess, "made", [])
    return InThisProcess.made


def test_workers_do_the_same_trainings_in_any_order(data: Path, pools: list[InThisProcess]):
    told: list[CompareProgress] = []
    here = compare(config(data), data / "here")
    there = compare(config(data), data / "out", tell=told.append, place=Place(workers=3))
    assert [row.scores for row in there.rows] == [row.scores for row in here.rows]
    assert sorted(now.number for now in told) == [1, 2, 3, 4]
    assert [now.number for now in told] != [1, 2, 3, 4]
    assert len(pools[0].started) > 4  # some were lost
    assert (data / "out" / "table.md").read_text() == there.markdown()


def test_workers_are_not_started_if_all_is_finished(data: Path, pools: list[InThisProcess]):
    first = compare(config(data, seeds=1), data / "out")
    assert compare(config(data, seeds=1), data / "out", place=Place()).json() == first.json()
    assert pools == []


def test_a_training_that_kills_its_workers_has_failed(data: Path, pools: list[InThisProcess]):
    told: list[CompareProgress] = []
    only = config(data, seeds=1, encoders=("none",))
    report = compare(only, data / "out", tell=told.append, place=Place(workers=1))
    (failed,) = report.failures
    assert failed.error.startswith("Lost with 5 workers, one after another")
    assert [now.outcome for now in told] == [failed]
    assert not compare(only, data / "out").failures


def test_a_failure_at_a_worker_is_noted(data: Path, pools: list[InThisProcess], fits: Callable):
    fits(lambda fit: MemoryError("none left") if fit.encoder.source == "none" else None)
    report = compare(config(data, seeds=1), data / "out", place=Place())
    assert [failed.error for failed in report.failures] == ["MemoryError: none left"]
    assert "fit(" in report.failures[0].traceback


def test_a_worker_that_does_not_see_the_folder_says_so(data: Path, pools: list[InThisProcess]):
    def elsewhere(now: CompareProgress) -> None:
        (data / "out" / "settings.json").unlink()

    asked = config(data, seeds=2, encoders=("none",))
    refused(
        InputError,
        "out: a worker on .* does not find it",
        lambda: compare(asked, data / "out", tell=elsewhere, place=Place()),
    )
