"""A stand-in for a model, and files for it: layer 0 is the word's spelling and nothing else, layer
1 the word before it, so that a test knows which layer can tell what."""

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from elmore.embedding import Embedding

D = 6


def word_vector(word: str) -> npt.NDArray[np.float32]:
    numbers = np.arange(D, dtype=np.float64)
    return np.sin(zlib.crc32(word.encode()) % 10_000 + numbers * (1 + len(word))).astype(np.float32)


class WordBefore:
    """Counts the sentences it is asked for."""

    n_layers, dim, fingerprint, context_free = 2, D, "", True

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def stream(self, items: Iterable[Any], *, key: Callable[[Any], Any]) -> Iterator[Any]:
        for item in items:
            words = key(item)
            self.asked.append(tuple(words))
            own = [word_vector(word) for word in words]
            before = [word_vector(word) for word in ("", *words)][: len(words)]
            layers = np.array([own, before]).reshape(2, len(words), D)
            yield item, Embedding(list(words), layers)


def write_semcor(path: Path, sentences: Sequence[Sequence[tuple[str, str | None]]]) -> Path:
    """Of words as (form, sense key)."""
    with path.open("w", encoding="utf-8") as file:
        for sentence in sentences:
            tokens = [
                [form, key.partition("%")[0] if key else None, None, key, None]
                for form, key in sentence
            ]
            file.write(json.dumps({"tokens": tokens}) + "\n")
    return path


def write_set(path: Path, sentences: Sequence[Sequence[tuple[str, str | None]]]) -> Path:
    """The same in the unified layout; `path` ends in .data.xml. A space divides right senses."""
    pos = {"1": "NOUN", "2": "VERB", "3": "ADJ", "4": "ADV"}
    xml, keys = ["<corpus>"], []
    for sentence in sentences:
        xml.append("<sentence>")
        for form, key in sentence:
            if key is None:
                xml.append(f"<wf>{form}</wf>")
                continue
            lemma, _, rest = key.partition("%")
            xml.append(
                f'<instance id="t{len(keys)}" lemma="{lemma}" pos="{pos[rest[0]]}">{form}'
                "</instance>"
            )
            keys.append(f"t{len(keys)} {key}")
        xml.append("</sentence>")
    path.write_text("\n".join([*xml, "</corpus>"]), encoding="utf-8")
    gold = path.with_name(path.name.replace(".data.xml", ".gold.key.txt"))
    gold.write_text("\n".join(keys) + "\n", encoding="utf-8")
    return path
