"""The house: a room imports only rooms above it in the list, wherever in a file the import is."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import elmore

ROOT = Path(__file__).resolve().parents[1] / "src" / "elmore"

# Top to bottom; a room may import the ones before it.
ROOMS = [
    "errors", "html", "small_files", "config", "text", "files", "kernel_files", "published", "nn",
    "models", "checkpoint", "engine", "embedding", "embedder", "cluster", "predictor", "elmo",
    "uses", "dump", "store", "train", "pretrain", "lens", "tasks", "search", "demo", "integrations",
    "serve", "cli", "__main__",
]  # fmt: skip
FLOOR = {room: floor for floor, room in enumerate(ROOMS)}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


FILES = {module_name(path): path for path in sorted(ROOT.rglob("*.py"))}


def imported(path: Path, code: str | None = None) -> set[str]:
    """Modules of elmore that a file imports: at its top, inside a function, or for types only."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8") if code is None else code)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = absolute(node, path)
            found |= {target(base, alias.name) for alias in node.names}
    return found & FILES.keys()


def absolute(node: ast.ImportFrom, path: Path) -> str:
    """The module after `from`, also when it is written with dots."""
    package = path.parent.relative_to(ROOT.parent).parts
    above = package[: len(package) - node.level + 1] if node.level else ()
    return ".".join([*above, *([node.module] if node.module else [])])


def target(base: str, name: str) -> str:
    """Where an imported name lives: a module of its own, the home of a lazy name, or `base`."""
    if base == "elmore" and name in elmore._HOMES:
        return elmore._HOMES[name]
    return f"{base}.{name}" if f"{base}.{name}" in FILES else base


def room(module: str) -> str:
    return module.split(".")[1]


@pytest.mark.parametrize("path", FILES.values(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_rooms_above_it(path: Path):
    if path == ROOT / "__init__.py":
        return
    own = room(module_name(path))
    assert own in FLOOR, f"{own} is not in the list of rooms"
    for other in {room(module) for module in imported(path) - {"elmore"}} - {own}:
        assert FLOOR[other] < FLOOR[own], f"{own} may not import {other}"


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import elmore.cli.main", "elmore.cli.main"),
        ("def f():\n    from elmore.cli.main import app", "elmore.cli.main"),
        ("from elmore.cli import main", "elmore.cli.main"),
        ("from elmore import Store", "elmore.store.store"),
        ("from elmore import Index as I", "elmore.search.index"),
        ("from elmore import store", "elmore.store"),
        ("from elmore import __version__", "elmore"),
        ("from . import tokenize", "elmore.text.tokenize"),
        ("from .tokenize import words", "elmore.text.tokenize"),
        ("from ..cli import main", "elmore.cli.main"),
        ("from .. import Store", "elmore.store.store"),
    ],
)
def test_every_way_to_import_is_seen(code: str, found: str):
    assert imported(ROOT / "text" / "sentences.py", code) == {found}


def test_no_two_files_import_each_other():
    graph = {name: imported(path) - {"elmore"} for name, path in FILES.items() if name != "elmore"}
    pairs = {(one, other) for one, others in graph.items() for other in others}
    assert [pair for pair in sorted(pairs) if pair[::-1] in pairs and pair[0] != pair[1]] == []


@pytest.mark.parametrize("path", sorted((ROOT / "text").glob("*.py")), ids=lambda path: path.name)
def test_text_knows_no_torch(path: Path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert not any(name.split(".")[0] == "torch" for name in names)


def test_the_front_door_opens_without_torch():
    code = "import sys, elmore, elmore.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
