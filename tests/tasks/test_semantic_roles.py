"""The tagger of roles: decoding against brute force, one reading of a sentence for all predicates,
learning, predicates that nobody marked, and the page."""

from itertools import product
from pathlib import Path

import pytest
import torch
from torch.nn import functional

from elmore.errors import ConfigError
from elmore.tasks import semantic_roles
from elmore.tasks.encoded import Dims, Encoded
from elmore.tasks.encoders.encoder import EncoderConfig
from elmore.tasks.fit import fit
from elmore.tasks.model import TaskModel
from elmore.tasks.prediction_page import drawing_of, role_card, role_page
from elmore.tasks.propositions import RoleSentence
from elmore.tasks.recipes import FitConfig, find_task
from elmore.tasks.semantic_roles import FoundRoles, RolesHead, SemanticRoles, in_brackets
from elmore.tasks.spans import allowed_pairs, spans_of
from elmore.tasks.tagging import Tagging
from elmore.tasks.task import Labels
from elmore.tasks.tuning import task_of
from tests.tasks.tiny_roles import proposition, roles
from tests.tasks.tiny_tasks import OWN
from tests.tasks.wave_encoder import DIMS, WITH_LATE, encode, encode_examples, learn, predict

SMALL = SemanticRoles(hidden=16, n_layers=2, mark_dim=4, finder_hidden=12, finder_layers=1)
LABELS = Labels(labels=("O", "B-V", "I-V", "B-A", "I-A"))
PAIR = RoleSentence(
    ("Anna", "planned", "the", "attack"),
    (proposition(1, (0, 1, "A"), (1, 2, "V"), (2, 4, "A")), proposition(3, (0, 1, "A"))),
)


def head(task: SemanticRoles = SMALL, dims: Dims = DIMS) -> RolesHead:
    torch.manual_seed(1)
    return task.head(LABELS, dims).eval()


def allowed(tags: tuple[str, ...]) -> bool:
    """`I-X` only after `B-X` or `I-X`."""
    before = ("O", *tags)
    return all(t[0] != "I" or b[2:] == t[2:] for b, t in zip(before, tags, strict=False))


@pytest.mark.parametrize("n_words", [1, 2, 3, 5])
def test_decoding_finds_the_best_of_all_allowed_taggings(n_words: int):
    found = head()
    torch.manual_seed(n_words)
    scores = 3 * torch.randn(20, n_words, len(LABELS.labels), dtype=torch.float64)
    mask = torch.ones(20, n_words, dtype=torch.bool)
    mask[::3, n_words - 1 :] = n_words == 1  # some are shorter
    every = [p for n in (n_words, n_words - 1) for p in product(range(5), repeat=n)]
    chances = scores.log_softmax(dim=-1)
    repaired = 0
    for row, path in enumerate(found.decode(scores, mask)):
        n = int(mask[row].sum())
        legal = [p for p in every if len(p) == n and allowed(tuple(LABELS.labels[i] for i in p))]
        totals = [sum(chances[row, t, i].item() for t, i in enumerate(p)) for p in legal]
        assert tuple(path) == legal[totals.index(max(totals))]
        repaired += path != scores[row, :n].argmax(dim=-1).tolist()
    assert repaired  # Viterbi had something to do


def test_an_inside_tag_may_not_open_a_sentence():
    pairs = allowed_pairs(LABELS.labels, "bio")
    assert pairs[-1].tolist()[:5] == [True, True, False, True, False]
    scores = torch.tensor([[[0.0, -9, -9, -1, 5]]])  # sure of I-A
    assert head().decode(scores, torch.ones(1, 1, dtype=torch.bool)) == [[0]]


