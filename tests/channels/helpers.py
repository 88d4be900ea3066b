"""Label spaces, wrong numbers, and exact brute force on integer tables, for the tests of channels."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from mpmath.ctx_iv import MPIntervalContext
from mpmath.libmp import to_rational

from labeldp import LabelSpace
from labeldp.channels import TOTAL, FiniteChannel
from labeldp.ids import RowIds
from labeldp.plan import PublicData

F = Fraction


class Thing:
    """Something that is no number, and is written alike in every process."""

    def __repr__(self) -> str:
        return "Thing()"


#: What no epsilon can be, and no probability of keeping either.
NO_NUMBERS: list[Any] = [
    math.nan,
    math.inf,
    -math.inf,
    np.float32("nan"),
    True,
    np.True_,
    "",
    "one",
    "1/0",
    "nan",
    "inf",
    b"1",
    1j,
    [1.0],
    np.array([1.0, 2.0]),
    Thing(),
]
#: What no epsilon can be.
BAD_EPSILONS: list[Any] = [*NO_NUMBERS, 0, 0.0, -0.0, -1, "-1", F(-1, 10**9), 1e300, 10**7]
#: Up to this epsilon a table must come within 1e-9 of what was asked.
ATTAINABLE = 16
#: What a claimed epsilon may exceed the true one by: it is rounded up to 40 places.
ROUNDED = F(1, 10**39)
NOTHING = F(0)

_INTERVALS = MPIntervalContext()
_INTERVALS.prec = 256


def space(size: int) -> LabelSpace:
    """The labels 0 .. ``size`` - 1."""
    return LabelSpace(list(range(size)))


def public(size: int, rows: int) -> PublicData:
    """Public data of some rows whose labels are 0 .. ``size`` - 1."""
    return PublicData(space(size), RowIds.positions(rows))


def reading(number: Any) -> Fraction:
    """The smaller of the two readings of a float: its binary value, and the decimal it prints as."""
    return min(F(number), F(repr(float(number)))) if isinstance(number, float) else F(number)


def exp_bounds(x: Fraction) -> tuple[Fraction, Fraction]:
    """Enclose e^x by mpmath's interval arithmetic, to some 75 digits."""
    low, high = _INTERVALS.exp(_INTERVALS.mpf(x.numerator) / x.denominator)._mpi_
    return F(*to_rational(low)), F(*to_rational(high))


def largest_ratio(table: Any) -> Fraction | None:
    """The largest ratio of two labels' weights for one output, over all outputs and pairs; None if infinite."""
    largest = F(1)
    for column in zip(*table, strict=True):
        low, high = min(column), max(column)
        if high > 0:
            if low < 1:
                return None
            largest = max(largest, F(int(high), int(low)))
    return largest


def complaint(
    channel: FiniteChannel, epsilon: Any, *, spends: bool = True, slack: Fraction = NOTHING
) -> tuple[str, float] | None:
    """What is wrong with the tables of a channel that was made for an epsilon; None if nothing is.

    ``spends`` says whether the channel is meant to spend all of it, up to 1e-9 and ``slack``.
    """
    asked = reading(epsilon)
    tables = [channel.weights_of(context).tolist() for context in range(channel.contexts)]
    if any(sum(row) != TOTAL for table in tables for row in table):
        return "a row does not sum to 2^62", float(asked)
    ratios = [largest_ratio(table) for table in tables]
    if None in ratios:
        return "an output is possible for some labels only", float(asked)
    largest = max(ratio for ratio in ratios if ratio is not None)
    if largest > exp_bounds(asked)[0]:
        return "above epsilon", float(asked)
    if spends and asked <= ATTAINABLE and largest < exp_bounds(asked - F(1, 10**9) - slack)[0]:
        return "far below epsilon", float(asked)
    claimed = channel.epsilon_exact
    if claimed is None or exp_bounds(claimed)[1] < largest or F(channel.epsilon) < claimed:
        return "claims less than it spends", float(asked)
    if exp_bounds(claimed - ROUNDED)[0] > largest or F(math.nextafter(channel.epsilon, 0)) > claimed:
        return "claims more than it spends", float(asked)
    return None


def random_epsilon(generator: np.random.Generator, least: float = 1e-9, most: float = 45.0) -> float:
    """An epsilon whose logarithm is uniform."""
    return float(np.exp(generator.uniform(np.log(least), np.log(most))))


def random_law(generator: np.random.Generator, size: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """A law: peaked, flat, with ties, with zeros, certain, or falling geometrically."""
    kind = generator.integers(7)
    if kind == 0:
        law = np.ones(size)
    elif kind == 1:
        law = np.eye(size)[generator.integers(size)]
    elif kind == 2:  # ties
        law = generator.integers(0, 3, size).astype(np.float64)
        law[generator.integers(size)] += 1.0
    elif kind == 3:  # zeros
        law = generator.dirichlet(np.ones(size)) * (generator.random(size) < 0.5)
        law[generator.integers(size)] += 0.1
    elif kind == 4:
        law = np.exp(-generator.permutation(size) * generator.uniform(0.01, 3.0))
    elif kind == 5:  # flat up to the last bits
        law = 1.0 + 1e-15 * generator.integers(-3, 4, size)
    else:
        law = generator.dirichlet(np.full(size, generator.choice([0.05, 0.3, 1.0, 30.0]))) + 1e-300
    return law / law.sum()
