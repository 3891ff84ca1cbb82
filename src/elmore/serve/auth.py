"""Who may ask: a bearer token, compared in a time that says nothing about it."""

import hmac
from hashlib import sha256

from pydantic import SecretStr
from starlette.datastructures import Headers

OPEN_PATHS = frozenset({"/", "/health", "/openapi.json"})
OPEN_FOLDER = "/assets/"  # the page asks for the key, so it comes without


class Lock:
    """Opens to one key; without a key, to everybody."""

    def __init__(self, key: SecretStr | None):
        # Digests are of one length, so not even the key's own can be timed.
        self._digest = None if key is None else _digest(key)

    def opens(self, path: str, headers: Headers) -> bool:
        if self._digest is None or path in OPEN_PATHS or path.startswith(OPEN_FOLDER):
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        digest = sha256(given.strip().encode("latin-1")).digest()  # the bytes that were sent
        return hmac.compare_digest(digest, self._digest) and scheme.lower() == "bearer"


def _digest(key: SecretStr) -> bytes:
    """Of its bytes as the environment has them; spaces around it are removed."""
    return sha256(key.get_secret_value().strip().encode("utf-8", "surrogateescape")).digest()
