"""A sequence autoencoder: a causal LSTM reads a text, and the same LSTM, from the state in which it
ended, writes the text again. What it has learned is a causal model like any other.
"""

from torch import Tensor

from elmore.models.causal import CausalLM


class Autoencoder(CausalLM):
    """The loss is that of writing; reading has no softmax."""

    def top(self, ids: Tensor, lengths: Tensor) -> Tensor:
        """Both times the mark of the begin and the pieces are read, (B, T - 1)."""
        seen = ids[:, :-1], lengths - 1
        _, read = self.causal.run(*seen)
        return self.causal.run(*seen, state=read)[0][-1]
