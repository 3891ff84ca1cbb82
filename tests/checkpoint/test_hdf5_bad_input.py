"""What a wrong or damaged HDF5 model says: one line with the file, the tensor, what was found and
what was expected. Never a traceback of another kind, never an allocation the file only declares."""

import json
import random
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import h5py
import numpy as np
import pytest

from elmore.checkpoint.hdf5 import read_hdf5
from elmore.errors import FormatError
from tests.tiny_models import OPTIONS, Tiny, make, options_with

CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return make(tmp_path)


def complaint(tiny: Tiny, **files: Path) -> str:
    with pytest.raises(FormatError) as caught:
        read_hdf5(tiny.weights, tiny.options_path, **files)
    message = str(caught.value)
    assert "\n" not in message
    return message


def says(message: str, *parts: object) -> None:
    for part in parts:
        assert str(part) in message, message


# Files --------------------------------------------------------------------------------------------


def test_missing_weights(tiny: Tiny):
    tiny.weights.unlink()
    says(complaint(tiny), tiny.weights, "no such file")


def test_missing_options(tiny: Tiny):
    tiny.options_path.unlink()
    says(complaint(tiny), tiny.options_path, "cannot be read")


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_truncated_weights(tiny: Tiny, kept: float):
    whole = tiny.weights.read_bytes()
    tiny.weights.write_bytes(whole[: int(kept * len(whole))])
    says(complaint(tiny), tiny.weights, "not a readable HDF5 file")


@pytest.mark.parametrize("content", [b"PK\x03\x04 a zip", b"\x1f\x8b", b"<html>404</html>"])
def test_weights_that_are_not_hdf5(tiny: Tiny, content: bytes):
    tiny.weights.write_bytes(content * 100)
    says(complaint(tiny), tiny.weights, "not a readable HDF5 file")


def test_a_folder_for_weights(tiny: Tiny):
    tiny.weights.unlink()
    tiny.weights.mkdir()
    says(complaint(tiny), tiny.weights)


def test_flipped_bits_give_a_complaint_or_a_model(tiny: Tiny):
    """In the structure they are noticed; in a number they cannot be, the format has no checksum."""
    whole, messages, rng = tiny.weights.read_bytes(), [], random.Random(3)
    with h5py.File(tiny.weights) as file:
        first_number = min(file[name].id.get_offset() for name in tiny.W)
    for _ in range(60):
        damaged = bytearray(whole)
        for _ in range(4):
            damaged[rng.randrange(min(first_number + 4000, len(whole)))] ^= 1 << rng.randrange(8)
        tiny.weights.write_bytes(damaged)
        try:
            read_hdf5(tiny.weights, tiny.options_path)
        except FormatError as error:
            messages.append(str(error))
    assert len(messages) > 5
    assert all(str(tiny.weights) in m and "\n" not in m for m in messages)


# Options ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "{", "not json", '{"lstm": {}', "[" * 100_000, "\ud800"])
def test_options_that_are_not_json(tiny: Tiny, text: str):
    tiny.options_path.write_bytes(text.encode("utf-8", "surrogatepass"))
    says(complaint(tiny), tiny.options_path, "not JSON")


@pytest.mark.parametrize("text", ["[]", "3", '"lstm"'])
def test_json_that_is_no_object(tiny: Tiny, text: str):
    tiny.options_path.write_text(text)
    says(complaint(tiny), tiny.options_path, "expected an object")


@pytest.mark.parametrize("text", ["{}", '{"lstm": 3}', '{"model": {}}'])
def test_json_that_is_not_options(tiny: Tiny, text: str):
    tiny.options_path.write_text(text)
    says(complaint(tiny), tiny.options_path, "no 'lstm' section")


def test_options_with_a_byte_order_mark_are_read(tiny: Tiny):
    tiny.options_path.write_bytes(b"\xef\xbb\xbf" + tiny.options_path.read_bytes())
    read_hdf5(tiny.weights, tiny.options_path)


REQUIRED = [
    *[("lstm", key) for key in ("dim", "projection_dim", "n_layers")],
    *[("char_cnn", k) for k in ("filters", "embedding", "activation", "max_characters_per_token")],
]


@pytest.mark.parametrize(("section", "key"), REQUIRED)
def test_a_missing_option(tiny: Tiny, section: str, key: str):
    tiny.options_path.write_text(json.dumps(options_with(**{section: {key: ...}})))
    says(complaint(tiny), tiny.options_path, f"{section}.{key}", "required")


