"""The biLM behind the AllenNLP drop-in: character ids in, every layer out, marks included.
State by row is kept here if asked for; each distinct word of a batch is spelled once.
"""

# B sentences, T words, C character ids per word, L layers with the context-free one, D vector dim
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypedDict

import torch
from torch import Tensor, nn

from elmore.checkpoint.allennlp_names import drop, has_allennlp_names, to_ours, write_bilm
from elmore.checkpoint.bilm import bilm_of
from elmore.checkpoint.sources import load
from elmore.errors import ConfigError, InputError
from elmore.models.bilm import BiLM
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

    The biLM is never in training mode: the original has no dropout inside it. With `marks=False`
    a sentence is read without <S> and </S>, and its vectors are (B, T, D).
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
        marks: bool = True,
    ):
        super().__init__()
        self.bilm = load_bilm(options_file, weight_file).requires_grad_(requires_grad)
        self.max_characters = characters_of(self.bilm)
        self.num_layers = self.bilm.config.n_layers
        self.stateful, self.has_marks = stateful, marks
        self.has_vocabulary = vocab_to_cache is not None
        self._remember("marks", self._spell([SENTENCE_BEGIN, SENTENCE_END]))
        self._remember("vocabulary", self._spell(vocab_to_cache or []))
        self.reset_states()
        self.register_load_state_dict_pre_hook(_from_allennlp)  # type: ignore[no-untyped-call]
        self.register_state_dict_post_hook(_to_allennlp)  # type: ignore[no-untyped-call]

    @property
    def _token_embedder(self) -> "CharacterEncoder":
        """Under AllenNLP's name: the part that spells words, with the same weights."""
        return CharacterEncoder(self.bilm)

    @property
    def _elmo_lstm(self) -> "LstmOfBiLm":
        """Under AllenNLP's name: the state of the rows."""
        return LstmOfBiLm(self)

    def get_output_dim(self) -> int:
        return self.bilm.config.dim

    def reset_states(self) -> None:
        """Forget what the rows have read."""
        if self.stateful:
            zero = self.bilm.zero_state(0)
            self._remember("h", zero.h)
            self._remember("c", zero.c)

    def forward(self, inputs: Tensor | None, word_inputs: Tensor | None = None) -> ElmoBiLmOutput:
        """inputs (B, T, C), or word_inputs (B, T) into `vocab_to_cache` with 0 for no word."""
        ids = self._character_ids(inputs, word_inputs).long()
        lengths = _lengths(_is_word(ids))  # (B,)
        if self.has_marks:
            ids, lengths = with_marks(ids, lengths, self.marks), lengths + 2
        rows, index = torch.unique(ids.flatten(0, 1), dim=0, return_inverse=True)
        states = self._run(rows, index.view(ids.shape[:2]), lengths)
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


class CharacterEncoder(nn.Module):
    """What AllenNLP calls `_ElmoCharacterEncoder`: character ids -> vectors without context, marks
    included. `bilm` gives its spelling part, which is not copied."""

    marks: Tensor  # (2, C)

    def __init__(self, bilm: BiLM):
        super().__init__()
        self.words, self.max_characters = bilm.words, characters_of(bilm)
        spelled = ByteReader(self.max_characters).spell([SENTENCE_BEGIN, SENTENCE_END])
        marks = torch.from_numpy(spelled).to(next(bilm.parameters()).device)
        self.register_buffer("marks", marks, persistent=False)
        self.output_dim = bilm.config.context.dim

    def get_output_dim(self) -> int:
        return self.output_dim

    def forward(self, inputs: Tensor) -> dict[str, Tensor]:
        """inputs (B, T, C) -> "token_embedding" (B, T + 2, P) and "mask" (B, T + 2)."""
        ids, lengths = inputs.long(), _lengths(_is_word(inputs))
        ids = with_marks(ids, lengths, self.marks)
        rows, index = torch.unique(ids.flatten(0, 1), dim=0, return_inverse=True)
        vectors = nn.functional.embedding(index.view(ids.shape[:2]), self.words(rows))
        mask = torch.arange(ids.shape[1], device=ids.device) < (lengths + 2).unsqueeze(1)
        return {"token_embedding": vectors, "mask": mask}


