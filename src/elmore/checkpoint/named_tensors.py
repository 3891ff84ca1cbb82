"""Tensors of a file by their names there. The shape of each is checked before it is read, and when
all are read none may be left over. Every foreign format of weights is one of these.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable

from elmore.errors import FormatError


class NamedTensors(ABC):
    """`where` is the file, `judge` is what says which tensors it must have, both for messages."""

    def __init__(self, where: str, judge: str):
        self.where, self.judge = where, judge
        self.taken: set[str] = set()

    @abstractmethod
    def names(self) -> Iterable[str]:
        """Every tensor that must be read."""

    @abstractmethod
    def find(self, name: str) -> tuple[str, tuple[int, ...]] | None:
        """The type and shape of a tensor, None if there is none of this name."""

    def rows(self, name: str) -> int | None:
        """The length of a table, None if there is none."""
        _, shape = self.find(name) or ("", ())
        return shape[0] if shape else None

    def claim(self, name: str, shape: tuple[int, ...]) -> None:
        """Check a tensor that is about to be read."""
        wanted = f"{self.judge} calls for float32 of shape {shape}"
        found = self.find(name)
        if found is None:
            raise FormatError(f"{self.where}: the tensor '{name}' is missing; {wanted}.")
        if found[1] != shape or "float" not in found[0]:
            raise FormatError(
                f"{self.where}: '{name}' is {found[0]} of shape {found[1]}, but {wanted}. "
                "They are probably from different models."
            )
        self.taken.add(name)

    def expect_nothing_else(self, prefixes: tuple[str, ...] = ("",)) -> None:
        """Every tensor whose name starts with one of `prefixes` must have been read."""
        left = sorted(n for n in self.names() if n not in self.taken and n.startswith(prefixes))
        if left:
            raise FormatError(
                f"{self.where}: contains '{left[0]}', which {self.judge} does not call for. "
                "They are probably from different models."
            )
