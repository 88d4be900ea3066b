"""Facts about the integer thresholds of responses."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.channels.threshold import (
    other_weight,
    redraw_probability,
    resampling_extra,
    response_threshold,
    response_weights,
)
from labeldp.errors import EpsilonError
from labeldp.testing.strategies import epsilons
from tests.channels.helpers import exp_bounds, reading

F = Fraction
_BITS = 62
sizes = st.integers(2, 3000)
rationals = epsilons(1e-15, 45.0).map(lambda epsilon: reading(float(epsilon)))


@given(size=sizes, epsilon=rationals, bits=st.sampled_from([20, 53, 62, 64, 128]))
def test_the_threshold_is_the_floor(size: int, epsilon: Fraction, bits: int) -> None:
    """T is the largest integer whose share of 2^bits is at most e^eps / (e^eps + K - 1)."""
    threshold = response_threshold(size, epsilon, bits)
    low, high = exp_bounds(epsilon)

    assert 2**bits * high / (high + size - 1) >= threshold
    assert 2**bits * low / (low + size - 1) < threshold + 1


def test_thresholds_of_64_bits_are_the_published_ones() -> None:
    """ERRATA F1: eps = 1, K = 10 and 64 bits give 4279078617824395103."""
    assert 4279078617824395103 == response_threshold(10, F(1), 64)


@given(size=sizes, epsilon=rationals)
def test_the_truth_gets_what_the_others_leave(size: int, epsilon: Fraction) -> None:
    """Weights sum to 2^62, every label has at least 1, and the true one at most e^eps times that."""
    try:
        other, extra = response_weights(size, epsilon, _BITS)
    except EpsilonError:
        # A table of 2^62 cannot be so fine: the smallest epsilon is about K^2 / 2^62.
        assert epsilon < F(2 * size**2, 2**_BITS)
        return

    assert 2**_BITS == extra + size * other
    assert other >= 1
    assert extra >= 2**_BITS % size
    assert F(other + extra, other) <= exp_bounds(epsilon)[0]


def test_what_a_set_cannot_share_evenly_never_exceeds_epsilon() -> None:
    """At the smallest epsilons the remainder of 2^62 by K is covered by what the truth gets, or they are refused."""
    fine, refused = [], 0
    for size in range(3, 300):
        for share in (F(1, 9), F(1, 3), F(1, 2), F(1)):
            try:
                fine.append((size, response_weights(size, share * size**2 / 2**_BITS, _BITS)))
            except EpsilonError:
                refused += 1

    assert all(extra >= 2**_BITS % size for size, (_, extra) in fine)
    assert len(fine) > 100
    assert refused > 100


@given(size=sizes, epsilon=rationals)
def test_no_finer_weight_would_do(size: int, epsilon: Fraction) -> None:
    """One unit less for each other label would exceed epsilon: nothing is given away."""
    try:
        other, extra = response_weights(size, epsilon, _BITS)
    except EpsilonError:
        return

    assert other == 1 or F(other + extra + size - 1, other - 1) > exp_bounds(epsilon)[1]


@pytest.mark.parametrize(("size", "threshold", "bits", "expected"), [(2, 3, 2, 1), (3, 1, 3, 4), (3, 2, 3, 3)])
def test_the_others_share_equally_rounded_up(size: int, threshold: int, bits: int, expected: int) -> None:
    """What is not the truth's is shared equally, and the remainder is taken from the truth."""
    assert expected == other_weight(size, threshold, bits)


@pytest.mark.parametrize("epsilon", [F(1, 2**62), F(1, 10**30)])
def test_too_small_an_epsilon_is_refused(epsilon: Fraction) -> None:
    """A table that cannot be told from the uniform one is refused, and the error holds the epsilon."""
    with pytest.raises(EpsilonError, match="Expected an epsilon that a table") as caught:
        response_weights(10, epsilon, _BITS)

    assert epsilon == caught.value.context["epsilon"]


@given(smallest=st.integers(0, 2**61), epsilon=rationals)
def test_the_kept_label_weighs_at_most_its_share(smallest: int, epsilon: Fraction) -> None:
    """A is the largest integer with A <= (e^eps - 1) min w."""
    extra = resampling_extra(smallest, epsilon)
    low, high = exp_bounds(epsilon)

    assert (high - 1) * smallest >= extra
    assert (low - 1) * smallest < extra + 1


def test_the_example_of_the_errata() -> None:
    """ERRATA A3: weights (7, 2, 1) 10^5 and eps = 1 keep 171828."""
    assert 171828 == resampling_extra(100_000, F(1))


@given(smallest=st.fractions(F(1, 10**12), F(1, 2)), epsilon=rationals)
def test_redrawing_is_rounded_up(smallest: Fraction, epsilon: Fraction) -> None:
    """Lambda is at least 1 / (1 + (e^eps - 1) min q), and no more than 1e-40 above it."""
    redraw = redraw_probability(smallest, epsilon)
    low, high = (1 / (1 + (growth - 1) * smallest) for growth in reversed(exp_bounds(epsilon)))

    assert low <= redraw
    assert redraw <= high + F(1, 10**40)
    assert redraw < 1


def test_an_assertion_guards_the_enclosure(monkeypatch: pytest.MonkeyPatch) -> None:
    """A careless enclosure of e^eps would not go unnoticed."""
    monkeypatch.setattr("labeldp.channels.threshold.exp_bounds", lambda x: (F(math.exp(x)), F(math.exp(x)) * 2))

    with pytest.raises(AssertionError):
        response_threshold(3, F(1), _BITS)
