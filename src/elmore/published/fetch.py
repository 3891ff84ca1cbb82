"""One file over HTTP from a server that nobody vouches for. What has arrived is kept beside the
target and continued by range requests, in this process or the next; the target appears only when
it is complete.

.FILE.part        the bytes so far
.FILE.part.json   of which address and which version of the file they are
"""

import http.client
import json
import math
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress
from email.message import Message
from ipaddress import ip_address
from pathlib import Path
from typing import IO, Any
from urllib.parse import urlsplit

from elmore.errors import ElmoreError, FormatError, InputError
from elmore.files.atomic import sync, write_text, writing
from elmore.small_files import read_small

Progress = Callable[[str, int, int | None], None]
"""Is given a file's name, its bytes so far, and its size if the server says it."""

MAX_BYTES = 1 << 34  # the largest published file is under 1 GB
_PIECE = 1 << 18
_SECONDS = 30  # without a byte
_TRIES, _PAUSE = 5, 0.5  # in a row without a megabyte; the pause doubles
_LONGEST_PAUSE = 30.0
_ENOUGH = 1 << 20
_BUSY = (408, 425, 429, 500, 502, 503, 504)
_LOCAL_NAMES = ("localhost",)


class UnreachableError(InputError):
    """The file cannot be had from this address, for now or at all."""


def fetch(
    url: str, target: Path, progress: Progress | None = None, *, most: int = MAX_BYTES
) -> None:
    """Write what `url` serves to `target`, which appears when it is complete."""
    check_url(url)
    part = _Part(url, target)
    tries, kept, pause = 0, part.size(), _PAUSE
    while True:
        try:
            _receive(url, part, progress, most)
            break
        except _CutError as cut:
            if part.size() >= kept + _ENOUGH:
                tries, kept, pause = 0, part.size(), _PAUSE
            tries += 1
            if tries >= _TRIES:
                raise UnreachableError(f"{url}: {cut}, {tries} times in a row.") from None
            time.sleep(min(max(pause, cut.wait), _LONGEST_PAUSE))
            pause *= 2
    part.finish()


def check_url(url: str) -> None:
    """Only https; plain http to this machine itself."""
    parts = urlsplit(url)
    if parts.scheme == "https" and parts.hostname:
        return
    if parts.scheme == "http" and _is_this_machine(parts.hostname or ""):
        return
    raise InputError(f"{url}: not an https address; nothing is downloaded from it.")


def _is_this_machine(host: str) -> bool:
    try:
        return host in _LOCAL_NAMES or ip_address(host).is_loopback
    except ValueError:
        return False


class _CutError(Exception):
    """Worth another try: what has arrived so far is kept."""

    def __init__(self, reason: str, wait: float = 0.0):
        super().__init__(reason)
        self.wait = wait


class _Part:
    """What has arrived of a file."""

    def __init__(self, url: str, target: Path):
        self.url, self.target = url, target
        self.path = target.with_name(f".{target.name}.part")
        self._about = target.with_name(f".{target.name}.part.json")

    def size(self) -> int:
        return self.path.stat().st_size if self.path.is_file() else 0

    def version(self) -> str | None:
        """By which a server recognizes the file that these bytes are the beginning of."""
        try:
            about = json.loads(read_small(self._about))
            found = about["version"] if about["url"] == self.url else None
        except (FormatError, ValueError, LookupError, TypeError):
            return None
        return found if isinstance(found, str) and found.isprintable() else None

    def open(self, version: str | None, resume: bool) -> IO[bytes]:
        if not resume:
            self.path.unlink(missing_ok=True)
            write_text(self._about, json.dumps({"url": self.url, "version": version}) + "\n")
        return self.path.open("ab")

    def forget(self) -> None:
        self.path.unlink(missing_ok=True)
        self._about.unlink(missing_ok=True)

    def finish(self) -> None:
        with writing(self.target):
            sync(self.path)
            self.path.replace(self.target)
            self._about.unlink(missing_ok=True)
            sync(self.target.parent)


