"""Static vectors beside gensim's: the same sentences, the same settings, one thread each.

    python benchmarks/static.py --text wiki.txt --words 2000000 --seeds 1 2

The text, one sentence per line with words split by spaces, is lowercased and cut after so many
words. Speed is words of the text times epochs by the seconds of training, without counting and
without the vocabulary. Similarity is Spearman's correlation with people's judgments on WordSim-353
and SimLex-999, the copies in gensim's own test data, over the pairs whose two words are known.
"""

import argparse
import json
import platform
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gensim
import numpy as np
from gensim.models import Word2Vec
from gensim.test.utils import datapath
from scipy.stats import spearmanr

from elmore.checkpoint.sources import load_static
from elmore.config import override
from elmore.files.text_file import read_lines
from elmore.models.static import StaticVectors
from elmore.pretrain.recipes import find_recipe
from elmore.pretrain.run import pretrain

SETS = {"WordSim-353": "wordsim353.tsv", "SimLex-999": "simlex999.txt"}


def main() -> None:
    parser = argparse.ArgumentParser(description="Static vectors, elmore's and gensim's.")
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--words", type=int, default=2_000_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    parser.add_argument("--glove", type=int, default=0, help="also GloVe, with so many epochs")
    parser.add_argument("--json", type=Path, help="also write every figure to this file")
    given = parser.parse_args()
    sentences = list(read(given.text, given.words))
    rows = []
    for seed in given.seeds:
        rows.append(train_elmore(sentences, "sgns", given.epochs, seed))
        rows.append(train_gensim(sentences, given.epochs, seed))
        if given.glove:
            rows.append(train_elmore(sentences, "glove", given.glove, seed))
    n_words = sum(map(len, sentences))
    about = f"{platform.processor() or platform.machine()}, gensim {gensim.__version__}"
    print(f"{n_words:,} words, {given.epochs} epochs, one thread; {about}\n")
    print(table(rows))
    if given.json is not None:
        given.json.write_text(json.dumps({"words": n_words, "rows": rows}, indent=2) + "\n")


def read(path: Path, most: int) -> Iterator[list[str]]:
    n_words = 0
    for line in read_lines(path):
        words = line.lower().split()
        n_words += len(words)
        yield words
        if n_words >= most:
            return


def train_elmore(sentences: list[list[str]], recipe: str, epochs: int, seed: int) -> dict[str, Any]:
    settings = [f"epochs={epochs}", f"loop.seed={seed}", "reading.as_is=true"]
    settings += ["reading.longest=null", "loop.checkpoint_minutes=60"]
    with tempfile.TemporaryDirectory() as folder:
        text, run = Path(folder) / "text.txt", Path(folder) / "run"
        text.write_text("\n".join(" ".join(words) for words in sentences), encoding="utf-8")
        cpu = time.process_time()
        progress = pretrain([text], run, override(find_recipe(recipe), settings))
        cpu = time.process_time() - cpu
        n_words = sum(map(len, sentences)) * epochs
        speed = {"words/s": n_words / progress.seconds, "words/CPU s, all": n_words / cpu}
        return {"who": f"elmore {recipe}", "seed": seed, **speed, **judged(load_static(str(run)))}


def train_gensim(sentences: list[list[str]], epochs: int, seed: int) -> dict[str, Any]:
    """All settings but these are its defaults, and elmore's."""
    cpu = time.process_time()
    model = Word2Vec(sg=1, workers=1, seed=seed, epochs=epochs)
    model.build_vocab(sentences)
    begun = time.monotonic()
    model.train(sentences, total_examples=model.corpus_count, epochs=epochs)
    seconds, cpu = time.monotonic() - begun, time.process_time() - cpu
    n_words = sum(map(len, sentences)) * epochs
    speed = {"words/s": n_words / seconds, "words/CPU s, all": n_words / cpu}
    vectors = StaticVectors(tuple(model.wv.index_to_key), model.wv.vectors)
    return {"who": "gensim sgns", "seed": seed, **speed, **judged(vectors)}


def judged(vectors: StaticVectors) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, file in SETS.items():
        pairs = [line.split("\t") for line in read_lines(Path(datapath(file)))]
        known = [
            (vectors.row(one), vectors.row(other), float(score))
            for one, other, score, *_ in (p for p in pairs if not p[0].startswith("#"))
            if vectors.row(one) is not None and vectors.row(other) is not None
        ]
        cosines = [cosine(vectors.vectors[a], vectors.vectors[b]) for a, b, _ in known]
        found[name] = float(spearmanr(cosines, [score for *_, score in known]).statistic)
        found[f"{name} pairs"] = len(known)
    return found


def cosine(a: Any, b: Any) -> float:
    return float(a @ b / (np.linalg.norm(a) * np.linalg.norm(b)))


def table(rows: list[dict[str, Any]]) -> str:
    names = list(rows[0])
    lines = [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]
    for row in rows:
        cells = [f"{v:,.3f}" if isinstance(v, float) and v < 10 else shown(v) for v in row.values()]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def shown(value: Any) -> str:
    return f"{value:,.0f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    main()
