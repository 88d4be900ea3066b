"""Losses against brute force in exact rationals, and guarantees as values."""

from __future__ import annotations

import itertools
import json
import math
import os
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from labeldp.errors import BoundaryError, EpsilonError, InputError
from labeldp.exact import exact, exp_bounds, float_up, log_down, log_up
from labeldp.guarantee import (
    ApproximateLoss,
    AskedLoss,
    Charge,
    ConcentratedLoss,
    Estimate,
    FiniteLoss,
    GroupLoss,
    Guarantee,
    LawLoss,
    Loss,
    LossLaw,
    ParallelLoss,
    PureLoss,
    SequentialLoss,
    binary_response_law,
    one_bin_laplace_law,
    read_guarantee,
    two_bin_laplace_law,
)
from labeldp.guarantee.law import chord_law, curve_law
from labeldp.guarantee.tables import LARGEST_TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

_FILE = Path(os.environ.get("LABELDP_VECTORS", Path(__file__).parents[1] / "golden" / "vectors.json"))
VECTORS: dict[str, Any] = json.loads(_FILE.read_text(encoding="utf-8"))
TOTAL = 1 << 62
HALF, ONE = Fraction(1, 2), Fraction(1)


# ---- helpers: everything is computed a second time, slowly and exactly ---------------------------------------


def _named(prefix: str) -> list[str]:
    names = sorted(name for name in VECTORS if name.startswith(prefix))
    assert names
    return names


def _response(classes: int, epsilon: float) -> tuple[Fraction, NDArray[np.int64]]:
    """The table of K-ary randomised response and its exact epsilon."""
    other = int(TOTAL / (math.exp(epsilon) + classes - 1))
    own = TOTAL - (classes - 1) * other
    table = np.full((classes, classes), other, np.int64)
    np.fill_diagonal(table, own)
    return log_up(Fraction(own, other)), table


def _largest_log_ratio(table: NDArray[np.int64]) -> Fraction:
    columns = [column for column in table.T.tolist() if max(column)]
    return log_up(max(Fraction(max(column), min(column)) for column in columns))


def _hockey_stick(first: Sequence[Any], second: Sequence[Any], epsilon: float) -> tuple[Fraction, Fraction]:
    """An interval around sum (P - e^epsilon Q)_+, in rationals."""
    low, high = exp_bounds(Fraction(epsilon)) if epsilon else (ONE, ONE)
    total = sum(map(Fraction, first))
    return (
        sum((max(p - high * q, Fraction(0)) for p, q in zip(first, second, strict=True)), Fraction(0)) / total,
        sum((max(p - low * q, Fraction(0)) for p, q in zip(first, second, strict=True)), Fraction(0)) / total,
    )


def _brute_delta(table: NDArray[np.int64], epsilon: float) -> tuple[Fraction, Fraction]:
    pairs = [_hockey_stick(p, q, epsilon) for p, q in itertools.permutations(table.tolist(), 2)]
    return max(low for low, _ in pairs), max(high for _, high in pairs)


def _naive_composition(laws: Sequence[LossLaw], epsilons: Sequence[float]) -> list[float]:
    """Delta of a list of laws, adding one after the other."""
    losses, probs, infinity = np.zeros(1), np.ones(1), 0.0
    for law in laws:
        sums = np.add.outer(losses, np.array(law.losses)).ravel().round(11)
        losses, places = np.unique(sums, return_inverse=True)
        probs = np.bincount(places, np.multiply.outer(probs, np.array(law.probs)).ravel())
        infinity += law.infinity - infinity * law.infinity
    return [infinity + float((probs * np.maximum(-np.expm1(e - losses), 0.0)).sum()) for e in epsilons]


def _gaussian_delta(rho: float, epsilon: float) -> float:
    """The exact curve of Gaussian noise that is rho-zCDP (Balle and Wang 2018)."""
    from scipy.special import ndtr

    ratio = math.sqrt(2 * rho)
    if math.isinf(epsilon):
        return 0.0
    return float(ndtr(ratio / 2 - epsilon / ratio) - math.exp(epsilon) * ndtr(-ratio / 2 - epsilon / ratio))


_EPSILON_10, _TABLE_10 = _response(10, 1.0)
_SKEWED = np.array([[70, 20, 10], [30, 50, 20], [30, 30, 40]], np.int64)
_SKEWED_LOSS = FiniteLoss.of_table(_largest_log_ratio(_SKEWED), _SKEWED)

LOSSES: dict[str, Loss] = {
    "pure": PureLoss(HALF),
    "nothing": PureLoss(Fraction(0)),
    "approximate": ApproximateLoss(HALF, Fraction(1, 10_000)),
    "concentrated": ConcentratedLoss(Fraction(1, 20)),
    "response": FiniteLoss.of_table(_EPSILON_10, _TABLE_10),
    "skewed": _SKEWED_LOSS,
    "not pure": FiniteLoss(None, np.array([[8, 2, 0]]), np.array([[3, 6, 1]])),
    "noise": LawLoss(HALF, two_bin_laplace_law(Fraction(1, 4))),
    "noise with rho": LawLoss(None, LossLaw((-0.5, 0.5), (0.37, 0.629999), 1e-6), Fraction(1, 8)),
    "noise without": LawLoss(None, LossLaw((-0.5, 0.5), (0.37, 0.62), 0.01)),
    "sequential": SequentialLoss((PureLoss(HALF), _SKEWED_LOSS)),
    "parallel": ParallelLoss((PureLoss(HALF), ApproximateLoss(Fraction(1, 4), Fraction(1, 1000)))),
    "group": GroupLoss(_SKEWED_LOSS, 2),
    "asked": AskedLoss(ConcentratedLoss(Fraction(1, 20)), ONE, Fraction(1, 20)),
    "asked, pure": AskedLoss(LawLoss(HALF, two_bin_laplace_law(Fraction(1, 4))), Fraction(1, 4), Fraction(1, 10)),
}
EPSILONS = (0.0, 0.01, 0.1, 0.3, 0.49, 0.5, 0.8, 1.0, 1.5, 2.5, 4.0)

each_loss = pytest.mark.parametrize("loss", LOSSES.values(), ids=LOSSES.keys())


@st.composite
def tables(draw: st.DrawFn, least: int = 1) -> NDArray[np.int64]:
    """Small tables of integer weights with equal row sums."""
    rows, width = draw(st.integers(2, 4)), draw(st.integers(2, 4))
    cuts = st.lists(st.integers(0, 40), min_size=width - 1, max_size=width - 1).map(sorted)
    drawn = [np.diff([0, *draw(cuts), 40]) + least for _ in range(rows)]
    return np.array(drawn, np.int64)


# ---- vectors -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", _named("pure_to_zcdp_"))
def test_rho_of_a_pure_loss_is_the_tight_one(name: str) -> None:
    """eps tanh(eps/2), rounded up; not eps^2 / 2."""
    vector = VECTORS[name]

    loss = PureLoss(Fraction(vector["inputs"]["eps"]))

    assert vector["expected"]["tight_rho"] == pytest.approx(float(loss.rho), abs=vector["tolerance"])
    assert vector["expected"]["generic_rho"] > float(loss.rho)


