"""Translation and summaries as tasks: what is taken from the language models, the commands, and
what is said when something does not fit.
"""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from elmore.checkpoint.causal import causal_lm
from elmore.checkpoint.sources import load
from elmore.cli.main import main
from elmore.config import override
from elmore.errors import ConfigError, InputError
from elmore.models.causal import CausalLM
from elmore.nn.beam_search import Hypothesis
from elmore.tasks.encoded import Dims
from elmore.tasks.fit import fit
from elmore.tasks.generation import Translate
from elmore.tasks.generation_config import STARTS
from elmore.tasks.generation_head import GenerationHead, tokens_of
from elmore.tasks.model import TaskModel
from elmore.tasks.readers.texts import Text, read_sources, read_texts
from elmore.tasks.recipes import FitConfig, find_task
from elmore.tasks.scorers.generated_text import bleu_score, rouge_score
from elmore.text.causal_reader import padded
from tests.tasks.tiny_texts import pairs, write_lm, write_texts

pytest.importorskip("tokenizers")
pytest.importorskip("sacrebleu")
pytest.importorskip("rouge_score")
SMALL = ["task.dim=16", "task.vocabulary=300", "task.search.beam=2", "task.search.max_length=20"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Texts, and a language model of each side with a vocabulary in common."""
    found = tmp_path_factory.mktemp("texts")
    write_texts(found)
    both = found / "both.txt"
    both.write_text((found / "train.de").read_text() + (found / "train.en").read_text())
    write_lm(found / "train.de", found / "lm-de")
    write_lm(found / "train.en", found / "lm-en")
    return found


def config(folder: Path, *settings: str, name: str = "translate", lms: bool = True) -> FitConfig:
    given = [f'task.{side}_lm="{folder}/lm-{lang}"' for side, lang in
             (("source", "de"), ("target", "en"))] if lms else []  # fmt: skip
    return override(find_task(name), [*SMALL, *given, "epochs=1", "batch=6", *settings])


def texts(folder: Path, name: str) -> list[Text]:
    return list(read_texts(folder / f"{name}.tsv").examples)


def head_of(folder: Path, *settings: str) -> GenerationHead:
    task = config(folder, *settings).task
    assert isinstance(task, Translate)
    train = texts(folder, "train")
    torch.manual_seed(5)
    head = task.head(task.start(train), Dims(0))
    head.prepare(train)
    return head


def same(one: CausalLM, other: CausalLM) -> tuple[bool, bool]:
    """Whether the model and the softmax are equal to the bit."""
    theirs = other.causal.state_dict()
    model = all(torch.equal(t, theirs[name]) for name, t in one.causal.state_dict().items())
    softmax = torch.equal(one.softmax.weight, other.softmax.weight)
    return model, softmax and torch.equal(one.softmax.bias, other.softmax.bias)


@pytest.mark.parametrize("start", STARTS)
def test_each_start_takes_what_it_says(folder: Path, start: str):
    head, expected = head_of(folder, f"task.from_lms={start}"), STARTS[start]
    source, target = (
        causal_lm(load(folder / f"lm-{lang}", heads=True), lang) for lang in ("de", "en")
    )
    assert same(head.model.source, source)[0] == expected.encoder
    assert same(head.model.target, target) == (expected.decoder, expected.softmax)
    assert bool(head.lines) == expected.lm_loss
    if start == "both":  # and then the first steps are the language model's
        batch = [Text(("Ein", "haus"), ("A dog",))]
        ids = head._tensors(padded([head._target(example) for example in batch]))
        sources = head._tensors(padded([head._source(example) for example in batch]))
        memory, upper = head.eval().model.encode(*sources)
        found = head.model.decode(ids[0][:, :-1], ids[1] - 1, memory, upper)
        assert torch.equal(found.h, target.causal.run(ids[0][:, :-1], ids[1] - 1)[0][-1])


@pytest.mark.parametrize("start", STARTS)
def test_what_is_taken_can_have_a_rate_of_its_own(folder: Path, start: str):
    assert head_of(folder, f"task.from_lms={start}").groups() == []
    head, expected = head_of(folder, f"task.from_lms={start}", "task.lm_rate=0.1"), STARTS[start]
    slow = {id(p) for group in head.groups() for p in group.parameters}
    assert all(group.rate == 0.1 for group in head.groups())
    model = head.model
    taken = {
        model.source.causal.pieces.weight: expected.encoder,
        model.target.causal.pieces.weight: expected.decoder,
        model.target.softmax.weight: expected.softmax,
        model.out.weight: False,
        model.attention.key.weight: False,
    }
    assert {id(p): id(p) in slow for p in taken} == {id(p): was for p, was in taken.items()}


def test_the_language_models_losses_are_added(folder: Path):
    head = head_of(folder, "task.source_lm_loss=0.3", "task.target_lm_loss=0.7")
    batch = texts(folder, "dev")
    places = [[] for _ in batch]
    head.eval()
    alone = head.loss([], places, batch)
    head.train()
    for module in head.modules():
        if hasattr(module, "p"):
            module.p = 0.0
    torch.manual_seed(7)
    joint = head.loss([], places, batch)
    torch.manual_seed(7)
    n_pieces = {
        "source": sum(len(head._source(text)) for text in batch),
        "target": sum(len(head._target(text)) for text in batch),
    }
    own = sum(
        weight * loss / count
        for weight, (loss, count) in (
            (weight, model.loss(*head._tensors(head.lines[side].draw(n_pieces[side]))))
            for side, model, weight in (
                ("source", head.model.source, 0.3),
                ("target", head.model.target, 0.7),
            )
        )
    )
    torch.testing.assert_close(joint, alone + own, rtol=1e-5, atol=1e-5)
    assert type(head.lines["target"]).__name__ == "RunLines"


def test_a_language_model_without_its_text_is_said(folder: Path, tmp_path: Path):
    (checkpoint,) = sorted((folder / "lm-de" / "checkpoints").iterdir())[-1:]
    converted = tmp_path / "no-text"
    assert main(["convert", str(folder / "lm-de"), str(converted)]) == 0
    for source in (checkpoint, converted):
        head = head_of(folder, f'task.source_lm="{source}"')
        (note,) = head.notes(texts(folder, "dev"))
        assert f"{source} has no readable text of its run" in note
        assert "source language model reads the training pairs" in note
        unused = head_of(folder, f'task.source_lm="{source}"', "task.source_lm_loss=0")
        assert unused.notes(texts(folder, "dev")) == ()
    assert head_of(folder).notes(texts(folder, "dev")) == ()


@pytest.mark.parametrize("side", ["source", "target"])
def test_the_language_models_read_as_many_pieces_as_the_pairs(folder: Path, side: str):
    """Lines of the language model may be much longer than the pairs."""
    drawn = [int(head_of(folder).lines[side].draw(500)[1].sum()) for _ in range(20)]
    assert 400 < np.mean(drawn) < 600


def test_a_resumed_training_has_the_same_bits(folder: Path, tmp_path: Path):
    train, dev = texts(folder, "train"), texts(folder, "dev")
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    two = config(folder, "epochs=2", "patience=9")
    fit(two, train, dev, whole)

    class Stop(Exception):
        """After the first epoch."""

    def stop(report) -> None:
        if report.epoch == 2:
            raise Stop

    with pytest.raises(Stop):
        fit(two, train, dev, parts, report=stop)
    fit(two, train, dev, parts, resume=True)
    files = [f / "checkpoints" / "epoch-002" / "model.safetensors" for f in (whole, parts)]
    assert files[0].read_bytes() == files[1].read_bytes()


def test_it_learns_to_translate(folder: Path, tmp_path: Path):
    settings = ["task.dim=32", "task.dropout=0", "epochs=40", "lr=0.01", "batch=3"]
    settings += ["patience=50", "halve_after=50", "task.search.beam=1"]
    train = texts(folder, "train")
    fitted = fit(config(folder, *settings, lms=False), train, train[::3], tmp_path / "mt")
    assert fitted.dev.figures["BLEU"] > 90
    again = TaskModel.load(tmp_path / "mt")
    (found,) = again.predict([Text(tuple("Ein roter hund schläft.".split()))])
    assert found.text == "A red dog sleeps."


def test_the_commands(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    files = [f"{folder}/{name}.de,{folder}/{name}.en" for name in ("train", "dev", "test")]
    small = [part for s in (*SMALL, "batch=6") for part in ("--set", s)]
    model, lms = str(tmp_path / "mt"), ["--source-lm", str(folder / "lm-de")]
    lms += ["--target-lm", str(folder / "lm-en")]
    train = ["task", "train", "translate", "--train", files[0], "--dev", files[1], *small, *lms]
    assert main([*train, "--epochs", "1", "--output", model, "--quiet"]) == 0
    (tmp_path / "in.txt").write_text("Ein hund.\n\nEin haus läuft.\n")
    predict = ["task", "predict", "translate", str(tmp_path / "in.txt"), "--model", model]
    capsys.readouterr()
    assert main([*predict, "--quiet", "--text"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert lines[1] == ""
    assert main([*predict, "--quiet", "--n-best", "2", "--attention"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [len(row.get("n_best", [])) for row in rows] == [2, 0, 2]
    assert rows[0]["output"] == lines[0] == rows[0]["n_best"][0]["output"]
    assert len(rows[0]["attention"]) == len(rows[0]["pieces"])
    for weights in rows[0]["attention"]:
        assert len(weights) == len(rows[0]["source_pieces"])
        assert sum(weights) == pytest.approx(1, abs=0.01)
    (tmp_path / "in.txt").write_text("\nEin hund.\n")
    assert main([*predict, "--quiet", "--picture", str(tmp_path / "looked.svg")]) == 0
    capsys.readouterr()
    assert "▁E" in (tmp_path / "looked.svg").read_text()  # of the first text that is not blank
    evaluate = ["task", "evaluate", "translate", "--model", model, "--test", files[2]]
    assert main([*evaluate, "--set", "task.longest_source=2"]) == 0
    assert "sources are longer than 2 pieces and are cut" in capsys.readouterr().err
    assert main([*evaluate, "--set", "search.beam=3"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("BLEU ")
    assert "tok:13a" in err
    assert main([*evaluate, "--set", "dim=3"]) == 2
    assert "fixed by the training" in capsys.readouterr().err
    output = tmp_path / "compared"
    compared = ["compare", "translate", "--encoders", "none,both,both-no-softmax", *lms, *small]
    compared += ["--train", files[0], "--dev", files[1], "--test", files[2], "--seeds", "1"]
    assert main([*compared, "--epochs", "1", "--quiet", "--output", str(output)]) == 0
    results = [json.loads(path.read_text()) for path in (output / "results").iterdir()]
    assert {row["trial"]["encoder"] for row in results} == {"none", "both", "both-no-softmax"}
    assert all(row["kind"] == "done" and "BLEU" in row["scores"] for row in results)


def test_a_pretrained_encoder_is_added(folder: Path, tmp_path: Path, tiny_model: Path):
    settings = [f'encoder.source="{tiny_model}"', "task.from_lms=both"]
    fitted = fit(config(folder, *settings), texts(folder, "train"), texts(folder, "dev"),
                 tmp_path / "mt")  # fmt: skip
    assert fitted.model.head.model.vectors is not None
    again = TaskModel.load(tmp_path / "mt")
    examples = texts(folder, "test")
    assert [o.text for o in again.predict(examples)] == [
        o.text for o in fitted.model.predict(examples)
    ]
    assert [o.text for o in again.predict([Text(()), Text(())])] == ["", ""]  # only blank lines


def test_pieces_stand_with_their_tokens(folder: Path):
    head, source = head_of(folder), ("Ein", "haus,", "läuft.")
    tokens = tokens_of(source)
    assert tokens == ("Ein", "haus", ",", "läuft", ".")
    pieces = [head.from_pieces.piece(i) for i in head._source(Text(source))]
    by_token: dict[int, str] = {}
    for piece, owner in zip(pieces, head._token_of(Text(source)), strict=True):
        by_token[owner] = by_token.get(owner, "") + piece.removeprefix("▁")
    marks, *found = (by_token[i] for i in range(len(tokens) + 1))
    assert marks == "<s></s>"
    assert found[0] == "Ein"
    assert found[2] == ","


def test_unknown_words_are_the_ones_looked_at(folder: Path, tmp_path: Path):
    words = ['vocabulary.kind="words"', "vocabulary.min_count=7"]
    write_lm(folder / "train.de", tmp_path / "de", *words)
    write_lm(folder / "train.en", tmp_path / "en", *words)
    task = override(
        find_task("translate"),
        [f'task.source_lm="{tmp_path}/de"', f'task.target_lm="{tmp_path}/en"'],
    ).task
    assert isinstance(task, Translate)
    train = texts(folder, "train")
    head = task.head(task.start(train), Dims(0)).eval()
    unknown = head.to_pieces.vocabulary.unknown
    looked = torch.tensor([[0.9, 0.0, 0.1, 0.0, 0.0], [0.0, 0.2, 0.2, 0.6, 0.0]])
    found = Hypothesis((unknown, unknown), 0.0, 0.0, False, looked)
    assert head._text(Text(("Ein", "Zebra", "tanzt")), found) == "Zebra tanzt"


def test_summaries(folder: Path, tmp_path: Path):
    rows = [{"body": f"{s} {s}", "subject": t, "ann": ["A thing.", ""]} for s, t in pairs()]
    path = tmp_path / "train.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = override(find_task("summarize"), [*SMALL, "epochs=1", "task.coverage=0.5"])
    corpus = settings.task.read(path)
    assert corpus.examples[0].references == (pairs()[0][1], "A thing.")
    fitted = fit(settings, corpus.examples, corpus.examples[:4], tmp_path / "summaries")
    score = fitted.model.evaluate(corpus.examples[:4])
    assert list(score.figures) == ["ROUGE-1", "ROUGE-2", "ROUGE-L"]
    assert any("the first 4 words" in note for note in score.notes)


def test_scores_by_hand():
    """A bigram of the reference's three is there, and one of its words is missing."""
    score = rouge_score(["the cat ran"], [["the dogs", "the cat sat down"]])
    assert score.figures["ROUGE-1"] == pytest.approx(100 * 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))
    assert score.figures["ROUGE-2"] == pytest.approx(100 * 2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3))
    same = bleu_score(["a b c d e"], [["a b c d e"]], "13a", False)
    assert same.figures["BLEU"] == pytest.approx(100)
    # 4/5 words, 3/4, 2/3 and 1/2 of the longer sequences, no brevity penalty
    part = bleu_score(["a b c d x"], [["a b c d e", "y"]], "none", False)
    assert part.figures["BLEU"] == pytest.approx(100 * (4 / 5 * 3 / 4 * 2 / 3 * 1 / 2) ** 0.25)
    with pytest.raises(ConfigError, match="bleu_tokenize"):
        bleu_score(["a"], [["a"]], "klingon", False)


