"""Access by a bearer token, compared in constant time."""

import hmac
from hashlib import sha256

from pydantic import SecretStr
from starlette.datastructures import Headers

OPEN_PATHS = frozenset({"/", "/health", "/openapi.json"})
OPEN_FOLDER = "/assets/"  # needs no key, because the page asks for it


class Lock:
    """Accepts one key; without a key, everybody has access."""

    def __init__(self, key: SecretStr | None):
        # All digests have the same length, so timing does not even reveal the key's length.
        self._digest = None if key is None else _digest(key)

    def opens(self, path: str, headers: Headers) -> bool:
        if self._digest is None or path in OPEN_PATHS or path.startswith(OPEN_FOLDER):
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        digest = sha256(given.strip().encode("latin-1")).digest()  # the bytes that were sent
        return hmac.compare_digest(digest, self._digest) and scheme.lower() == "bearer"


def _digest(key: SecretStr) -> bytes:
    """Of the bytes as they are in the environment, without surrounding spaces."""
    return sha256(key.get_secret_value().strip().encode("utf-8", "surrogateescape")).digest()