@pytest.mark.parametrize("name", _named("krr_renyi_"))
def test_renyi_curve_of_randomised_response(name: str) -> None:
    """The K-ary curve is the exact one, and the binary one is that of the pure loss."""
    vector = VECTORS[name]
    classes, epsilon, alpha = (
        vector["inputs"][key] for key in ("K", "eps", "al" if "al" in vector["inputs"] else "alpha")
    )
    bound, table = _response(classes, epsilon)

    loss = FiniteLoss.of_table(bound, table)

    assert vector["expected"] == pytest.approx(loss.renyi(alpha), abs=vector["tolerance"])
    if classes == 2:
        assert vector["expected"] == pytest.approx(PureLoss(Fraction(epsilon)).renyi(alpha), abs=vector["tolerance"])


def test_compose_hist_then_rr() -> None:
    """A noisy histogram followed by randomised response: the exact curve of the composition."""
    vector = VECTORS["compose_hist_then_rr"]
    a, response = (Fraction(vector["inputs"][key]) for key in ("dlaplace_param_per_bin", "eps_rr"))
    histogram = Guarantee(LawLoss(2 * a, two_bin_laplace_law(a)))

    both = histogram.then(Guarantee(PureLoss(response), trust="local"))

    assert vector["expected"] == pytest.approx(
        [both.delta(epsilon) for epsilon in vector["inputs"]["eps"]], abs=vector["tolerance"]
    )
    assert both.epsilon() == 1.5


def test_dlaplace_two_bins_hockey() -> None:
    """Two bins of discrete Laplace noise: (1 - e^(eps-2a)) (e^a/(1+e^a))^2."""
    vector = VECTORS["dlaplace_two_bins_hockey"]
    a, epsilon = vector["inputs"]["a"], vector["inputs"]["eps"]

    assert vector["expected"] == pytest.approx(two_bin_laplace_law(a).delta(epsilon), abs=vector["tolerance"])
    assert vector["expected"] == pytest.approx(
        LawLoss(2 * Fraction(a), two_bin_laplace_law(a)).delta(epsilon), abs=vector["tolerance"]
    )


def test_dlaplace_two_bins_calibration() -> None:
    """At the calibrated parameter the target delta is met, and not at a larger one."""
    vector = VECTORS["dlaplace_two_bins_calibration"]
    epsilon, delta, a = vector["inputs"]["eps"], vector["inputs"]["delta"], vector["expected"]

    assert two_bin_laplace_law(a).delta(epsilon) == pytest.approx(delta, abs=1e-8)
    assert two_bin_laplace_law(1.01 * a).delta(epsilon) > delta


# ---- finite channels -----------------------------------------------------------------------------------------


@given(tables(), st.floats(0, 4))
def test_finite_delta_is_that_of_brute_force(table: NDArray[np.int64], epsilon: float) -> None:
    """Never below the exact supremum over ordered pairs, and above it by rounding only."""
    loss = FiniteLoss.of_table(_largest_log_ratio(table), table)
    low, high = _brute_delta(table, epsilon)

    assert low <= loss.delta(epsilon)
    assert loss.delta(epsilon) <= float(high) + 1e-13


@given(tables(least=0), st.floats(0, 50))
def test_finite_delta_with_impossible_outcomes(table: NDArray[np.int64], epsilon: float) -> None:
    """A table that is not pure has the same exact curve, and at infinity the mass without a ratio."""
    loss = FiniteLoss.of_table(None, table)
    low, high = _brute_delta(table, epsilon)
    alone = max(
        sum(p for p, q in zip(a, b, strict=True) if not q) for a, b in itertools.permutations(table.tolist(), 2)
    )

    assert low <= loss.delta(epsilon) <= float(high) + 1e-13
    assert float(Fraction(alone, int(table[0].sum()))) == pytest.approx(loss.delta(math.inf), abs=1e-15)
    assert (alone > 0) == math.isinf(loss.renyi(2.0))


@given(tables(), st.integers(2, 9))
def test_finite_renyi_is_that_of_brute_force(table: NDArray[np.int64], alpha: int) -> None:
    """sum P^alpha Q^(1-alpha) is rational for an integer alpha."""
    loss = FiniteLoss.of_table(_largest_log_ratio(table), table)
    total = int(table[0].sum())
    powers = max(
        sum(Fraction(p**alpha, q ** (alpha - 1)) for p, q in zip(a, b, strict=True)) / total
        for a, b in itertools.permutations(table.tolist(), 2)
    )

    assert log_down(powers) / (alpha - 1) <= Fraction(loss.renyi(alpha))
    assert float(log_up(powers) / (alpha - 1)) == pytest.approx(loss.renyi(alpha), abs=1e-12)


@given(tables())
def test_finite_renyi_at_the_ends(table: NDArray[np.int64]) -> None:
    """Order 1 is Kullback-Leibler, infinity is pure epsilon, and the curve grows between them."""
    loss = FiniteLoss.of_table(_largest_log_ratio(table), table)
    laws = table / table.sum(axis=1, keepdims=True)
    kl = max(float((p * np.log(p / q)).sum()) for p, q in itertools.permutations(laws, 2))
    orders = (1.0, 1 + 1e-9, 1.001, 1.5, 2.0, 8.0, 100.0, 1e6, math.inf)
    curve = [loss.renyi(alpha) for alpha in orders]

    assert kl == pytest.approx(curve[0], abs=1e-12)
    assert curve[0] == pytest.approx(curve[1], abs=1e-7)
    assert all(a <= b + 1e-12 for a, b in itertools.pairwise(curve))
    assert float_up(_largest_log_ratio(table)) == curve[-1]


@given(tables(least=0), st.floats(-4, 4))
def test_the_law_of_a_finite_loss_dominates_every_pair(table: NDArray[np.int64], epsilon: float) -> None:
    """Also at negative epsilons, which convolution needs; a single pair has its own exact law."""
    loss = FiniteLoss.of_table(None, table)
    low, high = _brute_delta(table, epsilon)

    assert low <= loss.law().delta(epsilon)
    if len(loss.first) == 1:
        assert loss.law().delta(epsilon) <= float(high) + 1e-12


@given(tables(), tables(), st.floats(0, 5))
def test_sequential_delta_dominates_the_product_of_channels(
    left: NDArray[np.int64], right: NDArray[np.int64], epsilon: float
) -> None:
    """Brute force over all pairs of pairs and all joint outcomes, in exact rationals."""
    loss = SequentialLoss(
        (FiniteLoss.of_table(_largest_log_ratio(left), left), FiniteLoss.of_table(_largest_log_ratio(right), right))
    )
    exact_delta = Fraction(0)
    for (a, b), (c, d) in itertools.product(
        itertools.permutations(left.tolist(), 2), itertools.permutations(right.tolist(), 2)
    ):
        first = [x * y for x in a for y in c]
        second = [x * y for x in b for y in d]
        exact_delta = max(exact_delta, _hockey_stick(first, second, epsilon)[0])

    assert exact_delta <= loss.delta(epsilon)


