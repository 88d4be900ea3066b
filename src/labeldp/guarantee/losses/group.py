"""Losses when several labels are replaced at once."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Final, final

from labeldp.errors import InputError
from labeldp.exact import exp_bounds, float_up, round_up
from labeldp.guarantee.law import LossLaw, curve_law
from labeldp.guarantee.losses.base import Loss
from labeldp.guarantee.losses.charge import Charge
from labeldp.guarantee.losses.conversions import NUDGE, concentration_of_pure, least_delta
from labeldp.guarantee.losses.stated import ApproximateLoss, ConcentratedLoss, PureLoss, implied_renyi

_LARGEST_EXPONENT: Final = 700.0


@final
@dataclass(frozen=True)
class GroupLoss(Loss):
    """The loss of a mechanism when ``size`` labels are replaced at once: a chain of neighbours.

    Pure epsilon grows to m eps, zCDP to m^2 rho, and (eps, delta) to (m eps, delta (e^(m eps) - 1)/(e^eps - 1)).

    >>> GroupLoss(PureLoss(Fraction(1)), 3).pure
    Fraction(3, 1)
    """

    kind: ClassVar[str] = "group"
    part: Loss
    size: int

    def __post_init__(self) -> None:
        group_size(self.size)

    @property
    def pure(self) -> Fraction | None:
        """m eps, exactly."""
        return self._grown[0]

    @property
    def rho(self) -> Fraction | None:
        """The smaller of m^2 rho and what m eps implies."""
        return self._grown[1]

    def delta(self, epsilon: float) -> float:
        """Return delta(eps/m) (e^eps - 1)/(e^(eps/m) - 1), or what m eps or m^2 rho imply where that is smaller."""
        if math.isinf(epsilon):
            return 0.0 if self.pure is not None or self.rho is not None or self.part.delta(epsilon) == 0 else 1.0
        step = math.nextafter(epsilon / self.size, 0.0)
        each = self.part.delta(step)
        if each == 0:
            chain = 0.0
        elif self.size * step > _LARGEST_EXPONENT:
            chain = 1.0
        else:
            links = math.expm1(self.size * step) / math.expm1(step) if step > 0 else float(self.size)
            chain = min(each * links * NUDGE, 1.0)
        return least_delta(*self._grown, epsilon, chain)

    def renyi(self, alpha: float) -> float:
        """Return what m eps and m^2 rho imply."""
        return implied_renyi(*self._grown, alpha)

    def law(self) -> LossLaw:
        """Return chords of the curve."""
        return self._law

    def charge(self) -> Charge:
        """Return the group's own (m eps, delta of m, rho of m)."""
        stated = self.part.charge()
        epsilon, delta = _group(stated.epsilon, stated.delta, self.size)
        return Charge(epsilon, delta, None if stated.rho is None else self.rho)

    @cached_property
    def _grown(self) -> tuple[Fraction | None, Fraction | None]:
        pure, rho = self.part.pure, self.part.rho
        grown = None if pure is None else self.size * pure
        bounds = [None if rho is None else self.size**2 * rho, None if grown is None else concentration_of_pure(grown)]
        return grown, min((bound for bound in bounds if bound is not None), default=None)

    @cached_property
    def _law(self) -> LossLaw:
        return curve_law(self.delta, None if self.pure is None else float_up(self.pure))

    def _fields(self) -> dict[str, Any]:
        return {"part": self.part.to_json(), "size": self.size}

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Loss:
        return cls(Loss.from_json(data["part"]), group_size(data["size"]))


def group_loss(loss: Loss, m: int) -> Loss:
    """Return the loss when ``m`` labels are replaced, in closed form where there is one."""
    match loss:
        case PureLoss():
            return PureLoss(m * loss.epsilon)
        case ApproximateLoss():
            epsilon, delta = _group(loss.epsilon, loss.failure, m)
            return ApproximateLoss(epsilon or Fraction(0), delta)
        case ConcentratedLoss():
            return ConcentratedLoss(m * m * loss.concentration)
        case GroupLoss():
            return GroupLoss(loss.part, m * loss.size)
        case _:
            return GroupLoss(loss, m)


def group_size(m: object) -> int:
    """Validate a number of labels."""
    if isinstance(m, bool) or not isinstance(m, int) or m < 1:
        raise InputError(f"Expected a number of labels of at least 1, got {m!r}.", m=m)
    return m


def _group(epsilon: Fraction | None, delta: Fraction, m: int) -> tuple[Fraction | None, Fraction]:
    """Return (m eps, delta (1 + e^eps + ... + e^((m-1) eps))), rounded up and at most 1."""
    if epsilon is None or delta == 0:
        return (None if epsilon is None else m * epsilon), (Fraction(1) if delta else delta)
    if epsilon == 0:
        return epsilon, min(m * delta, Fraction(1))
    if m * epsilon > _LARGEST_EXPONENT:
        return m * epsilon, Fraction(1)
    links = (exp_bounds(m * epsilon)[1] - 1) / (exp_bounds(epsilon)[0] - 1)
    return m * epsilon, min(round_up(delta * links), Fraction(1))
