"""Evidence adds up, and its posterior is Bayes for rows and the best mean-field law for bags."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labeldp as ldp
from labeldp.errors import ShapeError, SpaceMismatchError
from labeldp.learn import BagEvidence, JointEvidence, RowEvidence, as_evidence, bag_size, make_bags, posterior
from tests.learn.helpers import SPACE, THREE, released, three_classes, two_classes

CHANNEL = ldp.RandomizedResponse(THREE, 1.0)


def _rows(count: int, seed: int = 0) -> RowEvidence:
    return RowEvidence(CHANNEL, np.random.default_rng(seed).integers(0, 3, count).astype(np.uint8))


def _laws(count: int, size: int = 3, seed: int = 1) -> Any:
    return np.random.default_rng(seed).dirichlet(np.ones(size), count)


@given(seed=st.integers(0, 10_000), size=st.integers(2, 5), free=st.booleans(), variance=st.floats(0.05, 300.0))
def test_tilts_solve_their_equation(seed: int, size: int, free: bool, variance: float) -> None:
    """For every bag lambda = (count - sum of q) / variance, and q is the model's law times exp(lambda), normalised."""
    rng = np.random.default_rng(seed)
    rows, bags = 40, 5
    members = rng.integers(0, bags, rows)
    space = ldp.LabelSpace(range(size))
    paired = size == 2 and free
    law = rng.dirichlet(np.full(size, rng.choice([0.05, 1.0])), rows)
    true = np.zeros((bags, size))
    np.add.at(true, (members, rng.integers(0, size, rows)), 1)
    counts = (true + rng.normal(scale=variance**0.5, size=true.shape)).round().astype(int)

    got = posterior(BagEvidence(space, counts, variance, members, paired), law)

    shown = 1 if paired else size
    for bag in np.unique(members):
        inside = members == bag
        lam = np.zeros(size)
        lam[:shown] = ((counts[bag] - got[inside].sum(axis=0)) / variance)[:shown]
        if np.abs(lam).max() > 59:  # beyond that a tilt says no more
            continue
        expected = law[inside] * np.exp(lam - lam.max())
        expected /= expected.sum(axis=1, keepdims=True)
        assert np.allclose(expected, got[inside], atol=1e-4)


def test_the_mean_field_posterior_is_near_the_exact_one() -> None:
    """For a bag of nine rows the marginals, by enumeration of all labels, differ little from the mean-field ones."""
    law = _laws(9, 2, seed=4)
    variance, count = 2.0, 7
    weights = np.zeros((9, 2))
    for labels in itertools.product(range(2), repeat=9):
        zeros = labels.count(0)
        weight = math.prod(law[i, y] for i, y in enumerate(labels)) * math.exp(-((count - zeros) ** 2) / (2 * variance))
        for i, y in enumerate(labels):
            weights[i, y] += weight
    exact = weights / weights.sum(axis=1, keepdims=True)

    evidence = BagEvidence(SPACE, np.array([[count, 9 - count]]), variance, np.zeros(9, int), paired=True)

    assert np.allclose(exact, posterior(evidence, law), atol=0.06)
    assert np.abs(exact - law).max() > 0.1


def test_much_noise_says_nothing_and_none_says_all() -> None:
    """With huge variance the model's law stands; with hardly any, sums meet the counts."""
    law = _laws(60)
    members = np.arange(60) % 4
    counts = np.array([[9, 3, 3], [0, 15, 0], [5, 5, 5], [1, 2, 12]])

    quiet = posterior(BagEvidence(THREE, counts, 1e9, members), law)
    loud = posterior(BagEvidence(THREE, counts, 1e-3, members), law)

    assert np.allclose(law, quiet, atol=1e-6)
    sums = np.array([loud[members == bag].sum(axis=0) for bag in range(4)])
    assert np.allclose(counts, sums, atol=0.1)


def test_evidence_adds_up() -> None:
    """Log-likelihoods of independent releases are summed, in any order; posteriors take all of them into account."""
    one, two = _rows(30), _rows(30, seed=5)
    bags = BagEvidence(THREE, np.array([[5, 5, 5], [3, 9, 3]]), 4.0, np.arange(30) % 2)
    law = _laws(30)

    both = one + two
    everything = bags + both

    assert isinstance(everything, JointEvidence)
    assert both.log_likelihood(law) == pytest.approx(
        float(np.log((law * one.likelihood * two.likelihood).sum(axis=1)).sum())
    )
    assert everything.log_likelihood(law) == pytest.approx(both.log_likelihood(law) + bags.log_likelihood(law))
    assert (both + bags).log_likelihood(law) == pytest.approx(everything.log_likelihood(law))
    bayes = law * one.likelihood * two.likelihood
    bayes /= bayes.sum(axis=1, keepdims=True)
    assert np.allclose(bayes, posterior(both, law))
    assert np.allclose(posterior(bags, bayes), posterior(everything, law))
    assert "2 bags" in repr(everything)


