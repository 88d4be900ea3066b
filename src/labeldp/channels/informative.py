"""The most informative set for a prior: what the released label tells of the true one, in nats.

Over a set S of k labels with mass P under the prior, k-ary response keeps with extra weight t and errs with weight c
each (t + k c = 1).  The released label is o with probability 1/k + t (p_o - P/k), and the mutual information is
I(S) = H(released) - P h - (1 - P) log k, h the entropy of a row of the response.  The set that releases the true label
most often (RRWithPrior) can hold a single label, and then tells nothing; the most informative one never does, unless
there is nothing to tell.  Among sets of one size the k likeliest labels are best (checked by brute force over all sets
of up to 6 labels; no proof is known to us, and privacy does not depend on it), so K sets a row are compared.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from labeldp.channels.prior import check_rows, read_prior
from labeldp.channels.sets import LabelSets

if TYPE_CHECKING:
    from fractions import Fraction

    from numpy.typing import NDArray

#: Cells per step: a step's tables stay in the cache.
_CELLS: Final = 1 << 16
#: Up to this many labels every size of set is tried.
_MANY: Final = 64
#: e^eps overflows a float beyond this; the response is all but certain long before.
_LARGEST: Final = 700.0


def informative_sets(labels: int, prior: object, epsilon: Fraction) -> tuple[LabelSets, bool]:
    """Return the most informative set for each row of ``prior``, and whether one set serves all rows."""
    table, shared = read_prior(labels, prior)
    growth = math.exp(min(float(epsilon), _LARGEST))
    rows = max(1, _CELLS // labels)
    parts = [_searched(table[start : start + rows], growth, start) for start in range(0, len(table), rows)]
    return LabelSets.of_parts(labels, parts), shared


def _searched(block: NDArray[Any], growth: float, start: int) -> tuple[NDArray[Any], NDArray[Any], bool]:
    values = np.asarray(block, np.float64)
    check_rows(block, values.sum(axis=1), float(values.min()), start)
    # Ties go by the number of the label, which is public.
    order = np.argsort(-values, axis=1, kind="stable")
    ranked = np.take_along_axis(values, order, axis=1)
    ranked /= ranked.sum(axis=1, keepdims=True)
    mass = np.minimum(np.cumsum(ranked, axis=1), 1.0)
    size = values.shape[1]
    best, chosen = np.zeros(len(values)), np.ones(len(values), np.intp)
    for k in _sizes(size):
        told = _information(ranked[:, :k], mass[:, k - 1], growth)
        # More labels must tell more by more than rounding: of two sets that tell alike, the smaller lies less.
        better = told > best * (1 + _ROUNDING) + _ROUNDING
        best, chosen = np.where(better, told, best), np.where(better, k, chosen)
    mask = np.zeros(values.shape, bool)
    np.put_along_axis(mask, order, np.arange(size) < chosen[:, None], axis=1)
    bits = np.packbits(mask, axis=1, bitorder="little")
    return chosen.astype(np.min_scalar_type(size)), bits, True


def _information(members: NDArray[np.float64], mass: NDArray[np.float64], growth: float) -> NDArray[np.float64]:
    k = members.shape[1]
    other = 1 / (growth + k - 1)
    extra = (growth - 1) / (growth + k - 1)
    released = 1 / k + extra * (members - mass[:, None] / k)
    row = -(other + extra) * math.log(other + extra) - (k - 1) * other * math.log(other)
    # Rounding can leave a released label with less than nothing.
    logs = np.log(np.maximum(released, np.finfo(np.float64).tiny))
    told: NDArray[np.float64] = -(released * logs).sum(axis=1) - mass * row - (1 - mass) * math.log(k)
    return told


def _sizes(labels: int) -> list[int]:
    """Return the sizes that are compared: all of them, but for many labels one in ten per cent."""
    if labels <= _MANY:
        return list(range(2, labels + 1))
    wide = np.unique(np.geomspace(_MANY, labels, round(10 * math.log(labels / _MANY)) + 2).round().astype(int))
    return [*range(2, _MANY), *wide.tolist()]


_ROUNDING: Final = 1e-14
