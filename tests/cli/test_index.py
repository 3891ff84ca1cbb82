"""`elmore index`, `neighbors` and `senses` from the outside."""

from pathlib import Path

import pytest
from rich.cells import cell_len

from elmore.cli.concordance import line
from elmore.cli.main import main
from elmore.embedder import Embedder
from elmore.search import build as building
from elmore.search.index import Index
from elmore.search.index_writer import IndexWriter
from elmore.search.manifest import ModelSource
from elmore.uses.use import Use
from tests.search.corpora import corpus
from tests.tiny_models import Tiny

CHINESE = ["我 在 银行 存 钱", "河 边 的 银行 关门 了", "他 去 银行 取 钱"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "corpus.txt"
    lines = [" ".join(words) for words in corpus(30)]
    path.write_text("\n".join([*lines, "", *CHINESE]), encoding="utf-8")
    return path


@pytest.fixture
def folder(text: Path, tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("COLUMNS", "70")
    target = tmp_path / "i"
    assert run("index", text, "--model", tiny_model, "--output", target, "--quiet") == 0
    return target


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    capsys.readouterr()
    assert run(*arguments) == 2
    err = capsys.readouterr().err
    assert err.startswith("elmore: ")
    assert err.count("\n") == 1
    return err


def test_index_says_what_it_made(
    text: Path, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    target = tmp_path / "i"
    make = ["index", text, "--model", tiny_model, "--output", target, "--words", 5, "--uses", 4]
    assert run(*make, "--keep", "all") == 0
    assert "20 uses of 5 words in " in capsys.readouterr().err
    index = Index.open(target)
    assert (len(index.words), index.layers) == (5, (0, 1, 2))
    assert "complete already" in refused(capsys, *make, "--keep", "all")


def test_raw_text_is_tokenised_when_asked(tmp_path: Path, tiny_model: Path):
    raw = tmp_path / "raw.txt"
    raw.write_text("The bank isn't open.\n", encoding="utf-8")
    for name, more in (("a", []), ("b", ["--tokenize"])):
        make = ["index", raw, "--model", tiny_model, "--output", tmp_path / name, "--quiet"]
        assert run(*make, *more) == 0
    assert set(Index.open(tmp_path / "a").words) == {"The", "bank", "isn't", "open."}
    assert set(Index.open(tmp_path / "b").words) == {"The", "bank", "is", "n't", "open", "."}


def test_neighbors_shows_uses_and_what_lies_near_without_context(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert run("neighbors", folder, "the bank near the river", "--word", "bank", "-k", 3) == 0
    out = capsys.readouterr().out.splitlines()
    assert "nearest uses" in out[0]
    assert "without context" in out[0]
    assert len(out) == 4
    want = Index.open(folder).static_neighbors("bank", 3)
    for row, near in zip(out[1:], want, strict=True):
        assert " bank " in row
        assert row.rstrip().endswith(near.word)
        assert cell_len(row) <= 70
    scores = [float(row.split()[0]) for row in out[1:]]
    assert scores == sorted(scores, reverse=True)


def test_neighbors_loads_the_model_as_the_index_was_built_with_it(
    text: Path, tmp_path: Path, tiny: Tiny, capsys: pytest.CaptureFixture[str]
):
    options = tmp_path / "elsewhere.json"
    options.write_bytes(tiny.options_path.read_bytes())
    weights = tmp_path / "w.hdf5"
    weights.write_bytes(tiny.weights.read_bytes())
    model = ["--model", weights, "--options", options, "--precision", "int8"]
    assert run("index", text, *model, "--output", tmp_path / "i", "--quiet") == 0
    ask = ["neighbors", tmp_path / "i", "the bank", "--word", "bank"]
    assert run(*ask) == 0
    weights.rename(tmp_path / "moved.hdf5")
    assert "w.hdf5" in refused(capsys, *ask)
    assert run(*ask, "--model", tmp_path / "moved.hdf5") == 0


def test_neighbors_downloads_nothing_because_an_index_says_so(
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
):
    monkeypatch.setenv("ELMORE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("ELMORE_MIRROR", "http://localhost:9")  # nobody answers
    embedder = Embedder.load(tiny_model, device="cpu")
    source = ModelSource(name="elmo-small")
    Index.build([["the", "bank"]], embedder, tmp_path / "i", source=source)
    line = refused(capsys, "neighbors", tmp_path / "i", "the bank", "--word", "bank")
    assert "run `elmore download elmo-small` first" in line


def test_neighbors_in_chinese_and_across_all_words(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("jieba")
    assert run("neighbors", folder, "他在银行工作", "--word", "银行") == 0
    assert capsys.readouterr().out.count("银行") == 3
    assert run("neighbors", folder, "他在银行工作", "--word", "工作", "--all-words", "-k", 7) == 0
    assert len(capsys.readouterr().out.splitlines()) == 8


def test_senses_shows_typical_uses_and_what_lies_near_without_context(
    folder: Path, capsys: pytest.CaptureFixture[str]
):
    assert run("senses", folder, "the", "--typical", 2) == 0
    about, _, after = capsys.readouterr().out.partition("\nwithout context: ")
    out = about.splitlines()
    assert out[0].startswith("the 1, ")
    assert sum(row[69 * 9 // 20 :].startswith("the ") for row in out) >= 2
    assert [word.strip() for word in after.split(",")] == [
        near.word for near in Index.open(folder).static_neighbors("the")
    ]


def test_mistakes_are_told_in_one_line(
    folder: Path, text: Path, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    ask = ["neighbors", folder, "the bank"]
    assert "'river' is not a word of the sentence" in refused(capsys, *ask, "--word", "river")
    assert "--layer is 'last'" in refused(capsys, *ask, "--word", "bank", "--layer", "last")
    assert "layer is 1, but the index keeps the average" in refused(
        capsys, *ask, "--word", "bank", "--layer", 1
    )
    assert "not an indexed word" in refused(capsys, "senses", folder, "zebra")
    assert "not an index" in refused(capsys, "senses", tmp_path, "bank")
    make = ["index", "--model", tiny_model, "--output", tmp_path / "j"]
    assert "no such file" in refused(capsys, *make, tmp_path / "absent")
    assert "read more than once" in refused(capsys, *make, "-")


@pytest.mark.parametrize("width", [20, 41, 80])
@pytest.mark.parametrize(
    "words",
    [
        ["the"] * 30 + ["bank"] + ["river"] * 30,
        ["bank"],
        ["银行"] * 40,
        ["a", "x" * 200, "b"],
        ["a\x1b[2J", "bank\n", "\ud800"],
    ],
)
def test_a_line_fits_its_width_with_the_word_in_its_place(words: list[str], width: int):
    use = Use(tuple(words), len(words) // 2, id=0)
    text = line(use, width)
    assert cell_len(text.plain) <= width
    (span,) = text.spans
    assert cell_len(text.plain[: span.start]) == width * 9 // 20
    assert not {"\x1b", "\n", "\ud800"} & set(text.plain)


# Adding, replacing, verifying ---------------------------------------------------------------------


def test_sentences_are_added_once(
    text: Path, folder: Path, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    more = tmp_path / "more.txt"
    more.write_text("a quite new bank\n" + text.read_text(encoding="utf-8"), encoding="utf-8")
    add = ["index", more, "--model", tiny_model, "--output", folder, "--add"]
    for words in ("4 words embedded", "0 words embedded"):
        assert run(*add) == 0
        assert words in capsys.readouterr().err
    new = "a quite new bank"
    assert new in [use.sentence for use in Index.open(folder).uses("bank")]
    assert "quite" not in Index.open(folder)  # only the listed words are indexed
    assert run("index", "compact", folder, "--quiet") == 0
    assert len(Index.open(folder).manifest.segments) == 1
    assert "--words cannot be given with --add" in refused(capsys, *add, "--words", 5)
    assert "give one of them" in refused(capsys, *add, "--force")
    assert "not an index" in refused(capsys, *add[:-2], tmp_path / "absent", "--add")
    with IndexWriter(folder):
        assert "is writing to it" in refused(capsys, *add)


def test_an_index_is_replaced_when_asked(
    text: Path, folder: Path, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    other = tmp_path / "other.txt"
    other.write_text("only this bank\n", encoding="utf-8")
    make = ["index", other, "--model", tiny_model, "--output", folder]
    assert "replace it (--force)" in refused(capsys, *make)
    assert run(*make, "--force") == 0
    assert Index.open(folder).words == ["bank", "only", "this"]
    assert (
        run(*make[:-1], tmp_path / "new", "--force", "--quiet") == 0
    )  # there is nothing to replace


def test_a_build_with_another_number_of_words_is_refused(
    text: Path, tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]
):
    make = ["index", text, "--model", tiny_model, "--output", tmp_path / "i"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(building, "compact", interrupt)
        assert run(*make) == 130
    said = refused(capsys, *make, "--words", 5)
    assert "has words the 20,000 most frequent words, not the 5 most frequent words" in said
    adding = refused(capsys, *make[:2], "--model", tiny_model, "--output", tmp_path / "k", "--add")
    assert "not an index" in adding
    assert run(*make, "--quiet") == 0


def interrupt(_: object) -> None:
    raise KeyboardInterrupt


def test_verify_says_what_is_damaged(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert run("index", "verify", folder) == 0
    assert capsys.readouterr().out.rstrip().endswith("all intact")
    (vectors,) = folder.rglob("vectors-0.bin")
    data = bytearray(vectors.read_bytes())
    data[100] ^= 1
    vectors.write_bytes(data)
    assert run("index", "verify", folder) == 2
    out, err = capsys.readouterr()
    assert "vectors-0.bin: 1 of 1 blocks are damaged" in out
    assert "1 files are damaged; restore" in err
    old = Path(__file__).parents[1] / "before" / "indexes" / "mix"
    assert run("index", "verify", old) == 0
    assert "no checksums in words.txt, " in capsys.readouterr().out


def test_the_help_of_index_is_that_of_building_and_names_the_others(
    capsys: pytest.CaptureFixture[str],
):
    assert run("index", "--help") == 0
    out = capsys.readouterr().out
    for said in ("--model", "--add", "--force", "elmore index verify"):
        assert said in out


def test_the_top_layer_is_the_last_one(
    folder: Path, text: Path, tiny_model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    made = ["index", text, "--model", tiny_model, "--output", tmp_path / "all", "--keep", "all"]
    assert run(*made, "--quiet") == 0
    for ask in (
        ["neighbors", tmp_path / "all", "the bank near the river", "--word", "bank"],
        ["senses", tmp_path / "all", "bank"],
    ):
        told = []
        for layer in ("top", "2", "0"):
            assert run(*ask, "--layer", layer) == 0
            told.append(capsys.readouterr().out)
        assert told[0] == told[1]
    told = refused(capsys, "senses", folder, "bank", "--layer", "top")
    assert "layer is 2, but the index keeps" in told
