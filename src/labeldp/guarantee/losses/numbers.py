"""Exact numbers of losses, where None says that there is no bound."""

from __future__ import annotations

import math
from fractions import Fraction

from labeldp.errors import EpsilonError
from labeldp.exact import from_text, to_text


def nonnegative(value: object, name: str, most: int | None = None) -> Fraction:
    """Return an exact number of at least 0, and at most ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise EpsilonError(f"Expected {name} as an exact Fraction, got {value!r}.", value=value)
    if value < 0 or (most is not None and value > most):
        limit = "" if most is None else f" and <= {most}"
        raise EpsilonError(f"Expected {name} >= 0{limit}, got {value}.", value=value)
    return Fraction(value)


def plus(left: Fraction | None, right: Fraction | None) -> Fraction | None:
    """Add two bounds; there is none if one is missing."""
    return None if left is None or right is None else left + right


def repeated(value: Fraction | None, count: int) -> Fraction | None:
    """Multiply a bound; there is none if it is missing."""
    return None if value is None else count * value


def larger(left: Fraction | None, right: Fraction | None) -> Fraction | None:
    """Return the larger of two bounds; there is none if one is missing."""
    return None if left is None or right is None else max(left, right)


def covers(pure: Fraction | None, epsilon: float) -> bool:
    """Say whether ``epsilon`` is at least the pure one, exactly."""
    return pure is not None and (math.isinf(epsilon) or Fraction(epsilon) >= pure)


def optional_text(value: Fraction | None) -> str | None:
    """Write a bound exactly, or None."""
    return None if value is None else to_text(value)


def read_optional(text: str | None) -> Fraction | None:
    """Read what :func:`optional_text` wrote."""
    return None if text is None else from_text(text)
