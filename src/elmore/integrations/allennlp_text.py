"""How AllenNLP makes character ids: `batch_to_ids`, and the indexer of its dataset readers."""

# B sentences, T words, C character ids per word
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from elmore.errors import ConfigError, InputError
from elmore.text.byte_reader import N_CHARACTER_IDS, ByteReader

MAX_CHARACTERS = 50
_NAME = "elmo_tokens"


def batch_to_ids(batch: Iterable[Iterable[str]], *, max_characters: int = MAX_CHARACTERS) -> Tensor:
    """Words -> character ids (B, T, C), 0 where there is no word.

    `max_characters` is for the few models whose options do not say 50.
    """
    sentences = word_lists(batch)
    speller = ByteReader(max_characters)
    longest = max((len(words) for words in sentences), default=0)
    ids = np.zeros((len(sentences), longest, max_characters), dtype=np.int64)  # (B, T, C)
    for row, words in zip(ids, sentences, strict=True):
        row[: len(words)] = speller.spell(words)
    return torch.from_numpy(ids)


class ELMoTokenCharactersIndexer:
    """Words to character ids, one sentence at a time. A token is a string, or anything with its
    string in `.text`. `tokens_to_add` gives words of your own one character id each, such as one
    of the bytes 1 to 31, which text does not use."""

    def __init__(
        self,
        namespace: str = "elmo_characters",
        tokens_to_add: Mapping[str, int] | None = None,
        token_min_padding_length: int = 0,
    ):
        self.namespace = namespace
        self.tokens_to_add = dict(tokens_to_add or {})
        self.token_min_padding_length = token_min_padding_length
        for word, number in self.tokens_to_add.items():
            if not 0 <= number < N_CHARACTER_IDS - 1:
                raise ConfigError(
                    f"tokens_to_add gives {word!r} the id {number}; a pretrained model has "
                    f"characters 0 to {N_CHARACTER_IDS - 2}."
                )

    def tokens_to_indices(
        self, tokens: Sequence[Any], vocabulary: object = None, index_name: str = _NAME
    ) -> dict[str, list[list[int]]]:
        """Character ids by name; `vocabulary` is not needed, and there for the old signature."""
        words = [str(getattr(token, "text", token)) for token in tokens]
        rows = ByteReader(MAX_CHARACTERS).spell(words)  # (T, C)
        empty = ByteReader(MAX_CHARACTERS).spell([""])[0]
        for row, word in zip(rows, words, strict=True):
            if (number := self.tokens_to_add.get(word)) is not None:
                row[:] = empty
                row[1], row[2] = number + 1, empty[1]  # ids in a row are shifted by one
        return {index_name: rows.tolist()}

    def as_padded_tensor_dict(
        self, tokens: Mapping[str, list[list[int]]], padding_lengths: Mapping[str, int]
    ) -> dict[str, Tensor]:
        """Each list of rows cut or padded with zeros to its length: (T, C)."""
        padded = {}
        for name, rows in tokens.items():
            ids = torch.zeros(padding_lengths[name], MAX_CHARACTERS, dtype=torch.int64)
            kept = rows[: len(ids)]
            if kept:
                ids[: len(kept)] = torch.tensor(kept)
            padded[name] = ids
        return padded

    def as_padded_tensor(
        self,
        tokens: Mapping[str, list[list[int]]],
        desired_num_tokens: Mapping[str, int],
        padding_lengths: object = None,
    ) -> dict[str, Tensor]:
        """The same under the name and with the arguments of AllenNLP 0.9."""
        return self.as_padded_tensor_dict(tokens, desired_num_tokens)

    def get_empty_token_list(self) -> dict[str, list[list[int]]]:
        return {_NAME: []}

    def count_vocab_items(self, token: object, counter: object) -> None:
        """Nothing: characters are bytes."""


def word_lists(batch: Iterable[Iterable[str]]) -> list[list[str]]:
    """The sentences as lists, or an error if they are not lists of words."""
    sentences: list[list[str]] = []
    for i, sentence in enumerate(batch):
        if isinstance(sentence, str):
            raise InputError(
                f"Sentence {i} is a string; expected a list of words: text.split(), or list(text) "
                "where each character is a word."
            )
        sentences.append(list(sentence))
        for j, word in enumerate(sentences[-1]):
            if not isinstance(word, str):
                kind = type(word).__name__
                raise InputError(f"Sentence {i}, word {j} is a {kind}; expected a string.")
    return sentences
