"""The transformer against scikit-learn: its checks, pipelines, searches, frames, copies."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils import estimator_checks

from likewise.encoder import Encoder
from likewise.errors import DataError
from likewise.integrations.scikit_learn import TextVectorizer
from likewise.sample import sample_sentences

TEXTS = sample_sentences()[:24]
LABELS = [number % 2 for number in range(24)]

# Those of check_estimator that need no array of numbers, which texts are not.
APPLICABLE = (
    "check_estimator_cloneable", "check_estimator_tags_renamed", "check_valid_tag_types", "check_estimator_repr",
    "check_no_attributes_set_in_init", "check_do_not_raise_errors_in_init_or_set_params", "check_mixin_order",
    "check_parameters_default_constructible", "check_get_params_invariance", "check_set_params",
)  # fmt: skip


@pytest.mark.filterwarnings("ignore:Can't test estimator")
def test_check_estimator_as_scikit_learn_runs_it() -> None:
    found = estimator_checks.check_estimator(TextVectorizer(), on_skip=None, on_fail=None)
    assert found and not [one["check_name"] for one in found if one["status"] == "failed"]


@pytest.mark.parametrize("name", APPLICABLE)
def test_each_check_that_applies_to_texts(name: str) -> None:
    getattr(estimator_checks, name)("TextVectorizer", TextVectorizer())


def test_vectors_are_those_of_the_encoder(tiny: Encoder, tiny_folder: Path) -> None:
    found = TextVectorizer(str(tiny_folder), pooling="cls", layer=1).fit_transform(TEXTS)
    np.testing.assert_array_equal(found, tiny.encode(TEXTS, pooling="cls", layer=1))


@pytest.mark.parametrize("form", [np.array, pd.Series, lambda texts: pd.DataFrame({"text": texts}), tuple])
def test_forms_of_texts(form: object, tiny: Encoder) -> None:
    np.testing.assert_array_equal(TextVectorizer(tiny).fit_transform(form(TEXTS)), tiny.encode(TEXTS))


@pytest.mark.parametrize(
    ("given", "flaw"),
    [
        ("one text", "a list, an array or a column"),
        (["a", None], "row 2 is None"),
        (np.array([["a", "b"]]), "one column, got 2"),
        ([b"a"], "row 1"),
    ],
)
def test_what_is_no_texts_is_refused(given: object, flaw: str, tiny: Encoder) -> None:
    with pytest.raises(DataError, match=flaw):
        TextVectorizer(tiny).fit(given)


def test_before_fit(tiny: Encoder) -> None:
    with pytest.raises(NotFittedError):
        TextVectorizer(tiny).transform(TEXTS)


def test_pipeline_and_search_over_layers(tiny_folder: Path) -> None:
    pipeline = make_pipeline(TextVectorizer(str(tiny_folder)), LogisticRegression())
    search = GridSearchCV(pipeline, {"textvectorizer__layer": [0, 1, 2]}, cv=2).fit(TEXTS, LABELS)
    assert set(search.predict(TEXTS)) <= {0, 1} and len(search.cv_results_["mean_test_score"]) == 3


def test_columns_of_a_frame_and_names_of_features(tiny_folder: Path) -> None:
    frame = pd.DataFrame({"title": TEXTS, "year": range(24)})
    columns = ColumnTransformer([("title", TextVectorizer(str(tiny_folder)), "title")], remainder="passthrough")
    found = columns.set_output(transform="pandas").fit_transform(frame)
    assert found.shape == (24, 17) and list(found)[:2] == ["title__textvectorizer0", "title__textvectorizer1"]


def test_copies_and_pickles(tiny_folder: Path) -> None:
    fitted = TextVectorizer(str(tiny_folder), layer=1).fit(TEXTS)
    twin = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(twin.transform(TEXTS), fitted.transform(TEXTS))
    assert not hasattr(clone(fitted), "encoder_") and clone(fitted).layer == 1


def test_why_a_classifier_decides(minilm: Encoder) -> None:
    texts = ["The food was wonderful.", "A wonderful evening.", "The food was awful.", "An awful evening."]
    vectorizer = TextVectorizer(minilm)
    classifier = LogisticRegression().fit(vectorizer.fit_transform(texts), ["good", "good", "bad", "bad"])
    found = vectorizer.attribute("The soup was wonderful.".splitlines(), classifier).texts[0]
    assert found.strongest(1)[0][0].text == "wonderful"
    logit = classifier.decision_function(vectorizer.transform(["The soup was wonderful."]))[0]
    assert found.shares.sum() + found.bias.sum() + classifier.intercept_[0] == pytest.approx(logit, abs=1e-4)
