"""What noisy counts and vectors of integers cost, and the noise that a budget allows.

Sensitivities are public integers or rationals.  Neighbours differ in one label of one row.  In a histogram of
K >= 3 classes that label moves two bins by 1; for K = 2 the number of rows is public, so one count is released and
moves by 1 (ERRATA A1).  Everything here is rounded against the mechanism: losses and deltas up, parameters of the
Laplace down, variances of the Gaussian up.
"""

from __future__ import annotations

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from functools import lru_cache
from typing import Any, Final

import numpy as np

from labeldp.errors import EpsilonError, InputError
from labeldp.exact import (
    delta_in_range,
    exact,
    exp_bounds,
    float_down,
    float_up,
    log_down,
    positive_epsilon,
    round_up,
)
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
from labeldp.noise.gaussian import DiscreteGaussian
from labeldp.noise.laplace import DiscreteLaplace
from labeldp.noise.sampling import grid_step, rational_at_most, round_up_to

IntegerNoise = DiscreteLaplace | DiscreteGaussian

#: Beyond this a count's noise says nothing, and e^epsilon is no number to compute with.
LARGEST_EPSILON: Final = 1 << 16
#: Smaller deltas are asked of nobody; pure noise gives delta = 0.
SMALLEST_DELTA: Final = Fraction(1, 10**30)
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

# Significant bits of a Gaussian parameter: the sampler's integers then fit 63 bits.
_VARIANCE_BITS: Final = 28
_UP: Final = Context(prec=60, rounding=ROUND_CEILING, Emin=-9_999_999, Emax=9_999_999)
_DOWN: Final = Context(prec=60, rounding=ROUND_FLOOR, Emin=-9_999_999, Emax=9_999_999)
# Outcomes of weight below e^-100 are cut from a law; their mass counts as lost.
_CUT_EXPONENT: Final = 100
# Below this variance the exact delta is scanned for its first crossing, above it is monotone for all that matters.
_SCANNED: Final = 1000
_CUT: Final = Decimal("1e-50")
_FAR: Final = 10_000


def noise_from_json(data: dict[str, Any]) -> IntegerNoise:
    """Read a law of noise that was written by its ``to_json``."""
    laws: tuple[type[DiscreteLaplace], type[DiscreteGaussian]] = (DiscreteLaplace, DiscreteGaussian)
    for law in laws:
        if data.get("family") == law.family:
            return law.from_json(data)
    raise InputError(f"Expected the law of an integer noise, got {data.get('family')!r}.", data=data)


def moved_bins(classes: object) -> int:
    """Return how many released counts one label moves: one for two classes, else two."""
    if isinstance(classes, bool) or not isinstance(classes, int | np.integer) or classes < 2:
        raise InputError(f"Expected an integer number of classes >= 2, got {classes!r}.", classes=classes)
    return 1 if classes == 2 else 2


# ---- vectors of a public sensitivity --------------------------------------------------------------------


def pure_epsilon(noise: DiscreteLaplace, l1: object) -> Fraction:
    """Return the exact pure epsilon a * L1 of an integer vector whose L1 sensitivity is ``l1``."""
    return noise.a * _positive(l1, "L1 sensitivity")


def concentrated_rho(noise: DiscreteGaussian, l2_squared: object) -> Fraction:
    """Return the exact zCDP parameter rho = L2^2 / (2 sigma^2) of an integer vector (Canonne et al., Theorem 14)."""
    return _positive(l2_squared, "squared L2 sensitivity") / (2 * noise.sigma_squared)


def laplace_vector(epsilon: object, l1: object) -> DiscreteLaplace:
    """Return the noise that makes an integer vector of L1 sensitivity ``l1`` epsilon-DP: a = epsilon / L1, down."""
    return DiscreteLaplace(_parameter(_epsilon(epsilon) / _positive(l1, "L1 sensitivity")))


def gaussian_vector(rho: object, l2_squared: object) -> DiscreteGaussian:
    """Return the noise that makes an integer vector rho-zCDP: sigma^2 = L2^2 / (2 rho), up."""
    variance = _positive(l2_squared, "squared L2 sensitivity") / (2 * _positive(rho, "rho"))
    return DiscreteGaussian(round_up_to(variance, _VARIANCE_BITS))


def rho_for(epsilon: object, delta: object) -> Fraction:
    """Return the largest zCDP parameter, to 10^-9, which implies (epsilon, delta): for vectors with Gaussian noise.

    Rounded down; the conversion is that of :class:`labeldp.guarantee.value.ConcentratedLoss`.

    >>> round(float(rho_for(1, 1e-5)), 6)
    0.030557
    """
    asked, allowed = _epsilon(epsilon), _gaussian_delta_in_range(delta)
    # The upper end is what only a delta near 1 would allow.
    low, high = 0.0, 4 * float(asked) + 1
    while low < high * (1 - 2.0**-31):
        middle = high / 2 if low == 0 else math.sqrt(low * high)
        fits = _is_stated(ConcentratedLoss(Fraction(middle)), asked, allowed)
        low, high = (middle, high) if fits else (low, middle)
    return Fraction(low)


