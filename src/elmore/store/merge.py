"""Stores of one model and one choice put together: blocks are copied as they are, each sentence
once, and only if its checksums fit.
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

_SAME = ("fingerprint", "keep", "precision", "n_layers", "dim")


@dataclass(slots=True)
class MergeReport:
    """What a merge did."""

    added: int = 0
    repeated: int = 0
    left_out: list[tuple[Path, Damage]] = field(default_factory=list)
    """Damaged sentences."""


MergeWatch = Callable[[MergeReport], None]


def merge(paths: list[Path], target: Path, watch: MergeWatch = lambda _: None) -> MergeReport:
    """Add everything sound in `paths` to `target`, which is made if it is not there."""
    if not paths:
        raise InputError("No stores to merge; name one or more.")
    sources = [Snapshot.open(path) for path in paths]
    first = sources[0]
    for source in sources[1:]:
        _check_same(first, source.folder, source.manifest)
    if target.exists():
        _check_same(first, target, read_manifest(target))
    else:
        create_folder(target, _emptied(first.manifest), first.projection)
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
    for name in _SAME:
        ours, theirs = getattr(first.manifest, name), getattr(manifest, name)
        if ours != theirs:
            raise InputError(
                f"{folder}: its {_LABELS[name]} is {_short(theirs)}, but that of {first.folder} is "
                f"{_short(ours)}; only stores of one kind can be merged."
            )


_LABELS = {"fingerprint": "model", "n_layers": "number of layers", "dim": "dimension"} | {
    name: name for name in ("keep", "precision")
}


def _short(value: Keep | str | int) -> str:
    if isinstance(value, str | int):
        return str(value)[:12]
    return value.described()


def _emptied(manifest: Manifest) -> Manifest:
    nothing = {"shards": (), "records": FileState(), "text": FileState()}
    return manifest.model_copy(update={"sentences": 0, "words": 0, "index": 0, **nothing})
