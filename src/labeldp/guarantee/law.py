"""Laws of a privacy loss on finitely many points: hockey stick, convolution, and chords.

A law belongs to a pair (P, Q) of output distributions: it says how log P/Q is distributed under P.  A law
*dominates* a mechanism when its hockey stick ``delta(epsilon) = sum_o (P(o) - e^epsilon Q(o))_+`` is nowhere below
that of any two neighbours, in either order, for any real epsilon; convolutions of dominating laws dominate adaptive
compositions.  All laws here are of symmetric pairs: swapping P and Q gives the same law.

Floating point: a law's numbers are relatively accurate to some 2^-50, and every method adds what its own rounding can
amount to, so that results are never too small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from labeldp.errors import EpsilonError, InputError
from labeldp.exact import float_up

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Composed laws of more points than this are left to the accountant.
LARGEST_SUPPORT: Final = 200_000
#: At most this many points stand for a curve of which only values are known.
LARGEST_CHORD: Final = 1024

_LARGEST_PRODUCT: Final = 4_000_000
_ROUNDING: Final = 2.0**-53
_SUM_ERROR: Final = 64 * _ROUNDING
_SAME_LOSS: Final = 2.0**-44
_MISSING_MASS: Final = 1e-12
_TINY: Final = 1e-300
_LARGEST_LOSS: Final = 700.0
_HEIGHT_SLACK: Final = 1 + 2.0**-41
_CURVE_POINTS: Final = 513
_LEAST_GAP: Final = 1e-10
_NEGLIGIBLE: Final = 1e-18


@final
@dataclass(frozen=True)
class LossLaw:
    """Law of the privacy loss log P/Q under P: finite losses with their probabilities, and the mass at infinity.

    Whoever writes one rounds losses up and puts cut tails into ``infinity``.

    >>> law = LossLaw((-1.0, 1.0), (0.25, 0.75))
    >>> round(law.delta(0.5), 4)
    0.2951
    """

    losses: tuple[float, ...]
    probs: tuple[float, ...]
    infinity: float = 0.0

    def __post_init__(self) -> None:
        losses = np.asarray(self.losses, np.float64).ravel()
        probs = np.asarray(self.probs, np.float64).ravel()
        infinity = float(self.infinity)
        if losses.shape != probs.shape:
            raise InputError(f"Expected one probability for each loss, got {probs.size} for {losses.size}.", law=self)
        if not (np.isfinite(losses).all() and (probs >= 0).all() and 0 <= infinity <= 1):
            raise InputError("Expected finite losses and probabilities between 0 and 1.", law=self)
        total = math.fsum((*probs.tolist(), infinity))
        if not abs(total - 1) <= _MISSING_MASS:
            raise InputError(
                f"Expected probabilities that sum to 1, got {total}. A cut tail belongs into infinity.", law=self
            )
        with np.errstate(over="ignore"):
            other = float((probs * np.exp(-losses)).sum())
        if other > 1 + 1e-9:
            raise InputError(
                f"Expected losses of two laws, but the second would have the mass {other}: some loss is too small.",
                law=self,
            )
        order = np.argsort(losses, kind="stable")
        object.__setattr__(self, "losses", tuple(losses[order].tolist()))
        object.__setattr__(self, "probs", tuple(probs[order].tolist()))
        object.__setattr__(self, "infinity", infinity)

    def delta(self, epsilon: float) -> float:
        """Return the hockey stick at any real ``epsilon``, rounded up."""
        return Spectrum.of(self).delta(epsilon)

    def renyi(self, alpha: float) -> float:
        """Return the Renyi divergence of order ``alpha`` >= 1, rounded up; infinite when there is mass at infinity."""
        if self.infinity > 0:
            return math.inf
        return renyi_of_losses(np.asarray(self.losses)[None], np.asarray(self.probs)[None], alpha)

    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` reads."""
        return {"losses": list(self.losses), "probs": list(self.probs), "infinity": self.infinity}

    @staticmethod
    def from_json(data: dict[str, Any]) -> LossLaw:
        """Read what :meth:`to_json` wrote."""
        return LossLaw(tuple(data["losses"]), tuple(data["probs"]), data["infinity"])


