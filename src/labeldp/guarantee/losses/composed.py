"""Losses of several releases together: about the same rows, and about disjoint rows."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final, final

from labeldp.errors import InputError
from labeldp.exact import float_up
from labeldp.guarantee.law import LossLaw, Spectrum, compose, curve_law, supremum_law
from labeldp.guarantee.losses.base import Loss
from labeldp.guarantee.losses.charge import Charge
from labeldp.guarantee.losses.conversions import ROUNDING, delta_of_renyi, least_delta
from labeldp.guarantee.losses.numbers import covers, larger, plus, repeated

#: The orders at which Renyi bounds are tried where the convolution grew too large.
_ORDERS: Final = tuple(1 + 2.0 ** (k / 4) for k in range(-16, 41))
#: More releases than this are refused: their loss is no number to compute with.
MOST_TIMES: Final = 10**9


@final
@dataclass(frozen=True, init=False)
class SequentialLoss(Loss):
    """Several releases about the same rows, possibly chosen adaptively: losses add.

    ``parts`` holds each different loss with how many times it comes.  Pure epsilon, zCDP and Renyi divergences add.
    The curve comes from the exact convolution of the parts' laws; where its support grows too large, from the
    accountant, whose discretisation is pessimistic.

    >>> from labeldp.guarantee import PureLoss
    >>> SequentialLoss((PureLoss(Fraction(1)),) * 3).pure
    Fraction(3, 1)
    """

    kind: ClassVar[str] = "sequential"
    parts: tuple[tuple[Loss, int], ...]

    def __init__(self, parts: Iterable[Loss | tuple[Loss, int]]) -> None:
        """Take losses, or pairs of a loss and how many times it comes."""
        counted: Counter[Loss] = Counter()
        for part in parts:
            loss, times = part if isinstance(part, tuple) else (part, 1)
            for inner, each in loss.parts if isinstance(loss, SequentialLoss) else ((_checked(loss), 1),):
                counted[inner] += each * _times(times)
        if not counted:
            raise InputError("Expected at least one loss to compose.")
        _times(counted.total())
        object.__setattr__(self, "parts", tuple(counted.items()))

    @property
    def pure(self) -> Fraction | None:
        """The exact sum; never taken from a convolution."""
        return self._sums[0]

    @property
    def rho(self) -> Fraction | None:
        """The exact sum of the parts' bounds."""
        return self._sums[1]

    def delta(self, epsilon: float) -> float:
        """Return the least of convolution, zCDP and Renyi bounds; 0 from the sum of pure epsilons on."""
        pure, rho = self._sums
        if covers(pure, epsilon):
            return 0.0
        if self._composed is not None:
            return least_delta(pure, rho, epsilon, self._composed.delta(epsilon))
        bounds = [delta_of_renyi(order - 1, value, epsilon) for order, value in self._renyi_curve]
        return least_delta(pure, rho, epsilon, min((*bounds, self._accounted(epsilon))))

    def renyi(self, alpha: float) -> float:
        """Return the sum over parts, rounded up."""
        if math.isinf(alpha) and self.pure is not None:
            return float_up(self.pure)
        return math.fsum(times * part.renyi(alpha) for part, times in self.parts) * (1 + 4 * ROUNDING)

    def law(self) -> LossLaw:
        """Return the convolution of the parts' laws, or chords of the curve where that grew too large."""
        return self._law

    def charge(self) -> Charge:
        """Return the sum of charges, component by component."""
        total = Charge(Fraction(0), Fraction(0), Fraction(0))
        for part, times in self.parts:
            total = total.then(part.charge().times(times))
        return replace(total, delta=min(total.delta, Fraction(1)))

    def _accounted(self, epsilon: float) -> float:
        from labeldp.guarantee.account import compose_delta

        return compose_delta(self._laws, epsilon)

    @cached_property
    def _sums(self) -> tuple[Fraction | None, Fraction | None]:
        return (
            _sum(repeated(part.pure, count) for part, count in self.parts),
            _sum(repeated(part.rho, count) for part, count in self.parts),
        )

    @cached_property
    def _laws(self) -> tuple[tuple[LossLaw, int], ...]:
        return tuple((part.law(), times) for part, times in self.parts)

    @cached_property
    def _composed(self) -> Spectrum | None:
        return compose(self._laws)

    @cached_property
    def _renyi_curve(self) -> tuple[tuple[float, float], ...]:
        curve = ((order, self.renyi(order)) for order in _ORDERS)
        return tuple((order, value) for order, value in curve if math.isfinite(value))

    @cached_property
    def _law(self) -> LossLaw:
        if self._composed is not None:
            return self._composed.law()
        return curve_law(self.delta, None if self.pure is None else float_up(self.pure))

    def _fields(self) -> dict[str, Any]:
        return {"parts": [[times, part.to_json()] for part, times in self.parts]}

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Loss:
        return cls([(Loss.from_json(text), times) for times, text in data["parts"]])