@given(st.integers(2, 5), st.floats(0.05, 3), st.integers(1, 4), st.floats(0, 6))
def test_composed_response_is_exact(classes: int, epsilon: float, times: int, at: float) -> None:
    """Randomised response is one pair up to the order of outcomes, so its composition is exact and not only a bound."""
    bound, table = _response(classes, epsilon)
    loss = FiniteLoss.of_table(bound, table)
    own, other = int(table[0, 0]), int(table[0, 1])
    pair = [(own, other), (other, own), ((classes - 2) * other,) * 2]
    joint = [math.prod(column) for column in itertools.product([p for p, _ in pair], repeat=times)]
    rival = [math.prod(column) for column in itertools.product([q for _, q in pair], repeat=times)]
    low, high = _hockey_stick(joint, rival, at)

    value = SequentialLoss((loss,) * times).delta(at)

    assert low <= value <= float(high) + 1e-12
    assert len(loss.first) == 1


def test_a_table_is_reduced_to_what_matters() -> None:
    """The order of outcomes, equal ratios, equal rows and the order of a pair make no difference."""
    same = [
        FiniteLoss.of_table(_largest_log_ratio(_SKEWED), _SKEWED),
        FiniteLoss.of_table(_largest_log_ratio(_SKEWED), _SKEWED[[2, 0, 1, 1]][:, [1, 2, 0]]),
        FiniteLoss(_largest_log_ratio(_SKEWED), _SKEWED[[0, 0, 1]], _SKEWED[[1, 2, 2]]),
        FiniteLoss(_largest_log_ratio(_SKEWED), _SKEWED[[1, 2, 2]], _SKEWED[[0, 0, 1]]),
        FiniteLoss.of_table(_largest_log_ratio(_SKEWED), np.hstack([_SKEWED * 2, _SKEWED])),
    ]
    assert same[0].first.sum() == 600
    assert (1, 1, 1, 1) == tuple(int(loss == same[0]) for loss in same[:4])
    assert len({hash(loss) for loss in same[:4]}) == 1
    assert same[4].first.shape == same[0].first.shape
    assert same[4].delta(0.3) == pytest.approx(same[0].delta(0.3), abs=1e-15)


@pytest.mark.parametrize("classes", [2, 3, 10, 300])
def test_randomised_response_is_one_pair(classes: int) -> None:
    """However many classes: true label, other label, all the rest."""
    bound, table = _response(classes, 1.0)

    loss = FiniteLoss.of_table(bound, table)

    assert isinstance(loss, FiniteLoss)
    assert (1, min(classes, 3)) == loss.first.shape
    assert "pairs=1" in repr(loss)


def test_a_table_without_secrets_has_no_loss() -> None:
    """Equal rows tell nothing; neither does no pair at all."""
    for loss in (
        FiniteLoss.of_table(Fraction(0), np.full((3, 2), 7)),
        FiniteLoss(Fraction(0), np.zeros((0, 3), np.int64), np.zeros((0, 3), np.int64)),
        FiniteLoss.of_table(Fraction(0), np.zeros((0, 0), np.int64)),
    ):
        assert (0.0, 0.0, 0) == (loss.delta(0.0), loss.renyi(math.inf), loss.rho)


def test_a_table_too_large_falls_back_to_its_bound() -> None:
    """More weights than the limit: pure epsilon; without one, the largest total variation."""
    generator = np.random.default_rng(5)
    table = generator.integers(1, 1000, (170, 170))
    table[:, 0] += table.sum(axis=1).max() - table.sum(axis=1)
    bound = _largest_log_ratio(table)
    variation = max(
        Fraction(int(np.maximum(a - b, 0).sum()), int(a.sum())) for a, b in itertools.permutations(table, 2)
    )

    assert table.size * 169 > LARGEST_TABLE
    assert PureLoss(bound) == FiniteLoss.of_table(bound, table)
    assert ApproximateLoss(Fraction(0), variation) == FiniteLoss.of_table(None, table)
    assert PureLoss(Fraction(9)) == FiniteLoss.of_table(Fraction(9), np.eye(2000, dtype=np.int64) + 1)


@given(tables())
def test_a_finite_loss_checks_its_epsilon(table: NDArray[np.int64]) -> None:
    """An epsilon below the largest log ratio is refused, however little is missing."""
    bound = _largest_log_ratio(table)
    assume(bound > 0)

    assert FiniteLoss.of_table(bound, table).pure == bound
    with pytest.raises(EpsilonError, match="at least the largest log ratio"):
        FiniteLoss.of_table(bound - Fraction(1, 10**30), table)


def test_unusable_tables_are_refused() -> None:
    """Fractions of weights, negative ones, unequal sums, unequal shapes, and zeros under a pure epsilon."""
    for first, second in [
        ([[0.5, 0.5]], [[0.5, 0.5]]),
        ([[3, -1]], [[1, 1]]),
        ([[3, 1]], [[1, 1]]),
        ([[3, 1]], [[1, 2, 1]]),
        ([[0, 0]], [[0, 0]]),
        ([3, 1], [1, 3]),
        ([[TOTAL, TOTAL]], [[TOTAL, TOTAL]]),
    ]:
        with pytest.raises(InputError):
            FiniteLoss(Fraction(9), first, second)
    with pytest.raises(EpsilonError):
        FiniteLoss(Fraction(99), [[4, 0]], [[3, 1]])


# ---- pure, approximate, concentrated -------------------------------------------------------------------------


@given(st.floats(1e-6, 30), st.floats(0, 31))
def test_pure_delta_is_that_of_binary_response(epsilon: float, at: float) -> None:
    """(e^E - e^eps)_+ / (1 + e^E), in rationals; the law says the same."""
    pure = Fraction(epsilon)
    top, here = exp_bounds(pure), exp_bounds(Fraction(at)) if at else (ONE, ONE)
    low = max(top[0] - here[1], Fraction(0)) / (1 + top[1])
    high = max(top[1] - here[0], Fraction(0)) / (1 + top[0])
    value = PureLoss(pure).delta(at)

    assert low <= value <= float(high) * (1 + 1e-12)
    assert low <= binary_response_law(pure).delta(at) <= float(high) + 1e-13


@given(st.floats(1e-3, 20), st.integers(2, 30))
def test_pure_renyi_is_that_of_binary_response(epsilon: float, alpha: int) -> None:
    """(p^alpha q^(1-alpha) + q^alpha p^(1-alpha)) with p = e^eps/(1+e^eps), from its exact law."""
    p = 1 / (1 + math.exp(-epsilon))
    q = 1 - p if epsilon < 1 else math.exp(-epsilon) / (1 + math.exp(-epsilon))
    logs = (alpha * math.log(p) + (1 - alpha) * math.log(q), alpha * math.log(q) + (1 - alpha) * math.log(p))
    expected = (max(logs) + math.log1p(math.exp(min(logs) - max(logs)))) / (alpha - 1)

    assert expected == pytest.approx(PureLoss(Fraction(epsilon)).renyi(alpha), abs=1e-12, rel=1e-12)
    assert expected == pytest.approx(binary_response_law(epsilon).renyi(alpha), abs=1e-12, rel=1e-12)


