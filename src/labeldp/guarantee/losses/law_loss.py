"""The loss of a mechanism that is known by a dominating law."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from labeldp.guarantee.law import LossLaw
from labeldp.guarantee.losses.base import Loss
from labeldp.guarantee.losses.charge import Charge
from labeldp.guarantee.losses.conversions import concentration_of_pure, least_delta
from labeldp.guarantee.losses.numbers import nonnegative, optional_text, read_optional
from labeldp.guarantee.losses.stated import implied_renyi


@final
@dataclass(frozen=True, init=False)
class LawLoss(Loss):
    """A loss known by a dominating law, such as that of integer noise, and what is known exactly beside it.

    ``law_of_loss`` dominates in both orders; ``epsilon`` and ``concentration`` are exact bounds of pure epsilon and
    zCDP where the mechanism has them.

    >>> from labeldp.guarantee.law import two_bin_laplace_law
    >>> noise = LawLoss(Fraction(1), two_bin_laplace_law(0.5))
    >>> round(noise.delta(0.3), 9), noise.pure
    (0.195050853, Fraction(1, 1))
    """

    kind: ClassVar[str] = "law"
    epsilon: Fraction | None
    law_of_loss: LossLaw
    concentration: Fraction | None

    def __init__(self, epsilon: Fraction | None, law: LossLaw, rho: Fraction | None = None) -> None:
        """Take the pure epsilon or None, the law, and a zCDP bound or None."""
        object.__setattr__(self, "epsilon", None if epsilon is None else nonnegative(epsilon, "epsilon"))
        object.__setattr__(self, "law_of_loss", law)
        object.__setattr__(self, "concentration", None if rho is None else nonnegative(rho, "rho"))

    @property
    def pure(self) -> Fraction | None:
        """Epsilon, as the mechanism declared it."""
        return self.epsilon

    @property
    def rho(self) -> Fraction | None:
        """The smaller of what was declared and what pure epsilon implies."""
        implied = None if self.epsilon is None else concentration_of_pure(self.epsilon)
        return min((r for r in (implied, self.concentration) if r is not None), default=None)

    def delta(self, epsilon: float) -> float:
        """Return the hockey stick of the law, 0 from pure epsilon on, or that of zCDP where it is smaller."""
        return least_delta(self.epsilon, self.concentration, epsilon, self.law_of_loss.delta(epsilon))

    def renyi(self, alpha: float) -> float:
        """Return the smallest of the law's own value and what pure epsilon and rho imply."""
        return min(self.law_of_loss.renyi(alpha), implied_renyi(self.epsilon, self.concentration, alpha))

    def law(self) -> LossLaw:
        """Return the law itself."""
        return self.law_of_loss

    def charge(self) -> Charge:
        """Return (epsilon, 0, rho), or rho alone, or else the largest finite loss and the mass beyond it."""
        if self.epsilon is None and self.concentration is None:
            return Charge(Fraction(max((*self.law_of_loss.losses, 0.0))), Fraction(self.law_of_loss.infinity))
        return Charge(self.epsilon, Fraction(0), self.rho)

    def _fields(self) -> dict[str, Any]:
        return {
            "epsilon": optional_text(self.epsilon),
            "law": self.law_of_loss.to_json(),
            "rho": optional_text(self.concentration),
        }

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Loss:
        return cls(read_optional(data["epsilon"]), LossLaw.from_json(data["law"]), read_optional(data["rho"]))
