"""The integer thresholds of every response channel, exact and rounded towards less truth."""

from __future__ import annotations

import math
from fractions import Fraction

from labeldp.errors import EpsilonError
from labeldp.exact import exp_bounds


def response_threshold(size: int, epsilon: Fraction, bits: int) -> int:
    """Return T = floor(2^bits p), p = e^eps / (e^eps + K - 1): the true label is released iff r < T.

    Flooring takes from the true label, so the realised epsilon is at most ``epsilon`` (ERRATA F1).
    """
    low, high = exp_bounds(epsilon)
    threshold = math.floor((1 << bits) * low / (low + size - 1))
    # The enclosure of e^eps is far finer than one unit; where it is not, the lower end is the safe one.
    assert math.floor((1 << bits) * high / (high + size - 1)) - threshold <= 1  # noqa: S101
    return threshold


def other_weight(size: int, threshold: int, bits: int) -> int:
    """Return the weight of each label other than the true one: the rest, shared equally, rounded up."""
    return -(-((1 << bits) - threshold) // (size - 1))


def response_weights(size: int, epsilon: Fraction, bits: int) -> tuple[int, int]:
    """Return (other, extra): weights of k-ary response that sum exactly to 2^bits.

    Every label gets ``other``, the true one ``extra`` on top: ``extra + size * other = 2^bits``.
    """
    other = other_weight(size, response_threshold(size, epsilon, bits), bits)
    extra = (1 << bits) - size * other
    # Labels outside the set share 2^bits as evenly as integers can; the last of them may exceed `other` by the
    # remainder, which must be covered by what the true label gets on top.
    if extra < (1 << bits) % size:
        raise EpsilonError(
            f"Expected an epsilon that a table of 2^{bits} draws over {size} labels can hold, got "
            f"{float(epsilon):.3g}. The smallest is about {size * size / 2.0**bits:.1g}; release nothing instead.",
            epsilon=epsilon,
        )
    return other, extra


def resampling_extra(smallest: int, epsilon: Fraction) -> int:
    """Return A = floor((e^eps - 1) min w): the most a kept label may weigh on top of its redraw (ERRATA A3)."""
    low, _ = exp_bounds(epsilon)
    return math.floor((low - 1) * smallest)


def redraw_probability(smallest: Fraction, epsilon: Fraction) -> Fraction:
    """Return lambda = 1 / (1 + (e^eps - 1) min q), rounded up: the least redrawing that meets epsilon (ERRATA A3)."""
    low, _ = exp_bounds(epsilon)
    return 1 / (1 + (low - 1) * smallest)
