"""The section on substitutes in docs/pretraining.md: its command and its Python run."""

import shlex

import pytest

from elmore.cli.main import main
from tests.test_documents import BLOCK, ROOT, reader  # noqa: F401

TRAIN = "elmore pretrain examples/harbor.txt --output my-elmo --recipe examples/tiny.py:tiny"


@pytest.mark.usefixtures("reader")
def test_the_section_on_substitutes_runs(capsys: pytest.CaptureFixture[str]):
    page = (ROOT / "docs" / "pretraining.md").read_text(encoding="utf-8")
    blocks = BLOCK.findall(page[page.index("\n## Substitutes\n") :])
    assert [language for language, _ in blocks] == ["console", "python"]
    assert main([*shlex.split(TRAIN)[1:], "--quiet"]) == 0
    assert main(shlex.split(blocks[0][1])[1:]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert len(listed) == 5
    exec(compile(blocks[1][1], "pretraining.md", "exec"), {})
    assert capsys.readouterr().out.count("\n") == 2
    assert listed[0].split()[1] == "bank"  # the model has learned this small text by heart
