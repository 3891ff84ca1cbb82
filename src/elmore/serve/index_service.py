"""Searches in the index for the routes: nearest uses in one thread; senses, which take longer, in
another, with a cache.
"""

# L layers, D vector dim
import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from elmore.demo.ambiguous_words import LANGUAGES, read_uses
from elmore.embedding import Vectors
from elmore.errors import ConfigError, InputError
from elmore.search.answers import Sense
from elmore.search.index import Index
from elmore.serve.config import ServeConfig
from elmore.serve.problems import RefusedError, busy
from elmore.serve.schemas import (
    Examples,
    IndexInfo,
    Layer,
    NeighborsAnswer,
    NeighborsRequest,
    Passage,
    SensesAnswer,
    WordsAsked,
    WordsOfIndex,
)
from elmore.serve.word_list import WordList
from elmore.uses.use import Use

T = TypeVar("T")
_KEPT_SENSES = 64  # answers; some tens of kilobytes each
_AROUND = 4000  # characters of a passage, on each side of the sentence
_EXAMPLES = 3  # words, with two uses each
_ENOUGH = 10  # uses of a word that may have two senses
AMBIGUOUS = list(dict.fromkeys(use.word for lang in LANGUAGES for use in read_uses(lang)))


class Worker:
    """Runs one task after another in its own thread, with a limited queue."""

    def __init__(self, name: str, most_waiting: int):
        self._thread = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._most_waiting, self._n_inside = most_waiting, 0

    async def run(self, work: Callable[[], T]) -> T:
        """The result; refused if the queue is full."""
        if self._n_inside > self._most_waiting:  # one of them is running, not waiting
            raise busy(1)
        self._n_inside += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, work)
        finally:
            self._n_inside -= 1

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)


