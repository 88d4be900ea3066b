"""Whether drawn labels follow a law: a G-test, and what it can tell."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: A statistic this improbable under a law rejects the law: tests with fixed coins never come near it by chance.
IMPROBABLE: Final = 1e-6

_ENOUGH: Final = 5.0
_SIGMAS: Final = 4.0


def sharpened(weights: NDArray[Any], factor: float = 1.1) -> Floats:
    """Return the table with all log ratios of a column multiplied by ``factor``, and rows normalised.

    For k-ary response this is k-ary response at ``factor`` times epsilon.

    >>> sharpened(np.array([[3, 1], [1, 3]])).round(4).tolist()
    [[0.77, 0.23], [0.23, 0.77]]
    """
    table = weights / weights.sum(axis=1, keepdims=True, dtype=np.float64)
    possible = table > 0
    logs = np.log(np.where(possible, table, 1.0))
    middle = logs.sum(axis=0) / np.maximum(possible.sum(axis=0), 1)
    sharper = np.where(possible, np.exp(middle + factor * (logs - middle)), 0.0)
    result: Floats = sharper / sharper.sum(axis=1, keepdims=True)
    return result


def p_value(counts: NDArray[Any], law: Floats) -> float:
    """Return the p-value of a G-test of rows of counts against rows of probabilities, all rows together.

    Cells of which fewer than five draws are expected are pooled.

    >>> p_value(np.array([[600, 400]]), np.array([[0.6, 0.4]]))
    1.0
    """
    from scipy.special import gammaincc

    if bool(((counts > 0) & (law <= 0)).any()):
        return 0.0
    statistic, freedom = 0.0, 0
    for row, probabilities in zip(counts, law, strict=True):
        expected, observed = _pooled(probabilities * row.sum(), row)
        seen = observed > 0
        statistic += 2 * float((observed[seen] * np.log(observed[seen] / expected[seen])).sum())
        freedom += len(expected) - 1
    return float(gammaincc(freedom / 2, max(statistic, 0.0) / 2)) if freedom else 1.0


def can_tell(law: Floats, other: Floats, draws: int) -> bool:
    """Whether so many draws a row from ``law`` make a G-test of ``other`` fail all but surely."""
    from scipy.special import gammainccinv

    freedom, divergence = 0, 0.0
    for row, against in zip(law, other, strict=True):
        # Pooled as p_value will pool them: by what the other law expects.
        expected, declared = _pooled(against * draws, row)
        seen = declared > 0
        divergence += float((declared[seen] * np.log(declared[seen] / (expected[seen] / draws))).sum())
        freedom += len(expected) - 1
    if not freedom:
        return False
    shift = 2 * draws * max(divergence, 0.0)
    limit = 2 * float(gammainccinv(freedom / 2, IMPROBABLE))
    return freedom + shift - _SIGMAS * math.sqrt(2 * (freedom + 2 * shift)) > limit


def _pooled(expected: Floats, observed: NDArray[Any]) -> tuple[Floats, Floats]:
    order = np.argsort(-expected, kind="stable")
    expected, observed = expected[order], observed[order].astype(np.float64)
    kept = max(int((expected >= _ENOUGH).sum()), 1)
    rest = float(expected[kept:].sum())
    if rest >= _ENOUGH:
        kept += 1
    pooled = np.append(expected[: kept - 1], expected[kept - 1 :].sum())
    return pooled, np.append(observed[: kept - 1], observed[kept - 1 :].sum())
