"""Budgets: how they are read, and which make no sense."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from labeldp.errors import EpsilonError
from labeldp.guarantee.budget import Budget

ZERO = Fraction(0)


@pytest.mark.parametrize(
    ("given_as", "kind", "epsilon", "delta", "rho"),
    [
        (1, "pure", Fraction(1), ZERO, None),
        (0.3, "pure", Fraction(3, 10), ZERO, None),
        (np.float64(0.1), "pure", Fraction(1, 10), ZERO, None),
        ("1/3", "pure", Fraction(1, 3), ZERO, None),
        (Decimal("0.25"), "pure", Fraction(1, 4), ZERO, None),
        ((2, 0), "pure", Fraction(2), ZERO, None),
        ((2,), "pure", Fraction(2), ZERO, None),
        ((1, 1e-6), "approximate", Fraction(1), Fraction(1, 10**6), None),
        (Budget(rho=0.5), "concentrated", None, ZERO, Fraction(1, 2)),
    ],
)
def test_budget_means_the_numbers_as_they_are_written(
    given_as: Any, kind: str, epsilon: Fraction | None, delta: Fraction, rho: Fraction | None
) -> None:
    """A budget is read as printed, and its kind follows from what it bounds."""
    budget = Budget.of(given_as)

    assert (kind, epsilon, delta, rho) == (budget.kind, budget.epsilon, budget.delta, budget.rho)
    assert budget == Budget.of(budget)
    assert hash(budget) == hash(Budget.of(given_as))


@pytest.mark.parametrize(
    "make",
    [
        Budget,
        lambda: Budget(1, rho=1),
        lambda: Budget(0),
        lambda: Budget(-1),
        lambda: Budget(math.nan),
        lambda: Budget(math.inf),
        lambda: Budget(True),
        lambda: Budget(1, 1),
        lambda: Budget(1, -1e-9),
        lambda: Budget(rho=0),
        lambda: Budget(rho=1, delta=1e-6),
        lambda: Budget.of(()),
        lambda: Budget.of((1, 0, 0)),
    ],
)
def test_senseless_budgets_are_refused(make: Callable[[], Budget]) -> None:
    """A budget is one positive finite bound, with a delta in [0, 1) beside epsilon only."""
    with pytest.raises(EpsilonError):
        make()
