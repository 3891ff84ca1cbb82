"""Compare every file of an index with its checksums. Only the manifest must be readable."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from elmore.errors import FormatError
from elmore.search.checked_files import WholeFile, block_sums, map_file
from elmore.search.manifest import Manifest, SegmentState, read_manifest
from elmore.search.sampling import COUNTS, WORDS
from elmore.search.segment import deleted_name, file_sizes, read_sums
from elmore.search.vector_space import CENTER
from elmore.store.layout import FileState


@dataclass(frozen=True, slots=True)
class IndexVerdict:
    """What was found in an index."""

    uses: int
    sentences: int
    bytes: int
    """Of the files that were compared."""
    damages: list[str]
    """What differs from what was committed, a line for each file."""
    unchecked: list[str]
    """Parts without checksums, which version 2 wrote."""


def verify(folder: Path) -> IndexVerdict:
    """Read the whole index once; again if a writer has changed it meanwhile."""
    while True:
        manifest = read_manifest(folder)
        found = _Verifying(folder, manifest).verdict()
        if not found.damages or read_manifest(folder) == manifest:
            return found


class _Verifying:
    def __init__(self, folder: Path, manifest: Manifest):
        self.folder, self.manifest = folder, manifest
        self.bytes = 0
        self.damages: list[str] = []
        self.unchecked: list[str] = []

    def verdict(self) -> IndexVerdict:
        manifest = self.manifest
        for path, state in self._whole_files():
            self._whole(path, state)
        for segment in manifest.segments:
            self._segment(segment)
        uses = sum(segment.uses for segment in manifest.segments)
        sentences = sum(segment.sentences for segment in manifest.segments)
        return IndexVerdict(uses, sentences, self.bytes, self.damages, self.unchecked)

    def _whole_files(self) -> Iterator[tuple[Path, FileState | None]]:
        manifest = self.manifest
        for name in (WORDS, COUNTS, CENTER):
            yield self.folder / name, manifest.files.get(name)
        for segment in manifest.segments:
            if segment.deleted:
                yield self.folder / deleted_name(segment), segment.deletions
        if manifest.approximate is not None:
            for name, state in manifest.approximate_files.items():
                yield self.folder / manifest.approximate / name, state
            if not manifest.approximate_files:
                self.unchecked.append(manifest.approximate)

    def _whole(self, path: Path, state: FileState | None) -> None:
        if state is None:
            self.unchecked.append(path.name)
        try:
            self.bytes += len(WholeFile(path, state).checked())
        except (FormatError, FileNotFoundError) as error:
            self._tell(error)

    def _segment(self, state: SegmentState) -> None:
        folder = self.folder / state.name
        sizes = file_sizes(state, self.manifest.codec, self.manifest.dim)
        if state.checksums is None:
            self.unchecked.append(state.name)
        try:
            sums = read_sums(folder, state, sizes)
        except (FormatError, FileNotFoundError) as error:
            self._tell(error)
            sums = {}
        for name, n_bytes in sizes.items():
            try:
                data = map_file(folder / name, n_bytes)
            except (FormatError, FileNotFoundError) as error:
                self._tell(error)
                continue
            if name in sums and (bad := np.flatnonzero(block_sums(data) != sums[name])).size:
                self.damages.append(
                    f"{folder / name}: {len(bad):,} of {len(sums[name]):,} blocks are damaged"
                )
            self.bytes += len(data)

    def _tell(self, error: FormatError | FileNotFoundError) -> None:
        match error:
            case FileNotFoundError(filename=name):
                self.damages.append(f"{name}: missing")
            case _:
                self.damages.append(str(error))
