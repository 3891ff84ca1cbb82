"""One file from a server that cuts, redirects, is busy, ignores ranges or changes its mind."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from elmore.errors import ElmoreError, FormatError, InputError
from elmore.published import fetch as module
from elmore.published.fetch import UnreachableError, check_url, fetch
from tests.published.server import Site, serving

CONTENT = bytes(range(256)) * 4000  # a megabyte


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "_PAUSE", 0.001)
    monkeypatch.setattr(module, "_SECONDS", 5)


@pytest.fixture
def site() -> Iterator[Site]:
    with serving(Site(files={"/f": CONTENT})) as site:
        yield site


def no_parts(folder: Path) -> bool:
    return [path.name for path in folder.iterdir()] == ["f"]


def test_a_file_and_its_progress(site: Site, tmp_path: Path):
    seen: list[tuple[str, int, int | None]] = []
    fetch(f"{site.url}/f", tmp_path / "f", lambda *now: seen.append(now))
    assert (tmp_path / "f").read_bytes() == CONTENT
    assert seen[0] == ("f", 0, len(CONTENT))
    assert seen[-1] == ("f", len(CONTENT), len(CONTENT))
    assert no_parts(tmp_path)


def test_a_cut_connection_is_continued_where_it_was_cut(site: Site, tmp_path: Path):
    site.cut_after = [300_000, 200_000]
    fetch(f"{site.url}/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == CONTENT
    first, second, third = (wanted for _, wanted in site.asked)
    assert first is None
    assert (second, third) == ("bytes=300000-", "bytes=500000-")
    assert no_parts(tmp_path)


def test_a_server_that_ignores_ranges_sends_everything_again(site: Site, tmp_path: Path):
    site.cut_after, site.ranges = [300_000], False
    fetch(f"{site.url}/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == CONTENT
    assert site.asked[1][1] == "bytes=300000-"


def test_another_process_continues_what_one_has_begun(site: Site, tmp_path: Path):
    site.cut_after = [100_000] * 20
    with pytest.raises(UnreachableError, match=r"5 times in a row"):
        fetch(f"{site.url}/f", tmp_path / "f")
    assert not (tmp_path / "f").exists()
    site.cut_after.clear()
    site.asked.clear()
    fetch(f"{site.url}/f", tmp_path / "f")
    assert site.asked == [("/f", "bytes=500000-")]
    assert (tmp_path / "f").read_bytes() == CONTENT


@pytest.mark.parametrize("heeds", [True, False], ids=["heeds If-Range", "does not"])
def test_a_file_that_changes_meanwhile_is_not_glued_together(
    site: Site, tmp_path: Path, heeds: bool
):
    other = bytes(reversed(CONTENT))

    def change(_: str) -> None:
        if len(site.asked) == 2:
            site.files["/f"], site.etag = other, '"two"'

    site.cut_after, site.before, site.heeds_if_range = [300_000], change, heeds
    fetch(f"{site.url}/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == other


def test_without_a_version_nothing_is_continued(site: Site, tmp_path: Path):
    site.cut_after, site.etag = [300_000], None
    fetch(f"{site.url}/f", tmp_path / "f")
    assert [wanted for _, wanted in site.asked] == [None, None]
    assert (tmp_path / "f").read_bytes() == CONTENT


def test_a_weak_version_promises_nothing(site: Site, tmp_path: Path):
    site.cut_after, site.etag = [300_000], 'W/"one"'
    fetch(f"{site.url}/f", tmp_path / "f")
    assert [wanted for _, wanted in site.asked] == [None, None]


def test_a_process_killed_before_the_last_rename_has_nothing_left_to_ask(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    with monkeypatch.context() as patch:
        patch.setattr(module._Part, "finish", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            fetch(f"{site.url}/f", tmp_path / "f")
    fetch(f"{site.url}/f", tmp_path / "f")
    assert site.asked[1] == ("/f", f"bytes={len(CONTENT)}-")
    assert (tmp_path / "f").read_bytes() == CONTENT
    assert no_parts(tmp_path)


def test_a_file_that_has_become_shorter_begins_again(site: Site, tmp_path: Path):
    site.cut_after = [100_000] * 5
    with pytest.raises(UnreachableError):
        fetch(f"{site.url}/f", tmp_path / "f")
    site.files["/f"], site.cut_after = b"short", []
    fetch(f"{site.url}/f", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == b"short"


@pytest.mark.parametrize("code", [503, 429, 500])
def test_a_busy_server_is_asked_again(site: Site, tmp_path: Path, code: int):
    site.codes = [code, code]
    fetch(f"{site.url}/f", tmp_path / "f")
    assert len(site.asked) == 3


def test_a_server_that_stays_busy_is_given_up(site: Site, tmp_path: Path):
    site.codes = [503] * 9
    with pytest.raises(UnreachableError, match="the server answers 503, 5 times in a row"):
        fetch(f"{site.url}/f", tmp_path / "f")


def test_what_is_not_there_is_not_asked_for_again(site: Site, tmp_path: Path):
    with pytest.raises(UnreachableError, match="/none: the server answers 404"):
        fetch(f"{site.url}/none", tmp_path / "f")
    assert len(site.asked) == 1


def test_nobody_at_the_address(tmp_path: Path):
    with serving(Site()) as site:
        url = f"{site.url}/f"
    with pytest.raises(UnreachableError, match="cannot be reached"):
        fetch(url, tmp_path / "f")


def test_a_redirect_is_followed(site: Site, tmp_path: Path):
    site.redirects["/old"] = f"{site.url}/f"
    fetch(f"{site.url}/old", tmp_path / "f")
    assert (tmp_path / "f").read_bytes() == CONTENT


@pytest.mark.parametrize("where", ["http://example.org/f", "file:///etc/passwd", "ftp://h/f"])
def test_a_redirect_to_an_unsafe_address_is_not(site: Site, tmp_path: Path, where: str):
    site.redirects["/old"] = where
    with pytest.raises(ElmoreError):
        fetch(f"{site.url}/old", tmp_path / "f")
    assert not (tmp_path / "f").exists()


def test_redirects_in_a_circle_end(site: Site, tmp_path: Path):
    site.redirects["/old"] = f"{site.url}/old"
    with pytest.raises(UnreachableError):
        fetch(f"{site.url}/old", tmp_path / "f")
    assert len(site.asked) < 10


@pytest.mark.parametrize("url", ["http://example.org/f", "file:///f", "https://", "127.0.0.1/f"])
def test_only_https(url: str):
    with pytest.raises(InputError, match="not an https address"):
        check_url(url)
    check_url("https://example.org/f")


def test_a_file_larger_than_allowed_is_refused_before_it_comes(site: Site, tmp_path: Path):
    with pytest.raises(FormatError, match="1,024,000 bytes; expected at most 1,000"):
        fetch(f"{site.url}/f", tmp_path / "f", most=1000)
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_sends_without_end_is_stopped(site: Site, tmp_path: Path):
    class Endless:
        status, headers = 200, __import__("email.message").message.Message()
        read = staticmethod(lambda n: b"x" * n)
        __enter__ = lambda self: self  # noqa: E731
        __exit__ = lambda self, *_: None  # noqa: E731

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_opened", lambda *_: Endless())
        with pytest.raises(FormatError, match="sends over 2,000,000 bytes"):
            fetch(f"{site.url}/f", tmp_path / "f", most=2_000_000)
    assert list(tmp_path.iterdir()) == []
