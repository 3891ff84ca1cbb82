"""A model card says what is in the files, and nothing else."""

import json
from pathlib import Path

import pytest

from elmore.cli.main import main
from elmore.errors import ConfigError, FormatError
from elmore.integrations.model_card import CardFacts, card_text, run_of
from elmore.pretrain.run import pretrain
from tests.pretrain.tiny_runs import corpus, sentences


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("card")
    config = sentences()
    loop = config.loop.model_copy(update={"steps": 4, "valid_steps": 2})
    text = corpus(folder)
    pretrain(text, folder / "run", config.model_copy(update={"loop": loop}), valid=text[0])
    return folder / "run"


def test_the_card_of_a_run(run: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["card", str(run), "--license", "mit", "--data", "Made-up circles."]) == 0
    card = capsys.readouterr().out
    rows = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    best = min(row["valid_average"] for row in rows if "valid_average" in row)
    assert f"Validation perplexity {best:.2f} after step" in card
    known = json.loads((run / "run.json").read_text())
    assert f"{known['words']:,} words in {known['sentences']:,} sentences" in card
    assert "Made-up circles." in card
    assert "| parameters | " in card
    assert str(run.parent) not in card.partition("## Data")[2].partition("## Perplexity")[0]
    assert card.endswith("## License\n\nmit\n")


def test_a_checkpoint_of_a_run_is_of_the_run(run: Path):
    (newest, *_) = sorted((run / "checkpoints").iterdir())
    assert run_of(str(newest)) == run
    assert run_of("small-en") is None


def test_what_is_not_known_is_not_made_up():
    card = card_text(CardFacts(name="x"), [("dim", "4")], None, [])
    assert "Not recorded." in card
    assert "Not recorded; `elmore evaluate MODEL TEXT` computes it." in card
    assert card.endswith("## License\n\nNot stated.\n")
    assert "license:" not in card


def test_names_cannot_write_html_or_break_the_table():
    card = card_text(CardFacts(name="<b>x"), [("note", "a | b\n<script>")], None, [])
    assert "| note | a \\| b &lt;script> |" in card
    assert "# &lt;b>x" in card


def test_the_front_matter_takes_codes_only():
    with pytest.raises(ConfigError, match="expected a code such as mit"):
        card_text(CardFacts(name="x", license="mit\nevil: yes"), [], None, [])


def test_a_damaged_log_is_said(run: Path):
    log = run / "log.jsonl"
    before = log.read_text()
    log.write_text(before + "{nonsense\n")
    with pytest.raises(FormatError, match="cannot be read as the log of a run"):
        card_text(CardFacts(name="x"), [], run, [])
    log.write_text(before)


def test_a_file_is_not_overwritten(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    target = tmp_path / "README.md"
    assert main(["card", str(run), "--output", str(target)]) == 0
    assert target.read_text().startswith("---\nlibrary_name: elmore\n")
    assert main(["card", str(run), "--output", str(target)]) == 2
    assert "exists already" in capsys.readouterr().err
