"""Facts about the privacy of noisy integers, and the noise that a budget allows."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labeldp.noise as noise_package
from labeldp.errors import EpsilonError, InputError, LargeEpsilonWarning
from labeldp.exact import float_up
from labeldp.guarantee.value import ConcentratedLoss, Guarantee
from labeldp.noise import (
    DiscreteGaussian,
    DiscreteLaplace,
    analytic_gaussian_sigma,
    concentrated_rho,
    delta_of_counts,
    gaussian_counts,
    gaussian_for_counts,
    gaussian_vector,
    guarantee_of_counts,
    guarantee_of_vector,
    hockey_stick_gaussian,
    hockey_stick_one_bin,
    hockey_stick_two_bins,
    laplace_counts,
    laplace_for,
    laplace_vector,
    moved_bins,
    noise_from_json,
    pure_epsilon,
    rho_for,
    zcdp_gaussian_sigma,
)
from labeldp.noise.cost import gaussian_delta, gaussian_law
from labeldp.noise.theta import DOWN, UP, weight_sum

F = Fraction
_VECTORS: dict[str, Any] = json.loads((Path(__file__).parents[1] / "golden" / "vectors.json").read_text())

_epsilons = st.fractions(min_value=F(1, 100), max_value=12)
_deltas = st.sampled_from([F(1, 10**9), F(1, 10**6), F(1, 10**4), F(1, 100), F(1, 20), F(1, 3)])


def _vector(name: str) -> tuple[dict[str, Any], float, float]:
    entry = _VECTORS[name]
    return entry["inputs"], entry["expected"], entry["tolerance"]


def _brute_force_delta(weight: Any, classes: int, epsilon: float, reach: int) -> Any:
    """Sum (P - e^eps Q)_+ over all noisy counts of two neighbouring histograms, in high precision."""
    bins = 1 if classes == 2 else classes
    moved = [1] if bins == 1 else [1, -1] + [0] * (bins - 2)
    table = {z: weight(z) for z in range(-reach - 1, reach + 2)}
    total = mpmath.fsum(table.values())
    growth = mpmath.exp(epsilon)
    parts = []
    for z in itertools.product(range(-reach, reach + 1), repeat=bins):
        p = mpmath.fprod(table[k] for k in z)
        q = mpmath.fprod(table[k - m] for k, m in zip(z, moved, strict=True))
        parts.append(max(p - growth * q, 0))
    return mpmath.fsum(parts) / total**bins


# ---- Laplace --------------------------------------------------------------------------------------------


def test_vector_of_the_two_bin_hockey_stick() -> None:
    """ERRATA A1, exactly."""
    inputs, expected, tolerance = _vector("dlaplace_two_bins_hockey")

    assert math.isclose(hockey_stick_two_bins(inputs["a"], inputs["eps"]), expected, abs_tol=tolerance)


def test_vector_of_the_two_bin_calibration() -> None:
    """ERRATA C3: a = 0.122743091 per bin at (.05, .05)."""
    inputs, expected, tolerance = _vector("dlaplace_two_bins_calibration")

    assert math.isclose(laplace_for(inputs["eps"], inputs["delta"]), expected, abs_tol=tolerance)


@pytest.mark.parametrize(("classes", "reach"), [(2, 90), (3, 18)])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 0.99, 1.0, 1.99, 2.0, 3.0])
def test_laplace_delta_is_the_sum_over_all_outcomes(classes: int, reach: int, epsilon: float) -> None:
    """The closed forms equal brute force over noisy counts of neighbouring histograms, other bins included."""
    with mpmath.workdps(25):
        truth = _brute_force_delta(lambda z: mpmath.exp(-abs(z)), classes, epsilon, reach)

    assert abs(delta_of_counts(DiscreteLaplace(F(1)), epsilon, classes) - truth) < 5 * math.exp(-reach) + 1e-16


@given(a=st.fractions(min_value=F(1, 1000), max_value=30), epsilon=st.fractions(min_value=0, max_value=70))
def test_laplace_hockey_sticks_are_never_below_the_truth(a: Fraction, epsilon: Fraction) -> None:
    """Rounded up, by less than a few units in the last place; 0 from the pure epsilon on."""
    with mpmath.workdps(60):
        exact_a, exact_e = (mpmath.mpf(x.numerator) / x.denominator for x in (a, epsilon))
        hit = mpmath.exp(exact_a) / (1 + mpmath.exp(exact_a))
        for bins, got in ((1, hockey_stick_one_bin(a, epsilon)), (2, hockey_stick_two_bins(a, epsilon))):
            truth = max(1 - mpmath.exp(exact_e - bins * exact_a), mpmath.mpf(0)) * hit**bins

            assert truth <= got <= truth * (1 + 2.3e-16)
            assert (got == 0) == (epsilon >= bins * a)


@given(epsilon=_epsilons, delta=_deltas, bins=st.sampled_from([1, 2]))
def test_calibrated_laplace_is_within_delta_and_barely(epsilon: Fraction, delta: Fraction, bins: int) -> None:
    """The parameter meets delta, a slightly larger one does not, and what is stated is what was asked."""
    hockey = {1: hockey_stick_one_bin, 2: hockey_stick_two_bins}[bins]
    a = laplace_for(epsilon, delta, bins)

    assert hockey(a, epsilon) <= delta
    # Where delta is so small that it buys nothing the pure parameter serves.
    assert hockey(a * (1 + F(1, 10**6)), epsilon) > delta or a * bins - epsilon < F(1, 10**6) * epsilon
    assert epsilon * (1 - F(1, 10**9)) <= bins * a
    assert guarantee_of_counts(DiscreteLaplace(a), bins + 1).epsilon(delta) <= float_up(epsilon)


@given(epsilon=st.one_of(_epsilons, st.floats(1e-6, 50)), classes=st.integers(2, 20))
def test_pure_counts_cost_at_most_what_was_asked(epsilon: Any, classes: int) -> None:
    """Never above the asked epsilon, within 10^-9 of it; half a bin for three classes or more (ERRATA A1)."""
    law = laplace_counts(epsilon, classes)
    cost = law.a * moved_bins(classes)

    assert F(epsilon) * (1 - F(1, 10**9)) <= cost <= F(epsilon)
    assert guarantee_of_counts(law, classes).epsilon() <= float_up(F(epsilon))
    assert law.a.denominator <= 2**32


@pytest.mark.parametrize(
    ("epsilon", "classes", "a"), [(1.0, 10, F(1, 2)), (1.0, 2, F(1)), (0.1, 2, F(1, 10)), ("0.3", 3, F(3, 20))]
)
def test_simple_epsilons_are_met_exactly(epsilon: object, classes: int, a: Fraction) -> None:
    """1 stays 1 and 1/10 stays 1/10."""
    assert DiscreteLaplace(a) == laplace_counts(epsilon, classes)


@given(a=st.fractions(min_value=F(1, 50), max_value=10), classes=st.sampled_from([2, 3, 9]))
def test_the_laplace_guarantee_is_the_exact_law(a: Fraction, classes: int) -> None:
    """Pure epsilon is a times the moved bins, exactly, and the curve is the closed form."""
    guarantee, bins = guarantee_of_counts(DiscreteLaplace(a), classes), moved_bins(classes)

    assert guarantee.loss.pure == a * bins
    for part in (0.0, 0.3, 0.9):
        epsilon = part * float(a) * bins
        truth = delta_of_counts(DiscreteLaplace(a), epsilon, classes)

        assert truth <= guarantee.delta(epsilon) <= truth + 1e-13
    # Each bin is a tanh(a/2)-zCDP (ERRATA F3).
    assert math.isclose(guarantee.rho or 0, bins * float(a) * math.tanh(float(a) / 2), rel_tol=1e-12)


# ---- Gaussian -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in _VECTORS if name.startswith("analytic_gaussian")])
def test_vectors_of_the_analytic_gaussian(name: str) -> None:
    """ERRATA B1."""
    inputs, expected, tolerance = _vector(name)
    sigma = analytic_gaussian_sigma(inputs["eps"], inputs["delta"], inputs["sensitivity"])

    assert math.isclose(sigma, expected, abs_tol=tolerance)


def test_vector_of_the_concentrated_gaussian() -> None:
    """sigma = D / sqrt(2 rho)."""
    inputs, expected, tolerance = _vector("zcdp_gaussian_sigma")

    assert math.isclose(zcdp_gaussian_sigma(inputs["rho"], inputs["Delta2"]), expected, abs_tol=tolerance)


@pytest.mark.parametrize(("classes", "reach"), [(2, 60), (3, 13)])
@pytest.mark.parametrize("s", [F(1, 5), F(1), F(7, 4)])
@pytest.mark.parametrize("epsilon", [0.0, 0.25, 1.0, 1.5])
def test_gaussian_delta_is_the_sum_over_all_outcomes(classes: int, reach: int, s: Fraction, epsilon: float) -> None:
    """The sum over the law of the difference equals brute force over noisy counts, other bins included."""
    with mpmath.workdps(25):
        truth = _brute_force_delta(lambda z: mpmath.exp(-(z**2) * mpmath.mpf(1) / (2 * s)), classes, epsilon, reach)
    got = delta_of_counts(DiscreteGaussian(s), epsilon, classes)

    assert math.isclose(got, truth, rel_tol=1e-13, abs_tol=1e-18)


@given(
    s=st.fractions(min_value=F(1, 30), max_value=3000),
    epsilon=st.fractions(min_value=0, max_value=8),
    bins=st.sampled_from([1, 2]),
)
def test_gaussian_delta_is_never_below_the_truth(s: Fraction, epsilon: Fraction, bins: int) -> None:
    """Rounded up, and no more than the rounding to a float: against the plain sum in 60 digits."""
    with mpmath.workdps(90):
        exact_s, exact_e = (mpmath.mpf(x.numerator) / x.denominator for x in (s, epsilon))
        first = int(mpmath.floor(mpmath.ceil(exact_e * exact_s * 2 - bins) / 2))
        reach = first + 2 + int(mpmath.sqrt(175 * 2 * bins * exact_s))
        weights = {d: mpmath.exp(-(mpmath.mpf(d) ** 2) / (2 * bins * exact_s)) for d in range(reach + bins + 1)}
        parity = [2 * mpmath.fsum(w for d, w in weights.items() if d % 2 == c) - (c == 0) for c in (0, 1)]
        factors = (
            [1 / (parity[0] + parity[1])] * 2 if bins == 1 else [c / (parity[0] ** 2 + parity[1] ** 2) for c in parity]
        )
        # reach is beyond every weight that counts here, so parity sums and tails are good to some 10^-70.
        truth = mpmath.fsum(
            factors[d % 2] * max(weights[d] - mpmath.exp(exact_e) * weights[d + bins], 0)
            for d in range(max(first, 0), reach)
        )
        proved = gaussian_delta(s, epsilon, bins)
        exact_proved = mpmath.mpf(proved.numerator) / proved.denominator
        got = mpmath.mpf(hockey_stick_gaussian(DiscreteGaussian(s), epsilon, bins))

        # Far beyond the range of floats a bound is returned.
        vanishing = 2 * mpmath.mpf(10) ** -4000
        assert (
            truth * (1 - mpmath.mpf(10) ** -65) <= exact_proved <= max(truth * (1 + mpmath.mpf(10) ** -30), vanishing)
        )
        # The smallest floats are a fixed 5e-324 apart.
        assert exact_proved <= got <= exact_proved * (1 + 2.3e-16) + mpmath.mpf(5e-324)


@given(x=st.fractions(min_value=F(1, 2000), max_value=40), start=st.integers(0, 30), step=st.sampled_from([1, 2]))
def test_weight_sums_enclose_the_truth(x: Fraction, start: int, step: int) -> None:
    """From below and from above, to 45 digits."""
    with mpmath.workdps(90):
        exact_x = mpmath.mpf(x.numerator) / x.denominator
        last = start + int(mpmath.sqrt((start**2 * exact_x + 190) / exact_x)) + 2
        truth = mpmath.fsum(mpmath.exp(-exact_x * d * d) for d in range(start, last, step))
        low, high = (mpmath.mpf(str(weight_sum(x, start, step, context))) for context in (DOWN, UP))

        assert truth * (1 - mpmath.mpf(10) ** -45) < low < truth < high < truth * (1 + mpmath.mpf(10) ** -45)


def test_gaussian_delta_in_the_far_tail_is_tiny_and_positive() -> None:
    """Where no float can hold it, the smallest float stands for it."""
    assert 0 < hockey_stick_gaussian(DiscreteGaussian(F(10**6)), 50) < 1e-300


@pytest.mark.parametrize("epsilon", [0.02, 0.3, 1, 4, 9])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.05])
@pytest.mark.parametrize("classes", [2, 3])
def test_calibrated_gaussian_is_within_delta_and_barely(epsilon: float, delta: float, classes: int) -> None:
    """The variance meets delta, one a little smaller does not, and what is stated is what was asked."""
    law = gaussian_counts(epsilon, delta, classes)
    smaller = DiscreteGaussian(law.sigma_squared * (1 - F(1, 10**5)))

    assert delta_of_counts(law, epsilon, classes) <= delta < delta_of_counts(smaller, epsilon, classes)
    assert guarantee_of_counts(law, classes, epsilon=epsilon).epsilon(delta) <= epsilon
    assert law.sigma_squared.numerator < 2**29


@pytest.mark.parametrize(("epsilon", "delta"), [(0.05, 0.05), (0.5, 1e-6), (1, 1e-5)])
def test_calibrated_gaussian_is_close_to_the_continuous_one(epsilon: float, delta: float) -> None:
    """Where sigma is large the lattice does not matter."""
    found = math.sqrt(gaussian_for_counts(epsilon, delta, 2).sigma_squared)

    assert math.isclose(found, analytic_gaussian_sigma(epsilon, delta, math.sqrt(2)), rel_tol=1e-3)


def test_the_analytic_sigma_certifies_nothing_for_discrete_noise() -> None:
    """At one count and (1, 1e-5) the continuous sigma is too small for the integers."""
    sigma = analytic_gaussian_sigma(1, 1e-5, 1)

    assert hockey_stick_gaussian(DiscreteGaussian(F(sigma**2)), 1, 1) > 1e-5


@pytest.mark.parametrize("bins", [1, 2])
@pytest.mark.parametrize("s", [F(1, 100), F(1, 3), F(5), F(1000, 3)])
def test_the_listed_law_is_the_law_of_the_loss(s: Fraction, bins: int) -> None:
    """Its hockey stick lies on or just above the exact delta, and its mean is rho twice over... at most."""
    law = gaussian_law(s, bins)
    for epsilon in (F(0), F(1, 4), F(1), F(3)):
        truth = gaussian_delta(s, epsilon, bins)

        assert truth <= F(law.delta(float(epsilon))) <= truth * (1 + F(1, 10**9)) + F(1, 10**15)
    mean = float(np.dot(law.losses, law.probs))

    # The Kullback-Leibler divergence of a Gaussian pair is rho; the lattice only lowers it.
    assert mean <= bins / (2 * float(s)) * (1 + 1e-9) + 1e-9


def test_a_wide_law_is_abbreviated_and_stays_above() -> None:
    """Chords dominate the exact curve and touch it where it was asked for; beyond all lists zCDP remains."""
    law = DiscreteGaussian(F(200_000))
    exact_delta = hockey_stick_gaussian(law, 0.01)
    plain, anchored = guarantee_of_counts(law, 5), guarantee_of_counts(law, 5, epsilon=0.01)

    assert exact_delta <= anchored.delta(0.01) <= exact_delta * (1 + 1e-9)
    assert exact_delta <= plain.delta(0.01) <= exact_delta * 1.01
    assert len(plain.loss.law().losses) < 3000
    wide = guarantee_of_counts(DiscreteGaussian(F(2**30)), 5)

    assert isinstance(wide.loss, ConcentratedLoss)
    assert wide.loss.rho == F(1, 2**30)


def test_guarantees_of_counts_survive_a_file() -> None:
    """What a release stores is what it had."""
    for law in (DiscreteLaplace(F(1, 3)), DiscreteGaussian(F(7, 2))):
        guarantee = guarantee_of_counts(law, 4)

        assert guarantee == Guarantee.from_json(json.loads(json.dumps(guarantee.to_json())))


# ---- vectors --------------------------------------------------------------------------------------------


@given(epsilon=_epsilons, l1=st.fractions(min_value=F(1, 10), max_value=10**6))
def test_laplace_vectors_cost_at_most_what_was_asked(epsilon: Fraction, l1: Fraction) -> None:
    """a L1 <= epsilon, within 10^-9."""
    law = laplace_vector(epsilon, l1)

    assert epsilon * (1 - F(1, 10**9)) <= pure_epsilon(law, l1) <= epsilon
    assert guarantee_of_vector(law, l1=l1).loss.pure == pure_epsilon(law, l1)


@given(rho=st.fractions(min_value=F(1, 1000), max_value=10), l2=st.fractions(min_value=F(1, 10), max_value=10**6))
def test_gaussian_vectors_cost_at_most_what_was_asked(rho: Fraction, l2: Fraction) -> None:
    """L2^2 / (2 sigma^2) <= rho, within 10^-7."""
    law = gaussian_vector(rho, l2)

    assert rho * (1 - F(1, 10**7)) <= concentrated_rho(law, l2) <= rho
    assert guarantee_of_vector(law, l2_squared=l2).loss.rho == concentrated_rho(law, l2)


@given(
    epsilon=st.fractions(F(1, 100), 20),
    delta=st.sampled_from([F(1, 10**3), F(1, 10**6), F(1, 10**12), F(1, 10**30)]),
    l2=st.fractions(min_value=F(1, 10), max_value=10**6),
)
def test_a_vector_with_a_delta_is_charged_what_was_asked(epsilon: Fraction, delta: Fraction, l2: Fraction) -> None:
    """The noise of rho_for meets (epsilon, delta), which is its charge; pure noise is charged its epsilon alone."""
    law = gaussian_vector(rho_for(epsilon, delta), l2)
    pure = laplace_vector(epsilon, l2)

    charge = guarantee_of_vector(law, l2_squared=l2, epsilon=epsilon, delta=delta).charge()

    assert (epsilon, delta, concentrated_rho(law, l2)) == (charge.epsilon, charge.delta, charge.rho)
    assert guarantee_of_vector(pure, l1=l2) == guarantee_of_vector(pure, l1=l2, epsilon=epsilon, delta=delta)


def test_concentrated_rho_is_exact() -> None:
    """One count: 1/(2 sigma^2); two counts: 1/sigma^2."""
    assert F(1, 1800) == concentrated_rho(DiscreteGaussian(F(900)), 1)
    assert (
        F(1, 900)
        == concentrated_rho(DiscreteGaussian(F(900)), 2)
        == guarantee_of_counts(DiscreteGaussian(F(900)), 3).loss.rho
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(1, 1e-5), (0.01, 1e-6), (10, 1e-9)])
def test_rho_for_an_approximate_budget_is_the_largest(epsilon: float, delta: float) -> None:
    """It implies what was asked, and a millionth more does not."""
    rho = rho_for(epsilon, delta)

    assert (
        ConcentratedLoss(rho).epsilon_at(F(delta))
        <= epsilon
        < ConcentratedLoss(rho * (1 + F(1, 10**6))).epsilon_at(F(delta))
    )


# ---- what is refused ------------------------------------------------------------------------------------

_BAD = [0, -1, math.nan, math.inf, -math.inf, 1e30, True, "x", None]


@pytest.mark.parametrize("bad", _BAD)
@pytest.mark.parametrize(
    "call",
    [
        lambda x: laplace_counts(x, 3),
        lambda x: laplace_counts(x, 3, 1e-5),
        lambda x: laplace_for(x, 0.01, 1),
        lambda x: laplace_vector(x, 1),
        lambda x: gaussian_counts(x, 1e-5, 3),
        lambda x: analytic_gaussian_sigma(x, 1e-5, 1),
        lambda x: rho_for(x, 1e-5),
        lambda x: hockey_stick_two_bins(x, 1),
        lambda x: hockey_stick_one_bin(x, 1),
    ],
)
def test_bad_epsilons_are_refused(call: Any, bad: object) -> None:
    """Zero, negative, not finite, absurd, or no number at all: an EpsilonError, at once."""
    with pytest.raises(EpsilonError):
        call(bad)


@pytest.mark.parametrize("bad", [1, -0.1, math.nan, math.inf, True, "x", None])
@pytest.mark.parametrize(
    "call",
    [
        lambda d: laplace_counts(1, 3, d),
        lambda d: gaussian_counts(1, d, 3),
        lambda d: analytic_gaussian_sigma(1, d, 1),
        lambda d: rho_for(1, d),
    ],
)
def test_bad_deltas_are_refused(call: Any, bad: object) -> None:
    """A delta is at least 0 and below 1."""
    with pytest.raises(EpsilonError):
        call(bad)


@pytest.mark.parametrize(
    "call",
    [
        lambda: gaussian_counts(1, 0, 3),
        lambda: gaussian_counts(1, 1e-40, 3),
        lambda: gaussian_counts(1e-6, 1e-9, 3),
        lambda: laplace_counts(1e-10, 3),
        lambda: hockey_stick_two_bins(1, -0.1),
        lambda: hockey_stick_gaussian(DiscreteGaussian(F(2**33)), 1),
        lambda: hockey_stick_gaussian(DiscreteGaussian(F(1)), math.nan),
        lambda: laplace_vector(1, 0),
        lambda: gaussian_vector(1, -1),
        lambda: gaussian_vector(0, 1),
        lambda: pure_epsilon(DiscreteLaplace(F(1)), math.nan),
        lambda: guarantee_of_vector(DiscreteLaplace(F(1))),
        lambda: zcdp_gaussian_sigma(0, 1),
    ],
)
def test_what_cannot_be_computed_is_refused(call: Any) -> None:
    """Deltas no Gaussian meets, noise too wide to sum, sensitivities that are none."""
    with pytest.raises(EpsilonError):
        call()


@pytest.mark.parametrize("classes", [1, 0, -3, 2.5, True, "3", None])
def test_bad_numbers_of_classes_are_refused(classes: Any) -> None:
    """One class is known to everybody."""
    with pytest.raises(InputError, match="classes >= 2"):
        laplace_counts(1, classes)


@pytest.mark.parametrize("bins", [0, 3])
def test_a_label_moves_one_bin_or_two(bins: int) -> None:
    """Anything else is a mistake of the caller."""
    with pytest.raises(InputError, match="1 or 2 bins"):
        laplace_for(1, 0, bins)


def test_an_absurd_epsilon_warns() -> None:
    """Above 50 a release hides nothing: allowed, with a warning."""
    with pytest.warns(LargeEpsilonWarning):
        laplace_counts(60, 3)


def test_json_of_something_else_is_refused() -> None:
    """A file that holds no noise is not read as some."""
    with pytest.raises(InputError, match="integer noise"):
        noise_from_json({"family": "laplace"})


def test_the_package_exports_what_it_says() -> None:
    """``__all__`` is sorted and complete."""
    assert sorted(noise_package.__all__) == noise_package.__all__
    assert [] == [name for name in noise_package.__all__ if not hasattr(noise_package, name)]
