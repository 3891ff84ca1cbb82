"""The task of coreference: it learns, clusters do not depend on the batch, long documents are read
in windows, memory has a bound, and bad input is told in one line."""

import itertools
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from elmore.cli.main import main
from elmore.embedder import Embedder
from elmore.errors import InputError
from elmore.nn.antecedents import with_none
from elmore.store.store import Store
from elmore.tasks.cluster_page import cluster_card
from elmore.tasks.coref_clusters import joined, linked, window_bounds, windows
from elmore.tasks.coref_head import CorefHead, matches
from elmore.tasks.coreference import Coreference
from elmore.tasks.encoded import Dims
from elmore.tasks.encoders.encoder import EncoderConfig, build_encoder
from elmore.tasks.model import TaskModel
from elmore.tasks.readers.coref import Clusters, Document, read_any_document, read_documents
from elmore.tasks.recipes import FitConfig
from elmore.tasks.task import Labels
from tests.tasks.tiny_documents import TINY, columns, document
from tests.tasks.tiny_tasks import OWN
from tests.tasks.wave_encoder import DIMS, WITH_LATE, encode_examples, predict

DOCUMENTS = [document(seed) for seed in range(40)]


def fresh(task: Coreference = TINY, dims: Dims = DIMS) -> CorefHead:
    torch.manual_seed(3)
    return task.head(Labels(), dims)


def with_links(head: CorefHead) -> CorefHead:
    """Random weights, and mention scores so high that spans are linked and mentions found."""
    last = head.spans.score.layers[-1]
    assert isinstance(last, torch.nn.Linear)
    last.bias.data.fill_(0.2)
    return head


@pytest.fixture(scope="module")
def learned() -> CorefHead:
    """One document per step."""
    head = fresh()
    optimizer = torch.optim.Adam(head.parameters(), lr=1e-2)
    for step in range(160):
        some = [DOCUMENTS[step % len(DOCUMENTS)]]
        optimizer.zero_grad()
        head.loss(*encode_examples(TINY, some), some).backward()
        optimizer.step()
    return head


def as_sets(clusters: object) -> set[frozenset[tuple[int, int]]]:
    return {frozenset(cluster) for cluster in clusters}  # type: ignore[attr-defined]


def test_it_learns_who_is_who_and_clusters_of_one(learned: CorefHead):
    unseen = [document(seed, n_people=1) for seed in range(100, 112)]
    for examples in (DOCUMENTS[:10], unseen):
        score = TINY.score(examples, predict(TINY, learned, examples))
        assert score.figures["CoNLL"] > 90
        assert score.figures["mentions"] > 90


def test_without_a_threshold_there_are_no_clusters_of_one(learned: CorefHead):
    task = TINY.model_copy(update={"threshold": None})
    head = fresh(task)
    head.load_state_dict(learned.state_dict())
    for clusters in predict(task, head, DOCUMENTS[:5]):
        assert clusters
        assert all(len(cluster) > 1 for cluster in clusters)


@pytest.mark.parametrize("dims", [DIMS, WITH_LATE])
def test_a_document_alone_and_in_a_batch_has_the_same_clusters(dims: Dims):
    head, long = with_links(fresh(dims=dims)).eval(), document(7)
    sentences = (*long.sentences, ("word",) * 60)
    examples = [*DOCUMENTS[:4], replace(long, sentences=sentences)]

    def found(some: list[Document]) -> list[Clusters]:
        with torch.no_grad():
            return head.predict(*encode_examples(TINY, some, dims), some)

    together = found(examples)
    assert together == [found([example])[0] for example in examples]
    assert any(len(cluster) > 1 for clusters in together for cluster in clusters)


