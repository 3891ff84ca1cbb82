"""Runs of a second: a made-up corpus, three kinds of model, and processes that can be killed.

Processes come from a fork server that has imported torch once, so that a start costs little.
"""

import json
import multiprocessing
import os
import socket
from collections.abc import Iterable
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmore.models.bilm import BiLMConfig
from elmore.nn.char_cnn import CharCNNConfig
from elmore.nn.lstm import LSTMConfig
from elmore.nn.softmax import FullSoftmaxConfig, SampledSoftmaxConfig
from elmore.nn.transformer import TransformerConfig
from elmore.pretrain.batches import RowsConfig, SentencesConfig
from elmore.pretrain.config import PretrainConfig, VocabularyConfig
from elmore.pretrain.run import pretrain
from elmore.pretrain.sentences import ReadingConfig
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import AdagradConfig, AdamWConfig
from elmore.train.schedule import CosineSchedule, NoamSchedule

WORDS = CharCNNConfig(dim=8, char_dim=4, filters=((1, 4), (2, 8)), n_highway=1, max_characters=12)
LSTM = BiLMConfig(words=WORDS, context=LSTMConfig(dim=8, cell_dim=12, dropout=0.1))
TRANSFORMER = BiLMConfig(
    words=WORDS,
    context=TransformerConfig(
        dim=8, ff_dim=16, n_layers=2, n_heads=2, dropout=0.1, input_dropout=0.1
    ),
)
READING = ReadingConfig(block=3, buffer=10)
SMALL = VocabularyConfig(min_count=2)
OFTEN: dict[str, Any] = {"checkpoint_minutes": 0.002, "log_steps": 1}


def rows() -> PretrainConfig:
    """bilm-tf's way: rows, samples, Adagrad."""
    return PretrainConfig(
        model=LSTM,
        softmax=SampledSoftmaxConfig(n_samples=8),
        batches=RowsConfig(rows=3, steps=6),
        reading=READING,
        vocabulary=SMALL,
        loop=LoopConfig(steps=30, optimizer=AdagradConfig(), loss_scale=6.0, **OFTEN),
    )


def sentences() -> PretrainConfig:
    """Whole sentences through an LSTM, two micro-batches a step, reports of several steps."""
    return PretrainConfig(
        model=LSTM,
        softmax=FullSoftmaxConfig(),
        batches=SentencesConfig(words=40, max_words=12),
        reading=READING,
        vocabulary=SMALL,
        loop=LoopConfig(
            steps=30,
            optimizer=AdamWConfig(lr=1e-2, weight_decay=0.01),
            schedule=CosineSchedule(warmup=5),
            accumulate=2,
            valid_steps=9,
            **{**OFTEN, "log_steps": 4},
        ),
    )


def transformer() -> PretrainConfig:
    """Sentences through a Transformer, sampled rows under Adam."""
    return PretrainConfig(
        model=TRANSFORMER,
        softmax=SampledSoftmaxConfig(n_samples=8),
        batches=SentencesConfig(words=40, max_words=12),
        reading=READING,
        vocabulary=SMALL,
        loop=LoopConfig(
            steps=30,
            optimizer=AdamWConfig(lr=1.0),
            schedule=NoamSchedule(dim=8, warmup=20),
            clip=None,
            **OFTEN,
        ),
    )


def rounded() -> PretrainConfig:
    """The first in bfloat16, of a size that the kernel takes where there is one."""
    words = WORDS.model_copy(update={"dim": 16})
    context = LSTMConfig(dim=16, cell_dim=32, dropout=0.1)
    model = BiLMConfig(words=words, context=context)
    return rows().model_copy(update={"model": model, "precision": "bfloat16"})


KINDS = {"rows": rows, "sentences": sentences, "transformer": transformer, "rounded": rounded}


def corpus(folder: Path, n_files: int = 2, n_sentences: int = 60) -> list[Path]:
    """Text whose words follow one another in a loose circle, so that there is a little to learn."""
    folder.mkdir(parents=True, exist_ok=True)
    rng, paths = np.random.default_rng(5), []
    for i in range(n_files):
        lines = []
        for _ in range(n_sentences):
            start, n = int(rng.integers(25)), int(rng.integers(2, 20))
            lines.append(" ".join(f"w{(start + k + rng.integers(2)) % 25}" for k in range(n)))
        paths.append(folder / f"part{i}.txt")
        paths[-1].write_text("\n".join(lines) + "\n", encoding="utf-8")
    return paths


def train(kind: str, files: list[Path], folder: Path) -> None:
    """What a process does; begun anew or gone on with, as the folder is."""
    torch.set_num_threads(1)
    valid = files[0] if kind == "sentences" else None
    pretrain(files, folder, KINDS[kind](), valid=valid, resume=True)


def started(
    kind: str, files: list[Path], folder: Path, environment: dict[str, str] | None = None
) -> ForkServerProcess:
    context = multiprocessing.get_context("forkserver")
    # What takes seconds to import; modules that are not there it passes over.
    context.set_forkserver_preload(["elmore.pretrain.run", "torch.utils.tensorboard"])
    arguments = (kind, files, folder, environment or {})
    process = context.Process(target=_train, args=arguments, daemon=True)
    process.start()
    return process


def _train(kind: str, files: list[Path], folder: Path, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    train(kind, files, folder)


def loopback(n_processes: int) -> list[dict[str, str]]:
    """The environment of processes that train together on this machine alone."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    common = {
        "WORLD_SIZE": str(n_processes),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "GLOO_SOCKET_IFNAME": "lo",
    }
    return [{**common, "RANK": str(rank)} for rank in range(n_processes)]


def logged(folder: Path) -> list[dict[str, float]]:
    """The log's finished lines without the one figure that is the clock's."""
    path = folder / "log.jsonl"
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]


def weights(folder: Path) -> dict[str, bytes]:
    """The files of the newest checkpoint's model, byte by byte."""
    newest = max((folder / "checkpoints").glob("step-*"))
    return {path.name: path.read_bytes() for path in newest.rglob("*.safetensors")}


def last_step(lines: Iterable[dict[str, float]]) -> float:
    return max((line["step"] for line in lines), default=0)
