"""The compiled kernel is there or it is not, and neither does harm."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from elmore import kernel_files
from elmore.embedder import Embedder
from elmore.engine.kernel import Kernel, NativeLinear, NoKernel, find_kernel
from elmore.engine.runner import runner_for
from elmore.kernel_files import SOURCES, build, kernel_paths
from tests.engine.engines import KERNELS
from tests.tiny_models import SENTENCES, Tiny

compiles = pytest.mark.skipif(shutil.which("c++") is None, reason="no C++ compiler here")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    for name in SOURCES:
        shutil.copy(kernel_files.FOLDER / name, tmp_path)
    return tmp_path


def test_without_a_compiler_nothing_is_built_and_torch_runs(
    source: Path, tiny: Tiny, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert build(source) == []
    found = find_kernel(source)
    assert isinstance(found, NoKernel)
    assert "no C++ compiler" in found.reason
    embedder = Embedder.load(tiny.weights, device="cpu")
    layers = runner_for(embedder.model, embedder.reader, kernel=found).embed(SENTENCES)
    for ours, other in zip(layers, embedder.embed(SENTENCES), strict=True):
        np.testing.assert_allclose(ours, other.layers, rtol=0, atol=1e-5)


def test_a_compiler_that_fails_leaves_nothing_behind(source: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("CXX", "false")
    assert build(source) == []
    assert {path.name for path in source.iterdir()} == set(SOURCES)


@compiles
def test_it_is_built_found_and_left_when_its_source_changes(
    source: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(kernel_files, "X86", {"plain": ()})
    monkeypatch.setattr(kernel_files, "FLAGS", ("-std=c++20", "-O1", "-shared", "-fPIC"))
    (path,) = build(source)
    written = path.stat().st_mtime_ns
    assert build(source) == [path]
    assert path.stat().st_mtime_ns == written  # nothing to do
    assert isinstance(find_kernel(source), Kernel)
    for name in SOURCES:
        before = (source / name).read_bytes()
        (source / name).write_bytes(before + b"// changed\n")
        find_kernel.cache_clear()
        stale = find_kernel(source)
        assert isinstance(stale, NoKernel), name
        assert "another version of its source" in stale.reason
        (source / name).write_bytes(before)
    with (source / SOURCES[0]).open("a") as file:
        file.write("// changed\n")
    (newer,) = build(source)
    assert newer != path
    assert not path.exists()


def test_a_file_that_is_no_library_is_passed_over(source: Path):
    for path in kernel_paths(source).values():
        path.write_bytes(b"not a library")
    found = find_kernel(source)
    assert isinstance(found, NoKernel)
    assert "none of the built kernels runs on this machine" in found.reason


@pytest.mark.skipif(not KERNELS, reason="no kernel was built here")
@pytest.mark.parametrize("name", list(KERNELS) or ["none built"])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 1), (15, 8), (700, 130), (2048, 96)])
def test_products_are_right_and_a_rows_bits_its_own(name: str, inputs: int, outputs: int):
    torch.manual_seed(0)
    linear = torch.nn.Linear(inputs, outputs).requires_grad_(False)
    native, x = NativeLinear(linear, KERNELS[name]), torch.randn(23, inputs)
    found = native(x)
    exact = linear.double()(x.double())
    torch.testing.assert_close(found.double(), exact, rtol=0, atol=5e-6)
    for n in range(1, 23):
        assert torch.equal(native(x[:n]), found[:n])
    assert native(x[:0]).shape == (0, outputs)
