"""The biLM's objective: predict the next word and the one before, of rows that go on from batch to
batch or of whole sentences. `prepare` and `build` are what `pretrain/run.py` asks for.
"""

# S = 2 directions, T steps, B rows, N predictions
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmore.checkpoint.bilm import SOFTMAX
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.native import write_native_files
from elmore.errors import ConfigError, InputError
from elmore.files.atomic import write_text
from elmore.models.language_model import LanguageModel, prediction_targets
from elmore.nn.lstm import LSTMState
from elmore.nn.softmax import Softmax
from elmore.pretrain.batches import (
    Direction,
    RowBatch,
    RowBatches,
    RowsConfig,
    SentenceBatch,
    SentenceBatches,
    SentencesConfig,
    pieces,
)
from elmore.pretrain.config import Asked, Run
from elmore.pretrain.evaluate import Perplexity, perplexity
from elmore.pretrain.objectives.bilm_start import VOCABULARY, choose_vocabulary, start_bilm
from elmore.pretrain.sentences import Counts, Position, SentenceStream, Words, read_sentences
from elmore.pretrain.static_start import START, write_static_start
from elmore.text.vocabulary import Vocabulary
from elmore.train.loop import Loss, seed_step
from elmore.train.optimizer import Group
from elmore.train.world import World


def prepare(asked: Asked, files: list[Path], counts: Counts) -> None:
    """vocab.txt, and the vectors that were counted if the softmax starts from them."""
    config, folder = asked.config, asked.output
    words = choose_vocabulary(asked, counts)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / START).unlink(missing_ok=True)  # of a run that ended before its first checkpoint
    write_text(folder / VOCABULARY, "".join(words.lines()))
    if config.softmax_start == "static" and asked.source is None:
        write_static_start(folder, files, config, words)


def check_resumed(asked: Asked) -> None:
    given, folder = asked.vocabulary, asked.output
    if given is None:
        return
    if Vocabulary.read(given).words != Vocabulary.read(folder / VOCABULARY).words:
        raise ConfigError(f"{given}: not the vocabulary of {folder}; leave out --vocabulary.")


def steps_per_epoch(run: Run) -> float:
    match run.config.batches:
        case RowsConfig() as rows:
            return (run.words + run.sentences) / (rows.rows * rows.steps)
        case SentencesConfig() as sentences:
            return (run.words + 2 * run.sentences) / sentences.words


def build(run: Run, folder: Path, world: World, newest: Path | None) -> "BiLMObjective":
    config, vocabulary = run.config, Vocabulary.read(folder / VOCABULARY)
    torch.manual_seed(config.loop.seed)  # every process begins with the same numbers
    start = start_bilm(run, folder, vocabulary, newest)
    model = LanguageModel(start.model, start.softmax, config.output_dropout)
    model = _at_home(model.requires_grad_(True).train().to(world.device()))
    files, seed = [Path(name) for name in run.corpus], config.loop.seed

    def open_stream(direction: Direction, start: Position) -> SentenceStream:
        return SentenceStream(
            files,
            config.reading,
            seed=(seed, direction == "backward"),
            rank=world.rank,
            n_ranks=world.size,
            start=start,
        )

    batches: RowBatches | SentenceBatches
    match config.batches:
        case RowsConfig() as rows:
            batches = RowBatches(open_stream, rows, start.reader, vocabulary)
        case SentencesConfig() as sentences:
            batches = SentenceBatches(open_stream, sentences, start.reader, vocabulary, seed)
    on_gpu = world.device().type == "cuda"
    return BiLMObjective(
        model,
        batches,
        vocabulary,
        held_out(run),
        softmax_first=config.softmax_first * config.loop.accumulate if start.softmax_first else 0,
        bf16=config.precision == "bfloat16" or (config.precision == "auto" and on_gpu),
        seed=seed,
        rank=world.rank,
    )


def _at_home(model: LanguageModel) -> LanguageModel:
    """In memory of its own: weights mapped from a file may lie where sums round differently."""
    for p in model.parameters():
        p.data = p.data.clone()
    return model


def held_out(run: Run) -> list[Words]:
    """The first `valid_words` words of the validation text, whole sentences, unless they are so
    long that training cuts them too."""
    if run.valid is None:
        return []
    sentences: list[Words] = []
    n_words, batches = 0, run.config.batches
    for words in read_sentences(Path(run.valid), run.config.reading):
        if isinstance(batches, SentencesConfig):
            sentences += pieces([words], batches.max_words)
        else:
            sentences.append(words)
        n_words += len(words)
        if run.config.valid_words is not None and n_words >= run.config.valid_words:
            break
    if not sentences:
        raise InputError(f"{run.valid}: no sentence found; expected one per line.")
    return sentences


