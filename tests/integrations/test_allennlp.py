"""The AllenNLP drop-in against the NumPy oracle on random tiny models, and against numbers that
AllenNLP's own reference files promise."""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from elmore.checkpoint.bilm import bilm_checkpoint
from elmore.checkpoint.sources import load, save
from elmore.embedder import Embedder
from elmore.errors import ConfigError, InputError
from elmore.integrations.allennlp import Elmo, ElmoEmbedder, ScalarMix, batch_to_ids
from elmore.integrations.allennlp_bilm import ElmoBiLm
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.transformer import TransformerConfig
from tests.oracle import lstm_elmo, scalar_mix
from tests.shared import SHARED, needs

Array = npt.NDArray[np.float64]

ATOL = 2e-5  # float32 here, float64 there
BATCH = [["We", "sat", "by", "the", "bank", "."], ["Bank", "?"], [], ["naïve", "語", "x" * 60]]
OPTIONS: dict[str, Any] = {
    "lstm": {
        "dim": 12, "projection_dim": 6, "n_layers": 2, "cell_clip": 3, "proj_clip": 3,
        "use_skip_connections": True,
    },
    "char_cnn": {
        "activation": "relu", "embedding": {"dim": 4}, "filters": [[1, 4], [2, 6]],
        "max_characters_per_token": 50, "n_characters": 262, "n_highway": 1,
    },
}  # fmt: skip


@dataclass(frozen=True)
class Model:
    """A model on disk, and what the oracle says of it."""

    options: Path
    weights: Path
    W: lstm_elmo.Weights
    settings: dict[str, Any]

    def with_marks(self, words: Sequence[str]) -> Array:
        """All layers, the marks' vectors too: (L, n + 2, D)."""
        x = lstm_elmo.marked_inputs(self.W, self.settings, words)
        ahead, _ = lstm_elmo.direction(self.W, self.settings, 0, x)
        behind, _ = lstm_elmo.direction(self.W, self.settings, 1, x[::-1])
        pairs = zip([x, *ahead], [x[::-1], *behind], strict=True)
        return np.stack([np.concatenate([a, b[::-1]], axis=1) for a, b in pairs])

    def padded(self, batch: Sequence[Sequence[str]]) -> tuple[Array, npt.NDArray[np.bool_]]:
        """The same for a batch: (L, B, T + 2, D), zero beyond each end, and the mask."""
        longest = max(len(words) for words in batch) + 2
        layers = np.zeros((3, len(batch), longest, 12))
        mask = np.zeros((len(batch), longest), dtype=bool)
        for i, words in enumerate(batch):
            layers[:, i, : len(words) + 2] = self.with_marks(words)
            mask[i, : len(words) + 2] = True
        return layers, mask


def write(folder: Path, settings: dict[str, Any]) -> Model:
    W = lstm_elmo.random_weights(settings, np.random.default_rng(7))
    options, weights = folder / "options.json", folder / "weights.hdf5"
    options.write_text(json.dumps(settings), encoding="utf-8")
    lstm_elmo.write_hdf5(weights, W)
    return Model(options, weights, W, settings)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return write(tmp_path_factory.mktemp("model"), OPTIONS)


@pytest.fixture(scope="module")
def short_words(tmp_path_factory: pytest.TempPathFactory) -> Model:
    """A model that reads 10 characters a word."""
    cnn = {**OPTIONS["char_cnn"], "max_characters_per_token": 10}
    return write(tmp_path_factory.mktemp("short"), {**OPTIONS, "char_cnn": cnn})


def cut(marked: Array) -> Array:
    """(..., B, T + 2, D) -> (..., B, T, D) for BATCH: no marks, zeros beyond each end."""
    out = np.zeros_like(marked[..., 1:-1, :])
    for i, words in enumerate(BATCH):
        out[..., i, : len(words), :] = marked[..., i, 1 : len(words) + 1, :]
    return out


def close(found: Tensor | npt.NDArray[Any], expected: npt.NDArray[Any], atol: float = ATOL) -> None:
    found = found.detach().numpy() if isinstance(found, Tensor) else found
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


