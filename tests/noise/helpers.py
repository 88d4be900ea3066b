"""Bits, tests of fit and merged tables for the tests of noise."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.coins import SeededCoins
from labeldp.ids import RowIds

#: A true law fails, and a wrong one passes, with less than this probability.
ALPHA = 1e-9


def seeded_bits(rows: int, seed: int = 1) -> Any:
    """Bits as a release would use them, reproducible."""
    return SeededCoins(seed).session().bits(RowIds.positions(rows), "noise test")


class FakeBits:
    """Bits that note which word of which row was read; their values are fixed here, whatever coins become."""

    def __init__(self, rows: int, offset: int = 0) -> None:
        self._rows = rows
        self._offset = offset
        self.read: Counter[tuple[int, int]] = Counter()

    def __len__(self) -> int:
        return self._rows

    def words(self, word: int, rows: NDArray[np.int64], /) -> NDArray[np.uint64]:
        """splitmix64 of (row, word)."""
        self.read.update((int(row) + self._offset, word) for row in rows)
        with np.errstate(over="ignore"):
            z = (rows + self._offset).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
            z += np.uint64((word + 1) * 0xD1342543DE82EF95 % 2**64)
            for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
                z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        return z ^ (z >> np.uint64(31))


def g_test(draws: NDArray[np.int64], law: Any, cells: int = 60) -> float:
    """p-value of the likelihood ratio test of draws against a law's pmf, in cells of about equal probability."""
    from scipy.stats import chi2

    _, top = law.interval(1 - 1e-12)
    support = np.arange(-top, top + 1)
    # pmf of a symmetric law; wide laws are cut into runs of equal mass.
    mass = law.pmf(support)
    cell = np.minimum((np.cumsum(mass) * cells).astype(int), cells - 1)
    kept = np.unique(cell)
    expected = np.array([mass[cell == c].sum() for c in kept])
    inside = draws[np.abs(draws) <= top]
    observed = np.bincount(cell[inside + top], minlength=cells)[kept].astype(float)
    # What lies outside the support is evidence too: it had probability below 1e-12.
    expected = np.append(expected, 1e-12)
    observed = np.append(observed, len(draws) - len(inside))
    hit = observed > 0
    g = 2 * (observed[hit] * np.log(observed[hit] / (expected[hit] * len(draws)))).sum()
    return float(chi2.sf(g, len(expected) - 2))


def two_sample_test(left: NDArray[np.int64], right: NDArray[np.int64], cells: int = 30) -> float:
    """p-value of the likelihood ratio test that two samples have one law, in cells of about equal counts."""
    from scipy.stats import chi2

    both = np.concatenate([left, right])
    edges = np.unique(np.quantile(both, np.linspace(0, 1, cells + 1)[1:-1], method="higher"))
    table = np.array(
        [np.bincount(np.searchsorted(edges, part, "left"), minlength=len(edges) + 1) for part in (left, right)]
    )
    table = table[:, table.sum(axis=0) > 0].astype(float)
    expected = table.sum(axis=1, keepdims=True) * table.sum(axis=0) / table.sum()
    terms = np.where(table > 0, table * np.log(np.maximum(table, 1) / expected), 0)
    return float(chi2.sf(2 * terms.sum(), table.shape[1] - 1))


def same_up_to(value: float, truth: Any, relative: float) -> bool:
    """Whether a float is a high-precision number up to a relative error."""
    return bool(abs(value - truth) <= relative * abs(truth)) or (truth < 1e-300 and math.isclose(value, 0))
