"""What each layer knows: a linear classifier of parts of speech on its vectors, and word senses by
the nearest neighbor. In a biLM the lower layer is better at the first, the upper at the second.
"""

# N words, D vector dim, C tags
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import nn

from elmore.config import Frozen
from elmore.embedder import LayerSource, lens_of
from elmore.tasks.readers.columns import TaggedSentence, read_conllu
from elmore.tasks.wsd import DEV, WsdReport, wsd
from elmore.uses.use import Use
from elmore.uses.use_vectors import SentenceWatch, unwatched, use_vectors, view, views

Labels = NDArray[np.int64]


class ProbeConfig(Frozen):
    """How the linear classifiers are trained: softmax over standardized vectors, Adam, a
    learning rate that falls to zero, weights that start at zero."""

    epochs: int = Field(default=8, ge=1)
    batch: int = Field(default=1024, ge=1)
    lr: float = Field(default=1e-2, gt=0)
    seed: int = 1


DEFAULT = ProbeConfig()


@dataclass(frozen=True, slots=True)
class PosReport:
    """Accuracy on the words of the test sentences, in percent, for each layer alone."""

    accuracy: dict[str, float]
    by_word: float
    """Baseline: the most frequent tag of the word, or of all words if the word is new."""
    n_train: int
    n_test: int


@dataclass(frozen=True, slots=True)
class ProbeReport:
    """Syntax and meaning side by side, layer by layer."""

    pos: PosReport
    senses: WsdReport

    def table(self) -> list[dict[str, Any]]:
        """In percent: POS accuracy, and F1 over all sense sets except the development set. Every
        layer by the rule that the development set chose."""
        rule, dev = self.senses.chosen.rule, self.senses.dev
        rows = [
            {
                "vectors": row.vectors,
                "POS": self.pos.accuracy[row.vectors],
                "WSD": row.total(without=dev).f1,
            }
            for row in self.senses.rows
            if row.rule == rule
        ]
        plain = self.senses.first_sense.total(without=dev).f1
        return [{"vectors": "most frequent", "POS": self.pos.by_word, "WSD": plain}, *rows]


def probe(
    encoder: LayerSource,
    treebank: tuple[str | Path, str | Path],
    semcor: Sequence[str | Path],
    sets: Sequence[str | Path],
    *,
    config: ProbeConfig = DEFAULT,
    dev: str = DEV,
    watch: SentenceWatch = unwatched,
) -> ProbeReport:
    """`treebank` is a pair of CoNLL-U files, to train on and to test on; the others as in `wsd`."""
    train, test = (list(read_conllu(Path(path))) for path in treebank)
    pos = probe_pos(encoder, train, test, config=config, watch=watch)
    return ProbeReport(pos, wsd(encoder, semcor, sets, dev=dev, watch=watch))


def probe_pos(
    encoder: LayerSource,
    train: Sequence[TaggedSentence],
    test: Sequence[TaggedSentence],
    *,
    config: ProbeConfig = DEFAULT,
    watch: SentenceWatch = unwatched,
) -> PosReport:
    """One classifier per layer. A tag that training has not seen is always wrong."""
    known = {tag: i for i, tag in enumerate(sorted({t for s in train for t in s.tags}))}
    labels = np.array([known.get(tag, -1) for s in (*train, *test) for tag in s.tags])
    uses = [Use(s.words, i) for s in (*train, *test) for i in range(len(s.words))]
    vectors, lens = use_vectors(encoder, uses, watch), lens_of(encoder)
    n_train = sum(len(s.tags) for s in train)
    accuracy = {}
    parts = slice(n_train), slice(n_train, None)
    for name in views(encoder.n_layers, lens):
        seen, asked = (view(vectors, name, part, lens) for part in parts)
        found = classify(seen, labels[:n_train], asked, config)
        accuracy[name] = 100 * float((found == labels[n_train:]).mean())
    return PosReport(accuracy, _by_word(train, test), n_train, len(labels) - n_train)


def classify(
    known: NDArray[np.float32], labels: Labels, asked: NDArray[np.float32], config: ProbeConfig
) -> Labels:
    """Train a softmax classifier on `known`, and predict for `asked`."""
    mean, spread = known.mean(axis=0), known.std(axis=0)  # (D,)
    spread = np.where(spread > 0, spread, 1)
    inputs = [torch.from_numpy((vectors - mean) / spread) for vectors in (known, asked)]
    layer = nn.Linear(known.shape[1], int(labels.max()) + 1)
    nn.init.zeros_(layer.weight)
    nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(layer.parameters(), lr=config.lr)
    order = torch.Generator().manual_seed(config.seed)
    steps = config.epochs * -(-len(labels) // config.batch)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=steps)
    targets = torch.from_numpy(labels)
    for _ in range(config.epochs):
        for rows in torch.randperm(len(labels), generator=order).split(config.batch):
            loss = nn.functional.cross_entropy(layer(inputs[0][rows]), targets[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
    with torch.inference_mode():
        found: Labels = layer(inputs[1]).argmax(dim=1).numpy()
    return found  # (N,)


def _by_word(train: Sequence[TaggedSentence], test: Sequence[TaggedSentence]) -> float:
    seen, asked = (
        [pair for s in corpus for pair in zip(s.words, s.tags, strict=True)]
        for corpus in (train, test)
    )
    of_word: dict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in seen:
        of_word[word][tag] += 1
    usual = {word: found.most_common(1)[0][0] for word, found in of_word.items()}
    other = Counter(tag for _, tag in seen).most_common(1)[0][0]
    right = [usual.get(word, other) == tag for word, tag in asked]
    return 100 * sum(right) / len(right)
