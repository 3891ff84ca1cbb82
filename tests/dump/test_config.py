"""What a dump refuses before a model is loaded."""

from pathlib import Path

import pytest

from elmore.dump.config import DumpConfig, check_target, format_of
from elmore.errors import ConfigError, InputError


@pytest.mark.parametrize("choice", ["", "middle", "0,", "-1", "0;2", "1.5", "٣"])
def test_an_unreadable_choice_of_layers_is_refused(choice: str):
    with pytest.raises(ConfigError, match=r"layers is .*expected all, top, average"):
        DumpConfig(layers=choice)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"resume": True, "format": "npz"}, "npz dump cannot be resumed"),
        ({"resume": True, "format": "jsonl"}, "jsonl dump cannot be resumed"),
        ({"resume": True, "stateful": True}, "state is not saved"),
        ({"use_sentence_keys": True, "format": "jsonl"}, "no keys"),
        ({"batch_words": 0}, "batch_words is 0"),
        ({"batch_sentences": -1}, "batch_sentences is -1"),
    ],
)
def test_settings_that_contradict_are_refused(settings: dict[str, object], message: str):
    with pytest.raises(ConfigError, match=message):
        DumpConfig(**settings)


def test_the_ending_names_the_format_unless_one_is_given():
    assert format_of(Path("a.hdf5")) == format_of(Path("a.h5")) == "hdf5"
    assert format_of(Path("a.npz")) == "npz"
    assert format_of(Path("a.jsonl")) == format_of(Path("-")) == "jsonl"
    assert format_of(Path("a.dat"), "npz") == "npz"
    with pytest.raises(ConfigError, match=r"a\.dat.*\.hdf5, \.h5, \.npz, \.jsonl"):
        format_of(Path("a.dat"))
    with pytest.raises(ConfigError, match="hdf5 cannot go to standard output"):
        format_of(Path("-"), "hdf5")


def test_a_target_that_is_taken_is_refused(tmp_path: Path):
    file = tmp_path / "a.hdf5"
    (tmp_path / "a.hdf5.partial").mkdir()
    with pytest.raises(InputError, match=r"a\.hdf5\.partial .*--resume, or remove it"):
        check_target(file, DumpConfig())
    check_target(file, DumpConfig(resume=True))
    file.touch()
    with pytest.raises(InputError, match="exists already"):
        check_target(file, DumpConfig())
    with pytest.raises(InputError, match="is a folder"):
        check_target(tmp_path, DumpConfig())


@pytest.mark.parametrize("config", [DumpConfig(), DumpConfig(format="npz")])
def test_a_target_that_cannot_be_written_is_refused(tmp_path: Path, config: DumpConfig):
    with pytest.raises(InputError, match="no such folder"):
        check_target(tmp_path / "none" / "a", config)
    with pytest.raises(InputError, match="cannot be written"):
        check_target(Path("/proc/a"), config)  # which refuses root too


def test_looking_at_a_target_leaves_no_trace(tmp_path: Path):
    check_target(tmp_path / "a.hdf5", DumpConfig())
    assert list(tmp_path.iterdir()) == []
