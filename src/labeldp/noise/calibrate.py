"""The noise that a budget allows, for counts and for vectors of integers.

Everything here is rounded against the mechanism: parameters of the Laplace down, variances of the Gaussian up.  What
is found is judged by :mod:`labeldp.noise.cost`, as the guarantee will be stated.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np

from labeldp.errors import EpsilonError
from labeldp.exact import delta_in_range, exp_bounds, float_down, float_up, log_down
from labeldp.guarantee.value import ConcentratedLoss, Loss
from labeldp.noise.asked import asked_epsilon, check_bins, gaussian_delta_in_range, moved_bins, positive
from labeldp.noise.cost import LARGEST_LISTED, gaussian_delta, gaussian_loss, laplace_delta, laplace_loss
from labeldp.noise.gaussian import DiscreteGaussian
from labeldp.noise.laplace import DiscreteLaplace
from labeldp.noise.sampling import grid_step, rational_at_most, round_up_to

# Significant bits of a Gaussian parameter: the sampler's integers then fit 63 bits.
_VARIANCE_BITS: Final = 28
# Below this variance the exact delta is scanned for its first crossing, above it is monotone for all that matters.
_SCANNED: Final = 1000


# ---- vectors of a public sensitivity --------------------------------------------------------------------


def laplace_vector(epsilon: object, l1: object) -> DiscreteLaplace:
    """Return the noise that makes an integer vector of L1 sensitivity ``l1`` epsilon-DP: a = epsilon / L1, down."""
    return DiscreteLaplace(_parameter(asked_epsilon(epsilon) / positive(l1, "L1 sensitivity")))


def gaussian_vector(rho: object, l2_squared: object) -> DiscreteGaussian:
    """Return the noise that makes an integer vector rho-zCDP: sigma^2 = L2^2 / (2 rho), up."""
    variance = positive(l2_squared, "squared L2 sensitivity") / (2 * positive(rho, "rho"))
    return DiscreteGaussian(round_up_to(variance, _VARIANCE_BITS))


def rho_for(epsilon: object, delta: object) -> Fraction:
    """Return the largest zCDP parameter, to 10^-9, which implies (epsilon, delta): for vectors with Gaussian noise.

    Rounded down; the conversion is that of :class:`labeldp.guarantee.value.ConcentratedLoss`.

    >>> round(float(rho_for(1, 1e-5)), 6)
    0.030557
    """
    asked, allowed = asked_epsilon(epsilon), gaussian_delta_in_range(delta)
    # The upper end is what only a delta near 1 would allow.
    low, high = 0.0, 4 * float(asked) + 1
    while low < high * (1 - 2.0**-31):
        middle = high / 2 if low == 0 else math.sqrt(low * high)
        fits = _is_stated(ConcentratedLoss(Fraction(middle)), asked, allowed)
        low, high = (middle, high) if fits else (low, middle)
    return Fraction(low)


def zcdp_gaussian_sigma(rho: object, sensitivity: object) -> float:
    """Return sigma = D / sqrt(2 rho), the Gaussian noise of a rho-zCDP mechanism (ERRATA B1), as a float."""
    return float(positive(sensitivity, "sensitivity")) / math.sqrt(2 * float(positive(rho, "rho")))


# ---- histograms with Laplace noise ----------------------------------------------------------------------


def laplace_counts(epsilon: object, classes: int, delta: object = 0) -> DiscreteLaplace:
    """Return the noise for the counts of ``classes`` classes under a budget.

    Pure: a = epsilon/2 a bin for K >= 3, a = epsilon on the one released count for K = 2.  Within 10^-9 of it, and
    exactly it when that is a simple rational.

    >>> laplace_counts(1.0, 10), laplace_counts(1.0, 2)
    (DiscreteLaplace(a=Fraction(1, 2)), DiscreteLaplace(a=Fraction(1, 1)))
    """
    return DiscreteLaplace(laplace_for(epsilon, delta, moved_bins(classes)))


def laplace_for(epsilon: object, delta: object, bins: int = 2) -> Fraction:
    """Return the largest parameter ``a`` whose hockey stick at ``epsilon`` is at most ``delta``, rounded down.

    With x = e^a and E = e^epsilon, solving ``delta(epsilon) = delta`` for x gives, for two bins,
    x = (delta + sqrt(delta^2 + (1 - delta)(E + delta))) / (1 - delta), and for one bin x = (E + delta) / (1 - delta).
    Both hockey sticks increase in a.
    """
    check_bins(bins)
    asked, allowed = asked_epsilon(epsilon), delta_in_range(delta)
    pure = _parameter(asked / bins)
    if allowed == 0:
        return pure
    grown = exp_bounds(asked)[0] + allowed
    if bins == 2:
        x = (allowed + _sqrt_down(allowed**2 + (1 - allowed) * grown)) / (1 - allowed)
    else:
        x = grown / (1 - allowed)
    more = _parameter(log_down(x)) - pure
    # Every step above rounds down, so the exact delta is met.  The guarantee is stated in floats, rounded up: where
    # these see too much, part of what delta gains over the pure parameter is given back.
    back = Fraction(1, 1 << 33)
    while more > 0:
        a = _parameter(pure + more)
        if laplace_delta(a, asked, bins) <= allowed and _is_stated(laplace_loss(a, bins), asked, allowed):
            return a
        more, back = more * (1 - back), min(8 * back, Fraction(1))
    return pure


def _parameter(x: Fraction) -> Fraction:
    # Checked before rounding, so that the error of the latter stays below 10^-9 of the parameter.
    if not Fraction(1, 1 << 30) <= x:
        raise EpsilonError(
            f"Expected an epsilon that needs a noise parameter of at least 2^-30, got {float(x):.3g}. Choose a larger "
            "epsilon, or release nothing.",
            value=x,
        )
    return rational_at_most(x)


def _sqrt_down(x: Fraction) -> Fraction:
    scale = 10**50
    return Fraction(math.isqrt(math.floor(x * scale**2)), scale)


# ---- histograms with Gaussian noise ---------------------------------------------------------------------


def gaussian_counts(epsilon: object, delta: object, classes: int) -> DiscreteGaussian:
    """Return the least Gaussian noise for the counts of ``classes`` classes under (epsilon, delta)."""
    return gaussian_for_counts(epsilon, delta, moved_bins(classes))


def gaussian_for_counts(epsilon: object, delta: object, bins: int = 2) -> DiscreteGaussian:
    """Return the smallest parameter, to some 28 bits, whose exact delta at ``epsilon`` is at most ``delta``.

    The search starts at the analytic Gaussian and runs on floats; what it finds is moved up until
    :func:`hockey_stick_gaussian`, which is proved, is satisfied.

    >>> round(float(gaussian_for_counts(1, 1e-5).sigma_squared), 3)
    27.83
    """
    check_bins(bins)
    asked, allowed = asked_epsilon(epsilon), gaussian_delta_in_range(delta)
    start = bins / _analytic_ratio(float(asked), float(allowed)) ** 2
    if start > LARGEST_LISTED / 2:
        raise EpsilonError(
            f"Expected an epsilon that needs a standard deviation below {math.isqrt(LARGEST_LISTED // 2)}, got "
            f"epsilon={epsilon}, delta={delta}. Choose a larger epsilon, or discrete Laplace noise.",
            value=epsilon,
        )
    variance = round_up_to(Fraction(_search(float(asked), float(allowed), bins, start)), _VARIANCE_BITS)
    step = grid_step(variance, _VARIANCE_BITS)
    # The exact delta, and the guarantee as it will be stated, in floats and rounded up, must both hold.
    while gaussian_delta(variance, asked, bins) > allowed or not _is_stated(
        gaussian_loss(variance, bins, float_down(asked)), asked, allowed
    ):
        variance, step = variance + step, 2 * step
    return DiscreteGaussian(variance)


def analytic_gaussian_sigma(epsilon: object, delta: object, sensitivity: object) -> float:
    """Return the least sigma of *continuous* Gaussian noise that is (epsilon, delta)-DP (Balle and Wang; ERRATA B1).

    Phi(D/2s - eps s/D) - e^eps Phi(-D/2s - eps s/D) <= delta.  A starting value, and a number to compare with: it
    is solved in floats and certifies nothing for discrete noise, nor for noise made of floats.

    >>> round(analytic_gaussian_sigma(1, 1e-5, 1), 6)
    3.730632
    """
    asked, allowed = asked_epsilon(epsilon), gaussian_delta_in_range(delta)
    return float(positive(sensitivity, "sensitivity")) / _analytic_ratio(float(asked), float(allowed))


def _analytic_ratio(epsilon: float, delta: float) -> float:
    """Return the largest D/sigma of continuous Gaussian noise that is (epsilon, delta)-DP."""
    from scipy.special import log_ndtr

    def delta_of(ratio: float) -> float:
        first = float(log_ndtr(ratio / 2 - epsilon / ratio))
        second = epsilon + float(log_ndtr(-ratio / 2 - epsilon / ratio))
        return -math.exp(first) * math.expm1(min(second - first, 0.0))

    # The delta grows with D/sigma.
    low = high = 1.0
    while delta_of(low) > delta:
        low /= 2
    while delta_of(high) <= delta:
        high *= 2
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if delta_of(middle) <= delta else (low, middle)
    return low


def _search(epsilon: float, delta: float, bins: int, start: float) -> float:
    """Find the least variance near ``start``, the analytic one, at which the delta in floats is ``delta`` or less.

    The exact delta is not monotone where sigma^2 epsilon is small: on the lattice, the outcomes whose loss exceeds
    epsilon change one by one.  So small variances are scanned upwards before the last interval is bisected.
    """
    high = start
    while _float_delta(high, epsilon, bins) > delta:
        high *= 1.25
    low = high
    while low > 2.0**-18 and _float_delta(low, epsilon, bins) <= delta:
        low /= 1.25
    if start < _SCANNED:
        grid = np.geomspace(max(start / 4, 2.0**-18), high, 1000).tolist()
        place = next(i for i, s in enumerate(grid) if i == len(grid) - 1 or _float_delta(s, epsilon, bins) <= delta)
        low, high = grid[max(place - 1, 0)], grid[place]
    while high > low * (1 + 2.0**-30):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _float_delta(middle, epsilon, bins) <= delta else (middle, high)
    return high


def _float_delta(s: float, epsilon: float, bins: int) -> float:
    """Return the sum of :func:`gaussian_delta` as it stands, in floats: good to some 10^-12, and no proof."""
    first = math.floor(epsilon * s + (0 if bins == 2 else 0.5))
    last = math.isqrt(first**2 + math.ceil(100 * bins * s)) + 3
    d = np.arange(first, last + 1, dtype=np.float64)
    weights = np.exp(-d * d / (2 * bins * s))
    even, odd = _float_parity_sums(s)
    if bins == 1:
        # The even ones among the d of variance 2 s are twice the integers of variance s / 2.
        mass, loss = weights / _float_parity_sums(2 * s)[0], (2 * d + 1) / (2 * s)
    else:
        mass = weights * np.where(d % 2 == 0, even, odd) / (even**2 + odd**2)
        loss = (d + 1) / s
    return float((mass * np.maximum(-np.expm1(np.minimum(epsilon - loss, 0.0)), 0.0)).sum())


def _float_parity_sums(s: float) -> tuple[float, float]:
    """Sum exp(-d^2 / (4 s)) over the even and over the odd integers, in floats."""
    if s < 1:
        weights = [math.exp(-d * d / (4 * s)) for d in range(14)]
        return 1 + 2 * sum(weights[2::2]), 2 * sum(weights[1::2])
    # Poisson summation; the next term is below 10^-16 of the sum.
    swing = 2 * math.exp(-(math.pi**2) * s)
    return math.sqrt(math.pi * s) * (1 + swing), math.sqrt(math.pi * s) * (1 - swing)


# ---- both -----------------------------------------------------------------------------------------------


def _is_stated(loss: Loss, epsilon: Fraction, delta: Fraction) -> bool:
    """Say whether a loss is within what was asked: as it will be charged, and as it will be shown."""
    return loss.delta(float_down(epsilon)) <= delta and loss.epsilon_at(delta) <= float_up(epsilon)
