"""The coreference scorer against what scorer.pl 8.01 (and coval, for LEA) computed, against plain
definitions, and against cases worked by hand."""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

from elmore.cli.main import main
from elmore.tasks.readers.coref import Clusters, read_clusters
from elmore.tasks.scorers.assignment import best_matching
from elmore.tasks.scorers.coref import CorefScore, Figures, score_documents
from tests.shared import SHARED, needs

ROOT = SHARED / "fixtures" / "coref-scorer"
REFERENCE = ("muc", "bcub", "ceafm", "ceafe", "blanc")
Letters = list[str]


def cases(name: str, folder: Path) -> list[tuple[Path, dict[str, object]]]:
    path = ROOT / name
    return [(folder, case) for case in json.loads(path.read_text())] if path.exists() else []


CASES = [*cases("cases.json", ROOT / "cases"), *cases("litbank.json", ROOT)]


def scored(key: Path, response: Path) -> CorefScore:
    return score_documents(read_clusters(key)[0], read_clusters(response, response=True)[0])


@needs("fixtures", "coref-scorer")
def test_all_reference_cases_are_there():
    assert len(CASES) == 46


@pytest.mark.parametrize(("folder", "case"), CASES, ids=[str(case["id"]) for _, case in CASES])
def test_figures_are_those_of_the_reference_programs(folder: Path, case: dict):
    score = scored(folder / case["key"], folder / case["response"])
    figures, expected = score.figures(), {**case["scorer"]}
    lea = case.get("lea") or (case.get("coval") or {}).get("lea")
    expected |= {"lea": lea} if lea else {}
    for metric, reference in expected.items():
        found = figures[metric]
        assert [found.recall, found.precision, found.f1] == pytest.approx(
            reference["rpf"], rel=0, abs=1e-9
        ), metric
        if metric != "blanc":
            counts = score.counts[metric]
            assert [*counts.recall_of, *counts.precision_of] == pytest.approx(reference["counts"])
    if case.get("conll_f1"):
        assert figures["conll"].f1 == pytest.approx(case["conll_f1"], rel=0, abs=1e-12)
    if case.get("mentions"):
        found = score.counts["mentions"]
        assert [*found.recall_of, *found.precision_of] == case["mentions"]


def printed(text: str) -> dict[str, list[float]]:
    """The last line of figures of each metric that scorer.pl printed."""
    blocks = re.split(r"^METRIC (\w+).*$", text, flags=re.MULTILINE)[1:]
    figures = re.compile(
        r"Recall: \([^)]*\) ([\d.]+)%\s+Precision: \([^)]*\) ([\d.]+)%\s+F1: ([\d.]+)%"
    )
    return {
        name: [float(value) for value in figures.findall(block)[-1]]
        for name, block in zip(blocks[::2], blocks[1::2], strict=True)
    }


@needs("fixtures", "coref-scorer")
@pytest.mark.parametrize("number", [f"{i:02d}" for i in range(1, 11)])
def test_the_table_has_the_digits_that_scorer_pl_prints(
    number: str, capsys: pytest.CaptureFixture[str]
):
    key, response, out = (
        ROOT / "litbank" / f"{number}.{kind}" for kind in ("key.conll", "response.conll", "out")
    )
    assert main(["score", "coref", str(key), str(response)]) == 0
    table = capsys.readouterr().out
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()[2:]]
    found = {name: [float(cell) for cell in cells] for name, *cells in rows}
    expected = printed(out.read_text())
    assert tuple(expected) == REFERENCE
    assert {name: found[name] for name in REFERENCE} == expected


# Worked by hand -----------------------------------------------------------------------------------


def figures(key: list[str], response: list[str]) -> dict[str, Figures]:
    """Clusters are words, mentions their letters."""
    score = CorefScore()
    score.add(key, response)
    return score.figures()


def test_a_split_cluster():
    """Key abcd, response ab and cd: MUC finds 2 of 3 links. B3: each mention has half its cluster.
    CEAFe: one pair, 2·2 / (4 + 2). LEA: 2 of 6 links."""
    found = figures(["abcd"], ["ab", "cd"])
    assert (found["muc"].recall, found["muc"].precision) == (pytest.approx(2 / 3), 1)
    assert (found["bcub"].recall, found["bcub"].precision) == (0.5, 1)
    assert (found["ceafe"].recall, found["ceafe"].precision) == (
        pytest.approx(2 / 3),
        pytest.approx(1 / 3),
    )
    assert found["ceafm"].recall == 0.5
    assert (found["lea"].recall, found["lea"].precision) == (pytest.approx(1 / 3), 1)


