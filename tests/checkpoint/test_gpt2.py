"""Files of GPT-2: the reference model, models of `transformers`, what is written, and what is
refused.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from elmore import Embedder
from elmore.checkpoint.bert_config import word_options
from elmore.checkpoint.causal import causal_lm, causal_of, subwords_of
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.gpt2 import gpt2_name
from elmore.checkpoint.sources import find_source, load, save
from elmore.cli.main import main
from elmore.errors import ElmoreError
from tests.shared import SHARED, needs
from tests.tiny_gpt2 import END, gpt2_pieces, tiny_gpt2

pytest.importorskip("tokenizers")
FIXTURE = SHARED / "fixtures" / "gpt2"
LINE = "the old bank , naïve 東京 grassy".split()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    save(tiny_gpt2(), tmp_path / "model")
    return tmp_path / "model"


def configure(folder: Path, **changed: Any) -> None:
    path = folder / "config.json"
    options = json.loads(path.read_text("utf-8")) | changed
    path.write_text(json.dumps({k: v for k, v in options.items() if v is not ...}), "utf-8")


def rewrite(folder: Path, **added: torch.Tensor) -> None:
    path = folder / "model.safetensors"
    save_file(load_file(path) | added, path)


def states(checkpoint: Checkpoint, ids: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Hidden states (L, B, T, D) and logits (B, T, V)."""
    lm = causal_lm(checkpoint, "here").eval()
    with torch.no_grad():
        layers, _ = lm.causal.run(torch.as_tensor(ids, dtype=torch.long))
        logits = layers[-1] @ lm.softmax.weight.T + lm.softmax.bias.squeeze(-1)
    return torch.stack(layers).numpy(), logits.numpy()


# The reference ------------------------------------------------------------------------------------


@needs("fixtures", "gpt2")
@pytest.mark.parametrize("converted", [False, True])
def test_the_reference_model(tmp_path: Path, converted: bool):
    """Within 1e-5 of float64 numbers, as read and as written again."""
    source = FIXTURE
    if converted:
        source = tmp_path / "again"
        assert main(["convert", str(FIXTURE), str(source)]) == 0
    checkpoint = load(source, heads=True)
    with np.load(FIXTURE / "expected.npz") as expected:
        for i in range(4):
            real = expected[f"{i}.attention_mask"].astype(bool)
            layers, logits = states(checkpoint, expected[f"{i}.input_ids"])
            theirs = expected[f"{i}.hidden_states"]
            np.testing.assert_allclose(layers[:, real], theirs[:, real], rtol=0, atol=1e-5)
            if i < 2:
                theirs = expected[f"{i}.logits"]
                np.testing.assert_allclose(logits[real], theirs[real], rtol=0, atol=1e-5)


@needs("fixtures", "gpt2")
@pytest.mark.parametrize("files", ["tokenizer.json", "vocab.json, merges.txt"])
def test_words_are_the_pieces_of_their_text(tmp_path: Path, files: str):
    """The text of the reference, given as words, has its pieces and so its vectors."""
    for name in ["config.json", "model.safetensors", *files.split(", ")]:
        (tmp_path / name).write_bytes((FIXTURE / name).read_bytes())
    checkpoint = load(tmp_path)
    words = "The old man went to the sea.".split()
    pieces = subwords_of(checkpoint).pieces(words)
    ends = np.cumsum([len(word) for word in pieces]) - 1
    with np.load(FIXTURE / "expected.npz") as expected:
        assert [i for word in pieces for i in word] == expected["0.input_ids"][0].tolist()
        theirs = expected["0.hidden_states"][:, 0]  # (3, 11, D)
    (found,) = Embedder(checkpoint, device="cpu").embed([words])
    np.testing.assert_allclose(found.layers[1:], theirs[1:, ends], rtol=0, atol=1e-5)
    one, two = pieces[0], pieces[1]
    spread = theirs[0, len(one) : len(one) + len(two)].mean(axis=0)
    np.testing.assert_allclose(found.layers[0, 1], spread, rtol=0, atol=1e-5)


# `transformers` -----------------------------------------------------------------------------------

_RANDOM = [
    {"n_embd": 12, "n_head": 3, "n_layer": 3, "n_inner": 20, "layer_norm_epsilon": 1e-3},
    {"n_embd": 8, "n_head": 1, "n_layer": 1, "activation_function": "relu"},
    {"n_embd": 8, "n_head": 4, "n_layer": 2, "tie_word_embeddings": False},
    {"n_embd": 8, "n_head": 2, "n_layer": 2, "activation_function": "gelu"},
]


