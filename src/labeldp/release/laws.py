"""Laws of labels from noisy counts: free post-processing of what was released (paper D, Algorithm 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import NDArray


def laws_of_counts(counts: NDArray[Any], smooth: float = 0.0) -> NDArray[np.float64]:
    """Return each group's law of labels: counts, clipped at zero, ``smooth`` added to each, and normalised.

    Where nothing is left the law is uniform (ERRATA D2: the printed normalisation would be 0/0).

    >>> laws_of_counts(np.array([[8, -3, 2], [-1, -5, 0]])).round(2).tolist()
    [[0.8, 0.0, 0.2], [0.33, 0.33, 0.33]]
    """
    if not (smooth >= 0 and np.isfinite(smooth)):
        raise InputError(f"Expected smooth >= 0, got {smooth!r}.", value=smooth)
    clipped = np.maximum(np.asarray(counts, np.float64), 0.0) + smooth
    total = clipped.sum(axis=1, keepdims=True)
    uniform = np.full(clipped.shape, 1.0 / clipped.shape[1])
    return np.where(total > 0, clipped / np.where(total > 0, total, 1.0), uniform)
