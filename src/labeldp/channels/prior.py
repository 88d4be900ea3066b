"""The best set for a prior, without sorting it (paper D, Algorithm 2).

RRWithPrior maximises f(k) = e^eps S_k / (e^eps + k - 1), S_k the sum of the k largest entries.  With
c = e^eps - 1 the maximum tau* of S_k / (c + k) is the root of sum_i (p_i - tau)_+ = c tau (a ratio of a concave and
a linear function of k: Dinkelbach), and the best set is {p_i > tau*}.  Newton's step from tau is
S_k / (c + k) over {p_i > tau}; from tau_0 = max / e^eps <= tau* it climbs to the root in a few steps, and only
entries >= tau_0 can matter.  Ties at the root are left out together, whatever the label.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from labeldp.channels.sets import LabelSets
from labeldp.errors import EmptyInputError, PriorError
from labeldp.labels import code_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Cells per step: a block of the prior and its temporaries stay in the second-level cache.
_CELLS: Final = 1 << 16
#: Up to this many labels, columns are faster than rows.
_FEW: Final = 48
#: Above this share of candidates, whole rows are faster than lists.
_MANY: Final = 0.10
_MAX_STEPS: Final = 100


def best_sets(labels: int, prior: object, epsilon: Fraction) -> tuple[LabelSets, bool]:
    """Return the best set for each row of ``prior``, and whether one set serves all rows."""
    table, shared = read_prior(labels, prior)
    # e^eps overflows a float beyond 709; there every positive entry is a candidate anyway.
    growth = math.exp(min(float(epsilon), 700.0))
    rows = max(1, _CELLS // labels)
    parts = []
    for start in range(0, len(table), rows):
        block = np.asarray(table[start : start + rows])
        parts.append(_few_labels(block, growth, start) if labels <= _FEW else _many_labels(block, growth, start))
    return LabelSets.of_parts(labels, parts), shared


def read_prior(labels: int, prior: object) -> tuple[NDArray[Any], bool]:
    """Read a prior of shape (K,) or (n, K), float32 or float64, in memory or memory-mapped."""
    try:
        table = prior if isinstance(prior, np.ndarray) else np.asarray(prior, np.float64)
    except (TypeError, ValueError):
        raise PriorError(f"Expected a table of probabilities, got {type(prior).__name__}.") from None
    if table.dtype not in (np.float32, np.float64):
        if table.dtype.kind not in "iuf":
            raise PriorError(f"Expected probabilities, got an array of type {table.dtype}.")
        table = table.astype(np.float64)
    shared = table.ndim == 1
    if shared:
        table = table[None]
    if table.ndim != 2 or table.shape[1] != labels:  # noqa: PLR2004  # a table
        raise PriorError(
            f"Expected a prior of shape ({labels},) or (n, {labels}), one probability a label, got {table.shape}.",
            shape=table.shape,
        )
    if len(table) == 0:
        raise EmptyInputError("Expected a prior with at least one row, got none.")
    return table, shared


def _check(block: NDArray[Any], sums: NDArray[Any], smallest: float, start: int) -> None:
    tolerance = 1e-3 if block.dtype == np.float32 else 1e-6
    # NaN makes every comparison false, so the test is written for what is good.
    if smallest >= 0 and bool((np.abs(sums - 1.0) <= tolerance).all()):
        return
    bad = np.flatnonzero(~(np.abs(sums - 1.0) <= tolerance) | ~(block.min(axis=1) >= 0))
    row = int(bad[0])
    values = block[row]
    problem = (
        "holds a value that is not a number"
        if not np.isfinite(values).all()
        else "holds a negative value"
        if values.min() < 0
        else f"sums to {float(values.sum()):.6g}"
    )
    raise PriorError(
        f"Expected rows of probabilities that are not negative and sum to 1; row {start + row} {problem}. "
        "Normalise the prior first.",
        row=start + row,
    )


def _few_labels(block: NDArray[Any], growth: float, start: int) -> tuple[NDArray[Any], NDArray[Any], bool]:
    """Newton on columns: with few labels a row is too short to be worth a loop of its own."""
    columns = np.ascontiguousarray(block.T)
    _check(block, columns.sum(axis=0), float(columns.min()), start)
    c = columns.dtype.type(growth - 1.0)
    tau = columns.max(axis=0) / columns.dtype.type(growth)
    count = np.zeros(block.shape[0], np.int16)
    for _ in range(_MAX_STEPS):
        above = columns > tau
        size = above.sum(axis=0, dtype=np.int16)
        if np.array_equal(size, count):
            break
        count = size
        total = np.where(above, columns, 0).sum(axis=0)
        np.maximum(tau, total / (c + size), out=tau)
    above = _never_empty(columns > tau, columns, 0)
    sizes = above.sum(axis=0).astype(code_type(len(columns) + 1))
    return sizes, np.packbits(above.T, axis=1, bitorder="little"), True


def _many_labels(block: NDArray[Any], growth: float, start: int) -> tuple[NDArray[Any], NDArray[Any], bool]:
    """Newton on the few candidates >= max / e^eps, or on whole rows when most entries are candidates."""
    top = block.max(axis=1)
    _check(block, block.sum(axis=1), float(block.min()), start)
    tau = top / block.dtype.type(growth)
    candidate = block >= tau[:, None]
    found = _true_places(candidate)
    if len(found) > _MANY * block.size:
        return _whole_rows(block, tau, growth)
    rows, labels = np.divmod(found, block.shape[1])
    values = block.ravel()[found].astype(np.float64)
    floor = tau.astype(np.float64)
    c = growth - 1.0
    count = np.zeros(len(block), np.int64)
    for _ in range(_MAX_STEPS):
        above = values > floor[rows]
        size = np.bincount(rows[above], minlength=len(block))
        if np.array_equal(size, count):
            break
        count = size
        total = np.bincount(rows, np.where(above, values, 0.0), minlength=len(block))
        np.maximum(floor, total / (c + size), out=floor)
    above = values > floor[rows]
    size = np.bincount(rows[above], minlength=len(block))
    if (size == 0).any():
        above |= (values >= top.astype(np.float64)[rows]) & (size == 0)[rows]
        size = np.bincount(rows[above], minlength=len(block))
    return size.astype(code_type(block.shape[1] + 1)), labels[above].astype(code_type(block.shape[1])), False


def _whole_rows(block: NDArray[Any], tau: NDArray[Any], growth: float) -> tuple[NDArray[Any], NDArray[Any], bool]:
    c = block.dtype.type(growth - 1.0)
    count = np.zeros(len(block), np.int64)
    for _ in range(_MAX_STEPS):
        above = block > tau[:, None]
        size = np.count_nonzero(above, axis=1)
        if np.array_equal(size, count):
            break
        count = size
        total = np.einsum("ij,ij->i", block, above.astype(block.dtype))
        np.maximum(tau, total / (c + size).astype(block.dtype), out=tau)
    above = _never_empty(block > tau[:, None], block, 1)
    sizes = np.count_nonzero(above, axis=1).astype(code_type(block.shape[1] + 1))
    return sizes, np.packbits(above, axis=1, bitorder="little"), True


def _never_empty(above: NDArray[np.bool_], values: NDArray[Any], axis: int) -> NDArray[np.bool_]:
    """Rounding may lift tau to the largest entry itself: then the largest entries are the set."""
    empty = ~above.any(axis=axis, keepdims=True)
    if empty.any():
        above |= empty & (values >= values.max(axis=axis, keepdims=True))
    return above


def _true_places(mask: NDArray[np.bool_]) -> NDArray[np.intp]:
    """Find the true cells of a sparse mask, skipping eight false ones at a time."""
    flat = mask.ravel()
    whole = len(flat) // 8 * 8
    words = np.flatnonzero(flat[:whole].view(np.uint64))
    places = (words[:, None] * 8 + np.arange(8)).ravel()
    places = places[flat[places]]
    tail = np.flatnonzero(flat[whole:]) + whole
    return np.concatenate([places, tail]) if len(tail) else places
