"""A softmax that knows words before the first step: its biases are the words' log frequencies, its
rows static vectors counted from the corpus (positive pointwise mutual information of neighbors,
the best few dimensions of it). A model with a vector for each word starts from the same vectors.
Counting takes a minute for 20 million words.
"""

# V words, N words of text, M distinct pairs, P vector dim
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from elmore.checkpoint.native import save_tensors
from elmore.files.atomic import atomic_file
from elmore.models.bilm import BiLM
from elmore.nn.softmax import AdaptiveSoftmax, Softmax
from elmore.nn.word_char import WordChar
from elmore.pretrain.config import PretrainConfig
from elmore.pretrain.piece_corpus import BREAK
from elmore.pretrain.sentences import Words, read_sentences
from elmore.text.vocabulary import Vocabulary

IntArray = NDArray[np.int64]
START = "softmax-start.safetensors"

_WINDOW = 5  # words to either side; a pair at distance d counts 1/d
_WORDS = 30_000_000  # of the text that are counted, and
_ROWS = 50_000  # of the most frequent words that get a vector: what memory can hold
_CHUNK = 2_000_000  # words counted together
_LEAST = 0.7  # pairs that count less say more about chance than about words
_FLATTEN = 0.75  # the power of a neighbor's frequency, as in word2vec
_SPARE, _ROUNDS = 32, 3  # of the randomized search for the best dimensions
_LENGTH = 0.5  # root mean square of a word's own vector: large enough to open the LSTM's gates


def write_static_start(
    folder: Path, files: list[Path], config: PretrainConfig, vocabulary: Vocabulary
) -> bool:
    """Counted once, by one process: all processes of a run must begin with the same numbers.
    Returns whether there was text enough for vectors."""
    torch.manual_seed(config.loop.seed)
    softmax = Softmax(len(vocabulary), config.model.context.dim)
    sentences = (words for path in files for words in read_sentences(path, config.reading))
    enough = fill_softmax(softmax, vocabulary, sentences, config.loop.seed)
    with atomic_file(folder / START) as path:
        save_tensors({"weight": softmax.weight.data, "bias": softmax.bias.data}, path)
    return enough


def start_from_counts(model: BiLM, softmax: Softmax | AdaptiveSoftmax, folder: Path) -> None:
    """What `write_static_start` has counted becomes the softmax, and the words' own vectors."""
    counted = load_file(folder / START)
    softmax.load_state_dict(counted)
    if isinstance(model.words, WordChar) and model.words.embed is not None:
        fill_words(model.words, counted["weight"])


def fill_softmax(
    softmax: Softmax, vocabulary: Vocabulary, sentences: Iterable[Words], seed: int
) -> bool:
    """Fill in biases and rows; words too rare to be counted keep the rows they have, and all do if
    there is too little text: then it returns False."""
    n_words, dim = softmax.weight.shape
    vectors, shares = counted(ids_of(sentences, vocabulary), n_words, dim, seed)
    if vectors is not None:
        norms = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
        known = norms.squeeze(1) > 0
        # as long, on the whole, as the random rows they replace
        softmax.weight.data[: len(vectors)][known] = (vectors / norms[known].mean())[known]
    softmax.bias.data[:, 0] = shares
    return vectors is not None


def counted(
    chunks: Iterable[IntArray], n_words: int, dim: int, seed: int
) -> tuple[Tensor | None, Tensor]:
    """Vectors of the most frequent words (at most V, P), zero where nothing is known of one; None
    if there is too little text. And the log of each word's share of the text, (V,)."""
    frequent = min(n_words, _ROWS)
    pairs, counts = count_neighbors(chunks, n_words, frequent)
    shares = torch.from_numpy((counts + 1) / (counts + 1).sum()).log().float()
    return static_vectors(pairs, frequent, dim, seed), shares


@torch.no_grad()
def fill_words(words: WordChar, rows: Tensor) -> None:
    """The words' own vectors are the softmax's rows (V, P); the projection passes them on."""
    assert words.embed is not None
    rows = rows[: words.embed.num_embeddings]
    words.embed.weight.copy_(rows / rows.square().mean(1, keepdim=True).sqrt() * _LENGTH)
    words.project.weight[:, : rows.shape[1]] = torch.eye(rows.shape[1])
    words.project.bias.zero_()


