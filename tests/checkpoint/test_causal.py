"""The folder of a causal model: read again with its softmax, and refused when it is damaged."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from elmore.checkpoint.causal import causal_lm
from elmore.checkpoint.sources import load, save
from elmore.errors import ElmoreError, FormatError
from tests.tiny_causal import LSTM, PLAIN, tiny_causal, tiny_pieces

pytest.importorskip("tokenizers")
SOFTMAX = Path("heads") / "softmax.safetensors"


@pytest.mark.parametrize("tied", [True, False])
def test_the_softmax_is_read_again(tmp_path: Path, tied: bool):
    made = tiny_causal(PLAIN, tied=tied)
    save(made, tmp_path / "lm")
    again = load(tmp_path / "lm", heads=True)
    for name, tensor in made.heads["softmax"].state_dict().items():
        assert torch.equal(again.heads["softmax"].state_dict()[name], tensor)
    assert set(load_file(tmp_path / "lm" / SOFTMAX)) == ({"bias"} if tied else {"bias", "weight"})
    lm = causal_lm(again, "lm")
    assert (lm.softmax.weight is lm.causal.pieces.weight) == tied
    with pytest.raises(FormatError, match="has no softmax"):
        causal_lm(load(tmp_path / "lm"), "lm")


def damage_config(folder: Path, **changes: object) -> None:
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, **changes}))


def test_damaged_folders_are_refused(tmp_path: Path):
    def saved(name: str) -> Path:
        save(tiny_causal(LSTM), tmp_path / name)
        return tmp_path / name

    folder = saved("pieces")
    for name, content in tiny_pieces(262).files().items():
        (folder / name).write_bytes(content)
    with pytest.raises(FormatError, match=r"its vocabulary has 262 pieces, but the model 2\d\d"):
        load(folder)
    folder = saved("version")
    damage_config(folder, version=9)
    with pytest.raises(FormatError, match="version 9"):
        load(folder)
    folder = saved("size")
    model = json.loads((folder / "config.json").read_text())["model"]
    damage_config(folder, model={**model, "n_pieces": 10**12})
    with pytest.raises(FormatError, match="but its config calls for"):
        load(folder)
    folder = saved("softmax")
    save_file({"bias": torch.zeros(3)}, folder / SOFTMAX)
    with pytest.raises(FormatError, match="'bias' has shape"):
        load(folder, heads=True)
    folder = saved("merges")
    (folder / "merges.txt").unlink()
    with pytest.raises(ElmoreError, match=r"merges\.txt"):
        load(folder)
    folder = saved("nan")
    tensors = load_file(folder / "model.safetensors")
    tensors["pieces.weight"][0, 0] = torch.nan
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(FormatError, match="NaN"):
        load(folder)
