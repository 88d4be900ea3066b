"""What a ledger is charged for a loss."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, final

from labeldp.exact import from_text, to_text
from labeldp.guarantee.losses.numbers import larger, optional_text, plus, read_optional, repeated


@final
@dataclass(frozen=True)
class Charge:
    """What a ledger spends: pure or approximate epsilon with its delta, and zCDP; None where there is no bound.

    >>> total = Charge(Fraction(1)).then(Charge(Fraction(1, 2)))
    >>> total.epsilon
    Fraction(3, 2)
    """

    epsilon: Fraction | None
    delta: Fraction = Fraction(0)
    rho: Fraction | None = None

    def then(self, other: Charge) -> Charge:
        """Add a charge on the same rows: sequential composition, component by component, exactly."""
        return Charge(plus(self.epsilon, other.epsilon), self.delta + other.delta, plus(self.rho, other.rho))

    def times(self, count: int) -> Charge:
        """Add ``count`` such charges on the same rows, exactly."""
        return Charge(repeated(self.epsilon, count), count * self.delta, repeated(self.rho, count))

    def beside(self, other: Charge) -> Charge:
        """Join a charge on disjoint rows: parallel composition, the larger of each component (ERRATA F4)."""
        return Charge(larger(self.epsilon, other.epsilon), max(self.delta, other.delta), larger(self.rho, other.rho))

    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` reads."""
        return {"epsilon": optional_text(self.epsilon), "delta": to_text(self.delta), "rho": optional_text(self.rho)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Charge:
        """Read what :meth:`to_json` wrote."""
        return Charge(read_optional(data["epsilon"]), from_text(data["delta"]), read_optional(data["rho"]))