@pytest.mark.parametrize("given", _RANDOM, ids=str)
def test_models_of_transformers_are_read_and_written(tmp_path: Path, given: dict[str, Any]):
    transformers = pytest.importorskip("transformers")
    pieces, ids = gpt2_pieces(), torch.arange(1, 25).reshape(2, 12)
    config = transformers.GPT2Config(
        vocab_size=len(pieces), n_positions=16, bos_token_id=0, eos_token_id=0, **given
    )
    torch.manual_seed(3)
    theirs = transformers.GPT2LMHeadModel(config).eval()
    for parameter in theirs.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    theirs.save_pretrained(tmp_path / "theirs")
    for name, content in pieces.files().items():
        (tmp_path / "theirs" / name).write_bytes(content)
    checkpoint = load(tmp_path / "theirs", heads=True)
    save(checkpoint, tmp_path / "ours")
    again = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "ours").eval()
    layers, logits = states(checkpoint, ids)
    for model in (theirs, again):
        with torch.no_grad():
            found = model(ids, output_hidden_states=True)
        hidden = torch.stack(found.hidden_states).numpy()
        np.testing.assert_allclose(layers, hidden, rtol=0, atol=1e-5)
        np.testing.assert_allclose(logits, found.logits.numpy(), rtol=0, atol=1e-5)
    named = theirs.state_dict(), again.state_dict()
    assert all(torch.equal(named[1][name], tensor) for name, tensor in named[0].items())


def test_transformers_reads_the_same_pieces(folder: Path):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    found = gpt2_pieces().pieces(LINE)
    assert [i for word in found for i in word] == tokenizer(" ".join(LINE))["input_ids"]
    assert (tokenizer.bos_token, tokenizer.eos_token) == (END, END)


# Layouts ------------------------------------------------------------------------------------------


def test_every_tensor_has_a_name_of_its_own():
    ours = [*tiny_gpt2(n_layers=12).model.state_dict()]
    assert len({gpt2_name(name) for name in ours}) == len(ours) == 4 + 12 * 12