def guarantee_of_vector(noise: IntegerNoise, *, l1: object = None, l2_squared: object = None) -> Guarantee:
    """Return what a noisy integer vector guarantees: Laplace needs its ``l1``, Gaussian its ``l2_squared``."""
    loss: Loss
    if isinstance(noise, DiscreteLaplace):
        loss = PureLoss(pure_epsilon(noise, l1))
    else:
        loss = ConcentratedLoss(concentrated_rho(noise, l2_squared))
    return Guarantee(loss, assumptions=ASSUMPTIONS)


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
    _check_bins(bins)
    asked, allowed = _epsilon(epsilon), delta_in_range(delta)
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
        if _laplace_delta(a, asked, bins) <= allowed and _is_stated(_laplace_loss(a, bins), asked, allowed):
            return a
        more, back = more * (1 - back), min(8 * back, Fraction(1))
    return pure


def hockey_stick_two_bins(a: object, epsilon: object) -> float:
    """Return the exact delta of two counts that move by 1, rounded up (ERRATA A1).

    delta(eps) = (1 - e^(eps-2a)) (e^a / (1 + e^a))^2 for 0 <= eps < 2a, and 0 beyond.

    >>> round(hockey_stick_two_bins(0.5, 0.3), 9)
    0.195050853
    """
    return float_up(_laplace_delta(DiscreteLaplace(exact(a)).a, _nonnegative(epsilon), 2))


def hockey_stick_one_bin(a: object, epsilon: object) -> float:
    """Return the exact delta of one count that moves by 1, rounded up: (1 - e^(eps-a)) e^a / (1 + e^a)."""
    return float_up(_laplace_delta(DiscreteLaplace(exact(a)).a, _nonnegative(epsilon), 1))


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
    _check_bins(bins)
    asked, allowed = _epsilon(epsilon), _gaussian_delta_in_range(delta)
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
    while _gaussian_delta(variance, asked, bins) > allowed or not _is_stated(
        _gaussian_loss(variance, bins, float_down(asked)), asked, allowed
    ):
        variance, step = variance + step, 2 * step
    return DiscreteGaussian(variance)


def hockey_stick_gaussian(noise: DiscreteGaussian, epsilon: object, bins: int = 2) -> float:
    """Return the exact delta of one or two counts that move by 1 under Gaussian noise, rounded up.

    Two bins move by (+1, -1): with D the difference of their noises the loss is (D + 1) / sigma^2, and
    P(D = d) = exp(-d^2 / (4 sigma^2)) theta_(d mod 2) / (theta_0^2 + theta_1^2), where theta_c is the sum of
    exp(-d^2 / (4 sigma^2)) over the integers d of parity c.  One bin: the loss is (2z + 1) / (2 sigma^2).
    """
    _check_bins(bins)
    if noise.sigma_squared > LARGEST_SUMMED:
        raise EpsilonError(
            f"Expected sigma^2 <= {LARGEST_SUMMED} for an exact delta, got {float(noise.sigma_squared):.3g}; "
            "its zCDP guarantee holds at any size.",
            noise=noise,
        )
    return float_up(_gaussian_delta(noise.sigma_squared, _nonnegative(epsilon), bins))


def analytic_gaussian_sigma(epsilon: object, delta: object, sensitivity: object) -> float:
    """Return the least sigma of *continuous* Gaussian noise that is (epsilon, delta)-DP (Balle and Wang; ERRATA B1).

    Phi(D/2s - eps s/D) - e^eps Phi(-D/2s - eps s/D) <= delta.  A starting value, and a number to compare with: it
    is solved in floats and certifies nothing for discrete noise, nor for noise made of floats.

    >>> round(analytic_gaussian_sigma(1, 1e-5, 1), 6)
    3.730632
    """
    asked, allowed = _epsilon(epsilon), _gaussian_delta_in_range(delta)
    return float(_positive(sensitivity, "sensitivity")) / _analytic_ratio(float(asked), float(allowed))


def zcdp_gaussian_sigma(rho: object, sensitivity: object) -> float:
    """Return sigma = D / sqrt(2 rho), the Gaussian noise of a rho-zCDP mechanism (ERRATA B1), as a float."""
    return float(_positive(sensitivity, "sensitivity")) / math.sqrt(2 * float(_positive(rho, "rho")))


# ---- both -----------------------------------------------------------------------------------------------


