"""Exact convolution against dp_accounting, and the accountant's own promises."""

from __future__ import annotations

import functools
import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labeldp.errors import InputError
from labeldp.exact import log_up
from labeldp.guarantee import (
    ApproximateLoss,
    ConcentratedLoss,
    FiniteLoss,
    LawLoss,
    Loss,
    LossLaw,
    PureLoss,
    SequentialLoss,
    binary_response_law,
    two_bin_laplace_law,
)
from labeldp.guarantee.account import compose_delta, compose_epsilon

common = pytest.importorskip("dp_accounting.pld.common")
pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")

TOTAL = 1 << 62
GRID = 1e-4


def _list(distributions: list[Any]) -> Any:
    """Compose as a list, one after the other."""
    return functools.reduce(lambda a, b: a.compose(b), distributions)


def _response(classes: int, epsilon: float) -> FiniteLoss:
    other = int(TOTAL / (math.exp(epsilon) + classes - 1))
    own = TOTAL - (classes - 1) * other
    rest = (classes - 2) * other
    return FiniteLoss(log_up(Fraction(own, other)), np.array([[own, other, rest]]), np.array([[other, own, rest]]))


def _table_loss(seed: int, classes: int) -> Loss:
    """A loss whose law has many points at irregular places."""
    weights = (np.random.default_rng(seed).dirichlet(np.full(classes, 5.0), classes) * TOTAL).astype(np.int64)
    weights[:, 0] += TOTAL - weights.sum(axis=1)
    columns = weights.T.tolist()
    return FiniteLoss.of_table(log_up(max(Fraction(max(c), min(c)) for c in columns)), weights)


# ---- exact against dp_accounting -----------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [[(0.5, 0.0)] * 10, [(0.1, 1e-6)] * 7 + [(1.0, 1e-5)], [(0.3, 0.0), (0.7, 0.01)]])
def test_convolution_agrees_with_dp_accounting_for_pure_and_approximate(parts: list[tuple[float, float]]) -> None:
    """Their distribution of the same list is pessimistic: never below ours, and above by its grid only."""
    ours = SequentialLoss(
        tuple(ApproximateLoss(Fraction(e), Fraction(d)) if d else PureLoss(Fraction(e)) for e, d in parts)
    )
    theirs = _list(
        [
            pld.from_privacy_parameters(common.DifferentialPrivacyParameters(e, d), value_discretization_interval=GRID)
            for e, d in parts
        ]
    )

    for epsilon in (0.0, 0.2, 0.5, 1.0, 2.0, 3.0):
        exact, pessimistic = ours.delta(epsilon), theirs.get_delta_for_epsilon(epsilon)
        assert pessimistic >= exact - 1e-9
        assert pessimistic <= exact + 2 * GRID * len(parts)


@pytest.mark.parametrize(("classes", "epsilon", "times"), [(2, 1.0, 3), (4, 1.6094379124341003, 10), (10, 0.5, 20)])
def test_convolution_agrees_with_dp_accounting_for_randomised_response(
    classes: int, epsilon: float, times: int
) -> None:
    """As a list, since dp-accounting 0.6 ignores a count for randomised response."""
    keep = (math.exp(epsilon) - 1) / (math.exp(epsilon) + classes - 1)
    ours = SequentialLoss((_response(classes, epsilon),) * times)
    theirs = _list(
        [pld.from_randomized_response(1 - keep, classes, value_discretization_interval=GRID) for _ in range(times)]
    )

    assert ours.epsilon_at(Fraction(0)) == pytest.approx(times * epsilon, abs=1e-9)
    for at in (0.0, 0.5, 1.0, 2.0, 5.0):
        exact, pessimistic = ours.delta(at), theirs.get_delta_for_epsilon(at)
        assert pessimistic >= exact - 1e-9
        assert pessimistic <= exact + 2 * GRID * times


def test_convolution_agrees_with_dp_accounting_for_discrete_laplace() -> None:
    """One bin that moves by one, three times."""
    a = Fraction(1, 3)
    ours = SequentialLoss((LawLoss(a, binary_response_law(a)),) * 3)
    theirs = _list(
        [
            pld.from_discrete_laplace_mechanism(float(a), sensitivity=1, value_discretization_interval=GRID)
            for _ in range(3)
        ]
    )

    for at in (0.0, 0.1, 0.5, 0.9):
        assert ours.delta(at) - 1e-9 <= theirs.get_delta_for_epsilon(at) <= ours.delta(at) + 6 * GRID


# ---- the accountant ------------------------------------------------------------------------------------------

_LISTS = {
    "response": [binary_response_law(0.5)] * 12,
    "mixed": [binary_response_law(0.3), two_bin_laplace_law(0.2), binary_response_law(1.0)],
    "approximate": [ApproximateLoss(Fraction(1, 2), Fraction(1, 1000)).law()] * 5,
    "response of ten": [_response(10, 1.0).law()] * 8,
    "concentrated": [ConcentratedLoss(Fraction(1, 50)).law()] * 2,
    "table": [_table_loss(1, 5).law()] * 2,
    "one": [two_bin_laplace_law(0.7)],
    "nothing": [binary_response_law(0)] * 4,
    "small": [binary_response_law(1e-5)] * 50,
}


