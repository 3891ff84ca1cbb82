"""Sequence to sequence against the same model of `torch.nn.LSTM`, and against JoeyNMT if it is
installed: training steps, and greedy and beam-5 decoding, by turns in one process. CPU seconds are
counted: other programs matter less. Every output has `--length` pieces.

    python benchmarks/seq2seq.py [--dim 256] [--pieces 8000] [--rows 64] [--length 20] [--steps 5]
"""

import argparse
import importlib.util
import json
import time
from collections.abc import Callable
from statistics import median
from types import SimpleNamespace
from typing import Any

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
    n = source[0].shape[1]
    config = SearchConfig(beam=beam, min_length=n, max_length=n, max_ratio=None)
    sizes = source[1].tolist()
    beam_search(model, model.first_state(memory, upper, beam), sizes, config, begin=0, end=1)


class Joey:
    """JoeyNMT's recurrent model: two layers on each side, the encoder's in both directions,
    attention of Luong with input feeding, the softmax tied to the target's pieces."""

    def __init__(self, n_pieces: int, dim: int):
        from joeynmt.model import build_model
        from joeynmt.vocabulary import Vocabulary

        names = {f"{name}_token": f"<{name}>" for name in ("unk", "pad", "bos", "eos")}
        ids = {f"{name}_id": i for i, name in enumerate(("unk", "pad", "bos", "eos"))}
        special = SimpleNamespace(**names, **ids, sep_token=None, sep_id=None, lang_tags=[])
        pieces = Vocabulary([f"p{i}" for i in range(n_pieces - 4)], special)
        side = {"type": "recurrent", "rnn_type": "lstm", "hidden_size": dim, "num_layers": 2}
        table = {"embeddings": {"embedding_dim": dim}}
        config = {
            "encoder": {**side, **table, "bidirectional": True},
            "decoder": {**side, **table, "attention": "luong", "init_hidden": "last"},
            "tied_softmax": True,
        }
        self.model = build_model(config, pieces, pieces)
        self.model.loss_function = ("crossentropy", 0.0)

    def loss(self, source: Tensor, target: Tensor) -> Tensor:
        n_rows, length = source.shape
        every = torch.ones(n_rows, 1, length, dtype=torch.bool)
        found: Tensor = self.model(
            return_type="loss", src=source, trg_input=target[:, :-1], trg=target[:, 1:],
            src_mask=every, src_length=torch.full((n_rows,), length), trg_mask=every[..., 1:],
        )[0]  # fmt: skip
        return found

    @torch.no_grad()
    def decode(self, source: Tensor, beam: int) -> None:
        from joeynmt.search import beam_search as search_beam
        from joeynmt.search import greedy

        n_rows, n = source.shape
        mask = torch.ones(n_rows, 1, n, dtype=torch.bool)
        output, hidden, _, _ = self.model(
            return_type="encode", src=source, src_length=torch.full((n_rows,), n), src_mask=mask
        )
        given = {"src_mask": mask, "encoder_output": output, "encoder_hidden": hidden}
        given |= {"model": self.model, "max_output_length": n, "min_output_length": n}
        if beam == 1:
            greedy(**given)
        else:
            search_beam(**given, beam_size=beam, alpha=1.0)


def by_turns(works: dict[str, Callable[[], object]], n: int) -> dict[str, float]:
    """The median time of each; the first round warms up."""
    times: dict[str, list[float]] = {name: [] for name in works}
    for step in range(n + 1):
        for name, work in works.items():
            spent = seconds(work)
            if step:
                times[name].append(spent)
    return {name: median(found) for name, found in times.items()}


def n_parameters(model: nn.Module) -> int:
    return sum({id(p): p.numel() for p in model.parameters()}.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    sizes = {"dim": 256, "pieces": 8000, "rows": 64, "length": 20, "steps": 5, "threads": 1}
    for name, default in sizes.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(args.threads)
    source, target = (torch.randint(4, args.pieces, (args.rows, args.length)) for _ in range(2))
    lengths = torch.full((args.rows,), args.length)
    model, plain = ours(args.pieces, args.dim), Plain(args.pieces, args.dim)
    joey: Any = None
    if importlib.util.find_spec("joeynmt"):
        joey = Joey(args.pieces, args.dim)

    def our_loss() -> Tensor:
        return model.loss((source, lengths), (target, lengths)).pieces

    training: dict[str, Callable[[], object]] = {
        "elmore": lambda: train_step(model, our_loss),
        "torch.nn.LSTM": lambda: train_step(plain, lambda: plain.loss(source, target)),
    }
    if joey:
        training["JoeyNMT"] = lambda: train_step(joey.model, lambda: joey.loss(source, target))
    pieces = args.rows * (args.length - 1)
    found = {
        "parameters": {
            "elmore": n_parameters(model),
            "torch.nn.LSTM": n_parameters(plain),
            **({"JoeyNMT": n_parameters(joey.model)} if joey else {}),
        },
        "train, pieces/s": per_second(pieces, by_turns(training, args.steps)),
    }
    model.eval()
    if joey:
        joey.model.eval()
    for name, beam in (("greedy", 1), ("beam 5", 5)):
        works: dict[str, Callable[[], object]] = {
            "elmore": lambda beam=beam: decode(model, (source, lengths), beam)  # type: ignore[misc]
        }
        if joey:
            works["JoeyNMT"] = lambda beam=beam: joey.decode(source, beam)  # type: ignore[misc]
        found[f"{name}, sentences/s"] = per_second(args.rows, by_turns(works, args.steps))
    print(json.dumps(found, indent=1))


def per_second(n: int, times: dict[str, float]) -> dict[str, float]:
    return {name: round(n / spent, 1) for name, spent in times.items()}


if __name__ == "__main__":
    main()