def binary_response_law(epsilon: Fraction | float) -> LossLaw:
    """Return the law of binary randomised response, which dominates every pure ``epsilon``-DP mechanism.

    Kairouz, Oh and Viswanath (2015): any such pair is a post-processing of this one.

    >>> binary_response_law(1).losses
    (-1.0, 1.0)
    """
    loss = _nonnegative(epsilon)
    low, high = _two_sides(loss)
    return LossLaw((-loss, loss), (low, high))


def one_bin_laplace_law(a: Fraction | float) -> LossLaw:
    """Return the law of a count that moves by one under discrete Laplace noise, pmf proportional to e^(-a|z|).

    Its loss is a or -a and nothing between, as in binary randomised response (ERRATA A1).

    >>> one_bin_laplace_law(0.5) == binary_response_law(0.5)
    True
    """
    return binary_response_law(a)


def two_bin_laplace_law(a: Fraction | float) -> LossLaw:
    """Return the law of two counts that each move by one under discrete Laplace noise of parameter ``a`` (ERRATA A1).

    The loss is 2a, 0 or -2a, and ``delta(eps) = (1 - e^(eps-2a)) (e^a / (1+e^a))^2`` for 0 <= eps < 2a.

    >>> round(two_bin_laplace_law(0.5).delta(0.3), 9)
    0.195050853
    """
    loss = 2 * _nonnegative(a)
    low, high = _two_sides(loss / 2)
    return LossLaw((-loss, 0.0, loss), (low * low, 2 * low * high, high * high))


@final
@dataclass(frozen=True, eq=False)
class Spectrum:
    """A law as arrays sorted by loss; losses are upper bounds, ``error`` bounds what rounding did to probabilities."""

    losses: Floats
    probs: Floats
    infinity: float
    error: float

    @staticmethod
    def of(law: LossLaw) -> Spectrum:
        """Return the arrays of a law."""
        losses = np.asarray(law.losses, np.float64)
        reach = float(np.abs(losses).max(initial=1.0))
        return Spectrum(losses, np.asarray(law.probs, np.float64), law.infinity, 8 * _ROUNDING * reach)

    def law(self) -> LossLaw:
        """Return the law, made larger by its error bound: each atom grows, the smallest losses pay for it."""
        probs = _of_mass_one(self.probs * (1 + self.error), self.infinity)
        kept = probs > 0
        return LossLaw(tuple(self.losses[kept].tolist()), tuple(probs[kept].tolist()), self.infinity)

    def delta(self, epsilon: float) -> float:
        """Return ``infinity + sum_l p(l) (1 - e^(epsilon-l))_+``, rounded up."""
        start = int(np.searchsorted(self.losses, epsilon, side="right"))
        mass = self.probs[start:]
        if not mass.size:
            return min(self.infinity, 1.0)
        finite = float((mass * -np.expm1(epsilon - self.losses[start:])).sum())
        margin = float(mass.sum()) * (_SUM_ERROR + self.error) + _TINY
        return min(self.infinity * (1 + 4 * _ROUNDING) + finite + margin, 1.0)


def compose(laws: Iterable[tuple[LossLaw, int]]) -> Spectrum | None:
    """Convolve each law as many times as said, exactly; None when the support grows beyond all bounds."""
    powers = []
    for law, times in laws:
        power = _power(Spectrum.of(law), times)
        if power is None:
            return None
        powers.append(power)
    powers.sort(key=lambda spectrum: spectrum.losses.size)
    product: Spectrum | None = powers[0]
    for power in powers[1:]:
        product = _convolve(product, power)
        if product is None:
            return None
    return product


