"""UnbiasedLogisticRegression: the debiased softmax loss, convex and bounded."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from scipy.optimize import check_grad
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks

import labeldp as ldp
from labeldp.errors import BiasWarning, InputError
from labeldp.learn import UnbiasedLogisticRegression, as_evidence, debiased_log_loss, score_log_loss
from labeldp.learn.unbiased import _objective
from tests.learn.helpers import SPACE, THREE, checked_release, released, three_classes, two_classes, unnoised


def test_the_gradient_is_that_of_the_objective() -> None:
    """Numerical differences agree with the analytic gradient, with and without an intercept, dense and sparse."""
    X, y = three_classes(40)
    soft = as_evidence(released(y, ldp.RandomizedResponse(THREE, 0.7))).indicators()
    rng = np.random.default_rng(3)

    for intercept in (True, False):
        for table in (X, csr_array(X)):
            at = rng.normal(size=3 * (2 + intercept))
            rest: Any = (table, soft, np.full(40, 1 / 40), 0.3, intercept)
            error = check_grad(lambda w, r=rest: _objective(w, *r)[0], lambda w, r=rest: _objective(w, *r)[1], at)

            assert error < 1e-5


def test_the_objective_is_convex_although_labels_are_negative() -> None:
    """On every segment the middle lies below the mean of the ends."""
    X, y = three_classes(30)
    soft = as_evidence(released(y, ldp.RandomizedResponse(THREE, 0.3))).indicators()
    rng = np.random.default_rng(0)
    rest: Any = (X, soft, np.full(30, 1 / 30), 0.0, True)

    assert soft.min() < -1
    for _ in range(300):
        a, b = rng.normal(scale=4.0, size=(2, 9))
        ends = _objective(a, *rest)[0] + _objective(b, *rest)[0]

        assert 2 * _objective((a + b) / 2, *rest)[0] <= ends + 1e-9


def test_without_noise_it_is_penalised_logistic_regression() -> None:
    """Through the identity it is scikit-learn's, where that penalises the intercept too: as one more feature."""
    X, y = three_classes(800)
    wide = np.column_stack([X, np.ones(len(X))])
    expected = LogisticRegression(C=0.5, fit_intercept=False, tol=1e-9, max_iter=1000).fit(wide, THREE.encode(y))

    model = UnbiasedLogisticRegression(C=0.5 * (1 / 1.0), tol=1e-9).fit(X, unnoised(y, THREE))

    assert 1.0 == pytest.approx(unnoised(y, THREE).channel.variance_factor)
    assert np.allclose(expected.predict_proba(wide), model.predict_proba(X), atol=1e-5)


def test_averaged_over_releases_its_loss_is_the_loss_on_true_labels() -> None:
    """The mean objective over all releases of three labels, each by its probability, is the clean one, exactly."""
    X, y = three_classes(3, seed=2)
    channel = ldp.ResampledResponse(THREE, [0.5, 0.3, 0.2], 0.8)
    at = np.random.default_rng(1).normal(size=9)
    rest: Any = (np.full(3, 1 / 3), 0.1, True)
    truth = THREE.encode(y)
    mean = 0.0
    for outcome in np.ndindex(3, 3, 3):
        probability = float(np.prod(channel.transition[truth, outcome]))
        mean += probability * _objective(at, X, channel.soft_labels(np.array(outcome)), *rest)[0]

    assert _objective(at, X, np.eye(3)[truth], *rest)[0] == pytest.approx(mean, abs=1e-12)


def test_the_penalty_bounds_it_where_the_counts_turn_negative() -> None:
    """Nine rows of one label at a small epsilon can say that another label is less than never: still a minimum."""
    space = ldp.LabelSpace(["a", "b"])
    channel = ldp.RandomizedResponse(space, 0.1)
    from labeldp.release import RowRelease, Stamp

    release = RowRelease(np.zeros(9, np.uint8), channel, Stamp(channel.guarantee, "system", ""))

    model = UnbiasedLogisticRegression().fit(np.ones((9, 1)), release)

    assert np.isfinite(model.coef_).all()
    assert np.isfinite(model.intercept_).all()
    assert model.n_iter_ < 100


def test_it_learns_the_truth_from_noise() -> None:
    """With many rows it comes near the clean model, for two classes and for three."""
    for make, space in ((two_classes, SPACE), (three_classes, THREE)):
        X, y = make(20_000)
        test, truth = make(5_000, seed=8)
        clean = (LogisticRegression().fit(X, y).predict(test) == truth).mean()

        model = UnbiasedLogisticRegression().fit(X, released(y, ldp.RandomizedResponse(space, 1.0)))

        assert (model.predict(test) == truth).mean() > clean - 0.02


def test_a_channel_without_an_inverse_is_corrected_as_well_as_can_be_and_says_so() -> None:
    """The best linear correction comes with a warning, and a public prior may be given."""
    X, y = three_classes(5_000)
    release = released(y, ldp.TopKRandomizedResponse(THREE, 2.0, ["red", "green"]))

    with pytest.warns(BiasWarning, match="no unbiased correction"):
        plain = UnbiasedLogisticRegression().fit(X, release)
    with pytest.warns(BiasWarning):
        informed = UnbiasedLogisticRegression(prior=[0.3, 0.4, 0.3]).fit(X, release)

    assert plain.predict_proba(X).shape == (5_000, 3)
    assert not np.allclose(plain.coef_, informed.coef_)


def test_the_penalty_can_be_chosen_by_the_debiased_loss() -> None:
    """GridSearchCV with the debiased log-loss finds that a crushing penalty is worse."""
    X, y = two_classes(8_000)
    release = released(y, ldp.RandomizedResponse(SPACE, 2.0))

    search = GridSearchCV(UnbiasedLogisticRegression(), {"C": [1e-6, 1.0]}, cv=3, scoring=score_log_loss)
    search.fit(X, release)

    assert {"C": 1.0} == search.best_params_
    assert float(debiased_log_loss(release, search.predict_proba(X))) < np.log(2)


@pytest.mark.parametrize("C", [0.0, -1.0, float("inf"), float("nan")])
def test_a_penalty_that_bounds_nothing_is_refused(C: float) -> None:
    """Without its penalty the objective can have no minimum."""
    X, y = two_classes(20)

    with pytest.raises(InputError, match="C > 0"):
        UnbiasedLogisticRegression(C).fit(X, released(y, ldp.RandomizedResponse(SPACE, 1.0)))


class _OnLabels(UnbiasedLogisticRegression):  # type: ignore[misc]  # final for users; a test's adapter
    """Takes labels, as scikit-learn's own checks do, and hides nothing of them."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        return super().fit(X, checked_release(X, y), sample_weight)


@parametrize_with_checks([_OnLabels()])
def test_it_is_a_proper_estimator(estimator: Any, check: Any) -> None:
    """scikit-learn's own checks pass."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        check(estimator)