@pytest.mark.parametrize("laws", _LISTS.values(), ids=_LISTS.keys())
def test_the_accountant_is_pessimistic_and_close(laws: list[LossLaw]) -> None:
    """Never below the exact convolution of the same laws, and above it by a fraction of the grid."""
    exact = SequentialLoss(tuple(LawLoss(None, law) for law in laws))

    for epsilon in (0.0, 1e-6, 1e-4, 0.1, 0.35, 1.0, 1.5, 3.0, 20.0):
        value = exact.delta(epsilon)
        accounted = compose_delta(laws, epsilon)
        assert accounted >= value * (1 - 1e-12) - 1e-15
        assert accounted <= value * 1.01 + 1e-7


@pytest.mark.parametrize("laws", _LISTS.values(), ids=_LISTS.keys())
@pytest.mark.parametrize("delta", [1e-8, 1e-3, 0.05, 0.5])
def test_the_accountants_epsilon_inverts_its_delta(laws: list[LossLaw], delta: float) -> None:
    """At the epsilon the delta is met; slightly below it is not."""
    epsilon = compose_epsilon(laws, delta)

    if math.isinf(epsilon):
        assert compose_delta(laws, 1e4) > delta
        return
    assert compose_delta(laws, epsilon) <= delta
    if epsilon > 0:
        assert compose_delta(laws, epsilon - 1e-6 * (1 + epsilon)) > delta


def test_no_epsilon_at_delta_zero() -> None:
    """A truncated distribution knows nothing there: exact sums answer, not the accountant."""
    assert math.isinf(compose_epsilon([binary_response_law(1.0)] * 3, 0.0))
    assert SequentialLoss((PureLoss(Fraction(1)),) * 3).epsilon_at(Fraction(0)) == 3.0


def test_nothing_to_account_is_refused() -> None:
    """An empty list of laws."""
    with pytest.raises(InputError, match="at least one law"):
        compose_delta([], 1.0)


def test_ten_fold_response_is_ten_times_one() -> None:
    """The trap of dp-accounting 0.6 (ten-fold response reported as one): the accountant sees all ten."""
    law = _response(4, math.log(5)).law()

    assert compose_delta([law] * 10, 1.6095) > 0.4
    assert compose_delta([law] * 10, 16.0) > 0
    assert 9 < compose_epsilon([law] * 10, 1e-3) < 16.1


# ---- compositions too large to be exact ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def large() -> SequentialLoss:
    """Five irregular tables: millions of sums."""
    loss = SequentialLoss(tuple(_table_loss(seed, 12) for seed in range(5)))
    assert loss._composed is None
    return loss


def test_large_compositions_go_through_the_accountant(large: SequentialLoss) -> None:
    """Between what two of the five cost exactly, and the sum of pure epsilons."""
    fewer = SequentialLoss(large.parts[:2])
    assert fewer._composed is not None

    for epsilon in (0.0, 1.0, 3.0, 6.0):
        assert fewer.delta(epsilon) <= large.delta(epsilon) <= 1
    assert large.delta(float(large.pure or 0) + 1e-9) == 0
    assert large.epsilon_at(Fraction(0)) == pytest.approx(float(large.pure or 0), abs=1e-12)
    assert fewer.epsilon_at(Fraction(1, 1000)) < large.epsilon_at(Fraction(1, 1000)) < float(large.pure or 0)


def test_large_compositions_are_safe_by_simulation(large: SequentialLoss) -> None:
    """delta = E(1 - e^(eps - L))_+ of the sum of independent losses, by drawing them from the parts' laws."""
    generator = np.random.default_rng(11)
    total = sum(
        generator.choice(np.array(law.losses), 400_000, p=np.array(law.probs) / sum(law.probs))
        for law in (part.law() for part, _ in large.parts)
    )
    for epsilon in (0.0, 1.0, 3.0):
        drawn = np.maximum(-np.expm1(np.minimum(epsilon - total, 0.0)), 0.0)
        assert drawn.mean() == pytest.approx(large.delta(epsilon), abs=6 * drawn.std() / math.sqrt(drawn.size))


def test_the_law_of_a_large_composition_dominates_it(large: SequentialLoss) -> None:
    """Chords of its curve, of bounded size."""
    law = large.law()

    assert len(law.losses) < 2000
    for epsilon in (0.0, 0.5, 2.0, 5.0, 9.0):
        assert law.delta(epsilon) >= large.delta(epsilon) * (1 - 1e-6)


def test_many_small_releases() -> None:
    """Ten thousand releases of epsilon 0.01: near the Gaussian limit, far below the sum of 100."""
    loss = SequentialLoss((PureLoss(Fraction(1, 100)),) * 10_000)

    epsilon = loss.epsilon_at(Fraction(1, 10**6))

    assert 4.3 < epsilon < 5.4
    assert loss.delta(epsilon) <= 1e-6
    assert ConcentratedLoss(loss.rho).delta(epsilon) >= 1e-6


@given(st.lists(st.floats(0.01, 1.5), min_size=2, max_size=5), st.floats(0, 4))
@settings(max_examples=15)
def test_any_list_of_responses(epsilons: list[float], at: float) -> None:
    """The accountant bounds brute force over all outcomes of binary responses."""
    sides = [[(1 / (1 + math.exp(-e)), e), (1 / (1 + math.exp(e)), -e)] for e in epsilons]
    brute = math.fsum(
        math.prod(p for p, _ in outcome) * max(-math.expm1(at - sum(loss for _, loss in outcome)), 0.0)
        for outcome in itertools.product(*sides)
    )
    laws = [binary_response_law(e) for e in epsilons]

    assert brute - 1e-14 <= compose_delta(laws, at) <= brute + 2e-5
    assert brute == pytest.approx(SequentialLoss(tuple(LawLoss(None, law) for law in laws)).delta(at), abs=1e-12)
