"""Recipes ask a label service for counts and labels, pay once for each label, and learn from both."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import labeldp as ldp
from labeldp.errors import BoundaryError, BudgetExhaustedError, EpsilonError, InputError, ShapeError
from labeldp.learn import BagClassifier, CountsThenLabels, ForwardCorrected, recommend
from tests.learn.helpers import SPACE, THREE, released, three_classes, two_classes


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        yield


def owner(y: Any, space: ldp.LabelSpace, budget: Any) -> ldp.Curator:
    """A curator in the same process."""
    return ldp.Curator(y, budget, space=space)


@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_every_label_pays_epsilon_once(epsilon: float) -> None:
    """All rows have spent the budget and no more, whatever the number of parts; asking again is beyond it."""
    X, y = three_classes(900)
    service = owner(y, THREE, epsilon)

    model = CountsThenLabels(epsilon).fit(X, service)

    assert 0 <= epsilon - service.spent.epsilon < 1e-9
    parts = list(model.releases_[1:])
    assert (0 if epsilon <= 1 else 3) == len(parts) == model.recipe_.folds
    # Every row is asked once: the parts have all rows between them.
    assert (900 if parts else 0) == sum(len(part) for part in parts)
    with pytest.raises(BudgetExhaustedError):
        CountsThenLabels(epsilon, random_state=1).fit(X, service)


def test_the_same_fit_again_costs_nothing() -> None:
    """The requests are the same, so the service answers from what it has stored: a crash costs nothing twice."""
    X, y = three_classes(900)
    service = owner(y, THREE, 2)

    first = CountsThenLabels(2).fit(X, service)
    again = CountsThenLabels(2).fit(X, service)

    assert np.array_equal(first.predict_proba(X), again.predict_proba(X))
    assert service.spent.epsilon <= 2


@pytest.mark.parametrize("epsilon", [0.3, 2.0])
def test_it_learns_better_than_from_plain_responses(epsilon: float) -> None:
    """At the same epsilon it beats randomised response with the same kind of model."""
    X, y = three_classes(6_000)
    test, truth = three_classes(4_000, seed=9)

    recipe = CountsThenLabels(epsilon).fit(X, owner(y, THREE, epsilon))
    plain = ForwardCorrected().fit(X, released(y, ldp.RandomizedResponse(THREE, epsilon)))

    # 4,000 test rows: two standard deviations are 0.013.
    assert (recipe.predict(test) == truth).mean() > (plain.predict(test) == truth).mean() - 0.013
    assert (recipe.predict(test) == truth).mean() > 0.7


def test_hardly_any_budget_teaches_hardly_anything() -> None:
    """At epsilon 0.001 the labels of 2,000 rows are as good as unknown: no side door."""
    X, y = two_classes(2_000)

    accuracies = [
        (CountsThenLabels(0.001, random_state=seed).fit(X, owner(y, SPACE, 1)).predict(X) == y).mean()
        for seed in range(6)
    ]

    # The direction is a coin flip for every run; a leak would make all of them right.
    assert min(accuracies) < 0.6


def test_what_is_recommended_comes_from_public_numbers() -> None:
    """Counts alone up to epsilon 1, a fifth for them beyond; the reason is in words, and names too many features."""
    assert (1, 0) == (recommend(10_000, 10, 1).split, recommend(10_000, 10, 1).folds)
    assert 0.2 == float(recommend(10_000, 10, 4).split)
    assert recommend(10_000, 10, 0.1).bag_rows > recommend(10_000, 10, 1).bag_rows
    assert "whole budget goes to counts" in recommend(10_000, 10, 0.5).why
    assert "features" in recommend(100, 10, 0.5, features=500).why
    for arguments in ((3, 2, 1), (100, 1, 1), (100.5, 2, 1), (True, 2, 1)):
        with pytest.raises(InputError):
            recommend(*arguments)  # type: ignore[arg-type]  # wrong on purpose
    for epsilon in (0, -1, math.nan, math.inf):
        with pytest.raises(EpsilonError):
            recommend(100, 2, epsilon)


def test_bad_requests_are_refused_and_cost_nothing() -> None:
    """Releases or labels in place of a service, other lengths, odd splits and folds."""
    X, y = three_classes(200)
    service = owner(y, THREE, 1)
    for wrong in (y, y.tolist(), released(y, ldp.RandomizedResponse(THREE, 1.0)), None):
        with pytest.raises(BoundaryError, match="label service"):
            CountsThenLabels(1).fit(X, wrong)
    with pytest.raises(ShapeError, match="200 rows"):
        CountsThenLabels(1).fit(X[:-1], service)
    for options in ({"split": 0}, {"split": 1.5}, {"folds": 0}, {"folds": 2.5}, {"folds": 201}):
        with pytest.raises(InputError):
            CountsThenLabels(1, **options).fit(X, service)
    assert 0 == service.spent.epsilon


def test_head_and_bags_may_be_given() -> None:
    """Another head is cloned, and bags from a better representation are the ones that are counted."""
    X, y = two_classes(600)
    bags = np.arange(600) % 6
    head = BagClassifier("logistic")

    model = CountsThenLabels(1, head=head).fit(X, owner(y, SPACE, 1), bags=bags)

    assert model.head_ is not head
    assert not hasattr(head, "classes_")
    assert np.array_equal(bags, model.releases_[0].bags)
