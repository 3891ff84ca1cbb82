"""Runs, scripts, benchmarks and examples can be imported, so that a renamed function cannot break
them unnoticed. Only a program that they are compared with may be missing."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("runs", "scripts", "benchmarks", "examples")
PEERS = {"allennlp", "allennlp_models", "gensim", "lancedb", "simple_elmo", "tensorflow"}
PATHS = [
    path
    for folder in FOLDERS
    for path in sorted((ROOT / folder).glob("*.py"))
    if path.name != "small_en_start.py"
]

# What takes long is imported once; then each file gets a process of its own. No file runs its
# main().
IMPORT_EACH = """
import importlib.util, json, os, pkgutil, sys, traceback
import elmore, torch
for module in pkgutil.walk_packages(elmore.__path__, "elmore.", onerror=lambda name: None):
    if not module.name.startswith(("elmore.integrations", "elmore.__main__")):
        try:
            importlib.import_module(module.name)
        except ImportError:  # an extra that is not installed
            pass
for path in sys.argv[1:]:
    if os.fork() == 0:
        found = {"path": path, "missing": "", "error": ""}
        sys.path.insert(0, os.path.dirname(path))
        try:
            spec = importlib.util.spec_from_file_location("imported_by_a_test", path)
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        except ModuleNotFoundError as error:
            found |= {"missing": error.name, "error": traceback.format_exc()}
        except BaseException:
            found["error"] = traceback.format_exc()
        os.write(1, (json.dumps(found) + "\\n").encode())
        os._exit(0)
    os.wait()
"""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, str]]:
    command = [sys.executable, "-c", IMPORT_EACH, *map(str, PATHS)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    return {one["path"]: one for one in found}


@pytest.mark.parametrize("path", PATHS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_file_beside_the_package_can_be_imported(path: Path, outcomes: dict[str, dict[str, str]]):
    outcome = outcomes[str(path)]
    missing = outcome["missing"].split(".")[0]
    if missing in PEERS:
        pytest.skip(f"{path.name} needs {missing}, which is not installed here")
    assert outcome["error"] == ""
