"""A table of pieces that begins from counts: the numbers, and that it pays for both objectives."""

from pathlib import Path

import numpy as np
import pytest
import torch

from elmore.pretrain import piece_corpus, piece_start, static_start
from elmore.pretrain.piece_corpus import BREAK, PieceCorpus, write_corpus
from elmore.pretrain.piece_start import PIECE_START, start_table, write_piece_start
from elmore.pretrain.recipes import find_recipe
from elmore.pretrain.run import pretrain

END = 1


@pytest.fixture
def corpus(tmp_path: Path) -> PieceCorpus:
    rng = np.random.default_rng(0)
    sentences = [rng.integers(2, 9, 6).tolist() for _ in range(40)]  # 9 is never met
    write_corpus([sentences], tmp_path / "pieces")
    return PieceCorpus(tmp_path / "pieces")


def test_marks_and_a_break_are_after_every_sentence(tmp_path: Path):
    write_corpus([[[3, 4, 3], [4, 5]], [[6, 7]]], tmp_path / "c")
    corpus = PieceCorpus(tmp_path / "c")
    (whole,) = corpus.chunks(100, END)
    assert whole.tolist() == [3, 4, 3, END, BREAK, 4, 5, END, BREAK, 6, 7]
    assert [part.tolist() for part in corpus.chunks(4)] == [[3, 4, 3, BREAK, 4], [5, BREAK, 6, 7]]


def test_pieces_are_counted_part_by_part(corpus: PieceCorpus, monkeypatch: pytest.MonkeyPatch):
    whole = corpus.counts(10)
    assert whole.sum() == corpus.n_pieces == 240
    monkeypatch.setattr(piece_corpus, "_COUNTED", 7)
    assert corpus.counts(10).tolist() == whole.tolist()


def test_biases_are_log_shares_and_known_rows_are_as_long_as_random_ones(
    corpus: PieceCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(static_start, "_SPARE", 1)
    assert write_piece_start(tmp_path, corpus, (10, 4), 1, END) == []
    torch.manual_seed(0)
    table, bias = torch.randn(10, 4), torch.zeros(10, 1)
    before, usual = table.clone(), table.square().mean().sqrt()
    start_table(table, bias, tmp_path)
    counts = corpus.counts(10) + 1
    counts[END] += 39  # not after the last sentence of the corpus
    np.testing.assert_allclose(bias[:, 0], np.log(counts / counts.sum()), rtol=1e-5)
    assert torch.equal(table[[0, 9]], before[[0, 9]])
    np.testing.assert_allclose(table[1:9].square().mean(1).sqrt(), usual.expand(8), rtol=1e-5)


def test_a_model_without_biases_gets_rows_alone(corpus: PieceCorpus, tmp_path: Path):
    assert "too little text" in write_piece_start(tmp_path, corpus, (10, 4), 1)[0]
    table = torch.ones(10, 4)
    start_table(table, None, tmp_path)
    assert torch.equal(table, torch.ones(10, 4))


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three topics, each with words of its own."""
    rng = np.random.default_rng(0)
    topics = [[f"{a}{b}" for b in "abcdefghij"] for a in "xyz"]
    lines = []
    for _ in range(400):
        topic = topics[rng.integers(3)]
        lines.append(" ".join(f"the {topic[min(9, rng.geometric(0.3))]}" for _ in range(6)))
    path = tmp_path_factory.mktemp("text") / "topics.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(("recipe", "size"), [("bert-laptop", 60), ("causal-laptop", 300)])
def test_a_run_begins_from_the_counts_and_lower(
    recipe: str, size: int, text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(static_start, "_SPARE", 2)
    monkeypatch.setattr(piece_start, "_CHUNK", 1000)
    first = {}
    for start in ("random", "static"):
        losses: list[float] = []
        config = find_recipe(recipe)
        vocabulary = config.vocabulary.model_copy(update={"size": size})
        loop = config.loop.model_copy(update={"steps": 1, "minutes": None, "log_steps": 1})
        changes = {"table_start": start, "vocabulary": vocabulary, "loop": loop}
        if recipe == "bert-laptop":
            changes["model"] = config.model.model_copy(
                update={"dim": 16, "n_layers": 1, "n_heads": 2, "ff_dim": 32}
            )
        else:
            context = config.model.context.model_copy(update={"dim": 16, "cell_dim": 16})
            changes["model"] = config.model.model_copy(update={"context": context})
        pretrain(
            [text],
            tmp_path / start,
            config.model_copy(update=changes),
            report=lambda _, figures, losses=losses: losses.append(
                figures.get("mlm", figures["loss"])
            ),
        )
        first[start] = losses[0]
        assert (tmp_path / start / PIECE_START).exists() == (start == "static")
    assert first["static"] < first["random"] - 0.5


@pytest.mark.parametrize("recipe", ["bert-laptop", "causal-laptop"])
def test_a_run_that_began_otherwise_is_resumed(recipe: str, text: Path, tmp_path: Path):
    """As one of a version in which these recipes began at random."""
    config = find_recipe(recipe)
    loop = config.loop.model_copy(update={"steps": 1, "minutes": None})
    small = {"dim": 16, "n_heads": 2} if recipe == "bert-laptop" else {}
    config = config.model_copy(
        update={
            "loop": loop,
            "vocabulary": config.vocabulary.model_copy(update={"size": 300}),
            "model": config.model.model_copy(update=small),
        }
    )
    pretrain([text], tmp_path / "run", config.model_copy(update={"table_start": "random"}))
    longer = {"loop": loop.model_copy(update={"steps": 2})}
    assert (
        pretrain([text], tmp_path / "run", config.model_copy(update=longer), resume=True).step == 2
    )
