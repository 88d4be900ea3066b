"""Numbers on which privacy depends: exact rationals, rounded the safe way only at the end.

``Decimal.exp`` and ``Decimal.ln`` are correctly rounded, so one unit in the last place on either side of
their result is a proof, not an estimate.
"""

from __future__ import annotations

import math
import re
import sys
import warnings
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import Any

from labeldp.errors import EpsilonError, LargeEpsilonWarning

_DIGITS = 60
_UP = Context(prec=_DIGITS, rounding=ROUND_CEILING, Emin=-9_999_999, Emax=9_999_999)
_DOWN = Context(prec=_DIGITS, rounding=ROUND_FLOOR, Emin=-9_999_999, Emax=9_999_999)

# Exact epsilons are kept to this many decimal places, rounded up: far finer than any table of 2^62 can show.
_PLACES = 10**40

#: Above this epsilon an attacker's odds may change by more than 10^21: a warning, not an error.
ABSURD_EPSILON = 50
#: Above this epsilon the digits of e^epsilon fill the memory: an error.
LARGEST_EPSILON = 10**6

# What follows would have too many digits to be written out.
_LONG_POWER = re.compile(r"[eE][+-]?\d{5,}")

#: Anything that may stand for a number in a public parameter.
Number = int | float | str | Fraction | Decimal


def exact(number: object) -> Fraction:
    """Return the rational a caller meant by ``number``, never more than either reading of a float.

    A float has two readings: its binary value and the decimal it prints as.  The smaller one is taken, so that
    ten charges of ``0.1`` fit a budget of ``1`` and no mechanism exceeds the float that was asked for.
    """
    if isinstance(number, bool):
        raise EpsilonError(f"Expected a number, got the truth value {number}.", value=number)
    if isinstance(number, Rational | Decimal | str):
        return _parsed(number)
    if isinstance(number, Real):
        return min(Fraction(_finite(number)), _printed(number))
    raise EpsilonError(f"Expected a number, got {type(number).__name__}.", value=number)


def exact_up(number: object) -> Fraction:
    """Return the rational a caller meant by ``number``, never less than either reading of a float."""
    if isinstance(number, Real) and not isinstance(number, Rational | bool):
        return max(Fraction(_finite(number)), _printed(number))
    return exact(number)


def declared(number: object) -> Fraction:
    """Return the rational that ``number`` prints as: how a budget written by its owner is read."""
    if isinstance(number, Real) and not isinstance(number, Rational | bool):
        _finite(number)
        return _printed(number)
    return exact(number)


def positive_epsilon(epsilon: object, name: str = "epsilon") -> Fraction:
    """Validate an asked epsilon: a finite number above zero."""
    value = exact(epsilon)
    if value <= 0:
        raise EpsilonError(f"Expected {name} > 0, got {epsilon}. Choose a positive number, such as 1.", value=epsilon)
    if value > LARGEST_EPSILON:
        raise EpsilonError(
            f"Expected {name} <= {LARGEST_EPSILON}, got {epsilon}. Choose a smaller number, such as 1.", value=epsilon
        )
    if value > ABSURD_EPSILON:
        warnings.warn(
            f"{name}={epsilon} is above {ABSURD_EPSILON}: such a release hides nothing.",
            LargeEpsilonWarning,
            stacklevel=3,
        )
    return value


def delta_in_range(delta: object) -> Fraction:
    """Validate a delta: a number in [0, 1)."""
    value = exact(delta)
    if not 0 <= value < 1:
        raise EpsilonError(f"Expected 0 <= delta < 1, got {delta}.", value=delta)
    return value


def exp_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """Enclose e^x between two rationals; an exponent above 10^6 is refused, the digits would fill the memory."""
    if x > LARGEST_EPSILON:
        raise EpsilonError(f"Expected an exponent of at most {LARGEST_EPSILON}, got about {float_down(x):.6g}.")
    if x < -LARGEST_EPSILON:
        return Fraction(0), exp_bounds(Fraction(-LARGEST_EPSILON))[1]
    low = _DOWN.exp(_decimal(x, _DOWN))
    high = _UP.exp(_decimal(x, _UP))
    return Fraction(_DOWN.next_minus(low)), Fraction(_UP.next_plus(high))


def log_up(x: Fraction) -> Fraction:
    """Return a rational at or above log x, within 10^-40 of it."""
    value = _decimal(x, _UP)
    return Fraction(0) if value == 1 else round_up(Fraction(_UP.next_plus(_UP.ln(value))))


def log_down(x: Fraction) -> Fraction:
    """Return a rational at or below log x."""
    value = _decimal(x, _DOWN)
    return Fraction(0) if value == 1 else Fraction(_DOWN.next_minus(_DOWN.ln(value)))


def round_up(x: Fraction) -> Fraction:
    """Round ``x`` up to 40 decimal places."""
    return Fraction(math.ceil(x * _PLACES), _PLACES)


def float_up(x: Fraction) -> float:
    """Return the smallest float at or above ``x``, which may be infinity."""
    nearest = _nearest(x)
    return nearest if Fraction(nearest) >= x else math.nextafter(nearest, math.inf)


def float_down(x: Fraction) -> float:
    """Return the largest float at or below ``x``, which may be minus infinity."""
    return 0.0 - float_up(-x)  # and no minus zero


def to_text(x: Fraction) -> str:
    """Write a rational so that :func:`from_text` reads back the very same number."""
    return f"{x.numerator}/{x.denominator}" if x.denominator != 1 else str(x.numerator)


def from_text(text: str) -> Fraction:
    """Read what :func:`to_text` wrote."""
    return Fraction(text)


def _parsed(number: Rational | Decimal | str) -> Fraction:
    if isinstance(number, Decimal | str) and _LONG_POWER.search(str(number)):
        raise EpsilonError(f"Expected a power of ten of at most four digits, got {number!r}.", value=number)
    try:
        # An integer of NumPy would overflow inside a fraction.
        return Fraction(int(number)) if isinstance(number, Integral) else Fraction(number)
    except (ValueError, OverflowError, ZeroDivisionError, TypeError):
        raise EpsilonError(f"Expected a finite number, got {number!r}.", value=number) from None


def _finite(number: Any) -> float:  # a real number
    value = float(number)
    if not math.isfinite(value):
        raise EpsilonError(f"Expected a finite number, got {value}.", value=number)
    return value


def _printed(number: Any) -> Fraction:  # a real number
    """Return the decimal that a finite float of any width prints as."""
    return _parsed(repr(float(number)) if isinstance(number, float) else str(number))


def _nearest(x: Fraction) -> float:
    """Return a float next to ``x``: the largest one where no float is near."""
    try:
        return float(x)
    except OverflowError:
        return sys.float_info.max if x > 0 else -sys.float_info.max


def _decimal(x: Fraction, context: Context) -> Decimal:
    return context.divide(Decimal(x.numerator), Decimal(x.denominator))
