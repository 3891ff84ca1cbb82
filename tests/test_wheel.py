"""The package as users get it: a wheel in an empty environment, no checkout in sight."""

import os
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
LIMIT = 60_000_000


@pytest.mark.slow
def test_a_wheel_in_an_empty_environment_runs_the_demo(tmp_path: Path):
    def run(*command: str | Path) -> str:
        clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        done = subprocess.run(
            command, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", "dist", ROOT)
    (wheel,) = (tmp_path / "dist").glob("*.whl")
    assert wheel.stat().st_size < LIMIT
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / "bin" / "python"
    constraints = ROOT / "constraints.txt"
    run(python, "-m", "pip", "install", "--quiet", "--constraint", constraints, wheel)
    where = run(python, "-c", "import elmore; print(elmore.__file__)")
    assert str(tmp_path) in where
    said = run(tmp_path / "env" / "bin" / "elmore", "demo")
    assert "55 ambiguous words" in said
    assert "21 ambiguous words" in said


@pytest.mark.slow
def test_without_a_compiler_the_wheel_has_no_kernel_and_is_for_any_platform(tmp_path: Path):
    """PyTorch then does the kernel's work."""
    built = shutil.ignore_patterns(".*", "*.so", "build", "dist")
    shutil.copytree(ROOT, tmp_path / "source", ignore=built)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", tmp_path]
    environment = {**os.environ, "CXX": "no-such-compiler"}
    subprocess.run([*command, tmp_path / "source"], env=environment, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(".so")]
