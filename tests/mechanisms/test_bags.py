"""Counts of bags: what they hold, what they cost, and what is refused."""

from __future__ import annotations

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.errors import (
    AccountMismatchError,
    BudgetExhaustedError,
    DeltaWarning,
    EpsilonError,
    InputError,
    ShapeError,
    SpaceMismatchError,
)
from labeldp.exact import exact
from labeldp.guarantee.ledger import Budget
from labeldp.noise import DiscreteGaussian, DiscreteLaplace

TWO = ldp.LabelSpace(["no", "yes"])
THREE = ldp.LabelSpace([1, 2, 3])


def _table(space: ldp.LabelSpace, bags: int = 4, size: int = 500) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(0)
    bag = rng.permutation(np.repeat(np.arange(bags), size))
    codes = rng.integers(0, space.size, bags * size)
    truth = np.zeros((bags, space.size), int)
    np.add.at(truth, (bag, codes), 1)
    return space.decode(codes), bag, truth


@pytest.mark.parametrize("space", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_counts_are_the_true_ones_with_the_declared_noise(space: ldp.LabelSpace, delta: float) -> None:
    """Counts differ from the truth by noise within its own 1 - 1e-9 interval, and the bags come with them."""
    labels, bag, truth = _table(space)
    mechanism = ldp.BagCounts(space, 0.5, delta)

    release: Any = ldp.privatize(labels, mechanism, bags=bag, coins=ldp.SeededCoins(1))

    low, high = release.noise.interval(1 - 1e-9)
    assert ((release.counts - truth >= low) & (release.counts - truth <= high)).all()
    assert (release.counts != truth).any()
    assert np.array_equal(bag, release.bags)
    assert [500] * 4 == release.sizes.tolist()
    assert mechanism.noise == release.noise
    assert (space.size == 2) == release.paired
    if release.paired:
        assert [500] * 4 == release.counts.sum(axis=1).tolist()


@pytest.mark.parametrize("space", [TWO, THREE], ids=["two", "three"])
def test_the_charge_is_what_was_asked(space: ldp.LabelSpace) -> None:
    """Pure noise spends exactly epsilon, once for all bags; with a delta the guarantee holds at it."""
    labels, bag, _ = _table(space)

    pure = ldp.privatize(labels, ldp.BagCounts(space, 1.0), bags=bag).guarantee
    wide = ldp.privatize(labels, ldp.BagCounts(space, 1.0, 1e-5), bags=bag).guarantee

    assert 1.0 == pure.epsilon(0)
    assert wide.epsilon(1e-5) <= 1.0


@pytest.mark.parametrize("space", [TWO, THREE], ids=["two", "three"])
@pytest.mark.parametrize("noise", ["auto", "laplace", "gaussian"])
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-6), (0.1, 1e-5), (3, 1e-9)])
def test_a_request_fits_a_budget_of_just_that(
    space: ldp.LabelSpace, noise: Any, epsilon: float, delta: float, tmp_path: Path
) -> None:
    """An account of (epsilon, delta) is charged the pair that was asked for, whatever the noise; half of it is left."""
    labels, bag, _ = _table(space)
    mechanism = ldp.BagCounts(space, epsilon, delta, noise)
    asked = exact(epsilon), exact(delta)
    for ledger in (None, ldp.Ledger(tmp_path / "kept.ledger", key=bytes(32))):
        curator = ldp.Curator(
            ldp.RawLabels(labels, space), (2 * asked[0], 2 * asked[1]), ledger=ledger, bags=bag, ids=range(len(bag))
        )

        release = curator.release(mechanism)

        assert asked == (curator.spent.epsilon, curator.spent.delta)
        assert asked == (curator.left.epsilon, curator.left.delta)
        assert f"epsilon <= {epsilon:g} (delta = {delta:g})" in str(release.guarantee)
        assert release.guarantee.epsilon(delta) <= epsilon
    with pytest.raises(BudgetExhaustedError):
        ldp.Curator(ldp.RawLabels(labels, space), (epsilon, delta / 2), bags=bag).release(mechanism)
    ldp.Curator(ldp.RawLabels(labels, space), (epsilon, delta), bags=bag).release(mechanism)


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_other_accounts_keep_their_own_numbers(noise: Any) -> None:
    """zCDP is charged the noise's rho; an account of pure epsilon refuses a delta and says what to ask for instead."""
    labels, bag, _ = _table(THREE)
    mechanism = ldp.BagCounts(THREE, 1, 1e-6, noise)
    concentrated = ldp.Curator(ldp.RawLabels(labels, THREE), Budget(rho=1), bags=bag)

    guarantee = concentrated.release(mechanism).guarantee

    assert isinstance(guarantee, ldp.Guarantee)
    assert guarantee.loss.rho == concentrated.spent.rho
    if isinstance(mechanism.noise, DiscreteGaussian):
        assert 1 / mechanism.noise.sigma_squared == concentrated.spent.rho
    pure = ldp.Curator(ldp.RawLabels(labels, THREE), 3, bags=bag)
    with pytest.raises(
        AccountMismatchError, match=r"ask for a pure mechanism, or register .* Budget\(epsilon, delta\)"
    ):
        pure.release(mechanism)
    assert 0 == pure.spent.epsilon


