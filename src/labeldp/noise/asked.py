"""What may be asked of integer noise: parameters in range, and the counts that a label moves."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

import numpy as np

from labeldp.errors import EpsilonError, InputError
from labeldp.exact import delta_in_range, exact, positive_epsilon

#: Beyond this a count's noise says nothing, and e^epsilon is no number to compute with.
LARGEST_EPSILON: Final = 1 << 16
#: Smaller deltas are asked of nobody; pure noise gives delta = 0.
SMALLEST_DELTA: Final = Fraction(1, 10**30)


def moved_bins(classes: object) -> int:
    """Return how many released counts one label moves: one for two classes, else two."""
    if isinstance(classes, bool) or not isinstance(classes, int | np.integer) or classes < 2:
        raise InputError(f"Expected an integer number of classes >= 2, got {classes!r}.", classes=classes)
    return 1 if classes == 2 else 2


def check_bins(bins: int) -> None:
    """Refuse a number of moved bins other than 1 and 2."""
    if bins not in {1, 2}:
        raise InputError(f"Expected 1 or 2 bins that a label moves, got {bins!r}.", bins=bins)


def asked_epsilon(epsilon: object) -> Fraction:
    """Validate an epsilon that noise is asked for."""
    value = exact(epsilon)
    if value > LARGEST_EPSILON:
        raise EpsilonError(f"Expected epsilon <= {LARGEST_EPSILON}, got {epsilon}.", value=epsilon)
    return positive_epsilon(epsilon)


def epsilon_from_zero(epsilon: object) -> Fraction:
    """Validate an epsilon at which a delta is asked for: 0 is one."""
    value = exact(epsilon)
    if not 0 <= value <= LARGEST_EPSILON:
        raise EpsilonError(f"Expected 0 <= epsilon <= {LARGEST_EPSILON}, got {epsilon}.", value=epsilon)
    return value


def gaussian_delta_in_range(delta: object) -> Fraction:
    """Validate a delta that Gaussian noise is asked for: it is never 0."""
    value = delta_in_range(delta)
    if value < SMALLEST_DELTA:
        raise EpsilonError(
            f"Expected delta >= {float(SMALLEST_DELTA):g} for Gaussian noise, got {delta}. For delta=0 use discrete Laplace noise.",
            value=delta,
        )
    return value


def positive(value: object, name: str) -> Fraction:
    """Validate a number above zero, called ``name``."""
    number = exact(value)
    if number <= 0:
        raise EpsilonError(f"Expected {name} > 0, got {value}.", value=value)
    return number
