"""Files as they are found in the wild: without endings, under the publishers' names, in other
archives, with other lists of words, and with several ELMos or a Transformer in a task's archive."""

import copy
import gzip
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest

from elmore.checkpoint.sources import find_source, load
from elmore.elmo import Elmo
from elmore.embedder import Embedder
from elmore.errors import FormatError
from tests.checkpoint.foreign_models import (
    TASK,
    make_manylangs,
    make_task,
    make_transformer,
    pack_tar,
    pack_zip,
    save_tensors,
    transformer_with,
)
from tests.oracle import transformer_elmo
from tests.oracle.scalar_mix import scalar_mix
from tests.tiny_models import OPTIONS, SENTENCES, WORDS, Tiny, make

WORDS_IN = SENTENCES[0]


@pytest.fixture
def tiny(tmp_path: Path) -> Tiny:
    return make(tmp_path / "model")


def embeds(source: str | Path, expected: np.ndarray, options: Path | None = None) -> None:
    found = Embedder.load(source, options=options).embed([WORDS_IN])[0].layers
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


# Names


def test_weights_without_an_ending_are_known_by_their_first_bytes(tiny: Tiny, tmp_path: Path):
    cached = tmp_path / "b2f.9a1"  # AllenNLP's cache: two hashes, and notes in .json beside them
    shutil.copy(tiny.weights, cached)
    (tmp_path / "b2f.9a1.json").write_text('{"url": "https://x/weights.hdf5", "etag": "9a1"}')
    embeds(cached, tiny.layers(WORDS_IN)[0], tiny.options_path)


@pytest.mark.parametrize(
    ("weights", "options"),
    [
        (
            "elmo_2x4096_512_2048cnn_2xhighway_weights_PubMed_only.hdf5",
            "elmo_2x4096_512_2048cnn_2xhighway_options.json",
        ),
        ("elmo_pt_weights.hdf5", "elmo_pt_options.json"),
        ("de_weights.hdf5", "options262.json"),
        (
            "model.text_field_embedder.elmo.weight_file",
            "model.text_field_embedder.elmo.options_file",
        ),
    ],
)
def test_published_names_find_their_options(tiny: Tiny, tmp_path: Path, weights: str, options: str):
    place = tmp_path / "here"
    place.mkdir()
    shutil.copy(tiny.weights, place / weights)
    shutil.copy(tiny.options_path, place / options)
    embeds(place / weights, tiny.layers(WORDS_IN)[0])
    assert find_source(place).options == place / options


def test_two_published_models_in_one_folder_have_their_own_options(tiny: Tiny):
    """Some copies of the PubMed model name its options like its weights."""
    names = ["elmo_options.json", "elmo_options_PubMed_only.json"]
    for name in names:
        shutil.copy(tiny.options_path, tiny.options_path.with_name(name))
    tiny.options_path.unlink()
    for i, ending in enumerate(["", "_PubMed_only"]):
        weights = tiny.weights.with_name(f"elmo_weights{ending}.hdf5")
        shutil.copy(tiny.weights, weights)
        assert find_source(weights).options == weights.with_name(names[i])


def test_several_options_are_listed(tiny: Tiny):
    tiny.options_path.rename(tiny.options_path.with_name("a_options.json"))
    tiny.options_path.with_name("b_options.json").write_text("{}")
    with pytest.raises(FormatError, match=r"There are a_options\.json, b_options\.json: name one"):
        load(tiny.weights)


# Lists of words


@pytest.mark.parametrize("words", [["just", "words"], ["<S>", "</S>", "a", "a"]])
def test_words_that_are_not_needed_do_not_stop_embedding(tiny: Tiny, words: list[str]):
    (tiny.weights.parent / "vocab.txt").write_text("\n".join(words))
    embeds(tiny.weights, tiny.layers(WORDS_IN)[0])
    assert load(tiny.weights).vocabulary is None
    assert "list of words is left out" in load(tiny.weights).notes[0]


def test_a_model_that_reads_words_still_needs_its_list(tmp_path: Path):
    tiny = make(tmp_path, words=True)
    (tmp_path / "vocab.txt").write_text("\n".join(w for w in WORDS if w != "<UNK>"), "utf-8")
    with pytest.raises(FormatError, match=r"lacks <UNK>"):
        load(tiny.weights)


def test_a_compressed_list_of_words_is_read(tmp_path: Path):
    tiny = make(tmp_path, words=True)
    plain = tmp_path / "vocab.txt"
    with gzip.open(tmp_path / "vocab.txt.gz", "wb") as file:
        file.write(plain.read_bytes())
    plain.unlink()
    embeds(tiny.weights, tiny.layers(WORDS_IN)[0])
    embeds(pack_zip(tmp_path, tmp_path.with_name("packed.zip")), tiny.layers(WORDS_IN)[0])
    (tmp_path / "vocab.txt.gz").write_bytes((tmp_path / "vocab.txt.gz").read_bytes()[:-12])
    with pytest.raises(FormatError, match=r"vocab\.txt\.gz, line \d+: damaged"):
        load(tiny.weights)


# Archives


