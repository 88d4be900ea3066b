"""Composition through dp_accounting: the only module that imports it, and only when called (it takes a second).

Privacy loss distributions are composed as a list, one after the other: ``PLDAccountant`` of dp-accounting 0.6 ignores
the count of randomised response.  A law is put on a grid pessimistically, without moving its mean: an atom is split
between the grid points on either side of it.  Nothing here is used at delta = 0, where pure epsilons are summed.
"""

from __future__ import annotations

import math
from collections import Counter
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from labeldp.errors import InputError
from labeldp.guarantee.law import LossLaw

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

#: Added for each composed law: far more than the rounding of its Fourier transform can be.
_TRANSFORM_ERROR: Final = 2.0**-43
_TAIL: Final = 1e-15
_CUT: Final = 1e-17
_LEAST_STEPS: Final = 10_000
_MOST_STEPS: Final = 50_000
_LARGEST_GRID: Final = 500_000
_SEARCH_LIMIT: Final = 1e5


def compose_delta(laws: Iterable[LossLaw | tuple[LossLaw, int]], epsilon: float) -> float:
    """Return delta at ``epsilon`` of the sequential composition of ``laws``, rounded up.

    A pair of a law and a number stands for that many of it.

    >>> from labeldp.guarantee.law import binary_response_law
    >>> 0.2449 < compose_delta([binary_response_law(0.5)] * 2, 0.0) < 0.245
    True
    """
    composed, margin = _composed(_counted(laws))
    return min(float(composed.get_delta_for_epsilon(epsilon)) + margin, 1.0)


def compose_epsilon(laws: Iterable[LossLaw | tuple[LossLaw, int]], delta: float) -> float:
    """Return an epsilon at which :func:`compose_delta` is at most ``delta``; infinite when there is none.

    >>> compose_epsilon([LossLaw((0.0,), (1.0,))] * 3, 1e-6)
    0.0
    """
    composed, margin = _composed(_counted(laws))
    if delta <= margin:
        return math.inf
    low, high = 0.0, max(float(composed.get_epsilon_for_delta(delta - margin)), 0.0)
    step = 1e-9
    while math.isfinite(high) and float(composed.get_delta_for_epsilon(high)) + margin > delta:
        low, high, step = high, high + step, 2 * step
        if high > _SEARCH_LIMIT:
            return math.inf
    return max(low, high)


def _counted(laws: Iterable[LossLaw | tuple[LossLaw, int]]) -> tuple[tuple[LossLaw, int], ...]:
    counted: Counter[LossLaw] = Counter()
    for part in laws:
        law, times = part if isinstance(part, tuple) else (part, 1)
        counted[law] += times
    if not counted:
        raise InputError("Expected at least one law to compose.")
    return tuple(counted.items())


@lru_cache(maxsize=8)
def _composed(counted: tuple[tuple[LossLaw, int], ...]) -> tuple[Any, float]:
    """Return the composed distribution of dp_accounting, and what to add to its delta."""
    trimmed = [(_trimmed(law), times) for law, times in counted]
    interval = _interval(trimmed)
    product: Any = None
    total = 0
    for law, times in trimmed:
        total += times
        power = _power(_on_grid(law, interval), times)
        product = power if product is None else product.compose(power, _TAIL)
    return product, total * _TRANSFORM_ERROR


def _power(distribution: Any, times: int) -> Any:
    """Compose a distribution with itself as a list of ``times``, halves first: never by a count."""
    if times == 1:
        return distribution
    half = _power(distribution, times // 2)
    square = half.compose(half, _TAIL)
    return square.compose(distribution, _TAIL) if times % 2 else square


def _trimmed(law: LossLaw) -> LossLaw:
    """Move negligible upper tails to infinity and negligible lower tails up: both enlarge the loss."""
    losses, probs = np.asarray(law.losses), np.asarray(law.probs)
    above = np.cumsum(probs[::-1])[::-1]
    below = np.cumsum(probs)
    keep = (above > _CUT) & (below > _CUT)
    if keep.all() or not keep.any():
        return law
    first, last = np.flatnonzero(keep)[[0, -1]]
    kept = probs[first : last + 1].copy()
    kept[0] += probs[:first].sum()
    infinity = law.infinity + float(probs[last + 1 :].sum())
    return LossLaw(tuple(losses[first : last + 1].tolist()), tuple(kept.tolist()), infinity)


def _interval(laws: Iterable[tuple[LossLaw, int]]) -> float:
    """Choose a grid: fine beside the standard deviation of the total loss, and of bounded length for each law.

    Splitting an atom adds at most a quarter of the squared interval to its variance: with 1000 sqrt(n) steps to a
    standard deviation, n laws gain less than a millionth of the total variance.
    """
    variance, widest, total = 0.0, 0.0, 0
    for law, times in laws:
        losses, probs = np.asarray(law.losses), np.asarray(law.probs)
        total += times
        if losses.size:
            mean = float((losses * probs).sum())
            variance += times * float((np.square(losses - mean) * probs).sum())
            widest = max(widest, float(losses[-1] - losses[0]))
    steps = min(max(1000 * math.sqrt(total), _LEAST_STEPS), _MOST_STEPS)
    return max(math.sqrt(variance) / steps, widest / _LARGEST_GRID) or 1e-4


def _on_grid(law: LossLaw, interval: float) -> Any:
    """Return a distribution on multiples of ``interval`` whose hockey stick is nowhere below that of ``law``.

    An atom (p, loss) between grid points a < b becomes two, with the same total under P and under Q: p_b = p
    (1 - e^(a-loss)) / (1 - e^(a-b)).  As (p - t q)_+ is convex, Jensen's inequality says that delta cannot fall
    (Doroshenko et al. 2022, connect the dots).
    """
    from dp_accounting.pld import privacy_loss_distribution  # loads scipy.stats

    losses, probs = np.asarray(law.losses), np.asarray(law.probs)
    lower = np.floor(losses / interval).astype(np.int64)
    upper_share = np.clip(np.expm1(lower * interval - losses) / math.expm1(-interval), 0.0, 1.0)
    # rounding of the quotient must not lose loss: what it can lose goes to the upper point
    upper_share = np.minimum(upper_share + 2.0**-50 * (1 + np.abs(losses) / interval) * (upper_share > 0), 1.0)
    offset = int(lower.min(initial=0))
    grid: NDArray[np.float64] = np.append(np.bincount(lower - offset, probs * (1 - upper_share)), 0.0)
    raised = np.bincount(lower - offset + 1, probs * upper_share)
    grid[: raised.size] += raised
    points = np.flatnonzero(grid)
    atoms = dict(zip((points + offset).tolist(), grid[points].tolist(), strict=True))
    return privacy_loss_distribution.PrivacyLossDistribution.create_from_rounded_probability(
        atoms or {0: 0.0}, law.infinity, interval
    )
