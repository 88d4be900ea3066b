"""Counts of bags: what they hold, what they cost, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.errors import EpsilonError, InputError, ShapeError, SpaceMismatchError
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
