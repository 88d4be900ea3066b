"""Facts about discrete Gaussian noise."""

from __future__ import annotations

import json
import math
from dataclasses import FrozenInstanceError
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.errors import EpsilonError
from labeldp.noise import DiscreteGaussian, noise_from_json, sampling
from tests.noise.helpers import ALPHA, FakeBits, g_test, same_up_to, seeded_bits, two_sample_test

F = Fraction
_ROWS = 25_000


@pytest.mark.parametrize("s", [F(1, 3), F(1), F(4), F(27, 10), F(900), F(123456789, 2**20)])
def test_draws_follow_the_law_and_no_other(s: Fraction) -> None:
    """A G-test passes at the declared parameter, and fails where sigma is 10 % off either way."""
    draws = DiscreteGaussian(s).draw(_ROWS, seeded_bits(_ROWS))

    assert g_test(draws, DiscreteGaussian(s)) > ALPHA
    assert g_test(draws, DiscreteGaussian(s * F(100, 121))) < ALPHA
    assert g_test(draws, DiscreteGaussian(s * F(121, 100))) < ALPHA


@pytest.mark.parametrize("s", [F(10**30 + 7, 10**29), F(2**90 + 1, 3 * 2**80)])
def test_parameters_beyond_a_machine_word_are_exact_too(s: Fraction) -> None:
    """Numerators and denominators of any length give the same kind of draw."""
    draws = DiscreteGaussian(s).draw(_ROWS, seeded_bits(_ROWS, 2))

    assert g_test(draws, DiscreteGaussian(s)) > ALPHA
    assert g_test(draws, DiscreteGaussian(s * F(121, 100))) < ALPHA


