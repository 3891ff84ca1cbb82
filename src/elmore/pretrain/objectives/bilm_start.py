"""What a biLM starts from: the run's newest checkpoint, a model named by --from, or new weights;
with its vocabulary, the reader of its words, and its softmax.
"""

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

from elmore.checkpoint.bilm import SoftmaxHead, bilm_checkpoint, bilm_of, softmax_of, speller_of
from elmore.checkpoint.checkpoint import Checkpoint, build_model
from elmore.checkpoint.native import read_native
from elmore.checkpoint.sources import load
from elmore.errors import ConfigError, FormatError, InputError
from elmore.models.bilm import BiLM, BiLMConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.softmax import (
    AdaptiveSoftmax,
    AdaptiveSoftmaxConfig,
    Softmax,
    SoftmaxConfig,
    build_softmax,
    samples_of,
)
from elmore.nn.transformer import TransformerConfig
from elmore.nn.word_char import WordCharConfig, WordTableConfig
from elmore.pretrain.config import Asked, PretrainConfig, Run, bilm_config
from elmore.pretrain.sentences import Counts
from elmore.pretrain.static_start import start_from_counts
from elmore.text.character_classes import character_classes
from elmore.text.dictionary_reader import CHARACTER_MARKS, WORD_MARKS, DictionaryReader
from elmore.text.reader import Speller
from elmore.text.vocabulary import MARKS, Vocabulary, WordReader, text_lines

VOCABULARY, LETTERS = "vocab.txt", "letters.txt"


@dataclass(frozen=True, slots=True)
class BiLMStart:
    """All that a training needs of a model."""

    model: BiLM
    reader: Speller
    softmax: Softmax | AdaptiveSoftmax
    softmax_first: bool
    """The softmax is new and the model is not: it learns alone for a while."""


def choose_vocabulary(asked: Asked, counts: Counts, source: Checkpoint | None) -> Vocabulary:
    """The words to predict: a source's own, those of a file, or the corpus's."""
    given, kept = asked.vocabulary, None if source is None else _fixed_vocabulary(source)
    if given is not None:
        words = Vocabulary.read(given)
        if not any(word in counts.words for word in words.words if word not in MARKS):
            raise InputError(f"{given}: none of its words is in the corpus; is it the right file?")
        if kept is not None and kept.words != words.words:
            raise ConfigError(
                f"{given}: not the vocabulary of {asked.source}, whose rows are tied to its own "
                "words; leave out --vocabulary."
            )
        return words
    if kept is not None:
        return kept
    wanted = bilm_config(asked).vocabulary
    found = Vocabulary.from_counts(
        counts.words, min_count=wanted.min_count, max_size=wanted.max_size
    )
    if len(found) == len(MARKS):
        raise InputError(
            f"No word of the corpus is seen {wanted.min_count} times, so there is nothing to "
            "predict; expected more text, or a lower vocabulary.min_count."
        )
    return found


def _fixed_vocabulary(source: Checkpoint) -> Vocabulary | None:
    """The words that a softmax or a word table has rows for."""
    tied = softmax_of(source) is not None or isinstance(source.reader, WordReader)
    return source.vocabulary if tied else None


def kept_softmax(source: Checkpoint) -> SoftmaxHead | None:
    """A softmax is of use only with its vocabulary."""
    return None if source.vocabulary is None else softmax_of(source)


def trained_config(
    asked: Asked,
    vocabulary: Vocabulary,
    source: Checkpoint | BiLMConfig | None,
    letters: list[str] | None,
) -> PretrainConfig:
    """The config with the model that is trained: a source's sizes and the recipe's dropout, or a
    recipe's model with tables as long as the lists of what they have rows for."""
    config = bilm_config(asked)
    if source is None:
        return config.model_copy(update={"model": _sized(config.model, vocabulary, letters)})
    known = bilm_of(source).config if isinstance(source, Checkpoint) else source
    if not known.has_state and config.batches.kind == "rows":
        raise ConfigError(
            f"{asked.source}: a Transformer carries no state; add --set batches.kind=sentences."
        )
    dropout: dict[str, float] = {}
    match known.context, config.model.context:
        case LSTMConfig(), LSTMConfig(dropout=share):
            dropout = {"dropout": share}
        case TransformerConfig(), TransformerConfig(dropout=share, input_dropout=first):
            dropout = {"dropout": share, "input_dropout": first}
    context = known.context.model_copy(update=dropout)
    model = known.model_copy(update={"context": context})
    # there is no softmax_start: the source's softmax, or a random one
    return config.model_copy(update={"model": model, "softmax_start": "random"})


