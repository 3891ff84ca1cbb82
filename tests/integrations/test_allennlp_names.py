"""State dicts under AllenNLP's names, in and out, and the names that old code reaches for inside of
`Elmo`. Weights and expected vectors are the oracle's, which knows AllenNLP's layout by itself."""

import copy
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor, nn

from elmore.checkpoint.sources import load, save
from elmore.elmo import Elmo as OwnElmo
from elmore.embedder import Embedder
from elmore.errors import ConfigError, ElmoreError, FormatError
from elmore.integrations import allennlp
from elmore.integrations.allennlp import (
    BidirectionalLanguageModelTokenEmbedder,
    ConfigurationError,
    Elmo,
    ElmoEmbedder,
    ELMoTokenCharactersIndexer,
    ElmoTokenEmbedder,
    batch_to_ids,
    remove_sentence_boundaries,
)
from tests.checkpoint.foreign_models import TRANSFORMER, make_transformer
from tests.oracle import lstm_elmo, scalar_mix, transformer_elmo
from tests.tiny_bert import tiny_bert
from tests.tiny_models import OPTIONS, Tiny, make

ATOL = 2e-5
BATCH = [["The", "river", "bank", "."], ["naïve"], ["bank", "bank"]]


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return make(tmp_path / "published")


@pytest.fixture
def tuned() -> dict[str, npt.NDArray[np.float32]]:
    """What AllenNLP's `Elmo` saves after fine-tuning: other weights than the published ones."""
    W = transformer_elmo.task_archive_random_weights(OPTIONS, np.random.default_rng(8), n_mixes=2)
    before = transformer_elmo.task_archive_prefix(W)
    return {name.removeprefix(before): array for name, array in W.items()}


def as_tensors(arrays: Mapping[str, npt.NDArray[Any]], before: str = "") -> dict[str, Tensor]:
    return {before + name: torch.from_numpy(array) for name, array in arrays.items()}


def expected_mix(
    W: Mapping[str, npt.NDArray[np.float32]], words: list[str], k: int
) -> npt.NDArray[Any]:
    layers, _ = transformer_elmo.task_archive_layers(W, OPTIONS, words)
    scalars = [float(W[f"scalar_mix_{k}.scalar_parameters.{j}"][0]) for j in range(len(layers))]
    return scalar_mix.scalar_mix(layers, scalars, float(W[f"scalar_mix_{k}.gamma"][0]))


def check(vectors: list[Tensor], W: Mapping[str, npt.NDArray[np.float32]]) -> None:
    for k, mixed in enumerate(vectors):
        for row, words in zip(mixed.detach().numpy(), BATCH, strict=True):
            np.testing.assert_allclose(row[: len(words)], expected_mix(W, words, k), atol=ATOL)


# State dicts


def test_a_users_fine_tuned_state_dict_loads_strictly(tiny: Tiny, tuned: Any) -> None:
    elmo = Elmo(tiny.options_path, tiny.weights, 2, dropout=0.0)
    assert elmo.load_state_dict(as_tensors(tuned), strict=True) == ([], [])
    check(elmo(batch_to_ids(BATCH))["elmo_representations"], tuned)


