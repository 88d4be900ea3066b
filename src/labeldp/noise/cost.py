"""What noisy counts and vectors of integers cost.

Sensitivities are public integers or rationals.  Neighbours differ in one label of one row.  In a histogram of
K >= 3 classes that label moves two bins by 1; for K = 2 the number of rows is public, so one count is released and
moves by 1 (ERRATA A1).  Losses and deltas are rounded up.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Final

import numpy as np

from labeldp.errors import EpsilonError
from labeldp.exact import exact, exp_bounds, float_down, float_up, round_up
from labeldp.guarantee.law import LARGEST_CHORD, LossLaw, Spectrum, chord_law, thinned
from labeldp.guarantee.value import (
    ConcentratedLoss,
    Guarantee,
    LawLoss,
    Loss,
    PureLoss,
    one_bin_laplace_law,
    two_bin_laplace_law,
)
from labeldp.noise.asked import check_bins, epsilon_from_zero, moved_bins, positive
from labeldp.noise.families import IntegerNoise
from labeldp.noise.gaussian import DiscreteGaussian
from labeldp.noise.laplace import DiscreteLaplace
from labeldp.noise.theta import DOWN, UP, as_decimal, parity_sums, weight_sum, weights_to

#: The exact delta sums some 40 sigma terms: beyond this variance it would take seconds.
LARGEST_SUMMED: Final = 1 << 32
#: The law of a Gaussian's loss has some 40 sigma points: beyond this variance its zCDP alone is stated.
LARGEST_LISTED: Final = 1 << 24
#: A law of more points than this is abbreviated.
LARGEST_LAW: Final = 4096

ASSUMPTIONS: Final = (
    "The rows, and every parameter of the noise, are public and were chosen without the labels.",
    "The coins are secret, each was used once, and no other release of the same labels goes unaccounted.",
)

# Outcomes of weight below e^-100 are cut from a law; their mass counts as lost.
_CUT_EXPONENT: Final = 100
_FAR: Final = 10_000


# ---- vectors of a public sensitivity --------------------------------------------------------------------


def pure_epsilon(noise: DiscreteLaplace, l1: object) -> Fraction:
    """Return the exact pure epsilon a * L1 of an integer vector whose L1 sensitivity is ``l1``."""
    return noise.a * positive(l1, "L1 sensitivity")


def concentrated_rho(noise: DiscreteGaussian, l2_squared: object) -> Fraction:
    """Return the exact zCDP parameter rho = L2^2 / (2 sigma^2) of an integer vector (Canonne et al., Theorem 14)."""
    return positive(l2_squared, "squared L2 sensitivity") / (2 * noise.sigma_squared)


def guarantee_of_vector(
    noise: IntegerNoise,
    *,
    l1: object = None,
    l2_squared: object = None,
    epsilon: object = None,
    delta: object = 0,
) -> Guarantee:
    """Return what a noisy integer vector guarantees: Laplace needs its ``l1``, Gaussian its ``l2_squared``.

    With ``epsilon`` and ``delta``, which were asked for and must be met, that pair is what it is charged as.
    """
    loss: Loss
    if isinstance(noise, DiscreteLaplace):
        loss = PureLoss(pure_epsilon(noise, l1))
    else:
        loss = ConcentratedLoss(concentrated_rho(noise, l2_squared))
    guarantee = Guarantee(loss, assumptions=ASSUMPTIONS)
    return guarantee if epsilon is None else guarantee.asked(epsilon, delta)


# ---- histograms -----------------------------------------------------------------------------------------


def guarantee_of_counts(
    noise: IntegerNoise, classes: int, *, epsilon: object = None, delta: object = None
) -> Guarantee:
    """Return what the noisy counts of ``classes`` classes guarantee: the exact law of their loss.

    The law of a wide Gaussian is abbreviated by chords, which lie above it; at ``epsilon``, the one that was asked
    for, it stays exact.  With a ``delta`` beside it, which must be met, that pair is what they are charged as.

    >>> from labeldp.noise import laplace_counts
    >>> guarantee_of_counts(laplace_counts(1.0, 10), 10).epsilon()
    1.0
    """
    bins = moved_bins(classes)
    anchor = None if epsilon is None else float_down(epsilon_from_zero(epsilon))
    if isinstance(noise, DiscreteLaplace):
        loss = laplace_loss(noise.a, bins)
    else:
        loss = gaussian_loss(noise.sigma_squared, bins, anchor)
    guarantee = Guarantee(loss, assumptions=ASSUMPTIONS)
    return guarantee if epsilon is None or delta is None else guarantee.asked(epsilon, delta)


def delta_of_counts(noise: IntegerNoise, epsilon: object, classes: int) -> float:
    """Return the exact delta of the noisy counts of ``classes`` classes at ``epsilon``, rounded up."""
    bins = moved_bins(classes)
    if isinstance(noise, DiscreteLaplace):
        return float_up(laplace_delta(noise.a, epsilon_from_zero(epsilon), bins))
    return hockey_stick_gaussian(noise, epsilon, bins)


def hockey_stick_two_bins(a: object, epsilon: object) -> float:
    """Return the exact delta of two counts that move by 1, rounded up (ERRATA A1).

    delta(eps) = (1 - e^(eps-2a)) (e^a / (1 + e^a))^2 for 0 <= eps < 2a, and 0 beyond.

    >>> round(hockey_stick_two_bins(0.5, 0.3), 9)
    0.195050853
    """
    return float_up(laplace_delta(DiscreteLaplace(exact(a)).a, epsilon_from_zero(epsilon), 2))


def hockey_stick_one_bin(a: object, epsilon: object) -> float:
    """Return the exact delta of one count that moves by 1, rounded up: (1 - e^(eps-a)) e^a / (1 + e^a)."""
    return float_up(laplace_delta(DiscreteLaplace(exact(a)).a, epsilon_from_zero(epsilon), 1))


def hockey_stick_gaussian(noise: DiscreteGaussian, epsilon: object, bins: int = 2) -> float:
    """Return the exact delta of one or two counts that move by 1 under Gaussian noise, rounded up.

    Two bins move by (+1, -1): with D the difference of their noises the loss is (D + 1) / sigma^2, and
    P(D = d) = exp(-d^2 / (4 sigma^2)) theta_(d mod 2) / (theta_0^2 + theta_1^2), where theta_c is the sum of
    exp(-d^2 / (4 sigma^2)) over the integers d of parity c.  One bin: the loss is (2z + 1) / (2 sigma^2).
    """
    check_bins(bins)
    if noise.sigma_squared > LARGEST_SUMMED:
        raise EpsilonError(
            f"Expected sigma^2 <= {LARGEST_SUMMED} for an exact delta, got {float(noise.sigma_squared):.3g}; "
            "its zCDP guarantee holds at any size.",
            noise=noise,
        )
    return float_up(gaussian_delta(noise.sigma_squared, epsilon_from_zero(epsilon), bins))


# ---- with Laplace noise ---------------------------------------------------------------------------------


def laplace_delta(a: Fraction, epsilon: Fraction, bins: int) -> Fraction:
    """Return the exact delta of the counts that a label moves, rounded up."""
    # Each bin has loss a with probability e^a/(1+e^a), else -a; only the outcome with loss bins * a lies above
    # epsilon >= 0.  Rounded up: e^(eps - loss) from below, e^a/(1+e^a), which increases, from above.
    if epsilon >= bins * a:
        return Fraction(0)
    high = exp_bounds(a)[1]
    return (1 - exp_bounds(epsilon - bins * a)[0]) * (high / (1 + high)) ** bins


def laplace_loss(a: Fraction, bins: int) -> Loss:
    """Return the loss of the counts that a label moves."""
    if bins == 1:
        return LawLoss(a, one_bin_laplace_law(a))
    # Each bin alone is a-DP, which is a tanh(a/2)-zCDP (ERRATA F3), and two bins add up: half of what 2a implies.
    high = exp_bounds(a)[1]
    return LawLoss(2 * a, two_bin_laplace_law(a), round_up(2 * a * (high - 1) / (high + 1)))


# ---- with Gaussian noise --------------------------------------------------------------------------------


def gaussian_delta(s: Fraction, epsilon: Fraction, bins: int) -> Fraction:
    """Return the exact delta of the counts that a label moves, rounded up; ``s`` is the variance."""
    # delta = sum of P(d) - e^eps Q(d) over outcomes d with loss > eps, and Q(d) = P(d + step): with w the weights,
    # those of one class of d (parity, for two bins) telescope to
    #     w(first) - (e^eps - 1) (w(first + step) + w(first + 2 step) + ...).
    # Rounded up: the tail is summed from below, and cutting it leaves its mass in delta.
    x = 1 / (2 * bins * s)
    # d + 1 > eps sigma^2 for two bins, z + 1/2 > eps sigma^2 for one.
    first = math.floor(epsilon * s + (0 if bins == 2 else Fraction(1, 2)))
    if x * first**2 > _FAR:
        # Every class's probability of its first outcome is below its weight, and so is delta.
        return Fraction(2, 10**4000)
    growth = as_decimal(exp_bounds(epsilon)[0] - 1, DOWN)

    def reached(at: int) -> Decimal:
        tail = DOWN.multiply(growth, weight_sum(x, at + bins, bins, DOWN))
        return UP.subtract(as_decimal(exp_bounds(-x * at**2)[1], UP), tail)

    if bins == 1:
        whole = DOWN.add(Decimal(1), DOWN.multiply(Decimal(2), weight_sum(x, 1, 1, DOWN)))
        return Fraction(UP.divide(reached(first), whole))
    low = parity_sums(x, DOWN)
    high = parity_sums(x, UP)
    whole = DOWN.add(DOWN.multiply(low[0], low[0]), DOWN.multiply(low[1], low[1]))
    parts = [UP.multiply(high[at % 2], reached(at)) for at in (first, first + 1)]
    return Fraction(UP.divide(UP.add(*parts), whole))


@lru_cache(maxsize=16)
def gaussian_loss(s: Fraction, bins: int, anchor: float | None) -> Loss:
    """Return the loss of the counts that a label moves, exact at ``anchor`` also where it is abbreviated."""
    rho = bins / (2 * s)
    if s > LARGEST_LISTED:
        return ConcentratedLoss(rho)
    law = gaussian_law(s, bins)
    if len(law.losses) > LARGEST_LAW:
        spectrum = Spectrum.of(law)
        points = thinned(np.append(spectrum.losses[spectrum.losses > 0], 0.0), LARGEST_CHORD - 1)
        points = np.unique(np.append(points, [] if anchor is None else anchor))
        law = chord_law(points, np.array([spectrum.delta(point) for point in points.tolist()]))
    return LawLoss(None, law, rho)


def gaussian_law(s: Fraction, bins: int) -> LossLaw:
    """Return the law of the loss, in full."""
    # The law of the loss as in hockey_stick_gaussian.  Losses are rounded up, probabilities good to 2^-50, and both
    # tails beyond the cut are lost: P(|D| > last) is at most twice the sum of their weights.
    x = 1 / (2 * bins * s)
    last = math.isqrt(math.floor(_CUT_EXPONENT / x))
    half = np.array(weights_to(x, last))
    d = np.arange(-last, last + 1)
    weights = half[np.abs(d)]
    if bins == 1:
        probs = weights / float(sum(parity_sums(x, DOWN)))
    else:
        even, odd = (float(value) for value in parity_sums(x, DOWN))
        probs = weights * np.where(d % 2 == 0, even, odd) / (even**2 + odd**2)
    # (d + 1) / sigma^2, or (2z + 1) / (2 sigma^2): to the nearest float, and one step up.
    doubled = (2 * d + bins).tolist()
    losses = [math.nextafter(k * s.denominator / (2 * s.numerator), math.inf) for k in doubled]
    lost = 2 * float(UP.next_plus(weight_sum(x, last + 1, 1, UP)))
    return LossLaw(tuple(losses), tuple(probs.tolist()), math.nextafter(lost, math.inf))
