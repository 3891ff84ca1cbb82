"""`elmore task` from the outside: what it writes, prints, notes and refuses."""

import json
from pathlib import Path

import pytest

from elmore.cli.main import main
from elmore.cli.task import TRAINED
from elmore.tasks.recipes import RECIPES
from tests.tasks.bert_tasks import write_tiny_bert
from tests.tasks.tiny_data import squad, write_columns

SMALL = ["--epochs", "1", "--set", "task.hidden=4", "--set", "encoder.own.word_dim=4"]
TREES = "(3 (2 It) (4 works))\n(1 (2 It) (0 fails))\n"
WORDS = "1\tit\tit\tPRON\t_\t_\t0\troot\t_\t_\n2\trained\train\tVERB\t_\t_\t1\tx\t_\t_\n\n"
PAIRS = "a man sleeps\ta man rests\t0\na man sleeps\tnobody sleeps\t2\n"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    write_columns(folder)
    return folder


@pytest.fixture(scope="module")
def model(data: Path) -> Path:
    """A named-entity model that has learnt something."""
    settings = ("task.hidden=16", "batch=4", "lr=0.02", "halve_after=20", "patience=20")
    longer = ["--epochs", 10, "--quiet", *(part for s in settings for part in ("--set", s))]
    assert train(data, data / "model", *longer) == 0
    return data / "model"


def train(data: Path, output: Path, *arguments: object, name: str = "ner") -> int:
    files = ["--train", data / "train.txt", "--dev", data / "dev.txt", "--output", output]
    settings = ["--set", "task.hidden=8", "--set", "batch=8"]
    return main(["task", "train", name, *map(str, files), *settings, *map(str, arguments)])


def refused(capsys: pytest.CaptureFixture[str], code: int) -> str:
    """The one line that a refused command says."""
    out, err = capsys.readouterr()
    assert code == 2
    assert out == ""
    assert err.startswith("elmore: ")
    assert err.count("\n") == 1
    return err


def test_the_names_are_those_of_the_recipes():
    assert list(TRAINED) == list(RECIPES)


# What it does -------------------------------------------------------------------------------------