def test_rouge_of_other_scripts():
    """Three of four characters, two of three pairs; rouge-score alone would say 0."""
    score = rouge_score(["我爱猫"], [["我爱猫咪"]])
    assert score.figures["ROUGE-1"] == pytest.approx(100 * 2 * 3 / 7)
    assert score.figures["ROUGE-2"] == pytest.approx(100 * 2 * 2 / 5)
    assert any("every character of Chinese" in note for note in score.notes)
    mixed = rouge_score(["cats 和狗"], [["Cat 和狗"]])
    assert mixed.figures["ROUGE-L"] == pytest.approx(100)  # stems as ever
    (_, note) = rouge_score(["кот", "a cat"], [["кот"], ["a cat"]]).notes
    assert note.startswith("1 texts count as 0")


# Bad input ----------------------------------------------------------------------------------------


def test_bad_texts_are_refused(tmp_path: Path):
    one, other = tmp_path / "a.de", tmp_path / "a.en"
    one.write_text("eins\nzwei\n")
    other.write_text("one\n")
    with pytest.raises(InputError, match=r"a\.de has 2 lines, but .*a\.en has 1"):
        read_texts(Path(f"{one},{other}"))
    other.write_text("one\n\n")
    with pytest.raises(InputError, match="line 2: its target is empty"):
        read_texts(Path(f"{one},{other}"))
    one.write_text("eins\tone\n\ttwo\n")
    with pytest.raises(InputError, match="line 2: its source is empty"):
        read_texts(one)
    one.write_text("eins one\n")
    with pytest.raises(InputError, match="1 column"):
        read_texts(one)
    one.write_text('{"body": 3, "subject": "x"}\n')
    with pytest.raises(InputError, match="not text"):
        read_texts(one)
    one.write_text('{"body": "x"}\n')
    with pytest.raises(InputError, match="none of target"):
        read_texts(one)
    one.write_text("\n\n")
    with pytest.raises(InputError, match="no words"):
        read_sources(one)


