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
from elmore.checkpoint.checkpoint import Checkpoint, TrainedOn
from elmore.checkpoint.native import write_native_files
from elmore.checkpoint.sources import load
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
)
from elmore.pretrain.config import RUN_VERSION, Asked, PretrainConfig, Run, bilm_config, rounding
from elmore.pretrain.evaluate import Perplexity, first_words, perplexity
from elmore.pretrain.objectives.bilm_start import (
    LETTERS,
    VOCABULARY,
    choose_vocabulary,
    corpus_letters,
    kept_softmax,
    read_letters,
    start_bilm,
    trained_config,
)
from elmore.pretrain.sentences import Counts, Position, SentenceStream, Words, read_sentences
from elmore.pretrain.static_start import START, write_static_start
from elmore.text.vocabulary import Vocabulary
from elmore.train.loop import Loss, seed_step
from elmore.train.optimizer import Group, by_decay
from elmore.train.precision import Rounding, products_in
from elmore.train.world import World

SOFTMAX_FIRST_STEPS = 500
"""At most, if the softmax learns alone for a share of the run."""


def prepare(
    asked: Asked, files: list[Path], counts: Counts, steps: int | None
) -> tuple[PretrainConfig, list[str]]:
    """vocab.txt, letters.txt if the model has classes of characters, and the vectors that were
    counted if the softmax starts from them."""
    folder = asked.output
    source = None if asked.source is None else load(asked.source, heads=True)
    words = choose_vocabulary(asked, counts, source)
    letters = corpus_letters(counts, bilm_config(asked))
    config = trained_config(asked, words, source, letters)
    notes = _notes(asked, config, counts, words, source, steps)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / START).unlink(missing_ok=True)  # of a run that ended before its first checkpoint
    write_text(folder / VOCABULARY, "".join(words.lines()))
    if letters is not None:
        write_text(folder / LETTERS, "".join(f"{letter}\n" for letter in letters))
    if config.softmax_start == "static" and not write_static_start(folder, files, config, words):
        notes.append("There is too little text for softmax_start=static: its rows are random.")
    return config, notes


def _notes(
    asked: Asked,
    config: PretrainConfig,
    counts: Counts,
    words: Vocabulary,
    source: Checkpoint | None,
    steps: int | None,
) -> list[str]:
    """What should be known before a run begins."""
    notes = []
    if source is not None and kept_softmax(source) is None and config.softmax_first:
        notes.append(
            f"{asked.source} has no softmax: only the new softmax is trained for the first "
            f"{_softmax_first(config)}, then the whole model (softmax_first)."
        )
    schedule = config.loop.schedule
    warmup = 0 if schedule.kind == "slanted" else schedule.warmup  # a slant fits into any run
    if steps is not None and warmup >= steps:
        notes.append(
            f"The learning rate is still rising when the run ends: {steps:,} steps, "
            f"loop.schedule.warmup={warmup:,}."
        )
    unknown = sum(n for word, n in counts.words.items() if word not in words)
    if 2 * unknown > counts.n_words:
        share = unknown / counts.n_words
        notes.append(f"{share:.0%} of the corpus is outside the vocabulary: learned as <UNK>.")
    if asked.valid is not None and config.valid_words is not None:
        text = read_sentences(asked.valid, config.reading)
        n_words = sum(len(sentence) for sentence in first_words(text, config.valid_words))
        if n_words >= config.valid_words:
            notes.append(
                f"Validation reads the first {n_words:,} words of {asked.valid} (valid_words); "
                f"for the same figure: elmore evaluate --first-words {config.valid_words}."
            )
    return notes


def _softmax_first(config: PretrainConfig) -> str:
    first = config.softmax_first
    if isinstance(first, float):
        return f"{first:.0%} of the run, at most {SOFTMAX_FIRST_STEPS} steps"
    return f"{first:,} steps"


def resumed_config(run: Run, asked: Asked) -> PretrainConfig:
    words, given = Vocabulary.read(asked.output / VOCABULARY), asked.vocabulary
    if given is not None and Vocabulary.read(given).words != words.words:
        raise ConfigError(f"{given}: not the vocabulary of {asked.output}; leave out --vocabulary.")
    if run.version == 1:
        old = {"softmax_first": bilm_config(run).softmax_first}
        given_one = bilm_config(asked).softmax_first != PretrainConfig().softmax_first
        return bilm_config(asked) if given_one else bilm_config(asked).model_copy(update=old)
    if run.source is not None:
        return trained_config(asked, words, bilm_config(run).model, None)
    return trained_config(asked, words, None, read_letters(asked.output, bilm_config(run)))


