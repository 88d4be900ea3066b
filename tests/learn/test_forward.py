"""ForwardCorrected is maximum likelihood through the channel, around anybody's classifier."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression, Perceptron
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import labeldp as ldp
from labeldp.errors import InputError, ShapeError
from labeldp.learn import ForwardCorrected, as_evidence, score_forward_log_loss
from tests.learn.helpers import SPACE, THREE, checked_release, released, three_classes, two_classes, unnoised


def _best(X: Any, evidence: Any, C: float) -> float:
    """Return the penalised log-likelihood that gradients on the forward likelihood itself reach."""
    size, width = evidence.space.size, X.shape[1]
    Z = np.column_stack([X, np.ones(len(X))])

    def loss(flat: Any) -> tuple[float, Any]:
        table = flat.reshape(size, -1)
        scores = Z @ table.T
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        joint = chances * evidence.likelihood
        total = joint.sum(axis=1, keepdims=True)
        slope = (chances - joint / total).T @ Z
        slope[:, :width] += table[:, :width] / C
        return float(-np.log(total).sum() + 0.5 * (table[:, :width] ** 2).sum() / C), slope.ravel()

    return -float(minimize(loss, np.zeros(size * (width + 1)), jac=True, method="L-BFGS-B").fun)


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 3.0])
def test_em_finds_the_maximum_of_the_likelihood(epsilon: float) -> None:
    """Around logistic regression EM comes within half a nat of what gradients reach: no test could tell them apart."""
    X, y = three_classes(4_000)
    release = released(y, ldp.RandomizedResponse(THREE, epsilon))
    evidence = as_evidence(release)

    model = ForwardCorrected(LogisticRegression(max_iter=500)).fit(X, release)

    penalty = 0.5 * float((model.estimator_.coef_**2).sum())
    reached = float(np.log(evidence.probability(model.predict_proba(X))).sum()) - penalty
    assert reached > _best(X, evidence, 1.0) - 0.5
    assert model.log_likelihood_[-1] > model.log_likelihood_[0]


def test_it_beats_learning_from_the_released_labels_as_they_are() -> None:
    """Corrected probabilities are nearer the truth than uncorrected ones, by far more than chance."""
    X, y = two_classes(20_000)
    release = released(y, ldp.RandomizedResponse(SPACE, 1.0))
    test, truth = two_classes(20_000, seed=9)
    codes = SPACE.encode(truth)

    def log_loss(model: Any) -> float:
        return float(-np.log(model.predict_proba(test)[np.arange(len(codes)), codes]).mean())

    corrected = log_loss(ForwardCorrected().fit(X, release))
    uncorrected = log_loss(LogisticRegression().fit(X, np.asarray(release)))
    clean = log_loss(LogisticRegression().fit(X, y))

    assert corrected < clean + 0.01
    assert uncorrected > clean + 0.05


@pytest.mark.parametrize("kind", ["prior", "groups", "top", "table", "shared prior"])
def test_every_channel_will_do(kind: str) -> None:
    """Channels with one law a row or a group, without an inverse, or with other released labels: all are corrected."""
    X, y = three_classes(12_000)
    scores = X @ np.array([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]])
    prior = np.exp(0.5 * scores)
    prior /= prior.sum(axis=1, keepdims=True)
    channels: dict[str, ldp.FiniteChannel] = {
        "prior": ldp.PriorRandomizedResponse(THREE, 1.5, prior),
        "shared prior": ldp.PriorRandomizedResponse(THREE, 1.5, [0.4, 0.3, 0.3]),
        "groups": ldp.ResampledResponse(
            THREE, [[0.6, 0.2, 0.2], [0.1, 0.8, 0.1]], 1.5, groups=(X[:, 1] > 0).astype(int)
        ),
        "top": ldp.TopKRandomizedResponse(THREE, 2.5, ["red", "green"]),
        "table": ldp.TableChannel(
            THREE, [[0.7, 0.3], [0.4, 0.6], [0.2, 0.8]], released=ldp.LabelSpace(["warm", "cold"])
        ),
    }
    release = released(y, channels[kind])
    test, truth = three_classes(5_000, seed=5)
    clean = (LogisticRegression().fit(X, y).predict(test) == truth).mean()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ForwardCorrected().fit(X, release)

    # Two outputs for three labels tell less; one label in three is 0.33.
    slack = 0.15 if kind in ("top", "table") else 0.06
    assert (model.predict(test) == truth).mean() > clean - slack
    assert THREE.labels == tuple(model.classes_.tolist())


@pytest.mark.parametrize(
    ("inner", "options"),
    [
        (HistGradientBoostingClassifier(max_iter=30, max_leaf_nodes=6), {}),
        (RandomForestClassifier(30, min_samples_leaf=60, random_state=0), {"cv": 3}),
        (DecisionTreeClassifier(min_samples_leaf=150), {"cv": 3}),
        (GaussianNB(), {}),
        (KNeighborsClassifier(201), {"imputations": 1, "cv": 3, "max_iter": 3}),
        (make_pipeline(StandardScaler(), LogisticRegression()), {}),
        (LogisticRegression(), {"imputations": 3}),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, dict) else "",
)
def test_any_classifier_can_be_wrapped(inner: Any, options: dict[str, Any]) -> None:
    """Boosting, forests, trees, Bayes, neighbours and pipelines all learn the true labels."""
    X, y = two_classes(6_000)
    release = released(y, ldp.RandomizedResponse(SPACE, 1.5))
    test, truth = two_classes(4_000, seed=4)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = ForwardCorrected(inner, random_state=0, **options).fit(X, release)

    best = (LogisticRegression().fit(X, y).predict(test) == truth).mean()
    assert (model.predict(test) == truth).mean() > best - 0.05
    assert inner.get_params().keys() == clone(inner).get_params().keys()
    assert not hasattr(inner, "classes_")


def test_without_noise_it_is_the_classifier_itself() -> None:
    """Through the identity channel the wrapped classifier sees the labels, once each."""
    X, y = three_classes(500)

    model = ForwardCorrected(LogisticRegression(tol=1e-8)).fit(X, unnoised(y, THREE))

    expected = LogisticRegression(tol=1e-8).fit(X, THREE.encode(y)).predict_proba(X)
    assert np.allclose(expected, model.predict_proba(X), atol=1e-4)


def test_weights_stand_for_repeated_rows() -> None:
    """A row of weight two counts as two rows."""
    X, y = two_classes(600)
    release = released(y, ldp.RandomizedResponse(SPACE, 2.0))
    twice = np.concatenate([np.arange(600), np.arange(200)])
    weight = np.where(np.arange(600) < 200, 2.0, 1.0)
    options: dict[str, Any] = {"tol": 0.0, "max_iter": 60}

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        weighted = ForwardCorrected(**options).fit(X, release, sample_weight=weight)
        repeated = ForwardCorrected(**options).fit(X[twice], release[twice])

    assert np.allclose(weighted.predict_proba(X), repeated.predict_proba(X), atol=2e-3)
    for bad in (np.ones(599), -np.ones(600), np.zeros(600), np.full(600, np.nan)):
        with pytest.raises((InputError, ShapeError), match="sample weights"):
            ForwardCorrected().fit(X, release, sample_weight=bad)


def test_labels_that_were_never_released_are_classes_all_the_same() -> None:
    """The label space is declared, so it decides the classes, not what happens to be seen."""
    wide = ldp.LabelSpace(["no", "yes", "never", None])
    X, y = two_classes(400)
    release = unnoised(y, wide)

    model = ForwardCorrected().fit(X, release)

    assert [*wide.labels] == model.classes_.tolist()
    assert (400, 4) == model.predict_proba(X).shape
    assert {"no", "yes"} == set(model.predict(X))


def test_a_release_goes_through_cross_validation_and_grid_search() -> None:
    """A release is y in scikit-learn's tools; the scores are debiased, so they agree with the truth."""
    X, y = two_classes(6_000)
    release = released(y, ldp.RandomizedResponse(SPACE, 2.0))
    model = make_pipeline(StandardScaler(), ForwardCorrected(max_iter=5))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        scores = cross_val_score(model, X, release, cv=3)
        folds = KFold(3, shuffle=True, random_state=0)
        predicted = cross_val_predict(ForwardCorrected(max_iter=5), X, release, cv=folds)
        search = GridSearchCV(
            ForwardCorrected(LogisticRegression(), max_iter=5),
            {"estimator__C": [1e-5, 1.0]},
            cv=3,
            scoring=score_forward_log_loss,
        ).fit(X, release)

    truth = (predicted == y).mean()
    noise = ldp.learn.debiased_accuracy(release, predicted)
    assert noise.low < truth < noise.high
    assert abs(scores.mean() - truth) < 4 * noise.standard_error
    assert {"estimator__C": 1.0} == search.best_params_


