"""`--layer top`, where an index asks for the number of a layer."""

from pathlib import Path

_TOP = "top"


def numbered(layer: str | None, folder: Path) -> str | None:
    """The number of the top layer of an index's model, or the same choice as it is."""
    if layer != _TOP:
        return layer
    from elmore.search.manifest import read_manifest

    return str(read_manifest(folder).n_layers - 1)
