"""Training: it learns, it is deterministic, and a killed run goes on to the same numbers."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from elmore.errors import FormatError, InputError
from elmore.files.lock import BusyError
from elmore.tasks.classification import Labelled
from elmore.tasks.encoders.encoder import EncoderConfig, build_encoder
from elmore.tasks.fit import EpochReport, FitConfig, Fitted, fit
from elmore.tasks.model import TaskModel, plain_batches
from elmore.tasks.objective import training_batches
from elmore.tasks.saved import (
    best_epoch,
    epochs,
    read_record,
    read_saved,
    read_tensors,
)
from elmore.tasks.tagging import Tagged, Tagging
from elmore.tasks.task import Labels
from elmore.train.loop import Loop
from tests.tasks.tiny_tasks import (
    OWN,
    classification_config,
    labelled,
    tagged,
    tagging_config,
    write_static,
)

TRAIN, DEV, TEST = tagged(60, seed=1), tagged(30, seed=2), tagged(40, seed=3)


class Killed(Exception):
    """Stands for a signal that leaves no time to do anything."""


def run(config: FitConfig, output: Path, **more: object) -> Fitted:
    return fit(config, TRAIN, DEV, output, device="cpu", **more)  # type: ignore[arg-type]


def killer(epoch: int, fraction: float) -> Callable[[EpochReport], None]:
    def report(now: EpochReport) -> None:
        if now.epoch == epoch and now.fraction >= fraction:
            raise Killed

    return report


def weights(fitted: Fitted) -> dict[str, torch.Tensor]:
    return fitted.model.state_dict()


def same(one: Fitted, other: Fitted) -> bool:
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


def test_a_tagger_learns_from_context_in_seconds(tmp_path: Path):
    fitted = run(tagging_config(), tmp_path / "run")
    score = fitted.model.evaluate(TEST)
    assert score.main > 95  # the names themselves say nothing: half would be right by chance
    assert score.notes == ()
    assert fitted.model.predict(TEST[:1]) == [TEST[0].tags]


def test_a_classifier_learns_a_turn_in_seconds(tmp_path: Path):
    config = classification_config(epochs=15, patience=15, halve_after=15)
    fitted = fit(config, labelled(60, 1), labelled(20, 2), tmp_path / "run", device="cpu")
    assert fitted.model.evaluate(labelled(40, 3)).main == 100.0


def test_the_learning_rate_can_rise_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Adam's first step is as large as the rate, whatever the gradient."""
    moved: list[float] = []
    step = Loop._apply

    def note(loop: Loop) -> None:
        weight = loop.objective.module.head.output.weight  # type: ignore[union-attr]
        before = weight.detach().clone()
        step(loop)
        moved.append(float((weight.detach() - before).abs().max()))

    monkeypatch.setattr(Loop, "_apply", note)
    run(tagging_config(epochs=1, lr=0.01, warmup_steps=4), tmp_path / "run")
    assert moved[0] == pytest.approx(0.0025, rel=0.01)
    assert moved[3] > 2 * moved[0]