@given(st.floats(0.01, 20), st.floats(1.0001, 500))
def test_rho_of_a_pure_loss_bounds_its_renyi_curve(epsilon: float, alpha: float) -> None:
    """D_alpha <= rho alpha for every alpha, and rho is attained as alpha tends to 1 (ERRATA F3)."""
    loss = PureLoss(Fraction(epsilon))

    assert loss.renyi(alpha) <= float(loss.rho) * alpha * (1 + 1e-12)
    assert float(loss.rho) == pytest.approx(loss.renyi(1.0), rel=1e-12)
    assert float(loss.rho) == pytest.approx(loss.renyi(1 + 1e-9), rel=1e-6)


@given(st.floats(1e-6, 40))
def test_rho_is_rounded_up_in_rationals(epsilon: float) -> None:
    """The stored rho is at or above eps tanh(eps/2), by less than 10^-38."""
    pure = Fraction(epsilon)
    low, high = exp_bounds(pure)
    rho = PureLoss(pure).rho

    assert pure * (low - 1) / (low + 1) <= rho
    assert rho <= pure * (high - 1) / (high + 1) + Fraction(1, 10**38)


@given(st.floats(0, 3), st.floats(0, 1), st.floats(0, 4))
def test_approximate_delta(epsilon: float, delta: float, at: float) -> None:
    """delta + (1 - delta) of the pure part; from epsilon on exactly delta; the law says the same."""
    loss = ApproximateLoss(Fraction(epsilon), Fraction(delta))
    expected = delta + (1 - delta) * max(math.exp(epsilon) - math.exp(at), 0) / (1 + math.exp(epsilon))

    assert expected == pytest.approx(loss.delta(at), abs=1e-13)
    assert expected == pytest.approx(loss.law().delta(at), abs=1e-13)
    assert loss.delta(epsilon) == delta
    assert loss.delta(math.inf) == delta


@pytest.mark.parametrize("rho", [1e-6, 0.01, 0.1, 0.5, 2.0, 20.0])
def test_concentrated_delta_is_the_best_conversion(rho: float) -> None:
    """Never below exact Gaussian noise, and equal to the minimum over a fine grid of alpha."""
    loss = ConcentratedLoss(Fraction(rho))
    orders = 1 + np.exp(np.linspace(-14, 16, 60_001))
    for epsilon in (0.0, math.sqrt(rho), rho + math.sqrt(rho), rho + 3 * math.sqrt(rho), rho + 9 * math.sqrt(rho)):
        exponents = (orders - 1) * (orders * rho - epsilon) - np.log(orders - 1) + orders * np.log1p(-1 / orders)
        value = loss.delta(epsilon)

        assert _gaussian_delta(rho, epsilon) <= value
        assert min(math.exp(float(exponents.min())), 1.0) == pytest.approx(value, rel=1e-6)
        assert _gaussian_delta(rho, epsilon) <= loss.law().delta(epsilon) * (1 + 1e-9)


def test_a_concentrated_loss_of_zero_says_nothing() -> None:
    """rho = 0 means equal laws."""
    loss = ConcentratedLoss(Fraction(0))

    assert (0, 0.0, 0.0, 0.0) == (loss.pure, loss.delta(0.0), loss.renyi(math.inf), loss.law().delta(0.0))


@pytest.mark.parametrize("value", [Fraction(-1), 0.5, True, "1"])
def test_parameters_are_exact_and_not_negative(value: Any) -> None:
    """A float would round before anything is decided."""
    for build in (PureLoss, ConcentratedLoss, lambda x: ApproximateLoss(x, ONE), lambda x: ApproximateLoss(ONE, x)):
        with pytest.raises(EpsilonError, match="Expected"):
            build(value)
    with pytest.raises(EpsilonError, match="<= 1"):
        ApproximateLoss(ONE, Fraction(2))


# ---- laws ----------------------------------------------------------------------------------------------------


@given(st.floats(0.01, 5), st.floats(-11, 11))
def test_laplace_laws_are_those_of_shifted_noise(a: float, epsilon: float) -> None:
    """Against the probabilities of discrete Laplace noise itself, one and two bins."""
    reach = range(-1500, 1502) if a < 0.1 else range(-200, 202)
    scale = (1 - math.exp(-a)) / (1 + math.exp(-a))
    first = [scale * math.exp(-a * abs(z)) for z in reach]
    second = [scale * math.exp(-a * abs(z - 1)) for z in reach]
    agree = {z: sum(first[i] for i, k in enumerate(reach) if (k <= 0) == z) for z in (True, False)}
    one = sum(max(p - math.exp(epsilon) * q, 0.0) for p, q in zip(first, second, strict=True))
    two = sum(
        agree[x] * agree[y] * max(-math.expm1(epsilon - a * ((1 if x else -1) + (1 if y else -1))), 0.0)
        for x in (True, False)
        for y in (True, False)
    )

    assert one == pytest.approx(one_bin_laplace_law(a).delta(epsilon), abs=1e-6)
    assert two == pytest.approx(two_bin_laplace_law(a).delta(epsilon), abs=1e-6)
    assert two_bin_laplace_law(a).losses[-1] == 2 * a


def test_laws_are_checked() -> None:
    """Lost mass, losses that are too small, and numbers that are none are refused."""
    for losses, probs, infinity in [
        ((0.0,), (0.9,), 0.0),
        ((0.0, 1.0), (1.0,), 0.0),
        ((math.nan,), (1.0,), 0.0),
        ((0.0,), (-1.0,), 2.0),
        ((-1.0, 0.5), (0.5, 0.5), 0.0),
    ]:
        with pytest.raises(InputError):
            LossLaw(losses, probs, infinity)
    for parameter in (-1.0, math.inf, math.nan):
        with pytest.raises(EpsilonError):
            binary_response_law(parameter)
    assert LossLaw((1.0, -1.0), (0.75, 0.25)) == LossLaw((-1.0, 1.0), (0.25, 0.75))


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 0.3)), min_size=1, max_size=4), st.floats(-4, 4))
def test_chords_lie_above_the_supremum(parts: list[tuple[float, float]], epsilon: float) -> None:
    """The law of a parallel loss dominates each part, at negative epsilons too."""
    losses = [ApproximateLoss(Fraction(a), Fraction(b)) for a, b in parts]

    joined = ParallelLoss(tuple(losses)).law()

    assert joined.delta(epsilon) >= max(loss.law().delta(epsilon) for loss in losses) - 1e-15


def test_chords_of_one_law_are_that_law() -> None:
    """Nothing is lost when the curve already is a polygon."""
    law = two_bin_laplace_law(0.4)
    points = np.array([0.0, 0.8])

    again = chord_law(points, np.array([law.delta(point) for point in points.tolist()]))

    for epsilon in (-0.9, -0.5, 0.0, 0.3, 0.79):
        assert law.delta(epsilon) == pytest.approx(again.delta(epsilon), abs=1e-12)


def test_chords_of_a_crude_curve_stay_above_the_truth() -> None:
    """Heights of 1 near 0 are lowered through the mirror image, and still bound the Gaussian they came from."""
    rho = 0.08
    law = curve_law(lambda epsilon: 1.0 if epsilon < 0.2 else _gaussian_delta(rho, epsilon) * 1.01, None)

    for epsilon in np.linspace(-3, 3, 61).tolist():
        truth = _gaussian_delta(rho, epsilon)
        assert truth <= law.delta(epsilon) + 1e-12
    assert law.delta(0.0) < 0.5