def test_the_mark_is_one_more_part_of_each_vector():
    """What the head computes in two parts is one product with the two side by side."""
    found = head().double()
    sentences = encode([("a", "b", "c"), ("d", "e")])
    sentences = Encoded(sentences.vectors.double(), sentences.mask)
    rows, predicates = [0, 0, 1], [0, 2, 1]
    own = sentences.rows(rows)
    marks = torch.zeros(3, 3, dtype=torch.long)
    marks[[0, 1, 2], predicates] = 1
    joined = torch.cat([own.vectors, found.mark(marks)], dim=-1)
    expected = found.output(found.layers(joined, own.mask))
    ours = found.scores(sentences, rows, predicates)
    torch.testing.assert_close(ours, expected, rtol=0, atol=1e-12)


def test_a_sentence_is_encoded_once_for_all_its_predicates():
    (batch,), places = encode_examples(SMALL, [PAIR, PAIR])
    assert batch.vectors.shape[0] == 1
    assert [len(own) for own in places] == [1, 1]


def test_the_loss_is_that_of_tags_and_of_predicates():
    found = head()
    encoded, places = encode_examples(SMALL, [PAIR])
    sentences = encoded[0]
    scores = found.scores(sentences, [0, 0], [1, 3])
    gold = torch.tensor([[3, 1, 3, 4], [3, 0, 0, 0]])
    tags = functional.cross_entropy(scores.flatten(0, 1), gold.flatten())
    marked = torch.tensor([[0.0, 1, 0, 1]])
    finding = functional.binary_cross_entropy_with_logits(found.predicate_scores(sentences), marked)
    loss = found.loss(encoded, places, [PAIR])
    torch.testing.assert_close(loss, tags + finding, rtol=0, atol=1e-6)


@pytest.mark.parametrize("dims", [DIMS, WITH_LATE])
def test_gradients_reach_every_parameter(dims: Dims):
    found = head(dims=dims).train()
    found.loss(*encode_examples(SMALL, [PAIR], dims), [PAIR]).backward()
    assert all(p.grad is not None and p.grad.any() for p in found.parameters())


def test_sentences_without_predicates_are_fine():
    found, nothing = head().train(), RoleSentence(("Oh", "!"), ())
    loss = found.loss(*encode_examples(SMALL, [nothing]), [nothing])
    loss.backward()
    assert loss > 0
    (answer,) = predict(SMALL, found, [nothing])
    assert answer.propositions == ()
    both = found.loss(*encode_examples(SMALL, [nothing, PAIR]), [nothing, PAIR])
    assert torch.isfinite(both)


def test_what_is_predicted_does_not_depend_on_the_other_sentences():
    found = head()
    long = RoleSentence(("x",) * 30, (proposition(7),))
    together = predict(SMALL, found, [long, PAIR])[1]
    assert predict(SMALL, found, [PAIR])[0] == together


@pytest.mark.parametrize("most", [1, 9])
def test_many_propositions_are_predicted_in_parts(most: int, monkeypatch: pytest.MonkeyPatch):
    found = head()
    every = RoleSentence(("a", "b", "c"), tuple(proposition(i) for i in range(3)))
    at_once = predict(SMALL, found, [PAIR, every])
    sizes = []
    scores = found.scores
    monkeypatch.setattr(semantic_roles, "_MOST_WORDS", most)
    monkeypatch.setattr(
        found, "scores", lambda *given: sizes.append(len(given[1])) or scores(*given)
    )
    assert predict(SMALL, found, [PAIR, every]) == at_once
    assert sizes == {1: [1] * 5, 9: [2, 2, 1]}[most]  # rows of four words


def test_predicates_given_are_used_and_gold_roles_are_not():
    found = head()
    bare = RoleSentence(
        PAIR.words, tuple(proposition(p.predicate) for p in PAIR.propositions or ())
    )
    (with_roles,), (without,) = predict(SMALL, found, [PAIR]), predict(SMALL, found, [bare])
    assert [p.predicate for p in with_roles.propositions] == [1, 3]
    assert with_roles == without