def _receive(url: str, part: _Part, progress: Progress | None, most: int) -> None:
    """One request; raises `_CutError` if the file is not complete after it."""
    have, version = part.size(), part.version()
    headers = {"Accept-Encoding": "identity", "User-Agent": "elmore"}
    if have and version is not None:  # without a version the file may have changed since
        headers |= {"Range": f"bytes={have}-", "If-Range": version}
    try:
        opened = _opened(url, headers)
    except urllib.error.HTTPError as error:  # 416: nothing is left, or the file is shorter now
        error.close()
        if error.headers.get("Content-Range") == f"bytes */{have}":
            return
        part.forget()
        raise _CutError("the server has another file than before") from None
    with opened as answer:
        start, total = _extent(answer, url, have if "Range" in headers else 0)
        if start and _version(answer.headers) not in (None, version):
            part.forget()  # a server that pays no heed to If-Range
            raise _CutError("the file has changed meanwhile")
        if (total or 0) > most:
            raise FormatError(f"{url}: {total:,} bytes; expected at most {most:,}.")
        with writing(part.target), part.open(_version(answer.headers), start > 0) as file:
            arrived = _copy(answer, file, start, min(most, total or most), part, progress, total)
    if total is not None and arrived != total:
        raise _CutError(f"the connection ended after {arrived:,} of {total:,} bytes")


def _copy(
    answer: Any,
    file: IO[bytes],
    start: int,
    most: int,
    part: _Part,
    progress: Progress | None,
    total: int | None,
) -> int:
    """Bytes that the file has now."""
    arrived, name = start, part.target.name
    while True:
        if progress is not None:
            progress(name, arrived, total)
        try:
            piece = answer.read(_PIECE)
        except (http.client.HTTPException, OSError) as error:
            raise _CutError(f"the connection was cut ({_reason(error)})") from None
        if not piece:
            return arrived
        arrived += len(piece)
        if arrived > most:
            part.forget()
            raise FormatError(f"{part.url}: sends over {most:,} bytes, more than it said or may.")
        file.write(piece)


def _opened(url: str, headers: dict[str, str]) -> Any:
    """The answer; an HTTPError is raised for 416 alone, every other refusal in one line."""
    handlers: list[urllib.request.BaseHandler] = [_SafeRedirects()]
    if _is_this_machine(urlsplit(url).hostname or ""):
        handlers.append(urllib.request.ProxyHandler({}))
    opener = urllib.request.build_opener(*handlers)
    try:
        return opener.open(urllib.request.Request(url, headers=headers), timeout=_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code == 416 and "Range" in headers:
            raise
        error.close()
        if error.code in _BUSY:
            raise _CutError(f"the server answers {error.code}", _retry_after(error)) from None
        raise UnreachableError(f"{url}: the server answers {error.code} {error.reason}.") from None
    except ElmoreError:
        raise
    except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
        raise _CutError(f"cannot be reached ({_reason(error)})") from None


class _SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Follows redirects only to where a download may come from."""

    max_redirections = 5

    def redirect_request(
        self, req: urllib.request.Request, fp: Any, code: int, msg: str, headers: Any, newurl: str
    ) -> urllib.request.Request | None:
        here, there = urlsplit(req.full_url), urlsplit(newurl)
        if _is_this_machine(there.hostname or "") and not _is_this_machine(here.hostname or ""):
            raise InputError(f"{req.full_url}: redirects to this machine itself; not followed.")
        check_url(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _extent(answer: Any, url: str, asked: int) -> tuple[int, int | None]:
    """Where the answer begins in the file, and the size of the whole file if it is told."""
    if answer.headers.get("Content-Encoding", "identity") != "identity":
        raise FormatError(f"{url}: the server compresses it; expected the file as it is.")
    length = _number(answer.headers.get("Content-Length"))
    if answer.status != 206:
        return 0, length
    unit, _, extent = answer.headers.get("Content-Range", "").partition(" ")
    extent, _, total = extent.partition("/")
    if unit != "bytes" or not asked or _number(extent.partition("-")[0]) != asked:
        raise FormatError(f"{url}: the server answers with a part that was not asked for.")
    return asked, _number(total) if _number(total) is not None else length and asked + length


def _version(headers: Message) -> str | None:
    """A strong validator, the only kind that promises equal bytes; else the time of change."""
    etag, changed = headers.get("ETag"), headers.get("Last-Modified")
    return etag if etag and not etag.startswith("W/") else changed


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None


def _retry_after(error: urllib.error.HTTPError) -> float:
    with suppress(ValueError):
        seconds = float(error.headers.get("Retry-After") or 0)
        return seconds if math.isfinite(seconds) else 0.0
    return 0.0


def _reason(error: BaseException) -> str:
    inner = getattr(error, "reason", error)
    return str(getattr(inner, "strerror", None) or inner or type(error).__name__)
