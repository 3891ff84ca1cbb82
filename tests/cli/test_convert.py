"""`elmore convert`: there and back without losing a bit."""

from pathlib import Path

import pytest

from elmore.cli.main import main
from tests.lens.lensed import with_lens


def test_a_model_converts_to_hdf5_and_back(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "there").mkdir()
    assert main(["convert", str(tiny_model), str(tmp_path / "there/w.hdf5")]) == 0
    written = capsys.readouterr().out.splitlines()
    assert written == [str(tmp_path / "there/w.hdf5"), str(tmp_path / "there/options.json")]
    assert main(["convert", str(tmp_path / "there/w.hdf5"), str(tmp_path / "back")]) == 0
    assert sorted(path.name for path in tiny_model.iterdir()) == [
        Path(line).name for line in capsys.readouterr().out.splitlines()
    ]
    for path in tiny_model.iterdir():
        assert (tmp_path / "back" / path.name).read_bytes() == path.read_bytes()


def test_options_may_lie_elsewhere(tiny_model: Path, tmp_path: Path):
    assert main(["convert", str(tiny_model), str(tmp_path / "w.hdf5")]) == 0
    (tmp_path / "options.json").rename(tmp_path / "elsewhere.txt")
    arguments = ["convert", str(tmp_path / "w.hdf5"), str(tmp_path / "back")]
    assert main(arguments) == 2
    assert main([*arguments, "--options", str(tmp_path / "elsewhere.txt")]) == 0


@pytest.mark.parametrize("ending", ["hdf5", "h5"])
def test_what_hdf5_has_no_place_for_is_told(
    ending: str, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    model = with_lens(tiny_model, tmp_path / "with")
    assert main(["convert", str(model), str(tmp_path / f"w.{ending}")]) == 0
    assert "written without the lens for meaning" in capsys.readouterr().err
    assert main(["convert", str(model), str(tmp_path / "w.zip")]) == 0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("target", ["", "no/folder", "no/w.hdf5"])
def test_a_target_that_is_taken_or_impossible_is_refused(
    tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], target: str
):
    assert main(["convert", str(tiny_model), str(tmp_path / target)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("elmore: ")
    assert err.count("\n") == 1
    assert list(tmp_path.iterdir()) == []
