"""context2vec by its equations, in float64: one sentence, one place, one number at a time."""

from typing import Any

import numpy as np


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def last_state(inputs: Any, weights: dict[str, Any], side: str) -> Any:
    """An LSTM over (n, E); its gates stand as input, forget, candidate, output."""
    names = ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0")
    w, u, a, b = (weights[f"{side}.{name}"] for name in names)
    h = c = np.zeros(u.shape[1])
    for x in inputs:
        i, f, g, o = np.split(w @ x + a + u @ h + b, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
    return h


def context(ids: list[int], place: int, weights: dict[str, Any]) -> Any:
    """Of the word at `place` in a sentence with both marks."""
    left = last_state(weights["left_words"][ids[:place]], weights, "left")
    right = last_state(weights["right_words"][ids[:place:-1]], weights, "right")
    hidden = weights["hidden.weight"] @ np.concatenate([left, right]) + weights["hidden.bias"]
    return weights["output.weight"] @ np.maximum(hidden, 0) + weights["output.bias"]


def loss(ids: list[int], place: int, drawn: list[int], weights: dict[str, Any]) -> float:
    """-log σ of the word at `place`, and -log σ(-) of the words drawn that are not that word."""
    c, t = context(ids, place, weights), weights["vectors"]
    found = -np.log(sigmoid(c @ t[ids[place]]))
    return float(found - sum(np.log(sigmoid(-c @ t[w])) for w in drawn if w != ids[place]))
