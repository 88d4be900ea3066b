"""Keep the label or redraw it from a public law, one law per group of rows."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from labeldp.channels.base import TOTAL, FiniteChannel, float_array, per_word, row_numbers
from labeldp.channels.mixture import MixtureChannel
from labeldp.channels.threshold import redraw_probability, resampling_extra
from labeldp.errors import EmptyInputError, EpsilonError, LawError, ShapeError
from labeldp.exact import exact, positive_epsilon
from labeldp.labels import code_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.labels import Codes, LabelSpace


@final
class ResampledResponse(MixtureChannel):
    """Keep the label with a probability of its group's own, else redraw it from the group's law.

    ``law`` has shape (K,), or (G, K) with ``groups`` naming each row's law, 0 .. G-1.  Give ``epsilon``, which
    every group then spends exactly (ERRATA A3), or ``keep``, the probability that no redraw happens.  A redraw
    may return the true label, so ``keep`` is less than the probability that the released label is the true one
    (which is what ``RandomizedResponse(keep=)`` means).

    >>> from labeldp.labels import LabelSpace
    >>> space = LabelSpace(["a", "b", "c"])
    >>> channel = ResampledResponse(space, [0.7, 0.2, 0.1], epsilon=1.0)
    >>> channel.redraw.round(6).tolist()
    [0.853367]
    """

    family = "resampled"

    def __init__(
        self,
        space: LabelSpace,
        law: object,
        epsilon: object = None,
        *,
        keep: object = None,
        groups: object = None,
    ) -> None:
        if (epsilon is None) == (keep is None):
            raise EpsilonError("Expected exactly one of epsilon and keep.")
        table, members = _read_law(space, law, groups)
        if epsilon is not None:
            asked = positive_epsilon(epsilon)
            _no_zero(table, epsilon)
            weights = np.stack([_weights(row, asked) for row in table])
        else:
            kept = exact(keep)
            if not 0 <= kept < 1:
                raise EpsilonError(f"Expected 0 <= keep < 1, got {keep}. keep=1 would publish the labels.")
            if kept > 0:
                _no_zero(table, f"that keep={keep} implies")
            weights = np.stack([_weights_of_keep(row, kept) for row in table])
        self._fix_resampled(space, weights, members)

    @classmethod
    def _of_weights(cls, space: LabelSpace, law: NDArray[np.int64], groups: NDArray[Any] | None) -> ResampledResponse:
        channel = cls.__new__(cls)
        channel._fix_resampled(space, law, groups)
        return channel

    def _fix_resampled(self, space: LabelSpace, law: NDArray[np.int64], groups: NDArray[Any] | None) -> None:
        self._fix_mixture(space, law, groups)
        ends = np.cumsum(law.astype(np.uint64), axis=1)
        # A redraw that never fails to redraw ends at 2^62 units, which is beyond a word: the largest word passes its
        # limit, and belongs to the last label that can be redrawn.
        limits = np.where(ends < TOTAL, per_word(ends), np.uint64(2**64 - 1))
        last = law.shape[1] - 1 - np.argmax(law[:, ::-1] > 0, axis=1)
        self._fix(_limits=limits, _last=last, _always=ends[:, -1] >= TOTAL)

    _limits: NDArray[np.uint64]
    _last: NDArray[np.intp]
    _always: NDArray[np.bool_]

    @property
    def redraw(self) -> NDArray[np.float64]:
        """Probability of a redraw (lambda), by group."""
        return self._redraw[:, 0].copy()

    @property
    def law(self) -> NDArray[np.float64]:
        """The law of a redraw, by group."""
        return self._q.copy()

    def take(self, rows: object) -> FiniteChannel:
        """Return the channel of some rows, with all laws."""
        if self._groups is None:
            return self
        return self._of_weights(self.space, self._law, self._groups[row_numbers(rows, len(self._groups))])

    def public(self) -> dict[str, Any]:
        """Return the integer law of every group; groups of rows are a column."""
        return {
            "family": self.family,
            "space": self.space.to_json(),
            "law": [[str(w) for w in row] for row in self._law.tolist()],
            "grouped": self._groups is not None,
        }

    def _draw(self, codes: Codes, words: NDArray[np.uint64], start: int) -> Codes:
        size = self.space.size
        if self._groups is None:
            place = np.searchsorted(self._limits[0], words, side="right")
            last, always = self._last[0], self._always[0]
        else:
            groups = self._groups[start : start + len(codes)]
            limits, last, always = self._limits[groups], self._last[groups], self._always[groups]
            place = np.zeros(len(codes), np.intp)
            # Binary search, all rows abreast: the number of limits at or below the word.
            step = 1 << (size - 1).bit_length()
            rows = np.arange(len(codes))
            while step:
                ahead = place + step
                inside = ahead <= size
                move = inside & (limits[rows, np.where(inside, ahead, 1) - 1] <= words)
                place = np.where(move, ahead, place)
                step >>= 1
        drawn = np.minimum(place, last).astype(codes.dtype)
        return np.where((place < size) | always, drawn, codes)


def restore_resampled(space: LabelSpace, data: dict[str, Any], columns: dict[str, NDArray[Any]]) -> FiniteChannel:
    """Rebuild a resampled response from its public parameters and columns."""
    law = np.array([[int(w) for w in row] for row in data["law"]], np.int64)
    if law.ndim != 2 or law.shape[1] != space.size or len(law) == 0:  # a table
        raise LawError(f"Expected laws of {space.size} integers each.")
    # Five weights of 2^62 sum to 2^62 in 64 bits: the sum in floats excludes that.
    sums = law.sum(axis=1), law.sum(axis=1, dtype=np.float64)
    if law.min() < 0 or not bool(((sums[0] <= TOTAL) & (sums[1] < 2.0 * TOTAL)).all()):
        raise LawError("Expected integer laws that sum to at most 2^62.")
    if not data["grouped"] and len(law) != 1:
        raise ShapeError(f"Expected one law for all rows, got {len(law)}.")
    if bool(((law.min(axis=1) == 0) & (law.sum(axis=1) < TOTAL)).any()):
        raise LawError("Expected a positive weight for every label of a law that keeps some labels.")
    groups = _read_groups(columns["group"], len(law)) if data["grouped"] else None
    return ResampledResponse._of_weights(space, law, groups)  # its own family


def _weights(law: NDArray[np.float64], epsilon: Fraction) -> NDArray[np.int64]:
    """Round lambda q to integers that spend at most epsilon: extra <= (e^eps - 1) min weight, exactly.

    What the kept label may not weigh goes to the largest weight, and what rounding took from it comes from there:
    neither lowers the minimum.
    """
    redraw = redraw_probability(Fraction(float(law.min())), epsilon)
    weights = _scaled(law, float(redraw))
    allowed = resampling_extra(int(weights.min()), epsilon)
    largest = int(weights.argmax())
    weights[largest] = max(int(weights[largest]) + TOTAL - int(weights.sum()) - allowed, int(weights.min()))
    return _fitted(weights)


def _weights_of_keep(law: NDArray[np.float64], keep: Fraction) -> NDArray[np.int64]:
    weights = _scaled(law, float(1 - keep))
    # Rounding towards more redrawing: exactly 2^62 - floor(keep 2^62) units are redraws, but for a keep so near 1
    # that every label's least weight of 1 is more.
    largest = int(weights.argmax())
    weights[largest] = max(int(weights[largest]) + TOTAL - math.floor(keep * TOTAL) - int(weights.sum()), 1)
    return _fitted(weights)


def _scaled(law: NDArray[np.float64], share: float) -> NDArray[np.int64]:
    # Scaling by 2^62 is exact; a positive probability keeps a weight of at least 1.
    return np.maximum(np.floor(law * share * float(TOTAL)), law > 0).astype(np.int64)


def _fitted(weights: NDArray[np.int64]) -> NDArray[np.int64]:
    excess = int(weights.sum()) - TOTAL
    if excess > 0:
        weights[int(weights.argmax())] -= excess
    return weights


def _no_zero(table: NDArray[np.float64], epsilon: object) -> None:
    if bool((table <= 0).any()):
        group, label = (int(i) for i in np.argwhere(table <= 0)[0])
        raise LawError(
            f"Expected a law with a positive probability for every label; law {group} has none for label number "
            f"{label}, so seeing it would reveal it and no finite epsilon holds (asked: {epsilon}). "
            "Mix the law with a little of the uniform one first.",
            group=group,
        )


def _read_law(space: LabelSpace, law: object, groups: object) -> tuple[NDArray[np.float64], NDArray[Any] | None]:
    try:
        table = float_array(law)
    except (TypeError, ValueError):
        raise LawError(f"Expected a law of shape ({space.size},) or (G, {space.size}).") from None
    if (table.ndim == 1) != (groups is None):
        raise LawError(
            "Expected one law of shape (K,), or one a group, (G, K), together with groups= naming each row's.",
            shape=table.shape,
        )
    table = np.atleast_2d(table)
    if table.ndim != 2 or table.shape[1] != space.size or len(table) == 0:  # a table
        raise LawError(
            f"Expected a law of shape ({space.size},) or (G, {space.size}), got {table.shape}.", shape=table.shape
        )
    if not (bool((table >= 0).all()) and bool((np.abs(table.sum(axis=1) - 1.0) <= 1e-6).all())):
        raise LawError("Expected laws that are not negative and sum to 1 in every group.")
    return table / table.sum(axis=1, keepdims=True), None if groups is None else _read_groups(groups, len(table))


def _read_groups(groups: object, count: int) -> NDArray[Any]:
    array = np.asarray(groups)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ShapeError(f"Expected one integer group a row, got an array of shape {array.shape} and {array.dtype}.")
    if len(array) == 0:
        raise EmptyInputError("Expected at least one row in groups, got none.")
    if int(array.min()) < 0 or int(array.max()) >= count:
        raise ShapeError(f"Expected groups 0 .. {count - 1}, one for each law, got {array.min()} .. {array.max()}.")
    return array.astype(code_type(count))
