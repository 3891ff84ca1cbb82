"""Sequence to sequence from two language models (Ramachandran, Liu & Le 2017): the encoder begins
with a model of the source language, the decoder with one of the target language and its softmax.

    source LM → s_1, upper layers over it → s_top          memory: s_1 and s_top
    target LM → h_1 → layers below the attention → q → attention to the memory by q
                    → upper layers over q + context → h_top
    softmax(h_1 + W [h_top; context])

The sum is the paper's residual connection. W is zero at first, so that a new model predicts exactly
what its target LM predicts. Attention is by a state between, not by the top one as in the paper:
then all steps of a layer are computed together, and upper layers know what was looked at. Without
layers below it, q is h_1, which then must serve the language model and the attention.
"""

# B sentences, S source pieces, T target pieces, K hypotheses, D dim of the target LM, V pieces
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from pydantic import Field, model_validator
from torch import Tensor, nn

from elmore.config import Frozen
from elmore.models.causal import Causal, CausalConfig, CausalLM
from elmore.nn.beam_search import Stepped
from elmore.nn.causal_context import CausalLSTM, rows_of
from elmore.nn.dropout import Dropout
from elmore.nn.lstm import BiLSTM, LSTMConfig, LSTMState
from elmore.nn.rounding import widened
from elmore.nn.source_attention import Memory, SourceAttention, copied, coverage_loss


class Seq2SeqConfig(Frozen):
    """Two language models, and what is between them."""

    source: CausalConfig
    target: CausalConfig
    n_upper: int = Field(default=1, ge=1, le=100)
    """Layers above the language model, on each side."""
    n_below: int = Field(default=0, ge=0, le=100)
    """Layers of the decoder between its language model and the attention."""
    both_directions: bool = True
    """Of the encoder's upper layers; the paper's read forward only."""
    dropout: float = Field(default=0.2, ge=0, lt=1)
    """On everything that is not recurrent."""
    copy_source: bool = False
    """Pieces of the source can be copied: a pointer. Both sides have one vocabulary then."""
    vector_dim: int = Field(default=0, ge=0)
    """Of pretrained vectors of the source's words, added to the upper layers' input; 0: none."""

    @model_validator(mode="after")
    def _fits(self) -> "Seq2SeqConfig":
        for name in ("source", "target"):
            if not getattr(self, name).has_state:
                raise ValueError(f"{name}: a Transformer; expected a language model by an LSTM")
        if self.copy_source and self.source.n_pieces != self.target.n_pieces:
            n, m = self.source.n_pieces, self.target.n_pieces
            raise ValueError(
                f"copying needs one vocabulary, but source and target have {n} and {m}"
            )
        return self


@dataclass(frozen=True, slots=True)
class DecoderState:
    """Between two steps: the memory, and the state of both parts of the decoder, row by row."""

    memory: Memory
    base: LSTMState  # rows B K
    own: LSTMState  # of the layers below the attention, then of those above


@dataclass(frozen=True, slots=True)
class Decoded:
    """All steps of some targets, or one step of some hypotheses."""

    h: Tensor  # (B, T, D), what the softmax sees
    attention: Tensor  # (B, T, S)
    copying: Tensor | None  # (B, T), the logit of copying
    base: LSTMState
    own: LSTMState


@dataclass(frozen=True, slots=True)
class Seq2SeqLoss:
    """Sums over the pieces of all targets, their ends included."""

    pieces: Tensor
    coverage: Tensor
    count: int


