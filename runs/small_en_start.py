"""Where `small-en` begins: a biLM whose words have a vector of their own beside that of their
spelling (ELMoForManyLangs' way in), both the table and the softmax filled with static vectors
counted from the corpus. `elmore pretrain --from` goes on from here.

    python runs/small_en_start.py FOLDER CORPUS…
"""

import sys
from collections import Counter
from pathlib import Path

import torch
from small_en import VOCABULARY, small_en

from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.sources import save
from elmore.models.bilm import BiLM
from elmore.nn.softmax import Softmax
from elmore.nn.word_char import WordChar
from elmore.pretrain.pretrain import count_words
from elmore.pretrain.sentences import find_files, read_sentences
from elmore.pretrain.static_start import start_softmax
from elmore.text.dictionary_reader import CHARACTER_MARKS, WORD_MARKS, DictionaryReader
from elmore.text.vocabulary import MARKS, Vocabulary

_LENGTH = 0.5  # root mean square of a word's vector: wide enough for the gates to hear


def main(target: Path, corpus: list[str]) -> None:
    config, files = small_en(), find_files(corpus)
    counts = count_words(files, config, None)
    vocabulary = Vocabulary.from_counts(counts.words, max_size=VOCABULARY)
    torch.manual_seed(config.loop.seed)
    model = BiLM(config.model)
    softmax = Softmax(len(vocabulary), config.model.context.dim)
    sentences = (words for path in files for words in read_sentences(path, config.reading))
    start_softmax(softmax, vocabulary, sentences, config.loop.seed)
    dictionary = dictionaries(vocabulary, config.model.words.characters.n_characters)
    fill_words(model.words, softmax)
    save(Checkpoint(model, vocabulary, softmax.linear(), dictionary=dictionary), target)


def dictionaries(vocabulary: Vocabulary, n_characters: int) -> DictionaryReader:
    """Of the vocabulary's words, and of its most frequent characters."""
    words = {mark: row for row, mark in enumerate(WORD_MARKS)}  # in the rows of MARKS
    words |= {word: row for row, word in enumerate(vocabulary.words) if word not in MARKS}
    letters = Counter(letter for word in words for letter in word)
    kept = [letter for letter, _ in letters.most_common(n_characters - len(CHARACTER_MARKS))]
    characters = {item: row for row, item in enumerate([*CHARACTER_MARKS, *sorted(kept)])}
    return DictionaryReader(characters, words, small_en().model.words.max_characters)


@torch.no_grad()
def fill_words(words: WordChar, softmax: Softmax) -> None:
    """The projection begins by passing a word's own vector on."""
    rows = softmax.weight.data
    words.embed.weight.copy_(rows / rows.square().mean(1, keepdim=True).sqrt() * _LENGTH)
    words.project.weight[:, : rows.shape[1]] = torch.eye(rows.shape[1])
    words.project.bias.zero_()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