def test_rows_that_were_not_released_say_nothing() -> None:
    """Evidence of some rows, spread over all, leaves the others as they are; taking rows keeps what is known of them."""
    part = _rows(10)
    places = np.array([3, 17, 1, 29, 8, 5, 11, 23, 2, 14])
    law = _laws(30)

    spread = part.spread(places, 30)
    got = posterior(spread, law)

    others = np.setdiff1d(np.arange(30), places)
    assert np.allclose(law[others], got[others])
    assert np.allclose(posterior(part, law[places]), got[places])
    for rows in (np.array([3, 4, 17]), np.array([29, 1]), np.arange(30)[::-1]):
        assert np.allclose(got[rows], posterior(spread.take(rows), law[rows]))
    with pytest.raises(ShapeError, match="one release of all rows"):
        spread.indicators()


def test_evidence_of_different_things_does_not_add_up() -> None:
    """Other labels, other numbers of rows, parts of bags: refused with words."""
    bags = BagEvidence(THREE, np.array([[5, 5, 5]]), 4.0, np.zeros(15, int))
    with pytest.raises(ShapeError, match="15 rows"):
        bags + _rows(14)
    with pytest.raises(SpaceMismatchError):
        bags + RowEvidence(ldp.RandomizedResponse(SPACE, 1.0), np.zeros(15, np.uint8))
    with pytest.raises(ShapeError, match="whole bags"):
        bags.take(np.arange(3))
    with pytest.raises(ShapeError, match="whole bags"):
        (bags + _rows(15)).take(np.arange(3))
    with pytest.raises(ShapeError, match="one of 1 bags"):
        BagEvidence(THREE, np.array([[5, 5, 5]]), 4.0, np.array([0, 1]))


def test_every_release_of_rows_yields_its_evidence() -> None:
    """Rows, bags: what the gate returns has the release's own numbers."""
    _, y = two_classes(40)
    bags = np.arange(40) % 4
    counted: Any = ldp.privatize(y, ldp.BagCounts(SPACE, 1.0), bags=bags)

    evidence = as_evidence(counted)

    assert isinstance(evidence, BagEvidence)
    assert evidence.paired
    assert counted.variance == evidence.variance
    assert np.array_equal(bags, evidence.members)
    assert isinstance(as_evidence(released(y, ldp.RandomizedResponse(SPACE, 1.0))), RowEvidence)


def test_the_size_of_bags_comes_from_public_numbers() -> None:
    """Smaller epsilon, larger bags, in proportion to the noise; never fewer than two a label; never more than fit."""
    assert bag_size(0.1, 10, 10**6) > 9 * bag_size(1.0, 10, 10**6)
    assert bag_size(1.0, 2, 10**6) == pytest.approx(bag_size(1.0, 10, 10**6) / 2, rel=0.1)
    assert bag_size(0.001, 10, 1000) == 50
    assert 2 <= bag_size(8.0, 10, 100) <= 8


def test_bags_are_made_of_neighbours_and_of_nothing_else() -> None:
    """Every row in one bag, numbered without gaps, none alone; equal features give equal bags, whatever the labels."""
    X, _ = three_classes(2_000)

    bags = make_bags(X, 50)

    sizes = np.bincount(bags)
    assert sizes.min() >= 12
    assert 20 <= len(sizes) <= 60
    spread = np.mean([X[bags == bag].var(axis=0).sum() for bag in range(len(sizes))])
    assert spread < 0.2 * X.var(axis=0).sum()
    assert np.array_equal(bags, make_bags(X, 50))
    assert [0] * 30 == make_bags(X[:30], 30).tolist()
    for bad in (X[:, 0], np.full((5, 2), np.nan)):
        with pytest.raises(ShapeError, match="finite numbers"):
            make_bags(bad, 2)
    for size in (1, 2_001):
        with pytest.raises(ldp.errors.InputError, match="bags of 2"):
            make_bags(X, size)
