"""Exact coin flips out of 64-bit words: uniform integers, and Bernoulli(exp(-x)) for a rational x.

The samplers are those of Canonne, Kamath and Steinke, *The Discrete Gaussian for Differential Privacy*
(NeurIPS 2020), over whole arrays of rows at a time.  Nothing is rounded and no float occurs: what is drawn is
exactly what is declared.  Rejected attempts take time, which depends on public parameters and coins only.

Every row reads a stream of its own (:class:`RowWords`): word 0, 1, 2, ... of that row, each once.  A row's draw
therefore does not depend on which other rows are drawn with it.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, Protocol, final

import numpy as np

from labeldp.errors import EpsilonError, ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORD_BITS: Final = 64
#: Integers below this bound live in int64 arrays; larger ones in object arrays of Python integers.
NARROW: Final = 1 << 63
#: Words fetched at a time for a row: most draws need no second helping.
_FETCH: Final = 16
#: Rows drawn together: their words stay within a few megabytes.
_ROWS_PER_STEP: Final = 1 << 15


class BitSource(Protocol):
    """Uniform 64-bit words of numbered rows: a :class:`labeldp.coins.RowBits`, or a fake one in a test."""

    def __len__(self) -> int:
        """Number of rows."""

    def words(self, word: int, rows: NDArray[np.int64], /) -> NDArray[np.uint64]:
        """Return word number ``word`` of each of ``rows``."""


@final
class RowWords:
    """The words of rows ``start`` .. ``stop``: each row's in order, each read once.

    Rows are named by their place within the range.
    """

    __slots__ = ("_bits", "_buffer", "_fetched", "_left", "_rows")

    def __init__(self, bits: BitSource, start: int, stop: int) -> None:
        self._bits = bits
        self._rows = np.arange(start, stop, dtype=np.int64)
        self._buffer = np.empty((_FETCH, stop - start), np.uint64)
        self._left = np.zeros(stop - start, np.int64)
        self._fetched = np.zeros(stop - start, np.int64)

    def __len__(self) -> int:
        return len(self._rows)

    def take(self, rows: NDArray[np.int64]) -> NDArray[np.uint64]:
        """Return the next word of each of ``rows``, which are distinct."""
        left = self._left[rows]
        if not left.all():
            self._fetch()
            left = self._left[rows]
        self._left[rows] = left - 1
        return self._buffer[left - 1, rows]

    def _fetch(self) -> None:
        # Every row that has run dry, asked for or not: when a word is fetched does not change its value.
        dry = np.flatnonzero(self._left == 0)
        for fetched in np.unique(self._fetched[dry]):
            rows = dry[self._fetched[dry] == fetched]
            for place in range(_FETCH):
                # Read from the top of the buffer downwards.
                self._buffer[_FETCH - 1 - place, rows] = self._bits.words(int(fetched) + place, self._rows[rows])
        self._left[dry] = _FETCH
        self._fetched[dry] += _FETCH


def draw_rows(size: int, bits: BitSource, sample: Callable[[RowWords], NDArray[np.int64]]) -> NDArray[np.int64]:
    """Draw rows 0 .. ``size`` - 1 of ``bits``, a cache-sized step at a time."""
    if not 0 <= size <= len(bits):
        raise ShapeError(f"Expected 0 <= size <= {len(bits)} rows of bits, got size={size}.", size=size)
    out = np.empty(size, np.int64)
    for start in range(0, size, _ROWS_PER_STEP):
        stop = min(start + _ROWS_PER_STEP, size)
        out[start:stop] = sample(RowWords(bits, start, stop))
    return out


def uniform_below(bound: int, words: RowWords, rows: NDArray[np.int64]) -> NDArray[Any]:
    """Draw a uniform integer below ``bound`` for each of ``rows``: int64 if they fit, else Python integers.

    Exact by rejection: a uniform b-bit integer is kept iff it lies below the largest multiple of ``bound``, and
    then taken modulo ``bound``.
    """
    if bound < 1:
        raise ValueError(bound)
    wide = bound > NARROW
    if bound == 1:
        return np.zeros(len(rows), object if wide else np.int64)
    count = -(-(bound - 1).bit_length() // _WORD_BITS)
    last = (1 << _WORD_BITS * count) // bound * bound - 1
    out: NDArray[Any] = np.empty(len(rows), object if wide else np.int64)
    pending = np.arange(len(rows))
    while len(pending):
        value: NDArray[Any] = words.take(rows[pending])
        if wide:
            value = value.astype(object)
            for _ in range(count - 1):
                value = (value << _WORD_BITS) | words.take(rows[pending]).astype(object)
            out[pending] = value % bound
            pending = pending[value > last]
        else:
            out[pending] = value % np.uint64(bound)
            pending = pending[value > np.uint64(last)]
    return out


def bernoulli_exp(
    numerator: NDArray[Any], denominator: int, words: RowWords, rows: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Draw Bernoulli(exp(-x)) for each of ``rows``, where x = ``numerator`` / ``denominator`` >= 0 (Algorithm 1)."""
    if denominator > NARROW:
        numerator = numerator.astype(object)
    return bernoulli_exp_of(numerator // denominator, numerator % denominator, denominator, words, rows)


def bernoulli_exp_of(
    whole: NDArray[Any], part: NDArray[Any], denominator: int, words: RowWords, rows: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Draw Bernoulli(exp(-x)), x = ``whole`` + ``part`` / ``denominator``, as exp(-1)^whole exp(-part/denominator)."""
    result = np.ones(len(rows), np.bool_)
    left = whole.copy()
    active = np.flatnonzero(left > 0)
    while len(active):
        flips = _bernoulli_exp_unit(np.ones(len(active), np.int64), 1, words, rows[active])
        result[active] = flips
        active = active[flips]
        left[active] -= 1
        active = active[left[active] > 0]
    # exp(0) = 1 needs no coin.
    active = np.flatnonzero(result & (part > 0))
    result[active] = _bernoulli_exp_unit(part[active], denominator, words, rows[active])
    return result


def unit_exponentials(words: RowWords, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Count for each of ``rows`` how many Bernoulli(exp(-1)) flips succeed before the first fails."""
    count = np.zeros(len(rows), np.int64)
    active = np.arange(len(rows))
    while len(active):
        active = active[_bernoulli_exp_unit(np.ones(len(active), np.int64), 1, words, rows[active])]
        count[active] += 1
    return count


def _bernoulli_exp_unit(
    numerator: NDArray[Any], denominator: int, words: RowWords, rows: NDArray[np.int64]
) -> NDArray[np.bool_]:
    # Algorithm 1 for 0 <= x <= 1: flip Bernoulli(x/k) for k = 1, 2, ... until one fails; the first failure has an
    # odd number with probability 1 - x + x^2/2! - ... = exp(-x).
    odd = np.ones(len(rows), np.bool_)
    active = np.arange(len(rows))
    k = 1
    while len(active):
        # Bernoulli(x/k): a uniform integer below k * denominator is below the numerator.
        below = uniform_below(k * denominator, words, rows[active]) < numerator[active]
        active = active[below]
        odd[active] = ~odd[active]
        k += 1
    return odd


def rational_at_most(x: Fraction, bits: int = 32) -> Fraction:
    """Return the largest rational <= ``x`` whose denominator is at most 2^``bits``.

    Rounds down, so a mechanism that uses it in place of an asked epsilon never exceeds what was asked; a simple
    ``x`` such as 1/10 stays itself.  The relative error is at most 1 / (2^bits - 1/x): below 10^-9 for 32 bits and
    x >= 2^-30.
    """
    if x <= 0:
        raise EpsilonError(f"Expected a positive number, got {x}.", value=x)
    limit = 1 << bits
    if x.denominator <= limit:
        return x
    # Convergents of the continued fraction: the last one that fits and the last semiconvergent that fits are the
    # neighbours of x among all rationals with denominators up to the limit, one on either side.
    p0, q0, p1, q1 = 0, 1, 1, 0
    numerator, denominator = x.numerator, x.denominator
    while True:
        digit, rest = divmod(numerator, denominator)
        if q0 + digit * q1 > limit:
            break
        p0, q0, p1, q1 = p1, q1, p0 + digit * p1, q0 + digit * q1
        numerator, denominator = denominator, rest
    steps = (limit - q0) // q1
    below = min(Fraction(p1, q1), Fraction(p0 + steps * p1, q0 + steps * q1))
    if below == 0:
        raise EpsilonError(
            f"Expected a parameter of at least 2^-{bits}, got {float(x):.3g}. Choose a larger epsilon.", value=x
        )
    return below


def round_up_to(x: Fraction, bits: int) -> Fraction:
    """Return a rational >= ``x`` with few digits: ``x`` itself if simple, else ``x`` rounded up to ``bits`` bits."""
    if max(x.numerator, x.denominator).bit_length() <= bits:
        return x
    step = grid_step(x, bits)
    return -(-x // step) * step


def grid_step(x: Fraction, bits: int) -> Fraction:
    """Return the power of two of which ``x`` is between 2^(bits-2) and 2^bits multiples."""
    exponent = x.numerator.bit_length() - x.denominator.bit_length() - bits + 1
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)
