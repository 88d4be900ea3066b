"""Facts about discrete Laplace noise."""

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
from labeldp.noise import DiscreteLaplace, laplace_for, noise_from_json, sampling
from tests.noise.helpers import ALPHA, FakeBits, g_test, same_up_to, seeded_bits, two_sample_test

F = Fraction
_ROWS = 40_000


@pytest.mark.parametrize("a", [F(1, 100), F(1, 10), F(1, 2), F(1), F(7, 3), F(3)])
def test_draws_follow_the_law_and_no_other(a: Fraction) -> None:
    """A G-test passes at the declared parameter, and fails where it is 10 % off either way."""
    draws = DiscreteLaplace(a).draw(_ROWS, seeded_bits(_ROWS))

    assert g_test(draws, DiscreteLaplace(a)) > ALPHA
    assert g_test(draws, DiscreteLaplace(a * F(10, 11))) < ALPHA
    assert g_test(draws, DiscreteLaplace(a * F(11, 10))) < ALPHA


@pytest.mark.parametrize("a", [F(2**32 - 5, 2**32 - 1), F(10**24 + 7, 10**25), F(2**70 + 1, 2**72)])
def test_parameters_beyond_a_machine_word_are_exact_too(a: Fraction) -> None:
    """Numerators and denominators of any length give the same kind of draw."""
    draws = DiscreteLaplace(a).draw(_ROWS, seeded_bits(_ROWS, 2))

    assert g_test(draws, DiscreteLaplace(a)) > ALPHA
    assert g_test(draws, DiscreteLaplace(a * F(10, 11))) < ALPHA


def test_opendp_draws_the_same_law() -> None:
    """Two samples, ours and opendp's, are of one law; a scale 10 % off is not."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
    theirs = np.array(dp.m.make_laplace(*space, scale=10.0)([0] * _ROWS))

    assert two_sample_test(DiscreteLaplace(F(1, 10)).draw(_ROWS, seeded_bits(_ROWS)), theirs) > ALPHA
    assert two_sample_test(DiscreteLaplace(F(1, 12)).draw(_ROWS, seeded_bits(_ROWS)), theirs) < ALPHA


@given(a=st.fractions(min_value=F(1, 1000), max_value=20, max_denominator=10**6), seed=st.integers(0, 99))
def test_python_integers_draw_as_int64_does(a: Fraction, seed: int) -> None:
    """The path for large integers gives the same draws on the same coins."""
    law = DiscreteLaplace(a)
    narrow = law.draw(40, seeded_bits(40, seed))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "NARROW", 0)
        wide = law.draw(40, seeded_bits(40, seed))

    assert narrow.tolist() == wide.tolist()
    assert np.int64 == narrow.dtype == wide.dtype


@given(prefix=st.integers(0, 60), a=st.sampled_from([F(1, 10), F(1), F(1, 2**31)]))
def test_a_bin_does_not_depend_on_the_others(prefix: int, a: Fraction) -> None:
    """Drawing fewer bins gives the first of the many."""
    law = DiscreteLaplace(a)

    assert law.draw(prefix, seeded_bits(60)).tolist() == law.draw(60, seeded_bits(60))[:prefix].tolist()


def test_steps_do_not_change_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting many rows into steps is invisible."""
    law = DiscreteLaplace(F(1, 3))
    whole = law.draw(1000, FakeBits(1000))
    monkeypatch.setattr(sampling, "_ROWS_PER_STEP", 7)

    assert whole.tolist() == law.draw(1000, FakeBits(1000)).tolist()


def test_the_same_key_gives_the_same_bits_and_another_does_not() -> None:
    """Draws are a function of coins and law."""
    law = DiscreteLaplace(F(1, 100))

    assert law.draw(99, seeded_bits(99, 5)).tolist() == law.draw(99, seeded_bits(99, 5)).tolist()
    assert law.draw(99, seeded_bits(99, 5)).tolist() != law.draw(99, seeded_bits(99, 6)).tolist()


def test_draws_are_pinned() -> None:
    """A kept key must give the same noise in every version."""
    pinned = [3, 0, -1, 8, -6, 9, -2, 16, -6, 9, -28, -15]

    assert pinned == DiscreteLaplace(F(1, 10)).draw(12, FakeBits(12)).tolist()