def parameters_with_gradients(module: nn.Module) -> int:
    return sum(p.grad is not None and bool(p.grad.any()) for p in module.parameters())


# batch_to_ids


def test_ids_are_spelled_as_the_format_says_and_zero_is_padding() -> None:
    ids = batch_to_ids(BATCH)
    assert ids.shape == (4, 6, 50)
    assert ids.dtype == torch.int64
    for i, words in enumerate(BATCH):
        for t, word in enumerate(words):
            assert ids[i, t].tolist() == lstm_elmo.char_ids(word)
        assert not ids[i, len(words) :].any()


def test_ids_of_other_widths_are_an_extra_keyword() -> None:
    assert batch_to_ids([["lengthy-word"]], max_characters=10)[0, 0].tolist() == (
        lstm_elmo.char_ids("lengthy-word", 10)
    )


def test_no_words_at_all_still_have_ids() -> None:
    assert batch_to_ids([[], []]).shape == (2, 0, 50)


def test_words_may_come_in_any_iterable() -> None:
    assert torch.equal(batch_to_ids([np.array(["a", "bank"])]), batch_to_ids([("a", "bank")]))


def test_a_sentence_that_is_a_string_is_refused() -> None:
    with pytest.raises(InputError, match=r"Sentence 1 is a string; expected a list of words"):
        batch_to_ids([["fine"], "not fine"])


def test_a_word_that_is_no_string_is_refused() -> None:
    with pytest.raises(InputError, match="Sentence 0, word 1 is a int"):
        batch_to_ids([["fine", 3]])  # type: ignore[list-item]


# ScalarMix


def test_a_mix_has_allennlps_parameters() -> None:
    shapes = {name: tuple(p.shape) for name, p in ScalarMix(3).state_dict().items()}
    assert shapes == {"gamma": (1,), **{f"scalar_parameters.{i}": (1,) for i in range(3)}}


@pytest.mark.parametrize("shape", [(5,), (2, 4, 5), (2, 3, 4, 5)], ids=str)
def test_a_mix_weighs_tensors_of_any_shape(shape: tuple[int, ...]) -> None:
    layers = np.random.default_rng(1).normal(size=(3, *shape))
    mix = ScalarMix(3, initial_scalar_parameters=[0.3, -1.0, 2.0]).double()
    with torch.no_grad():
        mix.gamma.fill_(1.7)
    expected = scalar_mix.scalar_mix(layers, [0.3, -1.0, 2.0], 1.7)
    close(mix(list(torch.from_numpy(layers))), expected, atol=1e-6)


def test_a_mix_norms_by_the_unmasked_numbers_of_the_batch() -> None:
    layers = np.random.default_rng(2).normal(3.0, 2.0, size=(2, 4, 6, 5))
    mask = np.arange(6) < np.array([[6], [2], [1], [4]])
    mix = ScalarMix(2, do_layer_norm=True, initial_scalar_parameters=[1, 0]).double()
    expected = scalar_mix.scalar_mix(layers, [1, 0], layer_norm=True, mask=mask, eps=1e-13)
    tensors = list(torch.from_numpy(layers))
    close(mix(tensors, torch.from_numpy(mask)), expected, atol=1e-6)
    close(mix(tensors, torch.from_numpy(mask).long()), expected, atol=1e-6)  # as before 1.0


def test_a_mix_that_is_not_trainable_has_no_gradients() -> None:
    assert not any(p.requires_grad for p in ScalarMix(3, trainable=False).parameters())
    assert all(p.requires_grad for p in ScalarMix(3).parameters())


def test_a_mix_refuses_what_does_not_fit() -> None:
    with pytest.raises(ConfigError, match="2 mix weights given for 3 layers"):
        ScalarMix(3, initial_scalar_parameters=[1.0, 2.0])
    with pytest.raises(ConfigError, match="1 tensors given to a mix of 3"):
        ScalarMix(3)([torch.zeros(2, 2)])
    with pytest.raises(ConfigError, match="needs the mask"):
        ScalarMix(1, do_layer_norm=True)([torch.zeros(2, 2)])