WRONG = [
    ("lstm", "dim", "12", "integer"),
    ("lstm", "dim", -12, "greater than 0"),
    ("lstm", "dim", 0, "greater than 0"),
    ("lstm", "dim", True, "integer"),
    ("lstm", "projection_dim", None, "integer"),
    ("lstm", "projection_dim", 8.5, "integer"),
    ("lstm", "n_layers", [2], "integer"),
    ("lstm", "n_layers", -1, "greater than 0"),
    ("lstm", "cell_clip", "3", "number"),
    ("lstm", "cell_clip", -3, "greater than 0"),
    ("lstm", "proj_clip", 0, "greater than 0"),
    ("lstm", "use_skip_connections", "yes", "boolean"),
    ("char_cnn", "activation", "gelu", "'relu' or 'tanh'"),
    ("char_cnn", "embedding", 4, "dictionary"),
    ("char_cnn", "embedding", {"dim": -4}, "greater than 0"),
    ("char_cnn", "filters", 7, "list"),
    ("char_cnn", "filters", [[1, 4], [2]], "at least 2"),
    ("char_cnn", "filters", [[1, 4], [2, 3, 4]], "at most 2"),
    ("char_cnn", "filters", [[0, 4]], "greater than 0"),
    ("char_cnn", "filters", [[1, -4]], "greater than 0"),
    ("char_cnn", "n_characters", 300, "261 or 262"),
]


@pytest.mark.parametrize(("section", "key", "value", "expected"), WRONG)
def test_an_option_of_the_wrong_kind(tiny: Tiny, section: str, key: str, value: Any, expected: str):
    tiny.options_path.write_text(json.dumps(options_with(**{section: {key: value}})))
    says(complaint(tiny), tiny.options_path, f"{section}.{key}", "found", expected)


@pytest.mark.parametrize(
    ("section", "key", "value", "expected"),
    [
        ("char_cnn", "filters", [], "filters"),
        ("char_cnn", "filters", [[51, 4]], "filter width 51 is over max_characters=50"),
        ("char_cnn", "max_characters_per_token", 2, "greater than or equal to 3"),
        ("char_cnn", "n_highway", -1, "greater than or equal to 0"),
        ("lstm", "n_layers", 10**9, "less than or equal to 1000"),
    ],
)
def test_an_option_out_of_range(tiny: Tiny, section: str, key: str, value: Any, expected: str):
    tiny.options_path.write_text(json.dumps(options_with(**{section: {key: value}})))
    says(complaint(tiny), tiny.options_path, expected)


@pytest.mark.parametrize("clip", ["NaN", "Infinity"])
def test_a_clip_that_is_no_number(tiny: Tiny, clip: str):
    text = json.dumps(OPTIONS).replace('"cell_clip": 3', f'"cell_clip": {clip}')
    tiny.options_path.write_text(text)
    says(complaint(tiny), tiny.options_path, "cell_clip")


def test_neither_characters_nor_words(tiny: Tiny):
    tiny.options_path.write_text(json.dumps({"lstm": OPTIONS["lstm"]}))
    says(complaint(tiny), tiny.options_path, "'char_cnn'", "'embedding'")


# Weights that do not fit --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "tensor", "found", "expected"),
    [
        ({"lstm": {"dim": 13}}, f"{CELL}/W_0", "(16, 48)", "(16, 52)"),
        ({"lstm": {"projection_dim": 9}}, "CNN_proj/W_proj", "(15, 8)", "(15, 9)"),
        ({"char_cnn": {"embedding": {"dim": 5}}}, "char_embed", "(261, 4)", "(261, 5)"),
        (
            {"char_cnn": {"filters": [[1, 4], [3, 6]]}},
            "CNN/W_cnn_1",
            "(1, 2, 4, 6)",
            "(1, 3, 4, 6)",
        ),
        ({"lstm": {"n_layers": 3}}, "Cell2/LSTMCell/W_0", "missing", "(16, 48)"),
        ({"char_cnn": {"n_highway": 2}}, "CNN_high_1/W_transform", "missing", "(15, 15)"),
    ],
)
def test_options_of_another_model(
    tiny: Tiny, change: dict[str, Any], tensor: str, found: str, expected: str
):
    tiny.options_path.write_text(json.dumps(options_with(**change)))
    says(complaint(tiny), tiny.weights, tensor, found, "options.json calls for", expected)


def test_weights_with_more_layers_than_the_options_say(tiny: Tiny):
    tiny.options_path.write_text(json.dumps(options_with(lstm={"n_layers": 1})))
    says(complaint(tiny), tiny.weights, "Cell1/LSTMCell", "options.json does not call for")


Change = Callable[[h5py.File], object]


def replaced(name: str, **new: Any) -> Change:
    def change(file: h5py.File) -> None:
        del file[name]
        if new:
            file.create_dataset(name, **new)

    return change


def as_group(name: str) -> Change:
    def change(file: h5py.File) -> None:
        del file[name]
        file.create_group(name)

    return change


