"""Compiles the LSTM kernel beside its source, once per instruction set. Installing does this where
there is a C++ compiler; `python -m elmore.engine.build_kernel` does it afterwards. Without one the
package is complete all the same: PyTorch does the kernel's work. Standard library only.
"""

import hashlib
import os
import platform
import shlex
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).parent / "native"
SOURCE = "lstm.cpp"
FLAGS = ("-std=c++20", "-O3", "-shared", "-fPIC", "-ffp-contract=fast", "-fno-math-errno")
X86 = {
    "avx512": ("-march=x86-64-v4", "-mavx512vnni"),
    "avx2": ("-march=x86-64-v3",),
    "plain": (),
}
ELSEWHERE: dict[str, tuple[str, ...]] = {"plain": ()}  # 64-bit Arm always has its vectors


def kernel_paths(folder: Path = FOLDER) -> dict[str, Path]:
    """Where the kernels of the source as it is now would be, best first."""
    digest = hashlib.sha256((folder / SOURCE).read_bytes()).hexdigest()[:12]
    x86 = platform.machine().lower() in ("x86_64", "amd64")
    return {name: folder / f"lstm-{name}-{digest}.so" for name in (X86 if x86 else ELSEWHERE)}


def build(folder: Path = FOLDER) -> list[Path]:
    """Those that could be compiled; the kernels of an earlier source are removed."""
    paths = kernel_paths(folder)
    for path in set(folder.glob("lstm-*.so")) - set(paths.values()):
        path.unlink()
    return [path for name, path in paths.items() if path.exists() or _compile(path, X86[name])]


def _compile(target: Path, flags: tuple[str, ...]) -> bool:
    compiler = shlex.split(os.environ.get("CXX", "c++"))
    if not compiler or shutil.which(compiler[0]) is None:
        return False
    beside = target.with_suffix(f".{os.getpid()}.tmp")
    command = [*compiler, *FLAGS, *flags, str(target.with_name(SOURCE)), "-o", str(beside)]
    try:
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return False
        beside.replace(target)  # whole or not at all
    finally:
        beside.unlink(missing_ok=True)
    return True


if __name__ == "__main__":
    raise SystemExit(0 if build() else "No kernel was built: there is no working C++ compiler.")
