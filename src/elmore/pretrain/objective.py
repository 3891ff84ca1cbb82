"""The biLM's objective for the training loop: predict the next word and the one before."""

# S = 2 directions, T steps, B rows, N predictions
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmore.checkpoint.bilm import bilm_checkpoint
from elmore.checkpoint.checkpoint import Checkpoint
from elmore.checkpoint.native import write_native_files
from elmore.models.language_model import LanguageModel, prediction_targets
from elmore.nn.lstm import LSTMState
from elmore.nn.softmax import Softmax
from elmore.pretrain.batches import RowBatch, RowBatches, SentenceBatch, SentenceBatches
from elmore.pretrain.evaluate import Perplexity, perplexity
from elmore.pretrain.sentences import Words
from elmore.text.dictionary_reader import DictionaryReader
from elmore.text.vocabulary import Vocabulary
from elmore.train.loop import Loss, seed_step
from elmore.train.optimizer import Group


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
        dictionary: DictionaryReader | None = None,
    ):
        self.module: nn.Module = model
        self.model, self.batches, self.vocabulary, self.valid = model, batches, vocabulary, valid
        self.dictionary = dictionary
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
        rows, index, targets = self._tensors(batch.spelled, batch.index, batch.targets)
        state = self._state or self.model.bilm.zero_state(index.shape[2])
        if self.forget:
            kept = torch.from_numpy(rng.random(index.shape[2]) >= self.forget).to(self.device)
            state = LSTMState(state.h * kept.unsqueeze(-1), state.c * kept.unsqueeze(-1))
        top, state = self.model.read_rows(rows, index, state)
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
        write_native_files(self.checkpoint(), folder)

    def checkpoint(self) -> Checkpoint:
        softmax = self.model.softmax
        kept = softmax.linear() if isinstance(softmax, Softmax) else softmax
        return bilm_checkpoint(
            self.model.bilm,
            vocabulary=self.vocabulary,
            softmax=kept,
            dictionary=self.dictionary,
        )