def test_files_without_prefix_with_masks_in_torch_files_and_in_parts(folder: Path, tmp_path: Path):
    expected = load(folder).fingerprint()
    tensors = load_file(folder / "model.safetensors")
    plain = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    plain |= {"h.0.attn.bias": torch.ones(1, 1, 9, 9), "h.1.attn.masked_bias": torch.tensor(-1e4)}
    plain["lm_head.weight"] = plain["wte.weight"].clone()
    (folder / "model.safetensors").unlink()
    torch.save(plain, folder / "pytorch_model.bin")
    assert load(folder, heads=True).fingerprint() == expected
    (folder / "pytorch_model.bin").unlink()
    parts = {"a.safetensors": [*tensors][:5], "b.safetensors": [*tensors][5:]}
    for name, inside in parts.items():
        save_file({key: tensors[key] for key in inside}, folder / name)
    index = {"weight_map": {key: name for name, inside in parts.items() for key in inside}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert load(folder).fingerprint() == expected
    configure(folder, model_type=...)  # as in the oldest files
    assert find_source(folder).format == "gpt2"


def test_heads_and_spare_rows_are_noted(folder: Path):
    table = torch.zeros(300, 8)
    rewrite(folder, **{"score.weight": torch.zeros(2, 8), "transformer.wte.weight": table})
    configure(folder, vocab_size=300)
    notes = load(folder).notes
    assert notes[0] == "not read: score.weight."
    assert notes[1] == f"{300 - len(gpt2_pieces())} rows of its table have no piece."


# Words and windows --------------------------------------------------------------------------------


def test_how_pieces_become_words(folder: Path, tmp_path: Path):
    found = {}
    for pieces in ("first", "mean", None):
        checkpoint = load(folder, words=word_options(pieces=pieces))
        (embedded,) = Embedder(checkpoint, device="cpu").embed([LINE])
        found[pieces] = embedded.layers
        save(checkpoint, tmp_path / f"{pieces}")
        assert causal_of(load(tmp_path / f"{pieces}")).config == causal_of(checkpoint).config
    checkpoint = load(folder, heads=True)
    pieces = subwords_of(checkpoint).pieces(LINE)
    ids = [i for word in pieces for i in word]
    layers = states(checkpoint, [ids])[0][:, 0]  # (L, P, D)
    ends = np.cumsum([len(word) for word in pieces])
    for w, (word, end) in enumerate(zip(pieces, ends, strict=True)):
        of_word = layers[:, end - len(word) : end]
        np.testing.assert_allclose(found["first"][:, w], of_word[:, 0], atol=1e-6)
        np.testing.assert_allclose(found["mean"][:, w], of_word.mean(axis=1), atol=1e-6)
        np.testing.assert_allclose(found[None][1:, w], of_word[1:, -1], atol=1e-6)
        np.testing.assert_allclose(found[None][0, w], of_word[0].mean(axis=0), atol=1e-6)


def test_a_long_text_is_read_in_windows_and_to_its_end(folder: Path):
    """Each piece as in the first window that has it: 32 positions, a new window every 16."""
    checkpoint = load(folder, heads=True)
    words = [LINE[i % len(LINE)] for i in range(40)]
    pieces = subwords_of(checkpoint).pieces(words)
    ids = [i for word in pieces for i in word]
    assert len(ids) > 100
    starts = [*range(0, len(ids) - 32, 16), len(ids) - 32]
    found, (embedded,) = [], Embedder(checkpoint, device="cpu").embed([words])
    for end in np.cumsum([len(word) for word in pieces]):
        start = next(s for s in starts if end <= s + 32)
        found.append(states(checkpoint, [ids[start : start + 32]])[0][1:, 0, end - 1 - start])
    np.testing.assert_allclose(embedded.layers[1:], np.stack(found, axis=1), rtol=0, atol=2e-6)


# Refused ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"scale_attn_by_inverse_layer_idx": True}, "scaled by layer"),
        ({"scale_attn_weights": False}, "not scaled"),
        ({"add_cross_attention": True}, "decoder of another model"),
        ({"activation_function": "silu"}, "'silu', not gelu_new"),
        ({"model_type": "gpt_neo"}, "GPT-Neo attends by windows"),
        ({"model_type": ..., "afn": "gelu"}, "the first GPT has norms after"),
        ({"n_layer": 5}, r"'h.4.mlp.c_fc.weight' of the top layer is missing.* 5 layers"),
        ({"n_layer": 1}, "contains 'h.1.*does not call for"),
        ({"n_head": 3}, "not divisible"),
        ({"n_embd": ...}, "n_embd"),
        ({"vocab_size": 100}, r"'wte.weight' is float32 of shape"),
        ({"n_positions": 10**15}, "wpe.weight"),
    ],
)
def test_a_config_that_means_something_else_is_refused(
    folder: Path, changed: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
):
    configure(folder, **changed)
    with pytest.raises(ElmoreError, match=message) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
    assert main(["doctor", str(folder)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_weights_and_pieces_that_do_not_fit_are_refused(folder: Path, tmp_path: Path):
    def damaged(name: str) -> Path:
        save(tiny_gpt2(), tmp_path / name)
        return tmp_path / name

    place = damaged("tied")
    rewrite(place, **{"lm_head.weight": torch.zeros(len(gpt2_pieces()), 8)})
    with pytest.raises(ElmoreError, match=r"'lm_head.weight' is not 'wte.weight'"):
        load(place)
    place = damaged("no pieces")
    (place / "merges.txt").unlink()
    with pytest.raises(ElmoreError, match=r"Looked for tokenizer.json, or vocab.json and"):
        load(place)
    place = damaged("merges")
    (place / "merges.txt").write_text("#version: 0.2\nq w\n")
    with pytest.raises(ElmoreError, match="lacks 'qw'"):
        load(place)
    (place / "merges.txt").write_text("#version: 0.2\na b c\n")
    with pytest.raises(ElmoreError, match="'a b c' is not two pieces"):
        load(place)
    place = damaged("WordPiece")
    other = {"model": {"type": "WordPiece", "vocab": {"a": 0}, "merges": []}}
    (place / "tokenizer.json").write_text(json.dumps(other))
    with pytest.raises(ElmoreError, match="otherwise than GPT-2"):
        load(place)
    with pytest.raises(ElmoreError, match="keep the case"):
        load(folder, words=word_options(lowercase=True))
