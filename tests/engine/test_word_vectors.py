"""Tables of known words: bounded, right after words have made room, and the same as the model's."""

import numpy as np
import pytest
import torch

from elmore.engine.gate_table import LruRows
from elmore.engine.word_vectors import WordVectors
from elmore.nn.char_cnn import CharCNN, CharCNNConfig
from elmore.text.byte_reader import ByteReader
from tests.engine.engines import KERNELS

CONFIG = CharCNNConfig(filters=((1, 4), (2, 6), (7, 30)), n_highway=2, dim=8)
WORDS = ["river", "bank", "", "x" * 60, "naïve", "東京", *(f"w{i}" for i in range(300))]


def spelling(config: CharCNNConfig = CONFIG) -> CharCNN:
    torch.manual_seed(0)
    return CharCNN(config).requires_grad_(False).eval()


def expected(module: CharCNN, words: list[str]) -> torch.Tensor:
    vectors: torch.Tensor = module(torch.from_numpy(ByteReader().spell(words)))
    return vectors


def test_the_oldest_words_make_room():
    known = LruRows(3)
    assert known.rows(["a", "b", "c"])[1] == [0, 1, 2]
    rows, new = known.rows(["d", "a"])  # a is used again, so b goes
    assert new == [0]
    assert ("a" in known, "b" in known, "c" in known, "d" in known) == (True, False, True, True)
    assert len(known) == 3
    assert len(set(rows.tolist())) == 2
    known.forget()
    assert len(known) == 0


@pytest.mark.parametrize("kernel", [None, *KERNELS.values()], ids=["torch", *KERNELS])
@pytest.mark.parametrize(
    "config",
    [CONFIG, CONFIG.model_copy(update={"activation": "tanh", "layer_norm": True})],
    ids=["relu", "tanh, norm"],
)
def test_look_ups_are_the_convolutions(config: CharCNNConfig, kernel):  # type: ignore[no-untyped-def]
    module = spelling(config)
    found = WordVectors(module, 8, ByteReader(), kernel)(WORDS)
    torch.testing.assert_close(found, expected(module, WORDS), rtol=0, atol=1e-5)


def test_look_ups_in_double_precision_are_exact():
    module = spelling().double()
    found = WordVectors(module, 8, ByteReader())(WORDS)
    torch.testing.assert_close(found, expected(module, WORDS), rtol=0, atol=1e-13)


def test_a_large_alphabet_keeps_its_convolutions():
    module = spelling(CONFIG.model_copy(update={"n_characters": 2000}))
    vectors = WordVectors(module, 8, ByteReader())
    assert vectors._look_ups is None
    torch.testing.assert_close(vectors(WORDS), expected(module, WORDS), rtol=0, atol=1e-5)


def test_a_full_table_stays_in_its_bounds_and_right():
    module = spelling()
    vectors = WordVectors(module, 8, ByteReader(), n_bytes=32 * 8 * 4)
    rng = np.random.default_rng(0)
    for size in (10, 32, 31, 5, 200, 1, 32):
        words = [WORDS[i] for i in rng.permutation(len(WORDS))[:size]]
        torch.testing.assert_close(vectors(words), expected(module, words), rtol=0, atol=1e-5)
        assert len(vectors.known) <= 32
        assert vectors._table.shape == (32, 8)


def test_a_failure_leaves_no_row_that_was_never_filled():
    class Fails(ByteReader):
        """Once."""

        failed = False

        def spell(self, words):  # type: ignore[no-untyped-def]
            if not self.failed:
                self.failed = True
                raise MemoryError
            return super().spell(words)

    module = spelling()
    vectors = WordVectors(module, 8, Fails())
    with pytest.raises(MemoryError):
        vectors(WORDS[:5])
    torch.testing.assert_close(vectors(WORDS[:5]), expected(module, WORDS[:5]), rtol=0, atol=1e-5)
