"""Questions whose answer is a span of a paragraph: an RNN reads both, attention flows between them
as in BiDAF, and two more RNNs find the answer's first and last word. A paragraph is read once for
all its questions in a batch. Answers are cut from the original text.
"""

# B questions, N distinct paragraphs among them, T words of a paragraph, J words of a question,
# H hidden units of one direction, K right spans of a question
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils.rnn import pad_sequence

from elmore.config import Frozen
from elmore.nn.attention import AttentionFlow
from elmore.nn.rnn import BiRNN
from elmore.tasks.encoded import Batches, Dims, Encoded, Places, nth_inputs
from elmore.tasks.readers.squad import Paragraph, Question, read_squad, with_spans
from elmore.tasks.scorers.squad_answers import squad_score
from elmore.tasks.task import Corpus, Head, Labels, Score, Words

N_SIGNS = 2
"""Whether a word of the paragraph occurs in the question: exactly, and ignoring case."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A piece of the paragraph from character `start`, and its probability."""

    text: str
    start: int
    probability: float


class QuestionAnswering(Frozen):
    """A paragraph, a question and one or several right answers."""

    share_inputs: ClassVar = False

    kind: Literal["question_answering"] = "question_answering"
    hidden: int = Field(default=64, ge=1, le=65_536)
    """Of each direction of the RNNs."""
    dropout: float = Field(default=0.3, ge=0.0, lt=1.0)
    max_words: int = Field(default=800, ge=1, le=1_000_000)
    """Of a paragraph; later words are not read, and the paragraphs this affects are counted."""
    max_answer_words: int = Field(default=20, ge=1, le=10_000)

    def read(self, path: Path, *, training: bool = False) -> Corpus[Question]:
        corpus = read_squad(path, max_words=self.max_words)
        return with_spans(corpus) if training else corpus

    def read_plain(self, path: Path) -> Corpus[Question]:
        return read_squad(path, max_words=self.max_words, answered=False)

    def inputs(self, example: Question) -> Sequence[Words]:
        return example.paragraph.words, example.words

    def start(self, examples: Sequence[Question]) -> Labels:
        return Labels()

    def head(self, state: Labels, dims: Dims) -> "SpanFinder":
        return SpanFinder(self, dims)

    def score(self, examples: Sequence[Question], predictions: Sequence[Answer]) -> Score:
        return squad_score([q.answers for q in examples], [answer.text for answer in predictions])

    def shown(self, example: Question, prediction: Answer) -> dict[str, Any]:
        return {
            "id": example.id,
            "question": " ".join(example.words),
            "answer": prediction.text,
            "start": prediction.start,
            "probability": round(prediction.probability, 4),
        }


class SpanFinder(Head[Question, Answer]):
    """Scores every word of a paragraph as the first and as the last of the answer."""

    def __init__(self, config: QuestionAnswering, dims: Dims):
        super().__init__()
        self.max_answer_words = config.max_answer_words
        hidden, dropout = config.hidden, config.dropout
        self.read = BiRNN(dims.vectors, hidden, dropout)
        width = self.read.dim + dims.late
        self.flow = AttentionFlow(width)
        self.merge = nn.Sequential(
            nn.Linear(AttentionFlow.out_dim(width) + N_SIGNS, 2 * hidden), nn.ReLU()
        )
        self.first = BiRNN(2 * hidden, hidden, dropout)
        self.last = BiRNN(4 * hidden, hidden, dropout)
        self.to_first, self.to_last = (nn.Linear(4 * hidden, 1) for _ in range(2))

    def loss(self, encoded: Batches, places: Places, examples: Sequence[Question]) -> Tensor:
        """−log of the chance of all right spans together: annotators may differ."""
        first, last = self(*(nth_inputs(encoded, places, n) for n in range(2)), examples)
        spans = [torch.tensor(question.spans, device=first.device) for question in examples]
        starts, ends = pad_sequence(spans, batch_first=True, padding_value=-1).unbind(-1)  # (B, K)
        joint: Tensor = first.gather(1, starts.clamp(min=0)) + last.gather(1, ends.clamp(min=0))
        right = joint.masked_fill(starts < 0, -torch.inf).logsumexp(dim=1)  # (B,)
        return -right.mean()

    def predict(
        self, encoded: Batches, places: Places, examples: Sequence[Question]
    ) -> list[Answer]:
        first, last = self(*(nth_inputs(encoded, places, n) for n in range(2)), examples)
        ends, chances = best_spans(first, last, self.max_answer_words)
        found = zip(examples, ends.tolist(), chances.tolist(), strict=True)
        return [Answer(q.paragraph.cut((i, j)), q.paragraph.starts[i], p) for q, (i, j), p in found]

    def forward(
        self, paragraphs: Encoded, asked: Encoded, examples: Sequence[Question]
    ) -> tuple[Tensor, Tensor]:
        """Log-chances (B, T) of each word to be the answer's first, and its last."""
        mask = paragraphs.mask
        text = self._read_once(paragraphs, [question.paragraph for question in examples])
        flow = self.flow(text, mask, self._read(asked), asked.mask)  # (B, T, 4 (2H + late))
        signs = _signs(examples, mask)
        merged = self.merge(torch.cat([flow, signs], dim=-1))  # (B, T, 2H)
        first = self.first(merged, mask)  # (B, T, 2H)
        last = self.last(torch.cat([merged, first], dim=-1), mask)  # (B, T, 2H)
        starts = self.to_first(torch.cat([merged, first], dim=-1)).squeeze(-1)
        ends = self.to_last(torch.cat([merged, last], dim=-1)).squeeze(-1)
        return _log_chances(starts, mask), _log_chances(ends, mask)

    def _read(self, sentences: Encoded) -> Tensor:
        return sentences.with_late(self.read(sentences.vectors, sentences.mask))

    def _read_once(self, encoded: Encoded, paragraphs: Sequence[Paragraph]) -> Tensor:
        """Read each distinct paragraph, and hand it to all its questions: (B, T, 2H + late)."""
        row_of: dict[Paragraph, int] = {}
        place = [row_of.setdefault(paragraph, len(row_of)) for paragraph in paragraphs]
        rows = [place.index(n) for n in range(len(row_of))]
        read = self._read(encoded.rows(rows))  # (N, T, …)
        return read[place]


def _signs(examples: Sequence[Question], mask: Tensor) -> Tensor:
    signs = torch.zeros(*mask.shape, N_SIGNS)  # (B, T, 2)
    for row, question in enumerate(examples):
        asked, lowered = set(question.words), {word.lower() for word in question.words}
        words = question.paragraph.words
        shared = [(word in asked, word.lower() in lowered) for word in words]
        signs[row, : len(words)] = torch.tensor(shared, dtype=signs.dtype)
    return signs.to(mask.device)


def _log_chances(scores: Tensor, mask: Tensor) -> Tensor:
    return scores.masked_fill(~mask, torch.finfo(scores.dtype).min).log_softmax(dim=-1)


def best_spans(first: Tensor, last: Tensor, max_words: int) -> tuple[Tensor, Tensor]:
    """The likeliest span of at most `max_words` of each row: its ends (B, 2), its chance (B,)."""
    n = min(max_words, first.shape[1])
    follow = functional.pad(last, (0, n - 1), value=-torch.inf).unfold(1, n, 1)  # (B, T, n)
    best, place = (first.unsqueeze(2) + follow).flatten(1).max(dim=1)  # (B,)
    starts, lengths = place // n, place % n
    return torch.stack([starts, starts + lengths], dim=1), best.exp()