def delta_of_counts(noise: IntegerNoise, epsilon: object, classes: int) -> float:
    """Return the exact delta of the noisy counts of ``classes`` classes at ``epsilon``, rounded up."""
    bins = moved_bins(classes)
    if isinstance(noise, DiscreteLaplace):
        return float_up(_laplace_delta(noise.a, _nonnegative(epsilon), bins))
    return hockey_stick_gaussian(noise, epsilon, bins)


def guarantee_of_counts(noise: IntegerNoise, classes: int, *, epsilon: object = None) -> Guarantee:
    """Return what the noisy counts of ``classes`` classes guarantee: the exact law of their loss.

    The law of a wide Gaussian is abbreviated by chords, which lie above it; at ``epsilon``, the one that was asked
    for, it stays exact.

    >>> guarantee_of_counts(laplace_counts(1.0, 10), 10).epsilon()
    1.0
    """
    bins = moved_bins(classes)
    if isinstance(noise, DiscreteLaplace):
        return Guarantee(_laplace_loss(noise.a, bins), assumptions=ASSUMPTIONS)
    anchor = None if epsilon is None else float_down(_nonnegative(epsilon))
    return Guarantee(_gaussian_loss(noise.sigma_squared, bins, anchor), assumptions=ASSUMPTIONS)


# ---- inside ---------------------------------------------------------------------------------------------


def _laplace_delta(a: Fraction, epsilon: Fraction, bins: int) -> Fraction:
    # Each bin has loss a with probability e^a/(1+e^a), else -a; only the outcome with loss bins * a lies above
    # epsilon >= 0.  Rounded up: e^(eps - loss) from below, e^a/(1+e^a), which increases, from above.
    if epsilon >= bins * a:
        return Fraction(0)
    high = exp_bounds(a)[1]
    return (1 - exp_bounds(epsilon - bins * a)[0]) * (high / (1 + high)) ** bins


def _gaussian_delta(s: Fraction, epsilon: Fraction, bins: int) -> Fraction:
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
    growth = _decimal(exp_bounds(epsilon)[0] - 1, _DOWN)

    def reached(at: int) -> Decimal:
        tail = _DOWN.multiply(growth, _weight_sum(x, at + bins, bins, _DOWN))
        return _UP.subtract(_decimal(exp_bounds(-x * at**2)[1], _UP), tail)

    if bins == 1:
        whole = _DOWN.add(Decimal(1), _DOWN.multiply(Decimal(2), _weight_sum(x, 1, 1, _DOWN)))
        return Fraction(_UP.divide(reached(first), whole))
    low = _parity_sums(x, _DOWN)
    high = _parity_sums(x, _UP)
    whole = _DOWN.add(_DOWN.multiply(low[0], low[0]), _DOWN.multiply(low[1], low[1]))
    parts = [_UP.multiply(high[at % 2], reached(at)) for at in (first, first + 1)]
    return Fraction(_UP.divide(_UP.add(*parts), whole))


def _is_stated(loss: Loss, epsilon: Fraction, delta: Fraction) -> bool:
    """Say whether a loss, as it will be shown, is within what was asked."""
    return loss.epsilon_at(delta) <= float_up(epsilon)


def _laplace_loss(a: Fraction, bins: int) -> Loss:
    if bins == 1:
        return LawLoss(a, one_bin_laplace_law(a))
    # Each bin alone is a-DP, which is a tanh(a/2)-zCDP (ERRATA F3), and two bins add up: half of what 2a implies.
    high = exp_bounds(a)[1]
    return LawLoss(2 * a, two_bin_laplace_law(a), round_up(2 * a * (high - 1) / (high + 1)))


@lru_cache(maxsize=16)
def _gaussian_loss(s: Fraction, bins: int, anchor: float | None) -> Loss:
    rho = bins / (2 * s)
    if s > LARGEST_LISTED:
        return ConcentratedLoss(rho)
    law = _gaussian_law(s, bins)
    if len(law.losses) > LARGEST_LAW:
        spectrum = Spectrum.of(law)
        points = thinned(np.append(spectrum.losses[spectrum.losses > 0], 0.0), LARGEST_CHORD - 1)
        points = np.unique(np.append(points, [] if anchor is None else anchor))
        law = chord_law(points, np.array([spectrum.delta(point) for point in points.tolist()]))
    return LawLoss(None, law, rho)


