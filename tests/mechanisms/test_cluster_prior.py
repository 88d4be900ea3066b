"""Counts of clusters, then responses with their laws as priors: one charge, and the law that was declared."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.errors import EpsilonError, InputError, PriorError, ShapeError
from labeldp.exact import exp_bounds
from labeldp.learn import as_evidence, posterior
from labeldp.release import laws_of_counts

SPACE = ldp.LabelSpace(["a", "b", "c", "d"])


def _table(rows: int = 4_000, clusters: int = 8) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    groups = np.arange(rows) % clusters
    codes = np.where(rng.random(rows) < 0.7, groups % 4, rng.integers(0, 4, rows))
    return SPACE.decode(codes), groups


@pytest.mark.parametrize("choose", ["correct", "information"])
def test_the_channel_is_the_one_the_counts_make(choose: Any) -> None:
    """From the released counts anybody can make the priors and the sets anew, and they are those of the release."""
    labels, groups = _table()
    mechanism = ldp.ClusterPriorResponse(SPACE, 1.0, groups, split=0.2, smooth=0.5, choose=choose)

    release: Any = ldp.privatize(labels, mechanism, coins=ldp.SeededCoins(2))

    laws = laws_of_counts(release.counts, 0.5)
    again = ldp.PriorRandomizedResponse(SPACE, mechanism.response_epsilon, laws, choose=choose).take(groups)
    assert again == release.channel
    assert np.array_equal(groups, release.groups)
    assert np.bincount(groups).tolist() == release.sizes.tolist()


def test_the_budget_is_spent_once_and_in_full() -> None:
    """Counts and response together cost what was asked, exactly, whatever the split."""
    labels, groups = _table()
    for split in (Fraction(1, 10), 0.025, 0.9):
        curator = ldp.Curator(labels, budget=2, space=SPACE)

        release = curator.release(ldp.ClusterPriorResponse(SPACE, 2, groups, split=split))

        assert 2.0 == release.guarantee.epsilon(0)
        assert 2 == curator.spent.epsilon


def test_tiny_data_end_to_end() -> None:
    """Summed over all outputs, no two neighbouring columns are told apart by more than e^epsilon: by enumeration.

    Three rows in one cluster of two labels: the noisy count of one label, then a response for each row.
    """
    space = ldp.LabelSpace([0, 1])
    mechanism = ldp.ClusterPriorResponse(space, 1, [0, 0, 0], split=Fraction(1, 2), smooth=1.0, choose="information")
    noise, low = mechanism.noise, 40

    def law_of(column: tuple[int, ...]) -> dict[tuple[int, ...], float]:
        law = {}
        for noisy in range(-low, low + 1):
            count = noise.pmf(noisy - column.count(0))
            prior = laws_of_counts(np.array([[noisy, 3 - noisy]]), 1.0)[0]
            channel = ldp.PriorRandomizedResponse(space, mechanism.response_epsilon, prior, choose="information")
            table = channel.transition
            for out in np.ndindex(2, 2, 2):
                law[noisy, *out] = count * math.prod(table[y, o] for y, o in zip(column, out, strict=True))
        return law

    worst = 0.0
    for column in np.ndindex(2, 2, 2):
        one = law_of(column)
        for row in range(3):
            other = law_of(tuple(1 - y if i == row else y for i, y in enumerate(column)))
            ratios = [one[key] / other[key] for key in one if other[key] > 0]
            assert all(other[key] > 0 for key in one if one[key] > 0)
            worst = max(worst, *ratios)

    assert worst <= float(exp_bounds(Fraction(1))[1]) * (1 + 1e-9)
    assert worst > math.exp(0.9)


def test_counts_and_labels_are_both_evidence() -> None:
    """The release goes to learners of rows; its counts add to that, while all rows are there."""
    labels, groups = _table()
    release: Any = ldp.privatize(labels, ldp.ClusterPriorResponse(SPACE, 1.5, groups, split=0.3))

    both = as_evidence(release) + as_evidence(release.counted)

    beliefs = posterior(both, np.full((len(labels), 4), 0.25))
    # The counts say which label a cluster holds: the belief is right for most rows.
    assert (SPACE.decode(beliefs.argmax(axis=1)) == labels).mean() > 0.6
    with pytest.raises(ShapeError, match="all rows"):
        _ = release[:100].counted
    assert 100 == len(release[:100])
    assert np.array_equal(groups[:100], release[:100].groups)


def test_laws_are_clipped_smoothed_and_normalised() -> None:
    """Negative counts are nothing, nothing at all is uniform, and what is left sums to one."""
    assert [[0.5, 0.5, 0.0]] == laws_of_counts(np.array([[3, 3, -9]])).tolist()
    assert np.allclose([[1 / 3] * 3], laws_of_counts(np.array([[-1, -2, 0]])))
    assert np.allclose([[4 / 9, 4 / 9, 1 / 9]], laws_of_counts(np.array([[3, 3, -9]]), 1.0))
    for smooth in (-1.0, math.nan, math.inf):
        with pytest.raises(InputError, match="smooth"):
            laws_of_counts(np.zeros((1, 2)), smooth)


def test_bad_requests_are_refused_before_a_label_is_touched() -> None:
    """Splits that leave nothing, odd choices, wrong clusters."""
    labels, groups = _table(40)
    for split in (0, 1, -0.1, 1.5, math.nan):
        with pytest.raises(EpsilonError):
            ldp.ClusterPriorResponse(SPACE, 1.0, groups, split=split)
    with pytest.raises(PriorError, match="'correct' or 'information'"):
        ldp.ClusterPriorResponse(SPACE, 1.0, groups, choose="best")  # type: ignore[arg-type]  # no choice
    with pytest.raises(InputError, match="smooth"):
        ldp.ClusterPriorResponse(SPACE, 1.0, groups, smooth=-1)
    with pytest.raises(ShapeError, match="40 rows"):
        ldp.privatize(labels, ldp.ClusterPriorResponse(SPACE, 1.0, groups[1:]))
    for bad in (groups.astype(float), groups - 1, groups + 1_000):
        with pytest.raises(ShapeError):
            ldp.ClusterPriorResponse(SPACE, 1.0, bad)


def test_it_survives_the_disk(tmp_path: Any) -> None:
    """What is read back has the same labels, counts, clusters and channel, and promises the same."""
    labels, groups = _table(400)
    release: Any = ldp.privatize(labels, ldp.ClusterPriorResponse(SPACE, 1.5, groups), ids=list(range(400)))
    for name in ("r.parquet", "r.csv"):
        release.write(tmp_path / name)

        back: Any = ldp.read_release(tmp_path / name)

        assert np.asarray(release).tolist() == np.asarray(back).tolist()
        assert release.channel == back.channel
        assert np.array_equal(release.counts, back.counts)
        assert np.array_equal(release.groups, back.groups)
        assert release.guarantee.epsilon(0) == back.guarantee.epsilon(0) == 1.5
