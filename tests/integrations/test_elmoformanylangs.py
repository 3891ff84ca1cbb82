"""The drop-in for ELMoForManyLangs: ten pieces of code as people write them, against the oracle and
against numbers that the original program wrote."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from elmore.errors import ConfigError, InputError
from elmore.integrations.elmoformanylangs import Embedder, embed_file, main, read_input
from tests.checkpoint.foreign_models import CHAR_DIC, MANYLANGS, WORD_DIC, make_manylangs
from tests.oracle import manylangs
from tests.shared import SHARED, needs

SENTS = [["the", "river", "bank", "."], ["今", "天"], ["the"]]
CONLLU = """# sent_id = 1
1\tthe\tthe\tDET\t_\t_\t2\tdet\t_\t_
2-3\triverbank\t_\t_\t_\t_\t_\t_\t_\t_
2\triver\triver\tNOUN\t_\t_\t3\tcompound\t_\t_
3\tbank\tbank\tNOUN\t_\t_\t0\troot\t_\t_
3.1\tempty\t_\t_\t_\t_\t_\t_\t_\t_

1\t今 天\t今天\tNOUN\t_\t_\t0\troot\t_\t_
"""


class Model:
    def __init__(self, folder: Path):
        self.folder, self.W = folder, make_manylangs(folder)

    def layers(self, words: list[str]) -> np.ndarray[Any, Any]:
        return np.asarray(manylangs.layers(self.W, MANYLANGS, words, WORD_DIC, CHAR_DIC)[0])


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return Model(tmp_path / "xx.model")


def close(found: Any, expected: Any) -> None:
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5)


def test_1_one_array_per_sentence_of_its_own_length(model: Model):
    found = Embedder(str(model.folder)).sents2elmo(SENTS)
    assert [(v.shape, v.dtype) for v in found] == [((len(s), 16), np.float32) for s in SENTS]


def test_2_the_default_is_the_average(model: Model):
    for words, vectors in zip(SENTS, Embedder(model.folder, 64).sents2elmo(SENTS), strict=True):
        close(vectors, model.layers(words).mean(axis=0))


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_3_one_layer(model: Model, layer: int):
    found = Embedder(model.folder, batch_size=2).sents2elmo(SENTS, output_layer=layer)
    for words, vectors in zip(SENTS, found, strict=True):
        close(vectors, model.layers(words)[layer])


def test_4_all_layers(model: Model):
    found = Embedder(model.folder).sents2elmo(SENTS, -2)
    assert found[0].shape == (3, 4, 16)
    close(found[1], model.layers(SENTS[1]))


def test_5_the_same_call_again_gives_the_same(model: Model):
    embedder = Embedder(model.folder)
    for one, two in zip(embedder.sents2elmo(SENTS), embedder.sents2elmo(SENTS), strict=True):
        assert np.array_equal(one, two)


def test_6_plain_text_by_tabs_or_spaces(tmp_path: Path):
    path = tmp_path / "in.txt"
    path.write_text("the\triver bank\n\na b c\n", encoding="utf-8")
    assert list(read_input(path)) == [["the", "river bank"], ["a", "b", "c"]]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("conll", [["the", "river", "bank"], ["今 天"]]),
        ("conll_char", [[*"theriverbank"], ["今", " ", "天"]]),
        ("conll_char_vi", [["the", "river", "bank"], ["今", "天"]]),
    ],
)
def test_7_conllu_without_ranges_and_empty_nodes(tmp_path: Path, kind: Any, expected: Any):
    path = tmp_path / "in.conllu"
    path.write_text(CONLLU, encoding="utf-8")
    assert list(read_input(path, kind)) == expected


def test_8_the_test_command_writes_hdf5_by_its_keys(model: Model, tmp_path: Path):
    path = tmp_path / "in.txt"
    path.write_text("the\triver\tbank\t.\nthe\n今\t/\nthe\n", encoding="utf-8")
    options = ["--model", str(model.folder), "--output_prefix", str(tmp_path / "out")]
    code = main(["test", "--input", str(path), *options, "--output_layer=-1,0", "--gpu", "0"])
    assert code == 0
    with h5py.File(tmp_path / "out.ly-1.hdf5") as file, h5py.File(tmp_path / "out.ly0.hdf5") as low:
        assert set(file) == {"the\triver\tbank\t$period$", "the", "今\t$backslash$"}
        close(file["the\triver\tbank\t$period$"][...], model.layers(SENTS[0]).mean(axis=0))
        close(low["the"][...], model.layers(["the"])[0])


def test_9_the_test_command_writes_text(model: Model, tmp_path: Path):
    path = tmp_path / "in.conllu"
    path.write_text(CONLLU, encoding="utf-8")
    (written,) = embed_file(
        model.folder, path, str(tmp_path / "out"), input_format="conll", output_format="txt",
        output_layer="2",
    )  # fmt: skip
    lines = written.read_text(encoding="utf-8").splitlines()
    assert [line.split("\t")[0] for line in lines] == ["the", "river", "bank", "", "今 天", ""]
    numbers = [float(number) for number in lines[1].split("\t")[1:]]
    close(numbers, model.layers(["the", "river", "bank"])[2][1])


@needs("fixtures", "elmoformanylangs")
def test_10_the_originals_own_numbers_first_and_second_call():
    folder = SHARED / "fixtures" / "elmoformanylangs" / "word_and_char.model"
    expected = np.load(next(folder.parent.rglob("expected.npz")))
    sents = json.loads(next(folder.parent.rglob("sentences.json")).read_text(encoding="utf-8"))
    sents = [s.split() if isinstance(s, str) else s for s in sents]
    stateful = Embedder(folder, stateful=True)
    for call in ("first", "second"):
        for i, vectors in enumerate(stateful.sents2elmo(sents, -2)):
            np.testing.assert_allclose(vectors, expected[f"{call}_{i}"], rtol=1e-5, atol=2e-6)
    for i, vectors in enumerate(Embedder(folder).sents2elmo(sents)):
        np.testing.assert_allclose(vectors, expected[f"avg_{i}"], rtol=1e-5, atol=2e-6)


def test_what_does_not_fit_is_said(
    model: Model, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(ConfigError, match="output_layer is 3; expected 0 to 2, -1"):
        Embedder(model.folder).sents2elmo(SENTS, 3)
    with pytest.raises(ConfigError, match="batch_size is 0"):
        Embedder(model.folder, batch_size=0)
    (tmp_path / "in.txt").write_text("no columns here\n")
    with pytest.raises(InputError, match=r"in\.txt, line 1: one column"):
        list(read_input(tmp_path / "in.txt", "conll"))
    with pytest.raises(ConfigError, match="input_format is 'conllu'"):
        list(read_input(tmp_path / "in.txt", "conllu"))  # type: ignore[arg-type]
    given = ["test", "--input", str(tmp_path / "in.txt"), "--model", str(model.folder)]
    assert main([*given, "--output_prefix", str(tmp_path / "x"), "--output_format", "csv"]) == 2
    assert capsys.readouterr().err.startswith("output_format is 'csv'; expected hdf5, txt or both")
    assert not list(tmp_path.glob("x.*"))
