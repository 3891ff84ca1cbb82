"""The command line as a newcomer meets it: short options, completion, hints, a model by default,
and mistakes that are told before anything heavy is imported."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from elmore import __version__
from elmore.cli.default_model import language_of, model_for
from elmore.cli.main import main
from elmore.errors import ConfigError, InputError
from elmore.pretrain.curve import draw_curve, read_curves
from elmore.train.log import LOG

ENGLISH = "We sat on the river bank .\n"
CHINESE = "我们 坐 在 河 边 。\n"


@pytest.mark.parametrize("arguments", [["-h"], ["embed", "-h"], ["store", "fill", "-h"]])
def test_h_is_help(arguments: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(arguments) == 0
    assert f"Usage: elmore {' '.join(arguments[:-1])}".rstrip() in capsys.readouterr().out


def test_v_is_the_version(capsys: pytest.CaptureFixture[str]):
    assert main(["-V"]) == 0
    assert capsys.readouterr().out == f"elmore {__version__}\n"


def test_a_shell_completes_verbs_and_options():
    def complete(words: str) -> str:
        asked = {"_ELMORE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": "1"}
        asked["COMP_CWORD"] = str(len(words.split(" ")) - 1)
        done = subprocess.run(
            [sys.executable, "-m", "elmore"], env={**os.environ, **asked},
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        return done.stdout

    assert set(complete("elmore em").split()) == {"embed"}
    assert "--tokenize" in complete("elmore embed --tok").split()


@pytest.mark.parametrize(
    ("arguments", "path"),
    [(["embed", "--no-such"], "elmore embed"), (["store", "fill"], "elmore store fill")],
)
def test_a_mistake_names_the_help_of_its_command(
    arguments: list[str], path: str, capsys: pytest.CaptureFixture[str]
):
    assert main(arguments) == 2
    assert capsys.readouterr().err.rstrip().endswith(f"See {path} --help.")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["embed", "absent.txt", "x.hdf5"], "absent.txt: no such file"),
        (["embed", "-", "x.hdf5", "--model", "smal-en"], "Did you mean small-en"),
        (["pretrain", "absent.txt", "--output", "run"], "absent.txt: no such file"),
        (["index", "absent.txt", "--output", "i"], "absent.txt: no such file"),
        (["convert", "absent", "there"], "No model 'absent'"),
        (["evaluate", "absent", "-"], "No model 'absent'"),
        (["store", "fill", "absent.txt", "s.store"], "absent.txt: no such file"),
        (["serve", "--model", "absent"], "No model 'absent'"),
        (["lens", "absent", "absent.txt", "--output", "there"], "absent.txt: no such file"),
        (["export", "absent", "-", "x.txt", "--static"], "No model 'absent'"),
    ],
)
def test_missing_files_are_told_before_torch_is_imported(
    tmp_path: Path, arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch
):
    code = (
        "import sys; from elmore.cli.main import main; code = main(sys.argv[1:]);"
        "sys.exit(99 if 'torch' in sys.modules else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2, done.stderr
    assert said in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["embed", "empty.txt", "x.hdf5"],
        ["store", "fill", "empty.txt", "s.store"],
        ["store", "plan", "empty.txt"],
        ["index", "empty.txt", "--output", "i"],
        ["pretrain", "empty.txt", "--output", "run"],
        ["evaluate", "small-en", "empty.txt"],
        ["lens", "small-en", "empty.txt", "--output", "there"],
        ["export", "small-en", "empty.txt", "x.txt", "--static"],
    ],
)
def test_an_empty_file_is_refused_in_the_same_words(
    arguments: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.chdir(tmp_path)
    Path("empty.txt").touch()
    assert main(arguments) == 2
    expected = "elmore: empty.txt: no sentence found; expected one per line.\n"
    assert capsys.readouterr().err == expected
    assert list(tmp_path.iterdir()) == [tmp_path / "empty.txt"]


def test_without_a_model_the_included_one_is_used_and_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = tmp_path / "text.txt"
    text.write_text(ENGLISH)
    assert main(["embed", str(text), str(tmp_path / "x.jsonl"), "--layers", "top"]) == 0
    told = "elmore: model small-en, the included one for English text; --model chooses another."
    assert told in capsys.readouterr().err.splitlines()
    quiet = ["embed", str(text), str(tmp_path / "y.jsonl"), "--layers", "top", "--quiet"]
    assert main(quiet) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (ENGLISH, "en"),
        ("Über die Straße .\n", "en"),  # Latin letters, which it can spell
        (CHINESE, "zh"),
        ("Мы сидели у реки .\n", None),
        ("私たちは川のほとりに座った。\n", None),
        ("123 . !\n", "en"),
    ],
)
def test_the_language_is_read_off_the_letters(tmp_path: Path, text: str, language: str | None):
    (tmp_path / "text.txt").write_text(text, encoding="utf-8")
    assert language_of([tmp_path / "text.txt"]) == language


def test_of_a_long_line_only_the_beginning_is_looked_at(tmp_path: Path):
    path = tmp_path / "text.txt"
    path.write_text("word " * 30_000 + "我们坐在河边" * 100_000 + "\n", encoding="utf-8")
    assert language_of([path]) == "en"


def test_a_text_that_no_included_model_reads_needs_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr("elmore.cli.default_model.shipped_names", lambda: ["small-en"])
    (tmp_path / "text.txt").write_text(CHINESE, encoding="utf-8")
    with pytest.raises(InputError, match=r"looks Chinese, and no model for it is included"):
        model_for(None, [tmp_path / "text.txt"], quiet=True)
    assert model_for("mine", [tmp_path / "text.txt"], quiet=False) == "mine"
    monkeypatch.setattr("elmore.cli.default_model.shipped_names", lambda: ["small-zh"])
    assert model_for(None, [tmp_path / "text.txt"], quiet=False) == "small-zh"
    assert "small-zh, the included one for Chinese text" in capsys.readouterr().err


def test_convert_packs_a_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "mine.tar.gz"
    assert main(["convert", "small-en", str(target)]) == 0
    assert capsys.readouterr().out == f"{target}\n"
    assert main(["doctor", str(target)]) == 0


# Curves


def log(folder: Path) -> None:
    lines: list[object] = [
        {"step": 10, "loss": 5.0, "forward": 5.1, "norm": 2.0},
        {"step": 20, "loss": 4.0, "forward": 4.2},
        {"step": 20, "valid_perplexity": 60.0},
    ]
    text = "\n".join(map(json.dumps, lines)) + '\n{"step": 30, "lo'
    (folder / LOG).write_text(text)


def test_curves_are_read_from_the_log_of_a_run_that_was_killed(tmp_path: Path):
    log(tmp_path)
    training, validation = read_curves(tmp_path)
    assert training == {"loss": [(10, 5.0), (20, 4.0)], "forward": [(10, 5.1), (20, 4.2)]}
    assert validation == {"valid_perplexity": [(20, 60.0)]}


def test_a_picture_is_drawn(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="needs the extra plot")
    log(tmp_path)
    picture = draw_curve(tmp_path)
    assert picture == tmp_path / "curve.png"
    assert picture.read_bytes().startswith(b"\x89PNG")
    (tmp_path / LOG).write_text("")
    with pytest.raises(InputError, match="no figures yet"):
        draw_curve(tmp_path)


def test_without_matplotlib_it_is_said_before_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("elmore.pretrain.curve.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"pip install 'elmore\[plot\]'"):
        draw_curve(tmp_path)