def ids_of(sentences: Iterable[Words], vocabulary: Vocabulary) -> Iterator[IntArray]:
    """Chunks of the text as numbers, its marks among them, a break after every sentence."""
    ids: list[int] = []
    total = 0
    for words in sentences:
        known = [vocabulary.begin, *map(vocabulary.id, words), vocabulary.end]
        ids += [*known, BREAK]
        if len(ids) >= _CHUNK:
            yield np.array(ids, dtype=np.int64)
            total, ids = total + len(ids), []
        if total >= _WORDS:
            return
    if ids:
        yield np.array(ids, dtype=np.int64)


def count_neighbors(
    chunks: Iterable[IntArray], n_words: int, frequent: int, window: int = _WINDOW
) -> tuple[tuple[IntArray, NDArray[np.float64]], NDArray[np.int64]]:
    """How often two frequent words stand near each other (M keys first·V + second, and weights),
    and how often each word stands anywhere (V)."""
    keys: IntArray = np.empty(0, np.int64)
    weights: NDArray[np.float64] = np.empty(0, np.float64)
    counts = np.zeros(n_words, np.int64)
    for ids in chunks:
        counts += np.bincount(ids[ids >= 0], minlength=n_words)
        sentence = np.cumsum(ids == BREAK)
        found, weight = [keys], [weights]
        for distance in range(1, window + 1):
            first, second = ids[:-distance], ids[distance:]
            near = (first >= 0) & (second >= 0) & (sentence[:-distance] == sentence[distance:])
            near &= (first < frequent) & (second < frequent)
            found.append(first[near] * frequent + second[near])
            weight.append(np.full(len(found[-1]), 1 / distance))
        keys, place = np.unique(np.concatenate(found), return_inverse=True)
        summed = np.bincount(place, np.concatenate(weight), minlength=len(keys))
        weights = summed.astype(np.float64)
    return (keys, weights), counts


def static_vectors(
    pairs: tuple[IntArray, NDArray[np.float64]], n_words: int, dim: int, seed: int
) -> Tensor | None:
    """(V, P): the left singular vectors of the PPMI matrix by the roots of their values, turned so
    that no dimension says more than another. None where there is too little text for that."""
    matrix = _ppmi(pairs, n_words)
    generator = torch.Generator().manual_seed(seed)
    width = dim + _SPARE
    if n_words < width or matrix._nnz() < width:
        return None
    basis = torch.randn(n_words, width, generator=generator)
    for _ in range(_ROUNDS):  # PPMI is symmetric: its powers lean towards its largest directions
        basis = torch.linalg.qr(matrix @ basis).Q  # (V, P + spare)
    u, s, _ = torch.linalg.svd(matrix @ basis, full_matrices=False)
    turn = torch.linalg.qr(torch.randn(dim, dim, generator=generator)).Q
    vectors: Tensor = (u[:, :dim] * s[:dim].sqrt()) @ turn
    return vectors


def _ppmi(pairs: tuple[IntArray, NDArray[np.float64]], n_words: int) -> Tensor:
    """Both orders of every pair; sparse (V, V)."""
    keys, weights = (torch.from_numpy(array) for array in pairs)
    first, second = keys // n_words, keys % n_words
    places = torch.stack([torch.cat([first, second]), torch.cat([second, first])])
    counts = _sparse(places, weights.repeat(2), n_words)
    kept = counts.values() >= _LEAST
    (row, column), n = counts.indices()[:, kept], counts.values()[kept]
    total = torch.zeros(n_words, dtype=torch.float64).index_add_(0, row, n)  # symmetric: both ways
    flat = total**_FLATTEN
    pmi = torch.log(n * flat.sum() / (total[row] * flat[column]))
    said = pmi > 0
    return _sparse(torch.stack([row[said], column[said]]), pmi[said].float(), n_words)


def _sparse(places: Tensor, values: Tensor, n_words: int) -> Tensor:
    size = (n_words, n_words)
    return torch.sparse_coo_tensor(places, values, size, check_invariants=False).coalesce()
