"""Privacy losses: exact where they can be, rounded up where they cannot.

A :class:`Loss` says how much the output of a mechanism can tell apart two neighbouring data sets, in either order.
Pure epsilon and zCDP are exact rationals and add exactly; the curve ``delta(epsilon)`` is a float rounded up.

::

    Loss (abstract)
    +-- PureLoss            epsilon; dominated by binary randomised response
    +-- ApproximateLoss     (epsilon, delta)
    +-- ConcentratedLoss    rho-zCDP
    +-- FiniteLoss          the integer weights of a finite channel
    +-- LawLoss             a dominating law, such as that of integer noise
    +-- SequentialLoss      several releases about the same rows: losses add
    +-- ParallelLoss        releases about disjoint rows: the largest counts
    +-- GroupLoss           a loss when several labels are replaced at once
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Final, final

import numpy as np

from labeldp.errors import EpsilonError, InputError
from labeldp.exact import exp_bounds, float_down, float_up, from_text, round_up, to_text
from labeldp.guarantee.law import (
    LARGEST_CHORD,
    LossLaw,
    Spectrum,
    binary_response_law,
    chord_law,
    compose,
    curve_law,
    renyi_of_losses,
    supremum_law,
    thinned,
)
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

_ROUNDING: Final = 2.0**-53
_NUDGE: Final = 1 + 64 * _ROUNDING
_SUM_ERROR: Final = 64 * _ROUNDING
_LARGEST_EPSILON: Final = 1e5
_LARGEST_EXPONENT: Final = 700.0
_CHORD_WORK: Final = 200_000_000
_ORDERS: Final = tuple(1 + 2.0 ** (k / 4) for k in range(-16, 41))


# ---- what a ledger is charged ------------------------------------------------------------------------------


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
        return Charge(_plus(self.epsilon, other.epsilon), self.delta + other.delta, _plus(self.rho, other.rho))

    def beside(self, other: Charge) -> Charge:
        """Join a charge on disjoint rows: parallel composition, the larger of each component (ERRATA F4)."""
        return Charge(_larger(self.epsilon, other.epsilon), max(self.delta, other.delta), _larger(self.rho, other.rho))

    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` reads."""
        return {"epsilon": _optional_text(self.epsilon), "delta": to_text(self.delta), "rho": _optional_text(self.rho)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> Charge:
        """Read what :meth:`to_json` wrote."""
        return Charge(_optional(data["epsilon"]), from_text(data["delta"]), _optional(data["rho"]))


# ---- losses ------------------------------------------------------------------------------------------------


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

        Exact statements (pure; approximate with its own delta) are used as they are; below them the curve is
        inverted by bisection, and the end on which it was found to hold is returned.
        """
        stated = self.charge()
        high = math.inf if stated.epsilon is None or stated.delta > delta else float_up(stated.epsilon)
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
        _nonnegative(self.epsilon, "epsilon")

    @property
    def pure(self) -> Fraction:
        """Epsilon itself."""
        return self.epsilon

    @property
    def rho(self) -> Fraction:
        """Return eps tanh(eps/2), rounded up (ERRATA F3)."""
        return _concentration(self.epsilon)

    def delta(self, epsilon: float) -> float:
        """Return (e^E - e^epsilon)_+ / (1 + e^E) for the pure epsilon E, rounded up."""
        if _covers(self.epsilon, epsilon):
            return 0.0
        gap = float_up(self.epsilon - Fraction(epsilon))
        return min(-math.expm1(-gap) / (1 + math.exp(-float_up(self.epsilon))) * _NUDGE, 1.0)

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
        return min(value * _NUDGE, top)

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
        object.__setattr__(self, "epsilon", _nonnegative(epsilon, "epsilon"))
        object.__setattr__(self, "failure", _nonnegative(delta, "delta", 1))

    @property
    def pure(self) -> Fraction | None:
        """Epsilon when delta is 0."""
        return None if self.failure else self.epsilon

    @property
    def rho(self) -> Fraction | None:
        """As of pure epsilon when delta is 0."""
        return None if self.failure else _concentration(self.epsilon)

    def delta(self, epsilon: float) -> float:
        """Return delta + (1 - delta) times that of the pure part, rounded up."""
        rest = PureLoss(self.epsilon).delta(epsilon)
        if rest == 0:
            return float_up(self.failure)
        return min((float_up(self.failure) + float_up(1 - self.failure) * rest) * _NUDGE, 1.0)

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
        object.__setattr__(self, "concentration", _nonnegative(rho, "rho"))

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
        return _delta_of_concentration(float_up(self.concentration), epsilon)

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
            _nonnegative(self.epsilon, "epsilon")
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
        return None if self.epsilon is None else _concentration(self.epsilon)

    def delta(self, epsilon: float) -> float:
        """Return the largest ``sum (P - e^epsilon Q)_+`` over pairs, with the rounding of floats added."""
        if _covers(self.epsilon, epsilon):
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
        return min(largest / self._total * _NUDGE, 1.0)

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
        return largest * _NUDGE if self.epsilon is None else float_up(self.epsilon)

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
            "epsilon": _optional_text(self.epsilon),
            "first": self.first.tolist(),
            "second": self.second.tolist(),
        }

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Loss:
        return cls(_optional(data["epsilon"]), data["first"], data["second"])


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
        object.__setattr__(self, "epsilon", None if epsilon is None else _nonnegative(epsilon, "epsilon"))
        object.__setattr__(self, "law_of_loss", law)
        object.__setattr__(self, "concentration", None if rho is None else _nonnegative(rho, "rho"))

    @property
    def pure(self) -> Fraction | None:
        """Epsilon, as the mechanism declared it."""
        return self.epsilon

    @property
    def rho(self) -> Fraction | None:
        """The smaller of what was declared and what pure epsilon implies."""
        implied = None if self.epsilon is None else _concentration(self.epsilon)
        return min((r for r in (implied, self.concentration) if r is not None), default=None)

    def delta(self, epsilon: float) -> float:
        """Return the hockey stick of the law, 0 from pure epsilon on, or that of zCDP where it is smaller."""
        return _least_delta(self.epsilon, self.concentration, epsilon, self.law_of_loss.delta(epsilon))

    def renyi(self, alpha: float) -> float:
        """Return the smallest of the law's own value and what pure epsilon and rho imply."""
        return min(self.law_of_loss.renyi(alpha), _implied_renyi(self.epsilon, self.concentration, alpha))

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
            "epsilon": _optional_text(self.epsilon),
            "law": self.law_of_loss.to_json(),
            "rho": _optional_text(self.concentration),
        }

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Loss:
        return cls(_optional(data["epsilon"]), LossLaw.from_json(data["law"]), _optional(data["rho"]))


