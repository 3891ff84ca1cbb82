"""One side of the benchmark of BERT's pretraining: a process that takes some steps a turn, a JSON
line in and a JSON line out. Both sides begin with the same weights and read the same batches.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np
import torch
from embed_child import Job, peak, say
from torch import Tensor, nn

from elmore.checkpoint.sources import load
from elmore.models.bert import MASKED, NEXT
from elmore.models.masked_model import MaskedModel
from elmore.pretrain.config import MaskedConfig
from elmore.pretrain.masked_batches import MaskedBatch
from elmore.pretrain.objectives.masked import CORPUS, MaskedObjective, held_out, marks_of
from elmore.pretrain.run import keep_large_blocks
from elmore.text.piece_reader import PieceReader
from elmore.train.loop import Loop
from elmore.train.schedule import ConstantSchedule
from elmore.train.world import World

SIDES = ("elmore", "transformers", "transformers, gathered")


class Batches:
    """Some batches again and again, as an objective reads them."""

    def __init__(self, made: list[MaskedBatch]):
        self.made = made

    def __iter__(self) -> Iterator[MaskedBatch]:
        return cycle(self.made)

    def state(self) -> Any:
        return None


def main(job: Job) -> None:
    torch.set_num_threads(job.threads)
    keep_large_blocks()  # for either side
    folder = Path(job.model)
    config = MaskedConfig.model_validate_json((folder / "config.json").read_text())
    loop = config.loop.model_copy(update={"schedule": ConstantSchedule(), "steps": 10**9})
    config = config.model_copy(update={"loop": loop})
    checkpoint = load(folder / "start", heads=True)
    reader = checkpoint.need_reader()
    assert isinstance(reader, PieceReader)
    marks = marks_of(reader.wordpiece, config.model.n_pieces)
    made = held_out(folder / CORPUS, config, marks)
    if job.side == "elmore":
        step = elmore_step(config, checkpoint, reader, made)
    else:
        step = transformers_step(config, folder / "start", made, job.side.endswith("gathered"))
    say({"pieces": int(np.mean([len(batch.ids) for batch in made]))})
    for line in sys.stdin:
        start, cpu, losses = time.perf_counter(), time.process_time(), []
        for _ in range(json.loads(line)["steps"]):
            losses.append(step())
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        say({"seconds": seconds, "cpu_seconds": cpu, "losses": losses, "peak": peak()})


def elmore_step(
    config: MaskedConfig, checkpoint: Any, reader: PieceReader, made: list[MaskedBatch]
) -> Callable[[], float]:
    """What the training loop of `elmore pretrain` does."""
    heads = checkpoint.heads
    model = MaskedModel(checkpoint.model, heads[MASKED], heads[NEXT])
    for p in model.parameters():
        p.data = p.data.clone()
    batches: Any = Batches(made)
    objective = MaskedObjective(model.requires_grad_(True).train(), batches, reader.wordpiece, [])
    nothing: Any = None
    loop = Loop(objective, config.loop, nothing, World())

    class NoStop:
        arrived = None

    stop: Any = NoStop()

    def step() -> float:
        loop.progress.tally = {}
        loop._step(stop)
        tally = loop.progress.tally
        return (tally["mlm"] + tally["nsp"]) / tally["count"]

    return step


def transformers_step(
    config: MaskedConfig, start: Path, made: list[MaskedBatch], gathered: bool
) -> Callable[[], float]:
    """A plain loop. `gathered`: with the masked places taken out before the vocabulary's product,
    which its own forward does not do."""
    from transformers import BertForPreTraining

    model = BertForPreTraining.from_pretrained(start).train()
    free = [p for name, p in model.named_parameters() if p.ndim < 2]
    decayed = [p for name, p in model.named_parameters() if p.ndim > 1]
    optimizer, loop = config.loop.optimizer, config.loop
    assert optimizer.kind == "adamw"
    groups = [
        {"params": decayed, "weight_decay": optimizer.weight_decay},
        {"params": free, "weight_decay": 0.0},
    ]
    adam = torch.optim.AdamW(groups, lr=optimizer.lr, betas=optimizer.betas, eps=optimizer.eps)
    batches = cycle([padded(batch) for batch in made])

    def step() -> float:
        batch = next(batches)
        loss = gathered_loss(model, **batch) if gathered else model(**batch).loss
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), loop.clip or 1e9)
        adam.step()
        adam.zero_grad()
        return float(loss.item())

    return step


def gathered_loss(model: Any, labels: Tensor, next_sentence_label: Tensor, **batch: Tensor) -> Any:
    found = model.bert(**batch)
    hidden, wanted = found.last_hidden_state.flatten(0, 1), labels.flatten()
    places = (wanted >= 0).nonzero().squeeze(1)
    pieces = model.cls.predictions(hidden[places])
    following = model.cls.seq_relationship(found.pooler_output)
    entropy = nn.functional.cross_entropy
    return entropy(pieces, wanted[places]) + entropy(following, next_sentence_label)


def padded(batch: MaskedBatch) -> dict[str, Tensor]:
    """As transformers reads it."""
    n, t = len(batch.lengths), int(batch.lengths.max())
    here = np.arange(t) < batch.lengths[:, None]
    labels = np.full(len(batch.ids), -100)
    labels[batch.places] = batch.targets
    columns = {"input_ids": batch.ids, "token_type_ids": batch.segments, "labels": labels}
    found = {"attention_mask": torch.from_numpy(here.astype(np.int64))}
    for name, values in columns.items():
        rows = np.full((n, t), -100 if name == "labels" else 0)
        rows[here] = values
        found[name] = torch.from_numpy(rows)
    found["next_sentence_label"] = torch.from_numpy(batch.random_next)
    return found


if __name__ == "__main__":
    main(Job(**json.loads(sys.argv[1])))
