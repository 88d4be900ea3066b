"""Discrete Gaussian noise: integers with pmf proportional to exp(-z^2 / (2 sigma^2))."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Final, final, overload

import numpy as np

from labeldp.errors import EpsilonError
from labeldp.exact import exact, from_text, to_text
from labeldp.noise import sampling
from labeldp.noise.laplace import by_magnitude, coverage_in_range, exp_minus, log_of, sample_laplace
from labeldp.noise.sampling import BitSource, RowWords, bernoulli_exp_of, draw_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Less is no noise at all; more would put the noise near the end of int64.
SMALLEST, LARGEST = Fraction(1, 1 << 20), Fraction(1 << 64)
#: Below this the interval is found by summing the pmf, above by the normal bound, at most one too wide.
_SUMMED: Final = 1 << 20
# Below this a tail is bounded, not computed.
_CHERNOFF: Final = 1e-15


@final
@dataclass(frozen=True)
class DiscreteGaussian:
    """The law P(z) proportional to exp(-z^2 / (2 ``sigma_squared``)) on the integers, with a rational parameter.

    The parameter is what privacy is computed from.  The variance of the law is a little below it, and equal to it
    in every digit of a float when it is 3 or more.

    >>> round(DiscreteGaussian(Fraction(4)).pmf(0), 9)
    0.19947114
    """

    family: ClassVar[str] = "discrete-gaussian"
    sigma_squared: Fraction

    def __post_init__(self) -> None:
        value = exact(self.sigma_squared)
        if not SMALLEST <= value <= LARGEST:
            raise EpsilonError(
                f"Expected a discrete Gaussian parameter in 2^-20 <= sigma^2 <= 2^64, got {self.sigma_squared}.",
                value=self.sigma_squared,
            )
        object.__setattr__(self, "sigma_squared", value)

    def draw(self, size: int, bits: BitSource) -> NDArray[np.int64]:
        """Draw one integer for each of the first ``size`` rows of ``bits``, which must be fresh."""
        return draw_rows(size, bits, lambda words: sample_gaussian(self.sigma_squared, words))

    @overload
    def pmf(self, z: int) -> float: ...
    @overload
    def pmf(self, z: NDArray[Any]) -> NDArray[np.float64]: ...
    def pmf(self, z: int | NDArray[Any]) -> float | NDArray[np.float64]:
        """Return the probability of an integer, or of each in an array, up to a few 10^-16 of itself."""
        return by_magnitude(z, lambda k: _weight(k, self.sigma_squared) / theta(self.sigma_squared))

    @property
    def variance(self) -> float:
        """Variance of the law."""
        s = self.sigma_squared
        if s < 1:
            weights = [(z, _weight(z, s)) for z in range(1, 12)]
            return 2 * math.fsum(z * z * weight for z, weight in weights) / theta(s)
        # Poisson summation: the sum of the weights is sqrt(2 pi s) Theta(s), Theta = 1 + 2 sum_k exp(-2 pi^2 k^2 s),
        # and the variance is 2 s^2 d/ds log of it.
        terms = [2 * math.exp(-2 * (math.pi * k) ** 2 * s) for k in (1, 2)]
        slope = -2 * math.pi**2 * (terms[0] + 4 * terms[1])
        return float(s) + 2 * float(s) ** 2 * slope / (1 + sum(terms))

    def interval(self, coverage: object) -> tuple[int, int]:
        """Return the shortest (-k, k) which holds the noise with probability ``coverage`` or more.

        Beyond sigma = 2^10 it may be one wider than the shortest, and somewhat wider for a coverage above 1 - 10^-15.
        """
        lost = 1 - coverage_in_range(coverage)
        miss, sigma = float(lost), math.sqrt(self.sigma_squared)
        if miss < _CHERNOFF:
            # P(|Z| > k) <= 2 exp(-k^2 / (2 sigma^2)): discrete Gaussians are subgaussian with their own parameter.
            k = math.ceil(sigma * math.sqrt(2 * (math.log(2) - log_of(lost))))
            return -k, k
        # P(|Z| > k) <= 2 (1 - Phi(k/sigma)): a tail sum of a falling function is below its integral, and the sum of
        # all weights is at least sqrt(2 pi) sigma.
        k = math.ceil(-NormalDist().inv_cdf(miss / 2) * sigma)
        if self.sigma_squared > _SUMMED:
            return -k, k
        z = np.arange(1, k + 40 * math.ceil(sigma) + 2, dtype=np.float64)
        tails = np.cumsum(np.exp(-z * z / (2 * float(self.sigma_squared)))[::-1])[::-1]
        # tails[k] = sum over z > k; it falls, so the first k that is good is the least.
        k = int(np.flatnonzero(2 * tails <= miss * theta(self.sigma_squared))[0])
        return -k, k

    def to_json(self) -> dict[str, Any]:
        """Return the law as plain data."""
        return {"family": self.family, "sigma_squared": to_text(self.sigma_squared)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> DiscreteGaussian:
        """Read what :meth:`to_json` wrote."""
        return cls(from_text(data["sigma_squared"]))


def sample_gaussian(sigma_squared: Fraction, words: RowWords) -> NDArray[np.int64]:
    """Draw z with pmf proportional to exp(-z^2 / (2 sigma^2)) for every row of ``words`` (Algorithm 3)."""
    p, q = sigma_squared.numerator, sigma_squared.denominator
    t = math.isqrt(p // q) + 1
    # A discrete Laplace y with parameter 1/t is kept with probability exp(-x), where
    #   x = (|y| - sigma^2/t)^2 / (2 sigma^2) = (|y| t q - p)^2 / (2 p q t^2).
    denominator = 2 * p * q * t * t
    kind = object if denominator > sampling.NARROW else np.int64
    out = np.zeros(len(words), np.int64)
    pending = np.arange(len(words))
    while len(pending):
        y = sample_laplace(1, t, words, pending)
        # x is a function of |y|: exact integers once for each distinct |y|.
        sizes, where = np.unique(np.abs(y), return_inverse=True)
        numerator = (sizes.astype(object) * (t * q) - p) ** 2
        # The conversion fails aloud if it does not fit; x <= 2^20 (|y|/t + 1)^2, and |y|/t counts flips made in turn.
        whole = (numerator // denominator).astype(np.int64)
        part = (numerator % denominator).astype(kind)
        kept = bernoulli_exp_of(whole[where], part[where], denominator, words, pending)
        out[pending[kept]] = y[kept]
        pending = pending[~kept]
    return out


@lru_cache(maxsize=64)
def theta(sigma_squared: Fraction) -> float:
    """Return the sum over all integers of exp(-z^2 / (2 sigma^2)), up to a few 10^-16 of itself."""
    if sigma_squared < 1:
        return math.fsum([1.0] + [2 * _weight(z, sigma_squared) for z in range(1, 12)])
    # Poisson summation: sqrt(2 pi sigma^2) (1 + 2 sum_k exp(-2 pi^2 k^2 sigma^2)).
    terms = [2 * math.exp(-2 * (math.pi * k) ** 2 * sigma_squared) for k in (1, 2)]
    return math.sqrt(2 * math.pi * sigma_squared) * (1 + sum(terms))


def _weight(z: int, sigma_squared: Fraction) -> float:
    return exp_minus(z * z / (2 * sigma_squared))
