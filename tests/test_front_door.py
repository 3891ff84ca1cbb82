"""What `elmore` itself offers: loaded on first use; `pretrain` is always the function."""

import subprocess
import sys

import pytest

import elmore

CALLABLE = "assert callable(pretrain) and pretrain.__module__.startswith('elmore.pretrain.'); "


@pytest.mark.parametrize("name", elmore.__all__)
def test_every_name_is_there(name: str):
    assert getattr(elmore, name).__name__ == name
    assert name in dir(elmore)


def test_another_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'pretrian'"):
        elmore.pretrian  # type: ignore[attr-defined]  # noqa: B018


CODES = [
    "from elmore import pretrain; " + CALLABLE,
    "import elmore; pretrain = elmore.pretrain; " + CALLABLE,
    "import elmore.pretrain; pretrain = elmore.pretrain; " + CALLABLE,
    "import elmore.pretrain.config; from elmore import pretrain; " + CALLABLE,
    "from elmore import pretrain; import elmore.pretrain.recipes; "
    "assert elmore.pretrain is pretrain; " + CALLABLE,
    "import elmore.pretrain.config as config; assert config.PretrainConfig",
    "import elmore.pretrain.recipes; assert elmore.pretrain.recipes.find_recipe",
    "from elmore.pretrain import recipes; assert recipes.find_recipe",
    "import elmore; assert elmore.pretrain.config.PretrainConfig",
    "import inspect, elmore; assert 'corpus' in inspect.signature(elmore.pretrain).parameters",
    "import pickle; from elmore import pretrain; pickle.dumps(pretrain)",
]

# What takes long to import is imported once; then each code has a process of its own.
RUN_EACH = """
import os, sys, traceback
import h5py, pydantic, safetensors.torch, torch
assert "elmore" not in sys.modules
for code in sys.argv[1:]:
    if os.fork() == 0:
        try:
            exec(code, {})
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
"""


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    command = [sys.executable, "-c", RUN_EACH, *CODES]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return dict(zip(CODES, done.stdout.splitlines(), strict=True))


@pytest.mark.parametrize("code", CODES)
def test_pretrain_is_the_function_and_its_package_can_be_imported(
    code: str, outcomes: dict[str, str]
):
    assert outcomes[code] == "0"  # else the error stands above


def test_modules_of_the_package_can_be_patched_by_name(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("elmore.pretrain.config.PretrainConfig", "patched")
    from elmore.pretrain import config

    assert config.PretrainConfig == "patched"  # type: ignore[comparison-overlap]


def test_nothing_heavy_is_imported_before_it_is_used():
    code = "import sys, elmore; dir(elmore); assert not {'torch', 'numpy', 'h5py'} & {*sys.modules}"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
