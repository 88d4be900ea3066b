"""What follows from an integer table, by brute force."""

from __future__ import annotations

import math
from collections.abc import Iterable
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from labeldp.channels.base import TOTAL
from labeldp.exact import exp_bounds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_PRIMES: Final = 2**31 - 1, 2**31 - 19


def largest_ratio(tables: Iterable[NDArray[np.int64]]) -> Fraction | None:
    """Return the largest ratio of two weights of one released label, exactly; None if one of them is 0."""
    largest = Fraction(1)
    for table in tables:
        for low, high in zip(table.min(axis=0).tolist(), table.max(axis=0).tolist(), strict=True):
            if high > 0:
                if low == 0:
                    return None
                largest = max(largest, Fraction(high, low))
    return largest


def hockey_stick(tables: list[NDArray[np.int64]], epsilon: float) -> tuple[Fraction, Fraction]:
    """Enclose the largest sum of (P - e^epsilon P')_+ over ordered pairs of rows: the best pair in floats, exactly."""
    times = math.exp(min(epsilon, 700.0))
    best, pair = -1.0, ([1], [1])
    for table in tables:
        for row in table:
            deltas = np.maximum(row.astype(np.float64) - times * table, 0.0).sum(axis=1)
            place = int(deltas.argmax())
            if deltas[place] > best:
                best, pair = float(deltas[place]), (row.tolist(), table[place].tolist())
    bounds = exp_bounds(Fraction(epsilon)) if epsilon else (Fraction(1), Fraction(1))
    high, low = (
        sum((max(p - growth * q, Fraction(0)) for p, q in zip(*pair, strict=True)), Fraction(0)) / TOTAL
        for growth in bounds
    )
    return low, high


def renyi(tables: list[NDArray[np.int64]], alpha: float) -> float:
    """Return the largest Renyi divergence of ordered pairs of rows, in floats."""
    largest = 0.0
    for table in tables:
        used = table[:, table.any(axis=0)] / float(TOTAL)
        logs = np.log(used)
        for row, log in zip(used, logs, strict=True):
            ratios = log - logs
            if math.isinf(alpha):
                value = float(ratios.max())
            elif alpha == 1:
                value = float((row * ratios).sum(axis=1).max())
            else:
                terms = log + (alpha - 1) * ratios
                peak = terms.max(axis=1, keepdims=True)
                value = float((peak[:, 0] + np.log(np.exp(terms - peak).sum(axis=1))).max()) / (alpha - 1)
            largest = max(largest, value)
    return largest


def best_linear(table: Floats, prior: Floats | None) -> Floats:
    """Return A with l~ = l A of ERRATA D4, for a table P[true, released] without full rank."""
    channel = table.T
    if prior is None:
        return np.asarray(np.linalg.pinv(channel))
    # D C^T (C D C^T)^+ = D^1/2 (C D^1/2)^+, which squares no condition number.
    root = np.sqrt(prior)
    return np.asarray(root[:, None] * np.linalg.pinv(channel * root))


def full_rank(table: Floats) -> bool:
    """Whether a table P[true, released] has rank K, as far as floats can tell."""
    return int(np.linalg.matrix_rank(table)) == len(table)


def exact_full_rank(table: NDArray[np.int64]) -> bool:
    """Whether a table has rank K, exactly: modulo a prime the rank can only be lower, and with two hardly is."""
    return any(_full_rank_modulo(table, prime) for prime in _PRIMES)


def _full_rank_modulo(table: NDArray[np.int64], prime: int) -> bool:
    rows = table % prime
    while len(rows):
        places = np.flatnonzero(rows[0])
        if not len(places):
            return False
        factors = rows[1:, places[0]] * pow(int(rows[0, places[0]]), -1, prime) % prime
        # Factors of 31 bits: their product fits 64.
        rows = (rows[1:] - factors[:, None] * rows[0]) % prime
    return True
