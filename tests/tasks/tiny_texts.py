"""A few pairs of texts, and two tiny language models that have seen them."""

from pathlib import Path

from elmore.config import override
from elmore.pretrain.recipes import find_recipe
from elmore.pretrain.run import pretrain

GERMAN = {"hund": "dog", "katze": "cat", "haus": "house", "läuft": "runs", "schläft": "sleeps"}
ADJECTIVES = {"großer": "big", "kleiner": "small", "roter": "red"}


def pairs() -> list[tuple[str, str]]:
    found = []
    for adjective, big in ADJECTIVES.items():
        for noun in ("hund", "katze", "haus"):
            for verb in ("läuft", "schläft"):
                source = f"Ein {adjective} {noun} {verb}."
                found.append((source, f"A {big} {GERMAN[noun]} {GERMAN[verb]}."))
    return found


def write_texts(folder: Path) -> None:
    """train, dev and test in both forms: tab-separated, and as two files."""
    for name, some in (("train", pairs()), ("dev", pairs()[::5]), ("test", pairs()[1::5])):
        (folder / f"{name}.tsv").write_text("".join(f"{s}\t{t}\n" for s, t in some))
        (folder / f"{name}.de").write_text("".join(f"{s}\n" for s, _ in some))
        (folder / f"{name}.en").write_text("".join(f"{t}\n" for _, t in some))


def write_lm(
    text: Path, output: Path, *settings: str, steps: int = 3, vocabulary: Path | None = None
) -> Path:
    small = [
        "model.context.dim=16", "model.context.cell_dim=16", "loop.minutes=null",
        f"loop.steps={steps}", "vocabulary.size=300", "batches.pieces=100", "batches.longest=30",
        "loop.checkpoint_minutes=60",
    ]  # fmt: skip
    config = override(find_recipe("causal-laptop"), [*small, *settings])
    pretrain([text], output, config, vocabulary=vocabulary)
    return output
