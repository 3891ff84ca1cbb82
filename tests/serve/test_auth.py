"""The key: what opens, what does not, and that it is nowhere to be read. Without a key: which hosts
and pages are answered."""

import contextlib
import http.client
import json
from collections.abc import Iterator

import pytest
from pydantic import SecretStr
from starlette.datastructures import Headers

from elmore.embedder import Embedder
from elmore.errors import ConfigError
from elmore.serve.app import create_app
from elmore.serve.auth import Lock, check_site
from elmore.serve.config import ServeConfig
from elmore.serve.problems import RefusedError
from tests.serve.running import running

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


# Websites in a visitor's browser ----------------------------------------------------------------


@pytest.fixture(scope="module")
def port(tiny_embedder: Embedder) -> Iterator[int]:
    """Of a server on loopback without a key, started with --allow-host Elmore.Example."""
    config = ServeConfig(allow_hosts=("Elmore.Example",))
    with running(create_app(tiny_embedder, config=config)) as address:
        yield int(address.rpartition(":")[2])


def ask(port: int, method: str, path: str, **headers: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    with contextlib.closing(connection):
        body = b'{"text": "a b"}' if method == "POST" else None
        connection.request(method, path, body, {"Content-Type": "application/json", **headers})
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


@pytest.mark.parametrize(
    "host", ["localhost", "LocalHost:{}", "localhost.", "127.0.0.1:{}", "[::1]:{}", "[::1]",
             "elmore.example", "ELMORE.example:80"],
)  # fmt: skip
def test_a_server_without_a_key_answers_to_its_names(port: int, host: str):
    for path in ("/health", "/info", "/", "/assets/app.js"):
        assert ask(port, "GET", path, Host=host.format(port))[0] == 200
    assert ask(port, "POST", "/words", Host=host.format(port))[0] == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:{}", "localhost.evil.example", "127.0.0.1.evil.example",
             "evil.example@localhost", "[::2]:{}", "10.0.0.1", "", "localhost:80:{}", "x y"],
)  # fmt: skip
def test_a_server_without_a_key_refuses_foreign_hosts(port: int, host: str):
    for method, path in (("GET", "/info"), ("POST", "/words"), ("GET", "/"), ("GET", "/health")):
        status, text = ask(port, method, path, Host=host.format(port))
        assert status == 403, text
        error = json.loads(text)["error"]
        assert error["type"] == "wrong_site"
        assert "--allow-host" in error["message"]


@pytest.mark.parametrize(
    ("origin", "status"),
    [("http://localhost:{}", 200), ("https://elmore.example", 200), ("http://evil.example", 403),
     ("http://localhost:1", 403), ("null", 403), ("http://evil.example:{}", 403), ("", 403)],
)  # fmt: skip
def test_a_page_of_another_site_cannot_post(port: int, origin: str, status: int):
    headers = {"Host": f"localhost:{port}", "Origin": origin.format(port)}
    assert ask(port, "POST", "/words", **headers)[0] == status
    assert ask(port, "GET", "/info", **headers)[0] == 200  # its answer cannot be read


def test_with_a_key_any_host_is_answered(tiny_embedder: Embedder):
    config = ServeConfig(api_key=SecretStr("sesame"))
    with running(create_app(tiny_embedder, config=config)) as address:
        headers = {"Host": "elmore.example", "Origin": "http://other.example"}
        port = int(address.rpartition(":")[2])
        assert ask(port, "POST", "/words", Authorization="Bearer sesame", **headers)[0] == 200


@pytest.mark.parametrize(
    ("address", "refused"),
    [("127.0.0.1", True), ("127.3.2.1", True), ("::1", True), ("::ffff:127.0.0.1", True),
     ("192.0.2.1", False), ("2001:db8::1", False), ("testserver", False)],
)  # fmt: skip
def test_only_loopback_refuses_foreign_hosts_by_itself(address: str, refused: bool):
    scope = {"type": "http", "method": "GET", "server": (address, 8000)}
    for config, expected in ((ServeConfig(), refused), (ServeConfig(allow_hosts=("a",)), True)):
        with pytest.raises(RefusedError) if expected else contextlib.nullcontext():
            check_site(config, scope, Headers({"host": "evil.example"}))
        check_site(config, scope, Headers({"host": f"[{address}]" if ":" in address else address}))


@pytest.mark.parametrize("name", ["http://a", "a:80", "", "a b", "a/b", "[::1]"])
def test_what_is_not_a_host_name_is_refused(name: str):
    with pytest.raises(ConfigError, match="not a host name"):
        ServeConfig(allow_hosts=(name,))
