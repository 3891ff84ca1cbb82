"""Names and globs to files: each once, in order, and never none without an error."""

from pathlib import Path

import pytest

from elmore.errors import InputError
from elmore.files.find_files import find_files


def test_files_and_globs_are_found_once_each_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    files = [tmp_path / f"shard{i}.txt" for i in range(3)]
    for path in files:
        path.write_text("word\n")
    assert find_files([tmp_path / "*.txt"]) == files
    assert find_files([files[2], str(tmp_path / "shard?.txt")]) == [files[2], files[0], files[1]]
    monkeypatch.chdir(tmp_path)
    assert find_files(["shard*.txt"]) == [Path(path.name) for path in files]


def test_a_name_with_a_bracket_is_that_file(tmp_path: Path):
    odd = tmp_path / "a[1].txt"
    odd.write_text("word\n")
    assert find_files([odd]) == [odd]


@pytest.mark.parametrize("pattern", ["nothing.txt", "*.nothing", "folder"])
def test_a_pattern_that_finds_nothing_is_an_error_that_names_it(tmp_path: Path, pattern: str):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="no such file"):
        find_files([tmp_path / pattern])