def test_the_rate_can_fall_along_a_cosine_to_the_last_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rates: list[float] = []
    apply = Loop._apply

    def note(loop: Loop) -> None:
        apply(loop)
        rates.append(loop.lr)

    monkeypatch.setattr(Loop, "_apply", note)
    fitted = run(tagging_config(epochs=4, lr=0.01, cosine=True, patience=1), tmp_path / "run")
    n = len(rates)
    assert fitted.epochs == 4  # patience ends nothing
    assert rates[0] > 0.0095
    assert rates[n // 2 - 1] == pytest.approx(0.005, rel=0.1)
    assert rates[-1] < 1e-4
    assert rates == sorted(rates, reverse=True)


def test_plain_tags_static_vectors_and_late_layers_train_too(tmp_path: Path, tiny_model: Path):
    source = f"glove:{write_static(tmp_path)}+{tiny_model}"
    task = Tagging(spans=False, hidden=32, dropout=0.0, n_layers=2, late_after=1)
    encoder = EncoderConfig(source=source, own=OWN, join="both", tune_static=True, mix_l2=0.01)
    config = tagging_config(task=task, encoder=encoder, epochs=8, lr=0.01, halve_after=8)
    fitted = run(config, tmp_path / "run")
    assert fitted.model.evaluate(TEST).main > 90
    mixes = fitted.model.encoder.mixes()
    assert [(mix.source, mix.place) for mix in mixes] == [
        (str(tiny_model), "input"),
        (str(tiny_model), "late"),
    ]
    assert all(sum(mix.weights) == pytest.approx(1, abs=1e-5) for mix in mixes)
    assert all(mix.gamma != 1.0 for mix in mixes)  # they have been learnt


def test_fine_tuning_moves_the_bilm_from_the_second_epoch_on(tmp_path: Path, tiny_model: Path):
    encoder = EncoderConfig(source=str(tiny_model), own=OWN, fine_tune=True)
    config = tagging_config(encoder=encoder, epochs=2)
    moved: dict[int, set[str]] = {}
    before = TaskModel(
        config.task, build_encoder(config.encoder, ()), Labels(labels=("O",))
    ).state_dict()

    def watch(now: EpochReport) -> None:
        if now.dev is not None:
            after = read_tensors(epochs(tmp_path / "run")[-1] / "model.safetensors")
            bilm = {name for name in after if ".trainable.model." in name}
            assert bilm
            moved[now.epoch] = {n for n in bilm if not torch.equal(after[n], before[n])}
            before.update(after)

    fitted = run(config, tmp_path / "run", report=watch)
    assert moved[1] == set()
    layers = {name.split(".trainable.model.")[1].split(".")[2] for name in moved[2]}
    assert layers == {"1"}  # the top one
    loaded = TaskModel.load(tmp_path / "run", device="cpu")
    assert loaded.predict(TEST) == fitted.model.predict(TEST)


def test_the_same_seed_gives_the_same_weights_and_another_others(tmp_path: Path):
    config = tagging_config(epochs=2)
    one, two = run(config, tmp_path / "a"), run(config, tmp_path / "b")
    other = run(config.model_copy(update={"seed": 2}), tmp_path / "c")
    assert same(one, two)
    assert one.dev == two.dev
    assert not same(one, other)


@pytest.mark.parametrize(("epoch", "fraction"), [(1, 0.5), (3, 0.4)])
def test_a_killed_run_goes_on_to_the_same_weights(tmp_path: Path, epoch: int, fraction: float):
    config = tagging_config(epochs=4)
    whole = run(config, tmp_path / "whole")
    with pytest.raises(Killed):
        run(config, tmp_path / "killed", report=killer(epoch, fraction))
    seen: list[int] = []
    again = run(config, tmp_path / "killed", resume=True, report=lambda now: seen.append(now.epoch))
    assert min(seen) == epoch
    assert same(whole, again)
    assert (again.dev, again.best_epoch, again.epochs) == (whole.dev, whole.best_epoch, 4)
    logs = [
        (tmp_path / name / "log.jsonl").read_text().splitlines() for name in ("whole", "killed")
    ]
    figures = [[{**json.loads(line), "seconds": 0} for line in log] for log in logs]
    assert figures[0] == figures[1]


def test_a_kill_between_a_checkpoint_and_its_name_is_mended(tmp_path: Path):
    config = tagging_config(epochs=3)
    with pytest.raises(Killed):
        run(config, tmp_path / "run", report=killer(3, 0.1))
    (tmp_path / "run" / "best").unlink()
    fitted = run(config, tmp_path / "run", resume=True)
    assert best_epoch(tmp_path / "run").name == f"epoch-{fitted.best_epoch:03d}"


def test_a_finished_run_is_only_loaded(tmp_path: Path):
    config = tagging_config(epochs=2)
    first = run(config, tmp_path / "run")

    def never(now: EpochReport) -> None:
        raise AssertionError("it trained again")

    again = run(config, tmp_path / "run", resume=True, report=never)
    assert same(first, again)
    assert again.dev == first.dev


def test_what_is_saved_opens_again_and_predicts_the_same(tmp_path: Path):
    static = write_static(tmp_path)
    fitted = run(tagging_config(f"glove:{static}", epochs=2), tmp_path / "run")
    loaded = TaskModel.load(tmp_path / "run", device="cpu")
    assert loaded.predict(TEST) == fitted.model.predict(TEST)
    assert loaded.evaluate(DEV).figures == fitted.dev.figures
    assert not list((tmp_path / "run").rglob("*.p*[kt]*"))  # nothing that could execute
    kept = [path.name for path in epochs(tmp_path / "run")]
    assert f"epoch-{fitted.best_epoch:03d}" in kept
    assert not list((tmp_path / "run").rglob("training.safetensors"))  # of no use any more


def test_vectors_that_have_moved_are_found_and_others_are_refused(tmp_path: Path):
    static = write_static(tmp_path)
    run(tagging_config(f"glove:{static}", epochs=1), tmp_path / "run")
    moved = static.rename(tmp_path / "moved.npz")
    loaded = TaskModel.load(tmp_path / "run", source=f"glove:{moved}", device="cpu")
    assert len(loaded.predict(TEST)) == len(TEST)
    other = write_static(tmp_path, dim=7)
    with pytest.raises(InputError, match="trained with other pretrained vectors"):
        TaskModel.load(tmp_path / "run", source=f"glove:{other}", device="cpu")


def test_training_stops_when_nothing_improves_and_slows_down_before(tmp_path: Path):
    config = tagging_config(epochs=40, patience=3, halve_after=1)
    fitted = run(config, tmp_path / "run")
    assert fitted.epochs == fitted.best_epoch + 3 < 40
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    best = fitted.best_epoch
    tail = [line["next_lr"] / lines[best - 1]["next_lr"] for line in lines[best:]]
    assert tail == pytest.approx([0.5, 0.25, 0.125])
    assert read_record(epochs(tmp_path / "run")[-1]).finished


def test_nothing_learnt_yet_is_no_reason_to_slow_down_or_stop(tmp_path: Path):
    never = [Tagged(("we", "met"), ("O", "O"))] * 8  # no span to find: F1 stays 0
    config = tagging_config(epochs=5, patience=2, halve_after=1)
    fitted = fit(config, never, DEV, tmp_path / "run", device="cpu")
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    assert {line["dev_f1"] for line in lines} == {0.0}
    assert fitted.epochs == 5
    assert {line["next_lr"] for line in lines} == {config.lr}


def test_a_mix_learns_at_a_rate_of_its_own(tmp_path: Path, tiny_model: Path):
    def distance(rate: float) -> float:
        encoder = EncoderConfig(source=str(tiny_model), own=OWN, mix_rate=rate)
        fitted = run(tagging_config(encoder=encoder, epochs=2), tmp_path / f"{rate}")
        (mix,) = fitted.model.encoder.mixes()
        return max(abs(weight - 1 / len(mix.weights)) for weight in mix.weights)

    assert distance(1e-6) < 1e-6
    assert distance(20.0) > 2 * distance(1.0) > 0


def test_the_best_epoch_is_the_one_kept(tmp_path: Path):
    fitted = run(tagging_config(epochs=5), tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "log.jsonl").read_text().splitlines()]
    scores = [line["dev_f1"] for line in lines]
    assert fitted.best_epoch == scores.index(max(scores)) + 1
    assert fitted.dev.main == max(scores)
    assert fitted.model.evaluate(DEV).main == max(scores)


