"""Exact numbers: what a caller meant, and rounding that never helps us."""

from __future__ import annotations

import math
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import labeldp as ldp
from labeldp.errors import EpsilonError, LargeEpsilonWarning
from labeldp.exact import (
    ABSURD_EPSILON,
    declared,
    delta_in_range,
    exact,
    exp_bounds,
    float_down,
    float_up,
    from_text,
    log_down,
    log_up,
    positive_epsilon,
    round_up,
    to_text,
)
from labeldp.testing.strategies import epsilons

F = Fraction
LARGEST = F(sys.float_info.max)
SMALLEST = F(5e-324)

fractions = st.fractions(max_denominator=10**30)
floats = st.floats(allow_nan=False, allow_infinity=False)
#: Numbers of any size, exact floats and their neighbours among them.
anything = st.one_of(
    fractions,
    floats.map(F),
    st.builds(lambda x, y: F(x) + F(y), floats, floats),
    st.builds(lambda x, n: F(x) * F(10) ** n, floats, st.integers(-400, 400)),
)


def real(x: Fraction) -> Any:
    """Return a rational as a number of 120 digits."""
    return mpmath.mpf(x.numerator) / x.denominator


# ---- what a caller meant -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "meant"),
    [
        (0.1, F(1, 10)),
        (0.5, F(1, 2)),
        (0.3, F(0.3)),  # the float lies below the decimal
        (0.7, F(0.7)),
        (-0.1, F(-0.1)),
        (1e300, min(F(10) ** 300, F(1e300))),
        (5e-324, F(5e-324)),
        (-0.0, F(0)),
        (1, F(1)),
        (10**30, F(10**30)),
        (F(1, 3), F(1, 3)),
        (Decimal("0.1"), F(1, 10)),
        (Decimal("1E-30"), F(1, 10**30)),
        ("0.1", F(1, 10)),
        ("1/3", F(1, 3)),
        (" 1e-3 ", F(1, 1000)),
        ("-2", F(-2)),
        (np.float64(0.1), F(1, 10)),
        (np.float32(0.1), F(1, 10)),
        (np.float32(0.3), F(3, 10)),
        (np.float16(0.1), F(float(np.float16(0.1)))),
        (np.float32(0.25), F(1, 4)),
        (np.longdouble("0.1"), F(1, 10)),
        (np.int64(3), F(3)),
        (np.uint8(200), F(200)),
    ],
    ids=repr,
)
def test_numbers_have_the_smaller_of_their_readings(number: Any, meant: Fraction) -> None:
    """A float is its binary value or the decimal it prints as, whichever is smaller; all else is what it says."""
    read = exact(number)

    assert meant == read
    assert type(read) is Fraction
    assert [int, int] == [type(read.numerator), type(read.denominator)]
    assert 2**80 * meant == 2**80 * read  # as an integer of NumPy, it would overflow


@given(floats)
def test_a_float_is_never_read_as_more_than_it_is(number: float) -> None:
    """Neither the binary value nor the printed decimal is smaller than what is read, and it is one of them."""
    read, budget = exact(number), declared(number)

    assert read == min(F(number), F(repr(number)))
    assert budget == F(repr(number)) >= read
    assert float(read) == float(budget) == number


@given(st.integers(1, 10_000), st.integers(0, 6))
def test_charges_that_look_as_if_they_fit_do_fit(count: int, digits: int) -> None:
    """n charges of x fit a budget that reads n times x: 0.1 ten times is at most 1."""
    charge = float(f"{1 / count:.{digits}e}")

    assert count * exact(charge) <= declared(str(count * Decimal(repr(charge))))
    assert 10 * exact(0.1) <= declared(1.0)
    assert 10 * exact(np.float32(0.1)) <= declared(np.float32(1))


@pytest.mark.parametrize(
    ("number", "meant"),
    [
        (0.1, F(1, 10)),
        (0.3, F(3, 10)),
        (0.7, F(7, 10)),
        (np.float32(0.3), F(3, 10)),
        (1, F(1)),
        ("0.3", F(3, 10)),
        (F(1, 3), F(1, 3)),
        (np.int64(2), F(2)),
    ],
    ids=repr,
)
def test_a_budget_is_what_it_prints_as(number: Any, meant: Fraction) -> None:
    """An owner who writes 0.3 means three tenths."""
    assert meant == declared(number)