def test_a_tar_bz2_is_an_archive(tmp_path: Path):
    make_manylangs(tmp_path / "zhs.model")
    with tarfile.open(tmp_path / "zhs.model.tar.bz2", "w:bz2") as tar:
        tar.add(tmp_path / "zhs.model", "zhs.model")
    packed, folder = Embedder.load(tmp_path / "zhs.model.tar.bz2"), tmp_path / "zhs.model"
    assert packed.fingerprint == Embedder.load(folder).fingerprint
    (tmp_path / "bad.tar.bz2").write_bytes((tmp_path / "zhs.model.tar.bz2").read_bytes()[:-60])
    with pytest.raises(FormatError, match=r"bad\.tar\.bz2"):
        load(tmp_path / "bad.tar.bz2")


def test_one_of_several_models_in_an_archive_is_chosen(tmp_path: Path):
    first, second = (make(tmp_path / "all" / name, seed=i) for i, name in enumerate(["en", "no"]))
    archive = pack_zip(tmp_path / "all", tmp_path / "all.zip")
    with pytest.raises(FormatError, match=r"several models \(en, no\).*all\.zip#en"):
        load(archive)
    embeds(f"{archive}#en", first.layers(WORDS_IN)[0])
    embeds(f"{archive}#no", second.layers(WORDS_IN)[0])
    with pytest.raises(FormatError, match=r"'fr' is not one of its models \(en, no\)"):
        load(f"{archive}#fr")


def test_one_of_several_elmos_in_a_task_is_chosen(tmp_path: Path):
    first = make_task(tmp_path / "task")
    before = transformer_elmo.task_archive_prefix(first)
    second = transformer_elmo.task_archive_random_weights(OPTIONS, np.random.default_rng(9))
    renamed = {
        name.replace(before, "_answer._elmo."): array
        for name, array in second.items()
        if name.startswith(before)
    }
    save_tensors(first | renamed, tmp_path / "task" / "weights.th")
    archive = pack_tar(tmp_path / "task", tmp_path / "task.tar.gz")
    with pytest.raises(FormatError, match=r"several models \(_answer\._elmo, .*task\.tar\.gz#_ans"):
        load(archive)
    embeds(f"{archive}#_answer", transformer_elmo.task_archive_layers(second, OPTIONS, WORDS_IN)[0])
    embeds(f"{archive}#embedder", transformer_elmo.task_archive_layers(first, OPTIONS, WORDS_IN)[0])


@pytest.mark.parametrize("place", ["after_highway", "after_cnn"])
@pytest.mark.parametrize("norm", [True, False])
def test_a_transformer_inside_of_a_task_is_read_with_its_mix(
    tmp_path: Path, place: str, norm: bool
):
    encoder = {"projection_location": place, "do_layer_norm": norm}
    config = transformer_with(encoder)
    W = make_transformer(tmp_path / "lm", config)
    at = "_text_field_embedder.token_embedder_elmo."
    inside = {f"{at}_lm.{n}": array for n, array in W.items() if not n.startswith("_softmax")}
    scalars, gamma = [0.5, -1.0, 0.25], 1.5
    for i, value in enumerate(scalars):
        inside[f"{at}_scalar_mix.scalar_parameters.{i}"] = np.array([value], np.float32)
    inside[f"{at}_scalar_mix.gamma"] = np.array([gamma], np.float32)
    task = tmp_path / "task"
    task.mkdir()
    section = {"type": "bidirectional_lm_token_embedder", "archive_file": "https://x/lm.tar.gz"}
    outer = copy.deepcopy(TASK)
    outer["model"]["text_field_embedder"] = {"elmo": section}
    (task / "config.json").write_text(json.dumps(outer))
    save_tensors(inside | {"tagger.weight": np.ones((2, 2), np.float32)}, task / "weights.th")
    embedder = Embedder.load(task)
    np.testing.assert_allclose(
        embedder.embed([WORDS_IN])[0].layers,
        Embedder.load(tmp_path / "lm").embed([WORDS_IN])[0].layers,
        rtol=0, atol=1e-6,
    )  # fmt: skip
    expected = transformer_elmo.layers(W, config, WORDS_IN)
    np.testing.assert_allclose(embedder.embed([WORDS_IN])[0].top, expected[-1], rtol=0, atol=2e-5)
    assert "sizes are the tensors' own" in embedder.checkpoint.notes[0]
    (mix,) = embedder.checkpoint.mixes
    assert (list(mix.scalars), mix.gamma) == (scalars, gamma)


def test_an_elmo_starts_from_the_mix_that_the_task_learned(tmp_path: Path):
    W = make_task(tmp_path / "task", n_mixes=2)
    archive = pack_tar(tmp_path / "task", tmp_path / "task.tar.gz")
    elmo = Elmo.load(archive, n_mixes=2, dropout=0.0)
    layers, _ = transformer_elmo.task_archive_layers(W, OPTIONS, WORDS_IN)
    before = transformer_elmo.task_archive_prefix(W)
    for k, vectors in enumerate(elmo([WORDS_IN]).vectors):
        names = [f"{before}scalar_mix_{k}.scalar_parameters.{j}" for j in range(3)]
        gamma = float(W[f"{before}scalar_mix_{k}.gamma"][0])
        expected = scalar_mix(layers, [float(W[name][0]) for name in names], gamma)
        np.testing.assert_allclose(vectors[0].detach(), expected, rtol=0, atol=2e-5)
    assert all(p.requires_grad for p in elmo.mixes.parameters())
