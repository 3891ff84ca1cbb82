"""`elmore doctor`: what is installed, and what a model is."""

import sys
from pathlib import Path

import pytest
import torch

from elmore import __version__
from elmore.checkpoint.bilm import bilm_checkpoint
from elmore.checkpoint.sources import save
from elmore.cli import doctor
from elmore.cli.main import main
from elmore.embedder import Embedder
from elmore.engine.runner import describe
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.transformer import TransformerConfig
from elmore.nn.word_char import WordCharConfig
from elmore.train import precision
from tests.tiny_models import make


def table(capsys: pytest.CaptureFixture[str]) -> dict[str, str]:
    lines = capsys.readouterr().out.splitlines()
    return dict(line.split(maxsplit=1) for line in lines)


def test_the_machine_is_described(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(doctor, "EXTRAS", {"there": "sys", "zst": "no_such_module"})
    assert main(["doctor"]) == 0
    said = table(capsys)
    assert said["elmore"] == __version__
    assert said["Python"] == ".".join(map(str, sys.version_info[:3]))
    assert said["torch"] == torch.__version__
    assert {"numpy", "h5py", "threads", "engine", "CUDA", "models"} <= set(said)
    assert said["engine"] == describe()
    assert said["[there]"] == "installed"
    assert said["[zst]"] == "missing: pip install 'elmore[zst]'"


def test_a_model_is_described(tiny_model: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["doctor", str(tiny_model)]) == 0
    said = table(capsys)
    assert said["format"] == "native"
    assert said["input"] == (
        "characters, at most 50 per word, filters 1x4 2x6 3x5 (relu), 1 highway"
    )
    assert said["context"] == (
        "LSTM, 2 layers, 12 cells, 8 per direction, cell clip 3.0, projection clip 3.0, "
        "skip connections"
    )
    assert (said["dim"], said["layers"][0]) == ("16", "3")
    # characters 261*4; filters (4+1)*4, (8+1)*6, (12+1)*5; highway 2*(15*15+15); projection
    # 15*8+8; four cells of 16*48+48 and 12*8
    assert said["parameters"] == f"{1044 + 20 + 54 + 65 + 480 + 128 + 4 * (816 + 96):,}"
    assert said["vocabulary"] == said["softmax"] == "missing"
    assert said["fingerprint"] == Embedder.load(tiny_model).fingerprint[:12]


def test_files_vocabulary_and_softmax_are_found(tmp_path: Path):
    model = make(tmp_path / "m", words=True)
    found = doctor.examine(str(model.weights))
    assert found.input == "words, a table of 9"
    assert (found.format, found.vocabulary, found.heads[1]) == ("hdf5", "9 words", "missing")
    assert [path.name for path in found.files] == ["weights.hdf5", "options.json", "vocab.txt"]
    checkpoint = bilm_checkpoint(Embedder.load(model.weights).model, softmax=torch.nn.Linear(8, 4))
    save(checkpoint, tmp_path / "native")
    found = doctor.examine(str(tmp_path / "native"))
    assert (found.vocabulary, *found.heads) == ("missing", "softmax", "there")
    assert found.fingerprint is None


def test_the_published_model_has_its_published_number_of_parameters():
    with torch.device("meta"):
        model = BiLM(BiLMConfig())
    assert doctor._parameters(bilm_checkpoint(model)) == 93_600_848


def test_words_beside_their_spelling_are_described():
    characters = CharCNNConfig(n_characters=999, filters=((1, 4),), dim=4, project=False)
    said = doctor._input(WordCharConfig(characters=characters, n_words=1000, word_dim=3))
    assert said.startswith("words, a table of 1,000, and characters, at most 50 per word")
    said = doctor._input(WordCharConfig(characters=characters))
    assert said.startswith("characters, at most 50 per word")


def test_a_transformer_is_described():
    said = doctor._context(TransformerConfig(dim=16, n_heads=4, ff_dim=32, n_layers=3))
    assert said == "Transformer, 3 layers, 4 heads, 16 per direction, feed-forward 32"


def test_a_model_that_is_not_there_is_one_line(capsys: pytest.CaptureFixture[str]):
    assert main(["doctor", "no-such-model"]) == 2
    assert capsys.readouterr().err.startswith("elmore: No model 'no-such-model'")


@pytest.mark.parametrize(
    ("speedup", "said"),
    [
        (2.14, "2.1 times as fast as float32 in training products on the CPU: precision=auto uses"),
        (0.91, "0.9 times as fast as float32 in training products on the CPU: precision=auto does"),
    ],
)
def test_whether_bfloat16_is_worth_it(
    speedup: float, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(precision, "bfloat16_speedup", lambda: speedup)
    assert main(["doctor"]) == 0
    assert table(capsys)["bfloat16"].startswith(said)
