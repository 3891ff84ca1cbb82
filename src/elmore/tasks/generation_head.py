"""The model of tasks whose answer is text: pieces in, pieces out, started from language models and
trained together with their losses.
"""

# B examples, S source pieces, W words, E dim of pretrained vectors
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from elmore.checkpoint.causal import causal_lm
from elmore.checkpoint.sources import load
from elmore.config import override
from elmore.errors import ConfigError
from elmore.models.causal import CausalConfig, CausalLM
from elmore.models.seq2seq import Seq2Seq, Seq2SeqConfig
from elmore.nn.beam_search import Hypothesis, beam_search
from elmore.pretrain.line_batches import Lines
from elmore.tasks.encoded import Batches, Dims, Places, nth_inputs
from elmore.tasks.generation_config import GenerationConfig
from elmore.tasks.monolingual import OwnLines, RunLines, monolingual
from elmore.tasks.readers.texts import Text
from elmore.tasks.task import Head, State, Words
from elmore.text.causal_reader import padded
from elmore.text.subwords import Subwords, WholeWords, parse_subwords
from elmore.text.tokenize import words as tokens
from elmore.train.optimizer import Group

_FREE = ("search", "n_best", "attention", "longest_source", "bleu_tokenize", "bleu_lowercase")


class GenerationState(State):
    """Vocabularies and sizes of both sides."""

    kind: Literal["generation"] = "generation"
    source: CausalConfig
    target: CausalConfig
    source_files: dict[str, str] = Field(max_length=4)
    target_files: dict[str, str] = Field(max_length=4)
    fingerprints: tuple[str, str]
    """Of the language models; empty where there is none."""


@dataclass(frozen=True, slots=True)
class Written:
    """One of the outputs for a text."""

    text: str
    score: float
    finished: bool
    pieces: tuple[str, ...]
    attention: list[list[float]] | None
    """By piece, the end included if it was written; over the pieces of the source and its marks."""


@dataclass(frozen=True, slots=True)
class Output:
    """What was written for a text, best first."""

    written: tuple[Written, ...]
    source_pieces: tuple[str, ...]

    @property
    def text(self) -> str:
        return self.written[0].text

    def shown(self) -> dict[str, Any]:
        best = self.written[0]
        found: dict[str, Any] = {"output": best.text, "score": round(best.score, 6)}
        if not best.finished:
            found["finished"] = False
        if len(self.written) > 1:
            found["n_best"] = [{"output": w.text, "score": round(w.score, 6)} for w in self.written]
        if best.attention is not None:
            found["source_pieces"], found["pieces"] = self.source_pieces, best.pieces
            found["attention"] = [[round(a, 4) for a in row] for row in best.attention]
        return found


@lru_cache(maxsize=1 << 16)
def _tokens(word: str) -> Words:
    return tuple(tokens(word)) or (word,)


def tokens_of(source: Words) -> Words:
    """The words that a pretrained encoder reads: punctuation apart."""
    return tuple(token for word in source for token in _tokens(word))


