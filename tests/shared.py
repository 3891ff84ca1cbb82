"""Where the reference models and corpora lie when they are at hand: beside the checkout."""

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[2] / "shared"


def needs(*parts: str) -> pytest.MarkDecorator:
    """Skip, and say so, where a reference file is absent."""
    path = SHARED.joinpath(*parts)
    return pytest.mark.skipif(not path.exists(), reason=f"reference data {'/'.join(parts)} absent")
