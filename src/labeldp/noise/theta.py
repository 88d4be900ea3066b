"""Sums of Gaussian weights exp(-x d^2) over integers, enclosed: each from below or from above, as asked."""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from typing import Final

from labeldp.exact import exp_bounds

UP: Final = Context(prec=60, rounding=ROUND_CEILING, Emin=-9_999_999, Emax=9_999_999)
DOWN: Final = Context(prec=60, rounding=ROUND_FLOOR, Emin=-9_999_999, Emax=9_999_999)

_CUT: Final = Decimal("1e-50")


def weights_to(x: Fraction, last: int) -> list[float]:
    """List exp(-x d^2) for d = 0 .. ``last``, each rounded once."""
    term, ratio, bend = Decimal(1), as_decimal(exp_bounds(-x)[0], DOWN), as_decimal(exp_bounds(-2 * x)[0], DOWN)
    weights = [1.0]
    for _ in range(last):
        term, ratio = DOWN.multiply(term, ratio), DOWN.multiply(ratio, bend)
        weights.append(float(term))
    return weights


def parity_sums(x: Fraction, context: Context) -> tuple[Decimal, Decimal]:
    """Sum exp(-x d^2) over the even and over the odd integers."""
    even = context.add(Decimal(1), context.multiply(Decimal(2), weight_sum(x, 2, 2, context)))
    return even, context.multiply(Decimal(2), weight_sum(x, 1, 2, context))


def weight_sum(x: Fraction, start: int, step: int, context: Context) -> Decimal:
    """Sum exp(-x d^2) over d = start, start + step, ..., start >= 0: from below or above, as the context rounds."""
    side = 0 if context is DOWN else 1
    add, multiply = context.add, context.multiply
    term, ratio, bend = (
        as_decimal(exp_bounds(-exponent)[side], context)
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
    return add(total, UP.divide(term, DOWN.subtract(Decimal(1), ratio)))


def as_decimal(x: Fraction, context: Context) -> Decimal:
    """Write a rational as a decimal, rounded as the context says."""
    return context.divide(Decimal(x.numerator), Decimal(x.denominator))