class IndexService:
    """An index and the threads that search it."""

    def __init__(self, index: Index, config: ServeConfig):
        self._index = index
        self._neighbors = Worker("neighbors", config.queue_searches)
        self._senses = Worker("senses", config.queue_searches)
        self._words = WordList(index)
        self._examples: Examples | None = None
        self._kept: OrderedDict[tuple[str, Layer | None], bytes] = OrderedDict()

    def close(self) -> None:
        self._neighbors.close()
        self._senses.close()
        self._words.close()

    def warm_up(self) -> None:
        """Build tables and load libraries now, not for the first request."""
        for word in self._index.words[:1]:
            self._index.static_neighbors(word)
            with suppress(InputError):  # without scikit-learn the rest still works
                self._index.senses(word)

    def info(self) -> IndexInfo:
        index = self._index
        return IndexInfo(
            n_words=len(index.words),
            n_uses=index.n_uses,
            n_sentences=index.n_sentences,
            origins=index.has_origins,
            layers=list(index.searchable),
        )

    def spelling(self, word: str) -> str | None:
        """The indexed spelling: as written, or in lower case."""
        return next((form for form in (word, word.lower()) if form in self._index), None)

    async def neighbors(
        self, asked: NeighborsRequest, words: list[str], layers: Vectors
    ) -> NeighborsAnswer:
        """`layers`, (L, D), are those of the given word."""
        return await self._neighbors.run(lambda: self._find(asked, words, layers))

    def _find(self, asked: NeighborsRequest, words: list[str], layers: Vectors) -> NeighborsAnswer:
        known = self.spelling(words[asked.position])
        found = self._index.neighbors_of(
            layers,
            known if asked.same_word else None,
            asked.k,
            layer=_seen_by(asked.layer, asked.weights),
            without=[words],
        )
        static = [] if known is None else self._index.static_neighbors(known, asked.k)
        answer = {
            "query": {"words": words, "position": asked.position},
            "neighbors": [{**_place(near.use), "score": min(near.score, 1.0)} for near in found],
            "static": static,
        }
        return NeighborsAnswer.model_validate(answer)

    async def passage(self, number: int) -> Passage:
        """A use with the text around its sentence."""
        return await self._neighbors.run(lambda: self._passage(number))

    def _passage(self, number: int) -> Passage:
        if number >= self._index.n_uses:
            raise RefusedError(404, f"This server's index has no use {number}.")
        use, around = self._index.use(number)
        before, after = ("", "") if around is None else (around.before, around.after)
        said = {**_place(use), "before": before[-_AROUND:], "after": after[:_AROUND]}
        return Passage.model_validate(said)

    async def words(self, asked: WordsAsked) -> WordsOfIndex:
        """Some of the indexed words with these letters."""
        listed = self._words
        counted, found = await self._neighbors.run(  # in this order: the list may be further
            lambda: (listed.progress, listed.find(asked.letters, asked.order))
        )
        some = [word._asdict() for word in found[asked.start : asked.start + asked.n]]
        said = {"words": some, "total": len(found), "counted": counted}
        return WordsOfIndex.model_validate(said)

    async def examples(self) -> Examples:
        """Uses of a few words in two senses each, from the indexed text itself."""
        if self._examples is None:
            self._examples = await self._senses.run(self._find_examples)
        return self._examples

    def _find_examples(self) -> Examples:
        words = [word for word in AMBIGUOUS if self._index.frequencies.get(word, 0) >= _ENOUGH]
        words += [word for word in self._words.most_frequent(_EXAMPLES) if word not in words]
        senses = [self._index.senses(word, typical=2).senses for word in words[:_EXAMPLES]]
        uses = [use for found in senses for use in _two(found)]
        return Examples.model_validate({"examples": [_place(use) for use in uses]})

    async def senses(self, word: str, layer: Layer | None) -> bytes:
        """A `SensesAnswer` as JSON."""
        known = self.spelling(word)
        if known is None:
            raise not_indexed(word)
        if (kept := self._kept.get((known, layer))) is not None:
            self._kept.move_to_end((known, layer))
            return kept
        answer = await self._senses.run(lambda: self._tell_apart(known, layer))
        self._kept[known, layer] = answer
        if len(self._kept) > _KEPT_SENSES:
            self._kept.popitem(last=False)
        return answer

    def _tell_apart(self, word: str, layer: Layer | None) -> bytes:
        found, uses = self._index.senses_and_map(word, layer=layer)
        columns = zip(uses.uses, uses.points.tolist(), uses.senses.tolist(), strict=True)
        points = [{**_place(use), "x": x, "y": y, "sense": sense} for use, (x, y), sense in columns]
        senses = [
            {"size": sense.size, "characteristic": sense.characteristic}
            | {"typical": [_place(use) for use in sense.typical]}
            for sense in found.senses
        ]
        said = {"word": found.word, "n_uses": found.n_uses, "senses": senses, "map": points}
        return SensesAnswer.model_validate(said).model_dump_json().encode()


def _two(senses: Sequence[Sense]) -> list[Use]:
    """A typical use of each of the first two senses, or two of the only one."""
    found = [use for sense in senses[:2] for use in sense.typical]
    return found[:2] if len(senses) == 1 else found[::2][:2]


def not_indexed(word: str) -> RefusedError:
    shown = word if len(word) <= 40 else f"{word[:40]}…"
    return RefusedError(404, f"{shown!r} is not a word of this server's index.")


def _seen_by(
    layer: Layer | None, weights: Sequence[float] | None
) -> Layer | Sequence[float] | None:
    if weights is None:
        return layer
    if layer not in (None, "mix"):
        raise ConfigError(f"weights are those of a mix, but the layer asked for is {layer}.")
    return weights


def _place(use: Use) -> dict[str, Any]:
    place: dict[str, Any] = {"id": use.id, "words": use.words, "position": use.position}
    if (origin := use.origin) is not None:
        place["text"] = None if origin.text in ("", " ".join(use.words)) else origin.text
        place["file"], place["line"] = origin.file or None, origin.line or None
    return place