def _gaussian_law(s: Fraction, bins: int) -> LossLaw:
    # The law of the loss as in hockey_stick_gaussian.  Losses are rounded up, probabilities good to 2^-50, and both
    # tails beyond the cut are lost: P(|D| > last) is at most twice the sum of their weights.
    x = 1 / (2 * bins * s)
    last = math.isqrt(math.floor(_CUT_EXPONENT / x))
    half = np.array(_weights(x, last))
    d = np.arange(-last, last + 1)
    weights = half[np.abs(d)]
    if bins == 1:
        probs = weights / float(sum(_parity_sums(x, _DOWN)))
    else:
        even, odd = (float(value) for value in _parity_sums(x, _DOWN))
        probs = weights * np.where(d % 2 == 0, even, odd) / (even**2 + odd**2)
    # (d + 1) / sigma^2, or (2z + 1) / (2 sigma^2): to the nearest float, and one step up.
    doubled = (2 * d + bins).tolist()
    losses = [math.nextafter(k * s.denominator / (2 * s.numerator), math.inf) for k in doubled]
    lost = 2 * float(_UP.next_plus(_weight_sum(x, last + 1, 1, _UP)))
    return LossLaw(tuple(losses), tuple(probs.tolist()), math.nextafter(lost, math.inf))


def _weights(x: Fraction, last: int) -> list[float]:
    """List exp(-x d^2) for d = 0 .. ``last``, each rounded once."""
    term, ratio, bend = Decimal(1), _decimal(exp_bounds(-x)[0], _DOWN), _decimal(exp_bounds(-2 * x)[0], _DOWN)
    weights = [1.0]
    for _ in range(last):
        term, ratio = _DOWN.multiply(term, ratio), _DOWN.multiply(ratio, bend)
        weights.append(float(term))
    return weights


def _parity_sums(x: Fraction, context: Context) -> tuple[Decimal, Decimal]:
    """Sum exp(-x d^2) over the even and over the odd integers."""
    even = context.add(Decimal(1), context.multiply(Decimal(2), _weight_sum(x, 2, 2, context)))
    return even, context.multiply(Decimal(2), _weight_sum(x, 1, 2, context))


def _weight_sum(x: Fraction, start: int, step: int, context: Context) -> Decimal:
    """Sum exp(-x d^2) over d = start, start + step, ..., start >= 0: from below or above, as the context rounds."""
    side = 0 if context is _DOWN else 1
    add, multiply = context.add, context.multiply
    term, ratio, bend = (
        _decimal(exp_bounds(-exponent)[side], context)
        for exponent in (x * start**2, x * (2 * start * step + step**2), 2 * x * step**2)
    )
    total = Decimal(0)
    while True:
        total = add(total, term)
        term = multiply(term, ratio)
        if term <= multiply(total, _CUT):
            break
        ratio = multiply(ratio, bend)
    if side == 0:
        return total
    # Ratios fall, so the rest is below a geometric series.
    return add(total, _UP.divide(term, _DOWN.subtract(Decimal(1), ratio)))


def _float_parity_sums(s: float) -> tuple[float, float]:
    """Sum exp(-d^2 / (4 s)) over the even and over the odd integers, in floats."""
    if s < 1:
        weights = [math.exp(-d * d / (4 * s)) for d in range(14)]
        return 1 + 2 * sum(weights[2::2]), 2 * sum(weights[1::2])
    # Poisson summation; the next term is below 10^-16 of the sum.
    swing = 2 * math.exp(-(math.pi**2) * s)
    return math.sqrt(math.pi * s) * (1 + swing), math.sqrt(math.pi * s) * (1 - swing)


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
    """Return the sum of _gaussian_delta as it stands, in floats: good to some 10^-12, and no proof."""
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


def _gaussian_delta_in_range(delta: object) -> Fraction:
    value = delta_in_range(delta)
    if value < SMALLEST_DELTA:
        raise EpsilonError(
            f"Expected delta >= 1e-100 for Gaussian noise, got {delta}. For delta=0 use discrete Laplace noise.",
            value=delta,
        )
    return value


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


def _decimal(x: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(x.numerator), Decimal(x.denominator))


def _epsilon(epsilon: object) -> Fraction:
    value = exact(epsilon)
    if value > LARGEST_EPSILON:
        raise EpsilonError(f"Expected epsilon <= {LARGEST_EPSILON}, got {epsilon}.", value=epsilon)
    return positive_epsilon(epsilon)


def _nonnegative(epsilon: object) -> Fraction:
    value = exact(epsilon)
    if not 0 <= value <= LARGEST_EPSILON:
        raise EpsilonError(f"Expected 0 <= epsilon <= {LARGEST_EPSILON}, got {epsilon}.", value=epsilon)
    return value


def _positive(value: object, name: str) -> Fraction:
    number = exact(value)
    if number <= 0:
        raise EpsilonError(f"Expected {name} > 0, got {value}.", value=value)
    return number


def _check_bins(bins: int) -> None:
    if bins not in {1, 2}:
        raise InputError(f"Expected 1 or 2 bins that a label moves, got {bins!r}.", bins=bins)