# Elmo


def test_elmo_mixes_all_layers_and_masks_what_is_no_word(model: Model) -> None:
    elmo = Elmo(str(model.options), str(model.weights), 1).eval()
    output = elmo(batch_to_ids(BATCH))
    (mixed,) = output["elmo_representations"]
    layers, mask = model.padded(BATCH)
    close(mixed, scalar_mix.scalar_mix(cut(layers), [0, 0, 0]))
    assert output["mask"].dtype == torch.bool
    assert np.array_equal(output["mask"].numpy(), mask[:, 2:])
    assert elmo.get_output_dim() == mixed.shape[-1] == 12


def test_several_representations_have_their_own_normed_mixes(model: Model) -> None:
    elmo = Elmo(model.options, model.weights, 2, do_layer_norm=True, dropout=0.0)
    weights, gamma = [0.5, -2.0, 1.0], 0.7
    with torch.no_grad():
        for i, weight in enumerate(weights):
            elmo.get_parameter(f"scalar_mix_1.scalar_parameters.{i}").fill_(weight)
        elmo.get_parameter("scalar_mix_1.gamma").fill_(gamma)
    found = elmo(batch_to_ids(BATCH))["elmo_representations"]
    layers, mask = model.padded(BATCH)
    for mixed, w, g in zip(found, [[0.0] * 3, weights], [1.0, gamma], strict=True):
        expected = scalar_mix.scalar_mix(layers, w, g, layer_norm=True, mask=mask, eps=1e-13)
        close(mixed, cut(expected))


def test_sentence_boundaries_can_stay(model: Model) -> None:
    elmo = Elmo(model.options, model.weights, 1, keep_sentence_boundaries=True, dropout=0.0)
    output = elmo(batch_to_ids(BATCH))
    layers, mask = model.padded(BATCH)
    close(output["elmo_representations"][0], layers.mean(axis=0))
    assert np.array_equal(output["mask"].numpy(), mask)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_given_mix_parameters_are_before_the_softmax_and_frozen(model: Model, layer: int) -> None:
    weights = [-9e10] * 3
    weights[layer] = 1.0
    elmo = Elmo(model.options, model.weights, 1, dropout=0.0, scalar_mix_parameters=weights)
    close(elmo(batch_to_ids(BATCH))["elmo_representations"][0], cut(model.padded(BATCH)[0])[layer])
    assert not any(p.requires_grad for p in elmo.parameters())


@pytest.mark.parametrize("keep", [False, True])
def test_dimensions_before_the_last_three_are_folded_and_come_back(
    model: Model, keep: bool
) -> None:
    elmo = Elmo(model.options, model.weights, 1, dropout=0.0, keep_sentence_boundaries=keep)
    ids = batch_to_ids(BATCH)
    flat, deep = elmo(ids), elmo(ids.view(2, 1, 2, 6, 50))
    n_words = 8 if keep else 6
    assert deep["elmo_representations"][0].shape == (2, 1, 2, n_words, 12)
    assert deep["mask"].shape == (2, 1, 2, n_words)
    assert torch.equal(deep["mask"].flatten(0, 2), flat["mask"])
    close(
        deep["elmo_representations"][0].flatten(0, 2),
        flat["elmo_representations"][0].detach().numpy(),
        atol=0,
    )


def test_only_requires_grad_lets_gradients_reach_the_bilm(model: Model) -> None:
    for requires_grad in (False, True):
        elmo = Elmo(model.options, model.weights, 1, requires_grad=requires_grad, dropout=0.0)
        elmo(batch_to_ids(BATCH))["elmo_representations"][0].square().sum().backward()
        bilm = list(elmo._elmo_lstm.parameters())
        reached = parameters_with_gradients(elmo._elmo_lstm)
        assert reached == (len(bilm) if requires_grad else 0)
        assert parameters_with_gradients(elmo.get_submodule("scalar_mix_0")) == 4