@final
@dataclass(frozen=True)
class SequentialLoss(Loss):
    """Several releases about the same rows, possibly chosen adaptively: losses add.

    Pure epsilon, zCDP and Renyi divergences add.  The curve comes from the exact convolution of the parts' laws;
    where its support grows too large, from the accountant, whose discretisation is pessimistic.

    >>> SequentialLoss((PureLoss(Fraction(1)),) * 3).pure
    Fraction(3, 1)
    """

    kind: ClassVar[str] = "sequential"
    parts: tuple[Loss, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", _flat(self.parts, SequentialLoss))

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
        if _covers(pure, epsilon):
            return 0.0
        if self._composed is not None:
            return _least_delta(pure, rho, epsilon, self._composed.delta(epsilon))
        bounds = [_converted(order - 1, value, epsilon) for order, value in self._renyi_curve]
        return _least_delta(pure, rho, epsilon, min((*bounds, self._accounted(epsilon))))

    def renyi(self, alpha: float) -> float:
        """Return the sum over parts, rounded up."""
        if math.isinf(alpha) and self.pure is not None:
            return float_up(self.pure)
        return math.fsum(times * part.renyi(alpha) for part, times in self._counted.items()) * (1 + 4 * _ROUNDING)

    def law(self) -> LossLaw:
        """Return the convolution of the parts' laws, or chords of the curve where that grew too large."""
        return self._law

    def charge(self) -> Charge:
        """Return the sum of charges, component by component."""
        total = Charge(Fraction(0), Fraction(0), Fraction(0))
        for part in self.parts:
            total = total.then(part.charge())
        return replace(total, delta=min(total.delta, Fraction(1)))

    def _accounted(self, epsilon: float) -> float:
        from labeldp.guarantee.account import compose_delta

        return compose_delta([law for law, times in self._laws for _ in range(times)], epsilon)

    @cached_property
    def _counted(self) -> Counter[Loss]:
        return Counter(self.parts)

    @cached_property
    def _sums(self) -> tuple[Fraction | None, Fraction | None]:
        parts = [(part.pure, part.rho, times) for part, times in self._counted.items()]
        return (
            _sum(None if pure is None else times * pure for pure, _, times in parts),
            _sum(None if rho is None else times * rho for _, rho, times in parts),
        )

    @cached_property
    def _laws(self) -> tuple[tuple[LossLaw, int], ...]:
        return tuple((part.law(), times) for part, times in self._counted.items())

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
        return {"parts": [[times, part.to_json()] for part, times in _runs(self.parts)]}

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Loss:
        return cls(tuple(part for times, text in data["parts"] for part in (Loss.from_json(text),) * int(times)))


@final
@dataclass(frozen=True)
class ParallelLoss(Loss):
    """Releases about disjoint rows: a replaced label is in one of them, so the largest counts (ERRATA F4).

    >>> ParallelLoss((PureLoss(Fraction(1)), PureLoss(Fraction(2)))).pure
    Fraction(2, 1)
    """

    kind: ClassVar[str] = "parallel"
    parts: tuple[Loss, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(dict.fromkeys(_flat(self.parts, ParallelLoss))))

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
            chain = min(each * links * _NUDGE, 1.0)
        return _least_delta(*self._grown, epsilon, chain)

    def renyi(self, alpha: float) -> float:
        """Return what m eps and m^2 rho imply."""
        return _implied_renyi(*self._grown, alpha)

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
        bounds = [None if rho is None else self.size**2 * rho, None if grown is None else _concentration(grown)]
        return grown, min((bound for bound in bounds if bound is not None), default=None)

    @cached_property
    def _law(self) -> LossLaw:
        return curve_law(self.delta, None if self.pure is None else float_up(self.pure))

    def _fields(self) -> dict[str, Any]:
        return {"part": self.part.to_json(), "size": self.size}

    @classmethod
    def _read(cls, data: dict[str, Any]) -> Loss:
        return cls(Loss.from_json(data["part"]), int(data["size"]))


# ---- exact arithmetic --------------------------------------------------------------------------------------


def _concentration(pure: Fraction) -> Fraction:
    """Return eps tanh(eps/2), rounded up: tanh(eps/2) = (e^eps - 1)/(e^eps + 1) increases with e^eps (ERRATA F3)."""
    if pure == 0:
        return Fraction(0)
    _, high = exp_bounds(pure)
    return round_up(pure * (high - 1) / (high + 1))


def _group(epsilon: Fraction | None, delta: Fraction, m: int) -> tuple[Fraction | None, Fraction]:
    """Return (m eps, delta (1 + e^eps + ... + e^((m-1) eps))), rounded up and at most 1."""
    if epsilon is None or delta == 0:
        return (None if epsilon is None else m * epsilon), (Fraction(1) if delta else delta)
    if epsilon == 0:
        return epsilon, min(m * delta, Fraction(1))
    links = (exp_bounds(m * epsilon)[1] - 1) / (exp_bounds(epsilon)[0] - 1)
    return m * epsilon, min(round_up(delta * links), Fraction(1))


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


def _nonnegative(value: object, name: str, most: int | None = None) -> Fraction:
    """Return an exact number of at least 0, and at most ``most``."""
    if isinstance(value, bool) or not isinstance(value, int | Fraction):
        raise EpsilonError(f"Expected {name} as an exact Fraction, got {value!r}.", value=value)
    if value < 0 or (most is not None and value > most):
        limit = "" if most is None else f" and <= {most}"
        raise EpsilonError(f"Expected {name} >= 0{limit}, got {value}.", value=value)
    return Fraction(value)


def _plus(left: Fraction | None, right: Fraction | None) -> Fraction | None:
    return None if left is None or right is None else left + right


def _larger(left: Fraction | None, right: Fraction | None) -> Fraction | None:
    return None if left is None or right is None else max(left, right)


def _sum(values: Iterable[Fraction | None]) -> Fraction | None:
    total: Fraction | None = Fraction(0)
    for value in values:
        total = _plus(total, value)
    return total


def _largest(values: Iterable[Fraction | None]) -> Fraction | None:
    largest: Fraction | None = Fraction(0)
    for value in values:
        largest = _larger(largest, value)
    return largest


def _optional_text(value: Fraction | None) -> str | None:
    return None if value is None else to_text(value)


def _optional(text: str | None) -> Fraction | None:
    return None if text is None else from_text(text)


def _covers(pure: Fraction | None, epsilon: float) -> bool:
    """Say whether ``epsilon`` is at least the pure one, exactly."""
    return pure is not None and (math.isinf(epsilon) or Fraction(epsilon) >= pure)


# ---- conversions, rounded up -------------------------------------------------------------------------------


def _converted(order: float, divergence: float, epsilon: float) -> float:
    """Return the delta that a Renyi divergence of order alpha = 1 + ``order`` implies, rounded up.

    Canonne, Kamath and Steinke (2020), proposition 12: ``e^((alpha-1)(D-eps)) (1 - 1/alpha)^alpha / (alpha-1)``; its
    logarithm is ``s (D - eps) + s log s - (1+s) log(1+s)`` with s = alpha - 1.
    """
    terms = (order * divergence, -order * epsilon, order * math.log(order), -(1 + order) * math.log1p(order))
    exponent = math.fsum(terms) + 16 * _ROUNDING * math.fsum(map(abs, terms))
    return 1.0 if exponent >= 0 else math.exp(exponent) * _NUDGE


def _delta_of_concentration(rho: float, epsilon: float) -> float:
    """Minimise :func:`_converted` over alpha: the derivative of its exponent, (2s+1) rho - eps + log(s/(1+s)), grows."""
    if rho == 0 or math.isinf(epsilon):
        return 0.0
    low, high = -40.0, math.log((epsilon + 1) / rho)
    while high - low > 1e-9:
        middle = (low + high) / 2
        order = math.exp(middle)
        if (2 * order + 1) * rho - epsilon + middle - math.log1p(order) < 0:
            low = middle
        else:
            high = middle
    order = math.exp(high)
    return _converted(order, (1 + order) * rho, epsilon)


def _least_delta(pure: Fraction | None, rho: Fraction | None, epsilon: float, value: float) -> float:
    """Return the smallest of a delta and of what exact bounds imply."""
    if _covers(pure, epsilon):
        return 0.0
    return value if rho is None else min(value, _delta_of_concentration(float_up(rho), epsilon))


def _implied_renyi(pure: Fraction | None, rho: Fraction | None, alpha: float) -> float:
    """Return the smaller of the Renyi divergences that exact bounds imply."""
    of_pure = math.inf if pure is None else PureLoss(pure).renyi(alpha)
    of_rho = math.inf if rho is None else ConcentratedLoss(rho).renyi(alpha)
    return min(of_pure, of_rho)


# ---- parts of composed losses ------------------------------------------------------------------------------


def _flat(parts: Iterable[Loss], kind: type[SequentialLoss | ParallelLoss]) -> tuple[Loss, ...]:
    """Return the parts, with parts of the same kind opened."""
    flat: list[Loss] = []
    for part in parts:
        if not isinstance(part, Loss):
            raise InputError(f"Expected losses, got {type(part).__name__}.")
        flat.extend(part.parts if isinstance(part, kind) else (part,))
    if not flat:
        raise InputError("Expected at least one loss to compose.")
    return tuple(flat)


def _runs(parts: Sequence[Loss]) -> Iterator[tuple[Loss, int]]:
    """Yield each run of equal parts with its length."""
    return ((part, len(list(run))) for part, run in groupby(parts))
