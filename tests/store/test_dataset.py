"""A store behind PyTorch's DataLoader, in this process and in others."""

import pickle

import numpy as np
import pytest
from torch.utils.data import DataLoader

from elmore import Embedder, Store
from elmore.store.dataset import StoreDataset

SENTENCES = [[f"w{i}", "bank", *["x"] * (i % 4)] for i in range(12)]


@pytest.fixture(scope="module")
def store(tiny_embedder: Embedder, tmp_path_factory: pytest.TempPathFactory) -> Store:
    store = Store.create(tmp_path_factory.mktemp("dataset") / "s", tiny_embedder)
    store.fill(SENTENCES)
    return store


@pytest.mark.parametrize(("workers", "way"), [(0, None), (2, "fork")])
def test_every_worker_reads_the_same(store: Store, workers: int, way: str | None):
    data = pickle.loads(pickle.dumps(StoreDataset(store.path)))  # as a spawned worker gets it
    assert len(pickle.dumps(data)) < 1000
    loader = DataLoader(
        data, batch_size=5, num_workers=workers, multiprocessing_context=way,
        collate_fn=StoreDataset.collate,
    )  # fmt: skip
    seen = []
    for batch in loader:
        for i, words in enumerate(batch.words):
            seen.append(words)
            n = len(words)
            assert batch.states.mask[i].sum() == n
            np.testing.assert_array_equal(batch.states.layers[:, i, :n], store[words].layers)
            assert not batch.states.layers[:, i, n:].any()
    assert seen == SENTENCES


def test_numbers(store: Store):
    data = StoreDataset(store)
    assert len(data) == 12
    assert data[-1].words == SENTENCES[-1]
    assert data[3].number == 3
    with pytest.raises(IndexError, match=r"Sentence 12, but .* has 12"):
        data[12]
