"""Pairs of integer laws: how the rows of a finite channel's table become the pairs of neighbouring laws.

A pair is a row of ``first`` and the same row of ``second``: the weights of each outcome under one law and the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from labeldp.errors import EpsilonError, InputError
from labeldp.exact import exp_bounds, float_down, float_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

#: A finite loss with more weights than this falls back to its pure epsilon.
LARGEST_TABLE: Final = 2_000_000

_LARGEST_TOTAL: Final = 1 << 62
_LARGEST_COMPARISON: Final = 1_000_000_000
_BLOCK: Final = 1 << 17


def weight_table(weights: object) -> Integers:
    """Return a two-dimensional table of non-negative integers."""
    table = np.asarray(weights)
    if not table.size:
        return np.zeros((0, 0), np.int64)
    if table.ndim != 2 or table.dtype.kind not in "iu" or (table < 0).any() or (table > _LARGEST_TOTAL).any():
        raise InputError("Expected a two-dimensional table of integer weights from 0 to 2^62.")
    return np.ascontiguousarray(table, np.int64)


def one_total(first: Integers, second: Integers) -> None:
    """Check that all laws sum to the same total."""
    rough = max(float(first.sum(axis=1, dtype=np.float64).max()), float(second.sum(axis=1, dtype=np.float64).max()))
    total = int(first[0].sum()) if rough < 2 * _LARGEST_TOTAL else 0
    if not (total and (first.sum(axis=1) == total).all() and (second.sum(axis=1) == total).all()):
        raise InputError("Expected all laws to sum to the same total, between 1 and 2^62.")


def blocks(rows: int, width: int) -> Iterator[slice]:
    """Yield slices of rows that hold a bounded number of weights."""
    step = max(_BLOCK // max(width, 1), 1)
    return (slice(start, min(start + step, rows)) for start in range(0, rows, step))


def log_ratios(first: Integers, second: Integers) -> NDArray[np.float64]:
    """Return log P/Q, accurate also where P and Q are close; -inf, inf or nan where one or both are 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        difference = (first - second) / second.astype(np.float64)
        near = np.abs(difference) < 0.5
        ratio = first / second.astype(np.float64)
        losses: NDArray[np.float64] = np.where(near, np.log1p(np.where(near, difference, 0.0)), np.log(ratio))
    return losses


def canonical(first: Integers, second: Integers) -> tuple[Integers, Integers]:
    """Merge outcomes of equal ratio, sort outcomes by ratio, and keep equal pairs once."""
    return _distinct([_merged(first[block], second[block]) for block in blocks(*first.shape)])


def both_orders(first: Integers, second: Integers) -> tuple[Integers, Integers]:
    """Add the other order of each pair."""
    swapped = [_merged(second[block], first[block]) for block in blocks(*first.shape)]
    return _distinct([(first, second), *swapped])


def _merged(first: Integers, second: Integers) -> tuple[Integers, Integers]:
    """Sum, in each row, outcomes whose ratio is exactly equal; order them by their reduced ratio; drop impossible ones.

    Merging outcomes of equal ratio changes neither hockey stick nor Renyi divergence: the merged index is a
    sufficient statistic.
    """
    divisor = np.maximum(np.gcd(first, second), 1)
    upper, lower = first // divisor, second // divisor
    order = np.lexsort((lower, upper), axis=-1)
    first, second, upper, lower = (np.take_along_axis(a, order, -1) for a in (first, second, upper, lower))
    fresh = np.ones(first.shape, bool)
    fresh[:, 1:] = (upper[:, 1:] != upper[:, :-1]) | (lower[:, 1:] != lower[:, :-1])
    starts = np.flatnonzero(fresh)
    sums = np.add.reduceat(first.ravel(), starts), np.add.reduceat(second.ravel(), starts)
    possible = (sums[0] > 0) | (sums[1] > 0)
    rows = starts[possible] // first.shape[1]
    counts = np.bincount(rows, minlength=len(first))
    columns = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
    merged = np.zeros((2, len(first), int(counts.max())), np.int64)
    merged[0, rows, columns] = sums[0][possible]
    merged[1, rows, columns] = sums[1][possible]
    return merged[0], merged[1]


