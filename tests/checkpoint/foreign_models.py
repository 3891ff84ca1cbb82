"""Small random models on disk in every foreign format but HDF5, made by the oracle."""

import copy
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from tests.checkpoint.table_writer import block, float_entries, table
from tests.oracle import lstm_elmo, manylangs, transformer_elmo
from tests.tiny_models import OPTIONS

Arrays = dict[str, npt.NDArray[np.float32]]

TRANSFORMER: dict[str, Any] = {
    "model": {
        "type": "language_model",
        "bidirectional": True,
        "contextualizer": {
            "type": "bidirectional_language_model_transformer",
            "input_dim": 16,
            "hidden_dim": 12,
            "num_layers": 2,
            "dropout": 0.1,
            "input_dropout": 0.2,
        },
        "num_samples": 10,
        "sparse_embeddings": True,
        "text_field_embedder": {
            "token_embedders": {
                "token_characters": {
                    "type": "character_encoding",
                    "encoder": {
                        "type": "cnn-highway",
                        "activation": "relu",
                        "embedding_dim": 4,
                        "filters": [[1, 4], [2, 8], [3, 9]],
                        "num_highway": 2,
                        "projection_dim": 16,
                        "projection_location": "after_highway",
                        "do_layer_norm": True,
                    },
                }
            }
        },
    }
}
TOKENS = ["@@UNKNOWN@@", "<S>", "</S>", "the", "river", "bank", "."]
N_ROWS = len(TOKENS) + 1  # padding has no line, and yet a row
TASK: dict[str, Any] = {
    "dataset_reader": {"type": "conll2003"},
    "model": {
        "text_field_embedder": {
            "elmo": {
                "type": "elmo_token_embedder",
                "options_file": "https://somewhere.example/elmo_options.json",
                "do_layer_norm": False,
            }
        }
    },
}
MANYLANGS: dict[str, Any] = {
    "encoder": {
        "name": "elmo", "dim": 12, "projection_dim": 8, "n_layers": 2,
        "cell_clip": 3, "proj_clip": 3,
    },
    "token_embedder": {
        "name": "cnn", "activation": "relu", "filters": [[1, 4], [2, 6], [3, 5]],
        "n_highway": 1, "word_dim": 6, "char_dim": 4, "max_characters_per_token": 50,
    },
    "dropout": 0.1,
}  # fmt: skip
CHARACTERS = [*"theriv bank今天.", "\u3000", "<bos>", "<eos>", "<oov>", "<pad>", "<bow>", "<eow>"]
CHARACTERS.remove(" ")
CHAR_DIC = {item: i for i, item in enumerate(dict.fromkeys(CHARACTERS))}
WORD_DIC = {w: i for i, w in enumerate(["<oov>", "<bos>", "<eos>", "<pad>", "the", "river", "今"])}


def save_tensors(arrays: Arrays, path: Path, *, old: bool = False) -> None:
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    torch.save(tensors, path, _use_new_zipfile_serialization=not old)


def transformer_with(encoder: dict[str, Any] | None = None, **model: Any) -> dict[str, Any]:
    config = copy.deepcopy(TRANSFORMER)
    config["model"].update(model)
    config["model"]["text_field_embedder"]["token_embedders"]["token_characters"]["encoder"].update(
        encoder or {}
    )
    return config


def make_transformer(
    folder: Path, config: dict[str, Any] = TRANSFORMER, *, old: bool = True
) -> Arrays:
    """config.json, weights.th and vocabulary/tokens.txt in `folder`."""
    (folder / "vocabulary").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    rng = np.random.default_rng(1)
    W = transformer_elmo.random_weights(config, rng, N_ROWS, n_positions=60)
    if config["model"].get("num_samples") is None:
        W["_softmax_loss.softmax_w"] = np.ascontiguousarray(W["_softmax_loss.softmax_w"].T)
    save_tensors(W, folder / "weights.th", old=old)
    tokens = "".join(f"{token}\n" for token in TOKENS)
    (folder / "vocabulary" / "tokens.txt").write_text(tokens, encoding="utf-8")
    return W


