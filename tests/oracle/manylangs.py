"""ELMoForManyLangs in float64 NumPy, one sentence at a time.

`W` holds the arrays of token_embedder.pkl and encoder.pkl together (their names never clash),
`config` is the inner file that config.json names, the dictionaries are word.dic and char.dic.
"""

# n words, M characters a word, P projection, F filters, L layers

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.oracle.lstm_elmo import ACTIVATIONS, Array, Options, State, Weights, get
from tests.oracle.torch_layout import (
    bidirectional_layers,
    convolve_and_max,
    count,
    highways,
    linear,
    random_convolutions,
    random_highways,
    random_linear,
    random_lstms,
)

BEGIN, END = "<bos>", "<eos>"
IDEOGRAPHIC_SPACE = "\u3000"


def read_dic(path: Path | str) -> dict[str, int]:
    """`item<TAB>id` a line; where stripping leaves one field the item was U+3000."""
    ids = {}
    for line in Path(path).read_text("utf-8").split("\n"):
        fields = line.strip().split("\t")
        if fields == [""]:
            continue
        item = fields[0] if len(fields) == 2 else IDEOGRAPHIC_SPACE
        ids[item] = int(fields[-1])
    return ids


def char_ids(word: str, char_dic: Mapping[str, int], max_characters: int = 50) -> list[int]:
    """The ids of one word (M,): the original opens with <eow> and closes with <bow>."""
    characters = [word] if word in (BEGIN, END) else list(word[: max_characters - 2])
    body = [char_dic.get(character, char_dic["<oov>"]) for character in characters]
    ids = [char_dic["<eow>"], *body, char_dic["<bow>"]]
    return ids + [char_dic["<pad>"]] * (max_characters - len(ids))


def word_vector(
    W: Weights,
    config: Options,
    word: str,
    word_dic: Mapping[str, int] | None,
    char_dic: Mapping[str, int],
) -> Array:
    """The context-free vector (P,): the word's own vector, where there is one, then its spelling"""
    embedder = config["token_embedder"]
    max_characters = embedder["max_characters_per_token"]
    pieces = []
    if "word_emb_layer.embedding.weight" in W:
        assert word_dic is not None, "a model with word vectors needs word.dic"
        known = word if word in (BEGIN, END) else word[: max_characters - 2]
        row = word_dic.get(known, word_dic["<oov>"])
        pieces.append(get(W, "word_emb_layer.embedding.weight")[row])
    if "char_emb_layer.embedding.weight" in W:
        ids = char_ids(word, char_dic, max_characters)
        characters = get(W, "char_emb_layer.embedding.weight")[np.array(ids)]  # (M, E)
        pieces.append(spell(W, embedder["activation"], characters))
    return linear(W, "projection", np.concatenate(pieces))


def spell(W: Weights, activation: str, characters: Array) -> Array:
    """Convolutions, maxima and highways over one word's characters (M, E): (F,)."""
    maxima = []
    for i in range(count(W, "convolutions.{}.weight")):
        maxima.append(ACTIVATIONS[activation](convolve_and_max(W, f"convolutions.{i}", characters)))
    return highways(W, "highways", np.concatenate(maxima))


def layers(
    W: Weights,
    config: Options,
    words: Sequence[str],
    word_dic: Mapping[str, int] | None,
    char_dic: Mapping[str, int],
    state: State | None = None,
) -> tuple[Array, State]:
    """All layers of one sentence, marks fed and stripped: (L + 1, n, 2P), and the state after."""
    marked = [BEGIN, *words, END]
    x = np.stack([word_vector(W, config, word, word_dic, char_dic) for word in marked])
    clips = (config["encoder"].get("cell_clip"), config["encoder"].get("proj_clip"))
    return bidirectional_layers(W, "", x, clips, state)


def random_weights(
    config: Options, rng: np.random.Generator, n_words: int, n_characters: int
) -> tuple[dict[str, npt.NDArray[np.float32]], dict[str, npt.NDArray[np.float32]]]:
    """Float32 (token_embedder, encoder) for dictionaries of these sizes; word_dim 0 is char-only"""
    embedder, encoder = config["token_embedder"], config["encoder"]
    word_dim, char_dim = embedder["word_dim"], embedder["char_dim"]
    total = sum(n_filters for _, n_filters in embedder["filters"])
    tokens: dict[str, Array] = {}
    if word_dim > 0:
        tokens["word_emb_layer.embedding.weight"] = rng.normal(0.0, 1.0, (n_words, word_dim))
    table = rng.uniform(-1.0, 1.0, (n_characters, char_dim))
    tokens["char_emb_layer.embedding.weight"] = table
    tokens.update(random_convolutions("convolutions.{}", embedder["filters"], char_dim, rng))
    tokens.update(random_highways("highways", embedder["n_highway"], total, rng))
    tokens.update(random_linear("projection", encoder["projection_dim"], word_dim + total, rng))
    lstms = random_lstms("", encoder, rng)
    return (
        {name: array.astype(np.float32) for name, array in tokens.items()},
        {name: array.astype(np.float32) for name, array in lstms.items()},
    )
