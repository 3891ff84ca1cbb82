"""bilm-tf's two dumps under its names, against the oracle and its own recorded vectors."""

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmore.errors import InputError
from elmore.integrations.bilm_tf import dump_bilm_embeddings, dump_token_embeddings
from tests.shared import SHARED, needs
from tests.tiny_models import WORDS, Tiny, make

LINES = ["The river bank .", "naïve", "The river bank ."]


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return make(tmp_path / "model")


def test_token_embeddings_are_context_free_and_half_as_wide(tiny: Tiny, tmp_path: Path):
    words = [word for word in WORDS if word not in ("<S>", "</S>")]
    (tmp_path / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    out = tmp_path / "tokens.hdf5"
    dump_token_embeddings(tmp_path / "vocab.txt", tiny.options_path, tiny.weights, out)
    with h5py.File(out) as file:
        table = file["embedding"][...]
    assert (table.shape, table.dtype) == ((len(words), 8), np.float32)
    for row, word in zip(table, words, strict=True):
        np.testing.assert_allclose(row, tiny.layers([word])[0][0, 0, :8], rtol=0, atol=1e-5)
    (tmp_path / "empty.txt").write_text("\n")
    with pytest.raises(InputError, match=r"empty\.txt: no words"):
        dump_token_embeddings(tmp_path / "empty.txt", None, tiny.weights, tmp_path / "x.hdf5")


@pytest.mark.parametrize("stateful", [False, True])
def test_sentences_by_line_number(tiny: Tiny, tmp_path: Path, stateful: bool):
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    out, state = tmp_path / "out.hdf5", None
    dump_bilm_embeddings(
        None, tmp_path / "in.txt", tiny.options_path, tiny.weights, out, stateful=stateful
    )
    with h5py.File(out) as file:
        assert set(file) == {"0", "1", "2"}
        for i, line in enumerate(LINES):
            layers, after = tiny.layers(line.split(), state)
            state: Any = after if stateful else None
            np.testing.assert_allclose(file[str(i)][...], layers, rtol=0, atol=2e-5)


@needs("fixtures", "allennlp-lstm")
def test_the_recorded_token_embeddings(tmp_path: Path):
    folder = SHARED / "fixtures" / "allennlp-lstm"
    out = tmp_path / "tokens.hdf5"
    files = folder / "options.json", folder / "lm_weights.hdf5"
    dump_token_embeddings(folder / "vocab_test.txt", *files, out)
    with h5py.File(out) as file, h5py.File(folder / "elmo_token_embeddings.hdf5") as expected:
        np.testing.assert_allclose(
            file["embedding"][...], expected["embedding"][...], rtol=1e-5, atol=1e-6
        )