def make_task(folder: Path, options: dict[str, Any] = OPTIONS, *, n_mixes: int = 2) -> Arrays:
    """A task's archive, unpacked: ELMo, its mixes, other tensors, the options as AllenNLP keeps
    them."""
    (folder / "fta").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(TASK), encoding="utf-8")
    kept = "model.text_field_embedder.elmo.options_file"
    (folder / "fta" / kept).write_text(json.dumps(options), encoding="utf-8")
    rng = np.random.default_rng(2)
    W = transformer_elmo.task_archive_random_weights(options, rng, n_mixes=n_mixes)
    others = {"tag_projection_layer._module.weight": np.ones((3, 5), np.float32)}
    save_tensors(W | others, folder / "weights.th")
    return W


def make_manylangs(
    folder: Path, config: dict[str, Any] = MANYLANGS, *, old: bool = False
) -> Arrays:
    """A model folder; without `word_dim` it has no word.dic."""
    folder.mkdir(parents=True)
    outer = {"seed": 1, "config_path": "C:\\else\\where/cnn_tiny.json"}
    (folder / "config.json").write_text(json.dumps(outer), encoding="utf-8")
    (folder / "cnn_tiny.json").write_text(json.dumps(config), encoding="utf-8")
    write_dic(folder / "char.dic", CHAR_DIC)
    if config["token_embedder"]["word_dim"]:
        write_dic(folder / "word.dic", WORD_DIC)
    rng = np.random.default_rng(3)
    tokens, lstms = manylangs.random_weights(config, rng, len(WORD_DIC), len(CHAR_DIC))
    save_tensors(tokens, folder / "token_embedder.pkl", old=old)
    save_tensors(lstms, folder / "encoder.pkl", old=old)
    return tokens | lstms


def write_dic(path: Path, ids: dict[str, int]) -> None:
    path.write_text("".join(f"{item}\t{i}\n" for item, i in ids.items()), encoding="utf-8")


TF_PARTS = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}


def tf_name(name: str) -> str:
    """The variable of bilm-tf that became this dataset."""
    if "LSTMCell" not in name:
        return f"lm/{name}"
    at, _, part = name.rpartition("/")
    at = at.replace("/RNN/MultiRNNCell/Cell", "/rnn/multi_rnn_cell/cell_")
    return f"lm/{at.replace('/LSTMCell', '/lstm_cell')}/{TF_PARTS[part]}"


def make_bilm_tf(folder: Path, options: dict[str, Any] = OPTIONS, *, vocab_size: int = 9) -> Arrays:
    """A checkpoint with an optimizer's slots and a softmax, and options.json."""
    folder.mkdir(parents=True)
    (folder / "options.json").write_text(json.dumps(options), encoding="utf-8")
    W = lstm_elmo.random_weights(options, np.random.default_rng(4), vocab_size)
    values = {tf_name(name): array for name, array in W.items()}
    values |= {f"{name}/Adagrad": np.ones_like(array) for name, array in values.items()}
    entries, data = float_entries(values)
    (folder / "model.ckpt-7.index").write_bytes(table([block(entries)]))
    (folder / "model.ckpt-7.data-00000-of-00001").write_bytes(data)
    line = 'model_checkpoint_path: "/else/where/model.ckpt-7"\n'
    (folder / "checkpoint").write_text(line, encoding="utf-8")
    return W


def pack_tar(folder: Path, target: Path) -> Path:
    with tarfile.open(target, "w:gz") as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, str(path.relative_to(folder)), recursive=False)
    return target


def pack_zip(folder: Path, target: Path, inside: str = "") -> Path:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(folder.rglob("*")):
            archive.write(path, inside + str(path.relative_to(folder)))
    return target
