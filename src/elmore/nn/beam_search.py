"""Beam search for any model with a step function. What a sentence gets does not depend on the other
sentences of its batch. Finished hypotheses are compared by their normalized scores

    (Σ log p) / ((5 + n) / 6)^α + β Σ_i log min(Σ_t a_ti, 1) - γ Σ_i max(Σ_t a_ti - 1, 0)

with n pieces, the end included, and a_ti the attention to source piece i at step t (Wu et al. 2016;
the last term, against repeats, is OpenNMT's "summary" penalty). A hypothesis is finished when its
end is among the K best ways to go on. A sentence is done when no live hypothesis can become better
than the finished ones, or when K are finished and no live one is better so far.
"""

# B sentences, K hypotheses of each (the beam), V pieces, S source pieces, t steps so far
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

import torch
from pydantic import ConfigDict, Field, model_validator
from torch import Tensor

from elmore.config import Frozen
from elmore.errors import ConfigError

State = TypeVar("State")


class SearchConfig(Frozen):
    """How output is searched for."""

    model_config = ConfigDict(allow_inf_nan=False)

    beam: int = Field(default=5, ge=1, le=1_000_000)
    """1: greedy."""
    length_penalty: float = Field(default=1.0, ge=0)
    """α: 0 prefers short outputs, as sums of log-probabilities do."""
    coverage_penalty: float = Field(default=0.0, ge=0)
    """β, against source pieces that were never looked at."""
    repeat_penalty: float = Field(default=0.0, ge=0)
    """γ, against source pieces that were looked at again and again."""
    min_length: int = Field(default=1, ge=0)
    """Pieces without the end. 0 allows empty output."""
    max_length: int = Field(default=100, ge=1, le=100_000)
    """Of every output, in pieces without the end."""
    max_ratio: float | None = Field(default=2.0, gt=0)
    """At most this many times the pieces of the source, and ten more; null: `max_length` alone."""
    no_repeat: int = Field(default=0, ge=0)
    """No sequence of so many pieces comes twice; 0: they may."""

    @model_validator(mode="after")
    def _fits(self) -> "SearchConfig":
        if self.min_length > self.max_length:
            raise ValueError(f"min_length={self.min_length} but max_length={self.max_length}")
        return self

    def longest(self, n_source: int) -> int:
        if self.max_ratio is None:
            return self.max_length
        return max(self.min_length, min(self.max_length, int(self.max_ratio * n_source) + 10))


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """An output. Its pieces have no marks."""

    ids: tuple[int, ...]
    score: float
    """Normalized."""
    log_prob: float
    """Of all pieces, and of the end if it is there."""
    finished: bool
    """Otherwise it was cut off at the largest length."""
    attention: Tensor  # (pieces, S); with the end's row last if it is finished


@dataclass(frozen=True, slots=True)
class Stepped(Generic[State]):
    """What a model says after one more piece of each hypothesis."""

    log_probs: Tensor  # (B, K, V)
    attention: Tensor  # (B, K, S)
    state: State


class Stepper(Protocol[State]):
    """A model that goes on piece by piece."""

    def step(self, ids: Tensor, state: State) -> Stepped[State]:
        """The newest piece of each hypothesis, (B, K)."""

    def reorder(self, state: State, beams: Tensor) -> State:
        """Hypothesis k of each sentence becomes the old one number beams[b, k]; (B, K)."""

    def keep(self, state: State, sentences: Tensor) -> State:
        """Only some of the sentences are searched further; their numbers, rising."""


@dataclass(slots=True)
class _Sentence:
    """A sentence that is searched: its finished hypotheses, and the way back from the live ones."""

    number: int
    longest: int
    n_source: int
    finished: list[Hypothesis]


@torch.no_grad()
def beam_search(
    stepper: Stepper[State],
    state: State,
    n_source: list[int],
    config: SearchConfig,
    *,
    begin: int,
    end: int,
    n_best: int = 1,
    device: torch.device | str = "cpu",
) -> list[list[Hypothesis]]:
    """The best hypotheses of every sentence, best first; at least one each. `state` is that before
    the first step, with K equal hypotheses of each sentence; `n_source` are the pieces of each."""
    if not 1 <= n_best <= config.beam:
        raise ConfigError(f"n_best is {n_best}; expected 1 to {config.beam}, the beam.")
    search = _Search(stepper, state, config, begin, end, n_best, torch.device(device))
    return search.run(n_source)


