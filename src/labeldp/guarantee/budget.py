"""Budgets: what a label may cost in total, and what a charge costs under each kind of budget."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal, NoReturn, final

from labeldp.errors import AccountMismatchError, EpsilonError
from labeldp.exact import Number, declared, from_text, to_text
from labeldp.guarantee.value import Charge

Kind = Literal["pure", "approximate", "concentrated"]


@final
@dataclass(frozen=True, init=False)
class Budget:
    """What one label of a data set may cost in total; numbers are read as they are written.

    >>> Budget(0.3).epsilon
    Fraction(3, 10)
    >>> Budget.of((1, 1e-6)).kind
    'approximate'
    >>> Budget(rho="0.5").kind
    'concentrated'
    """

    epsilon: Fraction | None
    delta: Fraction
    rho: Fraction | None

    def __init__(self, epsilon: Number | None = None, delta: Number = 0, rho: Number | None = None) -> None:
        if (epsilon is None) == (rho is None):
            raise EpsilonError("Expected either epsilon or rho for a budget, such as Budget(1) or Budget(rho=0.5).")
        exact_delta = declared(delta)
        if not 0 <= exact_delta < 1:
            raise EpsilonError(f"Expected 0 <= delta < 1, got {delta}.", value=delta)
        if rho is not None and exact_delta:
            raise EpsilonError(f"Expected delta=0 in a budget of rho, got {delta}.", value=delta)
        object.__setattr__(self, "epsilon", None if epsilon is None else _above_zero("epsilon", epsilon))
        object.__setattr__(self, "delta", exact_delta)
        object.__setattr__(self, "rho", None if rho is None else _above_zero("rho", rho))

    @classmethod
    def of(cls, budget: Budget | Number | tuple[Number, ...]) -> Budget:
        """Read a budget from a number (epsilon), a pair (epsilon, delta) or a budget."""
        if isinstance(budget, Budget):
            return budget
        if isinstance(budget, tuple):
            if not 1 <= len(budget) <= 2:
                raise EpsilonError(f"Expected a budget (epsilon, delta), got {len(budget)} numbers.", value=budget)
            return cls(*budget)
        return cls(budget)

    @property
    def kind(self) -> Kind:
        """Which sum the budget bounds."""
        if self.rho is not None:
            return "concentrated"
        return "approximate" if self.delta else "pure"


def check_charge(charge: Charge) -> None:
    """Refuse what is not an exact number, and above all a negative one: it would give budget back."""
    numbers: dict[str, object] = {"epsilon": charge.epsilon, "delta": charge.delta, "rho": charge.rho}
    for name, number in numbers.items():
        if number is None and name != "delta":
            continue
        if isinstance(number, bool) or not isinstance(number, Fraction | int):
            raise EpsilonError(f"Expected an exact {name} in a charge, got {type(number).__name__}.", value=number)
        if number < 0 or (name == "delta" and number >= 1):
            raise EpsilonError(f"Expected {name} in range in a charge, got {number}.", value=number)


def cost_of(charge: Charge, budget: Budget) -> dict[str, Fraction]:
    """Return what a charge adds to each bounded sum, or refuse a charge that no such sum can hold."""
    if budget.kind == "concentrated":
        # With a delta beside it, rho may be a bound that holds up to delta only, and no account here adds those.
        if charge.rho is None or (charge.delta and charge.epsilon is None):
            _refuse(charge, budget, "ask for a mechanism with a pure or zCDP guarantee")
        return {"rho": charge.rho}
    if charge.epsilon is None:
        _refuse(charge, budget, "ask for an (epsilon, delta) guarantee, or register the data set with Budget(rho=...)")
    if budget.kind == "approximate":
        return {"epsilon": charge.epsilon, "delta": charge.delta}
    if charge.delta:
        _refuse(charge, budget, "ask for a pure mechanism, or register the data set with Budget(epsilon, delta)")
    return {"epsilon": charge.epsilon}


def _refuse(charge: Charge, budget: Budget, advice: str) -> NoReturn:
    raise AccountMismatchError(
        f"An account of {shown(parts_of(budget))} cannot hold a charge of {shown(parts_of(charge))}; {advice}.",
        budget=budget,
        charge=charge,
    )


def parts_of(value: Budget | Charge) -> dict[str, Fraction]:
    """Return the numbers that a budget bounds, or that a charge states; a delta of zero is none."""
    parts = {"epsilon": value.epsilon, "delta": value.delta, "rho": value.rho}
    return {name: number for name, number in parts.items() if number is not None and (number or name != "delta")}


def charge_of(sums: Mapping[str, Fraction]) -> Charge:
    """Return the charge of given sums."""
    return Charge(epsilon=sums.get("epsilon"), delta=sums.get("delta", Fraction(0)), rho=sums.get("rho"))


def shown(numbers: Mapping[str, Fraction], *, full: bool = False) -> str:
    """Write numbers for a reader, in six digits or in full."""
    return ", ".join(f"{name}={to_text(x) if full else f'{float(x):.6g}'}" for name, x in numbers.items())


def spelled(value: Budget | Charge) -> dict[str, str]:
    """Write the numbers of a budget or a charge exactly, for a record."""
    return {name: to_text(number) for name, number in parts_of(value).items()}


def read_spelled(body: dict[str, str]) -> dict[str, Any]:
    """Read what :func:`spelled` wrote, as keywords."""
    return {"epsilon": None, "delta": Fraction(0), "rho": None} | {k: from_text(v) for k, v in body.items()}


def _above_zero(name: str, number: Number) -> Fraction:
    value = declared(number)
    if value <= 0:
        raise EpsilonError(f"Expected {name} > 0 in a budget, got {number}.", value=number)
    return value
