"""The best set for a prior, without sorting it (paper D, Algorithm 2).

RRWithPrior maximises f(k) = e^eps S_k / (e^eps + k - 1), S_k the sum of the k largest entries.  With
c = e^eps - 1 the maximum tau* of S_k / (c + k) is the root of sum_i (p_i - tau)_+ = c tau (a ratio of a concave and
a linear function of k: Dinkelbach), and the best set is {p_i > tau*}.  Newton's step from tau is
S_k / (c + k) over {p_i > tau}; from tau_0 = max / e^eps <= tau* it climbs to the root in a few steps, and only
entries >= tau_0 can matter.  Ties at the root are left out together, whatever the label.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from labeldp.channels.base import float_array
from labeldp.channels.sets import LabelSets
from labeldp.errors import EmptyInputError, PriorError
from labeldp.labels import code_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    #: Sizes, then packed bits (True) or member lists (False).
    Part = tuple[NDArray[Any], NDArray[Any], bool]

#: Cells per scan: a block of the prior stays in the second-level cache while it is scanned.
_CELLS: Final = 1 << 17
#: Scans per search: Newton's steps run on the candidates of this many blocks at once.
_SCANS: Final = 8
#: Up to this many labels, columns are faster than rows.
_FEW: Final = 32
#: Above this share of candidates, whole rows are faster than lists.
_MANY: Final = 0.35
#: Above this share of candidates under the loosest row's threshold, every row gets its own.
_LOOSE: Final = 0.04
#: Below this share of unfinished rows it pays to gather them.
_SPARSE: Final = 0.3
_MAX_STEPS: Final = 100
#: Candidates a row from which looking rows up is faster than dividing.
_SEVERAL: Final = 8
_SHIFTS: Final = np.arange(8, dtype=np.uint8)


def best_sets(labels: int, prior: object, epsilon: Fraction) -> tuple[LabelSets, bool]:
    """Return the best set for each row of ``prior``, and whether one set serves all rows."""
    table, shared = read_prior(labels, prior)
    growth = _growth(float(epsilon), table.dtype)
    search = _few_labels if labels <= _FEW else _many_labels
    rows = max(1, _CELLS // 2 // labels if labels <= _FEW else _CELLS // labels * _SCANS)
    parts = [search(table[start : start + rows], growth, start) for start in range(0, len(table), rows)]
    return LabelSets.of_parts(labels, parts), shared


def _growth(epsilon: float, kind: np.dtype[Any]) -> float:
    """Return e^eps as far as the prior's type tells it from 1 and from infinity: beyond, no objective can change."""
    info = np.finfo(kind)
    return max(math.exp(min(epsilon, math.log(float(info.max)) - 1.0)), 1.0 + float(info.eps))


def read_prior(labels: int, prior: object) -> tuple[NDArray[Any], bool]:
    """Read a prior of shape (K,) or (n, K), float32 or float64, in memory or memory-mapped."""
    try:
        # An array is not copied; of a subclass only the numbers count.
        table = np.asarray(prior) if isinstance(prior, np.ndarray) else float_array(prior)
    except (TypeError, ValueError):
        raise PriorError(f"Expected a table of probabilities, got {type(prior).__name__}.") from None
    if np.ma.is_masked(prior):
        raise PriorError("Expected a probability for every label, got a table with masked values.")
    if table.dtype not in (np.float32, np.float64):
        if table.dtype.kind not in "iuf":
            raise PriorError(f"Expected probabilities, got an array of type {table.dtype}.")
        table = table.astype(np.float64)
    shared = table.ndim == 1
    if shared:
        table = table[None]
    if table.ndim != 2 or table.shape[1] != labels:  # a table
        raise PriorError(
            f"Expected a prior of shape ({labels},) or (n, {labels}), one probability a label, got {table.shape}.",
            shape=table.shape,
        )
    if len(table) == 0:
        raise EmptyInputError("Expected a prior with at least one row, got none.")
    return table, shared


def check_rows(block: NDArray[Any], sums: NDArray[Any], smallest: float, start: int) -> None:
    """Refuse rows that are no probabilities; ``sums`` and ``smallest`` are what the caller has computed anyway."""
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


