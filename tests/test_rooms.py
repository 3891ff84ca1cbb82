"""The house: a room imports only rooms above it in the list, wherever in a file the import is."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1] / "src" / "elmore"

# Top to bottom; a room may import the ones before it.
ROOMS = [
    "errors", "config", "text", "files", "kernel_files", "nn", "models", "checkpoint", "engine",
    "embedding", "embedder", "elmo", "uses", "dump", "store", "train", "pretrain", "tasks",
    "search", "demo", "integrations", "serve", "cli", "__main__",
]  # fmt: skip
FLOOR = {room: floor for floor, room in enumerate(ROOMS)}


def imported_rooms(path: Path) -> set[str]:
    rooms: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("elmore."):
            rooms.add(node.module.split(".")[1])
        elif isinstance(node, ast.Import):
            rooms |= {a.name.split(".")[1] for a in node.names if a.name.startswith("elmore.")}
    return rooms


@pytest.mark.parametrize(
    "path", sorted(ROOT.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOT))
)
def test_a_room_imports_only_rooms_above_it(path: Path):
    room = path.relative_to(ROOT).parts[0].removesuffix(".py")
    if room == "__init__":
        return
    assert room in FLOOR, f"{room} is not in the list of rooms"
    for other in imported_rooms(path) - {room}:
        assert FLOOR[other] < FLOOR[room], f"{room} may not import {other}"


@pytest.mark.parametrize("path", sorted((ROOT / "text").glob("*.py")), ids=lambda path: path.name)
def test_text_knows_no_torch(path: Path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names = {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    names |= {n.module or "" for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    assert not any(name.split(".")[0] == "torch" for name in names)


def test_the_front_door_opens_without_torch():
    code = "import sys, elmore, elmore.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