def chord_law(points: Floats, heights: Floats) -> LossLaw:
    """Return a law of a symmetric pair whose hockey stick lies on or above every curve that is below ``heights``.

    ``points`` are epsilons, ascending from 0; ``heights`` bound there a hockey stick (or a supremum of them) that
    is the same in both orders of each pair; the last height becomes the mass at infinity.

    Why it dominates: in t = e^epsilon every hockey stick ``sum (P - tQ)_+`` is convex, decreasing, and 1 at t = 0;
    so is a supremum of them, and a convex function lies below its chords.  The lower convex hull of points on or
    above it still lies above it, because the function itself is one of the convex minorants whose largest the hull
    is.  Conversely each convex polygon of this kind is the hockey stick of a law: its slope is -Q(loss > eps), so a
    kink of size q is an atom with mass q under Q and t q under P.  The part below epsilon = 0 is the mirror image,
    ``delta(-eps) = 1 - e^-eps + e^-eps delta(eps)``; where heights at 0 are too crude for that image, the chord
    through both halves, which is flat in ``(1-w) delta + w``, w = tanh(eps/2), lowers them.
    """
    points = np.append(points[:-1], max(points[-1], _LEAST_GAP)) if points.size > 1 else points
    gaps = np.diff(points, append=math.inf)
    keep = (points <= _LARGEST_LOSS) & ((points == 0) | ((gaps > _LEAST_GAP) & (points >= _LEAST_GAP)))
    points, heights = points[keep], np.minimum(np.minimum.accumulate(heights), 1.0)[keep]
    infinity = float(heights[-1])
    heights = np.where(heights > infinity, np.minimum(heights * _HEIGHT_SLACK, 1.0), infinity)
    middle = np.tanh(points / 2)
    heights[0] = float(np.min((1 - middle) * heights + middle))
    times = np.exp(points)
    corners = _lower_hull(times, heights)
    slopes = np.append(np.diff(heights[corners]) / np.diff(times[corners]), 0.0)
    above = corners[1:]
    second = np.maximum(np.diff(slopes), 0.0)
    first = second * times[above]
    losses = points[above]
    kept = first > 0
    first, second, losses = first[kept], second[kept], losses[kept]
    centre = max(1.0 - infinity - math.fsum((*first.tolist(), *second.tolist())), 0.0)
    probs = _of_mass_one(np.concatenate([second[::-1], [centre], first]), infinity)
    return LossLaw(tuple(np.concatenate([-losses[::-1], [0.0], losses]).tolist()), tuple(probs.tolist()), infinity)


def curve_law(delta: Callable[[float], float], top: float | None) -> LossLaw:
    """Return a dominating law of a loss of which only the curve ``delta(epsilon)`` is known; ``top`` if it is pure."""
    if top is None:
        top = 1.0
        while top < _LARGEST_LOSS and delta(top) > max(_NEGLIGIBLE, 1.001 * delta(math.inf)):
            top *= 2
    top = min(top, _LARGEST_LOSS)
    points = np.unique(np.linspace(0.0, top, _CURVE_POINTS))
    return chord_law(points, np.array([delta(point) for point in points.tolist()]))


def supremum_law(laws: Iterable[LossLaw]) -> LossLaw:
    """Return a law that dominates each of ``laws``: chords of the supremum of their hockey sticks."""
    spectra = [Spectrum.of(law) for law in laws]
    losses = np.concatenate([spectrum.losses for spectrum in spectra])
    points = thinned(np.append(losses[losses > 0], 0.0), LARGEST_CHORD)
    heights = [max(spectrum.delta(point) for spectrum in spectra) for point in points.tolist()]
    return chord_law(points, np.array(heights))


def thinned(points: Floats, most: int) -> Floats:
    """Return at most ``most`` of the distinct points, ascending, the first and the last among them.

    Leaving out a point of a chord raises the chord: thinning is pessimistic.
    """
    points = np.unique(points)
    spaced = np.append(np.diff(points) > 1e-9, True)
    points = np.unique(np.append(points[spaced], points[0]))
    if points.size <= most:
        return points
    return points[np.unique(np.linspace(0, points.size - 1, most).round().astype(np.intp))]


