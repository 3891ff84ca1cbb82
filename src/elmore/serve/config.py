"""How a server is limited: what one client may ask for, and how much may wait."""

from pydantic import SecretStr, model_validator

from elmore.config import Frozen
from elmore.embedder import BATCH_WORDS
from elmore.errors import ConfigError


class ServeConfig(Frozen):
    """Limits, times and the key. Defaults suit one model on a few cores."""

    api_key: SecretStr | None = None
    """What clients must send as `Authorization: Bearer …`; none: everybody may."""
    max_bytes: int = 1 << 20
    """Of a request's body."""
    max_sentences: int = 256
    max_words: int = 4096
    """Of all sentences of a request together."""
    batch_words: int = BATCH_WORDS
    """Words of requests that are computed together; one request is taken whatever its size."""
    queue_words: int = 4 * BATCH_WORDS
    """Words that may wait for the model; what comes on top of them is turned away."""
    queue_searches: int = 64
    """Searches that may wait for the index."""
    receive_seconds: float = 30.0
    """A body must be here by then."""
    send_seconds: float = 60.0
    """A client must take the next piece of its answer by then."""

    @model_validator(mode="after")
    def _fits(self) -> "ServeConfig":
        for name, value in self:
            if isinstance(value, int | float) and value <= 0:
                raise ConfigError(f"{name} is {value}; expected more than 0.")
        if self.api_key is not None and not self.api_key.get_secret_value().strip():
            raise ConfigError("The API key is empty; leave it out to let everybody in.")
        return self