@pytest.mark.parametrize("kind", ["sparse", "frame"])
def test_features_may_be_sparse_or_a_frame(kind: str) -> None:
    """The wrapped classifier gets the features in the form they came in, and its feature names are passed on."""
    X, y = two_classes(500)
    release = released(y, ldp.RandomizedResponse(SPACE, 2.0))
    table = csr_array(X) if kind == "sparse" else pd.DataFrame(X, columns=["a", "b", "c"])
    expected = ForwardCorrected().fit(X, release)

    model = ForwardCorrected().fit(table, release)

    assert np.allclose(expected.predict_proba(X), model.predict_proba(table), atol=1e-3)
    assert 3 == model.n_features_in_
    if kind == "frame":
        assert ["a", "b", "c"] == model.feature_names_in_.tolist()


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (ForwardCorrected(Perceptron()), "predict_proba"),
        (ForwardCorrected(StandardScaler()), "a classifier"),
        (ForwardCorrected(KNeighborsClassifier()), "imputations=5"),
        (ForwardCorrected(max_iter=0), "max_iter"),
        (ForwardCorrected(imputations=0), "imputations"),
        (ForwardCorrected(cv=1), "cv"),
        (ForwardCorrected(tol=-1.0), "tol"),
        (ForwardCorrected(tol=float("nan")), "tol"),
    ],
)
def test_bad_parameters_are_refused_at_fit(model: Any, words: str) -> None:
    """A parameter is judged when the model is fitted, with what was expected and what to do."""
    X, y = two_classes(50)

    with pytest.raises(InputError, match=words):
        model.fit(X, released(y, ldp.RandomizedResponse(SPACE, 1.0)))


def test_an_unfitted_model_says_so() -> None:
    """Before fit there is no prediction."""
    with pytest.raises(NotFittedError):
        ForwardCorrected().predict_proba(np.zeros((2, 2)))


def test_progress_is_shown_only_when_asked(capsys: pytest.CaptureFixture[str]) -> None:
    """Quiet by default; with verbose the model is the same one."""
    X, y = two_classes(300)
    release = released(y, ldp.RandomizedResponse(SPACE, 2.0))

    quiet = ForwardCorrected().fit(X, release)
    before = capsys.readouterr()
    loud = ForwardCorrected(verbose=True).fit(X, release)

    assert ("", "") == (before.out, before.err)
    assert np.array_equal(quiet.predict_proba(X), loud.predict_proba(X))


class _OnLabels(ForwardCorrected):  # type: ignore[misc]  # final for users; a test's adapter
    """Takes labels, as scikit-learn's own checks do, and hides nothing of them."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        return super().fit(X, checked_release(X, y), sample_weight)


@parametrize_with_checks([_OnLabels()])
def test_it_is_a_proper_estimator(estimator: Any, check: Any) -> None:
    """scikit-learn's own checks pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        check(estimator)
