"""The limits of a server: for one request, for the queue, for memory and for connections."""

import re

from pydantic import SecretStr, model_validator

from elmore.config import Frozen
from elmore.errors import ConfigError
from elmore.text.batching import BATCH_WORDS

_HOST_NAME = re.compile(r"[^\s:/@\[\]]+|[0-9a-f]*:[0-9a-f.]*:[0-9a-f:.]*", re.IGNORECASE)


class ServeConfig(Frozen):
    """Limits, timeouts and the key. The defaults suit one model on a few cores."""

    api_key: SecretStr | None = None
    """Clients must send it as `Authorization: Bearer …`; None: everybody has access."""
    allow_hosts: tuple[str, ...] = ()
    """Other host names that a server without a key answers to."""
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
    held_bytes: int = 64 << 20
    """Of bodies that arrive and answers that wait for their clients, in all requests together."""
    max_connections: int = 512
    client_connections: int = 256
    """Connections from one address."""
    idle_seconds: float = 15.0
    """The most time without a request on an open connection."""
    head_seconds: float = 10.0
    """The most time to receive the head of a request."""
    receive_seconds: float = 30.0
    """The most time to receive a body."""
    send_seconds: float = 60.0
    """The most time to send a piece of the answer."""
    stall_seconds: float = 5.0
    """A client that has not read for this long is cut off if others need the room."""
    request_seconds: float = 600.0
    """The most time for a request and its answer."""

    @model_validator(mode="after")
    def _fits(self) -> "ServeConfig":
        for name, value in self:
            if isinstance(value, int | float) and value <= 0:
                raise ConfigError(f"{name} is {value}; expected more than 0.")
        if self.api_key is not None and not self.api_key.get_secret_value().strip():
            raise ConfigError("The API key is empty; remove it to give everybody access.")
        for name in self.allow_hosts:
            if _HOST_NAME.fullmatch(name) is None:
                raise ConfigError(f"{name!r} is not a host name; expected one without a port.")
        return self
