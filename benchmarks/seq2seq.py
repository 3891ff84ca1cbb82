"""Sequence to sequence against the same model of `torch.nn.LSTM`: training steps by turns in one
process, and greedy and beam-5 decoding. CPU seconds are counted: other programs matter less.

    python benchmarks/seq2seq.py [--dim 256] [--pieces 5000] [--rows 64] [--length 20] [--steps 5]
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from elmore.models.causal import CausalConfig
from elmore.models.seq2seq import Seq2Seq, Seq2SeqConfig
from elmore.nn.beam_search import SearchConfig, beam_search
from elmore.nn.lstm import LSTMConfig


class Plain(nn.Module):
    """The same layers of the same sizes, of torch's own parts."""

    def __init__(self, n_pieces: int, dim: int):
        super().__init__()
        self.source, self.target = (nn.Embedding(n_pieces, dim) for _ in range(2))
        self.first, self.decoder, self.upper = (nn.LSTM(dim, dim, batch_first=True) for _ in "123")
        self.top = nn.LSTM(dim, dim, batch_first=True, bidirectional=True)
        self.key = nn.Linear(2 * dim, dim, bias=False)
        self.context = nn.Linear(3 * dim, dim)
        self.out = nn.Linear(2 * dim, dim)
        self.bias = nn.Parameter(torch.zeros(n_pieces))

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        first = self.first(self.source(source))[0]
        top = self.top(first)[0]
        h = self.decoder(self.target(target[:, :-1]))[0]
        weights = torch.softmax(h @ self.key(top).mT / h.shape[-1] ** 0.5, -1)
        context = self.context(weights @ torch.cat([first, top], -1))
        above = self.upper(h + context)[0]
        h = h + self.out(torch.cat([above, context], -1))
        logits = functional.linear(h, self.target.weight, self.bias)
        return functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten())


def ours(n_pieces: int, dim: int) -> Seq2Seq:
    context = LSTMConfig(dim=dim, cell_dim=dim, n_layers=1, cell_clip=None, proj_clip=None)
    lm = CausalConfig(n_pieces=n_pieces, context=context)
    return Seq2Seq(Seq2SeqConfig(source=lm, target=lm, dropout=0.0))


def seconds(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def train_step(model: nn.Module, loss: Callable[[], Tensor]) -> None:
    model.zero_grad()
    loss().backward()


@torch.no_grad()
def decode(model: Seq2Seq, source: tuple[Tensor, Tensor], beam: int) -> None:
    memory, upper = model.encode(*source)
    config = SearchConfig(beam=beam, max_length=source[0].shape[1], max_ratio=None)
    sizes = source[1].tolist()
    beam_search(model, model.first_state(memory, upper, beam), sizes, config, begin=0, end=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (
        ("dim", 256),
        ("pieces", 5000),
        ("rows", 64),
        ("length", 20),
        ("steps", 5),
    ):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    torch.manual_seed(0)
    source, target = (torch.randint(2, args.pieces, (args.rows, args.length)) for _ in range(2))
    lengths = torch.full((args.rows,), args.length)
    model, plain = ours(args.pieces, args.dim), Plain(args.pieces, args.dim)
    works = {
        "elmore": lambda: train_step(
            model, lambda: model.loss((source, lengths), (target, lengths)).pieces
        ),
        "torch.nn.LSTM": lambda: train_step(plain, lambda: plain.loss(source, target)),
    }
    times: dict[str, list[float]] = {name: [] for name in works}
    for step in range(args.steps + 1):
        for name, work in works.items():
            spent = seconds(work)
            if step:  # the first one warms up
                times[name].append(spent)
    pieces = args.rows * (args.length - 1)
    found = {f"train, pieces/s, {name}": round(pieces / min(t)) for name, t in times.items()}
    model.eval()
    for name, beam in (("greedy", 1), ("beam 5", 5)):
        again = partial(decode, model, (source, lengths), beam)
        spent = min(seconds(again) for _ in range(2))
        found[f"{name}, sentences/s"] = round(args.rows / spent, 1)
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
