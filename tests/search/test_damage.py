"""A damaged index says so, in one line: no wrong answer in silence, no traceback, no hang."""

import shutil
from functools import partial
from pathlib import Path

import pytest

from elmore.errors import FormatError
from elmore.search import approximate
from elmore.search.index import Index
from elmore.search.verify import verify
from tests.search.damage import answers, made, mutants, old_answers, tried
from tests.store.waves import waves

BEFORE = Path(__file__).parents[1] / "before" / "indexes"


@pytest.mark.parametrize("n", [42, pytest.param(420, marks=pytest.mark.slow)])
def test_no_damage_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n: int):
    monkeypatch.setattr(approximate, "LEAST_USES", 100)
    folder, ask = made(tmp_path / "i", waves()), partial(answers, source=waves())
    assert (folder / "approximate-00000").exists()
    want = ask(folder)
    (folder / "lock").unlink()
    assert verify(folder).damages == verify(folder).unchecked == []
    n_told = 0
    for one in mutants(folder, n):
        found = tried(folder, tmp_path / "m", ask, want, one)
        assert found.answered != "other", one
        assert found.damages or found.answered == "same", one
        if one.kind != "longer":  # what follows the end of a file is never read
            assert bool(found.damages) == found.changed, one
        n_told += found.answered == "told"
    assert n_told > n // 2


@pytest.mark.parametrize("n", [24, pytest.param(240, marks=pytest.mark.slow)])
def test_damage_without_checksums_is_no_traceback(tmp_path: Path, n: int):
    """Version 2 has none: some damage cannot be seen, and all that is seen is one line."""
    folder = tmp_path / "old"
    shutil.copytree(BEFORE / "layers", folder)
    every = mutants(folder, n)
    want = old_answers(shutil.copytree(folder, tmp_path / "same"))
    found = [tried(folder, tmp_path / "m", old_answers, want, one) for one in every]
    assert sum(outcome.answered == "told" for outcome in found) > n // 4


def test_an_old_index_gets_its_checksums_when_it_is_compacted(tmp_path: Path):
    folder = shutil.copytree(BEFORE / "mix", tmp_path / "i")
    found = verify(folder)
    assert found.damages == []
    assert set(found.unchecked) == {"words.txt", "counts.bin", "centre.bin", "segment-00000"}
    uses = Index.open(folder).uses("the")
    index = Index.open(folder)
    index.compact()
    assert verify(folder).unchecked == verify(folder).damages == []
    assert [(use.words, use.position) for use in index.uses("the")] == [
        (use.words, use.position) for use in uses
    ]


def test_a_damaged_block_is_told_when_it_is_read_and_not_before(tmp_path: Path):
    index = Index.build(
        [[f"w{i // 9}", "x", "y"] for i in range(5000)], waves(), tmp_path / "i", max_uses=9
    )
    (path,) = (tmp_path / "i").rglob("sentences.txt")
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)
    opened = Index.open(tmp_path / "i")
    assert opened.uses("w0") == index.uses("w0")
    last = max(index.words, key=lambda word: int(word[1:]) if word[0] == "w" else 0)
    with pytest.raises(FormatError, match=r"sentences\.txt: damaged, its checksum does not"):
        opened.uses(last)
    (line,) = verify(tmp_path / "i").damages
    assert "sentences.txt: 1 of 3 blocks are damaged" in line


def test_damaged_approximate_indexes_are_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(approximate, "LEAST_USES", 100)
    folder = made(tmp_path / "i", waves())
    index = Index.open(folder, waves())
    index.compact()
    (path,) = folder.rglob("mix.faiss")
    path.write_bytes(b"x" * path.stat().st_size)
    opened = Index.open(folder, waves())
    with pytest.raises(FormatError, match=r"mix\.faiss: damaged; `elmore index compact .* builds"):
        opened.neighbors(["the", "bank"], 1, same_word=False)
    opened.compact()
    assert verify(folder).damages == []
    assert len(opened.neighbors(["the", "bank"], 1, 5, same_word=False)) == 5
