"""The limits of a server: for one request, and for the queue."""

from pydantic import SecretStr, model_validator

from elmore.config import Frozen
from elmore.embedder import BATCH_WORDS
from elmore.errors import ConfigError


class ServeConfig(Frozen):
    """Limits, timeouts and the key. The defaults suit one model on a few cores."""

    api_key: SecretStr | None = None
    """Clients must send it as `Authorization: Bearer …`; None: everybody has access."""
    max_bytes: int = 1 << 20
    """Of a request's body."""
    max_sentences: int = 256
    max_words: int = 4096
    """Of all sentences of a request together."""
    batch_words: int = BATCH_WORDS
    """Words of requests that are computed together; a single request may be larger."""
    queue_words: int = 4 * BATCH_WORDS
    """Words that may wait for the model; more are refused."""
    queue_searches: int = 64
    """Searches that may wait for the index."""
    receive_seconds: float = 30.0
    """The most time to receive a body."""
    send_seconds: float = 60.0
    """The most time to send a piece of the answer."""

    @model_validator(mode="after")
    def _fits(self) -> "ServeConfig":
        for name, value in self:
            if isinstance(value, int | float) and value <= 0:
                raise ConfigError(f"{name} is {value}; expected more than 0.")
        if self.api_key is not None and not self.api_key.get_secret_value().strip():
            raise ConfigError("The API key is empty; remove it to give everybody access.")
        return self
