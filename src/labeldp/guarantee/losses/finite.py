"""The loss of a finite channel, from its integer weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import numpy as np

from labeldp.errors import InputError
from labeldp.exact import float_up
from labeldp.guarantee.law import LARGEST_CHORD, LossLaw, chord_law, renyi_of_losses, thinned
from labeldp.guarantee.losses.base import Loss
from labeldp.guarantee.losses.charge import Charge
from labeldp.guarantee.losses.conversions import NUDGE, ROUNDING, concentration_of_pure
from labeldp.guarantee.losses.numbers import covers, nonnegative, optional_text, read_optional
from labeldp.guarantee.losses.stated import ApproximateLoss, PureLoss
from labeldp.guarantee.tables import (
    LARGEST_TABLE,
    blocks,
    both_orders,
    canonical,
    check_ratios,
    log_ratios,
    one_total,
    pairs_of,
    total_variation,
    weight_table,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

_SUM_ERROR: Final = 64 * ROUNDING
_CHORD_WORK: Final = 200_000_000


@final
@dataclass(frozen=True, eq=False, repr=False)
class FiniteLoss(Loss):
    """The exact loss of a finite channel: integer weights of the ordered pairs of neighbouring laws.

    Row i of ``first`` and ``second`` holds the two laws of pair i, each summing to the same total.  The other order
    of each pair is added, outcomes of equal ratio are merged, and pairs equal up to the order of outcomes are kept
    once, so that equal losses are equal objects.  ``epsilon`` is checked to be at least the largest log ratio, in
    exact arithmetic; None says that the loss is not pure.

    >>> coin = FiniteLoss(Fraction(2), [[3, 1]], [[1, 3]])
    >>> round(coin.delta(0.0), 6), round(coin.renyi(2), 6)
    (0.5, 0.847298)
    """

    kind: ClassVar[str] = "finite"
    epsilon: Fraction | None
    first: Integers
    second: Integers

    def __post_init__(self) -> None:
        first, second = weight_table(self.first), weight_table(self.second)
        if first.shape != second.shape:
            raise InputError(f"Expected laws of one shape, got {first.shape} and {second.shape}.")
        if not first.size:
            first = second = np.ones((1, 1), np.int64)
        one_total(first, second)
        first, second = both_orders(*canonical(first, second))
        if self.epsilon is not None:
            nonnegative(self.epsilon, "epsilon")
            check_ratios(self.epsilon, first, second)
        first.flags.writeable = second.flags.writeable = False
        object.__setattr__(self, "first", first)
        object.__setattr__(self, "second", second)

    @staticmethod
    def of_table(epsilon: Fraction | None, weights: object) -> Loss:
        """Return the loss of a channel from its table ``weights[true, released]``, with all pairs of its rows.

        When more than :data:`LARGEST_TABLE` weights would remain, the loss is bounded by its pure epsilon (or, when
        there is none, by the largest total variation).
        """
        table = weight_table(weights)
        if not table.size:
            return FiniteLoss(epsilon, table, table)
        one_total(table, table)
        table = np.unique(table, axis=0)
        pairs = pairs_of(table)
        if pairs is not None:
            loss = FiniteLoss(epsilon, *pairs)
            if loss.first.size <= LARGEST_TABLE:
                return loss
        if epsilon is not None:
            return PureLoss(epsilon)
        return ApproximateLoss(Fraction(0), total_variation(table))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FiniteLoss):
            return NotImplemented
        return (
            self.epsilon == other.epsilon
            and np.array_equal(self.first, other.first)
            and np.array_equal(self.second, other.second)
        )

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        pairs, outcomes = self.first.shape
        return f"FiniteLoss(epsilon={self.epsilon}, pairs={pairs}, outcomes={outcomes})"

    @property
    def pure(self) -> Fraction | None:
        """Epsilon, as the channel computed it."""
        return self.epsilon

    @property
    def rho(self) -> Fraction | None:
        """As of pure epsilon; the Renyi curve is exact and can be smaller."""
        return None if self.epsilon is None else concentration_of_pure(self.epsilon)

    def delta(self, epsilon: float) -> float:
        """Return the largest ``sum (P - e^epsilon Q)_+`` over pairs, with the rounding of floats added."""
        if covers(self.epsilon, epsilon):
            return 0.0
        if epsilon >= self._largest_finite:
            return float_up(Fraction(self._without_ratio, self._total))
        times, largest = math.exp(epsilon), 0.0
        for block in blocks(*self.first.shape):
            first = self.first[block].astype(np.float64)
            scaled = times * self.second[block]
            near = np.where(first >= 0.999 * scaled, first, 0.0).sum(axis=1)
            above = np.maximum(first - scaled, 0.0).sum(axis=1)
            largest = max(largest, float((above + _SUM_ERROR * near).max()))
        return min(largest / self._total * NUDGE, 1.0)

    def renyi(self, alpha: float) -> float:
        """Return the largest ``log sum P^alpha Q^(1-alpha) / (alpha-1)`` over pairs, rounded up."""
        top = math.inf if self.epsilon is None else float_up(self.epsilon)
        if self._without_ratio:
            return math.inf
        if math.isinf(alpha) and self.epsilon is not None:
            return top
        largest = 0.0
        for block in blocks(*self.first.shape):
            first = self.first[block]
            losses = log_ratios(first, self.second[block])
            largest = max(largest, renyi_of_losses(losses, first / self._total, alpha))
        return min(largest, top)

    def law(self) -> LossLaw:
        """Return the law of the one pair, or chords of the supremum of all."""
        return self._law

    def charge(self) -> Charge:
        """Return (epsilon, 0, rho); without pure epsilon, the largest finite loss and the mass beyond it."""
        if self.epsilon is not None:
            return Charge(self.epsilon, Fraction(0), self.rho)
        return Charge(Fraction(self._largest_finite), Fraction(self._without_ratio, self._total))

    @cached_property
    def _hash(self) -> int:
        return hash((self.epsilon, self.first.shape, self.first.tobytes(), self.second.tobytes()))

    @cached_property
    def _total(self) -> int:
        return int(self.first[0].sum())

    @cached_property
    def _without_ratio(self) -> int:
        """The largest weight under the first law of a pair where the second has none."""
        return max(
            int(np.where(self.second[block] == 0, self.first[block], 0).sum(axis=1).max())
            for block in blocks(*self.first.shape)
        )

    @cached_property
    def _largest_finite(self) -> float:
        """The largest finite log ratio, rounded up."""
        largest = 0.0
        for block in blocks(*self.first.shape):
            losses = log_ratios(self.first[block], self.second[block])
            largest = max(largest, float(np.where(np.isfinite(losses), losses, 0.0).max()))
        return largest * NUDGE if self.epsilon is None else float_up(self.epsilon)

    @cached_property
    def _points(self) -> NDArray[np.float64]:
        """Some of the epsilons at which the curve of a pair has a kink, with 0 and the largest finite loss."""
        most = int(np.clip(_CHORD_WORK // self.first.size, 64, LARGEST_CHORD))
        points = np.zeros(1)
        for block in blocks(*self.first.shape):
            losses = log_ratios(self.first[block], self.second[block])
            points = thinned(np.append(points, losses[(losses > 0) & np.isfinite(losses)]), most * 16)
        points = thinned(points, most)
        return np.append(points[points < self._largest_finite], self._largest_finite)

    @cached_property
    def _law(self) -> LossLaw:
        if len(self.first) > 1:
            return chord_law(self._points, np.array([self.delta(point) for point in self._points.tolist()]))
        first, second = self.first[0], self.second[0]
        losses = log_ratios(first, second)
        finite = (first > 0) & (second > 0)
        raised = losses[finite] + _SUM_ERROR * np.abs(losses[finite])
        if self.epsilon is not None:
            raised = np.minimum(raised, float_up(self.epsilon))
        infinity = float_up(Fraction(self._without_ratio, self._total))
        return LossLaw(tuple(raised.tolist()), tuple((first[finite] / self._total).tolist()), infinity)

    def _fields(self) -> dict[str, Any]:
        return {
            "epsilon": optional_text(self.epsilon),
            # As texts: readers of JSON who know no integers, only floats, must not change them.
            "first": [[str(weight) for weight in row] for row in self.first.tolist()],
            "second": [[str(weight) for weight in row] for row in self.second.tolist()],
        }

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Loss:
        return cls(read_optional(data["epsilon"]), _integers(data["first"]), _integers(data["second"]))


def _integers(table: Any) -> Integers:  # whatever was in the file
    if not all(isinstance(weight, str) for row in table for weight in row):
        raise InputError("Expected weights as texts, such as '4611686018427387904'.")
    return weight_table([[int(weight) for weight in row] for row in table])