def test_a_dataset_where_a_folder_of_them_belongs(tiny: Tiny):
    with h5py.File(tiny.weights, "a") as file:
        replaced("CNN", data=np.zeros(3))(file)
    says(complaint(tiny), tiny.weights, "CNN/W_cnn_0")


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (replaced(f"{CELL}/B"), "missing"),
        (as_group(f"{CELL}/B"), "a group"),
        (replaced(f"{CELL}/B", data=np.zeros(48, np.int32)), "int32"),
        (replaced(f"{CELL}/B", data=np.zeros(48, np.complex64)), "complex64"),
        (replaced(f"{CELL}/B", data=np.zeros(48, "S4")), "bytes32"),
        (replaced(f"{CELL}/B", data=np.float32(0)), "()"),
        (replaced(f"{CELL}/B", data=h5py.Empty("f4")), "None"),
        (replaced(f"{CELL}/B", data=np.zeros((1, 48), np.float32)), "(1, 48)"),
        (replaced(f"{CELL}/B", shape=(2**40,), chunks=(1024,), dtype="f4"), f"({2**40},)"),
    ],
)
def test_a_tensor_that_is_something_else(tiny: Tiny, change: Change, found: str):
    with h5py.File(tiny.weights, "a") as file:
        change(file)
    says(complaint(tiny), tiny.weights, f"{CELL}/B", found, "float32 of shape (48,)")


@pytest.mark.parametrize("kind", ["soft", "external", "storage", "virtual"])
def test_weights_that_lie_elsewhere_are_not_fetched(tiny: Tiny, tmp_path: Path, kind: str):
    secret = tmp_path / "secret"
    secret.write_bytes(b"root:x:0:0" * 1000)
    with h5py.File(tiny.weights, "a") as file:
        del file["char_embed"]
        match kind:
            case "soft":
                file["char_embed"] = h5py.SoftLink("/nowhere")
            case "external":
                file["char_embed"] = h5py.ExternalLink(str(secret), "/char_embed")
            case "storage":
                file.create_dataset(
                    "char_embed", (261, 4), "f4", external=[(str(secret), 0, 261 * 16)]
                )
            case "virtual":
                layout = h5py.VirtualLayout((261, 4), "f4")
                layout[...] = h5py.VirtualSource(str(secret), "x", (261, 4), "f4")
                file.create_virtual_dataset("char_embed", layout)
    says(complaint(tiny), tiny.weights, "char_embed", "is a link or is stored in another file")


@pytest.mark.parametrize("rows", [2**26, 2**40, 2**60])
def test_a_table_that_is_only_declared_is_refused_before_it_is_read(tmp_path: Path, rows: int):
    tiny = make(tmp_path, words=True)
    with h5py.File(tiny.weights, "a") as file:
        replaced("embedding", shape=(rows, 8), chunks=(1024, 8), dtype="f4")(file)
    start = process_time()
    tracemalloc.start()
    message = complaint(tiny)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    says(message, tiny.weights, "embedding", f"{rows * 32:,} bytes", "stores 0")
    assert peak < 10_000_000
    assert process_time() - start < 2


def test_options_that_match_a_declared_giant_are_refused_too(tmp_path: Path):
    tiny = make(tmp_path)
    tiny.options_path.write_text(json.dumps(options_with(char_cnn={"embedding": {"dim": 2**40}})))
    with h5py.File(tiny.weights, "a") as file:
        replaced("char_embed", shape=(261, 2**40), chunks=(261, 16), dtype="f4")(file)
    says(complaint(tiny), tiny.weights, "char_embed", "damaged or hostile")


# Vocabulary and softmax ---------------------------------------------------------------------------


def test_a_vocabulary_longer_than_the_word_table(tmp_path: Path):
    tiny = make(tmp_path, words=True)
    path = tmp_path / "vocab.txt"
    with path.open("a", encoding="utf-8") as file:
        file.write("another\n")
    says(complaint(tiny, vocabulary=path), path, "10 words", "word table has 9 rows")


def softmax_file(folder: Path, weight: tuple[int, ...], bias: tuple[int, ...]) -> Path:
    path = folder / "softmax.hdf5"
    with h5py.File(path, "w") as file:
        file.create_dataset("softmax/W", data=np.zeros(weight, np.float32))
        file.create_dataset("softmax/b", data=np.zeros(bias, np.float32))
    return path


@pytest.mark.parametrize(
    ("weight", "bias", "tensor", "expected"),
    [
        ((9, 7), (9,), "softmax/W", "(9, 8)"),
        ((9, 8), (8,), "softmax/b", "(9,)"),
        ((9,), (9,), "softmax/W", "(9, 8)"),
        ((), (), "softmax/W", "(words, 8)"),
    ],
)
def test_a_softmax_that_does_not_fit(
    tiny: Tiny, weight: tuple[int, ...], bias: tuple[int, ...], tensor: str, expected: str
):
    path = softmax_file(tiny.weights.parent, weight, bias)
    says(complaint(tiny, softmax=path), path, tensor, expected)


def test_a_softmax_file_without_a_softmax(tiny: Tiny):
    says(complaint(tiny, softmax=tiny.weights), tiny.weights, "softmax/W", "(words, 8)")


def test_a_softmax_and_a_vocabulary_of_different_length(tmp_path: Path):
    tiny = make(tmp_path, words=True)
    softmax, path = softmax_file(tmp_path, (8, 8), (8,)), tmp_path / "vocab.txt"
    message = complaint(tiny, vocabulary=path, softmax=softmax)
    says(message, path, "9 words", "softmax has 8 rows")
