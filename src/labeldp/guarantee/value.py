"""Guarantees: a privacy loss and what it means; and estimates, which are none.

A :class:`Guarantee` says beside its numbers who is a neighbour, who is trusted and what is assumed.  Everything a
caller needs of this package is here, the losses of :mod:`labeldp.guarantee.losses` included.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context, Decimal
from fractions import Fraction
from typing import Any, Final, NoReturn, final

import numpy as np

from labeldp.errors import BoundaryError, EpsilonError, InputError
from labeldp.exact import delta_in_range, exact, float_down, float_up
from labeldp.guarantee.law import LossLaw, binary_response_law, one_bin_laplace_law, two_bin_laplace_law
from labeldp.guarantee.losses import (
    ApproximateLoss,
    AskedLoss,
    Charge,
    ConcentratedLoss,
    FiniteLoss,
    GroupLoss,
    LawLoss,
    Loss,
    ParallelLoss,
    PureLoss,
    SequentialLoss,
    asked_loss,
    group_loss,
    group_size,
)

__all__ = [
    "ApproximateLoss",
    "AskedLoss",
    "Charge",
    "ConcentratedLoss",
    "Estimate",
    "FiniteLoss",
    "GroupLoss",
    "Guarantee",
    "LawLoss",
    "Loss",
    "LossLaw",
    "ParallelLoss",
    "PureLoss",
    "SequentialLoss",
    "asked_loss",
    "binary_response_law",
    "labels_replaced",
    "one_bin_laplace_law",
    "read_guarantee",
    "two_bin_laplace_law",
]

_ONE_LABEL: Final = "one label replaced"
_COUNTED_LABELS: Final = re.compile(r"([0-9]+) labels replaced")

#: Whom one has to trust, from the best to the weakest, and what that means.
TRUST: Final = {
    "local": "Every label is randomised on its own, so that nobody but its owner has to be trusted.",
    "peers": "The peers who pass noisy labels on are trusted not to tell what passed through them.",
    "curator": "The curator, who holds the raw labels, is trusted; whoever sees only the release is not.",
}
_TRUST_ORDER: Final = tuple(TRUST)


@final
@dataclass(frozen=True)
class Guarantee:
    """A privacy loss, and what it means: who is a neighbour, who is trusted, what is assumed.

    >>> guarantee = Guarantee(PureLoss(Fraction(1)), trust="local")
    >>> guarantee.epsilon(), guarantee.then(guarantee).epsilon()
    (1.0, 2.0)
    >>> print(guarantee)
    epsilon <= 1 (pure), one label replaced, local
    """

    loss: Loss
    neighbour: str = _ONE_LABEL
    trust: str = "curator"
    assumptions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.trust not in TRUST:
            raise InputError(f"Expected trust to be one of {', '.join(TRUST)}, got {self.trust!r}.", trust=self.trust)
        object.__setattr__(self, "assumptions", tuple(self.assumptions))

    def epsilon(self, delta: object = 0) -> float:
        """Return epsilon at ``delta``, rounded up: pure epsilon at 0, infinity when there is none."""
        return self.loss.epsilon_at(delta_in_range(delta))

    def delta(self, epsilon: object) -> float:
        """Return delta at ``epsilon``, rounded up."""
        return self.loss.delta(_asked_epsilon(epsilon))

    def renyi(self, alpha: float) -> float:
        """Return a bound of the Renyi divergence of order ``alpha`` >= 1 between any two neighbours, rounded up."""
        order = float(alpha)
        if not order >= 1:
            raise EpsilonError(f"Expected alpha >= 1, got {alpha}.", value=alpha)
        return self.loss.renyi(order)

    @property
    def rho(self) -> float | None:
        """The zCDP bound, rounded up; None when there is none."""
        rho = self.loss.rho
        return None if rho is None else float_up(rho)

    def then(self, other: Guarantee | Estimate) -> Guarantee:
        """Return the guarantee of both releases together, when both may concern the same rows.

        The neighbours are those of both (of two numbers of labels, the smaller), trust is the weaker one, and the
        assumptions of both are made.
        """
        return self._with(other, SequentialLoss((self.loss, _certain(other).loss)))

    def beside(self, other: Guarantee | Estimate) -> Guarantee:
        """Return the guarantee of both releases together, when their rows are disjoint and chosen without labels."""
        joined = ParallelLoss((self.loss, _certain(other).loss))
        return self._with(other, joined.parts[0] if len(joined.parts) == 1 else joined)

    def for_group(self, m: int) -> Guarantee:
        """Return what holds when ``m`` labels are replaced at once.

        >>> Guarantee(PureLoss(Fraction(1, 2))).for_group(4).epsilon()
        2.0
        """
        if group_size(m) == 1:
            return self
        return replace(self, loss=group_loss(self.loss, m), neighbour=_group_neighbour(self.neighbour, m))

    def asked(self, epsilon: object, delta: object) -> Guarantee:
        """Return the same with the (epsilon, delta) it was asked for, and meets: what an account of such is charged.

        >>> guarantee = Guarantee(ConcentratedLoss(Fraction(1, 40)))
        >>> print(guarantee.asked(1, 1e-5))
        epsilon <= 1 (delta = 1e-05), one label replaced, curator
        """
        return replace(self, loss=asked_loss(self.loss, exact(epsilon), delta_in_range(delta)))

    def charge(self) -> Charge:
        """Return what a ledger is charged for it."""
        return self.loss.charge()

    def describe(self, n: int | None = None) -> str:
        """Return one paragraph of plain English; with the number of rows ``n``, delta is judged against it."""
        epsilon, delta = self._headline(n)
        sentences = [
            f"Neighbouring data sets have the same rows and the same features, with {self.neighbour}.",
            TRUST[self.trust],
            *[f"It is assumed that: {'; '.join(text.rstrip('.') for text in self.assumptions)}."]
            * bool(self.assumptions),
            _odds(epsilon, delta, self.neighbour),
        ]
        if n is not None and delta * n >= 1:
            sentences.append(
                f"Warning: delta = {_shown(delta)} is not below 1/n = {1 / n:.6g}; "
                "a delta this large permits publishing some labels outright."
            )
        return " ".join(sentences)

    def __str__(self) -> str:
        stated = self.charge()
        if stated.epsilon is not None:
            number = f"epsilon <= {_shown(stated.epsilon)} ({_kind_of(stated.delta)})"
        elif stated.rho is not None:
            number = f"rho <= {_shown(stated.rho)} (zCDP)"
        else:
            number = f"epsilon <= {_shown(self._headline(None)[0])} at delta = {_shown(self._headline(None)[1])}"
        return f"{number}, {self.neighbour}, {self.trust}"

    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` reads."""
        return {
            "kind": "guarantee",
            "loss": self.loss.to_json(),
            "neighbour": self.neighbour,
            "trust": self.trust,
            "assumptions": list(self.assumptions),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Guarantee:
        """Read what :meth:`to_json` wrote; an estimate is refused."""
        return _certain(read_guarantee(data))

    def _with(self, other: Guarantee | Estimate, loss: Loss) -> Guarantee:
        other = _certain(other)
        return Guarantee(
            loss,
            _common_neighbour(self.neighbour, other.neighbour),
            max(self.trust, other.trust, key=_TRUST_ORDER.index),
            tuple(dict.fromkeys((*self.assumptions, *other.assumptions))),
        )

    def _headline(self, n: int | None) -> tuple[float, Fraction]:
        """Return the statement to show: the exact one, or that at a delta well below 1/n."""
        stated = self.charge()
        if stated.epsilon is not None:
            return float_up(stated.epsilon), stated.delta
        delta = Fraction(1, 1_000_000) if n is None else min(Fraction(1, 1_000_000), Fraction(1, 10 * max(n, 1)))
        delta = max(delta, stated.delta * 2)
        return self.loss.epsilon_at(delta), delta


@final
@dataclass(frozen=True)
class Estimate:
    """Numbers that look like a guarantee and are none, and why: they never add up to one.

    >>> guess = Estimate.of(Guarantee(PureLoss(Fraction(1))), "the coins are seeded")
    >>> guess.epsilon()
    1.0
    >>> guess.then(guess)
    Traceback (most recent call last):
    ...
    labeldp.errors.BoundaryError: An estimate never adds up to a guarantee: the coins are seeded.
    """

    epsilon_value: float
    delta_value: float
    why: str
    guarantee: Guarantee | None = None

    @staticmethod
    def of(guarantee: Guarantee, why: str) -> Estimate:
        """Wrap the numbers of a guarantee whose conditions are not met, because of ``why``."""
        epsilon, delta = guarantee._headline(None)
        return Estimate(epsilon, float_up(delta), why, guarantee)

    def epsilon(self, delta: object = 0) -> float:
        """Return the estimated epsilon at ``delta``; infinite below the delta it was made for."""
        if self.guarantee is not None:
            return self.guarantee.epsilon(delta)
        return self.epsilon_value if delta_in_range(delta) >= exact(self.delta_value) else math.inf

    def delta(self, epsilon: object) -> float:
        """Return the estimated delta at ``epsilon``; 1 below the epsilon it was made for."""
        if self.guarantee is not None:
            return self.guarantee.delta(epsilon)
        return self.delta_value if _asked_epsilon(epsilon) >= self.epsilon_value else 1.0

    def describe(self, n: int | None = None) -> str:
        """Return one paragraph of plain English, which begins by saying that nothing is guaranteed."""
        warning = f"This is an estimate and not a guarantee: {self.why.rstrip('.')}."
        if self.guarantee is not None:
            return f"{warning} If that were not so: {self.guarantee.describe(n)}"
        return f"{warning} The estimate is epsilon = {self.epsilon_value:g} at delta = {self.delta_value:g}."

    def then(self, other: Guarantee | Estimate) -> NoReturn:  # noqa: ARG002  # nothing is ever composed
        """Refuse to compose."""
        raise _refusal(self)

    def beside(self, other: Guarantee | Estimate) -> NoReturn:  # noqa: ARG002  # nothing is ever composed
        """Refuse to compose."""
        raise _refusal(self)

    def __str__(self) -> str:
        return f"estimate only ({self.why.rstrip('.')}): epsilon = {self.epsilon_value:g}, delta = {self.delta_value:g}"

    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` reads."""
        return {
            "kind": "estimate",
            "epsilon": repr(float(self.epsilon_value)),
            "delta": repr(float(self.delta_value)),
            "why": self.why,
            "guarantee": None if self.guarantee is None else self.guarantee.to_json(),
        }

    @staticmethod
    def from_json(data: dict[str, Any]) -> Estimate:
        """Read what :meth:`to_json` wrote."""
        inner = data["guarantee"]
        return Estimate(
            float(data["epsilon"]),
            float(data["delta"]),
            data["why"],
            None if inner is None else Guarantee.from_json(inner),
        )


def read_guarantee(data: dict[str, Any]) -> Guarantee | Estimate:
    """Read what ``to_json`` of either a guarantee or an estimate wrote."""
    kind = data.get("kind")
    if kind == "estimate":
        return Estimate.from_json(data)
    if kind != "guarantee":
        raise InputError(f"Expected a guarantee or an estimate, got {kind!r}.", kind=kind)
    return Guarantee(Loss.from_json(data["loss"]), data["neighbour"], data["trust"], tuple(data["assumptions"]))


def _certain(other: object) -> Guarantee:
    """Return a guarantee as it is, and refuse anything else."""
    if isinstance(other, Estimate):
        raise _refusal(other)
    if not isinstance(other, Guarantee):
        raise BoundaryError(f"Expected a Guarantee, got {type(other).__name__}.")
    return other


def _refusal(estimate: Estimate) -> BoundaryError:
    return BoundaryError(f"An estimate never adds up to a guarantee: {estimate.why.rstrip('.')}.", estimate=estimate)


def labels_replaced(neighbour: str) -> int | None:
    """Return how many labels neighbours differ in, when that is what the words say."""
    if neighbour == _ONE_LABEL:
        return 1
    counted = _COUNTED_LABELS.fullmatch(neighbour)
    return int(counted[1]) if counted else None


def _group_neighbour(neighbour: str, m: int) -> str:
    labels = labels_replaced(neighbour)
    return f"{m} times {neighbour}" if labels is None else f"{m * labels} labels replaced"


def _common_neighbour(left: str, right: str) -> str:
    """Return who is a neighbour in both senses: a guarantee for m labels holds for fewer."""
    ours, theirs = labels_replaced(left), labels_replaced(right)
    if ours is not None and theirs is not None:
        return left if ours <= theirs else right
    return left if left == right else f"{left} and {right}"


def _kind_of(delta: Fraction) -> str:
    return "pure" if delta == 0 else f"delta = {_shown(delta)}"


def _shown(value: Fraction | float) -> str:
    """Write a number with six digits, rounded up; a float stands for the decimal it prints as."""
    if isinstance(value, float) and math.isinf(value):
        return "infinity"
    nearest = float(value)
    exactly = Fraction(repr(nearest)) if nearest == value else Fraction(value)
    shown = Context(prec=6, rounding=ROUND_CEILING).divide(Decimal(exactly.numerator), Decimal(exactly.denominator))
    return f"{float(shown):g}"


def _odds(epsilon: float, delta: Fraction, neighbour: str) -> str:
    """Say what e^epsilon means: the odds of one data set against its neighbour change by at most that factor."""
    what = "of a label" if labels_replaced(neighbour) == 1 else "which of two neighbouring data sets is the true one"
    if math.isinf(epsilon) or delta >= 1:
        return f"Someone who was 50 % sure {what} can become certain: nothing is promised."
    percent = math.ceil(1000 / (1 + math.exp(-epsilon))) / 10
    sure = "almost 100 %" if percent >= 100 else f"at most {percent:g} %"
    exception = "" if delta == 0 else f", except in a case of probability at most {_shown(delta)}"
    return (
        f"Whatever else they know, someone who was 50 % sure {what} can become {sure} sure{exception} "
        f"(epsilon <= {_shown(epsilon)})."
    )


def _asked_epsilon(epsilon: object) -> float:
    """Return the largest float at or below an asked epsilon: a curve falls, so its value there is an upper bound."""
    value = float(epsilon) if isinstance(epsilon, float | np.floating) else float_down(exact(epsilon))
    if not value >= 0:
        raise EpsilonError(f"Expected epsilon >= 0, got {epsilon}.", value=epsilon)
    return value
