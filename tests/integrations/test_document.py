"""Every example of docs/integrations.md, with the real library where it is installed."""

import contextlib
import io
import re
import shlex
from importlib.util import find_spec
from pathlib import Path

import pytest

from elmore.cli.main import main
from tests.test_documents import BLOCK, ROOT, reader, shown  # noqa: F401

LIBRARIES = {
    "scikit-learn": "sklearn",
    "spaCy": "spacy",
    "sentence-transformers": "sentence_transformers",
    "gensim": "gensim",
    "PyTorch": "torch",
    "LangChain": "langchain_core",
}
SECTIONS = dict(
    re.findall(
        r"^## (.+?)\n(.*?)(?=^## |\Z)",
        (ROOT / "docs" / "integrations.md").read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
)


def test_every_section_is_tried():
    assert SECTIONS.keys() == LIBRARIES.keys()


@pytest.mark.parametrize("library", LIBRARIES)
def test_an_example_prints_what_it_says(library: str, reader: Path):  # noqa: F811
    if find_spec(LIBRARIES[library]) is None:
        pytest.skip(f"{library} is missing: pip install 'elmore[integrations]'")
    printed = ""
    for language, text in BLOCK.findall(SECTIONS[library]):
        with contextlib.redirect_stdout(io.StringIO()) as caught:
            match language:
                case "console":
                    assert main(shlex.split(text)[1:]) == 0
                case "python":
                    exec(compile(text, library, "exec"), {"__name__": "example"})
                case "text":
                    assert shown(printed) == shown(text)
        printed = caught.getvalue()
