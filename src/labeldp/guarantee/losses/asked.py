"""A loss together with the (epsilon, delta) that was asked for."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, final

from labeldp.errors import EpsilonError
from labeldp.exact import float_down, from_text, to_text
from labeldp.guarantee.law import LossLaw
from labeldp.guarantee.losses.base import Loss
from labeldp.guarantee.losses.charge import Charge
from labeldp.guarantee.losses.numbers import nonnegative


@final
@dataclass(frozen=True, init=False)
class AskedLoss(Loss):
    """A loss which was chosen to meet (epsilon, delta), and is charged as that where such pairs are added up.

    A curve goes through many pairs; this one is kept beside it, since the budget was planned with it.  The pair is
    checked to lie on the curve or above it: ``part.delta(epsilon) <= delta``.  Everything else is that of the part.

    >>> from labeldp.guarantee import ConcentratedLoss
    >>> AskedLoss(ConcentratedLoss(Fraction(1, 40)), Fraction(1), Fraction(1, 10**5)).charge().epsilon
    Fraction(1, 1)
    """

    kind: ClassVar[str] = "asked"
    part: Loss
    epsilon: Fraction
    failure: Fraction

    def __init__(self, part: Loss, epsilon: Fraction, delta: Fraction) -> None:
        """Take the loss and the pair that it meets; ``delta`` is kept as ``failure``."""
        nonnegative(epsilon, "epsilon")
        nonnegative(delta, "delta", 1)
        # The curve falls, and what it says is rounded up: below epsilon it bounds what holds at epsilon.
        if part.delta(float_down(epsilon)) > delta:
            raise EpsilonError(
                f"Expected a loss that meets epsilon = {float_down(epsilon):.9g} at delta = {float_down(delta):.9g}.",
                value=epsilon,
            )
        object.__setattr__(self, "part", part)
        object.__setattr__(self, "epsilon", Fraction(epsilon))
        object.__setattr__(self, "failure", Fraction(delta))

    @property
    def pure(self) -> Fraction | None:
        """That of the part."""
        return self.part.pure

    @property
    def rho(self) -> Fraction | None:
        """That of the part."""
        return self.part.rho

    def delta(self, epsilon: float) -> float:
        """Return that of the part."""
        return self.part.delta(epsilon)

    def renyi(self, alpha: float) -> float:
        """Return that of the part."""
        return self.part.renyi(alpha)

    def law(self) -> LossLaw:
        """Return that of the part."""
        return self.part.law()

    def charge(self) -> Charge:
        """Return (epsilon, delta) as they were asked for, and the part's own rho."""
        return Charge(self.epsilon, self.failure, self.part.rho)

    def _fields(self) -> dict[str, Any]:
        return {"part": self.part.to_json(), "epsilon": to_text(self.epsilon), "delta": to_text(self.failure)}

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Loss:
        return cls(Loss.from_json(data["part"]), from_text(data["epsilon"]), from_text(data["delta"]))


def asked_loss(loss: Loss, epsilon: Fraction, delta: Fraction) -> Loss:
    """Return a loss with the pair that was asked for, or as it is where it is pure and costs no more without."""
    return loss if loss.pure is not None and loss.pure <= epsilon else AskedLoss(loss, epsilon, delta)
