"""What every loss is."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from fractions import Fraction
from typing import Any, ClassVar, Final, final

from labeldp.errors import InputError
from labeldp.exact import float_down, float_up
from labeldp.guarantee.law import LossLaw
from labeldp.guarantee.losses.charge import Charge

_LARGEST_EPSILON: Final = 1e5


class Loss(ABC):
    """How well two neighbouring data sets can be told apart, in either order; immutable and hashable.

    Every subclass is final, names itself in ``kind``, and is read back from JSON through that name.
    """

    kind: ClassVar[str]
    _kinds: ClassVar[dict[str, type[Loss]]] = {}

    def __init_subclass__(cls) -> None:
        """Enter the class into the registry that :meth:`from_json` reads."""
        Loss._kinds[cls.kind] = cls

    @property
    @abstractmethod
    def pure(self) -> Fraction | None:
        """An exact upper bound of pure epsilon; None when there is none."""

    @property
    @abstractmethod
    def rho(self) -> Fraction | None:
        """A zCDP bound, D_alpha <= rho alpha for all alpha > 1, rounded up; None when there is none."""

    @abstractmethod
    def delta(self, epsilon: float) -> float:
        """Return the delta that goes with ``epsilon`` >= 0, rounded up; at infinity the mass no epsilon covers."""

    @abstractmethod
    def renyi(self, alpha: float) -> float:
        """Return a bound of the Renyi divergence of order ``alpha`` >= 1, infinity included, rounded up."""

    @abstractmethod
    def law(self) -> LossLaw:
        """Return a law of a symmetric pair that dominates the loss: what convolution composes."""

    @abstractmethod
    def charge(self) -> Charge:
        """Return what a ledger is charged."""

    @abstractmethod
    def _fields(self) -> dict[str, Any]:
        """Return the fields as JSON."""

    @classmethod
    @abstractmethod
    def _read(cls, data: dict[str, Any]) -> Loss:
        """Read what :meth:`_fields` wrote."""

    @final
    def epsilon_at(self, delta: Fraction) -> float:
        """Return an epsilon for which :meth:`delta` is at most ``delta``, rounded up; infinite when there is none.

        Exact statements (pure; approximate with its own delta, if that is small enough) are used as they are; below
        them the curve is inverted by bisection, and the end on which it was found to hold is returned.
        """
        stated = self.charge()
        exact = [self.pure, stated.epsilon if stated.delta <= delta else None]
        high = min((float_up(epsilon) for epsilon in exact if epsilon is not None), default=math.inf)
        target = float_down(delta)
        if target <= 0:
            return high
        if self.delta(0.0) <= target:
            return 0.0
        low = 0.0
        if math.isinf(high):
            high = 1.0
            while self.delta(high) > target:
                low, high = high, 2 * high
                if high > _LARGEST_EPSILON:
                    return math.inf
        while high - low > 1e-13 * high:
            middle = (low + high) / 2
            if self.delta(middle) <= target:
                high = middle
            else:
                low = middle
        return high

    @final
    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` reads."""
        return {"kind": self.kind, **self._fields()}

    @staticmethod
    @final
    def from_json(data: dict[str, Any]) -> Loss:
        """Read what :meth:`to_json` of any loss wrote."""
        kind = data.get("kind")
        if kind not in Loss._kinds:
            raise InputError(f"Expected a kind of loss among {sorted(Loss._kinds)}, got {kind!r}.", kind=kind)
        return Loss._kinds[kind]._read(data)
