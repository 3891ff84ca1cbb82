"""The biLM behind the AllenNLP drop-in: character ids in, every layer out, marks included.
State by row is kept here if asked for; each distinct word of a batch is spelled once.
"""

# B sentences, T words, C character ids per word, L layers with the context-free one, D vector dim
from collections.abc import Sequence
from pathlib import Path
from typing import TypedDict

import torch
from torch import Tensor, nn

from elmore.checkpoint.bilm import bilm_of
from elmore.checkpoint.sources import load
from elmore.errors import ConfigError, InputError
from elmore.models.layers import LayerStates
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMState
from elmore.text.byte_reader import ByteReader
from elmore.text.reader import SENTENCE_BEGIN, SENTENCE_END


class ElmoBiLmOutput(TypedDict):
    """What `ElmoBiLm` returns: every layer with the sentence marks still in place."""

    activations: list[Tensor]  # L of (B, T + 2, D)
    mask: Tensor  # (B, T + 2), bool


class ElmoBiLm(nn.Module):
    """What AllenNLP calls `_ElmoBiLm`: character ids -> all layers, marks included.

    The biLM is never in training mode: the original has no dropout inside it.
    """

    marks: Tensor  # (2, C), the rows of <S> and </S>
    vocabulary: Tensor  # (V, C), the rows of `vocab_to_cache`
    h: Tensor  # the state of the rows, as in LSTMState; only if stateful
    c: Tensor

    def __init__(
        self,
        options_file: str | Path | None,
        weight_file: str | Path,
        requires_grad: bool = False,
        vocab_to_cache: Sequence[str] | None = None,
        *,
        stateful: bool = False,
    ):
        super().__init__()
        refuse_url(options_file, weight_file)
        self.bilm = bilm_of(load(weight_file, options=options_file)).requires_grad_(requires_grad)
        words = self.bilm.config.words
        if not isinstance(words, CharCNNConfig):
            raise ConfigError(
                f"{weight_file}: a model that reads words, but Elmo is given character ids; "
                "use elmore.Elmo, which takes the words themselves."
            )
        self.max_characters = words.max_characters
        self.num_layers = self.bilm.config.n_layers
        self.stateful = stateful
        self.has_vocabulary = vocab_to_cache is not None
        self._remember("marks", self._spell([SENTENCE_BEGIN, SENTENCE_END]))
        self._remember("vocabulary", self._spell(vocab_to_cache or []))
        if stateful:
            self.reset_states()

    def get_output_dim(self) -> int:
        return self.bilm.config.dim

    def reset_states(self) -> None:
        """Forget what the rows have read."""
        zero = self.bilm.zero_state(0)
        self._remember("h", zero.h)
        self._remember("c", zero.c)

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> ElmoBiLmOutput:
        """inputs (B, T, C), or word_inputs (B, T) into `vocab_to_cache` with 0 for no word."""
        ids = self._character_ids(inputs, word_inputs).long()
        n_rows, n_words = ids.shape[:2]
        lengths = _lengths(_is_word(ids))  # (B,)
        marked = nn.functional.pad(ids, (0, 0, 1, 1))  # (B, T + 2, C)
        marked[:, 0] = self.marks[0]
        marked[torch.arange(n_rows, device=ids.device), lengths + 1] = self.marks[1]
        rows, index = torch.unique(marked.flatten(0, 1), dim=0, return_inverse=True)
        states = self._run(rows, index.view(n_rows, n_words + 2), lengths + 2)
        keep = states.mask.unsqueeze(-1).to(states.layers.dtype)  # zero after the end of a sentence
        return {"activations": list(states.layers * keep), "mask": states.mask}

    def train(self, mode: bool = True) -> "ElmoBiLm":
        super().train(mode)
        self.bilm.eval()
        return self

    def _run(self, rows: Tensor, index: Tensor, lengths: Tensor) -> LayerStates:
        if not self.stateful:
            return self.bilm.run(rows, index, lengths).states
        state = LSTMState(self.h, self.c)  # a small batch uses the first rows; the others wait
        output = self.bilm.run(rows, index, lengths, state.rows(len(lengths)))
        assert output.state is not None  # a Transformer is refused by zero_state
        after = state.with_first(output.state.detach())
        self.h, self.c = after.h, after.c
        return output.states

    def _character_ids(self, inputs: Tensor | None, word_inputs: Tensor | None) -> Tensor:
        if inputs is None:
            return self._spelled(word_inputs)
        if inputs.dim() != 3 or inputs.shape[-1] != self.max_characters:
            found = inputs.shape[-1] if inputs.dim() else 0
            raise ConfigError(
                f"inputs have shape {tuple(inputs.shape)}, so {found} characters per word; this "
                f"model reads (sentences, words, {self.max_characters}). Make them with "
                f"batch_to_ids(batch, max_characters={self.max_characters})."
            )
        if self.has_vocabulary and word_inputs is not None:
            same = inputs.shape[:-1] == word_inputs.shape
            if not (same and torch.equal(_is_word(inputs), word_inputs > 0)):
                raise InputError(
                    "inputs and word_inputs have words at different places; pass the same "
                    "sentences in both, or inputs=None to go by word_inputs."
                )
        return inputs

    def _spelled(self, word_inputs: Tensor | None) -> Tensor:
        """Ids into the vocabulary -> character ids, (B, T) -> (B, T, C)."""
        if word_inputs is None or not self.has_vocabulary:
            raise ConfigError(
                "Nothing to read: pass inputs made by batch_to_ids, or word_inputs to an Elmo "
                "that was given vocab_to_cache."
            )
        n = len(self.vocabulary)
        if word_inputs.numel() and not 0 <= int(word_inputs.min()) <= int(word_inputs.max()) < n:
            raise InputError(
                f"word_inputs run from {int(word_inputs.min())} to {int(word_inputs.max())}, but "
                f"vocab_to_cache has {n} words; pass inputs made by batch_to_ids as well."
            )
        return self.vocabulary[word_inputs] * (word_inputs > 0).unsqueeze(-1)

    def _spell(self, words: Sequence[str]) -> Tensor:
        return torch.from_numpy(ByteReader(self.max_characters).spell(words))

    def _remember(self, name: str, tensor: Tensor) -> None:
        """Moves with the module to its device, but is not in its state dict."""
        self.register_buffer(name, tensor, persistent=False)


def _is_word(ids: Tensor) -> Tensor:
    return (ids > 0).any(dim=-1)  # (B, T, C) -> (B, T)


def _lengths(mask: Tensor) -> Tensor:
    """Words of each sentence (B,), if they come before the padding."""
    if bool((mask[:, 1:] & ~mask[:, :-1]).any()):
        row = int((mask[:, 1:] & ~mask[:, :-1]).any(dim=1).nonzero()[0])
        raise InputError(f"Sentence {row} has padding before a word; padding must come last.")
    return mask.sum(dim=1)


def refuse_url(*names: str | Path | None) -> None:
    """AllenNLP fetched its models, so old code often names addresses."""
    for name in names:
        if isinstance(name, str) and name.startswith(("http://", "https://", "s3://")):
            raise ConfigError(
                f"{name} is an address; elmore fetches nothing. Download the file and its "
                "companion, and pass their paths."
            )