def _distinct(pairs: Sequence[tuple[Integers, Integers]]) -> tuple[Integers, Integers]:
    """Stack tables of pairs, padded with impossible outcomes, and keep equal pairs once, in an order of their own."""
    rows, width = sum(len(first) for first, _ in pairs), max(first.shape[1] for first, _ in pairs)
    stacked = np.zeros((2, rows, width), np.int64)
    marks = np.empty(rows, np.uint64)
    start = 0
    for pair in pairs:
        for block in blocks(*pair[0].shape):
            stop = start + block.stop - block.start
            for side in (0, 1):
                stacked[side, start:stop, : pair[side].shape[1]] = pair[side][block]
            marks[start:stop] = _fingerprints(pair[0][block], pair[1][block])
            start = stop
    _, kept, same = np.unique(marks, return_index=True, return_inverse=True)
    alike = all(np.array_equal(stacked[:, block], stacked[:, kept[same[block]]]) for block in blocks(rows, 2 * width))
    if not alike:  # two pairs share a fingerprint: compare the weights themselves
        kept = np.unique(np.concatenate([stacked[0], stacked[1]], axis=1), axis=0, return_index=True)[1]
    return stacked[0][kept], stacked[1][kept]


def _fingerprints(first: Integers, second: Integers) -> NDArray[np.uint64]:
    """Return 64 bits for each pair, the same however many impossible outcomes pad it (splitmix64, summed)."""
    columns = np.arange(1, 2 * first.shape[1] + 1, dtype=np.uint64)
    marks = np.zeros(len(first), np.uint64)
    for side, salts in ((first, columns[::2]), (second, columns[1::2])):
        words = side.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        words ^= words >> np.uint64(30)
        words *= np.uint64(0xBF58476D1CE4E5B9)
        words ^= words >> np.uint64(27)
        words *= np.uint64(0x94D049BB133111EB) * salts | np.uint64(1)
        words ^= words >> np.uint64(31)
        marks += words.sum(axis=1, dtype=np.uint64)
    return marks


def check_ratios(epsilon: Fraction, first: Integers, second: Integers) -> None:
    """Check P <= e^epsilon Q in exact arithmetic, wherever floats cannot tell."""
    low = exp_bounds(epsilon)[0] if epsilon else Fraction(1)
    threshold = float_down(epsilon) - 1e-12 * (1 + float_down(epsilon))
    for block in blocks(*first.shape):
        close = (first[block] > 0) & (log_ratios(first[block], second[block]) > threshold)
        ratios = np.unique(np.stack([first[block][close], second[block][close]], axis=1), axis=0)
        for upper, lower in ratios.tolist():
            if upper * low.denominator > low.numerator * lower:
                raise EpsilonError(
                    f"Expected epsilon to be at least the largest log ratio of the weights, got {float_up(epsilon)} "
                    f"and the weights {upper} and {lower}.",
                    epsilon=epsilon,
                )


def pairs_of(table: Integers) -> tuple[Integers, Integers] | None:
    """Return all pairs of distinct rows, each in one order, reduced; None when too many remain.

    Two rows of most channels differ in few outcomes; all others have ratio 1 and are one outcome.
    """
    rows, width = table.shape
    if rows == 1:
        return table, table
    if rows * (rows - 1) // 2 * width > _LARGEST_COMPARISON:
        return None
    codes = np.unique(table, return_inverse=True)[1].reshape(table.shape)
    codes = codes.astype(np.min_scalar_type(int(codes.max())))
    found: list[tuple[Integers, Integers]] = []
    size = 0
    for row in range(rows - 1):
        for block in blocks(rows - row - 1, width):
            others = slice(row + 1 + block.start, row + 1 + block.stop)
            found.append(_compared(table[row], table[others], codes[row] != codes[others]))
            size += found[-1][0].size
            if size > LARGEST_TABLE:
                found = [_distinct(found)]
                size = found[0][0].size
                if size > LARGEST_TABLE // 2:
                    return None
    return _distinct(found)


def _compared(row: Integers, others: Integers, differ: NDArray[np.bool_]) -> tuple[Integers, Integers]:
    """Return one row paired with others, with all outcomes on which a pair agrees merged into one."""
    counts = differ.sum(axis=1)
    most = int(counts.max())
    if most + 1 >= len(row):
        return _merged(np.broadcast_to(row, others.shape), others)
    pairs, outcomes = np.nonzero(differ)
    columns = np.arange(len(pairs)) - np.repeat(np.cumsum(counts) - counts, counts)
    first = np.zeros((len(others), most + 1), np.int64)
    second = np.zeros_like(first)
    first[pairs, columns] = row[outcomes]
    second[pairs, columns] = others[pairs, outcomes]
    first[:, -1] = second[:, -1] = row.sum() - first.sum(axis=1)
    return _merged(first, second)


def total_variation(table: Integers) -> Fraction:
    """Return the largest total variation of two rows, or 1 where there are too many rows to compare."""
    if len(table) * table.size > _LARGEST_COMPARISON:
        return Fraction(1)
    largest = max(
        int(np.maximum(row - table[block], 0).sum(axis=1).max()) for row in table for block in blocks(*table.shape)
    )
    return Fraction(largest, int(table[0].sum()))