@pytest.mark.parametrize("a", [F(1, 10), F(4), F(1, 10**9), F(10**24 + 7, 10**25)])
def test_no_word_is_read_twice(a: Fraction) -> None:
    """Each (row, word) is fetched at most once, and words of a row without gaps."""
    bits = FakeBits(300)
    DiscreteLaplace(a).draw(300, bits)
    words = [sorted(word for row, word in bits.read if row == r) for r in range(300)]

    assert 1 == max(bits.read.values())
    assert [list(range(len(w))) for w in words] == words


@pytest.mark.parametrize("a", [F(1, 2**32), F(1, 7), F(1), F(355, 113), F(40), F(500)])
@pytest.mark.parametrize("z", [0, 1, -1, 2, 17, -300, 10**9])
def test_pmf_is_exact_to_the_last_digits(a: Fraction, z: int) -> None:
    """tanh(a/2) exp(-a|z|), in 50 digits."""
    with mpmath.workdps(60):
        exact_a = mpmath.mpf(a.numerator) / a.denominator
        truth = mpmath.tanh(exact_a / 2) * mpmath.exp(-exact_a * abs(z))

        assert same_up_to(DiscreteLaplace(a).pmf(z), truth, 1e-15)


@given(a=st.fractions(min_value=F(1, 20), max_value=20))
def test_pmf_variance_and_interval_belong_together(a: Fraction) -> None:
    """The pmf sums to one, has the stated variance, and the interval is the shortest that covers."""
    law, z = DiscreteLaplace(a), np.arange(-900, 901)
    mass = law.pmf(z)
    low, high = law.interval(0.9)

    assert math.isclose(mass.sum(), 1, rel_tol=1e-13)
    assert math.isclose((mass * z**2).sum(), law.variance, rel_tol=1e-11)
    assert -low == high
    assert mass[np.abs(z) <= high].sum() >= 0.9 - 1e-12
    assert high == 0 or mass[np.abs(z) < high].sum() < 0.9 + 1e-12
    assert law.pmf(np.array([[0, 3], [-3, 1]])).tolist() == [[law.pmf(0), law.pmf(3)], [law.pmf(3), law.pmf(1)]]


def test_intervals_of_wide_noise_do_not_search() -> None:
    """The interval is a formula, also where the noise spans billions."""
    a = F(1, 2**32)

    assert math.isclose(DiscreteLaplace(a).interval(F(99, 100))[1], -math.log(0.01) / a, rel_tol=1e-8)


@given(a=st.fractions(min_value=F(1, 2**32), max_value=2**16))
def test_json_round_trip(a: Fraction) -> None:
    """What is written is read back, exactly."""
    law = DiscreteLaplace(a)
    text = json.dumps(law.to_json())

    assert law == DiscreteLaplace.from_json(json.loads(text)) == noise_from_json(json.loads(text))
    assert hash(law) == hash(noise_from_json(json.loads(text)))


@pytest.mark.parametrize(
    "bad", [0, -1, F(-1, 2), math.nan, math.inf, -math.inf, 1e300, 2**17, F(1, 2**33), True, "x", None, [1]]
)
def test_bad_parameters_are_refused(bad: object) -> None:
    """Zero, negative, not finite, too small, too large, or no number at all."""
    with pytest.raises(EpsilonError):
        DiscreteLaplace(bad)  # type: ignore[arg-type]


@pytest.mark.parametrize("coverage", [0, 1, -0.5, 1.5, math.nan])
def test_bad_coverages_are_refused(coverage: float) -> None:
    """A coverage is strictly between 0 and 1."""
    with pytest.raises(EpsilonError, match=r"coverage|finite"):
        DiscreteLaplace(F(1)).interval(coverage)


def test_laws_are_immutable_and_compare_by_value() -> None:
    """1/2, 0.5 and "1/2" are one law."""
    law = DiscreteLaplace(F(1, 2))

    assert law == DiscreteLaplace(0.5) == DiscreteLaplace("1/2")  # type: ignore[arg-type]
    with pytest.raises(FrozenInstanceError):
        law.a = F(1)  # type: ignore[misc]


def test_a_calibrated_parameter_runs_on_machine_integers() -> None:
    """No denominator of a calibrated law is above 2^32."""
    assert laplace_for(math.pi, 1e-5).denominator <= 2**32
