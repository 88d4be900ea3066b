"""Losses of which nothing is known but their numbers: pure, approximate and concentrated."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, final

from labeldp.exact import float_up, from_text, to_text
from labeldp.guarantee.law import LossLaw, binary_response_law, curve_law
from labeldp.guarantee.losses.base import Loss
from labeldp.guarantee.losses.charge import Charge
from labeldp.guarantee.losses.conversions import NUDGE, concentration_of_pure, delta_of_concentration
from labeldp.guarantee.losses.numbers import covers, nonnegative


@final
@dataclass(frozen=True)
class PureLoss(Loss):
    """Pure epsilon-DP, and nothing more is known: binary randomised response dominates it.

    >>> PureLoss(Fraction(1)).delta(1.0)
    0.0
    >>> round(PureLoss(Fraction(1)).delta(0.5), 6)
    0.287649
    """

    kind: ClassVar[str] = "pure"
    epsilon: Fraction

    def __post_init__(self) -> None:
        nonnegative(self.epsilon, "epsilon")

    @property
    def pure(self) -> Fraction:
        """Epsilon itself."""
        return self.epsilon

    @property
    def rho(self) -> Fraction:
        """Return eps tanh(eps/2), rounded up (ERRATA F3)."""
        return concentration_of_pure(self.epsilon)

    def delta(self, epsilon: float) -> float:
        """Return (e^E - e^epsilon)_+ / (1 + e^E) for the pure epsilon E, rounded up."""
        if covers(self.epsilon, epsilon):
            return 0.0
        gap = float_up(self.epsilon - Fraction(epsilon))
        return min(-math.expm1(-gap) / (1 + math.exp(-float_up(self.epsilon))) * NUDGE, 1.0)

    def renyi(self, alpha: float) -> float:
        """Return log[cosh((alpha-1/2) eps) / cosh(eps/2)] / (alpha-1), rounded up (ERRATA F3)."""
        top = float_up(self.epsilon)
        if math.isinf(alpha):
            return top
        half, shift = top / 2, (alpha - 1) * top
        if alpha == 1:
            value = top * math.tanh(half)
        elif shift <= 1:
            value = math.log1p(2 * math.sinh(shift / 2) ** 2 + math.tanh(half) * math.sinh(shift)) / (alpha - 1)
        else:
            value = (shift + math.log1p(math.exp(-top - 2 * shift)) - math.log1p(math.exp(-top))) / (alpha - 1)
        return min(value * NUDGE, top)

    def law(self) -> LossLaw:
        """Return binary randomised response."""
        return binary_response_law(self.epsilon)

    def charge(self) -> Charge:
        """Return (epsilon, 0, rho)."""
        return Charge(self.epsilon, Fraction(0), self.rho)

    def _fields(self) -> dict[str, Any]:
        return {"epsilon": to_text(self.epsilon)}

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Loss:
        return cls(from_text(data["epsilon"]))


@final
@dataclass(frozen=True, init=False)
class ApproximateLoss(Loss):
    """(epsilon, delta)-DP, and nothing more is known.

    Kairouz, Oh and Viswanath (2015): dominated by giving everything away with probability delta, and binary
    randomised response otherwise.  A delta of 1 is allowed and promises nothing.

    >>> ApproximateLoss(Fraction(1), Fraction(1, 1000)).delta(2.0)
    0.001
    """

    kind: ClassVar[str] = "approximate"
    epsilon: Fraction
    failure: Fraction

    def __init__(self, epsilon: Fraction, delta: Fraction) -> None:
        """Take the two parameters; ``delta`` is kept as ``failure``."""
        object.__setattr__(self, "epsilon", nonnegative(epsilon, "epsilon"))
        object.__setattr__(self, "failure", nonnegative(delta, "delta", 1))

    @property
    def pure(self) -> Fraction | None:
        """Epsilon when delta is 0."""
        return None if self.failure else self.epsilon

    @property
    def rho(self) -> Fraction | None:
        """As of pure epsilon when delta is 0."""
        return None if self.failure else concentration_of_pure(self.epsilon)

    def delta(self, epsilon: float) -> float:
        """Return delta + (1 - delta) times that of the pure part, rounded up."""
        rest = PureLoss(self.epsilon).delta(epsilon)
        if rest == 0:
            return float_up(self.failure)
        return min((float_up(self.failure) + float_up(1 - self.failure) * rest) * NUDGE, 1.0)

    def renyi(self, alpha: float) -> float:
        """Return infinity, unless delta is 0."""
        return math.inf if self.failure else PureLoss(self.epsilon).renyi(alpha)

    def law(self) -> LossLaw:
        """Return the mass delta at infinity, and binary randomised response scaled by 1 - delta."""
        law, infinity = binary_response_law(self.epsilon), float_up(self.failure)
        return LossLaw(law.losses, tuple(p * (1 - infinity) for p in law.probs), infinity)

    def charge(self) -> Charge:
        """Return (epsilon, delta, no rho)."""
        return Charge(self.epsilon, self.failure, self.rho)

    def _fields(self) -> dict[str, Any]:
        return {"epsilon": to_text(self.epsilon), "delta": to_text(self.failure)}

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Loss:
        return cls(from_text(data["epsilon"]), from_text(data["delta"]))


@final
@dataclass(frozen=True, init=False)
class ConcentratedLoss(Loss):
    """rho-zCDP: D_alpha <= rho alpha for every alpha > 1 (Bun and Steinke 2016).

    >>> round(ConcentratedLoss(Fraction(1, 10)).delta(2.0), 6)
    4e-06
    """

    kind: ClassVar[str] = "concentrated"
    concentration: Fraction

    def __init__(self, rho: Fraction) -> None:
        """Take rho; it is kept as ``concentration``."""
        object.__setattr__(self, "concentration", nonnegative(rho, "rho"))

    @property
    def pure(self) -> Fraction | None:
        """None, unless rho is 0 and the output says nothing."""
        return None if self.concentration else Fraction(0)

    @property
    def rho(self) -> Fraction:
        """Rho itself."""
        return self.concentration

    def delta(self, epsilon: float) -> float:
        """Return the least delta over alpha, rounded up (Canonne, Kamath and Steinke 2020, proposition 12).

        ``delta = e^((alpha-1)(alpha rho - eps)) (1 - 1/alpha)^alpha / (alpha-1)``; any alpha is valid, so the
        search for the best one need not be exact.
        """
        return delta_of_concentration(float_up(self.concentration), epsilon)

    def renyi(self, alpha: float) -> float:
        """Return rho alpha, rounded up."""
        if not self.concentration:
            return 0.0
        return math.inf if math.isinf(alpha) else float_up(self.concentration * Fraction(alpha))

    def law(self) -> LossLaw:
        """Return chords of the curve."""
        return self._law

    def charge(self) -> Charge:
        """Return (no epsilon, 0, rho)."""
        return Charge(self.pure, Fraction(0), self.concentration)

    @cached_property
    def _law(self) -> LossLaw:
        return curve_law(self.delta, None if self.concentration else 0.0)

    def _fields(self) -> dict[str, Any]:
        return {"rho": to_text(self.concentration)}

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Loss:
        return cls(from_text(data["rho"]))


def implied_renyi(pure: Fraction | None, rho: Fraction | None, alpha: float) -> float:
    """Return the smaller of the Renyi divergences that exact bounds imply."""
    of_pure = math.inf if pure is None else PureLoss(pure).renyi(alpha)
    of_rho = math.inf if rho is None else ConcentratedLoss(rho).renyi(alpha)
    return min(of_pure, of_rho)