def test_opendp_draws_the_same_law() -> None:
    """Two samples, ours and opendp's, are of one law; a sigma 10 % off is not."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l2_distance(T=int)
    theirs = np.array(dp.m.make_gaussian(*space, scale=30.0)([0] * _ROWS))

    assert two_sample_test(DiscreteGaussian(F(900)).draw(_ROWS, seeded_bits(_ROWS)), theirs) > ALPHA
    assert two_sample_test(DiscreteGaussian(F(1089)).draw(_ROWS, seeded_bits(_ROWS)), theirs) < ALPHA


@given(s=st.fractions(min_value=F(1, 10), max_value=10**4, max_denominator=1000), seed=st.integers(0, 99))
def test_python_integers_draw_as_int64_does(s: Fraction, seed: int) -> None:
    """The path for large integers gives the same draws on the same coins."""
    law = DiscreteGaussian(s)
    narrow = law.draw(30, seeded_bits(30, seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "NARROW", 0)
        wide = law.draw(30, seeded_bits(30, seed))

    assert narrow.tolist() == wide.tolist()
    assert np.int64 == narrow.dtype == wide.dtype


@given(prefix=st.integers(0, 40), s=st.sampled_from([F(1, 2), F(100), F(10**9, 7)]))
def test_a_bin_does_not_depend_on_the_others(prefix: int, s: Fraction) -> None:
    """Drawing fewer bins gives the first of the many."""
    law = DiscreteGaussian(s)

    assert law.draw(prefix, seeded_bits(40)).tolist() == law.draw(40, seeded_bits(40))[:prefix].tolist()


def test_the_same_key_gives_the_same_bits_and_another_does_not() -> None:
    """Draws are a function of coins and law."""
    law = DiscreteGaussian(F(10_000))

    assert law.draw(99, seeded_bits(99, 5)).tolist() == law.draw(99, seeded_bits(99, 5)).tolist()
    assert law.draw(99, seeded_bits(99, 5)).tolist() != law.draw(99, seeded_bits(99, 6)).tolist()


def test_draws_are_pinned() -> None:
    """A kept key must give the same noise in every version."""
    pinned = [-27, 48, -12, 11, 20, -19, 17, 53, 9, 28, -31, -7]

    assert pinned == DiscreteGaussian(F(900)).draw(12, FakeBits(12)).tolist()


@pytest.mark.parametrize("s", [F(1, 3), F(900), F(10**30 + 7, 10**29)])
def test_no_word_is_read_twice(s: Fraction) -> None:
    """Each (row, word) is fetched at most once, and words of a row without gaps."""
    bits = FakeBits(300)
    DiscreteGaussian(s).draw(300, bits)
    words = [sorted(word for row, word in bits.read if row == r) for r in range(300)]

    assert 1 == max(bits.read.values())
    assert [list(range(len(w))) for w in words] == words


@pytest.mark.parametrize("s", [F(1, 2**20), F(1, 5), F(99, 100), F(1), F(4, 3), F(10), F(10**6, 7)])
def test_pmf_and_variance_are_exact_to_the_last_digits(s: Fraction) -> None:
    """exp(-z^2/2s) over its sum, which is a theta function, in 50 digits."""
    with mpmath.workdps(60):
        exact_s = mpmath.mpf(s.numerator) / s.denominator
        reach = min(int(mpmath.sqrt(280 * exact_s)) + 2, 10**5)
        weights = [mpmath.exp(-(z**2) / (2 * exact_s)) for z in range(reach)]
        total = 2 * mpmath.fsum(weights) - 1
        for z in (0, 1, -2, 5, 30):
            truth = mpmath.exp(-(z**2) / (2 * exact_s)) / total

            assert same_up_to(DiscreteGaussian(s).pmf(z), truth, 1e-15)
        second = 2 * mpmath.fsum(z * z * weight for z, weight in enumerate(weights))

        assert same_up_to(DiscreteGaussian(s).variance, second / total, 2e-15)


@given(s=st.fractions(min_value=F(1, 20), max_value=1000))
def test_pmf_variance_and_interval_belong_together(s: Fraction) -> None:
    """The pmf sums to one, the variance is at most the parameter, and the interval is the shortest that covers."""
    law, z = DiscreteGaussian(s), np.arange(-400, 401)
    mass = law.pmf(z)
    low, high = law.interval(0.95)

    assert math.isclose(mass.sum(), 1, rel_tol=1e-13)
    assert math.isclose((mass * z**2).sum(), law.variance, rel_tol=1e-11)
    assert law.variance <= float(s) * (1 + 1e-15)
    assert -low == high
    assert mass[np.abs(z) <= high].sum() >= 0.95 - 1e-12
    assert high == 0 or mass[np.abs(z) < high].sum() < 0.95 + 1e-12


@pytest.mark.parametrize(
    "coverage", [F(1, 100), F(1, 2), F(95, 100), 1 - F(1, 10**12), 1 - F(1, 10**40), 1 - F(1, 10**400)]
)
def test_intervals_of_wide_noise_follow_the_normal_law(coverage: Fraction) -> None:
    """Above sigma = 2^10 the interval is the normal one, rounded up; extreme coverages have one too."""
    small, large = DiscreteGaussian(F(2**20)).interval(coverage)[1], DiscreteGaussian(F(2**40)).interval(coverage)[1]

    assert math.isclose(1024 * small, large, abs_tol=1025)


@given(s=st.fractions(min_value=F(1, 2**20), max_value=2**64))
def test_json_round_trip(s: Fraction) -> None:
    """What is written is read back, exactly."""
    law = DiscreteGaussian(s)
    text = json.dumps(law.to_json())

    assert law == DiscreteGaussian.from_json(json.loads(text)) == noise_from_json(json.loads(text))


@pytest.mark.parametrize(
    "bad", [0, -1, F(-1, 2), math.nan, math.inf, -math.inf, 1e300, 2**65, F(1, 2**21), True, "x", None, [1]]
)
def test_bad_parameters_are_refused(bad: object) -> None:
    """Zero, negative, not finite, too small, too large, or no number at all."""
    with pytest.raises(EpsilonError):
        DiscreteGaussian(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("coverage", [0, 1, -0.5, 1.5, math.nan])
def test_bad_coverages_are_refused(coverage: float) -> None:
    """A coverage is strictly between 0 and 1."""
    with pytest.raises(EpsilonError, match=r"coverage|finite"):
        DiscreteGaussian(F(1)).interval(coverage)


def test_laws_are_immutable() -> None:
    """The parameter cannot be changed after privacy was computed from it."""
    law = DiscreteGaussian(F(1, 2))
    with pytest.raises(FrozenInstanceError):
        law.sigma_squared = F(1)  # type: ignore[misc]


def test_the_widest_and_the_narrowest_noise_can_be_drawn() -> None:
    """The ends of the allowed range work: billions, and nothing but zeros."""
    wide = DiscreteGaussian(F(2**64)).draw(200, seeded_bits(200))

    assert 2**31 < np.abs(wide).max() < 2**36
    assert np.zeros(200).tolist() == DiscreteGaussian(F(1, 2**20)).draw(200, seeded_bits(200)).tolist()
