"""What one kind of bound says about another, rounded up."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

from labeldp.exact import exp_bounds, float_up, round_up
from labeldp.guarantee.losses.numbers import covers

#: Half a unit in the last place of a float near 1.
ROUNDING: Final = 2.0**-53
#: More than a few operations on floats can lose.
NUDGE: Final = 1 + 64 * ROUNDING
# Beyond this tanh(eps/2) is 1 in all the places that are kept.
_SATURATED: Final = 200
_SMALLEST: Final = math.nextafter(0.0, 1.0)


def concentration_of_pure(pure: Fraction) -> Fraction:
    """Return eps tanh(eps/2), rounded up: tanh(eps/2) = (e^eps - 1)/(e^eps + 1) increases with e^eps (ERRATA F3)."""
    if pure == 0:
        return Fraction(0)
    if pure > _SATURATED:
        return round_up(pure)
    _, high = exp_bounds(pure)
    return round_up(pure * (high - 1) / (high + 1))


def delta_of_renyi(order: float, divergence: float, epsilon: float) -> float:
    """Return the delta that a Renyi divergence of order alpha = 1 + ``order`` implies, rounded up.

    Canonne, Kamath and Steinke (2020), proposition 12: ``e^((alpha-1)(D-eps)) (1 - 1/alpha)^alpha / (alpha-1)``; its
    logarithm is ``s (D - eps) + s log s - (1+s) log(1+s)`` with s = alpha - 1.
    """
    terms = (order * divergence, -order * epsilon, order * math.log(order), -(1 + order) * math.log1p(order))
    exponent = math.fsum(terms) + 16 * ROUNDING * math.fsum(map(abs, terms))
    # Small floats have few digits and the smallest none: a step up, since a delta of 0 would be a claim.
    return 1.0 if exponent >= 0 else math.exp(exponent) * NUDGE + 2 * _SMALLEST


def delta_of_concentration(rho: float, epsilon: float) -> float:
    """Return the least :func:`delta_of_renyi` over alpha, rounded up.

    The derivative of its exponent, (2s+1) rho - eps + log(s/(1+s)), grows.
    """
    if rho == 0 or math.isinf(epsilon):
        return 0.0
    low, high = -40.0, math.log((epsilon + 1) / rho)
    while high - low > 1e-9:
        middle = (low + high) / 2
        order = math.exp(middle)
        if (2 * order + 1) * rho - epsilon + middle - math.log1p(order) < 0:
            low = middle
        else:
            high = middle
    order = math.exp(high)
    return delta_of_renyi(order, (1 + order) * rho, epsilon)


def least_delta(pure: Fraction | None, rho: Fraction | None, epsilon: float, value: float) -> float:
    """Return the smallest of a delta and of what exact bounds imply."""
    if covers(pure, epsilon):
        return 0.0
    return value if rho is None else min(value, delta_of_concentration(float_up(rho), epsilon))
