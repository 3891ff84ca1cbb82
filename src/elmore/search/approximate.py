"""Approximate search for the nearest of millions of uses: uses are grouped in cells, and only the
cells nearest to the query are searched, in few dimensions and eight bits. The result is a list of
candidates, which are then compared by their stored vectors.
"""

# K kept layers, D vector dim
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np

from elmore.embedding import LayerChoice, Vectors
from elmore.errors import FormatError, InputError
from elmore.files.atomic import atomic_folder
from elmore.search.checked_files import Ints, WholeFile, file_state, map_file
from elmore.search.index_writer import IndexWriter
from elmore.search.manifest import Manifest
from elmore.search.segment import Segment
from elmore.search.vector_space import Query, equal_mix, one_layer
from elmore.store.layout import FileState
from elmore.uses.geometry import unit

LEAST_USES = 50_000
"""With fewer uses, comparing all of them takes no longer."""
_DIM = 128
_PROBES = 128  # cells searched
_TRAINING_USES_A_CELL = 40
_CHUNK = 65_536


def is_finished(manifest: Manifest) -> bool:
    """Whether the index has its approximate indexes or needs none."""
    uses = manifest.segments[0].uses if manifest.segments else 0
    return manifest.approximate is not None or uses < LEAST_USES


def approximate(writer: IndexWriter) -> None:
    """Index the first segment: for the mix, and for each layer if there are several."""
    manifest = writer.manifest
    if _is_damaged(writer.folder, manifest):
        writer.commit(approximate=None, approximate_files={})
    if is_finished(writer.manifest):
        return
    segment = writer.segments()[0]
    target = writer.folder / segment.state.name.replace("segment", "approximate")
    files = {}
    with atomic_folder(target) as folder:
        for name, weights in _views(writer.manifest.keep):
            faiss().write_index(_built(segment, weights), str(folder / name))
            files[name] = file_state(map_file(folder / name, None))
    writer.commit(approximate=target.name, approximate_files=files)


def _is_damaged(folder: Path, manifest: Manifest) -> bool:
    if manifest.approximate is None:
        return False
    try:
        Approximate(
            folder / manifest.approximate, manifest.keep, manifest.approximate_files
        ).check()
    except (FormatError, FileNotFoundError):
        return True
    return False


def _views(keep: LayerChoice) -> Iterator[tuple[str, Vectors]]:
    mix = equal_mix(keep)
    yield "mix.faiss", mix
    if (n_kept := len(mix)) > 1:
        for k in range(n_kept):
            yield f"kept-{k}.faiss", one_layer(k, n_kept)


def _built(segment: Segment, weights: Vectors) -> Any:
    n, dim = segment.state.uses, segment.codec.dim
    n_cells = 1 << round(np.log2(2 * np.sqrt(n)))
    fewer = f"PCA{_DIM}," if dim > _DIM else ""
    index = faiss().index_factory(dim, f"{fewer}IVF{n_cells},SQ8", faiss().METRIC_INNER_PRODUCT)
    step = max(1, n // (_TRAINING_USES_A_CELL * n_cells))
    index.train(unit(segment.vectors(np.arange(0, n, step), weights)))
    for begin in range(0, n, _CHUNK):
        index.add(unit(segment.vectors(slice(begin, begin + _CHUNK), weights)))
    return index


class Approximate:
    """The approximate indexes of a folder, each loaded at first use."""

    def __init__(self, folder: Path, keep: LayerChoice, states: Mapping[str, FileState]):
        self._views = dict(_views(keep))
        self._files = {name: WholeFile(folder / name, states.get(name)) for name in self._views}
        self._loaded: dict[str, Any] = {}
        self._loading = Lock()

    def candidates(self, query: Query, n: int) -> Ints:
        """Rows of the first segment: at least the n most likely ones, in no order."""
        found = [self._search(name, query, n) for name in self._fitting(query.weights)]
        rows = np.unique(np.concatenate(found))
        return rows[rows >= 0]  # faiss fills up with -1

    def _fitting(self, weights: Vectors) -> list[str]:
        """The index of exactly this view; for another mix, those of all its layers."""
        total = weights / weights.sum() if weights.sum() > 0 else weights
        for name, view in self._views.items():
            if np.allclose(total, view):
                return [name]
        return [name for name, view in self._views.items() if weights @ view > 0] or ["mix.faiss"]

    def _search(self, name: str, query: Query, n: int) -> Ints:
        index = self._index(name)
        cells = faiss().SearchParametersIVF(nprobe=_PROBES)
        if isinstance(index, faiss().IndexPreTransform):
            cells = faiss().SearchParametersPreTransform(index_params=cells)
        _, rows = index.search(query.seen(self._views[name])[None], n, params=cells)
        found: Ints = rows[0]
        return found

    def _index(self, name: str) -> Any:
        with self._loading:
            if name not in self._loaded:
                try:
                    data = self._files[name].checked()
                    data.seek(0)
                    self._loaded[name] = faiss().read_index(faiss().PyCallbackIOReader(data.read))
                except (RuntimeError, MemoryError, FormatError):
                    path = self._files[name].path
                    remedy = f"`elmore index compact {path.parents[1]}` builds it again"
                    raise FormatError(f"{path}: damaged; {remedy}.") from None
            return self._loaded[name]

    def check(self) -> None:
        """Compare all files with their checksums."""
        for file in self._files.values():
            file.checked()


def faiss() -> Any:
    try:
        import faiss as library
    except ImportError:
        raise InputError("Searching needs: pip install 'elmore[search]'") from None
    return library
