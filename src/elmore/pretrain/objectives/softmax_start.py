"""Which softmax a biLM is trained with, and what it starts from: the one that came with the model,
random numbers, or vectors counted from the corpus, which the table of words then starts from too.
"""

# V words, P vector dim
from pathlib import Path

import torch
from safetensors.torch import load_file

from elmore.checkpoint.bilm import SoftmaxHead
from elmore.checkpoint.native import save_tensors
from elmore.errors import ConfigError
from elmore.files.atomic import atomic_file
from elmore.models.bilm import BiLM
from elmore.nn.softmax import (
    AdaptiveSoftmax,
    AdaptiveSoftmaxConfig,
    Softmax,
    SoftmaxConfig,
    build_softmax,
    samples_of,
)
from elmore.nn.word_char import WordChar
from elmore.pretrain.config import PretrainConfig
from elmore.pretrain.sentences import read_sentences
from elmore.pretrain.static_start import fill_softmax, fill_words
from elmore.text.vocabulary import Vocabulary

START = "softmax-start.safetensors"


def choose_softmax(
    config: SoftmaxConfig, kept: SoftmaxHead | None, n_words: int, dim: int
) -> Softmax | AdaptiveSoftmax:
    """The model's own if it has one, else a new one."""
    if kept is None:
        return build_softmax(config, n_words, dim)
    if isinstance(kept, AdaptiveSoftmax):
        return kept
    if isinstance(config, AdaptiveSoftmaxConfig):
        raise ConfigError("softmax.kind is adaptive, but the model begun from has a plain softmax.")
    return Softmax.from_linear(kept, samples_of(config, n_words))


def write_static_start(
    folder: Path, files: list[Path], config: PretrainConfig, vocabulary: Vocabulary
) -> None:
    """Counted once, by one process: all processes of a run must begin with the same numbers."""
    torch.manual_seed(config.loop.seed)
    softmax = Softmax(len(vocabulary), config.model.context.dim)
    sentences = (words for path in files for words in read_sentences(path, config.reading))
    fill_softmax(softmax, vocabulary, sentences, config.loop.seed)
    with atomic_file(folder / START) as path:
        save_tensors({"weight": softmax.weight.data, "bias": softmax.bias.data}, path)


def start_from_counts(model: BiLM, softmax: Softmax | AdaptiveSoftmax, folder: Path) -> None:
    """What `write_static_start` has counted becomes the softmax, and the words' own vectors."""
    counted = load_file(folder / START)
    softmax.load_state_dict(counted)
    if isinstance(model.words, WordChar) and model.words.embed is not None:
        fill_words(model.words, counted["weight"])