def steps_per_epoch(run: Run) -> float:
    match bilm_config(run).batches:
        case RowsConfig() as rows:
            return (run.words + run.sentences) / (rows.rows * rows.steps)
        case SentencesConfig() as sentences:
            return (run.words + 2 * run.sentences) / sentences.words


def build(run: Run, folder: Path, world: World, newest: Path | None) -> "BiLMObjective":
    config, vocabulary = bilm_config(run), Vocabulary.read(folder / VOCABULARY)
    torch.manual_seed(config.loop.seed)  # every process begins with the same numbers
    start = start_bilm(run, folder, vocabulary, newest)
    model = LanguageModel(start.model, start.softmax, config.output_dropout)
    model = _at_home(model.requires_grad_(True).train().to(world.device()))
    first, share = config.softmax_first, 1.0
    if isinstance(first, float):
        first, share = SOFTMAX_FIRST_STEPS, first
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
    return BiLMObjective(
        model,
        batches,
        vocabulary,
        held_out(run),
        trained_on=TrainedOn(
            tokenize=config.reading.tokenize,
            carry_state=config.batches.kind == "rows",
            max_words=None if config.batches.kind == "rows" else config.batches.max_words,
        ),
        softmax_share=share,
        softmax_first=first * config.loop.accumulate if start.softmax_first else 0,
        version=run.version,
        precision=rounding(run),
        seed=seed,
        rank=world.rank,
    )


def _at_home(model: LanguageModel) -> LanguageModel:
    """In memory of its own: weights mapped from a file may lie where sums round differently."""
    for p in model.parameters():
        p.data = p.data.clone()
    return model


def held_out(run: Run) -> list[Words]:
    """The first `valid_words` words of the validation text, in whole sentences."""
    if run.valid is None:
        return []
    text = read_sentences(Path(run.valid), bilm_config(run).reading)
    sentences = list(first_words(text, bilm_config(run).valid_words))
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
        trained_on: TrainedOn,
        softmax_share: float = 1.0,
        softmax_first: int = 0,
        version: int = RUN_VERSION,
        precision: Rounding = "float32",
        seed: int = 1,
        rank: int = 0,
    ):
        self.module: nn.Module = model
        self.model, self.batches, self.vocabulary, self.valid = model, batches, vocabulary, valid
        self.device = next(model.parameters()).device
        self.precision, self.seed, self.rank = precision, seed, rank
        self.forget = batches.config.forget if isinstance(batches, RowBatches) else 0.0
        self._next: Iterator[RowBatch | SentenceBatch] = iter(batches)
        self._state: LSTMState | None = None
        self.trained_on, self._version = trained_on, version
        self._softmax_share, self._learning = softmax_share, True
        self._softmax_alone = softmax_first  # batches still to come in which only it learns

    def groups(self) -> list[Group]:
        softmax = self.model.softmax
        rows = list(softmax.parameters()) if softmax.sparse else []
        apart = set(rows)
        whole = [p for p in self.module.parameters() if p not in apart]
        dense = [Group(whole)] if self._version == 1 else by_decay(self.module, whole)
        return [*dense, *([Group(rows, by_rows=True)] if rows else [])]

    def begin(self, step: int, done: float) -> None:
        seed_step(self.seed, step, self.rank)
        if done >= self._softmax_share:
            self._softmax_alone = 0

    def untrained(self) -> str | None:
        """Which part of the model has not been trained yet."""
        if self._learning:
            return None
        return "only the new softmax has been trained (softmax_first); the biLM is as it was"

    def next_loss(self, rng: np.random.Generator) -> Loss:
        batch = next(self._next)
        self._learning = self._softmax_alone == 0
        self._softmax_alone = max(0, self._softmax_alone - 1)
        # products alone; losses, gates, cells and their clips stay float32
        with (
            products_in(self.precision, self.device),
            torch.set_grad_enabled(self._learning),
        ):
            if isinstance(batch, RowBatch):
                forward, backward = self._rows(batch, rng)
            else:
                forward, backward = self._sentences(batch)
        with products_in(self.precision, self.device):
            losses = [
                self.model.loss(h.float(), targets, rng) for h, targets in (forward, backward)
            ]
        count = len(forward[1]) + len(backward[1])
        parts = {"forward": 2 * losses[0].item(), "backward": 2 * losses[1].item()}
        if not self._learning and self._version > 1:
            parts["softmax_alone"] = float(count)  # its mean: the share of such steps
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
            carry=self.trained_on.carry_state,
            max_words=self.trained_on.max_words,
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
            trained_on=self.trained_on,
        )
        write_native_files(found, folder)
