"""The key: what opens, what does not, and that it is nowhere to be read."""

import pytest
from pydantic import SecretStr
from starlette.datastructures import Headers

from elmore.errors import ConfigError
from elmore.serve.auth import Lock
from elmore.serve.config import ServeConfig

KEY = "sésame-42"


def opens(header: bytes | None, path: str = "/embed") -> bool:
    raw = [] if header is None else [(b"authorization", header)]
    return Lock(SecretStr(KEY)).opens(path, Headers(raw=raw))


@pytest.mark.parametrize("header", [f"Bearer {KEY}", f"bearer {KEY}", f"Bearer  {KEY} "])
def test_the_key_opens(header: str):
    assert opens(header.encode())


@pytest.mark.parametrize(
    "header",
    [None, b"", b"Bearer", b"Bearer ", b"Bearer s", f"Bearer {KEY}x".encode(), KEY.encode(),
     f"Basic {KEY}".encode(), f"Bearer {KEY[:-1]}".encode(), b"Bearer \xff\xfe",
     f"Bearer {KEY}".encode("latin-1")],
)  # fmt: skip
def test_nothing_else_opens(header: bytes | None):
    assert not opens(header)


@pytest.mark.parametrize(
    ("path", "open_to_all"),
    [("/", True), ("/health", True), ("/assets/app.js", True), ("/openapi.json", True),
     ("/info", False), ("/metrics", False), ("/senses/health", False), ("/assets", False)],
)  # fmt: skip
def test_the_page_and_the_health_need_no_key(path: str, open_to_all: bool):
    assert opens(None, path) is open_to_all


def test_without_a_key_everybody_may():
    assert Lock(None).opens("/embed", Headers())


def test_a_config_does_not_show_its_key():
    config = ServeConfig(api_key=SecretStr(KEY))
    assert KEY not in repr(config)
    assert KEY not in config.model_dump_json()


def test_an_empty_key_is_refused():
    with pytest.raises(ConfigError, match="empty"):
        ServeConfig(api_key=SecretStr(" "))


def test_a_limit_of_nothing_is_refused():
    with pytest.raises(ConfigError, match=r"queue_words is 0; expected more than 0\."):
        ServeConfig(queue_words=0)


def test_spaces_around_a_key_are_not_part_of_it():
    headers = Headers({"authorization": "Bearer abc"})
    assert Lock(SecretStr("abc \n")).opens("/embed", headers)


def test_a_key_of_any_bytes_opens():
    key = b"\xff\xfe".decode("utf-8", "surrogateescape")
    headers = Headers(raw=[(b"authorization", b"Bearer \xff\xfe")])
    assert Lock(SecretStr(key)).opens("/embed", headers)