def test_labels_unseen_in_training_are_counted_as_wrong_and_told(tmp_path: Path):
    fitted = run(tagging_config(epochs=4), tmp_path / "run")
    strange = [*TEST, Tagged(("in", "it"), ("O", "S-MISC"))]
    score = fitted.model.evaluate(strange)
    assert score.figures["recall"] < fitted.model.evaluate(TEST).figures["recall"]
    assert len(score.notes) == 1
    assert "4 labels not seen in training: never predicted, so counted as wrong" in score.notes[0]
    assert "S-MISC" in score.notes[0]


def test_labels_that_only_the_dev_set_has_are_told(tmp_path: Path):
    new = Tagged(("in", "Rome"), ("O", "S-NEW"))
    fitted = fit(tagging_config(epochs=1), TRAIN, [*DEV, new], tmp_path / "run", device="cpu")
    assert "dev: 4 labels not seen in training" in fitted.notes[0]


def test_epochs_are_in_order_beyond_the_thousandth(tmp_path: Path):
    for number in (999, 1000, 1001, 265):
        (tmp_path / "checkpoints" / f"epoch-{number}").mkdir(parents=True)
    assert [path.name for path in epochs(tmp_path)] == [
        "epoch-265", "epoch-999", "epoch-1000", "epoch-1001",
    ]  # fmt: skip


def test_a_best_epoch_that_is_none_is_told(tmp_path: Path):
    run(tagging_config(epochs=1), tmp_path / "run")
    (tmp_path / "run" / "best").write_bytes(b"\xff../../elsewhere")
    with pytest.raises(FormatError, match="no epoch of this run"):
        TaskModel.load(tmp_path / "run")


