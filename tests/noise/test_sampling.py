"""Facts about the exact coin flips under all noise."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.errors import EpsilonError, ShapeError
from labeldp.noise import sampling
from labeldp.noise.sampling import (
    RowWords,
    bernoulli_exp,
    draw_rows,
    grid_step,
    rational_at_most,
    round_up_to,
    uniform_below,
)
from tests.noise.helpers import ALPHA, FakeBits, seeded_bits


def _words(rows: int, seed: int = 1) -> RowWords:
    return RowWords(seeded_bits(rows, seed), 0, rows)


def _normal_tail(hits: int, rows: int, p: float) -> float:
    return math.erfc(abs(hits - rows * p) / math.sqrt(2 * rows * p * (1 - p)))


def test_a_row_reads_its_words_in_order_and_each_once() -> None:
    """However the reads of rows interleave, row r gets word 0, 1, 2, ... of row r."""
    bits, order = FakeBits(3), [np.array(rows) for rows in ([0, 1, 2], [1], [1, 2], [1], [0, 1])]
    words, got = RowWords(bits, 0, 3), [list[int]() for _ in range(3)]
    for _ in range(9):
        for rows in order:
            for row, word in zip(rows, words.take(rows), strict=True):
                got[row].append(int(word))
    fresh = FakeBits(3)

    assert [18, 45, 18] == [len(row) for row in got]
    assert got == [[int(fresh.words(w, np.array([r]))[0]) for w in range(len(got[r]))] for r in range(3)]
    assert 1 == max(bits.read.values())


@given(bound=st.one_of(st.integers(1, 100), st.integers(2**62, 2**70), st.integers(1, 2**200)))
def test_uniform_integers_stay_below_their_bound(bound: int) -> None:
    """0 <= u < n, as int64 wherever n fits, as Python integers beyond."""
    drawn = uniform_below(bound, _words(50), np.arange(50))

    assert all(0 <= int(value) < bound for value in drawn)
    assert (drawn.dtype == object) == (bound > 2**63)


@pytest.mark.parametrize("bound", [1, 2, 3, 7, 10])
def test_uniform_integers_are_uniform(bound: int) -> None:
    """Every integer below n is as likely as any other."""
    from scipy.stats import chisquare

    counts = np.bincount(uniform_below(bound, _words(50_000), np.arange(50_000)), minlength=bound)

    assert len(counts) == bound
    assert bound == 1 or chisquare(counts).pvalue > ALPHA


@pytest.mark.parametrize(("power", "crooked"), [(61, 3 / 8), (62, 1 / 2)])
def test_uniform_rejects_the_incomplete_multiple(power: int, crooked: float) -> None:
    """For n = 3 * 2^power a quarter of all words is rejected and thirds are equally likely; a bare modulo is not."""
    rows = 40_000
    drawn = uniform_below(3 << power, _words(rows), np.arange(rows))
    first = int((drawn < (1 << power)).sum())

    assert _normal_tail(first, rows, 1 / 3) > ALPHA
    assert _normal_tail(first, rows, crooked) < ALPHA


def test_uniform_integers_of_many_words_fill_their_range() -> None:
    """Above 64 bits the leading word counts too: the mean of u/n is one half."""
    bound, rows = 10**30 + 57, 20_000
    mean = float(sum(Fraction(int(u), bound) for u in uniform_below(bound, _words(rows), np.arange(rows))) / rows)

    assert abs(mean - 0.5) < 6.2 * math.sqrt(1 / 12 / rows)


@pytest.mark.parametrize(
    "x",
    [
        Fraction(0),
        Fraction(1, 3),
        Fraction(1),
        Fraction(3, 2),
        Fraction(2),
        Fraction(22, 7),
        Fraction(10**25, 3 * 10**25 + 1),
    ],
)
def test_bernoulli_exp_has_probability_exp_minus_x(x: Fraction) -> None:
    """The flip succeeds with probability exp(-x); one ten per cent off is told apart."""
    rows = 60_000
    numerator = np.full(rows, x.numerator, object if x.numerator >= 2**63 else np.int64)
    hits = int(bernoulli_exp(numerator, x.denominator, _words(rows), np.arange(rows)).sum())

    if x == 0:
        assert hits == rows
    else:
        assert _normal_tail(hits, rows, math.exp(-x)) > ALPHA
        assert _normal_tail(hits, rows, math.exp(-x * Fraction(6, 5))) < ALPHA


def test_bernoulli_exp_takes_another_x_for_each_row() -> None:
    """Rows with different x do not mix."""
    rows = 60_000
    numerator = np.arange(rows) % 3
    flips = bernoulli_exp(numerator, 2, _words(rows), np.arange(rows))

    assert [True, True, True] == [
        _normal_tail(int(flips[numerator == k].sum()), rows // 3, math.exp(-k / 2)) > ALPHA
        if k
        else flips[numerator == 0].all()
        for k in range(3)
    ]


@given(
    numerators=st.lists(st.integers(0, 10**6), min_size=1, max_size=30),
    denominator=st.integers(1, 10**6),
    seed=st.integers(0, 99),
)
def test_python_integers_flip_as_int64_does(numerators: list[int], denominator: int, seed: int) -> None:
    """The path for large integers gives the same flips on the same coins."""
    rows = np.arange(len(numerators))
    numerator = np.array(numerators)
    narrow = bernoulli_exp(numerator, denominator, _words(len(rows), seed), rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "NARROW", 0)
        wide = bernoulli_exp(numerator, denominator, _words(len(rows), seed), rows)

    assert narrow.tolist() == wide.tolist()


@pytest.mark.parametrize("size", [-1, 11])
def test_more_rows_than_bits_are_refused(size: int) -> None:
    """A draw never goes beyond the rows it has bits for."""
    with pytest.raises(ShapeError, match="10 rows of bits"):
        draw_rows(size, FakeBits(10), lambda words: np.zeros(len(words), np.int64))


def test_nothing_is_drawn_for_no_rows() -> None:
    """Size 0 is an empty array, not an error."""
    assert draw_rows(0, FakeBits(0), lambda words: np.zeros(len(words), np.int64)).tolist() == []


_positive = st.fractions(min_value=Fraction(1, 1000), max_value=60)


@given(x=_positive, bits=st.integers(11, 14))
def test_rational_at_most_is_the_largest_one(x: Fraction, bits: int) -> None:
    """No rational with a denominator up to 2^bits lies between the result and x."""
    result = rational_at_most(x, bits)
    best = max(Fraction(math.floor(x * q), q) for q in range(1, 2**bits + 1)) if bits < 12 else result

    assert best == result <= x
    assert result.denominator <= 2**bits


@given(x=st.fractions(min_value=Fraction(1, 2**30), max_value=2**16, max_denominator=10**40))
def test_rational_at_most_loses_less_than_a_billionth(x: Fraction) -> None:
    """It never exceeds x, and stays within 10^-9 of it."""
    result = rational_at_most(x)

    assert x * (1 - Fraction(1, 10**9)) <= result <= x
    assert result.denominator <= 2**32


@pytest.mark.parametrize("x", [Fraction(1, 10), Fraction(1), Fraction(7, 3), Fraction(50), Fraction(1, 2**32)])
def test_simple_rationals_stay_themselves(x: Fraction) -> None:
    """1/10 stays 1/10."""
    assert rational_at_most(x) == x


@pytest.mark.parametrize("x", [Fraction(0), Fraction(-1), Fraction(1, 2**33)])
def test_what_cannot_be_rounded_down_to_a_positive_rational_is_refused(x: Fraction) -> None:
    """Zero is no parameter."""
    with pytest.raises(EpsilonError):
        rational_at_most(x)


@given(x=st.fractions(min_value=Fraction(1, 10**12), max_value=10**12), bits=st.integers(8, 40))
def test_round_up_to_few_bits_goes_up_by_one_step_at_most(x: Fraction, bits: int) -> None:
    """Rounded up, never down, by less than one part in 2^(bits-2)."""
    result, step = round_up_to(x, bits), grid_step(x, bits)

    assert x <= result < x + step
    assert 2 ** (bits - 2) <= x / step < 2**bits
