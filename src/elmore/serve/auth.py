"""Who may ask: with a key, whoever sends it (compared in constant time); without one, no website
that a visitor of this machine has open.
"""

import hmac
import re
from hashlib import sha256
from ipaddress import IPv6Address, ip_address

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.types import Scope

from elmore.serve.config import ServeConfig
from elmore.serve.problems import RefusedError

OPEN_PATHS = frozenset({"/", "/health", "/openapi.json"})
OPEN_FOLDER = "/assets/"  # needs no key, because the page asks for it
_LOCAL_NAMES = frozenset({"localhost", "127.0.0.1", "::1"})
_HOST = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^\s:@/\[\]]+?)\.?)(?::\d*)?", re.IGNORECASE)
_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


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


def check_site(config: ServeConfig, scope: Scope, headers: Headers) -> None:
    """Refuse what another website makes a visitor's browser send to a server without a key.

    A website can point its own host name to 127.0.0.1 (DNS rebinding); the browser then sends that
    name in `Host`. Or it posts to this server from its own page; the browser then says so in
    `Origin`.
    """
    if config.api_key is not None:
        return
    host, origin = headers.get("host", ""), headers.get("origin")
    allowed = frozenset(name.lower() for name in config.allow_hosts)
    address = _address(scope)
    if allowed or _is_loopback(address):
        name = _host_name(host)
        if name not in _LOCAL_NAMES | allowed | {address}:
            message = f"This server has no key and does not answer to the host name {name[:80]!r}"
            raise RefusedError(403, f"{message}; allow it with --allow-host.")
    if origin is not None and scope["method"] not in _SAFE_METHODS:
        site = origin.partition("://")[2]
        if site.lower() != host.lower() and _host_name(site) not in allowed:
            message = f"This server has no key and does not answer to pages of {origin[:80]!r}"
            raise RefusedError(403, f"{message}; allow it with --allow-host.")


def _host_name(host: str) -> str:
    """Of `Host`: without port, brackets and the dot at the end; empty if it is malformed."""
    found = _HOST.fullmatch(host)
    return "" if found is None else (found[1] or found[2]).lower()


def _address(scope: Scope) -> str:
    """The address of this machine that the client is connected to."""
    server = scope.get("server")
    return server[0] if server else ""


def _is_loopback(address: str) -> bool:
    try:
        found = ip_address(address)
    except ValueError:  # a socket file, or a test without a network
        return False
    if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
        found = found.ipv4_mapped
    return found.is_loopback