def test_singletons_in_the_response_only():
    """Key ab; response ab and the singleton c. MUC does not see it; B3's and CEAFe's precision do:
    2 of 3 mentions, 1 of 2 clusters."""
    found = figures(["ab"], ["ab", "c"])
    assert found["muc"].f1 == 1
    assert (found["bcub"].recall, found["bcub"].precision) == (1, pytest.approx(2 / 3))
    assert (found["ceafe"].recall, found["ceafe"].precision) == (1, 0.5)
    assert (found["lea"].recall, found["lea"].precision) == (1, pytest.approx(2 / 3))


def test_a_singleton_is_found_by_a_singleton_only():
    assert figures(["a"], ["a"])["lea"].f1 == 1
    found = figures(["a", "bc"], ["ab", "c"])
    assert (found["lea"].recall, found["lea"].precision) == (0, 0)
    assert found["bcub"].recall == pytest.approx((1 + 2 * 0.5) / 3)  # a: 1 of 1; b, c: 1 of 2


def test_a_repeated_mention_counts_where_it_is_first():
    assert figures(["ab", "cd"], ["ab", "acd"]) == figures(["ab", "cd"], ["ab", "cd"])
    assert figures(["ab"], ["aab"])["muc"].precision == 1


@pytest.mark.parametrize(
    ("key", "response"), [([], []), (["ab"], []), ([], ["ab"]), (["ab"], ["cd"])]
)
def test_nothing_in_common_is_zero(key: Letters, response: Letters):
    for name, found in figures(key, response).items():
        assert (found.recall, found.precision, found.f1) == (0, 0, 0), name


def test_documents_are_summed_before_they_are_divided():
    """One document of three right links, one of one wrong link: 3 of 4, not the mean of 1 and 0.
    A document that is not in the response is missed; one that is not in the key is ignored."""
    key = {"one": ["abcd"], "two": ["ef"]}
    found = score_documents(key, {"one": ["abcd"], "three": ["xy"]}).figures()
    assert (found["muc"].recall, found["muc"].precision) == (0.75, 1)


# Plain definitions --------------------------------------------------------------------------------


def random_clusters(rng: np.random.Generator, n: int) -> list[list[int]]:
    label = {m: int(rng.integers(5)) for m in range(n) if rng.random() < 0.8}
    clusters = [[m for m in label if label[m] == c] for c in range(5)]
    return [cluster for cluster in clusters if cluster]


@pytest.mark.parametrize("seed", range(30))
def test_random_clusters_agree_with_the_definitions(seed: int):
    rng = np.random.default_rng(seed)
    key, response = random_clusters(rng, 9), random_clusters(rng, 9)
    score = CorefScore()
    score.add(key, response)
    found = score.figures()
    where = {m: c for c in response for m in c}  # type: ignore[misc]
    recall = [len({*k} & {*where.get(m, [])}) / len(k) for k in key for m in k]
    assert found["bcub"].recall == pytest.approx(sum(recall) / max(len(recall), 1))
    best = 0.0
    wider, other = (key, response) if len(key) <= len(response) else (response, key)
    for chosen in itertools.permutations(other, len(wider)):
        phi = [2 * len({*a} & {*b}) / (len(a) + len(b)) for a, b in zip(wider, chosen, strict=True)]
        best = max(best, sum(phi))
    assert score.counts["ceafe"].recall_of == (pytest.approx(best), len(key))
    pairs = [frozenset(p) for k in key for p in itertools.combinations(k, 2)]
    theirs = {frozenset(p) for r in response for p in itertools.combinations(r, 2)}
    assert score.counts["links"].recall_of == (len({*pairs} & theirs), len(pairs))
    apart, far = (
        {frozenset((a, b)) for c, d in itertools.combinations(side, 2) for a in c for b in d}
        for side in (key, response)
    )
    assert score.counts["others"].recall_of == (len(apart & far), len(apart))


