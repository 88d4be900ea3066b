"""k-ary randomised response, over all labels or over a set of them, and the set a prior makes best."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, final

import numpy as np

from labeldp.channels.base import (
    SCALE_BITS,
    TOTAL,
    FiniteChannel,
    belief_table,
    class_table,
    code_array,
    per_word,
    row_numbers,
    steps,
)
from labeldp.channels.correct import SetCorrection, warn_of_bias
from labeldp.channels.informative import informative_sets
from labeldp.channels.mixture import MixtureChannel
from labeldp.channels.prior import best_sets
from labeldp.channels.sets import LabelSets
from labeldp.channels.threshold import other_weight, response_weights
from labeldp.errors import EpsilonError, LawError, PriorError, ShapeError, SpaceMismatchError
from labeldp.exact import exact, exact_up, log_up, positive_epsilon
from labeldp.guarantee.value import FiniteLoss, Loss
from labeldp.labels import LabelSpace

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.labels import Codes


@final
class RandomizedResponse(MixtureChannel):
    """Release the true label with probability e^eps / (e^eps + K - 1), else another one uniformly.

    Give one of ``epsilon``, ``keep`` (probability that the released label is the true one) and ``flip``
    (probability that it is not).

    >>> channel = RandomizedResponse(LabelSpace(["no", "yes"]), epsilon=1.0)
    >>> channel.transition.round(3).tolist()
    [[0.731, 0.269], [0.269, 0.731]]
    """

    family = "response"
    _divisor: np.uint64
    _last_redraw: np.uint64

    def __init__(
        self,
        space: LabelSpace,
        epsilon: object = None,
        *,
        keep: object = None,
        flip: object = None,
    ) -> None:
        if sum(value is not None for value in (epsilon, keep, flip)) != 1:
            raise EpsilonError("Expected exactly one of epsilon, keep and flip.")
        if epsilon is not None:
            other, _ = response_weights(space.size, positive_epsilon(epsilon), SCALE_BITS)
        else:
            other = _other_of_keep(space.size, exact(keep) if keep is not None else 1 - exact_up(flip))
        self._fix_other(space, other)

    @classmethod
    def _of_other(cls, space: LabelSpace, other: int) -> RandomizedResponse:
        channel = cls.__new__(cls)
        channel._fix_other(space, other)
        return channel

    def _fix_other(self, space: LabelSpace, other: int) -> None:
        self._fix_mixture(space, np.full((1, space.size), other, np.int64), None)
        self._fix(_divisor=per_word(other), _last_redraw=np.uint64(4 * space.size * other - 1))

    @property
    def keep(self) -> float:
        """Probability that the released label is the true one."""
        return float(int(self._law[0, 0]) + int(self._extra[0])) / TOTAL

    def _draw(self, codes: Codes, words: NDArray[np.uint64], start: int) -> Codes:  # noqa: ARG002  # shared by all rows
        # The first K * other units are K equal redraws, the rest keeps the true label: with them the true label
        # weighs other + extra, which is its weight in the table.
        released = np.floor_divide(words, self._divisor).astype(codes.dtype)
        # Selected by arithmetic: no branch depends on a label, and none is mispredicted.
        released ^= (released ^ codes) * (words > self._last_redraw)
        return released

    def take(self, rows: object) -> FiniteChannel:  # noqa: ARG002  # shared by all rows
        """Return itself: all rows share one table."""
        return self

    def public(self) -> dict[str, Any]:
        """Return the label space and the weight of a label that is not the true one."""
        return {"family": self.family, "space": self.space.to_json(), "other": str(int(self._law[0, 0]))}


def _other_of_keep(size: int, keep: Fraction) -> int:
    if not Fraction(1, size) <= keep < 1:
        raise EpsilonError(
            f"Expected 1/{size} <= keep < 1 (flip = 1 - keep), got keep={float(keep):.6g}. keep=1 would publish the "
            "labels; below 1/K the response would lie more often than chance.",
            keep=keep,
        )
    other = other_weight(size, int(keep * TOTAL), SCALE_BITS)
    return min(other, TOTAL // size)


class SetResponse(FiniteChannel):
    """Randomised response over a set of labels; a true label outside the set releases a uniform member of it.

    With k members, ``other`` and ``extra`` as in the k-ary response: a member as true label weighs
    ``other + extra``, any other member ``other``; from outside, each member weighs floor(2^62 / k) and the last
    one the remainder too.
    """

    family = "set"
    _space: LabelSpace
    _sets: LabelSets
    #: Weights by set size: (k, other, extra), ascending in k.
    _tables: tuple[tuple[int, int, int], ...]
    _shared: bool
    #: By set size: words a member takes from inside and from outside, and the weights as floats.
    _divisor: NDArray[np.uint64]
    _outside: NDArray[np.uint64]
    _other: NDArray[np.float64]
    _extra: NDArray[np.float64]

    def _fix_sets(
        self, space: LabelSpace, sets: LabelSets, tables: tuple[tuple[int, int, int], ...], *, shared: bool
    ) -> None:
        size = space.size
        divisor = np.full(size + 1, 2**64 - 1, np.uint64)
        outside = np.full(size + 1, 2**64 - 1, np.uint64)
        other, extra = np.zeros(size + 1), np.zeros(size + 1)
        for k, weight, on_top in tables:
            other[k], extra[k] = weight / TOTAL, on_top / TOTAL
            if k > 1:
                # A single member is released whatever the word says; its divisor would not fit.
                divisor[k], outside[k] = per_word(weight), per_word(TOTAL // k)
        self._fix(_space=space, _sets=sets, _tables=tables, _shared=shared)
        self._fix(_divisor=divisor, _outside=outside, _other=other, _extra=extra)

    @property
    def space(self) -> LabelSpace:
        """The true labels."""
        return self._space

    @property
    def released_space(self) -> LabelSpace:
        """The same labels; those outside a row's set are never released for it."""
        return self._space

    @property
    def rows(self) -> int | None:
        """Rows with a set each, or None for one shared set."""
        return None if self._shared else len(self._sets)

    @property
    def contexts(self) -> int:
        """One table a row, or one."""
        return len(self._sets)

    def context_of(self, row: int) -> int:
        """Return the row itself, or the one context."""
        return 0 if self._shared else row

    @property
    def sizes(self) -> NDArray[np.intp]:
        """How many labels each row's set has: k."""
        return self._sets.sizes.astype(np.intp)

    def members(self, rows: slice = slice(None)) -> NDArray[np.bool_]:
        """Return the sets as a (rows, K) table of truth values."""
        return self._sets.mask(rows)

    def weights_of(self, context: int) -> NDArray[np.int64]:
        """Return the exact table of one row."""
        members = np.flatnonzero(self._sets.mask(slice(context, context + 1))[0])
        k = len(members)
        _, other, extra = self._table(k)
        size = self.space.size
        weights = np.zeros((size, size), np.int64)
        weights[:, members] = TOTAL // k
        weights[:, members[-1]] += TOTAL % k
        weights[members[:, None], members] = other
        weights[members, members] += extra
        return weights

    @cached_property
    def epsilon_exact(self) -> Fraction:
        """The largest ratio over all set sizes in use."""
        return log_up(max(_largest_ratio(k, other, extra, self.space.size) for k, other, extra in self._tables))

    def _loss(self) -> Loss:
        first: list[tuple[int, int, int]] = []
        for k, other, extra in self._tables:
            first.extend(_pairs(k, other, extra, self.space.size))
        pairs = np.array(first, np.int64).reshape(-1, 2, 3)
        return FiniteLoss(self.epsilon_exact, pairs[:, 0], pairs[:, 1])

    @property
    def invertible(self) -> bool:
        """Only where every set holds every label (a set of k < K has rank k, ERRATA D4)."""
        return all(k == self.space.size and extra > 0 for k, _, extra in self._tables)

    def forward(self, probabilities: object) -> NDArray[np.float64]:
        """Push class probabilities through; O(K) a row."""
        table = class_table(probabilities, self, "probabilities")
        out = np.empty(table.shape)
        for part, mask, other, extra in self._parts(len(table)):
            inside = np.where(mask, table[part], 0.0)
            total = inside.sum(axis=1, keepdims=True)
            outside = (table[part].sum(axis=1, keepdims=True) - total) / mask.sum(axis=1, keepdims=True)
            out[part] = np.where(mask, extra * inside + other * total + outside, 0.0)
        return out

    def likelihood(self, codes: object) -> NDArray[np.float64]:
        """P(released | true) of each row's code; O(K) a row, zero for a code outside the row's set."""
        array = code_array(codes, self)
        out = np.empty((len(array), self.space.size))
        for part, mask, other, extra in self._parts(len(array)):
            out[part] = np.where(mask, other, 1.0 / mask.sum(axis=1, keepdims=True))
            rows, chosen = np.arange(part.start, part.stop), array[part]
            possible = mask[np.arange(len(mask)) if len(mask) > 1 else 0, chosen]
            out[rows, chosen] += np.broadcast_to(extra[:, 0], len(rows))
            out[rows[~possible]] = 0.0
        return out

    def unbias(self, losses: object, *, prior: object = None) -> NDArray[np.float64]:
        """Debias losses in O(K) a row: eq. (7) where all labels are in the set, else the best linear correction."""
        table = class_table(losses, self, "losses")
        if not self.invertible:
            warn_of_bias(self)
        weights = None if prior is None else belief_table(prior, *table.shape)
        out = np.empty(table.shape)
        for part, mask, _, extra in self._parts(len(table)):
            belief = None if weights is None else weights[part]
            out[part] = SetCorrection(mask, extra, belief).losses(table[part])
        return out

    def soft_labels(self, codes: object, *, prior: object = None) -> NDArray[np.float64]:
        """Debiased indicators of all labels at each row's released one; O(K) a row."""
        array = code_array(codes, self)
        shape = (len(array), self.space.size)
        if not self.invertible:
            warn_of_bias(self)
        weights = None if prior is None else belief_table(prior, *shape)
        out = np.empty(shape)
        for part, mask, _, extra in self._parts(len(array)):
            belief = None if weights is None else weights[part]
            out[part] = SetCorrection(mask, extra, belief).indicators(array[part])
        return out

    def unbias_members(self, losses: object) -> NDArray[np.float64]:
        """Debias as paper D, eq. (17): exact for true labels in the set, the set's mean loss for all others."""
        table = class_table(losses, self, "losses")
        out = np.empty(table.shape)
        for part, mask, other, extra in self._parts(len(table)):
            total = np.where(mask, table[part], 0.0).sum(axis=1, keepdims=True)
            with np.errstate(divide="ignore", invalid="ignore"):
                value = np.where(extra > 0, (table[part] - other * total) / extra, total)
            out[part] = np.where(mask, value, 0.0)
        return out

    @cached_property
    def variance_factor(self) -> float:
        """Average over rows; it depends on a set's size alone."""
        by_size = {k: _factor(k, extra / TOTAL, self.space.size) for k, _, extra in self._tables}
        sizes, counts = np.unique(self._sets.sizes, return_counts=True)
        return float(np.average([by_size[int(k)] for k in sizes], weights=counts))

    def _draw(self, codes: Codes, words: NDArray[np.uint64], start: int) -> Codes:
        rows = slice(start, start + len(codes))
        sets = self._sets
        inside = sets.contains(codes, rows, shared=self._shared)
        sizes = sets.sizes[:1] if self._shared else sets.sizes[rows]
        divisor = np.where(inside, self._divisor[sizes], self._outside[sizes])
        rank = (words // divisor).astype(np.intp)
        kept = inside & (rank >= sizes)
        np.minimum(rank, sizes.astype(np.intp) - 1, out=rank)
        released = sets.select(rank, rows, shared=self._shared).astype(codes.dtype)
        return np.where(kept, codes, released)

    def _table(self, k: int) -> tuple[int, int, int]:
        return next(table for table in self._tables if table[0] == k)

    def _parts(self, rows: int) -> Any:  # iterator of (slice, mask, other, extra)
        """Walk over rows in steps with their sets and weights; a shared set broadcasts."""
        size = max(1, _CELLS_PER_STEP // self.space.size)
        for part in steps(rows, size):
            place = slice(0, 1) if self._shared else part
            k = self._sets.sizes[place]
            yield part, self._sets.mask(place), self._other[k][:, None], self._extra[k][:, None]


@final
class TopKRandomizedResponse(SetResponse):
    """Randomised response over a given set of labels (paper D, Algorithm 1, RRTop-k).

    ``top`` is the set: a list of labels.  A true label outside it is released as a uniform member.

    >>> space = LabelSpace(["a", "b", "c"])
    >>> TopKRandomizedResponse(space, epsilon=1.0, top=["a", "b"]).transition.round(3).tolist()
    [[0.731, 0.269, 0.0], [0.269, 0.731, 0.0], [0.5, 0.5, 0.0]]
    """

    def __init__(self, space: LabelSpace, epsilon: object, top: object) -> None:
        asked = positive_epsilon(epsilon)
        codes = space.encode(top)
        if not 0 < len(codes) == len(np.unique(codes)):
            raise LawError("Expected top to name at least one label, each once.", top=top)
        mask = np.zeros((1, space.size), bool)
        mask[0, codes] = True
        self._fix_sets(space, LabelSets.of_mask(mask), _tables_for([len(codes)], asked), shared=True)

    def take(self, rows: object) -> FiniteChannel:  # noqa: ARG002  # shared by all rows
        """Return itself: all rows share the set."""
        return self

    def public(self) -> dict[str, Any]:
        """Return the set and its weights."""
        members = np.flatnonzero(self._sets.mask(slice(0, 1))[0])
        return {**_public(self), "top": [int(c) for c in members]}


@final
class PriorRandomizedResponse(SetResponse):
    """Randomised response over the set that a public prior makes best (paper D, Algorithm 2, RRWithPrior).

    ``prior`` is one law of shape (K,) or one a row, (n, K).  With ``choose="correct"`` (the paper's) the response has,
    among all epsilon-DP ones, the largest probability of releasing the true label under that prior (Theorem 3).  Sharp
    priors then make it release a constant, which teaches nothing, and costs nothing.  With ``choose="information"`` the
    set is the one whose released label tells most of the true one (:mod:`labeldp.channels.informative`): better where
    the release is to be learned from together with that prior.

    >>> space = LabelSpace(["a", "b", "c", "d"])
    >>> PriorRandomizedResponse(space, 1.0, [0.5, 0.3, 0.15, 0.05]).sizes.tolist()
    [2]
    """

    def __init__(
        self,
        space: LabelSpace,
        epsilon: object,
        prior: object,
        *,
        choose: Literal["correct", "information"] = "correct",
    ) -> None:
        asked = positive_epsilon(epsilon)
        if choose not in ("correct", "information"):
            raise PriorError(f"Expected choose to be 'correct' or 'information', got {choose!r}.", choose=choose)
        declared = getattr(prior, "space", None)
        if isinstance(declared, LabelSpace) and declared != space:
            raise SpaceMismatchError(f"Expected a prior on {space}, got one on {declared}.", expected=space)
        search = best_sets if choose == "correct" else informative_sets
        sets, shared = search(space.size, prior, asked)
        self._fix_sets(space, sets, _tables_for(np.unique(sets.sizes), asked), shared=shared)

    @classmethod
    def _of_sets(
        cls, space: LabelSpace, sets: LabelSets, tables: tuple[tuple[int, int, int], ...], *, shared: bool
    ) -> PriorRandomizedResponse:
        channel = cls.__new__(cls)
        channel._fix_sets(space, sets, tables, shared=shared)
        return channel

    def take(self, rows: object) -> FiniteChannel:
        """Return the channel of some rows."""
        if self._shared:
            return self
        return self._of_sets(
            self.space, self._sets.take(row_numbers(rows, len(self._sets))), self._tables, shared=False
        )

    def public(self) -> dict[str, Any]:
        """Return the weights by set size; sets of rows are columns."""
        if self._shared:
            members = np.flatnonzero(self._sets.mask(slice(0, 1))[0])
            return {**_public(self), "top": [int(c) for c in members]}
        return _public(self)

    def row_columns(self) -> dict[str, NDArray[Any]]:
        """Return each row's set, one bit a label."""
        return {} if self._shared else {"label_set": self._sets.packed()}

    def _compact_arrays(self) -> list[NDArray[Any]]:
        return self._sets.arrays()


def restore_set_response(space: LabelSpace, data: dict[str, Any], columns: dict[str, NDArray[Any]]) -> FiniteChannel:
    """Rebuild a set response from its public parameters and columns."""
    tables = tuple((int(k), int(other), int(extra)) for k, other, extra in data["tables"])
    if any(other < 1 or extra < 0 or extra + k * other != TOTAL for k, other, extra in tables):
        raise LawError("Expected weights that sum to 2^62.")
    counts = [k for k, _, _ in tables]
    if counts != sorted(set(counts)) or not all(1 <= k <= space.size for k in counts):
        raise LawError(f"Expected weights for sets of 1 .. {space.size} labels, each size once, ascending.")
    if "top" in data:
        top = data["top"]
        if not all(type(code) is int and 0 <= code < space.size for code in top):
            raise LawError(f"Expected a set of codes 0 .. {space.size - 1}.", top=top)
        mask = np.zeros((1, space.size), bool)
        mask[0, top] = True
        sets, shared = LabelSets.of_mask(mask), True
    else:
        bits = np.asarray(columns["label_set"])
        if bits.dtype != np.uint8 or bits.ndim != 2 or bits.shape[1] != -(-space.size // 8) or len(bits) == 0:
            raise ShapeError(f"Expected sets of {space.size} bits, got an array of {bits.shape} and {bits.dtype}.")
        if space.size % 8 and int(bits[:, -1].max()) >> space.size % 8:
            raise LawError(f"Expected sets of {space.size} labels, got one with more.")
        sets, shared = LabelSets.of_packed(bits, space.size), False
    if not set(np.unique(sets.sizes).tolist()) <= {k for k, _, _ in tables}:
        raise ShapeError("Expected weights for every size of set.")
    family = TopKRandomizedResponse if shared else PriorRandomizedResponse
    channel = family.__new__(family)
    channel._fix_sets(space, sets, tables, shared=shared)  # its own family
    return channel


def _public(channel: SetResponse) -> dict[str, Any]:
    tables = [[k, str(other), str(extra)] for k, other, extra in channel._tables]  # its own family
    return {"family": channel.family, "space": channel.space.to_json(), "tables": tables}


def _tables_for(sizes: Any, epsilon: Fraction) -> tuple[tuple[int, int, int], ...]:  # integers
    return tuple((int(k), *_set_weights(int(k), epsilon)) for k in sorted(sizes))


def _set_weights(k: int, epsilon: Fraction) -> tuple[int, int]:
    return (TOTAL, 0) if k == 1 else response_weights(k, epsilon, SCALE_BITS)


def _largest_ratio(k: int, other: int, extra: int, size: int) -> Fraction:
    inside = Fraction(other + extra, other)
    if k == size:
        return inside
    return max(inside, Fraction(other + extra, TOTAL // k), Fraction(TOTAL // k + TOTAL % k, other))


def _pairs(k: int, other: int, extra: int, size: int) -> list[tuple[int, int, int]]:
    """Return all different pairs of neighbouring laws, equal outcomes merged, as rows first, second, first, ..."""
    true = other + extra
    rows = [(true, other, (k - 2) * other), (other, true, (k - 2) * other)] if k > 1 else []
    if k < size:
        even, last = TOTAL // k, TOTAL // k + TOTAL % k
        if k > 1:
            rows += [(true, other, (k - 2) * other), (even, last, (k - 2) * even)]
        rows += [(true, 0, (k - 1) * other), (last, 0, (k - 1) * even)]
    both = [row for i in range(0, len(rows), 2) for row in (rows[i], rows[i + 1], rows[i + 1], rows[i])]
    return both or [(TOTAL, 0, 0), (TOTAL, 0, 0)]


def _factor(k: int, extra: float, size: int) -> float:
    """Mean squared length of the corrected indicator: members are alike, so it is that at any one of them."""
    mask = np.arange(size)[None] < k
    corrected = SetCorrection(mask, np.array([[extra]]), None).indicators(np.zeros(1, np.intp))
    return float((corrected**2).sum())


_CELLS_PER_STEP: Final = 1 << 18
