"""A Hugging Face Hub on this machine, for the real client library: repositories as commits of
files, listed, downloaded and committed to. Every upload is inline ("regular")."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

Files = dict[str, bytes]


@dataclass
class Hub:
    """Commits of each repository by branch; every commit is a whole set of files."""

    commits: dict[str, dict[str, Files]] = field(default_factory=dict)
    branches: dict[str, dict[str, str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    def commit(self, repo: str, files: Files, branch: str = "main") -> str:
        content = json.dumps({n: hashlib.sha256(c).hexdigest() for n, c in sorted(files.items())})
        sha = hashlib.sha1(content.encode()).hexdigest()
        self.commits.setdefault(repo, {})[sha] = files
        self.branches.setdefault(repo, {})[branch] = sha
        return sha

    def find(self, repo: str, revision: str) -> str | None:
        sha = self.branches.get(repo, {}).get(revision, revision)
        return sha if sha in self.commits.get(repo, {}) else None


def _oid(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


class Handler(BaseHTTPRequestHandler):
    hub: Hub

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.answer()

    def do_HEAD(self) -> None:
        self.answer()

    def answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.asked.append(f"{self.command} {path}")
        if found := re.fullmatch(r"/api/models/([^/]+/[^/]+)(?:/revision/(.+))?", path):
            self.info(found[1], found[2] or "main")
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/tree/([^/]+)/?", path):
            self.tree(found[1], found[2])
        elif found := re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path):
            self.file(found[1], found[2], found[3])
        else:
            self.say({"error": "no such page"}, 404)

    def info(self, repo: str, revision: str) -> None:
        if repo not in self.hub.commits:
            return self.say({"error": "Repository not found"}, 404, "RepoNotFound")
        if (sha := self.hub.find(repo, revision)) is None:
            return self.say({"error": "Invalid rev id"}, 404, "RevisionNotFound")
        files = self.hub.commits[repo][sha]
        listed = [{"rfilename": name, "size": len(c)} for name, c in files.items()]
        return self.say({"id": repo, "sha": sha, "siblings": listed, "private": False})

    def tree(self, repo: str, revision: str) -> None:
        sha = self.hub.find(repo, revision)
        assert sha is not None
        files = self.hub.commits[repo][sha]
        self.say(
            [
                {"type": "file", "path": name, "size": len(content), "oid": _oid(content)}
                for name, content in files.items()
            ]
        )

    def file(self, repo: str, revision: str, name: str) -> None:
        sha = self.hub.find(repo, revision)
        content = None if sha is None else self.hub.commits[repo][sha].get(name)
        if content is None:
            return self.say({"error": "Entry not found"}, 404, "EntryNotFound")
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("ETag", f'"{_oid(content)}"')
        self.send_header("X-Repo-Commit", str(sha))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)
        return None

    def do_POST(self) -> None:
        path = unquote(urlsplit(self.path).path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.hub.asked.append(f"POST {path}")
        if path == "/api/repos/create":
            given = json.loads(body)
            owner = given.get("organization") or "someone"
            repo = f"{owner}/{given['name']}"
            if repo not in self.hub.commits:
                self.hub.commit(repo, {".gitattributes": b""})
            self.say({"url": f"{self.hub.url}/{repo}"})
        elif path == "/api/validate-yaml":
            self.say({"errors": [], "warnings": []})
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/preupload/(.+)", path):
            files = json.loads(body)["files"]
            modes = [
                {"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in files
            ]
            self.say({"files": modes})
        elif found := re.fullmatch(r"/api/models/([^/]+/[^/]+)/commit/(.+)", path):
            self.take(found[1], found[2], body)
        else:
            self.say({"error": "no such page"}, 404)

    def take(self, repo: str, branch: str, body: bytes) -> None:
        before = self.hub.find(repo, branch)
        files = dict(self.hub.commits[repo][before]) if before else {}
        for line in body.decode().splitlines():
            given = json.loads(line)
            if given["key"] == "file":
                files[given["value"]["path"]] = base64.b64decode(given["value"]["content"])
        sha = self.hub.commit(repo, files, branch)
        url = f"{self.hub.url}/{repo}/commit/{sha}"
        self.say({"success": True, "commitOid": sha, "commitUrl": url, "hookOutput": ""})

    def say(self, content: object, code: int = 200, error: str | None = None) -> None:
        text = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if error is not None:
            self.send_header("X-Error-Code", error)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(text)


@contextmanager
def hub_here() -> Iterator[Hub]:
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OfHub", (Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