@pytest.mark.parametrize("seed", range(40))
def test_the_matching_is_the_best(seed: int):
    optimize = pytest.importorskip("scipy.optimize")
    rng = np.random.default_rng(seed)
    gains = rng.random(rng.integers(1, 12, size=2)) * (rng.random() + (rng.random((1, 1)) > 0.3))
    gains = np.where(rng.random(gains.shape) < 0.4, 0.0, np.round(gains, int(rng.integers(1, 9))))
    rows, columns = optimize.linear_sum_assignment(-gains)
    pairs = best_matching(gains)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs)
    assert sum(gains[pair] for pair in pairs) == pytest.approx(gains[rows, columns].sum())


def test_a_matching_of_nothing_is_empty():
    assert best_matching(np.zeros((0, 3))) == best_matching(np.zeros((2, 3))) == []


# The command --------------------------------------------------------------------------------------

COLUMNS = """#begin document (a); part 000
a 0 0 Anna (0)
a 0 1 met -
a 0 2 her (1|(0)
a 0 3 dog 1)
a 0 4 . -

#end document
"""


def write(path: Path, text: str = COLUMNS) -> str:
    path.write_text(text)
    return str(path)


def test_json_has_every_measure_unrounded(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    key = write(tmp_path / "key")
    response = write(tmp_path / "response", COLUMNS.replace("(1|(0)", "(0)").replace("1)", "-"))
    assert main(["score", "coref", key, response, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["muc", "bcub", "ceafm", "ceafe", "blanc", "lea", "conll"]
    assert found["bcub"] == {"recall": 100 * (2 / 3), "precision": 100.0, "f1": 80.0}


def test_one_metric_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    key = write(tmp_path / "key")
    assert main(["score", "coref", key, key, "--metric", "lea"]) == 0
    assert capsys.readouterr().out.count("100.00") == 3
    assert main(["score", "coref", key, key, "--metric", "map"]) == 2
    assert "expected all, or one of muc" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("dog 1)", "dog -", "line 4: the bracket '(1' is not closed"),
        ("met -", "met 7)", "line 3: the bracket '7)' closes a mention that was not opened"),
        ("met -", "met - -", "line 3: 6 columns"),
        ("met -", "met 7", "line 3: the label '7'"),
        ("#end document\n", "", "line 1: the document has no '#end document'"),
        ("met -", "met (2)(0)|(2)", "line 3: the mention is given twice"),
        ("#begin document (a); part 000\n", "", "line 1: 'a 0 0 Anna (0)' outside of a document"),
        (
            "#end document\n",
            "#end document\n" + COLUMNS,
            "line 9: the document '(a); part 000' occ",
        ),
        (COLUMNS, "", "no document found"),
    ],
)
def test_bad_input_is_one_line_with_its_place(
    old: str, new: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    key = write(tmp_path / "key", COLUMNS.replace(old, new))
    assert main(["score", "coref", key, write(tmp_path / "response")]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_more_than_ten_repeated_mentions_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    key = write(tmp_path / "key")
    for n, code in ((10, 0), (11, 2)):
        again = COLUMNS.replace("met -", f"met {'(3)' * (n + 1)}")
        assert main(["score", "coref", key, write(tmp_path / "response", again)]) == code
    assert "more than 10 mentions are given twice" in capsys.readouterr().err


def test_what_is_unusual_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    key = write(tmp_path / "key", COLUMNS + COLUMNS.replace("(a)", "(b)"))
    response = write(
        tmp_path / "response", COLUMNS.replace("(a)", "(c)").replace("met -", "met (0)(1)")
    )
    assert main(["score", "coref", key, response]) == 0
    said = capsys.readouterr().err
    for line in (
        "1 mentions",
        "2 documents are not in the response",
        "1 documents of the response",
    ):
        assert line in said


def test_brackets_nest_and_touch(tmp_path: Path):
    """`(1(3` opens two; `3)1)` closes both; the last opened of a cluster is closed first."""
    text = "#begin document (a)\n" + "".join(
        f"a\t{label}\n" for label in ("(1(3", "(1", "1)3)", "_", "1)", "")
    )
    clusters: Clusters = read_clusters(Path(write(tmp_path / "key", text + "#end document\n")))[0][
        "(a)"
    ]
    assert {frozenset(cluster) for cluster in clusters} == {
        frozenset([(1, 2), (0, 4)]),
        frozenset([(0, 2)]),
    }