class LstmOfBiLm:
    """What AllenNLP calls `ElmoLstm`, as far as code outside of it asks for it: its state."""

    def __init__(self, owner: ElmoBiLm):
        self._owner = owner

    @property
    def stateful(self) -> bool:
        return self._owner.stateful

    @stateful.setter
    def stateful(self, value: bool) -> None:
        if value and not self._owner.stateful:
            self._owner.stateful = True
            self._owner.reset_states()
        self._owner.stateful = value

    @property
    def _states(self) -> tuple[Tensor, Tensor] | None:
        """(L, B, 2P) and (L, B, 2C), forward beside backward; None before the first batch."""
        owner = self._owner
        if not owner.stateful or not owner.h.shape[2]:
            return None
        return _side_by_side(owner.h), _side_by_side(owner.c)

    @_states.setter
    def _states(self, value: tuple[Tensor, Tensor] | None) -> None:
        if value is None:
            self._owner.reset_states()
        else:
            self._owner.h, self._owner.c = (_two_sides(state) for state in value)

    def reset_states(self, mask: Tensor | None = None) -> None:
        """Forget what all rows have read, or the rows where `mask` (B,) is true."""
        if mask is None:
            self._owner.reset_states()
        elif (states := self._states) is not None:
            if len(mask) != states[0].shape[1]:
                raise ConfigError(f"A mask of {len(mask)} rows for {states[0].shape[1]} rows.")
            keep = ~mask.bool().view(1, -1, 1)
            self._states = (states[0] * keep, states[1] * keep)

    def parameters(self) -> Iterator[nn.Parameter]:
        return self._owner.bilm.context.parameters()


def _side_by_side(state: Tensor) -> Tensor:
    return torch.cat(list(state.unbind(1)), dim=-1)  # (L, 2, B, P) -> (L, B, 2P)


def _two_sides(state: Tensor) -> Tensor:
    return torch.stack(state.detach().chunk(2, dim=-1), dim=1)


def _from_allennlp(module: ElmoBiLm, state: dict[str, Any], prefix: str, *_: object) -> None:
    to_ours(state, prefix, module.bilm, f"{prefix}bilm.")


def _to_allennlp(module: ElmoBiLm, state: dict[str, Any], prefix: str, *_: object) -> None:
    """Where AllenNLP has names for these tensors, they are written under its names."""
    config, at = module.bilm.config, f"{prefix}bilm."
    if has_allennlp_names(config):
        ours = {n.removeprefix(at): t for n, t in state.items() if n.startswith(at)}
        drop(state, [at + name for name in ours])
        state.update({prefix + name: tensor for name, tensor in write_bilm(ours, config).items()})


def load_bilm(options_file: str | Path | None, weight_file: str | Path) -> BiLM:
    refuse_url(options_file, weight_file)
    bilm = bilm_of(load(weight_file, options=options_file))
    if not isinstance(bilm.config.words, CharCNNConfig):
        raise ConfigError(
            f"{weight_file}: a model that reads words, but Elmo is given character ids; "
            "use elmore.Elmo, which takes the words themselves."
        )
    return bilm


def characters_of(bilm: BiLM) -> int:
    assert isinstance(bilm.config.words, CharCNNConfig)
    return bilm.config.words.max_characters


def with_marks(ids: Tensor, lengths: Tensor, marks: Tensor) -> Tensor:
    """(B, T, C) -> (B, T + 2, C): <S> before each sentence, </S> after its last word."""
    marked = nn.functional.pad(ids, (0, 0, 1, 1))
    marked[:, 0] = marks[0]
    marked[torch.arange(len(ids), device=ids.device), lengths + 1] = marks[1]
    return marked


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
                f"{name} is an address; elmore does not fetch addresses. Download the file and its "
                "companion, and pass their paths, or pass a name of `elmore models`."
            )