def test_dropout_is_on_the_mix_and_in_training_only(model: Model) -> None:
    elmo = Elmo(model.options, model.weights, 1, dropout=0.5)
    ids = batch_to_ids(BATCH)
    mixed = elmo.eval()(ids)["elmo_representations"][0]
    torch.manual_seed(0)
    dropped = elmo.train()(ids)["elmo_representations"][0]
    kept = dropped != 0
    assert 0.3 < kept[0].float().mean() < 0.7
    torch.testing.assert_close(dropped[kept], 2 * mixed[kept])


def test_the_bilms_own_dropout_stays_off(tmp_path: Path) -> None:
    words = CharCNNConfig(char_dim=4, filters=((1, 4), (2, 8)), n_highway=1, dim=8)
    context = LSTMConfig(dim=8, cell_dim=16, dropout=0.5)
    save(bilm_checkpoint(BiLM(BiLMConfig(words=words, context=context))), tmp_path / "native")
    elmo = Elmo(None, tmp_path / "native", 1, requires_grad=True, dropout=0.0)
    ids = batch_to_ids(BATCH)
    evaluated = elmo.eval()(ids)["elmo_representations"][0]
    assert torch.equal(elmo.train()(ids)["elmo_representations"][0], evaluated)


def test_a_batch_without_words_gives_no_vectors(model: Model) -> None:
    output = Elmo(model.options, model.weights, 1)(batch_to_ids([[], []]))
    assert output["elmo_representations"][0].shape == (2, 0, 12)
    assert output["mask"].shape == (2, 0)


def test_the_wrong_number_of_characters_names_both(short_words: Model) -> None:
    elmo = Elmo(short_words.options, short_words.weights, 1, dropout=0.0)
    with pytest.raises(ConfigError, match=r"50 characters.*10\).*max_characters=10"):
        elmo(batch_to_ids(BATCH))
    mixed = elmo(batch_to_ids(BATCH, max_characters=10))["elmo_representations"][0]
    close(mixed, cut(short_words.padded(BATCH)[0]).mean(axis=0))


def test_a_transformer_mixes_as_well_but_remembers_nothing(tmp_path: Path) -> None:
    words = CharCNNConfig(char_dim=4, filters=((1, 4), (2, 8)), n_highway=1, dim=8)
    context = TransformerConfig(dim=8, ff_dim=16, n_layers=2, n_heads=2)
    save(bilm_checkpoint(BiLM(BiLMConfig(words=words, context=context))), tmp_path / "native")
    elmo = Elmo(None, tmp_path / "native", 1, dropout=0.0)
    mixed = elmo(batch_to_ids(BATCH))["elmo_representations"][0]
    for row, e in zip(mixed, Embedder.load(tmp_path / "native").embed(BATCH), strict=True):
        close(row[: len(e)], e.average)
    with pytest.raises(ConfigError, match="carries no state"):
        Elmo(None, tmp_path / "native", 1, stateful=True)


def test_padding_before_a_word_is_refused(model: Model) -> None:
    ids = batch_to_ids([["a", "b"], ["a", "b"]])
    ids[1, 0] = 0
    with pytest.raises(InputError, match="Sentence 1 has padding before a word"):
        Elmo(model.options, model.weights, 1)(ids)


def test_word_inputs_index_the_cached_vocabulary(model: Model) -> None:
    vocabulary = ["@@PADDING@@", "@@UNKNOWN@@", *sorted({w for words in BATCH for w in words})]
    elmo = Elmo(model.options, model.weights, 1, dropout=0.0, vocab_to_cache=vocabulary)
    ids = torch.zeros(4, 6, dtype=torch.int64)
    for row, words in zip(ids, BATCH, strict=True):
        row[: len(words)] = torch.tensor([vocabulary.index(w) for w in words])
    expected = cut(model.padded(BATCH)[0]).mean(axis=0)
    close(elmo(None, ids)["elmo_representations"][0], expected)
    close(elmo(batch_to_ids(BATCH), ids)["elmo_representations"][0], expected)
    deep = elmo(None, ids.view(2, 2, 6))["elmo_representations"][0]
    close(deep.flatten(0, 1), expected)