def test_words_longer_than_the_model_reads_are_told(tmp_path: Path):
    long = Tagged(("in", "x" * 60), ("O", "S-LOC"))
    fitted = fit(tagging_config(epochs=1), [*TRAIN, long], DEV, tmp_path / "run", device="cpu")
    assert "1 different words are longer than the trained spelling" in fitted.notes[0]
    assert fitted.notes[1].startswith("dev: 16 of 30 examples are training examples too")
    assert all("exactly 0" in note for note in fitted.notes[2:])


def test_an_existing_run_is_neither_written_over_nor_mixed_up(tmp_path: Path):
    config = tagging_config(epochs=1)
    run(config, tmp_path / "run")
    with pytest.raises(InputError, match="holds a run already"):
        run(config, tmp_path / "run")
    with pytest.raises(InputError, match="a run with other settings"):
        run(tagging_config(epochs=2), tmp_path / "run", resume=True)
    with pytest.raises(InputError, match="a run with other examples"):
        fit(config, TRAIN[1:], DEV, tmp_path / "run", resume=True, device="cpu")


def test_epochs_without_their_settings_are_nobodys(tmp_path: Path):
    run(tagging_config(epochs=1), tmp_path / "run")
    (tmp_path / "run" / "config.json").unlink()
    for resume in (False, True):
        with pytest.raises(InputError, match=r"epochs of a run without its config\.json"):
            run(tagging_config(epochs=1), tmp_path / "run", resume=resume)


def test_a_second_training_in_the_folder_is_refused(tmp_path: Path):
    seen: list[str] = []

    def second(now: EpochReport) -> None:
        if not seen:
            with pytest.raises(BusyError, match=r"run: process \d+ on .* \(since .*\)") as caught:
                run(tagging_config(epochs=1), tmp_path / "run", resume=True)
            seen.append(str(caught.value))

    run(tagging_config(epochs=1), tmp_path / "run", report=second)
    assert "\n" not in seen[0]


def test_what_killed_writers_left_is_swept(tmp_path: Path):
    run(tagging_config(epochs=1), tmp_path / "run")
    left = [tmp_path / "run" / ".best.0123456789ab.elmore-tmp"]
    left.append(tmp_path / "run" / "checkpoints" / ".epoch-002.0123456789ab.elmore-tmp")
    for path in left:
        path.mkdir()
    run(tagging_config(epochs=1), tmp_path / "run", resume=True)
    assert not any(path.exists() for path in left)


def test_a_fine_tuned_model_that_did_not_change_is_told(tmp_path: Path, tiny_model: Path):
    encoder = EncoderConfig(source=str(tiny_model), own=OWN, fine_tune=True)
    one = run(tagging_config(encoder=encoder, epochs=1), tmp_path / "one")
    assert "fine-tuning has changed nothing" in one.notes[-1]
    more = run(tagging_config(encoder=encoder, epochs=4), tmp_path / "more")
    assert more.best_epoch > 1
    assert not any("fine-tuning" in note for note in more.notes)


def test_a_dev_set_of_training_examples_is_told(tmp_path: Path):
    told = "dev: 30 of 30 examples are training examples too"
    fitted = fit(tagging_config(epochs=1), TRAIN, TRAIN[:30], tmp_path / "a", device="cpu")
    assert any(told in note for note in fitted.notes)
    others = [Tagged((*e.words[:-1], "!"), e.tags) for e in DEV]
    apart = fit(tagging_config(epochs=1), TRAIN, others, tmp_path / "b", device="cpu")
    assert not any("training examples too" in note for note in apart.notes)


def test_a_score_of_nothing_is_told(tmp_path: Path):
    never = [Tagged(("we", "met"), ("O", "O"))] * 8
    fitted = fit(tagging_config(epochs=1), never, DEV, tmp_path / "run", device="cpu")
    assert "dev: f1 is exactly 0: no prediction is right" in fitted.notes
    assert "f1 is exactly 0: no prediction is right" in fitted.model.evaluate(DEV).notes