def test_a_pure_request_spends_no_delta() -> None:
    """Without a delta, all of them are charged pure epsilon, exactly."""
    labels, bag, _ = _table(THREE)
    for budget in (1, (1, 1e-6)):
        curator = ldp.Curator(ldp.RawLabels(labels, THREE), budget, bags=bag)

        curator.release(ldp.BagCounts(THREE, 1))

        assert (Fraction(1), Fraction(0)) == (curator.spent.epsilon, curator.spent.delta)


def test_a_delta_of_one_over_n_is_warned_of_where_the_library_was_called() -> None:
    """From delta = 1/n on, whatever way leads to the plan, the warning names the user's line; below it there is none."""
    labels, bag, _ = _table(THREE)
    large = ldp.BagCounts(THREE, 1, Fraction(1, len(labels)), "gaussian")
    curator, other = (ldp.Curator(ldp.RawLabels(labels, THREE), bags=bag) for _ in range(2))
    for release in (
        lambda: ldp.privatize(labels, large, bags=bag),
        lambda: curator.release(large),
        lambda: other.release(ldp.BagCounts(THREE, 1, 1e-3), rows=bag < 3),
    ):
        with pytest.warns(DeltaWarning, match="is not below 1/n = 0.000") as caught:
            release()
        assert [__file__] == [warning.filename for warning in caught]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ldp.privatize(labels, ldp.BagCounts(THREE, 1, Fraction(1, len(labels) + 1)), bags=bag)
        ldp.privatize(labels, ldp.BagCounts(THREE, 1), bags=bag)


def test_the_noise_of_smaller_variance_is_taken() -> None:
    """With a delta the automatic choice is never wider than either family."""
    for epsilon, delta in ((0.05, 0.05), (1.0, 1e-6), (4.0, 1e-9)):
        automatic = ldp.BagCounts(THREE, epsilon, delta).noise.variance
        each = [ldp.BagCounts(THREE, epsilon, delta, noise).noise for noise in ("laplace", "gaussian")]

        assert min(noise.variance for noise in each) == automatic
        assert [DiscreteLaplace, DiscreteGaussian] == [type(noise) for noise in each]


def test_bad_requests_are_refused() -> None:
    """No bags, small bags, gaps, other lengths, other spaces, odd parameters: typed errors that say what to do."""
    labels, bag, _ = _table(THREE)
    mechanism = ldp.BagCounts(THREE, 1.0)
    with pytest.raises(InputError, match="bags="):
        ldp.privatize(labels, mechanism)
    with pytest.raises(ShapeError, match="2000 rows"):
        ldp.privatize(labels, mechanism, bags=bag[:-1])
    for bad, words in (
        (np.r_[4, bag[1:]], "at least 2 rows"),
        (np.where(bag == 1, 5, bag), "at least 2 rows"),
        (bag - 1, "from 0 upwards"),
        (bag.astype(float), "one integer bag"),
        (np.column_stack([bag, bag]), "one integer bag"),
        (bag + 5_000, "as many bags as rows"),
    ):
        with pytest.raises(ShapeError, match=words):
            ldp.privatize(labels, mechanism, bags=bad)
    with pytest.raises(SpaceMismatchError):
        ldp.Curator(ldp.RawLabels(labels, THREE), bags=bag).release(ldp.BagCounts(TWO, 1.0))
    with pytest.raises(EpsilonError, match="delta > 0"):
        ldp.BagCounts(THREE, 1.0, 0.0, "gaussian")
    with pytest.raises(InputError, match="'auto', 'laplace' or 'gaussian'"):
        ldp.BagCounts(THREE, 1.0, noise="dirichlet")  # type: ignore[arg-type]  # not a noise
    for epsilon in (0, -1, float("nan"), float("inf")):
        with pytest.raises(EpsilonError):
            ldp.BagCounts(THREE, epsilon)


def test_a_release_of_bags_survives_the_disk(tmp_path: Any) -> None:
    """What is read back has the same counts, bags, noise and guarantee."""
    labels, bag, _ = _table(TWO)
    release: Any = ldp.privatize(labels, ldp.BagCounts(TWO, 1.0), bags=bag)
    for name in ("bags.parquet", "bags.csv"):
        release.write(tmp_path / name)

        back: Any = ldp.read_release(tmp_path / name)

        assert np.array_equal(release.counts, back.counts)
        assert np.array_equal(bag, back.bags)
        assert release.guarantee == back.guarantee
