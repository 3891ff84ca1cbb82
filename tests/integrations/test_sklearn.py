"""`ElmoVectorizer` in scikit-learn's own machinery."""

import pickle
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="scikit-learn is missing")

from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils import estimator_checks as checks

from elmore import Store
from elmore.integrations.sklearn import ElmoVectorizer

TEXTS = [f"{word} and more {word}" for word in ("river", "money", "boat", "loan") for _ in range(5)]
LABELS = [word in ("money", "loan") for word in ("river", "money", "boat", "loan") for _ in "12345"]


@pytest.fixture
def vectorizer(tiny_model: Path) -> ElmoVectorizer:
    return ElmoVectorizer(str(tiny_model))


# Those that do not make up numbers for X: `check_estimator` itself leaves out all others, because
# they cannot be done with texts.
@pytest.mark.parametrize(
    "name",
    [
        "check_estimator_cloneable",
        "check_estimator_tags_renamed",
        "check_valid_tag_types",
        "check_estimator_repr",
        "check_no_attributes_set_in_init",
        "check_parameters_default_constructible",
        "check_get_params_invariance",
        "check_set_params",
        "check_do_not_raise_errors_in_init_or_set_params",
        "check_mixin_order",
        "check_estimators_unfitted",
    ],
)
def test_the_checks_that_apply(name: str, vectorizer: ElmoVectorizer):
    getattr(checks, name)("ElmoVectorizer", vectorizer)


def test_check_estimator_itself(vectorizer: ElmoVectorizer):
    with pytest.warns(checks.SkipTestWarning, match="requires input"):
        found = checks.check_estimator(vectorizer, on_skip=None)
    assert {check["status"] for check in found} == {"passed"}


def test_a_pipeline_with_a_grid_search(vectorizer: ElmoVectorizer):
    pipeline = Pipeline([("elmo", vectorizer), ("classify", LogisticRegression(C=100))])
    grid = {"elmo__pooling": ["mean", "max"], "elmo__layers": ["top", "all"]}
    search = GridSearchCV(pipeline, grid, cv=2, error_score="raise").fit(TEXTS, LABELS)
    assert len(search.cv_results_["params"]) == 4
    assert search.predict(["river"]).shape == (1,)


def test_a_copy_gives_the_same_vectors(vectorizer: ElmoVectorizer):
    expected = vectorizer.fit_transform(TEXTS)
    assert expected.shape == (20, 16)
    for copy in (clone(vectorizer).fit(TEXTS), pickle.loads(pickle.dumps(vectorizer))):
        np.testing.assert_array_equal(copy.transform(TEXTS), expected)
    assert len(pickle.dumps(vectorizer)) < 1000  # no weights inside


def test_names_of_columns_and_pandas(vectorizer: ElmoVectorizer):
    names = vectorizer.set_params(layers="all").fit(TEXTS).get_feature_names_out()
    assert len(names) == 48
    assert names[47] == "elmovectorizer47"


def test_a_store_keeps_the_vectors(vectorizer: ElmoVectorizer, tmp_path: Path):
    vectorizer.set_params(store=str(tmp_path / "store"))
    first = make_pipeline(vectorizer).fit(TEXTS).transform(TEXTS)
    assert len(Store.open(tmp_path / "store")) == len(set(TEXTS))
    np.testing.assert_array_equal(vectorizer.transform(TEXTS), first)


@pytest.mark.parametrize("texts", ["one text", [1, 2], np.zeros((2, 2)), 5])
def test_what_are_no_texts(vectorizer: ElmoVectorizer, texts: object):
    with pytest.raises(ValueError, match="expected a"):
        vectorizer.fit(texts)