def test_roles_and_predicates_are_learned_nouns_too(tmp_path: Path):
    train, test = roles(tmp_path, 100, seed=1), roles(tmp_path, 20, seed=2)
    torch.manual_seed(1)
    found = SMALL.head(SMALL.start(train), DIMS)
    learn(SMALL, found, train, epochs=25)
    figures = SMALL.score(test, predict(SMALL, found, test)).figures
    assert list(figures) == [
        "f1", "precision", "recall", "verbs f1", "others f1", "predicates f1",
    ]  # fmt: skip
    assert min(figures["f1"], figures["verbs f1"], figures["predicates f1"]) > 95
    assert figures["others f1"] > 60
    raw = RoleSentence(("Bob", "chased", "the", "cat", "after", "the", "attack", "."))
    (answer,) = predict(SMALL, found, [raw])
    assert [p.predicate for p in answer.propositions] == [1, 6] == list(answer.predicates)
    shown = SMALL.shown(raw, answer)["propositions"][0]
    assert shown["predicate"] == "chased"
    assert shown["text"] == "[ARG0 Bob] [V chased] [ARG1 the cat] [ARGM-TMP after the attack] ."
    assert [a["role"] for a in shown["arguments"]] == ["ARG0", "ARG1", "ARGM-TMP"]
    assert shown["arguments"][1]["words"] == ["the", "cat"]
    assert tuple(spans_of(shown["tags"])) == answer.propositions[0].pieces


def test_the_score_is_that_of_the_arguments_with_given_predicates():
    wrong = FoundRoles((proposition(1, (0, 1, "A")), proposition(3, (0, 1, "A"))), (1, 2))
    score = SMALL.score([PAIR], [wrong])
    assert score.main == pytest.approx(2 * 100 * (2 / 3) / (1 + 2 / 3))
    assert score.figures["precision"] == 100
    assert "others f1" not in score.figures  # there are none
    assert score.figures["predicates f1"] == pytest.approx(50)
    assert score.notes == ()
    nothing = FoundRoles((proposition(1), proposition(3)), ())
    assert SMALL.score([PAIR], [nothing]).notes[0].startswith("nothing was predicted, where 3 ")


def test_a_model_is_saved_and_loaded(tmp_path: Path):
    train, dev = roles(tmp_path, 12, seed=1), roles(tmp_path, 6, seed=2)
    config = FitConfig(task=SMALL, encoder=EncoderConfig(own=OWN), epochs=1, batch=6, lr=0.02)
    fitted = fit(config, train, dev, tmp_path / "run")
    again = TaskModel.load(tmp_path / "run")
    assert again.predict(dev) == fitted.model.predict(dev)
    assert again.evaluate(dev).figures == fitted.dev.figures


def test_a_fine_tuned_bert_is_refused():
    config = find_task("srl")
    bert = config.encoder.model_copy(update={"source": "bert:x+tune"})
    with pytest.raises(ConfigError, match="srl has no linear head"):
        task_of(config.model_copy(update={"encoder": bert}))


def test_brackets_show_who_did_what():
    words = ("Anna", "gave", "Bob", "a", "book", "up", ".")
    found = proposition(1, (0, 1, "ARG0"), (1, 2, "V"), (3, 5, "ARG1"), (5, 6, "C-V"))
    assert in_brackets(found, words) == "[ARG0 Anna] [V gave] Bob [ARG1 a book] [C-V up] ."


def test_the_page_shows_every_predicate_and_runs_nothing():
    words = ("<script>", "gave", "it", "&")
    found = FoundRoles((proposition(1, (0, 1, "ARG0"), (1, 2, "V"), (2, 3, "R-AM-TMP")),), (1,))
    page = role_page([RoleSentence(words)] * 2, [found, FoundRoles((), ())])
    assert "<script" not in page
    assert "http" not in page
    assert page.count("<section>") == 2
    assert '<span class="mark c0" title="who does it"><b>ARG0</b> &lt;script&gt;</span>' in page
    assert '<span class="mark v"><b>V</b> gave</span>' in page
    assert "R-AM-TMP" in page
    assert 'class="none">&lt;script&gt; gave it &amp;' in role_card(words, FoundRoles((), ()))


def test_only_roles_are_drawn():
    assert drawing_of(SMALL) is role_page
    with pytest.raises(ConfigError, match="No page is drawn of tagging"):
        drawing_of(Tagging())
