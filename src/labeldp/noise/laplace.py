"""Discrete Laplace noise: integers with pmf proportional to exp(-a |z|)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar, Final, final, overload

import numpy as np

from labeldp.errors import EpsilonError
from labeldp.exact import exact, exp_bounds, from_text, to_text
from labeldp.noise import sampling
from labeldp.noise.sampling import BitSource, RowWords, bernoulli_exp, draw_rows, uniform_below, unit_exponentials

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: A smaller parameter would put the noise near the end of int64, a larger one is no noise at all.
SMALLEST, LARGEST = Fraction(1, 1 << 32), Fraction(1 << 16)

# e^-x is zero as a float beyond this.
_VANISHES: Final = 760
_DIGITS: Final = Context(prec=34)


@final
@dataclass(frozen=True)
class DiscreteLaplace:
    """The law P(z) = tanh(a/2) exp(-a |z|) on the integers, with a rational ``a``.

    One integer moved by 1 under this noise has privacy loss exactly +a or -a.

    >>> DiscreteLaplace(Fraction(1, 2)).pmf(0)
    0.24491866240370913
    """

    family: ClassVar[str] = "discrete-laplace"
    a: Fraction

    def __post_init__(self) -> None:
        a = exact(self.a)
        if not SMALLEST <= a <= LARGEST:
            raise EpsilonError(
                f"Expected a discrete Laplace parameter in 2^-32 <= a <= 2^16, got {self.a}.", value=self.a
            )
        object.__setattr__(self, "a", a)

    def draw(self, size: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw one integer for each of the first ``size`` rows of ``bits``, which must be fresh."""
        return draw_rows(
            size,
            bits,
            lambda words: sample_laplace(self.a.numerator, self.a.denominator, words, np.arange(len(words))),
        )

    @overload
    def pmf(self, z: int) -> float: ...
    @overload
    def pmf(self, z: NDArray[Any]) -> NDArray[np.float64]: ...
    def pmf(self, z: int | NDArray[Any]) -> float | NDArray[np.float64]:
        """Return the probability of an integer, or of each in an array, up to a few 10^-16 of itself."""
        return by_magnitude(z, lambda k: _mass(self.a, k))

    @property
    def variance(self) -> float:
        """Variance 2 e^-a / (1 - e^-a)^2."""
        a = float(self.a)
        return 2 * math.exp(-a) / math.expm1(-a) ** 2

    def interval(self, coverage: object) -> tuple[int, int]:
        """Return the shortest (-k, k) which holds the noise with probability ``coverage`` or more."""
        miss = 1 - coverage_in_range(coverage)
        guess = (math.log(2) - log_of(miss) - math.log1p(math.exp(-self.a))) / float(self.a) - 1
        k = max(math.ceil(guess), 0)
        while self._tail_above(k) > miss:
            k += 1
        while k > 0 and self._tail_above(k - 1) <= miss:
            k -= 1
        return -k, k

    def to_json(self) -> dict[str, Any]:
        """Return the law as plain data."""
        return {"family": self.family, "a": to_text(self.a)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> DiscreteLaplace:
        """Read what :meth:`to_json` wrote."""
        return cls(from_text(data["a"]))

    def _tail_above(self, k: int) -> Fraction:
        # P(|Z| > k) = 2 e^{-a(k+1)} / (1 + e^-a), rounded up.
        return 2 * exp_bounds(-self.a * (k + 1))[1] / (1 + exp_bounds(-self.a)[0])


def sample_laplace(s: int, t: int, words: RowWords, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Draw z with pmf proportional to exp(-|z| s / t) for each of ``rows`` (Algorithm 2)."""
    out = np.zeros(len(rows), np.int64)
    pending = np.arange(len(rows))
    while len(pending):
        at = rows[pending]
        size = _magnitude(s, t, words, at)
        negative = uniform_below(2, words, at) == 1
        out[pending] = np.where(negative, -size, size)
        # Zero has one sign only.
        pending = pending[negative & (size == 0)]
    return out


def _magnitude(s: int, t: int, words: RowWords, rows: NDArray[np.int64]) -> NDArray[np.int64]:
    # u is uniform below t, kept with probability exp(-u/t); v is geometric with ratio exp(-1).  Then x = u + t v is
    # geometric with ratio exp(-1/t), and floor(x/s) with ratio exp(-s/t).
    u: NDArray[Any] = np.zeros(len(rows), object if t > sampling.NARROW else np.int64)
    pending = np.arange(len(rows))
    while len(pending):
        u[pending] = uniform_below(t, words, rows[pending])
        pending = pending[~bernoulli_exp(u[pending], t, words, rows[pending])]
    v = unit_exponentials(words, rows)
    if t * (int(v.max(initial=0)) + 1) > sampling.NARROW or s > sampling.NARROW:
        u, v = u.astype(object), v.astype(object)
    # x/s < (v+1) / a <= 2^32 (v+1), and v counts flips that were made one after the other: it fits int64.
    size: NDArray[np.int64] = ((u + t * v) // s).astype(np.int64)
    return size


@overload
def by_magnitude(z: int, mass: Callable[[int], float]) -> float: ...
@overload
def by_magnitude(z: NDArray[Any], mass: Callable[[int], float]) -> NDArray[np.float64]: ...
@overload
def by_magnitude(z: int | NDArray[Any], mass: Callable[[int], float]) -> float | NDArray[np.float64]: ...
def by_magnitude(z: int | NDArray[Any], mass: Callable[[int], float]) -> float | NDArray[np.float64]:
    """Evaluate a symmetric mass function at an integer, or at the distinct magnitudes of an array."""
    if not isinstance(z, np.ndarray):
        return mass(abs(int(z)))
    sizes, where = np.unique(np.abs(z), return_inverse=True)
    values = np.array([mass(int(k)) for k in sizes], np.float64)
    return values[where].reshape(z.shape)


def coverage_in_range(coverage: object) -> Fraction:
    """Validate a coverage: a number strictly between 0 and 1."""
    value = exact(coverage)
    if not 0 < value < 1:
        raise EpsilonError(f"Expected 0 < coverage < 1, got {coverage}.", value=coverage)
    return value


def log_of(x: Fraction) -> float:
    """Return log x as a float, also where x itself is none."""
    return math.log(x.numerator) - math.log(x.denominator)


def exp_minus(x: Fraction) -> float:
    """Return e^-x, rounded once: 34 digits, and then to a float."""
    if x > _VANISHES:
        return 0.0
    return float(_DIGITS.exp(_DIGITS.divide(Decimal(-x.numerator), Decimal(x.denominator))))


def _mass(a: Fraction, k: int) -> float:
    return math.tanh(a / 2) * exp_minus(a * k)
