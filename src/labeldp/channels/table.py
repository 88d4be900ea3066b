"""Any stochastic matrix as a channel, rounded to integers without exceeding the asked epsilon."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from labeldp.channels.base import (
    TOTAL,
    FiniteChannel,
    belief_table,
    class_table,
    code_array,
    float_array,
    per_word,
    row_numbers,
)
from labeldp.channels.correct import full_rank, table_correction, warn_of_bias
from labeldp.errors import EmptyInputError, EpsilonError, MatrixError, ShapeError
from labeldp.exact import exp_bounds, log_up, positive_epsilon
from labeldp.guarantee.value import FiniteLoss, Loss, ParallelLoss
from labeldp.labels import LabelSpace, code_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.labels import Codes

#: A matrix that needs a coarser mixture than 2^-28 (some 1e-8) does not meet its epsilon up to float error.
COARSEST: Final = 27


@final
class TableChannel(FiniteChannel):
    """A channel given by its matrix ``matrix[true, released]``, of shape (K, K').

    With ``epsilon`` the matrix must meet it up to float error, and the integer table then meets it exactly;
    without, the table has whatever epsilon it has, which may be infinite.  ``released`` names the released
    labels if they are not the true ones.

    >>> space = LabelSpace(["a", "b"])
    >>> TableChannel(space, [[0.75, 0.25], [0.25, 0.75]]).epsilon
    1.0986122886681098
    """

    family = "table"

    def __init__(
        self,
        space: LabelSpace,
        matrix: object,
        epsilon: object = None,
        *,
        released: LabelSpace | None = None,
    ) -> None:
        asked = None if epsilon is None else positive_epsilon(epsilon)
        target = space if released is None else released
        table = _read_matrix(matrix, space.size, target.size)
        self._fix_table(space, target, to_weights(table, asked)[None], None)

    @classmethod
    def from_weights(
        cls,
        space: LabelSpace,
        weights: object,
        *,
        released: LabelSpace | None = None,
        groups: NDArray[Any] | None = None,
    ) -> TableChannel:
        """Build from integer tables (K, K') or (G, K, K') whose rows sum to 2^62."""
        table = _read_weights(weights)
        target = space if released is None else released
        if table.ndim != 3 or table.shape[1:] != (space.size, target.size) or len(table) == 0:  # (G, K, K')
            raise MatrixError(f"Expected tables of shape ({space.size}, {target.size}), got {table.shape}.")
        # Five weights of 2^62 sum to 2^62 in 64 bits: the sum in floats excludes that.
        sums = table.sum(axis=2), table.sum(axis=2, dtype=np.float64)
        if table.min() < 0 or not bool(((sums[0] == TOTAL) & (sums[1] < 2.0 * TOTAL)).all()):
            raise MatrixError("Expected integer weights that are not negative, every row summing to 2^62.")
        if groups is None and len(table) != 1:
            raise MatrixError(f"Expected one table for all rows, or groups= naming each row's; got {len(table)}.")
        if groups is not None:
            groups = np.array(groups)
            if groups.ndim != 1 or groups.dtype.kind not in "iu":
                raise ShapeError(f"Expected one integer group a row, got {groups.shape} and {groups.dtype}.")
            if len(groups) == 0:
                raise EmptyInputError("Expected at least one row in groups, got none.")
            if int(groups.min()) < 0 or int(groups.max()) >= len(table):
                raise ShapeError(f"Expected groups 0 .. {len(table) - 1}, got {groups.min()} .. {groups.max()}.")
            # One type, whatever came: equal channels must have equal bytes.
            groups = groups.astype(code_type(len(table)))
        channel = cls.__new__(cls)
        channel._fix_table(space, target, table, groups)
        return channel

    def _fix_table(
        self, space: LabelSpace, released: LabelSpace, weights: NDArray[np.int64], groups: NDArray[Any] | None
    ) -> None:
        ends = np.cumsum(weights.astype(np.uint64), axis=2)
        limits = np.where(ends < TOTAL, per_word(ends), np.uint64(2**64 - 1))
        # The last possible outcome takes the words up to the very end.
        last = weights.shape[2] - 1 - np.argmax(weights[:, :, ::-1] > 0, axis=2)
        self._fix(_space=space, _released=released, _weights=weights, _groups=groups)
        self._fix(_limits=limits, _last=last, _float=weights / TOTAL)

    _space: LabelSpace
    _released: LabelSpace
    _weights: NDArray[np.int64]
    _groups: NDArray[Any] | None
    _limits: NDArray[np.uint64]
    _last: NDArray[np.intp]
    _float: NDArray[np.float64]

    @property
    def space(self) -> LabelSpace:
        """The true labels."""
        return self._space

    @property
    def released_space(self) -> LabelSpace:
        """The labels that can be released."""
        return self._released

    @property
    def rows(self) -> int | None:
        """Rows that were sorted into groups, or None for one shared table."""
        return None if self._groups is None else len(self._groups)

    @property
    def contexts(self) -> int:
        """One table a group."""
        return len(self._weights)

    def context_of(self, row: int) -> int:
        """Return the group of a row."""
        return 0 if self._groups is None else int(self._groups[row])

    def weights_of(self, context: int) -> NDArray[np.int64]:
        """Return the exact table of one group."""
        weights: NDArray[np.int64] = self._weights[context].copy()
        return weights

    @cached_property
    def epsilon_exact(self) -> Fraction | None:
        """Largest log ratio within a column; None when an output rules out a label."""
        low, high = self._weights.min(axis=1), self._weights.max(axis=1)
        return None if bool(((low == 0) & (high > 0)).any()) else log_up(largest_ratio(self._weights))

    def _loss(self) -> Loss:
        epsilon = self.epsilon_exact
        if epsilon is None:
            raise EpsilonError(
                "Expected a table with a finite epsilon; this one has an output that rules out a label, so it "
                "promises nothing. It serves for tests only."
            )
        parts = tuple(FiniteLoss.of_table(epsilon, table) for table in self._weights)
        return parts[0] if len(parts) == 1 else ParallelLoss(parts)

    @cached_property
    def invertible(self) -> bool:
        """Whether every table has rank K."""
        return all(full_rank(table) for table in self._float)

    def forward(self, probabilities: object) -> NDArray[np.float64]:
        """Multiply by the matrix of each row's group."""
        table = class_table(probabilities, self, "probabilities")
        return self._by_group(table, self._float)

    def likelihood(self, codes: object) -> NDArray[np.float64]:
        """Return the column of each row's released code."""
        array = code_array(codes, self)
        columns: NDArray[np.float64] = self._float[0 if self._groups is None else self._groups, :, array]
        return columns

    def unbias(self, losses: object, *, prior: object = None) -> NDArray[np.float64]:
        """Debias losses by the inverse matrix, or the best linear substitute (ERRATA D4)."""
        table = class_table(losses, self, "losses")
        if not self.invertible:
            warn_of_bias(self)
        belief = _belief(prior, table)
        if belief is not None and belief.ndim == 2:  # a law a row
            return np.stack(
                [row @ self._correction(i, law) for i, (row, law) in enumerate(zip(table, belief, strict=True))]
            )
        return self._by_group(table, np.stack([table_correction(part, belief) for part in self._float]))

    def soft_labels(self, codes: object, *, prior: object = None) -> NDArray[np.float64]:
        """Debiased indicators: the column of the correction that belongs to each row's released label."""
        array = code_array(codes, self)
        if not self.invertible:
            warn_of_bias(self)
        belief = _belief(prior, np.empty((len(array), self.space.size)))
        if belief is not None and belief.ndim == 2:  # a law a row
            return np.stack(
                [self._correction(i, law)[:, code] for i, (code, law) in enumerate(zip(array, belief, strict=True))]
            )
        tables = np.stack([table_correction(part, belief) for part in self._float])
        columns: NDArray[np.float64] = tables[0 if self._groups is None else self._groups, :, array]
        return columns

    def _correction(self, row: int, prior: NDArray[np.float64]) -> NDArray[np.float64]:
        return table_correction(self._float[self.context_of(row)], prior)

    @cached_property
    def variance_factor(self) -> float:
        """Mean over rows of E |corrected indicator|^2."""
        factors = np.array(
            [float((part @ (table_correction(part, None) ** 2).sum(axis=0)).mean()) for part in self._float]
        )
        return float(factors[0] if self._groups is None else factors[self._groups].mean())

    def take(self, rows: object) -> FiniteChannel:
        """Return the channel of some rows, with all tables."""
        if self._groups is None:
            return self
        groups = self._groups[row_numbers(rows, len(self._groups))]
        part = TableChannel.__new__(TableChannel)
        part._fix_table(self._space, self._released, self._weights, groups)
        return part

    def public(self) -> dict[str, Any]:
        """Return the integer tables; groups of rows are a column."""
        return {
            "family": self.family,
            "space": self.space.to_json(),
            "released": self._released.to_json(),
            "weights": [[[str(w) for w in row] for row in table] for table in self._weights.tolist()],
            "grouped": self._groups is not None,
        }

    def row_columns(self) -> dict[str, NDArray[Any]]:
        """Return each row's group."""
        return {} if self._groups is None else {"group": self._groups}

    def _by_group(self, values: NDArray[np.float64], tables: NDArray[np.float64]) -> NDArray[np.float64]:
        if self._groups is None:
            product: NDArray[np.float64] = values @ tables[0]
            return product
        out = np.empty((len(values), tables.shape[2]))
        for group, table in enumerate(tables):
            members = self._groups == group
            out[members] = values[members] @ table
        return out

    def _draw(self, codes: Codes, words: NDArray[np.uint64], start: int) -> Codes:
        group = 0 if self._groups is None else self._groups[start : start + len(codes)]
        limits = self._limits[group, codes]
        # Count the limits at or below the word; outcomes of weight zero are stepped over together with their limit.
        place = (limits <= words[:, None]).sum(axis=1)
        released: Codes = np.minimum(place, self._last[group, codes]).astype(code_type(self._released.size))
        return released


def _belief(prior: object, like: NDArray[np.float64]) -> NDArray[np.float64] | None:
    """Return a prior as one law, or as one a row."""
    if prior is None:
        return None
    table = belief_table(prior, *like.shape)
    return table[0] if np.ndim(prior) == 1 and len(table) else table  # type: ignore[arg-type]  # was read as an array


def identity_channel(space: LabelSpace) -> TableChannel:
    """Return the channel that releases the true label: no privacy, for tests."""
    return TableChannel(space, np.eye(space.size))


def constant_channel(space: LabelSpace, label: object) -> TableChannel:
    """Return the channel that releases one label whatever the truth: epsilon 0, for tests."""
    matrix = np.zeros((space.size, space.size))
    matrix[:, int(space.encode([label])[0])] = 1.0
    return TableChannel(space, matrix)


def restore_table(space: LabelSpace, data: dict[str, Any], columns: dict[str, NDArray[Any]]) -> FiniteChannel:
    """Rebuild a table from its public parameters and columns."""
    weights = np.array([[[int(w) for w in row] for row in table] for table in data["weights"]], np.int64)
    groups = None
    if data["grouped"]:
        groups = np.asarray(columns["group"])
    return TableChannel.from_weights(space, weights, released=LabelSpace.from_json(data["released"]), groups=groups)


def to_weights(matrix: NDArray[np.float64], epsilon: Fraction | None, coarsest: int = COARSEST) -> NDArray[np.int64]:
    """Round a stochastic matrix to integer rows of 2^62 whose exact epsilon is at most the asked one.

    Rounding can lift a ratio by a few parts in 2^62.  Mixing every row with the same law lowers all ratios, so
    the smallest mixture 2^-60, 2^-59, ... that satisfies the bound exactly is taken, before 2^-``coarsest``.
    """
    matrix = matrix / matrix.sum(axis=1, keepdims=True)
    plain = _integer_rows(matrix)
    if epsilon is None:
        return plain
    bound, _ = exp_bounds(epsilon)
    law = matrix.mean(axis=0, keepdims=True)
    if _meets(plain, bound):
        return plain
    ratio = _float_ratio(matrix)
    # A zero where other labels have none is no float error.
    for power in range(60, coarsest, -1) if ratio < np.inf else ():
        share = 2.0**-power
        mixed = _integer_rows((1.0 - share) * matrix + share * law)
        if _meets(mixed, bound):
            return mixed
    raise MatrixError(
        f"Expected a matrix whose epsilon is at most {float(epsilon):.9g}, got one of {ratio:.9g}. "
        "Ask for its own epsilon, or mix its rows.",
        epsilon=ratio,
    )


def largest_ratio(weights: NDArray[np.int64]) -> Fraction:
    """Return the largest ratio of two weights of one released label, over tables (G, K, K') without lone zeros."""
    low = weights.min(axis=1).ravel().tolist()
    high = weights.max(axis=1).ravel().tolist()
    return max(Fraction(h, s) for h, s in zip(high, low, strict=True) if s)


def _meets(weights: NDArray[np.int64], bound: Fraction) -> bool:
    low, high = weights.min(axis=0).tolist(), weights.max(axis=0).tolist()
    return all(h * bound.denominator <= s * bound.numerator for h, s in zip(high, low, strict=True))


def _integer_rows(matrix: NDArray[np.float64]) -> NDArray[np.int64]:
    weights = np.maximum(np.floor(matrix * float(TOTAL)), matrix > 0).astype(np.int64)
    # What rounding left over goes to each row's largest weight, which it changes least.
    rows = np.arange(len(weights))
    weights[rows, weights.argmax(axis=1)] += TOTAL - weights.sum(axis=1)
    return weights


def _float_ratio(matrix: NDArray[np.float64]) -> float:
    with np.errstate(divide="ignore", invalid="ignore"):
        columns = matrix[:, matrix.max(axis=0) > 0]
        return float(np.log(columns.max(axis=0) / columns.min(axis=0)).max())


def _read_weights(weights: object) -> NDArray[np.int64]:
    try:
        given = np.asarray(weights)
        table = np.array(weights, np.int64)
    except (TypeError, ValueError, OverflowError):
        raise MatrixError(f"Expected tables of integers below 2^63, got {type(weights).__name__}.") from None
    if given.dtype.kind not in "iuO" or not bool((given == table).all()):
        raise MatrixError(f"Expected tables of integers, got {given.dtype}.")
    return table[None] if table.ndim == 2 else table  # one table


def _read_matrix(matrix: object, rows: int, columns: int) -> NDArray[np.float64]:
    try:
        table = float_array(matrix)
    except (TypeError, ValueError):
        raise MatrixError(f"Expected a matrix of shape ({rows}, {columns}), got {type(matrix).__name__}.") from None
    if table.shape != (rows, columns):
        raise MatrixError(
            f"Expected a matrix of shape ({rows}, {columns}), true labels by released ones, got {table.shape}.",
            shape=table.shape,
        )
    sums = table.sum(axis=1)
    if not (bool((table >= 0).all()) and bool((np.abs(sums - 1.0) <= 1e-6).all())):
        raise MatrixError("Expected a stochastic matrix: no negative or missing entry, every row summing to 1.")
    return table
