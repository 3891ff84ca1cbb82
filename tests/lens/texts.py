"""A small corpus with a structure that a lens can learn: two topics, and words between them."""

import random
from pathlib import Path

from elmore.lens.config import LensConfig
from elmore.train.loop import LoopConfig
from elmore.train.optimizer import AdamWConfig
from elmore.train.schedule import LinearSchedule

RIVER = "river water grass boat fish shore".split()
MONEY = "money loan account cash interest debt".split()
BETWEEN = "bank the of we sat a".split()


def write_corpus(path: Path, n_lines: int = 300) -> Path:
    chance = random.Random(0)
    lines = []
    for _ in range(n_lines):
        topic = chance.choice((RIVER, MONEY))
        lines.append(" ".join(chance.choice((*topic, *BETWEEN)) for _ in range(10)))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def tiny_config(**changed: object) -> LensConfig:
    """Learned in well under a second: 24 steps."""
    loop = LoopConfig(
        optimizer=AdamWConfig(lr=1e-1),
        schedule=LinearSchedule(warmup=0.0),
        clip=None,
        checkpoint_minutes=1e-9,  # after every step
        log_steps=1,
        keep=1,
    )
    settings = {"words": 3_000, "batch_words": 128, "samples": 16, "min_count": 1, "frequent": 1.0}
    return LensConfig(**{"loop": loop, **settings, **changed})  # type: ignore[arg-type]