def _few_labels(block: NDArray[Any], growth: float, start: int) -> Part:
    """Newton on columns: with few labels a row is too short to be worth a loop of its own."""
    columns = np.ascontiguousarray(np.asarray(block).T)
    with np.errstate(over="ignore", invalid="ignore"):
        sums = columns.sum(axis=0)
    check_rows(block, sums, float(columns.min()), start)
    kind = columns.dtype.type
    top = columns.max(axis=0)
    tau = top / kind(growth)
    members = columns > tau
    sizes = _count(members)
    # Rows with a single candidate are done: their set is their largest entry.
    left = np.flatnonzero(sizes != 1)
    if len(left):
        few = len(left) < _SPARSE * len(sizes)
        if few:
            above, size = _climbed(columns[:, left], top[left], tau[left], growth, members[:, left], sizes[left])
            members[:, left], sizes[left] = above, size
        else:
            members, sizes = _climbed(columns, top, tau, growth, members, sizes)
    bits = np.zeros((-(-len(columns) // 8), columns.shape[1]), np.uint8)
    moved = np.empty(columns.shape[1], np.uint8)
    for label, row in enumerate(members.view(np.uint8)):
        byte = bits[label // 8]
        np.bitwise_or(byte, np.left_shift(row, _SHIFTS[label % 8], out=moved), out=byte)
    return sizes, np.ascontiguousarray(bits.T), True


def _climbed(
    columns: NDArray[Any],
    top: NDArray[Any],
    tau: NDArray[Any],
    growth: float,
    above: NDArray[np.bool_],
    size: NDArray[np.uint8],
) -> tuple[NDArray[np.bool_], NDArray[np.uint8]]:
    """Climb to the root on all rows at once, from the sets above ``tau``; return the sets and their sizes."""
    slope = columns.dtype.type(growth - 1.0)
    labels = columns.dtype.type(len(columns))
    larger = np.empty_like(columns)
    for _ in range(_MAX_STEPS):
        # What lies above tau, without another pass over the columns to subtract it.
        total = np.maximum(columns, tau, out=larger).sum(axis=0) - (labels - size) * tau
        tau = np.maximum(tau, total / (slope + size))
        np.greater(columns, tau, out=above)
        before, size = size, _count(above)
        if bool((size == before).all()):
            break
    if not size.all():
        # Rounding lifted tau to the largest entry itself: the largest entries are the set.
        above |= (size == 0) & (columns >= top)
        size = _count(above)
    return above, size


def _count(members: NDArray[np.bool_]) -> NDArray[np.uint8]:
    """Count true cells by column; there are few rows."""
    counts: NDArray[np.uint8] = np.add.reduce(members.view(np.uint8), axis=0, dtype=np.uint8)
    return counts


def _many_labels(block: NDArray[Any], growth: float, start: int) -> Part:
    """Newton on the candidates >= max / e^eps, or on whole rows when most entries are candidates."""
    labels = block.shape[1]
    top, found = _scan(block, growth, start)
    if found is None:
        return _whole_rows(np.asarray(block), top, growth)
    values = np.concatenate(found.values).astype(np.float64)
    places = np.concatenate(found.places)
    owned = _counts_by_row(places, len(block), labels)
    member = np.ones(len(places), bool)
    # What is still open: candidates (by place in the list), and of their rows the counts, largest entries and taus.
    at, counts, most, tau = None, owned, top.astype(np.float64), top.astype(np.float64) / growth
    for _ in range(_MAX_STEPS):
        starts = np.cumsum(counts) - counts
        # Any set bounds tau* from below by its own ratio, so the first step may take all candidates.
        np.maximum(tau, np.add.reduceat(values, starts) / (growth - 1.0 + counts), out=tau)
        above = values > np.repeat(tau, counts)
        size = _count_by_row(above, counts)
        if not size.all():
            # Rounding lifted tau to the largest entry itself: the largest entries are the set.
            above |= np.repeat(size == 0, counts) & (values >= np.repeat(most, counts))
            size = _count_by_row(above, counts)
        out = np.flatnonzero(~above)
        # tau only climbs, so what is below it is out for good; a row that lost nothing, or has one left, is done.
        member[out if at is None else at[out]] = False
        open_rows = (size < counts) & (size > 1)
        if not open_rows.any():
            break
        kept = np.flatnonzero(above & np.repeat(open_rows, counts))
        at = kept if at is None else at[kept]
        values, counts, most, tau = values[kept], size[open_rows], most[open_rows], tau[open_rows]
    found_places = places[np.flatnonzero(member)]
    sizes = _count_by_row(member, owned)
    members = found_places - np.repeat(np.arange(len(block)) * labels, sizes)
    return sizes.astype(code_type(labels + 1)), members.astype(code_type(labels)), False


def _counts_by_row(places: NDArray[np.intp], rows: int, labels: int) -> NDArray[np.intp]:
    """Count each row's places, which ascend: few are divided, among many each row's first one is looked up."""
    if len(places) < _SEVERAL * rows:
        return np.bincount(places // labels, minlength=rows)
    return np.diff(np.searchsorted(places, np.arange(rows) * labels), append=len(places))


def _count_by_row(above: NDArray[np.bool_], counts: NDArray[np.intp]) -> NDArray[np.intp]:
    """Count each row's candidates that stay: differences of a running count cost half of a sum by rows."""
    running = np.cumsum(above, dtype=np.intp)
    return np.diff(running[np.cumsum(counts) - 1], prepend=0)


@dataclass
class _Candidates:
    """Places (in row-major order) and values of the entries that can matter."""

    places: list[NDArray[np.intp]] = field(default_factory=list)
    values: list[NDArray[Any]] = field(default_factory=list)


def _scan(block: NDArray[Any], growth: float, start: int) -> tuple[NDArray[Any], _Candidates | None]:
    """Validate rows, find their largest entries, and the candidates unless there are many."""
    labels = block.shape[1]
    rows = max(1, _CELLS // labels)
    ones = np.ones(labels, block.dtype)
    tops, found, number = [], _Candidates(), 0
    for first in range(0, len(block), rows):
        # In one layout, so that rounding does not depend on that of the table.
        part = np.ascontiguousarray(block[first : first + rows])
        with np.errstate(over="ignore", invalid="ignore"):
            sums = part @ ones
        check_rows(part, sums, float(part.min()), start + first)
        flat = part.ravel()
        top = flat.take(part.argmax(axis=1) + _starts(len(part), labels))
        tops.append(top)
        if number > _MANY * block.size:
            continue
        floor = np.nextafter(top / part.dtype.type(growth), part.dtype.type(0))
        # One threshold for all rows is five times as fast as one a row; where it lets in many, both are used.
        above = part >= floor.min()
        if np.count_nonzero(above) > _LOOSE * part.size:
            above = part >= floor[:, None]
        places = np.flatnonzero(above)
        found.places.append(places + first * labels)
        found.values.append(flat.take(places))
        number += len(places)
    return np.concatenate(tops), None if number > _MANY * block.size else found


@lru_cache(maxsize=4)
def _starts(rows: int, labels: int) -> NDArray[np.intp]:
    """Where each row begins in the flat table."""
    return np.arange(rows) * labels


def _whole_rows(block: NDArray[Any], top: NDArray[Any], growth: float) -> Part:
    labels = block.shape[1]
    kind = block.dtype.type
    ones, counted = np.ones(labels, kind), np.ones(labels, code_type(labels + 1))
    sizes, bits = [], []
    rows = max(1, _CELLS // labels)
    for first in range(0, len(block), rows):
        part, most = np.ascontiguousarray(block[first : first + rows]), top[first : first + rows]
        # All labels together bound tau* from below as any set does.
        tau = np.maximum(most / kind(growth), part @ ones / kind(growth - 1.0 + labels))
        size = np.full(len(part), -1)
        larger = np.empty_like(part)
        for _ in range(_MAX_STEPS):
            above = part > tau[:, None]
            before, size = size, above.view(np.uint8) @ counted
            if np.array_equal(size, before):
                break
            count = size.astype(kind)
            total = np.maximum(part, tau[:, None], out=larger) @ ones - (kind(labels) - count) * tau
            np.maximum(tau, total / (kind(growth - 1.0) + count), out=tau)
        if (size == 0).any():
            above |= (size == 0)[:, None] & (part >= most[:, None])
            size = np.count_nonzero(above, axis=1)
        sizes.append(size.astype(code_type(labels + 1)))
        bits.append(np.packbits(above, axis=1, bitorder="little"))
    return np.concatenate(sizes), np.concatenate(bits), True
