"""A language model that becomes a classifier, as ULMFiT does it: a text is read in chunks, its
state goes on from chunk to chunk without a gradient, and the last, the largest and the mean output
are pooled. "Semi-supervised Sequence Learning" (2015) is a setting of it: the last output alone,
and everything trained from the first step on.
"""

# B texts, T pieces in the longest, C pieces in a chunk, D vector dim
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import ConfigDict, Field
from torch import Tensor, nn

from elmore.checkpoint.causal import causal_of
from elmore.config import Frozen
from elmore.embedder import Embedder
from elmore.errors import ConfigError
from elmore.models.causal import Causal, CausalConfig
from elmore.nn.lstm import LSTMState
from elmore.tasks.encoded import Dims
from elmore.tasks.encoders.layer_sources import alike
from elmore.tasks.encoders.source import Batch, SourceOutput, VectorSource
from elmore.text.causal_reader import CausalReader
from elmore.train.optimizer import Share
from elmore.train.schedule import Schedule, SlantedSchedule

STEP_DOWN = 2.6
"""How much slower each layer learns than the one above."""


class LMTuningConfig(Frozen):
    """How a language model becomes a classifier. Defaults are ULMFiT's, with fewer epochs and
    smaller batches."""

    model_config = ConfigDict(allow_inf_nan=False)

    gradual: bool = True
    """The head alone in the first epoch, then one more layer each epoch, top first; else everything
    from the first step on."""
    lr: float = Field(default=0.01, gt=0)
    """Of the head."""
    floor_rate: float = Field(default=1 / STEP_DOWN, gt=0, le=1)
    """What the learning rate is multiplied by from the head to the top layer, and so on down."""
    schedule: Schedule = SlantedSchedule()
    epochs: int = Field(default=8, ge=1, le=10**6)
    batch: int = Field(default=32, ge=1, le=10**6)
    betas: tuple[Share, Share] = (0.7, 0.99)
    """Of AdamW."""
    weight_decay: float = Field(default=1e-6, ge=0)
    clip: float = Field(default=25.0, gt=0)
    """Global norm of the gradient."""
    pooling: Literal["concat", "last"] = "concat"
    """What the head sees: the last output, the largest and the mean of all; or the last alone."""
    chunk: int = Field(default=70, ge=1)
    """Pieces that are read at once. Gradients do not pass from one chunk to the one before."""
    window: int = Field(default=1400, ge=1)
    """Pieces at the end of a text that are pooled, and so can have gradients."""
    hidden: int = Field(default=50, ge=1, le=65_536)
    """Units of the head's first layer."""
    norm: bool = True
    """Batch norm before both layers of the head."""
    dropout: tuple[Share, Share] = (0.4, 0.1)
    """Before both layers of the head."""
    input_dropout: Share = 0.4
    embed_dropout: Share = 0.05
    weight_dropout: Share = 0.5
    hidden_dropout: Share = 0.3
    """These four are of an AWD-LSTM; another LSTM keeps the dropout of its pretraining."""

    def dropped(self, config: CausalConfig) -> CausalConfig:
        """The model with the dropout of this training."""
        if config.context.kind != "awd":
            return config
        names = ("input_dropout", "embed_dropout", "weight_dropout", "hidden_dropout")
        context = config.context.model_copy(update={name: getattr(self, name) for name in names})
        return config.model_copy(update={"context": context})


class TunedLM(VectorSource):
    """What a causal LSTM says of each text as a whole."""

    reader: CausalReader

    def __init__(self, name: str, embedder: Embedder, config: LMTuningConfig):
        super().__init__()
        pretrained = causal_of(embedder.checkpoint)
        if not pretrained.config.has_state:
            raise ConfigError(
                f"encoder {name!r}: is a Transformer, which has no state to carry from chunk to "
                "chunk; leave out 'lm:' to tune it below the task's own model."
            )
        assert isinstance(embedder.reader, CausalReader)
        self.name, self.config, self.reader = name, config, embedder.reader
        self.fingerprint = embedder.fingerprint
        self.model = Causal(config.dropped(pretrained.config))
        self.model.load_state_dict(pretrained.state_dict())
        self.floors = self.model.floors()
        self.dims = Dims(0, pooled=self.model.dim * (3 if config.pooling == "concat" else 1))
        self.begin_epoch(1)

    def begin_epoch(self, epoch: int) -> None:
        for depth, floor in enumerate(self.floors, start=1):
            for parameter in floor:
                parameter.requires_grad_(depth < epoch or not self.config.gradual)

    def tuned(self) -> list[list[nn.Parameter]]:
        return self.floors

    def forward(self, batch: Batch) -> SourceOutput:
        read, device = self.reader.read(batch.inputs), batch.mask.device
        ids, lengths = (torch.from_numpy(a).to(device) for a in (read.ids, read.lengths))
        outputs, pooled = self.outputs(ids, lengths)
        last = _last(outputs, pooled)
        if self.config.pooling == "last":
            return SourceOutput(None, pooled=last)
        within = pooled.unsqueeze(-1)  # (B, T, 1)
        largest = outputs.masked_fill(~within, torch.finfo(outputs.dtype).min).amax(dim=1)
        mean = (outputs * within).sum(dim=1) / within.sum(dim=1)
        return SourceOutput(None, pooled=torch.cat([last, largest, mean], dim=-1))  # (B, 3 D)

    def outputs(self, ids: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        """ids (B, T) -> the top layer of the chunks that are pooled (B, T', D), and where a text's
        last `window` pieces are in them (B, T'). Chunks before are read without gradients."""
        state: LSTMState | None = None
        kept: list[tuple[Tensor, Tensor]] = []
        learns = torch.is_grad_enabled()
        for start in range(0, ids.shape[1], self.config.chunk):
            part = ids[:, start : start + self.config.chunk]  # (B, C)
            place = start + torch.arange(part.shape[1], device=ids.device)
            left = lengths.unsqueeze(1) - place  # (B, C), pieces from here to the end
            pooled = (left > 0) & (left <= self.config.window)
            used = bool(pooled.any())
            with torch.set_grad_enabled(learns and used):
                here = (lengths - start).clamp(0, part.shape[1])
                layers, state = self.model.run(part, here, state)
            assert state is not None
            state = state.detach()
            kept += [(layers[-1], pooled)] if used else []
        outputs, places = zip(*kept, strict=True)
        return torch.cat(outputs, dim=1), torch.cat(places, dim=1)

    def unread(self, words: Sequence[str]) -> list[str]:
        return alike(self.name, words, self.lowest)

    @torch.no_grad()
    def lowest(self, words: Sequence[str]) -> list[NDArray[np.float32]]:
        """The row of each word, or the mean of its pieces' rows."""
        read = self.reader.read([(word,) for word in words])
        return list(self.model.static(read).cpu().numpy())


def _last(outputs: Tensor, pooled: Tensor) -> Tensor:
    """The output at the last piece of each text: (B, T, D) -> (B, D)."""
    place = torch.arange(pooled.shape[1], device=pooled.device)
    last = (pooled * place).amax(dim=1)  # (B,)
    return outputs[torch.arange(len(outputs), device=outputs.device), last]