# ---- composition ---------------------------------------------------------------------------------------------


@each_loss
@pytest.mark.parametrize("times", [1, 2, 5])
def test_n_fold_composition_equals_the_list(loss: Loss, times: int) -> None:
    """Composing one after the other, composing a list, and adding laws in a dictionary all agree."""
    guarantee = chained = Guarantee(loss)
    for _ in range(times - 1):
        chained = chained.then(guarantee)
    listed = SequentialLoss((loss,) * times)

    assert listed.parts == SequentialLoss((chained.loss,)).parts
    assert listed.pure == (None if loss.pure is None else times * loss.pure)
    assert listed.rho == (None if loss.rho is None else times * loss.rho)
    assert listed.renyi(3.0) == pytest.approx(times * loss.renyi(3.0), rel=1e-14)
    for epsilon, naive in zip(EPSILONS, _naive_composition([loss.law()] * times, EPSILONS), strict=True):
        if listed.pure is not None and epsilon >= listed.pure:
            naive = 0.0  # noqa: PLW2901
        if listed.rho is not None:
            naive = min(naive, ConcentratedLoss(listed.rho).delta(epsilon))  # noqa: PLW2901
        assert naive == pytest.approx(listed.delta(epsilon), abs=1e-9 if listed._composed else 2e-6)
        assert times == 1 or chained.delta(epsilon) == listed.delta(epsilon)


def test_pure_epsilon_adds_exactly() -> None:
    """Ten tenths are one, and no epsilon below the sum is claimed at delta 0."""
    tenth = Guarantee(PureLoss(Fraction(1, 10)))
    total = tenth
    for _ in range(9):
        total = total.then(tenth)

    assert total.loss.pure == 1
    assert (1.0, 0.0) == (total.epsilon(), total.delta(1.0))
    assert 0 < total.epsilon(1e-9) < 1
    assert total.delta(math.nextafter(1.0, 0)) > 0


def test_zcdp_composes_as_it_should() -> None:
    """The sum of two rhos is the loss of their sum, or better where chords are tighter."""
    both = SequentialLoss((ConcentratedLoss(Fraction(1, 10)), ConcentratedLoss(Fraction(1, 5))))
    summed = ConcentratedLoss(Fraction(3, 10))

    assert both.rho == summed.rho
    for epsilon in EPSILONS:
        assert _gaussian_delta(0.3, epsilon) <= both.delta(epsilon) <= summed.delta(epsilon)


def test_order_and_grouping_do_not_matter() -> None:
    """a then (b then c) is (a then b) then c, and close to c then a then b."""
    a, b, c = (Guarantee(LOSSES[name]) for name in ("pure", "approximate", "skewed"))
    one, two, three = a.then(b).then(c), a.then(b.then(c)), c.then(a).then(b)

    assert one == two
    for epsilon in EPSILONS:
        assert one.delta(epsilon) == pytest.approx(three.delta(epsilon), abs=1e-12)


def test_parallel_takes_the_largest() -> None:
    """Disjoint rows: the larger of everything, exactly; equal parts are one."""
    a, b = PureLoss(HALF), ApproximateLoss(Fraction(1, 4), Fraction(1, 100))
    joined = Guarantee(a).beside(Guarantee(b)).loss

    assert Guarantee(a).beside(Guarantee(a)).loss is not None
    assert a == Guarantee(a).beside(Guarantee(a)).loss
    assert joined.pure is None
    for epsilon in EPSILONS:
        assert max(a.delta(epsilon), b.delta(epsilon)) == joined.delta(epsilon)
    assert ParallelLoss((a, PureLoss(ONE))).pure == 1
    assert ParallelLoss((a, PureLoss(ONE))).renyi(2.0) == PureLoss(ONE).renyi(2.0)
    assert joined == ParallelLoss((joined, a))


def test_a_loss_that_comes_often_is_kept_once() -> None:
    """Pairs of a loss and a number are lists without the memory: a billion releases add up at once."""
    half, tenth = PureLoss(HALF), PureLoss(Fraction(1, 10))
    million = SequentialLoss([(tenth, 10**6)])
    nested = SequentialLoss([(SequentialLoss([(half, 2), tenth]), 1000), tenth])

    assert SequentialLoss((half, tenth, half)) == SequentialLoss([(half, 2), (tenth, 1)])
    assert (nested.parts, nested.pure) == (((half, 2000), (tenth, 1001)), 1000 + Fraction(1001, 10))
    assert nested.charge() == Charge(nested.pure, Fraction(0), 2000 * half.rho + 1001 * tenth.rho)
    assert (million.pure, million.charge().epsilon) == (10**5, 10**5)
    assert len(json.dumps(million.to_json())) < 100
    assert million == Loss.from_json(json.loads(json.dumps(million.to_json())))
    assert 0 < SequentialLoss([(PureLoss(Fraction(1, 10**5)), 10**9)]).delta(1.0) < 1e-3


@pytest.mark.parametrize("times", [0, -1, 10**9 + 1, 10**400, 2.0, "3", True, None])
def test_a_senseless_number_of_times_is_refused(times: Any) -> None:
    """Not a whole number from 1 to a billion, alone, nested or together: a typed error, and neither time nor memory."""
    loss = PureLoss(ONE)
    text = {"kind": "sequential", "parts": [[times, loss.to_json()]]}
    for make in (
        lambda: SequentialLoss([(loss, times)]),
        lambda: Loss.from_json(text),
        lambda: SequentialLoss([(SequentialLoss([(loss, 10**5)]), 10**5)]),
        lambda: SequentialLoss([(loss, 10**9), loss]),
    ):
        with pytest.raises(InputError, match="times"):
            make()


def test_nothing_to_compose_is_refused() -> None:
    """An empty list, and parts that are no losses."""
    for kind in (SequentialLoss, ParallelLoss):
        with pytest.raises(InputError, match="at least one"):
            kind(())
        with pytest.raises(InputError, match="Expected losses"):
            kind((1.0,))


# ---- epsilon and delta ---------------------------------------------------------------------------------------


@each_loss
@pytest.mark.parametrize("delta", [1e-12, 1e-9, 1e-6, 1e-4, 2e-3, 0.05, 0.4])
def test_epsilon_and_delta_are_inverse(loss: Loss, delta: float) -> None:
    """The epsilon of a delta is attained, and a slightly smaller one is not: safe and tight."""
    guarantee = Guarantee(loss)
    epsilon = guarantee.epsilon(delta)

    if math.isinf(epsilon):
        assert guarantee.delta(math.inf) > delta
        return
    assert guarantee.delta(epsilon) <= delta
    if epsilon > 0:
        assert guarantee.delta(epsilon * (1 - 1e-9)) > delta


@each_loss
def test_the_curve_falls_and_stays_in_range(loss: Loss) -> None:
    """Delta lies in [0, 1] and does not rise by more than rounding; at infinity it is smallest."""
    curve = [loss.delta(epsilon) for epsilon in (*EPSILONS, 10.0, 100.0, 1000.0, math.inf)]

    assert all(0 <= value <= 1 for value in curve)
    assert all(a >= b - 1e-13 for a, b in itertools.pairwise(curve))


