"""Bags of rows that look alike, from public features: what noisy counts are asked of."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.errors import InputError, ShapeError
from labeldp.noise import laplace_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Rows of a bag per standard deviation of the noise on its counts; see :func:`bag_size`.
_ROWS_PER_DEVIATION = 30.0
_FEWEST_ROWS = 8


def bag_size(epsilon: float, classes: int, rows: int) -> int:
    """Return how many rows a bag should hold: from public numbers alone.

    With noise of standard deviation s on a count, a label that holds a share of 4 s / m of a bag of m rows is seen (four
    deviations: one false alarm in some 16,000 counts).  At m = 30 s that is 13 %: small enough to tell which labels a
    bag holds, while smaller bags, made of nearer neighbours, differ less inside.  Bags never exceed n / (2 K), so that
    there are twice as many as labels: fewer could not tell all labels apart.

    >>> bag_size(1.0, 10, 60_000), bag_size(0.1, 10, 60_000), bag_size(1.0, 2, 30_000)
    (84, 848, 41)
    """
    deviation = math.sqrt(laplace_counts(epsilon, classes).variance)
    size = max(_ROWS_PER_DEVIATION * deviation, _FEWEST_ROWS)
    return max(2, min(round(size), rows // (2 * classes)))


def make_bags(X: Any, size: int, *, random_state: Any = 0) -> NDArray[np.int64]:
    """Group rows of a table of numbers into bags of about ``size`` rows that look alike; no labels are involved.

    k-means with n / size centres, random start; groups below a quarter of the size join the group of their nearest
    other centre.  Bags are numbered 0 .. B-1, each of at least two rows.

    >>> bags = make_bags(np.random.default_rng(0).normal(size=(200, 2)), 20)
    >>> bool(np.bincount(bags).min() >= 5)
    True
    """
    from sklearn.cluster import MiniBatchKMeans
    from sklearn.metrics import pairwise_distances_argmin

    table = np.asarray(X, np.float32)
    if table.ndim != 2 or not np.isfinite(table).all():
        raise ShapeError(
            f"Expected a table of finite numbers, (rows, columns), got shape {table.shape}. Encode or embed the features "
            "first; labeldp.features does.",
            shape=table.shape,
        )
    if not 2 <= size <= len(table):
        raise InputError(f"Expected bags of 2 .. {len(table)} rows, got size={size}.", value=size)
    centres = max(1, round(len(table) / size))
    if centres == 1:
        return np.zeros(len(table), np.int64)
    model = MiniBatchKMeans(
        centres, init="random", n_init=1, batch_size=max(4096, 3 * centres), max_iter=30, random_state=random_state
    ).fit(table)
    kept = np.flatnonzero(np.bincount(model.labels_, minlength=centres) >= max(2, size // 4))
    if len(kept) == 0:
        return np.zeros(len(table), np.int64)
    nearest = pairwise_distances_argmin(table, model.cluster_centers_[kept])
    # Those who moved can leave nobody alone: every kept centre keeps at least its own rows.
    bags: NDArray[np.int64] = np.unique(nearest, return_inverse=True)[1].astype(np.int64)
    return bags