class _Search(Generic[State]):
    def __init__(
        self,
        stepper: Stepper[State],
        state: State,
        config: SearchConfig,
        begin: int,
        end: int,
        n_best: int,
        device: torch.device,
    ):
        self.stepper, self.state, self.config = stepper, state, config
        self.begin, self.end, self.n_best, self.device = begin, end, n_best, device

    def run(self, n_source: list[int]) -> list[list[Hypothesis]]:
        k, config = self.config.beam, self.config
        live = [_Sentence(i, config.longest(n), n, []) for i, n in enumerate(n_source)]
        done: dict[int, list[Hypothesis]] = {}
        # All hypotheses are equal at first: only one of them counts.
        sums = torch.full((len(live), k), -torch.inf, device=self.device)
        sums[:, 0] = 0.0
        ids = torch.zeros(len(live), k, 0, dtype=torch.long, device=self.device)  # (B, K, t)
        looked: Tensor | None = None  # (B, K, t, S)
        step = 0
        while live:
            newest = ids[:, :, -1] if step else ids.new_full((len(live), k), self.begin)
            found = self.stepper.step(newest, self.state)
            looked = _joined(looked, found.attention)
            log_probs = self._allowed(found.log_probs, ids, step)
            before = sums, ids, looked
            sums, beams, pieces = self._expand(sums, log_probs, ids, looked, live)
            # h, c, what was looked at and written so far all follow their hypothesis
            self.state = self.stepper.reorder(found.state, beams)
            looked = _follow(looked, beams)
            ids = torch.cat([_follow(ids, beams), pieces.unsqueeze(2)], dim=2)
            step += 1
            kept = [i for i, s in enumerate(live) if not self._is_done(s, sums[i], step)]
            for i in set(range(len(live))) - set(kept):
                self._cut_off(live[i], *(x[i] for x in before))
                best = sorted(live[i].finished, key=lambda h: -h.score)
                done[live[i].number] = best[: self.n_best]
            if len(kept) < len(live):
                rows = torch.tensor(kept, dtype=torch.long, device=self.device)
                sums, ids, looked = sums[rows], ids[rows], looked[rows]
                self.state = self.stepper.keep(self.state, rows)
                live = [live[i] for i in kept]
        return [done[i] for i in range(len(n_source))]

    def _allowed(self, log_probs: Tensor, ids: Tensor, step: int) -> Tensor:
        """-inf for pieces that may not come now."""
        found = log_probs.clone()
        found[:, :, self.begin] = -torch.inf
        if step < self.config.min_length:
            found[:, :, self.end] = -torch.inf
        if self.config.no_repeat:
            for b, rows in enumerate(ids.tolist()):
                for k, row in enumerate(rows):
                    for piece in _repeats(row, self.config.no_repeat):
                        found[b, k, piece] = -torch.inf
        return found

    def _expand(
        self,
        sums: Tensor,
        log_probs: Tensor,
        ids: Tensor,
        looked: Tensor,
        live: list[_Sentence],
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Of the 2K best ways to go on, those that end and are among the first K are finished; the
        best K that do not end live on."""
        k, n_pieces = log_probs.shape[1:]
        scores = (sums.unsqueeze(2) + log_probs).flatten(1)  # (B, K V)
        best, at = scores.topk(min(2 * k, scores.shape[1]), dim=1)
        beams, pieces = at // n_pieces, at % n_pieces
        ends = pieces == self.end
        for b, place in (ends & (best > -torch.inf))[:, :k].nonzero().tolist():
            beam = int(beams[b, place])
            written, attention = ids[b, beam].tolist(), looked[b, beam]
            live[b].finished.append(
                self._hypothesis(live[b], written, float(best[b, place]), attention, True)
            )
        # Stable: those that do not end come first, in the order of their scores.
        order = torch.argsort(ends.to(torch.int8), dim=1, stable=True)[:, :k]
        best = best.masked_fill(ends, -torch.inf).gather(1, order)
        return best, beams.gather(1, order), pieces.gather(1, order)

    def _hypothesis(
        self, of: _Sentence, ids: list[int], log_prob: float, attention: Tensor, finished: bool
    ) -> Hypothesis:
        attention = attention[:, : of.n_source].clone()
        score = self._normalized(log_prob, len(ids) + finished) + self._penalty(attention)
        return Hypothesis(tuple(ids), score, log_prob, finished, attention)

    def _normalized(self, log_prob: float, n: int) -> float:
        return float(log_prob / ((5 + n) / 6) ** self.config.length_penalty)

    def _penalty(self, attention: Tensor) -> float:
        """Never more than 0."""
        config, total = self.config, attention.sum(0)  # (S,)
        found = 0.0
        if config.coverage_penalty:
            found += config.coverage_penalty * float(total.clamp(1e-9, 1.0).log().sum())
        if config.repeat_penalty:
            found -= config.repeat_penalty * float((total - 1).clamp(min=0).sum())
        return found

    def _is_done(self, sentence: _Sentence, sums: Tensor, step: int) -> bool:
        """At the largest length, or when no live hypothesis can still be among the best: its sum
        can only fall, and is divided by the largest length at best. With K finished, a live one
        must be better as it is."""
        best = float(sums.max())
        if step >= sentence.longest + 1 or best == -torch.inf:
            return True
        if len(sentence.finished) < self.n_best:
            return False
        wanted = sorted((h.score for h in sentence.finished), reverse=True)[self.n_best - 1]
        full = len(sentence.finished) >= self.config.beam
        return self._normalized(best, step + 1 if full else sentence.longest + 1) <= wanted

    def _cut_off(self, sentence: _Sentence, sums: Tensor, ids: Tensor, looked: Tensor) -> None:
        """Too few have ended: those of the largest length are returned as they are."""
        missing = self.n_best - len(sentence.finished)
        for k in torch.argsort(sums, descending=True, stable=True)[: max(missing, 0)].tolist():
            if float(sums[k]) > -torch.inf or not sentence.finished:
                row = ids[k].tolist()
                sentence.finished.append(
                    self._hypothesis(sentence, row, float(sums[k]), looked[k, : len(row)], False)
                )


def _joined(looked: Tensor | None, attention: Tensor) -> Tensor:
    """(B, K, t, S) and (B, K, S) -> (B, K, t + 1, S)."""
    newest = attention.unsqueeze(2)
    return newest if looked is None else torch.cat([looked, newest], dim=2)


def _follow(x: Tensor, beams: Tensor) -> Tensor:
    """x (B, K, ...) by the numbers of the hypotheses that go on, (B, K)."""
    return x[torch.arange(len(x), device=x.device).unsqueeze(1), beams]


def _repeats(row: list[int], n: int) -> list[int]:
    """Pieces that would make a sequence of n come a second time."""
    if len(row) < n:
        return []
    before = row[len(row) - n + 1 :] if n > 1 else []
    return [row[i + n - 1] for i in range(len(row) - n + 1) if row[i : i + n - 1] == before]