def test_word_inputs_that_cannot_be_honoured_are_refused(model: Model) -> None:
    cached = Elmo(model.options, model.weights, 1, vocab_to_cache=["@@PADDING@@", "bank"])
    words = torch.tensor([[1, 1]])
    with pytest.raises(InputError, match="from 1 to 2, but vocab_to_cache has 2 words"):
        cached(None, torch.tensor([[1, 2]]))
    with pytest.raises(InputError, match="words at different places"):
        cached(torch.zeros(1, 2, 50, dtype=torch.int64), words)
    with pytest.raises(ConfigError, match="Nothing to read"):
        Elmo(model.options, model.weights, 1)(None, words)


def test_a_module_may_stand_in_for_the_files(model: Model) -> None:
    bilm = ElmoBiLm(model.options, model.weights)
    elmo = Elmo(None, None, 1, dropout=0.0, module=bilm)
    mixed = elmo(batch_to_ids(BATCH))["elmo_representations"][0]
    close(mixed, cut(model.padded(BATCH)[0]).mean(axis=0))
    with pytest.raises(ConfigError, match="one of the two"):
        Elmo(model.options, model.weights, 1, module=bilm)
    with pytest.raises(ConfigError, match="one of the two"):
        Elmo(None, None, 1)


def test_elmo_forgets_unless_it_is_asked_to_remember(model: Model) -> None:
    ids = batch_to_ids(BATCH)
    kwargs: dict[str, Any] = {"dropout": 0.0, "scalar_mix_parameters": [-9e10, -9e10, 1.0]}
    fresh = Elmo(model.options, model.weights, 1, **kwargs)
    close(fresh(ids)["elmo_representations"][0], fresh(ids)["elmo_representations"][0].numpy(), 0)

    stateful = Elmo(model.options, model.weights, 1, stateful=True, requires_grad=True, **kwargs)
    calls = [BATCH[:2], [["Bank"]], [["?"], ["Bank"], ["naïve"]], [["by"], ["the"], []]]
    states: dict[int, lstm_elmo.State] = {}
    for batch in calls:
        output = stateful(batch_to_ids(batch))["elmo_representations"][0]
        for row, words in enumerate(batch):
            layers, states[row] = lstm_elmo.layers(model.W, model.settings, words, states.get(row))
            close(output[row, : len(words)], layers[-1])
        output.sum().backward()  # earlier calls are over: their graphs are gone
    assert stateful._elmo_lstm.h.shape[2] == 3  # as many rows as the largest batch had


def test_a_moved_module_takes_its_memory_along(model: Model) -> None:
    elmo = Elmo(model.options, model.weights, 1, stateful=True)
    elmo(batch_to_ids(BATCH))
    assert elmo.double()(batch_to_ids(BATCH))["elmo_representations"][0].dtype == torch.float64


# ElmoEmbedder


def test_the_embedder_gives_every_layer_as_a_padded_tensor(model: Model) -> None:
    layers, mask = ElmoEmbedder(model.options, model.weights).batch_to_embeddings(BATCH)
    expected, expected_mask = model.padded(BATCH)
    assert layers.shape == (4, 3, 6, 12)
    close(layers.transpose(0, 1), cut(expected))
    assert mask.dtype == torch.bool
    assert np.array_equal(mask.numpy(), expected_mask[:, 2:])


def test_the_embedder_gives_a_sentence_its_own_shape(model: Model) -> None:
    embedder = ElmoEmbedder(str(model.options), str(model.weights), cuda_device=-1)
    for words, vectors in zip(BATCH, embedder.embed_batch(BATCH), strict=True):
        assert vectors.dtype == np.float32
        assert vectors.shape == (3, len(words), 12)
        close(vectors, model.with_marks(words)[:, 1:-1])
        close(embedder.embed_sentence(words), vectors)