class Seq2Seq(nn.Module):
    """Encoder, decoder, and the step function that beam search asks for."""

    def __init__(self, config: Seq2SeqConfig):
        super().__init__()
        self.config = config
        self.source = CausalLM(Causal(config.source))
        self.target = CausalLM(Causal(config.target))
        from_dim, dim = config.source.dim, config.target.dim
        self.vectors = nn.Linear(config.vector_dim, from_dim) if config.vector_dim else None
        self.encoder = (BiLSTM if config.both_directions else CausalLSTM)(
            _layers(config.n_upper, from_dim)
        )
        top = from_dim * (2 if config.both_directions else 1)
        self.attention = SourceAttention(top, dim)
        self.context = nn.Linear(from_dim + top, dim)
        n_own = config.n_below + config.n_upper
        self.begin = nn.Linear(top, dim * n_own)  # the first state of the decoder's own layers
        self.below = CausalLSTM(_layers(config.n_below, dim)) if config.n_below else None
        self.decoder = CausalLSTM(_layers(config.n_upper, dim))
        self.out = nn.Linear(2 * dim, dim)
        nn.init.zeros_(self.out.weight)
        nn.init.zeros_(self.out.bias)
        self.copying = nn.Linear(3 * dim, 1) if config.copy_source else None
        self.dropout = Dropout(config.dropout)

    # Encoding -------------------------------------------------------------------------------------

    def encode(
        self, ids: Tensor, lengths: Tensor, vectors: Tensor | None = None
    ) -> tuple[Memory, LSTMState]:
        """ids (B, S), vectors (B, S, E) of the pieces' words -> what the decoder looks at, and the
        first state of its own layers."""
        layers, _ = self.source.causal.run(ids, lengths)
        first = layers[-1]
        x = self.dropout(first)
        if self.vectors is not None:
            assert vectors is not None
            x = x + self.vectors(self.dropout(vectors))
        outputs, _ = self.encoder(x, lengths)
        top = self.dropout(outputs[-1])
        mask = torch.arange(ids.shape[1], device=ids.device) < lengths.unsqueeze(1)  # (B, S)
        memory = self.attention.remember(first, top, mask, ids)
        real = mask.unsqueeze(-1).to(top.dtype)
        mean = (top * real).sum(1) / real.sum(1).clamp(min=1)
        cells = widened(self.begin(mean)).unflatten(-1, (-1, self.config.target.dim))  # (B, L, D)
        c = cells.transpose(0, 1).unsqueeze(1)  # (L, 1, B, D)
        return memory, LSTMState(torch.tanh(c), c)

    # Decoding -------------------------------------------------------------------------------------

    def decode(self, ids: Tensor, lengths: Tensor, memory: Memory, own: LSTMState) -> Decoded:
        """All steps at once: ids (B, T) of what was written before each."""
        layers, base = self.target.causal.run(ids, lengths)
        assert base is not None
        return self._above(layers[-1], lengths, memory, base, own)

    def _above(
        self,
        first: Tensor,
        lengths: Tensor | None,
        memory: Memory,
        base: LSTMState,
        own: LSTMState,
    ) -> Decoded:
        """first (B, T, D) -> what the softmax sees. Without `lengths`, T are hypotheses, each with
        a row of its own in the states."""
        shape, n_below = first.shape, self.config.n_below
        query, ends = self.dropout(first), []
        if self.below is not None:
            layers, end = self.below(_rows(query, lengths), lengths, _part(own, slice(n_below)))
            query = query + self.dropout(layers[-1].reshape(shape))
            ends.append(end)
        seen, weights = self.attention(first if self.below is None else query, memory)
        context = self.context(self.dropout(seen))  # (B, T, D)
        x = _rows(query + context, lengths)
        layers, end = self.decoder(x, lengths, _part(own, slice(n_below, None)))
        ends.append(end)
        top = self.dropout(layers[-1].reshape(shape))
        h = first + self.out(torch.cat([top, context], dim=-1))
        copying = None
        if self.copying is not None:
            copying = widened(self.copying(torch.cat([first, top, context], dim=-1))).squeeze(-1)
        new = LSTMState(torch.cat([e.h for e in ends]), torch.cat([e.c for e in ends]))
        return Decoded(h, weights, copying, base, new)

    def loss(
        self,
        source: tuple[Tensor, Tensor],
        target: tuple[Tensor, Tensor],
        vectors: Tensor | None = None,
    ) -> Seq2SeqLoss:
        """Both as ids and lengths; the target with both marks."""
        memory, state = self.encode(*source, vectors)
        ids, lengths = target
        found = self.decode(ids[:, :-1], lengths - 1, memory, state)
        step = torch.arange(ids.shape[1] - 1, device=ids.device)
        real = step < (lengths - 1).unsqueeze(1)  # (B, T)
        h, gold = self.dropout(found.h[real]), ids[:, 1:][real]
        if found.copying is None:
            total = self.target.softmax_loss(h, gold)
        else:
            same = (memory.ids.unsqueeze(1) == ids[:, 1:].unsqueeze(2)).to(h.dtype)  # (B, T, S)
            pointed = (found.attention * same).sum(-1)[real]  # (N,)
            own = -F.cross_entropy(self._scores(h), gold, reduction="none")
            gate = found.copying[real]
            chances = torch.stack(
                [own + F.logsigmoid(-gate), pointed.clamp(min=1e-30).log() + F.logsigmoid(gate)]
            )
            total = -torch.logsumexp(chances, dim=0).sum()
        return Seq2SeqLoss(total, coverage_loss(found.attention, real), len(gold))

    def _scores(self, h: Tensor) -> Tensor:
        softmax = self.target.softmax
        return widened(F.linear(h, softmax.weight, softmax.bias.squeeze(1)))

    def log_probs(self, found: Decoded, memory: Memory) -> Tensor:
        """Of every piece, (B, T, V)."""
        own = torch.log_softmax(self._scores(found.h), dim=-1)
        if found.copying is None:
            return own
        gate = found.copying.unsqueeze(-1)
        pointed = copied(found.attention, memory.ids, own.shape[-1]).clamp(min=1e-30).log()
        return torch.logaddexp(own + F.logsigmoid(-gate), pointed + F.logsigmoid(gate))

    # Beam search ----------------------------------------------------------------------------------

    def first_state(self, memory: Memory, own: LSTMState, beam: int) -> DecoderState:
        """Before the first step, `beam` equal hypotheses of each sentence."""
        n = len(memory.ids)
        rows = torch.arange(n, device=memory.ids.device).repeat_interleave(beam)
        context = self.target.causal.context
        assert isinstance(context, CausalLSTM)
        return DecoderState(memory, context.zero_state(n * beam), rows_of(own, rows))

    def step(self, ids: Tensor, state: DecoderState) -> Stepped[DecoderState]:
        """ids (B, K)."""
        layers, base = self.target.causal.run(ids.flatten().unsqueeze(1), None, state.base)
        assert base is not None
        first = layers[-1].reshape(*ids.shape, -1)  # (B, K, D)
        found = self._above(first, None, state.memory, base, state.own)
        new = DecoderState(state.memory, found.base, found.own)
        return Stepped(self.log_probs(found, state.memory), found.attention, new)

    def reorder(self, state: DecoderState, beams: Tensor) -> DecoderState:
        n, k = beams.shape
        rows = (torch.arange(n, device=beams.device).unsqueeze(1) * k + beams).flatten()
        return DecoderState(state.memory, rows_of(state.base, rows), rows_of(state.own, rows))

    def keep(self, state: DecoderState, sentences: Tensor) -> DecoderState:
        k = state.base.h.shape[2] // len(state.memory.ids)
        rows = (sentences.unsqueeze(1) * k + torch.arange(k, device=sentences.device)).flatten()
        return DecoderState(
            state.memory.rows(sentences), rows_of(state.base, rows), rows_of(state.own, rows)
        )


def _rows(x: Tensor, lengths: Tensor | None) -> Tensor:
    """(B, K, D) -> (B K, 1, D) where the middle are hypotheses."""
    return x.flatten(0, 1).unsqueeze(1) if lengths is None else x


def _part(state: LSTMState, layers: slice) -> LSTMState:
    return LSTMState(state.h[layers], state.c[layers])


def _layers(n: int, dim: int) -> LSTMConfig:
    return LSTMConfig(dim=dim, cell_dim=dim, n_layers=n, cell_clip=None, proj_clip=None)