class BiLMObjective:
    """Both directions' log-likelihood over batches without end."""

    higher_is_better = False  # perplexity

    def __init__(
        self,
        model: LanguageModel,
        batches: RowBatches | SentenceBatches,
        vocabulary: Vocabulary,
        valid: list[Words],
        *,
        softmax_first: int = 0,
        bf16: bool = False,
        seed: int = 1,
        rank: int = 0,
    ):
        self.module: nn.Module = model
        self.model, self.batches, self.vocabulary, self.valid = model, batches, vocabulary, valid
        self.device = next(model.parameters()).device
        self.bf16, self.seed, self.rank = bf16, seed, rank
        self.forget = batches.config.forget if isinstance(batches, RowBatches) else 0.0
        self._next: Iterator[RowBatch | SentenceBatch] = iter(batches)
        self._state: LSTMState | None = None
        self._softmax_alone = softmax_first  # batches still to come in which only it learns

    def groups(self) -> list[Group]:
        softmax = self.model.softmax
        rows = list(softmax.parameters()) if softmax.sparse else []
        apart = set(rows)
        whole = [p for p in self.module.parameters() if p not in apart]
        return [Group(whole), *([Group(rows, by_rows=True)] if rows else [])]

    def begin(self, step: int) -> None:
        seed_step(self.seed, step, self.rank)

    def next_loss(self, rng: np.random.Generator) -> Loss:
        batch = next(self._next)
        learning = self._softmax_alone == 0
        self._softmax_alone = max(0, self._softmax_alone - 1)
        # products alone; losses, gates, cells and their clips stay float32
        with (
            torch.autocast(self.device.type, torch.bfloat16, enabled=self.bf16),
            torch.set_grad_enabled(learning),
        ):
            if isinstance(batch, RowBatch):
                forward, backward = self._rows(batch, rng)
            else:
                forward, backward = self._sentences(batch)
        losses = [self.model.loss(h.float(), targets, rng) for h, targets in (forward, backward)]
        count = len(forward[1]) + len(backward[1])
        parts = {"forward": 2 * losses[0].item(), "backward": 2 * losses[1].item()}
        return Loss(losses[0] + losses[1], count, parts)

    def _rows(self, batch: RowBatch, rng: np.random.Generator) -> tuple[tuple[Tensor, Tensor], ...]:
        spelled, index, targets = self._tensors(batch.spelled, batch.index, batch.targets)
        state = self._state or self.model.bilm.zero_state(index.shape[2])
        if self.forget:
            kept = torch.from_numpy(rng.random(index.shape[2]) >= self.forget).to(self.device)
            state = LSTMState(state.h * kept.unsqueeze(-1), state.c * kept.unsqueeze(-1))
        top, state = self.model.read_rows(spelled, index, state)
        self._state = state.detach()
        return tuple((top[d].flatten(0, 1), targets[d].flatten()) for d in (0, 1))

    def _sentences(self, batch: SentenceBatch) -> tuple[tuple[Tensor, Tensor], ...]:
        words = batch.words
        arrays = (words.spelled, words.index, words.lengths, batch.ids)
        spelled, index, lengths, ids = self._tensors(*arrays)
        h = self.model.read_sentences(spelled, index, lengths).chunk(2)
        return tuple(zip(h, prediction_targets(ids, lengths).chunk(2), strict=True))

    def _tensors(self, *arrays: Any) -> list[Tensor]:
        return [torch.from_numpy(np.ascontiguousarray(a)).to(self.device) for a in arrays]

    def validate(self) -> dict[str, float]:
        if not self.valid:
            return {}
        found: Perplexity = perplexity(
            self.model,
            self.vocabulary,
            self.valid,
            speller=self.batches.speller,
            carry=isinstance(self.batches, RowBatches),
        )
        return {"average": found.average, "forward": found.forward, "backward": found.backward}

    def state(self) -> Any:
        carried = None if self._state is None else {"h": self._state.h, "c": self._state.c}
        alone = self._softmax_alone
        return {"batches": self.batches.state(), "carried": carried, "softmax_alone": alone}

    def restore(self, state: Any) -> None:
        self.batches.restore(state["batches"])
        self._next = iter(self.batches)
        self._softmax_alone = state["softmax_alone"]
        kept = state["carried"]
        if kept is not None:
            self._state = LSTMState(kept["h"].to(self.device), kept["c"].to(self.device))

    def save(self, folder: Path) -> None:
        softmax = self.model.softmax
        kept = softmax.linear() if isinstance(softmax, Softmax) else softmax
        found = Checkpoint(
            model=self.model.bilm,
            reader=self.batches.speller,
            heads={SOFTMAX: kept},
            vocabulary=self.vocabulary,
        )
        write_native_files(found, folder)