class GenerationHead(Head[Text, Output]):
    """Sequence to sequence over pieces."""

    large = True

    def __init__(self, config: GenerationConfig, state: GenerationState, dims: Dims):
        super().__init__()
        self.config = config
        where = "the vocabulary of a saved task"
        self.from_pieces, self.to_pieces = (
            parse_subwords({name: text.encode() for name, text in files.items()}, where)
            for files in (state.source_files, state.target_files)
        )
        self.model = Seq2Seq(
            Seq2SeqConfig(
                source=state.source,
                target=state.target,
                n_upper=config.n_upper,
                n_below=config.n_below,
                both_directions=config.both_directions,
                dropout=config.dropout,
                copy_source=config.copy_source,
                vector_dim=dims.vectors,
            )
        )
        self.lines: dict[str, OwnLines | RunLines] = {}

    # Training -------------------------------------------------------------------------------------

    def prepare(self, train: Sequence[Text]) -> None:
        """Copy what `from_lms` says, and open the texts of the language models."""
        config, start = self.config, self.config.started()
        if start.encoder and config.source_lm is not None:
            _copy(config.source_lm, self.model.source, softmax=True)
        if start.decoder and config.target_lm is not None:
            _copy(config.target_lm, self.model.target, softmax=start.softmax)
        if start.lm_loss:
            sides = {
                "source": (config.source_lm, self.from_pieces, [self._source(t) for t in train]),
                "target": (config.target_lm, self.to_pieces, [self._target(t) for t in train]),
            }
            longest = config.longest_target
            self.lines = {side: monolingual(*given, longest) for side, given in sides.items()}

    def groups(self) -> list[Group]:
        """What was taken from the language models."""
        config, start = self.config, self.config.started()
        model, taken = self.model, []
        if start.encoder:
            taken += [*model.source.parameters()]
        if start.decoder:
            taken += [*(model.target if start.softmax else model.target.causal).parameters()]
        return [] if config.lm_rate == 1 or not taken else [Group(taken, rate=config.lm_rate)]

    def loss(self, encoded: Batches, places: Places, examples: Sequence[Text]) -> Tensor:
        """The mean per piece; in training also those of the language models on lines of their own,
        of about as many pieces as the pairs have on that side."""
        target = self._tensors(padded([self._target(example) for example in examples]))
        source, vectors = self._read(encoded, places, examples)
        found = self.model.loss(source, target, vectors)
        total = (found.pieces + self.config.coverage * found.coverage) / found.count
        if self.training and self.lines:
            for side, model, weight, (_, lengths) in (
                ("source", self.model.source, self.config.source_lm_loss, source),
                ("target", self.model.target, self.config.target_lm_loss, target),
            ):
                if weight:
                    lines = self.lines[side].draw(int(lengths.sum()))
                    loss, count = model.loss(*self._tensors(lines))
                    total = total + weight * loss / count
        return total

    # Prediction -----------------------------------------------------------------------------------

    def predict(self, encoded: Batches, places: Places, examples: Sequence[Text]) -> list[Output]:
        """By beam search; greedily where the best epoch is only to be chosen."""
        search, n_best = self.config.search, self.config.n_best
        if self.quick:
            search, n_best = search.model_copy(update={"beam": 1}), 1
        (ids, lengths), vectors = self._read(encoded, places, examples)
        memory, own = self.model.encode(ids, lengths, vectors)
        found = beam_search(
            self.model,
            self.model.first_state(memory, own, search.beam),
            lengths.tolist(),
            search,
            begin=self.to_pieces.begin,
            end=self.to_pieces.end,
            n_best=n_best,
            device=ids.device,
        )
        return [self._output(*pair) for pair in zip(examples, found, strict=True)]

    def _output(self, example: Text, found: Sequence[Hypothesis]) -> Output:
        if not example.source:
            return Output((Written("", 0.0, True, (), None),), ())
        source = tuple(self.from_pieces.piece(i) for i in self._source(example))
        return Output(tuple(self._written(example, h) for h in found), source)

    def _written(self, example: Text, found: Hypothesis) -> Written:
        pieces = [self.to_pieces.piece(i) for i in found.ids]
        looked = found.attention.tolist() if self.config.attention else None
        text = self._text(example, found)
        end = (self.to_pieces.piece(self.to_pieces.end),) if found.finished else ()
        return Written(text, found.score, found.finished, (*pieces, *end), looked)

    def _text(self, example: Text, found: Hypothesis) -> str:
        """One line: bytes can also be line ends. An unknown word is the source's word that was
        looked at most."""
        subwords = self.to_pieces
        if not isinstance(subwords, WholeWords):
            return " ".join(subwords.text(found.ids).split())
        owners = np.array(self._word_of(example))
        shown = [subwords.piece(i) for i in found.ids]
        for place, i in enumerate(found.ids):
            if i == subwords.vocabulary.unknown:
                looked = found.attention[place].cpu().numpy() * (owners >= 0)  # not at the marks
                shown[place] = example.source[max(0, owners[int(looked.argmax())])]
        return " ".join(shown)

    def adjusted(self, task: Any, settings: Sequence[str]) -> Any:
        for setting in settings:
            name = setting.partition("=")[0].removeprefix("task.")
            if name.partition(".")[0] not in _FREE:
                raise ConfigError(
                    f"--set {setting}: fixed by the training; expected {', '.join(_FREE)}."
                )
        found: GenerationConfig = override(task, [s.removeprefix("task.") for s in settings])
        self.config = found
        return found

    def notes(self, examples: Sequence[Text]) -> tuple[str, ...]:
        config, most = self.config, self.config.longest_source
        cut = [n for e in examples if (n := _length(self.from_pieces, e.source)) > most]
        note = (
            f"{len(cut):,} sources are longer than {most:,} pieces and are cut (the longest has "
            f"{max(cut, default=0):,}); --set task.longest_source=… reads more"
        )
        sides = (
            ("source", config.source_lm, config.source_lm_loss),
            ("target", config.target_lm, config.target_lm_loss),
        )
        without_text = (
            f"{lm} has no readable text of its run: the loss of the {side} language model reads "
            "the training pairs"
            for side, lm, weight in sides
            if lm is not None and weight and isinstance(self.lines.get(side), OwnLines)
        )
        return (*((note,) if cut else ()), *without_text)

    # Reading --------------------------------------------------------------------------------------

    def _read(
        self, encoded: Batches, places: Places, examples: Sequence[Text]
    ) -> tuple[tuple[Tensor, Tensor], Tensor | None]:
        """The sources, and the pretrained vector of each piece's word, (B, S, E)."""
        source = self._tensors(padded([self._source(example) for example in examples]))
        if self.model.vectors is None:
            return source, None
        words = nth_inputs(encoded, places, 0).vectors  # (B, W, E)
        owners = self._tensors(padded([self._token_of(example) for example in examples]))[0]
        real = (owners > 0).unsqueeze(-1)  # 0 is no word
        index = (owners - 1).clamp(min=0).unsqueeze(-1).expand(-1, -1, words.shape[-1])
        return source, words.gather(1, index) * real

    def _source(self, example: Text) -> list[int]:
        pieces = [i for word in self.from_pieces.pieces(example.source) for i in word]
        cut = pieces[: self.config.longest_source]
        return [self.from_pieces.begin, *cut, self.from_pieces.end]

    def _target(self, example: Text) -> list[int]:
        """With both marks; one that is cut has no end."""
        words = self.to_pieces.pieces(example.references[0].split())
        pieces = [i for word in words for i in word]
        cut = pieces[: self.config.longest_target]
        return [self.to_pieces.begin, *cut, *([self.to_pieces.end] if cut == pieces else [])]

    def _word_of(self, example: Text) -> list[int]:
        """The word of each piece of the source; -1 for its marks."""
        found = [
            place
            for place, pieces in enumerate(self.from_pieces.pieces(example.source))
            for _ in pieces
        ]
        return [-1, *found[: self.config.longest_source], -1]

    def _token_of(self, example: Text) -> list[int]:
        """The number, from 1, of the token in which each piece of the source ends; 0 for marks."""
        found, before = [], 0
        pieces = self.from_pieces.pieces(example.source)
        for word, own in zip(example.source, pieces, strict=True):
            ends = np.cumsum([len(token.encode()) for token in _tokens(word)])
            sizes = np.cumsum([self.from_pieces.n_bytes(i) for i in own])
            at = np.searchsorted(ends, np.minimum(sizes, ends[-1]))
            found += [before + 1 + int(place) for place in at]
            before += len(ends)
        return [0, *found[: self.config.longest_source], 0]

    def _tensors(self, lines: Lines) -> tuple[Tensor, Tensor]:
        device = self.model.out.weight.device
        ids, lengths = (torch.from_numpy(array).to(device) for array in lines)
        return ids, lengths


def _length(subwords: Subwords, words: Words) -> int:
    return sum(map(len, subwords.pieces(words)))


def _copy(source: str, to: CausalLM, *, softmax: bool) -> None:
    """The weights of a language model; without `softmax`, all but those."""
    found = causal_lm(load(source, heads=True), source)
    if (
        to.causal.config.model_copy(update={"tied": found.causal.config.tied})
        != found.causal.config
    ):
        raise ConfigError(f"{source}: another model than when this training began.")
    to.causal.load_state_dict(found.causal.state_dict())
    if softmax:
        with torch.no_grad():
            to.softmax.weight.copy_(found.softmax.weight)
            to.softmax.bias.copy_(found.softmax.bias)