def test_it_loads_inside_of_a_larger_model_and_beside_a_cache(tiny: Tiny, tuned: Any) -> None:
    class Tagger(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedder = ElmoTokenEmbedder(tiny.options_path, tiny.weights, dropout=0.0)

    state = as_tensors({k: v for k, v in tuned.items() if "mix_1" not in k}, "embedder._elmo.")
    state["embedder._elmo._elmo_lstm._word_embedding.weight"] = torch.zeros(5, 8)
    tagger = Tagger()
    tagger.load_state_dict(state)
    check([tagger.embedder(batch_to_ids(BATCH))], tuned)


def test_our_state_dict_has_allennlps_names_shapes_and_numbers(tiny: Tiny, tuned: Any) -> None:
    elmo = Elmo(tiny.options_path, tiny.weights, 2)
    elmo.load_state_dict(as_tensors(tuned))
    written = elmo.state_dict()
    assert set(written) == set(tuned)
    for name, array in tuned.items():
        # the forget bias is kept without its 1.0, so it is rounded once
        np.testing.assert_allclose(written[name].numpy(), array, rtol=0, atol=2.4e-7)


def test_published_weights_are_written_as_allennlp_holds_them(tiny: Tiny) -> None:
    """The oracle reads our state dict by AllenNLP's names, the HDF5 file by its own."""
    state = Elmo(tiny.options_path, tiny.weights, 1).state_dict()
    W = {name: tensor.numpy() for name, tensor in state.items()}
    found, _ = transformer_elmo.task_archive_layers(W, OPTIONS, BATCH[0])
    np.testing.assert_allclose(found, tiny.layers(BATCH[0])[0], rtol=0, atol=1e-6)


def test_state_dicts_with_elmores_names_load_too(tiny: Tiny, tuned: Any) -> None:
    source = Elmo(tiny.options_path, tiny.weights, 1, dropout=0.0)
    old = {f"_elmo_lstm.bilm.{k}": v for k, v in source._elmo_lstm.bilm.state_dict().items()}
    old |= {k: v for k, v in source.state_dict().items() if k.startswith("scalar_mix")}
    other = Elmo(tiny.options_path, tiny.weights, 1, dropout=0.0)
    other.load_state_dict({k: v for k, v in as_tensors(tuned).items() if "mix_1" not in k})
    other.load_state_dict(old, strict=True)
    ids = batch_to_ids(BATCH)
    before, after = source(ids)["elmo_representations"][0], other(ids)["elmo_representations"][0]
    assert torch.equal(before, after)


def test_elmores_own_elmo_reads_the_same_file(tiny: Tiny, tuned: Any) -> None:
    elmo = OwnElmo.load(tiny.weights, n_mixes=2, dropout=0.0)
    elmo.load_state_dict(as_tensors(tuned), strict=True)
    check(elmo(BATCH).vectors, tuned)


def test_copies_and_pickles_keep_the_names(tiny: Tiny) -> None:
    elmo = Elmo(tiny.options_path, tiny.weights, 1)
    for other in (copy.deepcopy(elmo), pickle.loads(pickle.dumps(elmo))):
        assert list(other.state_dict()) == list(elmo.state_dict())


@pytest.mark.parametrize("strict", [True, False])
def test_what_does_not_fit_is_named_strict_or_not(tiny: Tiny, tuned: Any, strict: bool) -> None:
    elmo, name = Elmo(tiny.options_path, tiny.weights, 2), "_elmo_lstm._token_embedder._projection"
    lacking = {k: v for k, v in as_tensors(tuned).items() if not k.startswith(name)}
    with pytest.raises(FormatError, match=r"state dict: the tensor '.*_projection.weight' is miss"):
        elmo.load_state_dict(lacking, strict=strict)
    other = as_tensors(tuned) | {f"{name}.weight": torch.zeros(3, 3)}
    with pytest.raises(FormatError, match=r"_projection.weight' is float32 of shape \(3, 3\)"):
        elmo.load_state_dict(other, strict=strict)


def test_a_state_dict_without_the_bilm_is_refused_when_strict(tiny: Tiny, tuned: Any) -> None:
    elmo = Elmo(tiny.options_path, tiny.weights, 2)
    mixes = {k: v for k, v in as_tensors(tuned).items() if k.startswith("scalar_mix")}
    with pytest.raises(RuntimeError, match="Missing key"):
        elmo.load_state_dict(mixes)


def test_a_transformer_has_no_such_names(tmp_path: Path, tuned: Any) -> None:
    make_transformer(tmp_path / "lm")
    elmo = Elmo(None, tmp_path / "lm", 2)
    assert any(name.startswith("_elmo_lstm.bilm.") for name in elmo.state_dict())
    with pytest.raises(FormatError, match="this model is of another kind"):
        elmo.load_state_dict(as_tensors(tuned))


# Inside of Elmo


def test_state_is_switched_looked_at_and_forgotten_by_the_old_names(tiny: Tiny) -> None:
    elmo = Elmo(tiny.options_path, tiny.weights, 1, dropout=0.0)
    lstm, ids = elmo._elmo_lstm._elmo_lstm, batch_to_ids(BATCH)
    fresh = elmo(ids)["elmo_representations"][0]
    assert (lstm.stateful, lstm._states) == (False, None)
    lstm.stateful = True
    assert torch.equal(elmo(ids)["elmo_representations"][0], fresh)
    h, c = lstm._states
    assert (h.shape, c.shape) == ((2, 3, 16), (2, 3, 24))
    _, (ahead, behind) = tiny.layers(BATCH[0])  # the state after one sentence
    np.testing.assert_allclose(h[1, 0, :8], ahead[1][0], atol=ATOL)
    np.testing.assert_allclose(c[1, 0, 12:], behind[1][1], atol=ATOL)
    carried = elmo(ids)["elmo_representations"][0]
    assert not torch.allclose(carried, fresh, atol=1e-3)
    lstm.reset_states(torch.tensor([True, False, True]))
    partly = elmo(ids)["elmo_representations"][0]
    assert torch.equal(partly[0], fresh[0])
    assert not torch.allclose(partly[1], fresh[1], atol=1e-3)
    for forget in (lstm.reset_states, lambda: setattr(lstm, "_states", None)):
        forget()
        assert lstm._states is None
        assert torch.equal(elmo(ids)["elmo_representations"][0], fresh)
    lstm.stateful = False
    assert torch.equal(elmo(ids)["elmo_representations"][0], fresh)
    lstm.stateful = True
    elmo(ids)
    with pytest.raises(ConfigError, match="A mask of 2 rows for 3 rows"):
        lstm.reset_states(torch.tensor([True, False]))


def test_the_character_encoder_by_itself_and_inside(tiny: Tiny) -> None:
    own = allennlp._ElmoCharacterEncoder(str(tiny.options_path), str(tiny.weights))
    inside = Elmo(tiny.options_path, tiny.weights, 1)._elmo_lstm._token_embedder
    for encoder in (own, inside):
        output = encoder(batch_to_ids(BATCH))
        assert output["token_embedding"].shape == (3, 6, 8)
        assert output["mask"].sum(dim=1).tolist() == [6, 3, 4]
        vectors, mask = remove_sentence_boundaries(output["token_embedding"], output["mask"])
        assert mask.dtype == torch.bool
        for row, words in zip(vectors, BATCH, strict=True):
            expected = tiny.layers(words)[0][0][:, :8]
            np.testing.assert_allclose(row[: len(words)].detach(), expected, atol=ATOL)
            assert not row[len(words) :].any()
        assert encoder.get_output_dim() == 8


@pytest.mark.parametrize(("place", "mark"), [(0, "<S>"), (2, "</S>")])
def test_marks_written_out_have_the_vectors_of_the_marks(tiny: Tiny, place: int, mark: str) -> None:
    encoder = allennlp._ElmoCharacterEncoder(tiny.options_path, tiny.weights)
    vectors = encoder(batch_to_ids([[mark]]))["token_embedding"]
    assert torch.equal(vectors[0, place], vectors[0, 1])


def test_only_asked_for_does_the_character_encoder_learn(tiny: Tiny) -> None:
    for asked in (False, True):
        encoder = allennlp._ElmoCharacterEncoder(tiny.options_path, tiny.weights, asked)
        assert {p.requires_grad for p in encoder.parameters()} == {asked}


def test_every_error_is_a_configuration_error(tiny: Tiny) -> None:
    assert issubclass(ConfigError, ConfigurationError)
    assert issubclass(FormatError, ElmoreError)
    with pytest.raises(ConfigurationError):
        Elmo(tiny.options_path, tiny.weights, 0)


def test_an_embedder_without_a_model_names_two() -> None:
    with pytest.raises(ConfigError, match=r"'elmo-original'.*'small-en'"):
        ElmoEmbedder()


# The indexer


class Token:
    def __init__(self, text: str):
        self.text = text


def test_the_indexer_spells_as_batch_to_ids_does() -> None:
    indexer = ELMoTokenCharactersIndexer()
    words = ["bank", "naïve", "x" * 60, "<S>", "</S>", ""]
    found = indexer.tokens_to_indices([Token(word) for word in words])
    assert found["elmo_tokens"] == batch_to_ids([words])[0].tolist()
    assert found["elmo_tokens"] == [lstm_elmo.char_ids(word) for word in words]
    assert indexer.tokens_to_indices(words, None, "mine") == {"mine": found["elmo_tokens"]}
    padded = indexer.as_padded_tensor_dict(found, {"elmo_tokens": 8})["elmo_tokens"]
    assert padded.shape == (8, 50)
    assert not padded[6:].any()
    assert indexer.as_padded_tensor_dict(found, {"elmo_tokens": 2})["elmo_tokens"].shape == (2, 50)
    assert indexer.get_empty_token_list() == {"elmo_tokens": []}


def test_words_of_ones_own_have_a_character_of_their_own() -> None:
    indexer = ELMoTokenCharactersIndexer(tokens_to_add={"<first>": 1, "[NEW]": 260})
    rows = indexer.tokens_to_indices(["<first>", "[NEW]", "bank"])["elmo_tokens"]
    # begin, the character, end, padding: each shifted by one
    assert rows[0] == [259, 2, 260] + [261] * 47
    assert rows[1] == [259, 261, 260] + [261] * 47
    assert rows[2] == lstm_elmo.char_ids("bank")
    with pytest.raises(ConfigError, match=r"'x' the id 261; .* 0 to 260"):
        ELMoTokenCharactersIndexer(tokens_to_add={"x": 261})


# Token embedders


def test_a_token_embedder_is_one_mix_and_may_project(tiny: Tiny) -> None:
    ids = batch_to_ids(BATCH)
    plain = ElmoTokenEmbedder(tiny.options_path, tiny.weights, dropout=0.0)
    assert (plain.get_output_dim(), plain(ids).shape) == (16, (3, 4, 16))
    np.testing.assert_allclose(
        plain(ids)[0].detach(), tiny.layers(BATCH[0])[0].mean(axis=0), atol=ATOL
    )
    projected = ElmoTokenEmbedder(tiny.options_path, tiny.weights, dropout=0.0, projection_dim=3)
    assert (projected.get_output_dim(), projected(ids).shape) == (3, (3, 4, 3))
    assert torch.allclose(projected(ids), projected._projection(plain(ids)))
    assert {"_projection.weight", "_elmo.scalar_mix_0.gamma"} <= set(projected.state_dict())
    assert projected(ids.view(3, 1, 4, 50)).shape == (3, 1, 4, 3)


def test_a_transformers_token_embedder_with_and_without_marks(tmp_path: Path) -> None:
    W = make_transformer(tmp_path / "lm")
    config = TRANSFORMER
    ids = batch_to_ids([*BATCH, []])
    plain = BidirectionalLanguageModelTokenEmbedder(tmp_path / "lm")
    assert plain.get_output_dim() == 32
    marked = BidirectionalLanguageModelTokenEmbedder(tmp_path / "lm", remove_bos_eos=False)
    bare = BidirectionalLanguageModelTokenEmbedder(tmp_path / "lm", bos_eos_tokens=None)
    for row, words in zip(plain(ids).detach(), BATCH, strict=False):
        expected = np.mean(wide(transformer_elmo.layers(W, config, words)), axis=0)
        np.testing.assert_allclose(row[: len(words)], expected, atol=ATOL)
        assert not row[len(words) :].any()
    for row, words in zip(marked(ids).detach(), BATCH, strict=False):
        expected = np.mean(wide(transformer_elmo.layers(W, config, words, keep_marks=True)), axis=0)
        np.testing.assert_allclose(row[: len(words) + 2], expected, atol=ATOL)
    # Without marks around them, words that spell the marks stand in their place.
    written_out = [["<S>", *words, "</S>"] for words in [*BATCH, []]]
    assert torch.allclose(bare(batch_to_ids(written_out)), marked(ids), atol=1e-6)
    alone = bare(ids)
    assert alone.shape == (4, 4, 32)
    assert torch.isfinite(alone).all()
    assert not torch.allclose(alone[0], plain(ids)[0], atol=1e-3)


def wide(layers: Any) -> list[npt.NDArray[Any]]:
    """The first layer is half as wide as the others, and is repeated."""
    first, *others = layers
    repeated = first if first.shape[1] == 32 else np.concatenate([first, first], axis=1)
    return [repeated, *others]


# elmore's own Elmo


def test_a_fine_tuned_elmo_is_saved_as_a_folder_and_goes_on(tiny: Tiny, tmp_path: Path) -> None:
    elmo = OwnElmo.load(tiny.weights, n_mixes=2, fine_tune=True, layer_norm=True, dropout=0.0)
    optimizer = torch.optim.SGD(elmo.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        sum(torch.sin(v * 3).sum() for v in elmo(BATCH).vectors).backward()
        optimizer.step()
    elmo.save(tmp_path / "tuned")
    again = OwnElmo.load(tmp_path / "tuned", n_mixes=2, dropout=0.0)
    for before, after in zip(elmo(BATCH).vectors, again(BATCH).vectors, strict=True):
        np.testing.assert_allclose(after.detach(), before.detach(), rtol=0, atol=1e-5)
    assert [mix.layer_norm for mix in again.mixes] == [True, True]
    third = OwnElmo.load(tmp_path / "tuned", n_mixes=3)
    assert third.mixes[2].scalars.tolist() == [0.0, 0.0, 0.0]
    assert load(tmp_path / "tuned").mixes[0].scalars == tuple(elmo.mixes[0].scalars.tolist())
    assert Embedder.load(tmp_path / "tuned").embed(BATCH)[0].layers.shape == (3, 4, 16)


def test_saving_a_bert_keeps_its_mixes(tmp_path: Path) -> None:
    save(tiny_bert(), tmp_path / "bert")
    elmo = OwnElmo.load(tmp_path / "bert")
    with torch.no_grad():
        elmo.mixes[0].scalars[0] = 2.0
        elmo.mixes[0].gamma.fill_(0.5)
    elmo.save(tmp_path / "again")
    again = OwnElmo.load(tmp_path / "again").mixes[0]
    assert again.scalars.tolist()[:2] == [2.0, 0.0]
    assert again.gamma.item() == 0.5
