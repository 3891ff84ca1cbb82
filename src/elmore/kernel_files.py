"""The compiled kernel as files: built beside its source, once per instruction set, and found there
if it was built from the current source. `nn` calls it in training, `engine` to embed. Standard
library only: the installation runs this file before the package is there.
"""

import ctypes
import hashlib
import os
import platform
import secrets
import shlex
import shutil
import subprocess
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent / "engine" / "native"
UNITS = ("lstm.cpp", "steps.cpp", "layer_bf16.cpp", "bert.cpp", "highway.cpp", "pairs.cpp")
SOURCES = (*UNITS, "vectors.h", "panels.h", "tiles.h")
FLAGS = (
    "-std=c++20", "-O3", "-shared", "-fPIC", "-pthread", "-ffp-contract=fast", "-fno-math-errno",
)  # fmt: skip
X86 = {
    "avx512": ("-march=x86-64-v4", "-mavx512vnni"),
    "avx2": ("-march=x86-64-v3",),
    "plain": (),
}
ELSEWHERE: dict[str, tuple[str, ...]] = {"plain": ()}  # 64-bit Arm always has vector instructions


def kernel_paths(folder: Path = FOLDER) -> dict[str, Path]:
    """Where the kernels of the current source would be, fastest first."""
    source = b"".join((folder / name).read_bytes() for name in SOURCES)
    digest = hashlib.sha256(source).hexdigest()[:12]
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return {name: folder / f"lstm-{name}-{digest}.so" for name in (X86 if x86 else ELSEWHERE)}


def load_library(path: Path) -> ctypes.CDLL | None:
    """None if this machine cannot run it."""
    try:
        library = ctypes.CDLL(str(path))
    except OSError:
        return None
    return library if library.elmore_supported() else None


@cache
def find_library(folder: Path = FOLDER) -> ctypes.CDLL | None:
    """The fastest that runs here. Cached: what is installed does not change while we run."""
    built = (path for path in kernel_paths(folder).values() if path.is_file())
    found = (library for path in built if (library := load_library(path)) is not None)
    return next(found, None)


def build(folder: Path = FOLDER) -> list[Path]:
    """The kernels that could be compiled; those of an earlier source are removed."""
    paths = kernel_paths(folder)
    for path in set(folder.glob("lstm-*.so")) - set(paths.values()):
        path.unlink()
    return [path for name, path in paths.items() if path.exists() or _compile(path, X86[name])]


def _compile(target: Path, flags: tuple[str, ...]) -> bool:
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    if not compiler or shutil.which(compiler[0]) is None:
        return False
    beside = target.with_suffix(f".{secrets.token_hex(6)}.tmp")
    units = [str(target.with_name(name)) for name in UNITS]
    command = [*compiler, *FLAGS, *flags, *units, "-o", str(beside)]
    try:
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return False
        beside.replace(target)  # complete or absent
    finally:
        beside.unlink(missing_ok=True)
    return True