@each_loss
def test_the_law_dominates_the_loss(loss: Loss) -> None:
    """Every law lies on or above the curve it stands for; where it is below, it is a better bound of the same loss."""
    for epsilon in EPSILONS:
        if not isinstance(loss.part if isinstance(loss, AskedLoss) else loss, ConcentratedLoss | GroupLoss):
            assert loss.law().delta(epsilon) >= loss.delta(epsilon) * (1 - 1e-12) - 1e-15


def test_epsilon_never_exceeds_what_was_asked() -> None:
    """An epsilon read from a float comes back as that float, not the next one."""
    for asked in (0.1, 0.3, 1.0, 1 / 3, 4.7, 1e-3):
        guarantee = Guarantee(PureLoss(exact(asked)))

        assert guarantee.epsilon() == asked
        assert guarantee.delta(guarantee.epsilon()) == 0
        assert guarantee.renyi(math.inf) == asked


def test_an_approximate_loss_has_its_epsilon_at_its_delta() -> None:
    """Read from floats, asked with the same floats; below its delta there is no epsilon."""
    guarantee = Guarantee(ApproximateLoss(exact(0.7), exact(1e-6)))

    assert guarantee.epsilon(1e-6) == 0.7
    assert guarantee.epsilon("0.000001") == 0.7
    assert math.isinf(guarantee.epsilon(0.99e-6))
    assert math.isinf(guarantee.epsilon())
    assert guarantee.delta(0.7) == 1e-6


@pytest.mark.parametrize("value", [-1, math.nan, "no", True, None, -0.001])
def test_questions_out_of_range_are_refused(value: Any) -> None:
    """Negative, missing, not a number."""
    guarantee = Guarantee(PureLoss(ONE))

    for ask in (guarantee.epsilon, guarantee.delta, lambda x: Estimate(1.0, 0.0, "").delta(x)):
        with pytest.raises(EpsilonError):
            ask(value)
    with pytest.raises(EpsilonError):
        guarantee.epsilon(1)
    with pytest.raises(EpsilonError):
        guarantee.renyi(0.5)


# ---- groups --------------------------------------------------------------------------------------------------


@given(tables(), st.floats(0, 6))
def test_a_group_is_a_chain_of_neighbours(table: NDArray[np.int64], epsilon: float) -> None:
    """Rows of a table as a chain: its ends differ by no more than the group's curve says."""
    links = FiniteLoss(_largest_log_ratio(table), table[:-1], table[1:])
    group = GroupLoss(links, len(table) - 1)
    ends = table[[0, -1]].tolist()

    assert _hockey_stick(*ends, epsilon)[0] <= group.delta(epsilon)
    assert _hockey_stick(*ends, epsilon)[0] <= group.law().delta(epsilon)
    laws = [np.array(end) / sum(end) for end in ends]
    assert math.log(float((laws[0] ** 2 / laws[1]).sum())) <= group.renyi(2.0) + 1e-12


def test_group_privacy_in_closed_form() -> None:
    """m eps; delta (e^(m eps) - 1)/(e^eps - 1); m^2 rho; one label is no group."""
    approximate = ApproximateLoss(HALF, Fraction(1, 10_000))
    guarantee = Guarantee(approximate).for_group(4)
    expected = 1e-4 * (math.exp(2) - 1) / (math.exp(0.5) - 1)

    assert PureLoss(Fraction(3)) == Guarantee(PureLoss(ONE)).for_group(3).loss
    assert ConcentratedLoss(Fraction(9, 10)) == Guarantee(ConcentratedLoss(Fraction(1, 10))).for_group(3).loss
    assert guarantee.loss.epsilon == 2
    assert expected == pytest.approx(float(guarantee.loss.failure), rel=1e-14)
    assert expected <= float(guarantee.loss.failure) * (1 + 1e-15)
    assert expected == pytest.approx(GroupLoss(approximate, 4).delta(2.0), rel=1e-12)
    assert (
        ApproximateLoss(Fraction(0), Fraction(3, 100))
        == Guarantee(ApproximateLoss(Fraction(0), Fraction(1, 100))).for_group(3).loss
    )
    assert guarantee == guarantee.for_group(1)
    assert Guarantee(ApproximateLoss(ONE, HALF)).for_group(5).loss.failure == 1


@each_loss
def test_groups_of_any_loss(loss: Loss) -> None:
    """Larger groups are told apart more easily; exact parts grow as they should; groups of groups multiply."""
    guarantee = Guarantee(loss)
    pair, four = guarantee.for_group(2), guarantee.for_group(4)

    for epsilon in EPSILONS:
        assert guarantee.delta(epsilon) <= pair.delta(epsilon) + 1e-12
        assert pair.delta(epsilon) <= four.delta(epsilon) + 1e-12
    assert loss.pure is None or four.loss.pure == 4 * loss.pure
    assert loss.rho is None or four.loss.rho <= 16 * loss.rho
    assert four.neighbour == pair.for_group(2).neighbour == "4 labels replaced"
    assert four.loss.pure == pair.for_group(2).loss.pure
    charge = pair.charge()
    assert charge.epsilon is None or pair.delta(float_up(charge.epsilon)) <= float(charge.delta) * (1 + 1e-12)


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_groups_have_a_size(size: Any) -> None:
    """At least one label, and whole ones."""
    with pytest.raises(InputError, match="number of labels"):
        Guarantee(PureLoss(ONE)).for_group(size)


# ---- charges -------------------------------------------------------------------------------------------------


def test_charges_are_exact() -> None:
    """Pure: epsilon and rho; approximate: epsilon and delta; zCDP: rho alone."""
    pure, approximate, concentrated = (
        PureLoss(HALF),
        ApproximateLoss(HALF, Fraction(1, 100)),
        ConcentratedLoss(Fraction(1, 8)),
    )

    assert Charge(HALF, Fraction(0), pure.rho) == Guarantee(pure).charge()
    assert Charge(HALF, Fraction(1, 100), None) == Guarantee(approximate).charge()
    assert Charge(None, Fraction(0), Fraction(1, 8)) == Guarantee(concentrated).charge()
    assert Charge(ONE, Fraction(1, 100), None) == Guarantee(pure).then(Guarantee(approximate)).charge()
    assert (
        Charge(None, Fraction(0), pure.rho + Fraction(1, 8)) == Guarantee(pure).then(Guarantee(concentrated)).charge()
    )
    assert Charge(HALF, Fraction(1, 100), None) == Guarantee(pure).beside(Guarantee(approximate)).charge()
    assert Charge(None, Fraction(0), Fraction(1, 8)) == Guarantee(pure).beside(Guarantee(concentrated)).charge()


@each_loss
def test_a_charge_is_a_true_statement(loss: Loss) -> None:
    """Whatever a ledger adds up holds for the loss itself."""
    charge = loss.charge()

    if charge.epsilon is not None:
        assert loss.delta(float_up(charge.epsilon)) <= float_up(charge.delta)
    if charge.rho is not None:
        assert charge.delta == 0 or charge.epsilon is not None
        assert all(loss.renyi(alpha) <= float(charge.rho) * alpha * (1 + 1e-12) for alpha in (1.5, 2.0, 10.0))
    assert Charge.from_json(json.loads(json.dumps(charge.to_json()))) == charge


