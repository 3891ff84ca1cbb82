"""The checkpoint of a biLM: the reader that its config calls for, and the softmax that predicts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from elmore.checkpoint.checkpoint import Checkpoint, LearnedMix
from elmore.errors import FormatError
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.models.language_model import LanguageModel
from elmore.models.layers import LayerModel
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.softmax import AdaptiveSoftmax, Softmax
from elmore.nn.word_char import WordCharConfig, WordTableConfig
from elmore.text.byte_reader import ByteReader
from elmore.text.dictionary_reader import DictionaryReader, read_dictionary
from elmore.text.reader import Speller
from elmore.text.vocabulary import Vocabulary, WordReader

SOFTMAX = "softmax"
SoftmaxHead = nn.Linear | AdaptiveSoftmax


def bilm_checkpoint(
    model: LayerModel,
    *,
    vocabulary: Vocabulary | None = None,
    softmax: SoftmaxHead | None = None,
    dictionary: DictionaryReader | None = None,
    options: Mapping[str, Any] | None = None,
    mixes: tuple[LearnedMix, ...] = (),
    notes: tuple[str, ...] = (),
) -> Checkpoint:
    """A biLM with what belongs to it."""
    assert isinstance(model, BiLM)
    return Checkpoint(
        model=model,
        reader=reader_of(model.config, vocabulary, dictionary),
        heads={} if softmax is None else {SOFTMAX: softmax},
        vocabulary=vocabulary,
        options=options or {},
        mixes=mixes,
        notes=notes,
    )


def reader_of(
    config: BiLMConfig, vocabulary: Vocabulary | None, dictionary: DictionaryReader | None = None
) -> Speller | None:
    """For bytes, a dictionary or a vocabulary; None if the file of these is missing."""
    match config.words:
        case CharCNNConfig():
            return ByteReader(config.words.max_characters)
        case WordCharConfig():
            return dictionary
        case WordTableConfig():
            return None if vocabulary is None else WordReader(vocabulary)


def read_dictionaries(
    config: BiLMConfig, characters: Path, listed: Path
) -> DictionaryReader | None:
    """The reader of a model that has dictionaries, from their two files; None for other models."""
    words = config.words
    if not isinstance(words, WordCharConfig):
        return None
    ids = read_dictionary(characters, words.characters.n_characters)
    word_ids = read_dictionary(listed, words.n_words) if words.n_words else None
    try:
        return DictionaryReader(ids, word_ids, words.max_characters)
    except FormatError as error:
        raise FormatError(f"{characters.parent}: {error}") from None


def bilm_of(checkpoint: Checkpoint) -> BiLM:
    """The model, or an error if it is of another kind."""
    if not isinstance(checkpoint.model, BiLM):
        kind = type(checkpoint.model).__name__
        raise FormatError(f"The model is a {kind}; expected a bidirectional language model.")
    return checkpoint.model


def speller_of(checkpoint: Checkpoint) -> Speller:
    """A biLM's reader, or an error that says what is missing."""
    reader = checkpoint.need_reader()
    assert isinstance(reader, ByteReader | DictionaryReader | WordReader)
    return reader


def softmax_of(checkpoint: Checkpoint) -> SoftmaxHead | None:
    """The head by which a biLM predicts words, if it was read."""
    head = checkpoint.heads.get(SOFTMAX)
    assert head is None or isinstance(head, SoftmaxHead)
    return head


def language_model(checkpoint: Checkpoint, source: str) -> LanguageModel:
    """A checkpoint that can predict, or what it lacks."""
    softmax = softmax_of(checkpoint)
    if softmax is None or checkpoint.vocabulary is None:
        lacks = "softmax" if softmax is None else "vocabulary (vocab.txt)"
        raise FormatError(
            f"{source}: has no {lacks}, so it cannot predict words; most published ELMos come "
            "without one. Train one with: elmore pretrain CORPUS --from SOURCE."
        )
    plain = softmax if isinstance(softmax, AdaptiveSoftmax) else Softmax.from_linear(softmax)
    return LanguageModel(bilm_of(checkpoint), plain)


def build_softmax(weight: Tensor, bias: Tensor) -> nn.Linear:
    softmax = nn.Linear(weight.shape[1], weight.shape[0], device="meta")
    softmax.load_state_dict({"weight": weight, "bias": bias}, assign=True)
    return softmax.requires_grad_(False)


def read_vocabulary(
    path: Path | None, config: BiLMConfig, softmax: SoftmaxHead | None
) -> tuple[Vocabulary | None, tuple[str, ...]]:
    """The words in a file beside a model, and what is to be noted. Most ELMos spell their words and
    need no list: one that is damaged, or lacks the marks, does not stop them."""
    if path is None:
        return None, ()
    try:
        words = Vocabulary.read(path)
        check_vocabulary(words, config, softmax, str(path))
    except FormatError as error:
        if softmax is not None or isinstance(config.words, WordTableConfig):
            raise
        return None, (f"The list of words is left out, as embedding needs none. {error}",)
    return words, ()


def check_vocabulary(
    words: Vocabulary | None, config: BiLMConfig, softmax: SoftmaxHead | None, source: str
) -> None:
    """Ids are row numbers, so a vocabulary must be as long as the tables it numbers."""
    if words is None:
        return
    tables: dict[str, int] = {}
    if isinstance(config.words, WordTableConfig):
        tables["word table"] = config.words.n_words
    if softmax is not None:
        tables["softmax"] = softmax.out_features
    for name, rows in tables.items():
        if rows != len(words):
            raise FormatError(
                f"{source}: {len(words):,} words, but the model's {name} has {rows:,} rows; "
                "expected the vocabulary it was trained with."
            )