@final
@dataclass(frozen=True)
class ParallelLoss(Loss):
    """Releases about disjoint rows: a replaced label is in one of them, so the largest counts (ERRATA F4).

    >>> from labeldp.guarantee import PureLoss
    >>> ParallelLoss((PureLoss(Fraction(1)), PureLoss(Fraction(2)))).pure
    Fraction(2, 1)
    """

    kind: ClassVar[str] = "parallel"
    parts: tuple[Loss, ...]

    def __post_init__(self) -> None:
        flat: list[Loss] = []
        for part in self.parts:
            flat.extend(part.parts if isinstance(part, ParallelLoss) else (_checked(part),))
        if not flat:
            raise InputError("Expected at least one loss to compose.")
        object.__setattr__(self, "parts", tuple(dict.fromkeys(flat)))

    @property
    def pure(self) -> Fraction | None:
        """The largest of the parts, exactly."""
        return _largest(part.pure for part in self.parts)

    @property
    def rho(self) -> Fraction | None:
        """The largest of the parts."""
        return _largest(part.rho for part in self.parts)

    def delta(self, epsilon: float) -> float:
        """Return the largest of the parts."""
        return max(part.delta(epsilon) for part in self.parts)

    def renyi(self, alpha: float) -> float:
        """Return the largest of the parts."""
        return max(part.renyi(alpha) for part in self.parts)

    def law(self) -> LossLaw:
        """Return chords of the supremum of the parts' laws."""
        return self._law

    def charge(self) -> Charge:
        """Return the largest of each component."""
        total = self.parts[0].charge()
        for part in self.parts[1:]:
            total = total.beside(part.charge())
        return total

    @cached_property
    def _law(self) -> LossLaw:
        laws = dict.fromkeys(part.law() for part in self.parts)
        return next(iter(laws)) if len(laws) == 1 else supremum_law(laws)

    def _fields(self) -> dict[str, Any]:
        return {"parts": [part.to_json() for part in self.parts]}

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Loss:
        return cls(tuple(Loss.from_json(part) for part in data["parts"]))


def _checked(part: object) -> Loss:
    if not isinstance(part, Loss):
        raise InputError(f"Expected losses, got {type(part).__name__}.")
    return part


def _times(times: object) -> int:
    if type(times) is not int or not 1 <= times <= MOST_TIMES:
        raise InputError(f"Expected every loss, and all together, from 1 to {MOST_TIMES} times.", times=times)
    return times


def _sum(values: Iterable[Fraction | None]) -> Fraction | None:
    total: Fraction | None = Fraction(0)
    for value in values:
        total = plus(total, value)
    return total


def _largest(values: Iterable[Fraction | None]) -> Fraction | None:
    largest: Fraction | None = Fraction(0)
    for value in values:
        largest = larger(largest, value)
    return largest
