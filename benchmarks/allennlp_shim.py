"""Imported before AllenNLP 2.10.1 (2022): stand-ins for what its import statements ask for and a
current environment lacks. None of it is called here; AllenNLP's own modules stay as they are.
"""

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_ABSENT = ("torchvision", "fairscale", "wandb")


class _Stub(ModuleType):
    """A module that has every name: each is an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Stubs(MetaPathFinder, Loader):
    """Finds the absent packages and everything under them."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        absent = name.split(".")[0] in _ABSENT
        return ModuleSpec(name, self, is_package=True) if absent else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Stub(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


sys.meta_path.append(_Stubs())