_BAD: list[Any] = [
    float("nan"),
    float("inf"),
    -float("inf"),
    np.float64("nan"),
    np.float32("inf"),
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("-Infinity"),
    "nan",
    "inf",
    "Infinity",
    "abc",
    "",
    " ",
    "1/0",
    "1,5",
    "0x10",
    "1e",
    True,
    False,
    np.True_,
    None,
    1j,
    b"1",
    [1.0],
    (1,),
    {1},
    np.array(1.0),
    np.array([1.0]),
    object(),
    float,
]


@pytest.mark.parametrize("number", _BAD, ids=[f"{i} {type(bad).__name__}" for i, bad in enumerate(_BAD)])
@pytest.mark.parametrize("read", [exact, declared, positive_epsilon, delta_in_range])
def test_what_is_no_number_is_refused(read: Callable[[Any], Fraction], number: Any) -> None:
    """NaN, infinity, words, truth values and containers are no numbers; the error carries what was given."""
    with pytest.raises(EpsilonError, match=r"^Expected a (finite )?number, got") as caught:
        read(number)

    assert caught.value.value is number or repr(caught.value.value) == repr(number)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize(
    "number", ["1e999999999", "-1E+99999", "1e-999999999", Decimal("1e999999"), Decimal("1e-999999")]
)
def test_a_short_text_does_not_fill_the_memory(number: Any) -> None:
    """Powers of ten that would take a long time to write out are refused before anybody tries."""
    with pytest.raises(EpsilonError, match="power of ten"):
        exact(number)


def test_numbers_of_any_usual_size_are_read() -> None:
    """Exponents of up to four digits are exact."""
    assert exact("1e-9999") == F(1, 10**9999)
    assert exact("2.5E+0300") == F(25) * 10**299
    assert exact(Decimal("1e-9999")) == F(1, 10**9999)


# ---- privacy parameters --------------------------------------------------------------------------------------


@given(epsilons())
def test_any_spelling_of_an_epsilon_is_read(epsilon: Any) -> None:
    """Floats, fractions, decimals and texts are taken for the same number, up to what a float can hold."""
    read = positive_epsilon(epsilon)

    assert read > 0
    assert float(read) == pytest.approx(float(F(epsilon) if isinstance(epsilon, str) else epsilon), rel=1e-15)


@pytest.mark.parametrize("epsilon", [0, 0.0, -0.0, -1, -1e-300, "0", "-1/3", Decimal(0), F(-1), np.int64(0)], ids=repr)
def test_epsilon_is_positive(epsilon: Any) -> None:
    """Zero and negative epsilons are refused, with the value and a remedy."""
    with pytest.raises(EpsilonError, match=rf"Expected epsilon > 0, got {re.escape(str(epsilon))}\. Choose"):
        positive_epsilon(epsilon)
    with pytest.raises(EpsilonError, match="Expected share > 0"):
        positive_epsilon(epsilon, "share")


@pytest.mark.parametrize("epsilon", [50.000001, 51, "1000", F(101, 2), np.int64(60)], ids=repr)
def test_an_absurd_epsilon_warns(epsilon: Any) -> None:
    """Above 50 a release hides nothing: a warning with the value, shown at the line that asked."""
    with pytest.warns(LargeEpsilonWarning, match="hides nothing") as caught:
        assert positive_epsilon(epsilon) == exact(epsilon)

    assert str(epsilon) in str(caught[0].message)
    with pytest.warns(LargeEpsilonWarning) as caught:
        ldp.RandomizedResponse(ldp.LabelSpace(["a", "b"]), epsilon)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("epsilon", [50, 50.0, "50", 8, 1e-9])
