"""Small cases of every part of the oracle, worked by hand or by a second way to the same number."""

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.oracle import lstm_elmo, manylangs, sampled_softmax, torch_layout, transformer_elmo
from tests.oracle.scalar_mix import scalar_mix

Arrays = dict[str, npt.NDArray[Any]]

OPTIONS: dict[str, Any] = {
    "lstm": {
        "dim": 12,
        "projection_dim": 6,
        "n_layers": 2,
        "cell_clip": 3,
        "proj_clip": 3,
        "use_skip_connections": True,
    },
    "char_cnn": {
        "embedding": {"dim": 4},
        "filters": [[1, 3], [2, 5], [3, 7]],
        "n_highway": 2,
        "max_characters_per_token": 20,
        "activation": "relu",
    },
}
WORDS = ["a", "small", "river", "runs", "past", "the", "bank", "and", "the", "old", "river"]


def changed(**lstm: Any) -> dict[str, Any]:
    return {**OPTIONS, "lstm": {**OPTIONS["lstm"], **lstm}}


def rng() -> np.random.Generator:
    return np.random.default_rng(7)


def test_the_oracle_knows_neither_the_package_nor_torch() -> None:
    for path in Path(__file__).parent.glob("*.py"):
        if path.name.startswith("test_"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not {name.split(".")[0] for name in names} & {"elmore", "torch"}, path.name


@pytest.mark.parametrize(
    ("word", "ids"),
    [
        ("cat", [259, 100, 98, 117, 260, 261, 261]),
        ("<S>", [259, 257, 260, 261, 261, 261, 261]),
        ("</S>", [259, 258, 260, 261, 261, 261, 261]),
        ("<UNK>", [259, 61, 86, 79, 76, 63, 260]),
        ("aéé", [259, 98, 196, 170, 196, 170, 260]),  # é is bytes 195, 169
        ("aaéé", [259, 98, 98, 196, 170, 196, 260]),  # cut inside the last letter
        ("a\ud800b", [259, 98, 99, 260, 261, 261, 261]),  # half a surrogate pair is dropped
        ("", [259, 260, 261, 261, 261, 261, 261]),
    ],
)
def test_a_word_is_its_bytes_between_marks(word: str, ids: list[int]) -> None:
    assert lstm_elmo.char_ids(word, 7) == ids


def test_a_convolution_keeps_the_largest_window_of_all() -> None:
    characters = np.array([[1.0], [2.0], [-4.0], [0.0]])
    kernel = np.array([[[1.0, 1.0]], [[1.0, -1.0]]])  # sum and difference of neighbours
    best = lstm_elmo.convolve_and_max(characters, kernel, np.array([0.5, 0.0]))
    np.testing.assert_allclose(best, [3.5, 6.0])  # 1 + 2 + 0.5, 2 - (-4)
    W = {"c.weight": kernel.transpose(2, 1, 0), "c.bias": np.array([0.5, 0.0])}
    np.testing.assert_allclose(torch_layout.convolve_and_max(W, "c", characters), best)


def test_an_open_highway_gate_takes_the_candidate_here_and_the_input_there() -> None:
    x = np.array([-2.0])
    W = {"h/W_carry": [[0.0]], "h/b_carry": [40.0], "h/W_transform": [[-1.5]]}
    arrays = {name: np.array(value) for name, value in W.items()}
    arrays["h/b_transform"] = np.array([1.0])
    np.testing.assert_allclose(lstm_elmo.highway(arrays, "h", x), [4.0])
    arrays["t._layers.0.weight"] = np.array([[-1.5], [0.0]])
    arrays["t._layers.0.bias"] = np.array([1.0, 40.0])
    np.testing.assert_allclose(torch_layout.highways(arrays, "t", x), [-2.0])


@pytest.mark.parametrize(("cell_clip", "second_cell"), [(None, 0.75), (0.6, 0.6)])
def test_an_lstm_cell_by_hand(cell_clip: float | None, second_cell: float) -> None:
    # i = 0, j = 50, f = -1 (+1), o = 0: c becomes c / 2 + 1 / 2, and h is tanh(c) / 2
    W = {"n/W_0": np.zeros((2, 4)), "n/B": np.array([0.0, 50.0, -1.0, 0.0])}
    options = {"lstm": {"cell_clip": cell_clip}}
    start = lstm_elmo.zero_layer_state(W, "n")
    out, (h, c) = lstm_elmo.lstm_layer(W, options, "n", np.zeros((2, 1)), start)
    np.testing.assert_allclose(out[:, 0], [np.tanh(0.5) / 2, np.tanh(second_cell) / 2])
    np.testing.assert_allclose([h[0], c[0]], [np.tanh(second_cell) / 2, second_cell])


def test_a_projection_is_clipped_and_fed_back() -> None:
    # W_0's second row reads h into j alone: 50 - 20 h is 50, then 10 since h was clipped to 2
    W = {
        "n/W_0": np.array([[0.0] * 4, [0.0, -20.0, 0.0, 0.0]]),
        "n/B": np.array([0.0, 50.0, -1.0, 0.0]),
        "n/W_P_0": np.array([[100.0]]),
    }
    start = lstm_elmo.zero_layer_state(W, "n")
    out, (_, c) = lstm_elmo.lstm_layer(W, {"lstm": {"proj_clip": 2}}, "n", np.zeros((2, 1)), start)
    np.testing.assert_allclose(out[:, 0], [2.0, 2.0])
    np.testing.assert_allclose(c, [0.75])


def test_random_weights_reach_both_clips_and_stay_alive() -> None:
    W = lstm_elmo.random_weights(OPTIONS, rng())
    with_both, _ = lstm_elmo.layers(W, OPTIONS, WORDS)
    for name in ("cell_clip", "proj_clip"):
        without, _ = lstm_elmo.layers(W, changed(**{name: None}), WORDS)
        assert np.abs(with_both - without).max() > 1e-3, name
        np.testing.assert_array_equal(with_both[0], without[0])
    assert with_both.shape == (3, len(WORDS), 12)
    assert with_both.std(axis=1).min() > 1e-3, "a dead unit would hide errors"


def test_a_skip_connection_adds_the_layer_below() -> None:
    W = lstm_elmo.random_weights(OPTIONS, rng())
    added, _ = lstm_elmo.layers(W, OPTIONS, WORDS)
    plain, _ = lstm_elmo.layers(W, changed(use_skip_connections=False), WORDS)
    np.testing.assert_array_equal(added[:2], plain[:2])
    np.testing.assert_allclose(added[2] - plain[2], added[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("n_layers", [1, 3])
def test_reading_in_two_parts_with_the_state_equals_reading_at_once(n_layers: int) -> None:
    options = changed(n_layers=n_layers, dim=6)  # as many cells as outputs: no projection
    W = lstm_elmo.random_weights(options, rng())
    assert not any(name.endswith("W_P_0") for name in W)
    x = rng().normal(size=(7, 6))
    whole, _ = lstm_elmo.direction(W, options, 1, x)
    first, state = lstm_elmo.direction(W, options, 1, x[:3])
    second, _ = lstm_elmo.direction(W, options, 1, x[3:], state)
    for layer in range(n_layers):
        parts = np.concatenate([first[layer], second[layer]])
        np.testing.assert_allclose(parts, whole[layer], rtol=0, atol=1e-12)


def test_weights_survive_a_file(tmp_path: Path) -> None:
    W = lstm_elmo.random_weights(OPTIONS, rng(), vocab_size=9)
    lstm_elmo.write_hdf5(tmp_path / "w.hdf5", W)
    (tmp_path / "options.json").write_text(json.dumps(OPTIONS))
    read, options = lstm_elmo.read_hdf5(tmp_path / "w.hdf5", tmp_path / "options.json")
    assert options == OPTIONS
    assert read.keys() == W.keys()
    for name, array in W.items():
        np.testing.assert_array_equal(read[name], array)


def test_a_word_input_model_looks_words_up() -> None:
    options = {"lstm": OPTIONS["lstm"]}
    vocab = ["<S>", "</S>", "<UNK>", "river", "bank"]
    W = lstm_elmo.random_weights(options, rng(), vocab_size=5)
    layers, _ = lstm_elmo.layers(W, options, ["bank", "mill", "river"], vocab=vocab)
    twice = np.concatenate([W["embedding"], W["embedding"]], axis=1)
    np.testing.assert_array_equal(layers[0], twice[[4, 2, 3]])


def test_log_probabilities_by_bias_alone() -> None:
    vocab = ["<S>", "</S>", "<UNK>", "a", "b"]
    W = lstm_elmo.random_weights(OPTIONS, rng(), vocab_size=5)
    W["softmax/W"] = np.zeros_like(W["softmax/W"])
    W["softmax/b"] = np.log(np.array([1, 2, 3, 4, 10], dtype=np.float32))  # they sum to 20
    forward, backward, _ = lstm_elmo.sentence_log_probs(W, OPTIONS, ["a", "x", "b"], vocab)
    np.testing.assert_allclose(np.exp(forward), [0.2, 0.15, 0.5, 0.1], rtol=1e-6)  # a ? b </S>
    np.testing.assert_allclose(np.exp(backward), [0.5, 0.15, 0.2, 0.05], rtol=1e-6)  # b ? a <S>


def test_log_probabilities_agree_with_the_layers_and_carry_state() -> None:
    vocab = ["<S>", "</S>", "<UNK>", *dict.fromkeys(WORDS)]
    W = lstm_elmo.random_weights(OPTIONS, rng(), vocab_size=len(vocab))
    _, before = lstm_elmo.layers(W, OPTIONS, WORDS[:4])
    top = lstm_elmo.layers(W, OPTIONS, WORDS, before)[0][-1]  # (n, 2P): words only
    forward, backward, _ = lstm_elmo.sentence_log_probs(W, OPTIONS, WORDS, vocab, before)
    weight, bias = W["softmax/W"].astype(np.float64), W["softmax/b"].astype(np.float64)
    after = lstm_elmo.word_ids([*WORDS[1:], "</S>"], vocab)
    ahead = sampled_softmax.full_softmax_loss(top[:, :6], after, weight, bias)
    np.testing.assert_allclose(forward[1:], -ahead, rtol=0, atol=1e-12)
    prior = lstm_elmo.word_ids(["<S>", *WORDS[:-1]], vocab)
    behind = sampled_softmax.full_softmax_loss(top[:, 6:], prior, weight, bias)
    np.testing.assert_allclose(backward[1:], -behind[::-1], rtol=0, atol=1e-12)


def folded(W: Arrays) -> Arrays:
    """A model of the HDF5 format, rewritten by hand as a task archive stores it."""
    embedder = transformer_elmo.TASK_PREFIX + "_elmo_lstm._token_embedder."
    zero = np.zeros((1, W["char_embed"].shape[1]))
    out: Arrays = {f"{embedder}_char_embedding_weights": np.concatenate([zero, W["char_embed"]])}
    for i in range(3):
        out[f"{embedder}char_conv_{i}.weight"] = W[f"CNN/W_cnn_{i}"][0].transpose(2, 1, 0)
        out[f"{embedder}char_conv_{i}.bias"] = W[f"CNN/b_cnn_{i}"]
    for k in range(2):
        high, layer = f"CNN_high_{k}/", f"{embedder}_highways._layers.{k}."
        both = [W[f"{high}W_transform"].T, -W[f"{high}W_carry"].T]
        out[f"{layer}weight"] = np.concatenate(both)
        out[f"{layer}bias"] = np.concatenate([W[f"{high}b_transform"], -W[f"{high}b_carry"]])
    out[f"{embedder}_projection.weight"] = W["CNN_proj/W_proj"].T
    out[f"{embedder}_projection.bias"] = W["CNN_proj/b_proj"]
    for d, side in enumerate(("forward", "backward")):
        for layer_index in range(2):
            out.update(folded_cell(W, lstm_elmo.cell_name(d, layer_index), side, layer_index))
    return out


def folded_cell(W: Arrays, cell: str, side: str, layer: int) -> Arrays:
    i, j, f, o = np.split(W[f"{cell}/W_0"].T.astype(np.float64), 4)
    weight = np.concatenate([i, f, j, o])  # (4C, 2P)
    bi, bj, bf, bo = np.split(W[f"{cell}/B"].astype(np.float64), 4)
    name = f"{transformer_elmo.TASK_PREFIX}_elmo_lstm._elmo_lstm.{side}_layer_{layer}."
    return {
        f"{name}input_linearity.weight": weight[:, :6],
        f"{name}state_linearity.weight": weight[:, 6:],
        f"{name}state_linearity.bias": np.concatenate([bi, bf + 1.0, bj, bo]),
        f"{name}state_projection.weight": W[f"{cell}/W_P_0"].T,
    }


def test_a_task_archive_gives_the_layers_of_the_hdf5_model_it_came_from() -> None:
    W: Arrays = dict(lstm_elmo.random_weights(OPTIONS, rng()))
    truth, state = lstm_elmo.layers(W, OPTIONS, WORDS)
    ours, our_state = transformer_elmo.task_archive_layers(folded(W), OPTIONS, WORDS)
    np.testing.assert_allclose(ours, truth, rtol=0, atol=1e-12)
    again, _ = lstm_elmo.layers(W, OPTIONS, WORDS, state)
    ours, _ = transformer_elmo.task_archive_layers(folded(W), OPTIONS, WORDS, our_state)
    np.testing.assert_allclose(ours, again, rtol=0, atol=1e-12)
    assert np.abs(again - truth).max() > 1e-3, "the state must matter"


def test_a_task_archive_has_random_weights_of_the_same_names_and_mixes() -> None:
    W = transformer_elmo.task_archive_random_weights(OPTIONS, rng(), n_mixes=2)
    from_hdf5 = folded(dict(lstm_elmo.random_weights(OPTIONS, rng())))
    shapes = {name: array.shape for name, array in W.items() if "scalar_mix" not in name}
    assert shapes == {name: array.shape for name, array in from_hdf5.items()}
    weights, gamma = transformer_elmo.task_archive_mix(W, 1)
    prefix = transformer_elmo.TASK_PREFIX + "scalar_mix_1."
    assert weights.tolist() == [W[f"{prefix}scalar_parameters.{j}"][0] for j in range(3)]
    assert gamma == W[f"{prefix}gamma"][0]


def test_a_mix_by_hand() -> None:
    layers = [np.array([[1.0, 10.0]]), np.array([[3.0, 30.0]])]
    np.testing.assert_allclose(scalar_mix(layers, [0.0, 0.0]), [[2.0, 20.0]])
    mixed = scalar_mix(layers, [np.log(3.0), 0.0], gamma=2.0)  # shares 3/4 and 1/4
    np.testing.assert_allclose(mixed, [[3.0, 30.0]])


def test_a_mix_with_layer_norm_counts_unmasked_words_only() -> None:
    layer = np.array(
        [[[1.0, 3.0], [3.0, 1.0], [100.0, 2.0]]]
    )  # mean 2, variance 1 without the last
    mask = np.array([[1, 1, 0]])
    mixed = scalar_mix([layer, 5 * layer + 1], [0.3, -0.2], layer_norm=True, mask=mask)
    np.testing.assert_allclose(mixed, [[[-1.0, 1.0], [1.0, -1.0], [98.0, 0.0]]], rtol=0, atol=1e-9)
    wide_eps = scalar_mix([layer], [0.0], layer_norm=True, mask=mask, eps=3.0)
    np.testing.assert_allclose(wide_eps, [[[-0.5, 0.5], [0.5, -0.5], [49.0, 0.0]]])


def test_log_uniform_chances_by_hand() -> None:
    chances = sampled_softmax.log_uniform_probabilities(2)
    np.testing.assert_allclose(chances, np.array([np.log(2), np.log(1.5)]) / np.log(3))
    assert sampled_softmax.log_uniform_probabilities(793471).sum() == pytest.approx(1.0)
    counts = sampled_softmax.expected_counts(np.array([0.5, 0.1]), 3)
    np.testing.assert_allclose(counts, [0.875, 0.271])  # 1 - 0.5^3, 1 - 0.9^3


def test_a_sampled_loss_by_hand() -> None:
    h, weight, bias = np.array([[2.0]]), np.array([[1.0], [0.5], [0.0]]), np.array([0.0, 0.5, 0.0])
    q = sampled_softmax.expected_counts(sampled_softmax.log_uniform_probabilities(3), 4)
    loss = sampled_softmax.sampled_softmax_loss(h, [0], [2, 0, 1], 4, weight, bias)
    # the hit on 0 is dropped; logits are 2, 1.5 and 0
    terms = np.exp([2.0, 1.5, 0.0]) / q
    np.testing.assert_allclose(loss, [-np.log(terms[0] / terms.sum())])
    assert sampled_softmax.sampled_softmax_loss(h, [1], [1], 4, weight, bias)[0] == 0.0


def test_a_sampled_loss_over_every_word_drawn_for_sure_is_the_full_loss() -> None:
    r = rng()
    h, weight, bias = r.normal(size=(5, 3)), r.normal(size=(8, 3)), r.normal(size=8)
    targets = [0, 7, 3, 3, 1]
    full = sampled_softmax.full_softmax_loss(h, targets, weight, bias)
    sampled = sampled_softmax.sampled_softmax_loss(h, targets, range(8), 10**6, weight, bias)
    np.testing.assert_allclose(sampled, full, rtol=0, atol=1e-12)


def transformer_config(**encoder: Any) -> dict[str, Any]:
    encoder = {
        "embedding_dim": 4,
        "filters": [[1, 4], [2, 8]],
        "num_highway": 2,
        "projection_dim": 16,
        **encoder,
    }
    return {
        "model": {
            "contextualizer": {"input_dim": 16, "hidden_dim": 12, "num_layers": 2},
            "text_field_embedder": {"token_characters": {"encoder": encoder}},
        }
    }


def test_attention_without_a_question_averages_what_it_may_see() -> None:
    W: Arrays = {f"a.linears.{i}.weight": np.eye(8) for i in range(4)}
    W["a.linears.0.weight"] = np.zeros((8, 8))
    x = np.outer([3.0, 5.0, 10.0], np.ones(8))
    causal = np.tril(np.ones((3, 3), dtype=bool))
    forward = transformer_elmo.attention(W, "a", x, causal)
    backward = transformer_elmo.attention(W, "a", x, causal.T)
    np.testing.assert_allclose(forward[:, 0], [3.0, 4.0, 6.0])
    np.testing.assert_allclose(backward[:, 7], [6.0, 7.5, 10.0])


def test_transformer_directions_see_only_their_own_past() -> None:
    config = transformer_config(projection_location="after_highway", do_layer_norm=True)
    W = transformer_elmo.random_weights(config, rng(), vocab_size=9, n_positions=30)
    one = transformer_elmo.layers(W, config, ["a", "river", "bank"])
    other = transformer_elmo.layers(W, config, ["a", "river", "mill"])
    assert one.shape == (3, 3, 32)
    np.testing.assert_array_equal(one[:, :2, :16], other[:, :2, :16])
    assert np.abs(one[1:, :2, 16:] - other[1:, :2, 16:]).max(axis=2).min() > 1e-3


@pytest.mark.parametrize("sparse", [True, False])
def test_losses_of_sentences_of_one_length_need_no_correction(sparse: bool) -> None:
    config = transformer_config(projection_location="after_cnn")
    config["model"]["sparse_embeddings"] = sparse
    vocab = ["@@PADDING@@", "@@UNKNOWN@@", "<S>", "</S>", "a", "b"]
    W = transformer_elmo.random_weights(config, rng(), vocab_size=6, n_positions=30)
    suffix = ".weight" if sparse else ""
    assert W[f"_softmax_loss.softmax_b{suffix}"].shape == ((6, 1) if sparse else (6,))
    even = [["a", "b"], ["b", "x"]]
    plain = transformer_elmo.losses(W, config, even, vocab)
    assert transformer_elmo.losses_as_allennlp_reports(W, config, even, vocab) == plain
    assert plain[2] == pytest.approx((plain[0] + plain[1]) / 2)


def test_transformer_targets_are_ids_less_one() -> None:
    config = transformer_config()
    vocab = ["@@PADDING@@", "@@UNKNOWN@@", "<S>", "</S>", "a"]
    W = transformer_elmo.random_weights(config, rng(), vocab_size=5, n_positions=30)
    W["_softmax_loss.softmax_w"] = np.zeros_like(W["_softmax_loss.softmax_w"])
    W["_softmax_loss.softmax_b"] = np.log(np.array([1, 2, 3, 4, 10], dtype=np.float32))
    forward, backward, _ = transformer_elmo.losses(W, config, [["a"]], vocab)
    assert forward == pytest.approx(-(np.log(4 / 20) + np.log(3 / 20)) / 2)  # a, </S>
    assert backward == pytest.approx(-(np.log(2 / 20) + np.log(4 / 20)) / 2)  # <S>, a


CHAR_DIC = {"a": 0, "b": 1, "<bos>": 2, "<eos>": 3, "<oov>": 4, "<pad>": 5, "<bow>": 6, "<eow>": 7}


def manylangs_config(word_dim: int) -> dict[str, Any]:
    embedder = {
        "activation": "tanh",
        "filters": [[1, 3], [2, 5]],
        "n_highway": 1,
        "word_dim": word_dim,
        "char_dim": 4,
        "max_characters_per_token": 6,
    }
    return {"encoder": OPTIONS["lstm"], "token_embedder": embedder}


def test_manylangs_words_open_with_the_closing_mark() -> None:
    assert manylangs.char_ids("ab", CHAR_DIC, 6) == [7, 0, 1, 6, 5, 5]
    assert manylangs.char_ids("bzbbbb", CHAR_DIC, 6) == [7, 1, 4, 1, 1, 6]
    assert manylangs.char_ids("<eos>", CHAR_DIC, 6) == [7, 3, 6, 5, 5, 5]


def test_manylangs_dictionaries_hold_the_wide_space(tmp_path: Path) -> None:
    (tmp_path / "char.dic").write_text("a\t0\n\u3000\t1\n<oov>\t2\n", encoding="utf-8")
    assert manylangs.read_dic(tmp_path / "char.dic") == {"a": 0, "\u3000": 1, "<oov>": 2}


def test_manylangs_word_columns_come_first_and_may_be_absent() -> None:
    config = manylangs_config(3)
    tokens, encoder = manylangs.random_weights(config, rng(), n_words=2, n_characters=8)
    W: Arrays = {**tokens, **encoder}
    word_dic = {"<oov>": 0, "ab": 1}
    full, _ = manylangs.layers(W, config, ["ab", "ba"], word_dic, CHAR_DIC)
    bare: Arrays = {name: a for name, a in W.items() if not name.startswith("word_emb")}
    bare["projection.weight"] = W["projection.weight"][:, 3:]
    alone, _ = manylangs.layers(bare, manylangs_config(0), ["ab", "ba"], None, CHAR_DIC)
    table = W["word_emb_layer.embedding.weight"].astype(np.float64)
    added = table[[1, 0]] @ W["projection.weight"][:, :3].T.astype(np.float64)
    np.testing.assert_allclose(full[0, :, :6] - alone[0, :, :6], added, rtol=0, atol=1e-12)
    names, _ = manylangs.random_weights(manylangs_config(0), rng(), n_words=2, n_characters=8)
    assert {name: a.shape for name, a in names.items()} == {
        name: a.shape for name, a in bare.items() if name in tokens
    }
