"""Noisy label counts: exact budget, exact noise, public sizes."""

from __future__ import annotations

import numpy as np
import pytest

import labeldp as ldp
from labeldp import errors

LABELS = np.random.default_rng(0).integers(0, 4, 2_000)
GROUPS = np.random.default_rng(1).integers(0, 50, 2_000)


def test_two_labels_pay_for_one_count() -> None:
    """With two labels one count is drawn at the whole epsilon, and the pair sums to the public size."""
    space = ldp.LabelSpace([0, 1])

    release = ldp.privatize(LABELS % 2, ldp.LabelHistogram(space, 1, groups=GROUPS))

    assert isinstance(release, ldp.HistogramRelease)
    assert release.noise.a == 1  # type: ignore[union-attr]
    assert release.counts.sum(axis=1).tolist() == np.bincount(GROUPS).tolist()
    assert release.guarantee.epsilon() == 1.0


def test_more_labels_pay_for_two_counts() -> None:
    """One label moves two counts: the noise parameter is half of epsilon, the total cost epsilon."""
    space = ldp.LabelSpace(range(4))

    release = ldp.privatize(LABELS, ldp.LabelHistogram(space, 1, groups=GROUPS))

    assert isinstance(release, ldp.HistogramRelease)
    assert release.noise.a * 2 == 1  # type: ignore[union-attr]
    assert release.guarantee.epsilon() == 1.0
    assert release.guarantee.delta(0.9) > 0


def test_the_noise_has_the_declared_variance() -> None:
    """Counts are off by the declared noise: sum of squares within five standard errors."""
    space = ldp.LabelSpace(range(4))
    groups = np.arange(2_000)
    release = ldp.privatize(LABELS, ldp.LabelHistogram(space, 1, groups=groups), coins=ldp.SeededCoins(1))
    assert isinstance(release, ldp.HistogramRelease)
    error = (release.counts - np.eye(4, dtype=int)[LABELS]).ravel()

    # Laplace noise has a fourth moment of about six variances squared: Var(z^2) is about 5 variance^2.
    tolerance = 5 * release.variance * np.sqrt(5 / error.size)
    assert abs(error.var() - release.variance) < tolerance
    assert abs(error.mean()) < 5 * np.sqrt(release.variance / error.size)


@pytest.mark.parametrize("groups", [[0.5, 1.0], [[0], [1]], [-1, 0], []], ids=str)
def test_bad_groups_are_refused(groups: object) -> None:
    """Groups are integers from 0 upwards, one a row."""
    with pytest.raises(errors.InputError):
        ldp.LabelHistogram(ldp.LabelSpace([0, 1]), 1, groups=groups)