def test_training_says_how_it_goes_and_what_came_of_it(
    data: Path, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    assert train(data, tmp_path / "m", "--epochs", 2, "--encoder", tiny_model) == 0
    out, err = capsys.readouterr()
    first, mix = out.splitlines()
    assert first.startswith(f"{tmp_path / 'm'}: epoch ")
    assert " of 2, dev f1 " in first
    assert mix.startswith(f"{tiny_model} input: s = 0.")
    told = "dev: f1 is exactly 0: no prediction is right"  # so small a model may learn nothing
    assert all(line.endswith(told) for line in err.splitlines()[2:])
    assert [line.split("  ")[0] for line in err.splitlines()[:2]] == ["epoch 1", "epoch 2"]


@pytest.mark.parametrize("name", ["ner", "sst", "entailment", "qa", "pos"])
def test_a_bert_is_fine_tuned_scored_and_used(
    name: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    bert = write_tiny_bert(tmp_path / "bert", max_positions=64)
    plain = {"sst": "It works\n", "entailment": PAIRS, "qa": squad(), "ner": "Bob saw Carla\n"}
    text = {"sst": TREES, "entailment": PAIRS, "qa": squad(), "pos": WORDS}.get(name)
    for file in ("train.txt", "dev.txt"):
        (tmp_path / file).write_text((data / file).read_text() if text is None else text)
    (tmp_path / "new.txt").write_text(plain.get(name, "it rained\n"))
    dev, folder, new = (str(tmp_path / name) for name in ("dev.txt", "m", "new.txt"))
    files = ["--train", str(tmp_path / "train.txt"), "--dev", dev, "--output", folder]
    tuned = ["--encoder", f"bert:{bert}", "--fine-tune", "--epochs", "2", "--quiet"]
    tuned += ["--set", "precision=bfloat16"] if name == "sst" else []
    assert main(["task", "train", name, *files, *tuned]) == 0
    model = ["--model", folder, "--quiet"]
    assert main(["task", "evaluate", name, *model, "--test", dev]) == 0
    assert main(["task", "predict", name, new, *model]) == 0
    score, *lines = capsys.readouterr().out.splitlines()
    assert " " in score
    assert lines
    assert all(json.loads(line) for line in lines)


def test_a_trained_model_is_evaluated_by_its_folder(
    data: Path, model: Path, capsys: pytest.CaptureFixture[str]
):
    files = ["--model", str(model), "--test", str(data / "train.txt")]
    assert main(["task", "evaluate", "ner", *files]) == 0
    figures = capsys.readouterr().out.split()
    assert figures[::2] == ["f1", "precision", "recall"]
    assert float(figures[1]) > 60


def test_predictions_are_json_lines_to_stdout_or_to_a_file(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = tmp_path / "new.txt"
    text.write_text("Bob saw Carla .\nit rained .\n")
    command = ["task", "predict", "ner", str(text), "--model", str(model)]
    assert main(command) == 0
    printed = capsys.readouterr().out
    found = [json.loads(line) for line in printed.splitlines()]
    assert [line["words"] for line in found] == [
        ["Bob", "saw", "Carla", "."],
        ["it", "rained", "."],
    ]
    assert all(len(line["tags"]) == len(line["words"]) for line in found)
    assert main([*command, "--output", str(tmp_path / "found.jsonl")]) == 0
    assert (tmp_path / "found.jsonl").read_text() == printed


def test_a_finished_training_resumed_is_only_told_again(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for resume in ([], ["--resume"]):
        assert train(data, tmp_path / "m", "--epochs", 1, *resume) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == second


def test_quiet_says_nothing(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert train(data, tmp_path / "m", "--epochs", 1, "--quiet") == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("name", "content", "plain"),
    [
        ("sst", TREES, "It works\n"),
        ("entailment", PAIRS, "a man sleeps\ta man rests\n"),
        ("qa", squad(), squad()),
        ("taglm", "Bob B-PER\nslept O\n\nit O\nrained O\n", "Bob slept\n"),
    ],
)
def test_every_other_task_trains_evaluates_and_predicts(
    name: str, content: str, plain: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    given, new = tmp_path / "given", tmp_path / "new"
    given.write_text(content)
    new.write_text(plain)
    files = ["--train", str(given), "--dev", str(given), "--output", str(tmp_path / "m")]
    assert main(["task", "train", name, *files, *SMALL, "--quiet"]) == 0
    model = ["--model", str(tmp_path / "m")]
    assert main(["task", "evaluate", name, *model, "--test", str(given), "--quiet"]) == 0
    assert main(["task", "predict", name, str(new), *model, "--quiet"]) == 0
    figures, *predictions = capsys.readouterr().out.splitlines()
    assert len(figures.split()) >= 2
    assert len(predictions) == (2 if name == "qa" else 1)
    assert all(isinstance(json.loads(line), dict) for line in predictions)


# What it notes ------------------------------------------------------------------------------------


def test_labels_that_training_has_not_seen_are_counted_wrong_and_told(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "new.txt").write_text("Acme B-ORG\nslept O\n")
    files = ["--model", str(model), "--test", str(tmp_path / "new.txt")]
    assert main(["task", "evaluate", "ner", *files]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("f1 0.00")
    assert "new.txt: " in err
    assert "not seen in training" in err
    assert "B-ORG" in err


def test_words_longer_than_the_model_reads_are_told(
    data: Path, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    long = tmp_path / "train.txt"
    long.write_text(f"{'x' * 300} B-PER\nslept O\n")
    (tmp_path / "dev.txt").write_text((data / "dev.txt").read_text())
    assert train(tmp_path, tmp_path / "m", "--epochs", 1, "--encoder", tiny_model) == 0
    err = capsys.readouterr().err
    assert f"1 different words are longer than {tiny_model} reads" in err
    files = ["--model", str(tmp_path / "m"), "--test", str(long)]
    assert main(["task", "evaluate", "ner", *files]) == 0
    assert f"1 different words are longer than {tiny_model} reads" in capsys.readouterr().err
    long.write_text("y" * 70)
    assert main(["task", "predict", "ner", str(long), "--model", str(tmp_path / "m")]) == 0
    assert f"1 different words are longer than {tiny_model} reads" in capsys.readouterr().err


def test_lines_without_words_are_counted_and_a_file_of_them_is_refused(
    model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    plain = tmp_path / "plain.txt"
    plain.write_text("Bob slept\n\nBob\n\n")
    assert main(["task", "predict", "ner", str(plain), "--model", str(model)]) == 0
    out, err = capsys.readouterr()
    assert len(out.splitlines()) == 2
    assert "plain.txt: 2 blank lines left out" in err
    plain.write_text("\n\n")
    code = main(["task", "predict", "ner", str(plain), "--model", str(model)])
    assert "plain.txt: no words found" in refused(capsys, code)


def test_answers_that_are_not_in_their_paragraph_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    given = tmp_path / "squad.json"
    given.write_text(squad(answer="in Rome"))
    files = ["--train", str(given), "--dev", str(given), "--output", str(tmp_path / "m")]
    assert main(["task", "train", "qa", *files, *SMALL]) == 0
    err = capsys.readouterr().err
    said = "squad.json: answers that are not in their paragraph"
    assert [line[-1] for line in err.splitlines() if said in line] == ["1", "1"]  # train and dev


# What it refuses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("ner", "", "train.txt: no sentence found"),
        ("ner", "Bob B-PER\nslept\n", "train.txt, line 2: "),
        ("ner", "Bob NNP\n", "train.txt, line 1: the tag 'NNP'"),
        ("pos", "1\tBob\tBob\n", "train.txt, line 1: "),
        ("sst", "", "train.txt: no tree found"),
        ("sst", "(3 (2 It) (4 works)\n", "train.txt, line 1: "),
        ("entailment", "a man sleeps\t0\n", "train.txt, line 1: "),
        ("entailment", "", "train.txt: "),
        ("qa", "{", "train.txt"),
        ("qa", '{"data": []}', "train.txt"),
        ("qa", "[]", "train.txt: the whole file: no object"),
        ("qa", '{"data": ' + "1" * 5000 + "}", "train.txt: JSON that cannot be read"),
        ("ner", "Bob B-PER\rslept O\r", "train.txt, line 1: a carriage return"),
        ("entailment", "text_a\ttext_b\tlabel\na\tb\t0\n", "train.txt, line 1: names of columns"),
        ("entailment", '{"premise": "a", "hypothesis": "b", "label": "\\ud800"}\n', "line 1: half"),
    ],
)
def test_examples_that_cannot_be_read(
    name: str, content: str, said: str, data: Path, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    (tmp_path / "train.txt").write_text(content)
    (tmp_path / "dev.txt").write_text((data / "dev.txt").read_text())
    assert said in refused(capsys, train(tmp_path, tmp_path / "m", name=name))
    assert not (tmp_path / "m").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--train", "absent.txt"], "absent.txt"),
        (["--encoder", "absent-model"], "absent-model"),
        (["--encoder", "glove:absent.txt"], "absent.txt"),
        (["--encoder", "none+"], "empty"),
        (["--fine-tune"], "fine-tune"),
        (["--set", "task.hiden=3"], "hiden"),
        (["--set", "task.hidden=many"], "task"),
        (["--set", "epochs"], "name=value"),
        (["--epochs", "0"], "epochs"),
        (["--seed", "-1"], "seed"),
        (["--seed", str(10**30)], "seed"),
        (["--set", "clip=Infinity"], "clip"),
        (["--set", "lr=1e400"], "lr"),
        (["--set", "encoder.own.max_characters=3"], "max_characters=3"),
        (["--set", "encoder.own.filters=[]"], "encoder.own: the spelling"),
        (["--set", "task.late_after=2"], "late_after is 2"),
        (["--set", "tuning.lr=0.1"], "only for a model that is fine-tuned"),
        (["--encoder", "bert:absent+tune", "--set", "lr=0.1"], "has settings of its own"),
        (["--encoder", "bert:absent+tune", "--set", "precision=double"], "precision"),
        (["--encoder", "bert:absent+tune", "--set", "tuning.clip=0"], "tuning.clip"),
        (["--encoder", "none+tune"], "+tune is for a model"),
    ],
)
def test_options_that_make_no_sense(
    arguments: list[str], said: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    assert said in refused(capsys, train(data, tmp_path / "m", *arguments))
    assert not (tmp_path / "m").exists()


def test_a_task_that_does_not_exist(data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert "ner, chunking" in refused(capsys, train(data, tmp_path / "m", name="parsing"))
    assert "parsing" in refused(capsys, main(["task", "evaluate", "parsing"]))


def test_a_folder_that_holds_a_run_already(
    data: Path, model: Path, capsys: pytest.CaptureFixture[str]
):
    assert "holds a run already" in refused(capsys, train(data, model))
    assert "other settings" in refused(capsys, train(data, model, "--resume", "--seed", 2))


def test_a_model_of_another_task_or_none_at_all(
    data: Path, model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    test = ["--test", str(data / "test.txt")]
    code = main(["task", "evaluate", "sst", "--model", str(model), *test])
    assert "is a model for tagging spans, not for sst" in refused(capsys, code)
    code = main(["task", "predict", "pos", str(data / "test.txt"), "--model", str(model)])
    assert "is a model for tagging spans, not for pos" in refused(capsys, code)
    code = main(["task", "evaluate", "ner", "--model", str(tmp_path), *test])
    assert str(tmp_path) in refused(capsys, code)