def test_an_empty_sentence_is_as_wide_as_its_model(model: Model) -> None:
    embedder = ElmoEmbedder(model.options, model.weights)
    assert embedder.embed_sentence([]).shape == (3, 0, 12)
    assert embedder.batch_to_embeddings([[], []])[0].shape == (2, 3, 0, 12)


def test_embed_sentences_keeps_order_and_reads_one_batch_at_a_time(model: Model) -> None:
    embedder = ElmoEmbedder(model.options, model.weights)
    sentences = [[str(i)] * (1 + i * 7 % 5) for i in range(10)]
    read: list[int] = []

    def source() -> Iterator[list[str]]:
        for i, words in enumerate(sentences):
            read.append(i)
            yield words

    stream = embedder.embed_sentences(source(), batch_size=4)
    assert read == []
    found = [next(stream)]
    assert read == [0, 1, 2, 3]
    found += list(stream)
    for words, vectors in zip(sentences, found, strict=True):
        close(vectors, model.with_marks(words)[:, 1:-1])


def test_the_embedder_forgets_unless_it_is_asked_to_remember(model: Model) -> None:
    words = BATCH[0]
    fresh = ElmoEmbedder(model.options, model.weights)
    close(fresh.embed_sentence(words), fresh.embed_sentence(words), atol=0)

    stateful = ElmoEmbedder(model.options, model.weights, stateful=True)
    state = None
    for _ in range(3):
        expected, state = lstm_elmo.layers(model.W, model.settings, words, state)
        close(stateful.embed_sentence(words), expected)
        assert stateful.embed_sentence([]).shape == (3, 0, 12)  # is not run, so nothing changes


LINES = ["We sat .", "", "Bank ?", "We sat ."]


def test_embed_file_writes_allennlps_layout(model: Model, tmp_path: Path) -> None:
    embedder = ElmoEmbedder(model.options, model.weights)
    pick: dict[str, Callable[[Array], Array]] = {
        "all": lambda x: x,
        "top": lambda x: x[-1],
        "average": lambda x: x.mean(axis=0),
    }
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n", encoding="utf-8")
    for name, chosen in pick.items():
        with (tmp_path / "in.txt").open(encoding="utf-8") as lines:
            embedder.embed_file(lines, tmp_path / f"{name}.hdf5", name)
        with h5py.File(tmp_path / f"{name}.hdf5") as file:
            assert set(file) == {"0", "1", "2", "3", "sentence_to_index"}
            assert json.loads(file["sentence_to_index"][0]) == {"We sat .": "3", "Bank ?": "2"}
            for i, line in enumerate(LINES):
                close(file[str(i)][...], chosen(model.with_marks(line.split())[:, 1:-1]))


def test_embed_file_takes_the_other_keys(model: Model, tmp_path: Path) -> None:
    embedder = ElmoEmbedder(model.options, model.weights)
    embedder.embed_file(LINES, tmp_path / "a.hdf5", forget_sentences=True)
    embedder.embed_file(LINES, str(tmp_path / "b.hdf5"), use_sentence_keys=True)
    with h5py.File(tmp_path / "a.hdf5") as file:
        assert set(file) == {"0", "1", "2", "3"}
    with h5py.File(tmp_path / "b.hdf5") as file:
        assert set(file) == {"We sat .", "Bank ?"}


def test_a_stateful_embed_file_carries_rows_from_batch_to_batch(
    model: Model, tmp_path: Path
) -> None:
    embedder = ElmoEmbedder(model.options, model.weights, stateful=True)
    embedder.embed_file(LINES, tmp_path / "out.hdf5", batch_size=2)
    states: list[lstm_elmo.State | None] = [None, None]
    with h5py.File(tmp_path / "out.hdf5") as file:
        for i, line in enumerate(LINES):
            expected, states[i % 2] = lstm_elmo.layers(
                model.W, model.settings, line.split(), states[i % 2]
            )
            close(file[str(i)][...], expected)


