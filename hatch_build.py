"""Compiles the LSTM kernel when a wheel or an editable install is made; see kernel_files.py."""

import sysconfig
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FILES = Path("src", "elmore", "kernel_files.py")
FOLDER = Path("src", "elmore", "engine", "native")


class KernelHook(BuildHookInterface):  # type: ignore[type-arg,misc]
    """Adds the compiled kernels to what is built, if there are any."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        built = self._build()
        if built:
            build_data["pure_python"] = False
            system = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["tag"] = f"py3-none-{system}"  # called through ctypes: any Python will do
            build_data["artifacts"] += [f"/{(FOLDER / p.name).as_posix()}" for p in built]

    def _build(self) -> list[Path]:
        """By its path: the package itself is not installed yet."""
        spec = spec_from_file_location("kernel_files", Path(self.root) / FILES)
        assert spec is not None
        assert spec.loader is not None
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        built: list[Path] = module.build()
        return built
