"""Merge stores that have the same model and settings: blocks of vectors are copied as they are,
each sentence once, and only if its checksums match.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from elmore.errors import InputError
from elmore.store.fill import is_due
from elmore.store.keep import Keep
from elmore.store.layout import FileState, Manifest, read_manifest
from elmore.store.snapshot import Snapshot
from elmore.store.verify import Damage, sentence_damage
from elmore.store.writer import StoreWriter, create_folder

_SAME = {
    "fingerprint": "model",
    "keep": "keep",
    "precision": "precision",
    "n_layers": "number of layers",
    "dim": "dimension",
}


@dataclass(slots=True)
class MergeReport:
    """The result of a merge."""

    added: int = 0
    repeated: int = 0
    left_out: list[tuple[Path, Damage]] = field(default_factory=list)
    """Damaged sentences."""


MergeWatch = Callable[[MergeReport], None]


def merge(paths: list[Path], target: Path, watch: MergeWatch = lambda _: None) -> MergeReport:
    """Add every intact sentence of `paths` to `target`, which is created if it does not exist."""
    if not paths:
        raise InputError("No stores to merge; name one or more.")
    sources = [Snapshot.open(path) for path in paths]
    first = sources[0]
    for source in sources[1:]:
        _check_same(first, source.folder, source.manifest)
    if target.exists():
        _check_same(first, target, read_manifest(target))
    else:
        nothing = {"shards": (), "records": FileState(), "text": FileState()}
        empty = {"sentences": 0, "words": 0, "index": 0, **nothing}
        create_folder(target, first.manifest.model_copy(update=empty), first.projection)
    report = MergeReport()
    with StoreWriter(target) as writer:
        for source in sources:
            _copy(source, writer, report, watch)
        writer.commit()
    watch(report)
    return report


def _copy(source: Snapshot, writer: StoreWriter, report: MergeReport, watch: MergeWatch) -> None:
    for number in range(source.manifest.sentences):
        damage = sentence_damage(source, number)
        if damage is not None:
            report.left_out.append((source.folder, damage))
            continue
        record = source.record(number)
        if writer.has(record.key):
            report.repeated += 1
            continue
        block = source.block(record).numpy().tobytes()
        writer.add(record.key, source.packed(record), record.n_words, block)
        report.added += 1
        if is_due(writer):
            writer.commit()
            watch(report)


def _check_same(first: Snapshot, folder: Path, manifest: Manifest) -> None:
    for name, label in _SAME.items():
        ours, theirs = getattr(first.manifest, name), getattr(manifest, name)
        if ours != theirs:
            raise InputError(
                f"{folder}: its {label} is {_short(theirs)}, but that of {first.folder} is "
                f"{_short(ours)}; only stores with the same settings can be merged."
            )


def _short(value: Keep | str | int) -> str:
    return str(value)[:12] if isinstance(value, str | int) else value.described()