def start_bilm(run: Run, folder: Path, vocabulary: Vocabulary, newest: Path | None) -> BiLMStart:
    config = bilm_config(run)
    if newest is not None:
        checkpoint = _newest(newest, vocabulary)
    elif run.source is not None:
        found = load(run.source, heads=True)
        model = build_model(config.model, bilm_of(found).state_dict(), run.source)
        kept = {} if kept_softmax(found) is None else found.heads
        checkpoint = replace(found, model=model, heads=kept)
    else:
        checkpoint = _new(config.model, vocabulary, read_letters(folder, config))
    bilm, head = bilm_of(checkpoint), softmax_of(checkpoint)
    softmax = _softmax(config.softmax, head, len(vocabulary), bilm.config.context.dim)
    if newest is None and run.source is None and config.softmax_start == "static":
        start_from_counts(bilm, softmax, folder)
    # only a model with a table of words may have come without its reader
    reader = WordReader(vocabulary) if checkpoint.reader is None else speller_of(checkpoint)
    alone = newest is None and run.source is not None and head is None
    return BiLMStart(bilm, reader, softmax, alone)


def _softmax(
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


def _newest(folder: Path, vocabulary: Vocabulary) -> Checkpoint:
    """The run's own weights; how far it has come is restored later."""
    found = read_native(folder, heads=True)
    if softmax_of(found) is None or found.vocabulary is None:
        raise FormatError(f"{folder}: its softmax or vocabulary is missing; remove it.")
    if found.vocabulary.words != vocabulary.words:
        raise FormatError(
            f"{folder}: its vocabulary is not that of the run; put {VOCABULARY} back."
        )
    return found


def _sized(config: BiLMConfig, vocabulary: Vocabulary, letters: list[str] | None) -> BiLMConfig:
    match config.words:
        case WordTableConfig(n_words=n_words) if n_words != len(vocabulary):
            raise ConfigError(
                f"model.words.n_words is {n_words}, but the vocabulary has {len(vocabulary)} "
                "words; they must be equal."
            )
        case WordCharConfig() as words:
            n_characters = len(dictionary_of(vocabulary, words, letters).characters)
            characters = words.characters.model_copy(update={"n_characters": n_characters})
            sizes = {"characters": characters, "n_words": min(words.n_words, len(vocabulary))}
            return config.model_copy(update={"words": words.model_copy(update=sizes)})
    return config


def _new(config: BiLMConfig, vocabulary: Vocabulary, letters: list[str] | None) -> Checkpoint:
    """Random weights."""
    words = config.words
    dictionary = None
    if isinstance(words, WordCharConfig):
        dictionary = dictionary_of(vocabulary, words, letters)
    return bilm_checkpoint(BiLM(config), vocabulary=vocabulary, dictionary=dictionary)


def corpus_letters(counts: Counts, config: PretrainConfig) -> list[str] | None:
    """The characters of the corpus, most frequent first, for a model that has classes of others."""
    if not _has_classes(config):
        return None
    letters: Counter[str] = Counter()
    for word, n in counts.words.items():
        letters.update(dict.fromkeys(word, n))
    return sorted(letters, key=lambda letter: (-letters[letter], letter))


def read_letters(folder: Path, config: PretrainConfig) -> list[str] | None:
    """The same from the run's folder."""
    return list(text_lines(folder / LETTERS)) if _has_classes(config) else None


def _has_classes(config: PretrainConfig) -> bool:
    return isinstance(config.model.words, WordCharConfig) and config.model.words.classes


def dictionary_of(
    vocabulary: Vocabulary, config: WordCharConfig, letters: list[str] | None = None
) -> DictionaryReader:
    """The first words of the vocabulary in its own rows, and the first `letters`, or the most
    frequent characters of the vocabulary; the config says how many at most."""
    marks = (vocabulary.begin, vocabulary.end, vocabulary.unknown)
    words = dict(zip(WORD_MARKS, marks, strict=True))
    if config.n_words and max(marks) >= config.n_words:
        raise ConfigError(
            f"model.words.n_words is {config.n_words}, but {', '.join(MARKS)} are not among the "
            "first words of the vocabulary."
        )
    for row, word in enumerate(vocabulary.words):
        if word not in MARKS and word.split() == [word]:
            words.setdefault(word, row)
    special = [*CHARACTER_MARKS, *(character_classes() if config.classes else [])]
    if letters is None:
        found = Counter(letter for word in words for letter in word)
        letters = [letter for letter, _ in found.most_common()]
    room = max(0, config.characters.n_characters - len(special))
    characters = {item: row for row, item in enumerate([*special, *sorted(letters[:room])])}
    listed = {word: row for word, row in words.items() if row < config.n_words}
    return DictionaryReader(characters, listed or None, config.max_characters)