def renyi_of_losses(losses: Floats, probs: Floats, alpha: float) -> float:
    """Return the largest over rows of ``log sum_o p(o) e^((alpha-1) loss(o)) / (alpha-1)``, rounded up.

    Rows are pairs; outcomes of probability 0 are ignored.  alpha = 1 is the Kullback-Leibler divergence, alpha =
    infinity the largest loss.
    """
    possible = probs > 0
    finite = np.where(possible, losses, 0.0)
    reach = float(np.abs(finite).max(initial=0.0))
    margin = 16 * _ROUNDING * (reach + 1)
    if math.isinf(alpha):
        return float(np.where(possible, losses, 0.0).max(initial=0.0)) + margin
    if alpha == 1:
        return max(float((probs * finite).sum(axis=1).max()), 0.0) + margin
    order = alpha - 1
    if order * reach <= 1:
        # sum p e^(order loss) = 1 + sum p (e^(order loss) - 1) keeps its digits as alpha tends to 1
        value = float(np.log1p((probs * np.expm1(order * finite)).sum(axis=1)).max()) / order
        return max(value, 0.0) + margin
    with np.errstate(divide="ignore"):
        exponents = np.where(possible, order * finite + np.log(probs), -np.inf)
    peaks = exponents.max(axis=1, keepdims=True)
    sums = peaks[:, 0] + np.log(np.exp(exponents - peaks).sum(axis=1))
    return max(float(sums.max()) / order, 0.0) + margin + 16 * _ROUNDING * 50 / order


def _power(law: Spectrum, times: int) -> Spectrum | None:
    """Convolve a law with itself by repeated squaring."""
    result: Spectrum | None = None
    square: Spectrum | None = law
    while True:
        if times & 1:
            result = square if result is None else _convolve(result, square)
            if result is None:
                return None
        times >>= 1
        if not times:
            return result
        square = _convolve(square, square)


def _convolve(left: Spectrum | None, right: Spectrum | None) -> Spectrum | None:
    """Add two independent losses; equal sums are merged into the largest of them, which is pessimistic."""
    if left is None or right is None or left.losses.size * right.losses.size > _LARGEST_PRODUCT:
        return None
    losses = np.add.outer(left.losses, right.losses).ravel()
    probs = np.multiply.outer(left.probs, right.probs).ravel()
    infinity = (left.infinity + right.infinity - left.infinity * right.infinity) * (1 + 4 * _ROUNDING)
    reach = float(np.abs(losses).max(initial=1.0))
    order = np.argsort(losses, kind="stable")
    losses, probs = losses[order], probs[order]
    starts = np.flatnonzero(np.append(True, np.diff(losses) > _SAME_LOSS * reach))[: losses.size]
    if starts.size > LARGEST_SUPPORT:
        return None
    ends = np.append(starts[1:], losses.size)[: starts.size] - 1
    largest = int((ends - starts).max(initial=0)) + 1
    error = left.error + right.error + _ROUNDING * (largest + 8 + 2 * reach)
    merged = np.add.reduceat(probs, starts) if starts.size else probs
    return Spectrum(losses[ends] + 2 * _ROUNDING * reach, merged, infinity, error)


def _of_mass_one(probs: Floats, infinity: float) -> Floats:
    """Take what exceeds a total of 1 away from the smallest losses.

    No hockey stick falls where it matters: above the reduced atom it is unchanged, and below it is 1 - e^eps Q, with a
    mass Q of the second law that has not grown.
    """
    excess = math.fsum((*probs.tolist(), infinity, -1.0))
    if excess <= 0:
        return probs
    reached = np.cumsum(probs)
    cut = int(np.searchsorted(reached, excess))
    reduced = probs.copy()
    reduced[:cut] = 0.0
    reduced[cut : cut + 1] = reached[cut : cut + 1] - excess
    return reduced


def _lower_hull(x: Floats, y: Floats) -> NDArray[np.intp]:
    """Return the indices of the lower convex hull of few points, ascending in ``x``, with a last slope of 0."""
    hull: list[int] = []
    xs, ys = x.tolist(), y.tolist()
    for i in range(len(xs)):
        while len(hull) > 1:
            j, k = hull[-1], hull[-2]
            if (ys[j] - ys[k]) / (xs[j] - xs[k]) < (ys[i] - ys[j]) / (xs[i] - xs[j]):
                break
            hull.pop()
        hull.append(i)
    return np.array(hull, np.intp)


def _two_sides(loss: float) -> tuple[float, float]:
    """Return 1/(1+e^loss) and e^loss/(1+e^loss)."""
    small = math.exp(-loss)
    return small / (1 + small), 1 / (1 + small)


def _nonnegative(loss: Fraction | float) -> float:
    """Return the smallest float at or above a loss, which must be finite and not below 0."""
    if not 0 <= loss < math.inf:
        raise EpsilonError(f"Expected a finite number of at least 0, got {loss}.", value=loss)
    return float_up(Fraction(loss))
