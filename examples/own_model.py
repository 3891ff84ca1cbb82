"""ELMo vectors inside a model of your own: a tagger that marks places and people, written with
PyTorch alone. What is new is `Elmo` and `mixed`; the rest is a tagger as you may have one.

    python examples/own_model.py MODEL      # a folder, weights.hdf5, … as `Embedder.load` takes
"""

import sys

import torch
from torch import nn

from elmore import Elmo, ScalarMix

TRAIN = [
    ("anna rowed to the harbor", "who - - - where"),
    ("the keeper lives in the lighthouse", "- who - - - where"),
    ("fishermen sleep on the shore", "who - - - where"),
    ("the harbor saw anna", "- where - who"),
]
TAGS = ["-", "who", "where"]


class Tagger(nn.Module):
    """Learnt mix of all the biLM's layers -> biLSTM -> a tag for every word."""

    def __init__(self, model: str, n_tags: int, hidden: int = 32):
        super().__init__()
        self.elmo = Elmo.load(model, dropout=0.2)
        self.rnn = nn.LSTM(self.elmo.dim, hidden, bidirectional=True, batch_first=True)
        self.output = nn.Linear(2 * hidden, n_tags)

    def forward(self, sentences: list[list[str]]) -> tuple[torch.Tensor, torch.Tensor]:
        mixed = self.elmo(sentences)  # (B, T, D) vectors, (B, T) mask
        states, _ = self.rnn(mixed.vectors[0])
        return self.output(states), mixed.mask


def main(model: str) -> None:
    torch.manual_seed(1)
    sentences = [text.split() for text, _ in TRAIN]
    gold = torch.tensor([TAGS.index(tag) for _, tags in TRAIN for tag in tags.split()])
    tagger = Tagger(model, len(TAGS))
    optimizer = torch.optim.Adam([p for p in tagger.parameters() if p.requires_grad], lr=0.02)
    for _ in range(40):
        scores, mask = tagger(sentences)
        loss = nn.functional.cross_entropy(scores[mask], gold) + tagger.elmo.penalty()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        scores, mask = tagger.eval()(sentences)
    right = (scores[mask].argmax(dim=-1) == gold).sum().item()
    mix = tagger.elmo.mixes[0]
    assert isinstance(mix, ScalarMix)
    print(f"{right} of {len(gold)} training words right")
    print("s =", " ".join(f"{s:.2f}" for s in mix.weights.tolist()), f"γ = {mix.gamma.item():.2f}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "small-en")