def test_an_epsilon_up_to_50_does_not_warn(epsilon: Any) -> None:
    """The border itself is silent."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        assert positive_epsilon(epsilon) <= ABSURD_EPSILON


@pytest.mark.parametrize("epsilon", [1e7, 1e9, "1e300", 10**7])
def test_an_epsilon_that_fills_the_memory_is_refused(epsilon: Any) -> None:
    """Beyond a million, e^epsilon cannot be written down: a typed error, at once."""
    with pytest.raises(EpsilonError, match="Expected epsilon <= 1000000"):
        positive_epsilon(epsilon)
    with pytest.raises(EpsilonError, match="Expected epsilon <= 1000000"):
        ldp.RandomizedResponse(ldp.LabelSpace(["a", "b"]), epsilon)


@pytest.mark.parametrize("delta", [0, 0.0, 1e-9, "1/2", F(999, 1000), Decimal("0.999"), math.nextafter(1, 0)], ids=repr)
def test_delta_lies_between_zero_and_one(delta: Any) -> None:
    """Deltas from 0 up to, but not including, 1 are read as numbers are."""
    assert delta_in_range(delta) == exact(delta)


@pytest.mark.parametrize("delta", [1, 1.0, -1e-300, 2, "1", F(-1, 10**30), Decimal("1.5")], ids=repr)
def test_other_deltas_are_refused(delta: Any) -> None:
    """1 and above would promise nothing, below 0 is no probability."""
    with pytest.raises(EpsilonError, match=r"Expected 0 <= delta < 1, got") as caught:
        delta_in_range(delta)

    assert caught.value.value == delta


# ---- bounds --------------------------------------------------------------------------------------------------

small = st.one_of(
    st.fractions(-60, 60, max_denominator=10**25),
    st.floats(-700, 700).map(F),
    st.floats(-1e-9, 1e-9).map(F),
    st.builds(lambda n, d: F(n, 10**d), st.integers(-3, 3), st.integers(0, 90)),
)


@given(small)
@example(F(0))
@example(F(1))
@example(F(1, 10**70))
@example(F(-1, 10**70))
@example(F(2, 3))
@example(F(400, 7))
@example(F(-400, 7))
def test_the_exponential_is_enclosed(x: Fraction) -> None:
    """e^x lies between the bounds, which agree in more than 57 digits."""
    low, high = exp_bounds(x)

    with mpmath.workdps(120):
        value = mpmath.exp(real(x))
        assert real(low) <= value <= real(high)
        assert real(high - low) <= value * mpmath.mpf(10) ** -57
    assert 0 < low < high


def test_extreme_exponentials_are_enclosed_at_once() -> None:
    """Up to a million the bounds are as narrow as ever; beyond, on the negative side, they reach down to 0."""
    low, high = exp_bounds(F(-(10**6)))  # log10 of it is -434294.48...
    under, over = exp_bounds(F(10**6))

    assert F(1, 10**434_295) < low < high < F(1, 10**434_294)
    assert 10**434_294 < under < over < 10**434_295
    assert high - low < low / 10**57
    assert over - under < under / 10**57
    for x in (F(-(10**6)) - F(1, 3), F(-(10**9)), F(-(10**300))):
        assert exp_bounds(x) == (0, high)


def test_an_exponential_without_bounds_is_a_typed_error() -> None:
    """Beyond e^(10^6) nothing is enclosed."""
    for x in (F(10**6) + 1, F(10**9), F(10**300)):
        with pytest.raises(EpsilonError, match="Expected an exponent"):
            exp_bounds(x)


positive = st.one_of(
    st.fractions(F(1, 10**9), 10**9, max_denominator=10**25),
    st.floats(1e-300, 1e300).map(F),
    st.builds(lambda n, d: 1 + F(n, 10**d), st.integers(-9, 9).filter(bool), st.integers(1, 90)),
    st.builds(F, st.integers(1, 2**62), st.integers(1, 2**62)),
)


@given(positive)
@example(F(1))
@example(1 + F(1, 10**59))
@example(1 - F(1, 10**59))
@example(1 + F(1, 10**70))
@example(1 - F(1, 10**70))
@example(F(2**62 - 1))
@example(F(1, 2**62))
def test_the_logarithm_is_bounded_from_both_sides(x: Fraction) -> None:
    """log_up is at or above log x and within 10^-38 of it, log_down at or below and as near."""
    above, below = log_up(x), log_down(x)

    with mpmath.workdps(200):
        value = mpmath.log(real(x))
        near = mpmath.mpf(10) ** -38
        assert real(below) <= value <= real(above)
        assert real(above) - value <= near
        assert value - real(below) <= near
    assert F(10) ** 40 % above.denominator == 0
    assert above.denominator <= 10**40


def test_the_logarithm_of_one_is_nothing() -> None:
    """At 1 both bounds are exactly 0, so that no privacy is lost where nothing is kept."""
    assert log_up(F(1)) == log_down(F(1)) == 0


@given(small)
def test_bounds_undo_each_other_in_the_safe_direction(x: Fraction) -> None:
    """The logarithm of a lower bound of e^x is never above x by more than rounding, that of an upper never below."""
    low, high = exp_bounds(x)

    assert log_down(low) <= x <= log_up(high)


@given(anything)
@example(F(1, 3 * 10**40))
@example(F(-1, 3 * 10**40))
def test_rounding_up_is_up_and_near(x: Fraction) -> None:
    """Forty places remain; the result is at or above, by less than one unit of the last."""
    rounded = round_up(x)

    assert 0 <= rounded - x < F(1, 10**40)
    assert 10**40 % rounded.denominator == 0
    assert round_up(rounded) == rounded


@given(anything)
@example(F(1, 10))
@example(LARGEST)
@example(LARGEST + 1)
@example(-LARGEST - 1)
@example(F(10) ** 400)
@example(-(F(10) ** 400))
@example(SMALLEST)
@example(SMALLEST / 2)
@example(SMALLEST / 3)
@example(-SMALLEST / 3)
@example(F(2**53 + 1))
@example(F(-(2**53)) - 1)
def test_floats_are_the_nearest_on_their_side(x: Fraction) -> None:
    """float_up is the smallest float at or above x, float_down the largest at or below, up to infinity."""
    above, below = float_up(x), float_down(x)

    assert math.isinf(above) or F(above) >= x
    assert math.isinf(below) or F(below) <= x
    if above == -math.inf or below == math.inf:
        pytest.fail("rounded past every float")
    under, over = math.nextafter(above, -math.inf), math.nextafter(below, math.inf)
    assert math.isinf(under) or F(under) < x
    assert math.isinf(over) or F(over) > x
    assert math.isfinite(above) == (x <= LARGEST)
    assert math.isfinite(below) == (x >= -LARGEST)
    assert -float_down(-x) == above


@given(floats)
def test_a_float_rounds_to_itself(number: float) -> None:
    """What a float can hold is not moved."""
    assert float_up(F(number)) == number == float_down(F(number))
    assert str(float_down(F(0))) == str(float_up(F(0))) == "0.0"


@given(anything)
@example(F(0))
@example(F(-7))
@example(exact(0.1))
@example(log_up(F(3)))
def test_numbers_survive_being_written(x: Fraction) -> None:
    """Text and back is the very same number; whole ones have no denominator."""
    text = to_text(x)

    assert from_text(text) == x
    assert ("/" in text) == (x.denominator != 1)
    assert text.isascii()


def test_rounding_does_not_depend_on_the_context_of_decimal() -> None:
    """Whatever precision and rounding a caller has set for decimals, bounds and readings are the same."""
    code = (
        "import decimal\n"
        "from fractions import Fraction as F\n"
        "from labeldp.exact import exact, exp_bounds, log_down, log_up\n"
        "def results():\n"
        "    return exp_bounds(F(2, 3)), log_up(F(7, 3)), log_down(F(10**30, 7)), exact(decimal.Decimal('0.123456789'))\n"
        "before = results()\n"
        "decimal.setcontext(decimal.Context(prec=3, rounding=decimal.ROUND_UP, Emax=9, Emin=-9))\n"
        "print(before == results())"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "True\n"