# ---- what was asked for --------------------------------------------------------------------------------------


def test_what_was_asked_for_is_charged() -> None:
    """A loss that was made to meet (epsilon, delta) is charged that pair and its rho, and shows it; its curve stays."""
    loss = ConcentratedLoss(Fraction(1, 40))
    guarantee = Guarantee(loss).asked(1, Fraction(1, 10**5))

    assert Charge(ONE, Fraction(1, 10**5), Fraction(1, 40)) == guarantee.charge()
    assert str(guarantee).startswith("epsilon <= 1 (delta = 1e-05)")
    assert [loss.delta(epsilon) for epsilon in EPSILONS] == [guarantee.delta(epsilon) for epsilon in EPSILONS]
    assert loss.law() == guarantee.loss.law()
    assert 1.0 >= guarantee.epsilon(1e-5)
    assert Charge(2 * ONE, Fraction(2, 10**5), Fraction(1, 20)) == guarantee.then(guarantee).charge()
    assert guarantee == guarantee.beside(guarantee)
    grown = guarantee.for_group(2).charge()
    assert (2 * ONE, Fraction(1, 10)) == (grown.epsilon, grown.rho)
    assert 1e-5 * (1 + math.e) == pytest.approx(float(grown.delta))


def test_what_is_not_met_cannot_be_asked_for() -> None:
    """Not a smaller delta, not a smaller epsilon, and no delta of 0 where there is no pure epsilon."""
    loss = ConcentratedLoss(Fraction(1, 40))
    met = loss.delta(1.0)

    assert AskedLoss(loss, ONE, Fraction(met)).charge().delta == Fraction(met)
    for epsilon, delta in (
        (ONE, Fraction(math.nextafter(met, 0))),
        (ONE - Fraction(1, 10**9), Fraction(met)),
        (ONE, Fraction(0)),
        (-ONE, Fraction(1, 2)),
        (ONE, Fraction(2)),
    ):
        with pytest.raises(EpsilonError):
            AskedLoss(loss, epsilon, delta)
        text = {"kind": "asked", "part": loss.to_json(), "epsilon": str(epsilon), "delta": str(delta)}
        with pytest.raises(EpsilonError):
            Loss.from_json(text)


def test_a_pure_loss_needs_no_delta() -> None:
    """Where pure epsilon is within what was asked, no delta is spent; where it is not, the pair is what is charged."""
    loss = PureLoss(ONE)

    assert Guarantee(loss) == Guarantee(loss).asked(1, 1e-6)
    more = Guarantee(loss).asked(Fraction(9, 10), Fraction(1, 10))
    assert Charge(Fraction(9, 10), Fraction(1, 10), loss.rho) == more.charge()
    assert 1.0 == more.epsilon()
    assert 0.9 >= more.epsilon(0.1)


# ---- tiny and huge -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [Fraction(1, 1000), Fraction(1, 100), Fraction(1, 10), ONE])
def test_a_delta_below_all_floats_is_not_nothing(epsilon: Fraction) -> None:
    """2000 releases at 90 % of their sum: the true delta is positive, 1e-438 for one, and so is what is said."""
    loss = SequentialLoss([(PureLoss(epsilon), 2000)])
    at = float(1800 * epsilon)
    odds = math.exp(epsilon)
    least = 1901  # so many losses of epsilon, less the 99 of -epsilon, exceed 90 % of 2000
    logarithm = math.lgamma(2001) - math.lgamma(least + 1) - math.lgamma(2001 - least)
    logarithm += least * math.log(odds) - 2000 * math.log1p(odds) + math.log(-math.expm1(at - float(1802 * epsilon)))

    assert 0.0 < loss.delta(at)
    assert logarithm <= math.log(loss.delta(at))
    assert loss.delta(at) < 1e-100
    assert 0.0 == loss.delta(float(2000 * epsilon))


def test_a_huge_group_has_a_charge() -> None:
    """Ten million labels of (1, 1e-3): nothing is promised, and nothing overflows."""
    group = Guarantee(AskedLoss(ConcentratedLoss(Fraction(1, 40)), ONE, Fraction(1, 1000))).for_group(10**7)

    assert Charge(Fraction(10**7), Fraction(1), Fraction(10**14, 40)) == group.charge()
    assert Fraction(10**9) == PureLoss(Fraction(10**9)).rho


# ---- guarantees as values ------------------------------------------------------------------------------------


@each_loss
def test_json_round_trip(loss: Loss) -> None:
    """What is written reads back equal, with the same hash and the same numbers, bit for bit."""
    guarantee = Guarantee(loss, trust="peers", assumptions=("coins are secret",))
    again = Guarantee.from_json(json.loads(json.dumps(guarantee.to_json())))

    assert again == guarantee
    assert hash(again) == hash(guarantee)
    assert [guarantee.delta(epsilon) for epsilon in EPSILONS] == [again.delta(epsilon) for epsilon in EPSILONS]
    assert pickle.loads(pickle.dumps(guarantee)) == guarantee


def test_weights_are_written_as_texts() -> None:
    """A reader of JSON that knows no numbers but floats cannot change a weight; numbers in their place are refused."""
    loss = FiniteLoss.of_table(_EPSILON_10, _TABLE_10)
    text = json.loads(json.dumps(loss.to_json()))

    assert text == json.loads(json.dumps(text), parse_int=float)
    assert loss == Loss.from_json(text)
    for weight in (1, 1.5, None, ["1"]):
        with pytest.raises(InputError):
            Loss.from_json({**text, "first": [[weight]], "second": [[weight]]})


def test_equal_losses_are_equal_and_others_are_not() -> None:
    """All losses of the list differ from each other, also as keys."""
    assert len(set(LOSSES.values())) == len(LOSSES)
    assert PureLoss(HALF) == PureLoss(Fraction("0.5"))
    assert PureLoss(HALF) != ApproximateLoss(HALF, Fraction(0))
    assert LOSSES["skewed"] != LOSSES["pure"]


@each_loss
def test_losses_cannot_be_changed(loss: Loss) -> None:
    """Neither a field nor an array behind it."""
    with pytest.raises(AttributeError):
        loss.epsilon = ONE  # type: ignore[attr-defined,misc]
    if isinstance(loss, FiniteLoss):
        with pytest.raises(ValueError, match="read-only"):
            loss.first[0, 0] = 1


def test_unknown_json_is_refused() -> None:
    """An unknown kind, and an estimate where a guarantee is read."""
    guarantee = Guarantee(PureLoss(ONE))
    with pytest.raises(InputError, match="kind of loss"):
        Loss.from_json({"kind": "magic"})
    with pytest.raises(InputError, match="guarantee or an estimate"):
        read_guarantee({"kind": "magic"})
    with pytest.raises(BoundaryError):
        Guarantee.from_json(Estimate.of(guarantee, "seeded").to_json())