def test_losses_of_a_batch_are_the_mean_of_its_documents():
    head = fresh().eval()
    together = head.loss(*encode_examples(TINY, DOCUMENTS[:3]), DOCUMENTS[:3])
    alone = [head.loss(*encode_examples(TINY, [d]), [d]) for d in DOCUMENTS[:3]]
    torch.testing.assert_close(together, torch.stack(alone).mean(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rounds", [1, 2])
def test_links_and_clusters_are_those_of_brute_force(rounds: int):
    """All spans of a short document scored and kept by definition, all sets of links tried."""
    task = TINY.model_copy(update={"rounds": rounds, "ratio": 0.4, "threshold": 0.0})
    head = with_links(fresh(task)).double().eval()
    example = document(5, n_people=1)
    (encoded,), places = encode_examples(task, [example])
    text = head._text([replace(encoded, vectors=encoded.vectors.double())], places[0])
    with torch.no_grad():
        found = head.spans.candidates(text)
        kept, others, scores = head._link(text, found, example)
        clusters = head._clusters(text, example)
    spans = [(int(found.first[i]), int(found.last[i])) for i in kept]
    best: tuple[float, tuple[int | None, ...]] = (-np.inf, ())
    choices = [
        [(0.0, None), *((s, j) for s, j in zip(row, js, strict=True) if s > -np.inf)]
        for row, js in zip(scores.tolist(), others.tolist(), strict=True)
    ]
    for links in itertools.product(*choices):
        total = sum(score for score, _ in links)
        best = max(best, (total, tuple(j for _, j in links)), key=lambda pair: pair[0])
    groups = [{i} for i in range(len(spans))]
    for i, j in enumerate(best[1]):
        if j is not None:
            one, two = (next(g for g in groups if member in g) for member in (i, j))
            if one is not two:
                one |= two
                groups.remove(two)
    mention = found.scores[kept].tolist()
    expected = {frozenset(spans[i] for i in g) for g in groups if len(g) > 1 or mention[min(g)] > 0}
    assert as_sets(clusters) == expected
    assert any(len(cluster) > 1 for cluster in expected)
    assert with_none(scores).shape == (len(spans), 1 + others.shape[1])


def test_equal_words_are_a_feature():
    found = matches(["The", "dog", "saw", "the", "dog", "old", "Dog"], [0, 3, 5, 2], [1, 4, 6, 2])
    assert found.tolist() == [[2, 2, 1, 0], [2, 2, 1, 0], [1, 1, 2, 0], [0, 0, 0, 2]]


# Clusters and windows -----------------------------------------------------------------------------


def test_links_become_clusters():
    spans = [(0, 0), (2, 3), (5, 5), (7, 7), (9, 9)]
    found = linked(spans, [None, None, 0, None, 2], [1.0, 2.0, -1.0, -2.0, 0.5], 0.0)
    assert as_sets(found) == {frozenset([(0, 0), (5, 5), (9, 9)]), frozenset([(2, 3)])}
    assert as_sets(linked(spans, [None] * 5, [0.0] * 5, 0.0)) == set()


def test_clusters_that_share_a_mention_are_joined():
    assert joined([[3, 1], [5], [4, 2], [2, 9, 1]]) == ((1, 2, 3, 4, 9), (5,))
    assert joined([]) == ()


@pytest.mark.parametrize("seed", range(20))
def test_windows_cover_the_document_and_overlap(seed: int):
    rng = np.random.default_rng(seed)
    sentences = tuple(("w",) * int(rng.integers(1, 9)) for _ in range(30))
    whole = Document("x", sentences)
    bounds = list(window_bounds(whole, 20, 8))
    assert bounds[0][0] == 0
    assert bounds[-1][1] == 30
    for first, stop in bounds:
        assert sum(map(len, sentences[first:stop])) <= 20
    for (first, stop), (following, after) in itertools.pairwise(bounds):
        assert first < following <= stop < after
        common = sum(map(len, sentences[following:stop]))
        assert common <= 8
        assert following == first + 1 or common + len(sentences[following - 1]) > 8
    assert [part.n_words for part in windows(whole, 1000, 8)] == [whole.n_words]


def test_parts_keep_their_own_mentions():
    whole = Document("x", (("a", "b"), ("c", "d"), ("e",)), (((0, 0), (2, 3), (4, 4)), ((1, 2),)))
    parts = windows(whole, 3, 0)
    assert [part.sentences for part in parts] == [(("a", "b"),), (("c", "d"), ("e",))]
    assert [part.clusters for part in parts] == [(((0, 0),),), (((0, 1), (2, 2)),)]


def model(task: Coreference) -> TaskModel:
    torch.manual_seed(1)
    encoder = build_encoder(EncoderConfig(own=OWN), ("she", "he"))
    return TaskModel(task, encoder, Labels()).eval()


def test_long_documents_are_read_in_windows_and_joined():
    """Every mention that a window finds is found, and windows agree where they overlap."""
    task = TINY.model_copy(update={"window": 30, "overlap": 12, "threshold": -1e9, "ratio": 1.0})
    sentences = tuple(s for seed in range(12) for s in document(seed).sentences)
    whole = Document("x", sentences)
    tagger = model(task)
    (found,) = tagger.predict([whole])
    starts = [0, *itertools.accumulate(map(len, sentences))]
    expected = [
        [(a + starts[first], b + starts[first]) for a, b in cluster]
        for (first, _), part in zip(window_bounds(whole, 30, 12), task.parts(whole), strict=True)
        for cluster in tagger.predict([part])[0]
    ]
    assert len(task.parts(whole)) > 4
    assert found == joined(expected)
    together = {frozenset(cluster) for cluster in expected}
    assert max(map(len, found)) > max(map(len, together))  # some were joined


def test_windows_are_told(tmp_path: Path):
    path = tmp_path / "long.txt"
    path.write_text("Anna slept. She woke.\n" * 10)
    task = TINY.model_copy(update={"window": 20, "overlap": 5})
    (note,) = task.read_plain(path).notes
    assert note.startswith("documents of more than 20 words, read in windows with 5 words in comm")
    assert task.read_plain(path).examples[0].n_words == 60


MEMORY = """
import resource, sys, torch
from elmore.tasks.encoders.encoder import EncoderConfig, build_encoder
from elmore.tasks.model import TaskModel
from elmore.tasks.readers.coref import Document
from elmore.tasks.recipes import coref
from elmore.tasks.task import Labels

torch.manual_seed(1)
torch.set_num_threads(1)
words = [f"w{i}" for i in range(700)]
sentence = lambda n: tuple(words[(n * 21 + i) % 700] for i in range(21))
spans = tuple(((i, i + 1), (i + 21, i + 21)) for i in range(0, 2000, 42))
document = Document("x", tuple(map(sentence, range(100))), spans)
task = coref().task
model = TaskModel(task, build_encoder(EncoderConfig(), words), Labels())
for _ in range(2):
    model.train().loss([document]).backward()
model.eval().predict([document])
once = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
model.predict([Document("y", tuple(map(sentence, range(1000))))])
print(once // 1024, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
"""


@pytest.mark.slow
def test_a_document_of_2100_words_takes_less_than_2_gb():
    """Trained on whole and predicted, with the default settings; ten times the words add little."""
    done = subprocess.run(
        [sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True
    )
    once, longer = map(int, done.stdout.split())
    assert once < 2_000
    assert longer < once + 400


# Files --------------------------------------------------------------------------------------------


def test_columns_and_json_lines_are_the_same_documents(tmp_path: Path):
    (tmp_path / "columns").write_text("".join(map(columns, DOCUMENTS)))
    found = read_documents(tmp_path / "columns")
    assert [d.sentences for d in found] == [d.sentences for d in DOCUMENTS]
    assert [as_sets(d.clusters) for d in found] == [as_sets(d.clusters) for d in DOCUMENTS]
    shown = [TINY.shown(d, d.clusters) for d in found]
    (tmp_path / "lines").write_text("".join(json.dumps(line) + "\n" for line in shown))
    assert read_documents(tmp_path / "lines") == found
    assert shown[0]["mentions"][0][1] in ("she", "he")


def test_litbank_has_an_empty_column_for_words_without_a_mark(tmp_path: Path):
    path = tmp_path / "litbank"
    rows = [("He", "(0)"), ("bent", ""), ("down", ""), (".", "")]
    body = "".join(f"b\t0\t{i}\t{w}\t_\t_\t{label}\n" for i, (w, label) in enumerate(rows))
    path.write_text(f"#begin document (b); part 0\n{body}#end document\n")
    assert read_documents(path) == [
        Document("(b); part 0", (("He", "bent", "down", "."),), (((0, 0),),))
    ]
    assert read_any_document(path)[0].clusters == ()


GOOD = '{"sentences": [["a", "b"]], "clusters": [[[0, 0], [1, 1]]]}'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (GOOD.replace("[1, 1]", "[1, 2]"), "line 1: the mention [1, 2]; expected its first"),
        (GOOD.replace("[1, 1]", "[0, 0]"), "line 1: the mention [0, 0] is given twice"),
        (GOOD.replace("[[0, 0], [1, 1]]", "3"), "line 1: the cluster 3; expected sentences"),
        (GOOD.replace('"clusters"', '"chains"'), "line 1: no clusters found"),
        (GOOD.replace('"b"', '""'), "line 1: no sentences found"),
        (f"{GOOD}\n{{", "line 2, place 2: not JSON"),
        ('{"sentences": [], "clusters": []}', "no document with words found"),
        ("#begin document (a)\nx -\n#end document\n", "line 1: 2 columns; expected the words"),
    ],
)
def test_bad_documents_are_told_with_their_place(text: str, said: str, tmp_path: Path):
    path = tmp_path / "bad"
    path.write_text(text)
    with pytest.raises(InputError, match="bad") as error:
        TINY.read(path)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_documents_without_mentions_are_scored_but_not_trained_on(tmp_path: Path):
    path = tmp_path / "some"
    empty = '{"sentences": [["a", "b"]], "clusters": []}'
    path.write_text(f'{GOOD}\n{empty}\n{{"sentences": [], "clusters": []}}\n')
    assert len(TINY.read(path).examples) == 2
    assert TINY.read(path).notes == ("documents without words left out: 1",)
    trained = TINY.read(path, training=True)
    assert len(trained.examples) == 1
    assert "documents or parts without a mention, not trained on: 1" in trained.notes
    path.write_text(empty)
    with pytest.raises(InputError, match="no document has a mention"):
        TINY.read(path, training=True)


def test_mentions_that_cannot_be_found_are_counted(tmp_path: Path):
    path = tmp_path / "wide"
    path.write_text(
        '{"sentences": [["a", "b", "c", "d"], ["e"]], "clusters": [[[0, 3], [3, 4]], [[0, 0]]]}'
    )
    (note,) = TINY.read(path, training=True).notes
    assert note == ("mentions of more than 3 words, or across sentences, which are never found: 2")


def test_an_overlap_must_be_less_than_the_window():
    with pytest.raises(ValueError, match="overlap is 50; expected less than window=40"):
        Coreference(window=40, overlap=50)


# Commands -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coref")
    (folder / "train.conll").write_text("".join(map(columns, DOCUMENTS[:12])))
    sizes = TINY.model_dump(include={"hidden", "score_hidden", "features", "pair_dim", "max_width"})
    settings = [f"task.{name}={value}" for name, value in sizes.items()]
    flags = [part for setting in settings for part in ("--set", setting)]
    data = ["--train", str(folder / "train.conll"), "--dev", str(folder / "train.conll")]
    command = ["task", "train", "coref", *data, "--output", str(folder / "model"), "--quiet"]
    assert main([*command, "--epochs", "1", *flags]) == 0
    return folder


def test_a_trained_model_is_evaluated_and_used(trained: Path, capsys: pytest.CaptureFixture[str]):
    own = ["--model", str(trained / "model")]
    assert main(["task", "evaluate", "coref", *own, "--test", str(trained / "train.conll")]) == 0
    assert capsys.readouterr().out.startswith("CoNLL ")
    raw = trained / "raw.txt"
    raw.write_text("Anna slept. The dog barked at her.\n\nShe <woke>.\n")
    page = trained / "page.html"
    assert main(["task", "predict", "coref", str(raw), *own, "--html", str(page)]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    found = json.loads(line)
    assert found["document"] == "raw.txt"
    assert len(found["sentences"]) == 3
    assert page.read_text().count("<section>") == 1
    assert "&lt;" in page.read_text()
    assert main(["task", "evaluate", "ner", *own, "--test", str(raw)]) == 2
    assert "is a model for coreference" in capsys.readouterr().err


def test_a_bert_is_not_fine_tuned_with_a_linear_layer(
    trained: Path, capsys: pytest.CaptureFixture[str]
):
    data = ["--train", str(trained / "train.conll"), "--dev", str(trained / "train.conll")]
    encoder = ["--encoder", "bert:nowhere", "--fine-tune", "--output", str(trained / "no")]
    assert main(["task", "train", "coref", *data, *encoder]) == 2
    assert "leave out 'bert:'" in capsys.readouterr().err


def test_settings_are_saved_and_read_again():
    config = FitConfig(task=TINY, batch=1)
    assert FitConfig.model_validate_json(config.model_dump_json()) == config


def test_nested_mentions_are_nested_brackets():
    whole = Document("<x>", (("her", "<old>", "dog"), ("she",)), ())
    card = cluster_card(whole, (((0, 0), (3, 3)), ((0, 2),)))
    assert (
        '<span class="mark c5"><span class="mark c0"><b>1</b> her</span> &lt;old&gt; dog</span>'
        in card
    )
    assert "&lt;x&gt;" in card
    assert "× 2</strong>her, she" in card
    assert card.count("<span") == card.count("</span>")


def test_vectors_from_a_store_give_the_clusters_of_their_model(tiny_model: Path, tmp_path: Path):
    """The model alone, and a store that has every sentence."""
    embedder = Embedder.load(tiny_model)
    examples = DOCUMENTS[:3]
    store = Store.create(tmp_path / "s", embedder, precision="float16")
    store.fill([list(words) for example in examples for words in example.sentences])
    found = []
    for source in (str(tiny_model), f"store:{tmp_path / 's'}"):
        torch.manual_seed(1)
        encoder = build_encoder(EncoderConfig(source=source, own=OWN), ("she", "he"))
        tagger = TaskModel(TINY, encoder, Labels()).eval()
        with_links(tagger.head)
        found.append(tagger.predict(examples))
        (mix,) = encoder.mixes()
        assert len(mix.weights) == embedder.n_layers
    assert found[0] == found[1]
    assert any(found[0])