def test_embed_file_refuses_a_name_and_an_unknown_format(model: Model, tmp_path: Path) -> None:
    embedder = ElmoEmbedder(model.options, model.weights)
    with pytest.raises(InputError, match="expected the open file"):
        embedder.embed_file("in.txt", tmp_path / "out.hdf5")
    with pytest.raises(ConfigError, match="'middle'; expected all, top, average"):
        embedder.embed_file(LINES, tmp_path / "out.hdf5", "middle")


def test_any_number_of_characters_goes_with_the_embedder(short_words: Model) -> None:
    vectors = ElmoEmbedder(short_words.options, short_words.weights).embed_sentence(BATCH[3])
    close(vectors, short_words.with_marks(BATCH[3])[:, 1:-1])


def test_no_options_are_needed_for_what_elmore_can_load(model: Model, tmp_path: Path) -> None:
    save(load(model.weights, options=model.options), tmp_path / "native")
    expected = model.with_marks(BATCH[0])[:, 1:-1]
    close(ElmoEmbedder(None, tmp_path / "native").embed_sentence(BATCH[0]), expected)
    elmo = Elmo(None, tmp_path / "native", 1, dropout=0.0)
    mixed = elmo(batch_to_ids(BATCH[:1]))["elmo_representations"][0][0]
    close(mixed, expected.mean(axis=0))


def test_an_address_says_to_download_it(model: Model) -> None:
    with pytest.raises(ConfigError, match=r"https://a\.b/w\.hdf5 is an address"):
        ElmoEmbedder(model.options, "https://a.b/w.hdf5")
    with pytest.raises(ConfigError, match="is an address"):
        Elmo("https://a.b/o.json", model.weights, 1)


def test_a_model_that_reads_words_is_for_the_embedder_only(tmp_path: Path) -> None:
    settings = {"lstm": OPTIONS["lstm"]}
    vocabulary = ["<S>", "</S>", "<UNK>", "bank"]
    W = lstm_elmo.random_weights(settings, np.random.default_rng(3), vocab_size=4)
    W = {name: array for name, array in W.items() if not name.startswith("softmax")}
    lstm_elmo.write_hdf5(tmp_path / "weights.hdf5", W)
    (tmp_path / "options.json").write_text(json.dumps(settings), encoding="utf-8")
    (tmp_path / "vocab.txt").write_text("\n".join(vocabulary), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"reads words.*use elmore\.Elmo"):
        Elmo(None, tmp_path / "weights.hdf5", 1)
    found = ElmoEmbedder(None, tmp_path / "weights.hdf5").embed_sentence(["bank", "?"])
    close(found, lstm_elmo.layers(W, settings, ["bank", "?"], vocab=vocabulary)[0])


@needs("fixtures", "allennlp-lstm")
def test_stateful_reproduces_allennlps_reference_outputs() -> None:
    """Three rows, ten batches in order, state carried from zero; the top layer of each."""
    folder = SHARED / "fixtures" / "allennlp-lstm"
    files = folder / "options.json", folder / "lm_weights.hdf5"
    embedder = ElmoEmbedder(*files, stateful=True)
    elmo = Elmo(*files, 1, dropout=0.0, scalar_mix_parameters=[-9e10, -9e10, 1.0], stateful=True)
    rows = json.loads((folder / "sentences.json").read_text(encoding="utf-8"))
    for i in range(10):
        batch = [row[i].split() for row in rows]
        layers, mask = embedder.batch_to_embeddings(batch)
        mixed = elmo(batch_to_ids(batch))["elmo_representations"][0]
        for row, words in enumerate(batch):
            with h5py.File(folder / f"lm_embeddings_{row}.hdf5") as file:
                expected = np.concatenate(list(file[str(i)][...]), axis=-1)  # (n, 32)
            assert int(mask[row].sum()) == len(words) == len(expected)
            for found in (layers[row, -1], mixed[row]):
                np.testing.assert_allclose(found[: len(words)], expected, rtol=1e-5, atol=1e-6)