def test_composition_joins_the_words() -> None:
    """The weaker trust, the neighbours of both, and the assumptions of both in order."""
    local = Guarantee(PureLoss(ONE), trust="local", assumptions=("a", "b"))
    peers = Guarantee(PureLoss(ONE), trust="peers", assumptions=("b", "c"))
    pair = Guarantee(PureLoss(ONE), "2 labels replaced", "curator")
    user = Guarantee(PureLoss(ONE), "one user's labels replaced")

    assert (local.trust, "peers", "curator") == ("local", local.then(peers).trust, pair.beside(peers).trust)
    assert local.then(peers).assumptions == ("a", "b", "c")
    assert local.then(pair).neighbour == "one label replaced"
    assert pair.for_group(2).then(pair).neighbour == "2 labels replaced"
    assert user.then(local).neighbour == "one user's labels replaced and one label replaced"
    assert user.for_group(2).neighbour == "2 times one user's labels replaced"
    with pytest.raises(InputError, match="trust"):
        Guarantee(PureLoss(ONE), trust="nobody")
    with pytest.raises(BoundaryError, match="Expected a Guarantee"):
        local.then(1.0)  # type: ignore[arg-type]


def test_one_line_says_what_matters() -> None:
    """The number, its kind, the neighbour, the trust."""
    shown = {
        str(Guarantee(PureLoss(exact(0.1)), trust="local")): "epsilon <= 0.1 (pure), one label replaced, local",
        str(Guarantee(PureLoss(Fraction(1, 3)))): "epsilon <= 0.333334 (pure), one label replaced, curator",
        str(Guarantee(ApproximateLoss(ONE, exact(1e-6)))): "epsilon <= 1 (delta = 1e-06), one label replaced, curator",
        str(Guarantee(ConcentratedLoss(HALF), trust="peers")): "rho <= 0.5 (zCDP), one label replaced, peers",
        str(Guarantee(PureLoss(ONE), trust="local").for_group(3)): "epsilon <= 3 (pure), 3 labels replaced, local",
    }

    assert list(shown.values()) == list(shown)
    mixed = Guarantee(SequentialLoss((LOSSES["concentrated"], LOSSES["approximate"])))
    assert "at delta = " in str(mixed)


@pytest.mark.parametrize(
    ("epsilon", "percent"),
    [
        (0, "at most 50 %"),
        (1, "at most 73.2 %"),
        (math.log(3), "at most 75 %"),
        (2, "at most 88.1 %"),
        (40, "almost 100 %"),
    ],
)
def test_a_description_speaks_of_odds(epsilon: float, percent: str) -> None:
    """The posterior of somebody who was 50 % sure, rounded up."""
    text = Guarantee(PureLoss(Fraction(epsilon)), trust="local", assumptions=("The coins are secret.",)).describe()

    assert f"someone who was 50 % sure of a label can become {percent} sure" in text
    assert "with one label replaced" in text
    assert "nobody but its owner has to be trusted" in text
    assert "It is assumed that: The coins are secret." in text
    assert "\n" not in text


def test_a_description_warns_of_a_large_delta() -> None:
    """From delta = 1/n on, and only when n is known."""
    guarantee = Guarantee(ApproximateLoss(ONE, Fraction(1, 1000)))

    assert "except in a case of probability at most 0.001" in guarantee.describe()
    assert "Warning" not in guarantee.describe()
    assert "Warning" not in guarantee.describe(999)
    assert "Warning: delta = 0.001 is not below 1/n = 0.001" in guarantee.describe(1000)
    assert "nothing is promised" in Guarantee(ApproximateLoss(ONE, ONE)).describe()
    assert "two neighbouring data sets" in guarantee.for_group(2).describe()


@pytest.mark.parametrize("n", [None, 100, 10**9])
def test_a_description_of_zcdp_names_a_delta_below_one_over_n(n: int | None) -> None:
    """zCDP has no epsilon of its own, so one is shown at a delta that is small enough."""
    text = Guarantee(ConcentratedLoss(Fraction(1, 10))).describe(n)

    assert "Warning" not in text
    assert f"probability at most {'1e-10' if n == 10**9 else '1e-06'}" in text


def test_rho_is_rounded_up_to_a_float() -> None:
    """At or above the exact one; None where there is none."""
    guarantee = Guarantee(PureLoss(ONE))

    assert Fraction(guarantee.rho or 0) >= PureLoss(ONE).rho
    assert guarantee.rho == pytest.approx(0.46211715726000974, abs=1e-15)
    assert Guarantee(LOSSES["approximate"]).rho is None


# ---- estimates -----------------------------------------------------------------------------------------------


def test_an_estimate_never_adds_up() -> None:
    """In either order, in parallel or in sequence, with a guarantee or another estimate."""
    guarantee = Guarantee(PureLoss(ONE))
    estimate = Estimate.of(guarantee, "the coins are seeded")

    for left, right in [(guarantee, estimate), (estimate, guarantee), (estimate, estimate)]:
        for compose in (left.then, left.beside):
            with pytest.raises(BoundaryError, match="never adds up to a guarantee: the coins are seeded"):
                compose(right)


def test_an_estimate_reads_like_what_it_wraps() -> None:
    """The numbers are delegated; the words say first that nothing is guaranteed."""
    guarantee = Guarantee(PureLoss(ONE), trust="local")
    estimate = Estimate.of(guarantee, "the coins are seeded")

    assert (estimate.epsilon(), estimate.epsilon(1e-3)) == (guarantee.epsilon(), guarantee.epsilon(1e-3))
    assert estimate.delta(0.5) == guarantee.delta(0.5)
    assert estimate.describe().startswith("This is an estimate and not a guarantee: the coins are seeded.")
    assert guarantee.describe() in estimate.describe()
    assert str(estimate).startswith("estimate only (the coins are seeded)")
    assert read_guarantee(json.loads(json.dumps(estimate.to_json()))) == estimate


def test_an_estimate_of_its_own() -> None:
    """Two numbers and a reason: one point of a curve."""
    estimate = Estimate(0.5, 1e-3, "a variational bound")

    assert (estimate.epsilon(1e-3), estimate.epsilon(0.1)) == (0.5, 0.5)
    assert math.isinf(estimate.epsilon())
    assert (estimate.delta(0.5), estimate.delta(0.4)) == (1e-3, 1.0)
    assert "epsilon = 0.5 at delta = 0.001" in estimate.describe()
    assert read_guarantee(estimate.to_json()) == estimate
    unbounded = Estimate(math.inf, 0.0, "nothing is known")
    assert read_guarantee(json.loads(json.dumps(unbounded.to_json()))) == unbounded


# ---- imports -------------------------------------------------------------------------------------------------

_HEAVY = ("scipy", "dp_accounting", "sklearn", "pandas", "pyarrow")


def _loaded_by(code: str) -> set[str]:
    report = f"{code}\nimport sys\nprint(*(m for m in {_HEAVY} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_package_loads_nothing_heavy() -> None:
    """Neither do exact compositions; the second line shows that the test can fail."""
    compose = (
        "from fractions import Fraction as F\n"
        "from labeldp.guarantee import Guarantee, PureLoss\n"
        "g = Guarantee(PureLoss(F(1))); g.then(g).epsilon(1e-6)"
    )

    assert set() == _loaded_by(compose)
    assert {"scipy"} == _loaded_by("import scipy")