def test_another_vocabulary_is_refused(folder: Path):
    task = config(folder, "task.copy_source=true").task
    with pytest.raises(ConfigError, match=r"source's has \d+ pieces and the target's \d+, \d+ of"):
        task.start(texts(folder, "train"))


def test_a_start_without_its_model_is_refused(folder: Path, tiny_model: Path):
    task = config(folder, "task.from_lms=both", lms=False).task
    with pytest.raises(ConfigError, match="give --source-lm"):
        task.start(texts(folder, "train"))
    task = config(folder, f'task.source_lm="{tiny_model}"', lms=False).task
    with pytest.raises(ConfigError, match="expected a causal language model"):
        task.start(texts(folder, "train"))


def test_long_sources_are_counted(folder: Path):
    head = head_of(folder, "task.longest_source=9")
    examples = [Text(("Ein",)), Text(("Ein", "haus") * 10)]
    (note,) = head.notes(examples)
    assert "1 sources are longer than 9 pieces" in note
    assert len(head._source(examples[1])) == 11


def test_nan_is_said(folder: Path, tmp_path: Path):
    settings = config(folder, "lr=1e30", "epochs=3", lms=False)
    with pytest.raises(InputError, match="NaN or infinite"):
        fit(settings, texts(folder, "train"), texts(folder, "dev"), tmp_path / "mt")