def test_vectors_that_know_few_of_the_words_are_told(tmp_path: Path):
    static = write_static(tmp_path)
    strange = [Tagged((f"w{i}", f"v{i}"), ("O", "S-LOC")) for i in range(30)]
    fitted = fit(tagging_config(f"glove:{static}", epochs=1), strange, DEV, tmp_path / "a")
    assert any("has no vector for" in note for note in fitted.notes)
    usual = run(tagging_config(f"glove:{static}", epochs=1), tmp_path / "b")
    assert not any("has no vector for" in note for note in usual.notes)


def test_no_examples_are_told(tmp_path: Path):
    with pytest.raises(InputError, match="no train examples"):
        fit(tagging_config(), [], DEV, tmp_path / "run")
    with pytest.raises(InputError, match="no dev examples"):
        fit(tagging_config(), TRAIN, [], tmp_path / "run")


def test_a_gradient_that_is_not_a_number_is_told(tmp_path: Path):
    with pytest.raises(InputError, match="Epoch 1: the gradient is NaN or infinite"):
        run(tagging_config(lr=1e30), tmp_path / "run")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "no such file; expected a folder that a training has made"),
        ("{", "config.json"),
        ('{"format": "x"}', "config.json"),
    ],
)
def test_a_folder_that_is_no_run_is_told(tmp_path: Path, content: str | None, said: str):
    if content is not None:
        (tmp_path / "config.json").write_text(content, encoding="utf-8")
    with pytest.raises(FormatError, match=said):
        TaskModel.load(tmp_path)


def test_a_run_of_another_version_and_a_damaged_one_are_told(tmp_path: Path):
    run(tagging_config(epochs=1), tmp_path / "run")
    path = best_epoch(tmp_path / "run") / "model.safetensors"
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(FormatError, match=r"model.safetensors: damaged: its checksum differs"):
        TaskModel.load(tmp_path / "run")
    saved = read_saved(tmp_path / "run").model_copy(update={"version": 9})
    (tmp_path / "run" / "config.json").write_text(saved.model_dump_json(), encoding="utf-8")
    with pytest.raises(FormatError, match="version 9; this elmore reads"):
        TaskModel.load(tmp_path / "run")


def test_predictions_keep_the_order_of_the_examples(tmp_path: Path):
    config = classification_config(epochs=1)
    model = fit(config, labelled(60, 1), labelled(20, 2), tmp_path / "run", device="cpu").model
    examples = [Labelled(("it",) * n) for n in (3, 150, 1, 70)] + labelled(70, 4)
    together = model.predict(examples)
    assert together == [model.predict([example])[0] for example in examples]


def test_batches_hold_every_example_once_and_lengths_alike():
    import numpy as np

    lengths = [int(n) for n in np.random.default_rng(0).integers(1, 60, size=1000)]
    batches = training_batches(lengths, 16, np.random.default_rng(1))
    assert sorted(i for batch in batches for i in batch) == list(range(1000))
    spread = [max(lengths[i] for i in b) - min(lengths[i] for i in b) for b in batches]
    assert sum(spread) / len(spread) < 6
    assert batches != training_batches(lengths, 16, np.random.default_rng(2))
    assert sorted(i for batch in plain_batches(lengths, 16) for i in batch) == list(range(1000))


def test_settings_are_strict():
    with pytest.raises(ValueError, match="extra"):
        FitConfig.model_validate({"task": {"kind": "tagging"}, "epoch": 3})
    with pytest.raises(ValueError, match="hiden"):
        FitConfig.model_validate({"task": {"kind": "tagging", "hiden": 3}})


def test_a_run_of_version_1_is_read_and_resumed(tmp_path: Path):
    """There, labels were the only state, and an encoder's sources were called parts."""
    config = tagging_config(epochs=2)
    whole = run(config, tmp_path / "whole")
    with pytest.raises(Killed):
        run(config, tmp_path / "run", report=killer(2, 0.5))
    path = tmp_path / "run" / "config.json"
    saved = json.loads(path.read_text())
    saved["version"], saved["labels"] = 1, saved.pop("state")["labels"]
    del saved["checksum"]
    path.write_text(json.dumps(saved))
    record = epochs(tmp_path / "run")[-1] / "progress.json"
    progress = json.loads(record.read_text())
    del progress["checksum"], progress["sha256"]
    record.write_text(json.dumps(progress))
    for file in record.parent.glob("*.safetensors"):
        tensors = load_file(file)
        assert any("encoder.sources." in name for name in tensors)
        save_file({n.replace(".sources.", ".parts."): t for n, t in tensors.items()}, file)
    assert same(whole, run(config, tmp_path / "run", resume=True))
