"""The documents tell the truth: every command and every line of Python in them runs, in order, and
prints what they say it prints. Examples run too."""

import contextlib
import io
import json
import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest

from elmore.checkpoint.sources import save
from elmore.cli.main import main
from tests.tiny_bert import tiny_bert
from tests.tiny_gpt2 import tiny_gpt2

TESTS = Path(__file__).resolve().parent
ROOT = TESTS.parent
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALLING = ("git clone", "cd ", "pip install")  # done already, or this would not run


def blocks(document: str | Path) -> list[tuple[str, str]]:
    return BLOCK.findall((ROOT / document).read_text(encoding="utf-8"))


def code(document: str) -> list[tuple[str, str]]:
    """Blocks with a language, without what their comments say."""
    kept = [block for block in blocks(document) if block[0]]
    return [(language, re.sub(r"#.*", "#", text)) for language, text in kept]


def shown(text: str) -> list[str]:
    """Lines without what nobody sees, and without the last digit of a cosine, which is the
    machine's."""
    return [re.sub(r"\b(0\.\d\d)\d\b", r"\1", line.rstrip()) for line in text.splitlines()]


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody with the checkout's examples in front of them."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    trees = ["(3 (2 a) (3 good))", "(1 (2 a) (1 bad))"] * 4
    (tmp_path / "trees.txt").write_text("".join(f"{tree}\n" for tree in trees))
    pair = {"sentence1": "a bank", "sentence2": "a river"}
    pairs = [json.dumps({**pair, "gold_label": label}) for label in ("neutral", "contradiction")]
    (tmp_path / "pairs.jsonl").write_text("\n".join(4 * pairs))
    monkeypatch.chdir(tmp_path)
    return tmp_path


DOCUMENTS = [
    "README.md", "README.zh-CN.md", "docs/cli.md", "docs/bert.md", "docs/models.md",
    "docs/sharing.md", "docs/lens.md", "docs/gpt2.md", "docs/static.md", "docs/install.md",
    "docs/quickstart.md",
]  # fmt: skip


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_block_of_a_document_runs_and_prints_what_it_says(document: str, reader: Path):
    save(tiny_bert(max_positions=64), reader / "my-bert")
    save(tiny_gpt2(), reader / "my-gpt2")
    printed, names = "", {"__name__": "readme"}
    for language, text in blocks(document):
        match language:
            case "console":
                with contextlib.redirect_stdout(io.StringIO()) as caught:
                    for command in text.splitlines():
                        if not command.startswith(INSTALLING):
                            assert main(shlex.split(command)[1:]) == 0, command
                printed = caught.getvalue()
            case "python":
                with contextlib.redirect_stdout(io.StringIO()) as caught:
                    exec(compile(text, document, "exec"), names)
                printed = caught.getvalue()
            case "text":
                assert shown(printed) == shown(text)


def test_every_page_with_code_is_named_by_a_test():
    named = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    for page in (ROOT / "docs").rglob("*.md"):
        has_code = {"console", "python"} & {language for language, _ in blocks(page)}
        is_copy = page.parent.name == "zh" and (ROOT / "docs" / page.name).exists()
        if has_code and not is_copy:
            assert f'{page.name}"' in named, page.name


@pytest.mark.parametrize("page", sorted((ROOT / "docs" / "zh").glob("*.md")), ids=lambda p: p.stem)
def test_a_chinese_page_has_only_code_of_the_english_page(page: Path):
    document = page.relative_to(ROOT).as_posix()
    english = document.replace("/zh/", "/")
    if (ROOT / english).exists():  # else it is Chinese only, and has a test of its own
        assert [block for block in code(document) if block not in code(english)] == []


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) < 1_300


def test_the_two_readmes_have_the_same_blocks():
    """But for the Chinese example and its output, with which the Chinese one begins."""
    example, output, *shared = code("README.zh-CN.md")
    assert "small-zh" in example[1]
    assert output[0] == "text"
    assert code("README.md") == shared


def test_the_two_readmes_have_the_same_headings_and_tables():
    def shape(document: str) -> list[str]:
        lines = (ROOT / document).read_text(encoding="utf-8").splitlines()
        return [line.split()[0] for line in lines if line.startswith(("#", "|"))]

    assert shape("README.md") == shape("README.zh-CN.md")


def test_the_quickstart_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.syspath_prepend(ROOT / "examples")
    runpy.run_path(str(ROOT / "examples" / "quickstart.py"), run_name="__main__")
    assert "1.00   1.00   1.00   1.00" in capsys.readouterr().out  # layer 0 knows no context
