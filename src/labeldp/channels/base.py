"""Finite channels: a mechanism that is its table of integer weights.

Row ``y`` of a table holds how many of the 2^62 equally likely draws release each label when the true one is
``y``.  Sampling, epsilon, correction, posterior and audit are all derived from these integers.
"""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, final

import numpy as np

from labeldp.errors import PriorError, ShapeError, SpaceMismatchError
from labeldp.exact import float_up
from labeldp.guarantee.value import Guarantee, Loss
from labeldp.plan import CoinAccess, Plan, PublicData
from labeldp.prf import ROWS_PER_STEP, parameter_digest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    from numpy.typing import NDArray

    from labeldp.ids import RowIds
    from labeldp.labels import Codes, LabelSpace

SCALE_BITS: Final = 62
#: Every row of a table sums to this; four draws of a 64-bit word make one of its units.
TOTAL: Final = 1 << SCALE_BITS
_WORDS_PER_UNIT: Final = np.uint64(4)

ASSUMPTIONS: Final = (
    "The features, and every parameter of the mechanism, are public and were chosen without the labels.",
    "The coins are secret, and no other release of the same labels goes unaccounted.",
)


@final
@dataclass(frozen=True)
class RowsDrawn:
    """Released codes, one a row, and the channel that explains them."""

    channel: FiniteChannel
    codes: Codes


class FiniteChannel(ABC):
    """The law of a released label given the true one.

    A channel has one table for all rows, one per group of rows, or one per row; ``rows`` is the number of rows
    it is bound to, or None when any row will do.
    """

    family: ClassVar[str]

    # ---- what it is -------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def space(self) -> LabelSpace:
        """The true labels."""

    @property
    @abstractmethod
    def released_space(self) -> LabelSpace:
        """The labels that can be released."""

    @property
    @abstractmethod
    def rows(self) -> int | None:
        """Number of rows the channel is bound to; None when all rows share one table."""

    @property
    @abstractmethod
    def contexts(self) -> int:
        """Number of distinct tables."""

    @abstractmethod
    def weights_of(self, context: int) -> NDArray[np.int64]:
        """Return the integer table ``weights[true, released]`` of one context."""

    @abstractmethod
    def context_of(self, row: int) -> int:
        """Return the context of a row."""

    @property
    @abstractmethod
    def epsilon_exact(self) -> Fraction | None:
        """The largest log ratio of two weights of one released label, rounded up to 40 places; None if infinite."""

    @abstractmethod
    def _loss(self) -> Loss:
        """Return the privacy loss, with the exact pairs of neighbouring laws."""

    @property
    @abstractmethod
    def invertible(self) -> bool:
        """Whether an unbiased correction exists for every row."""

    # ---- what it does -----------------------------------------------------------------------------------

    @abstractmethod
    def forward(self, probabilities: object) -> NDArray[np.float64]:
        """Push class probabilities (n, K) through the channel: the law of the released label, (n, K')."""

    @abstractmethod
    def likelihood(self, codes: object) -> NDArray[np.float64]:
        """Return P(released label | true label) for each row's released code and every true label, (n, K)."""

    @abstractmethod
    def unbias(self, losses: object, *, prior: object = None) -> NDArray[np.float64]:
        """Turn losses by true label, (n, K), into losses by released label, (n, K'), with the same mean.

        Where no unbiased correction exists a :class:`BiasWarning` says so and the best linear one is given: the
        least-squares one, or with a ``prior`` the one that is unbiased on average under it.
        """

    @abstractmethod
    def soft_labels(self, codes: object, *, prior: object = None) -> NDArray[np.float64]:
        """Return the debiased indicators of all labels at each row's released code: signed soft labels, (n, K)."""

    @property
    @abstractmethod
    def variance_factor(self) -> float:
        """How many noisy labels are worth one clean one to a learner that corrects, averaged over labels and rows.

        It is the mean squared length of the corrected indicator of the true label, which is 1 without noise.
        """

    @abstractmethod
    def take(self, rows: object) -> FiniteChannel:
        """Return the channel of some rows."""

    @abstractmethod
    def _draw(self, codes: Codes, words: NDArray[np.uint64], start: int) -> Codes:
        """Release rows ``start`` ... from one uniform word each; internal, for the curator only."""

    # ---- how it is written down -------------------------------------------------------------------------

    @abstractmethod
    def public(self) -> dict[str, Any]:
        """Return the shared parameters as JSON; with :meth:`row_columns` they rebuild the channel exactly."""

    def row_columns(self) -> dict[str, NDArray[Any]]:
        """Return per-row parameters, by column name."""
        return {}

    # ---- derived ----------------------------------------------------------------------------------------

    @final
    @property
    def epsilon(self) -> float:
        """Pure epsilon: the exact one, rounded up to a float; infinite if an output rules out a label."""
        return math.inf if self.epsilon_exact is None else float_up(self.epsilon_exact)

    @final
    @cached_property
    def guarantee(self) -> Guarantee:
        """What one release through this channel promises."""
        return Guarantee(self._loss(), trust="local", assumptions=ASSUMPTIONS)

    @final
    @property
    def weights(self) -> NDArray[np.int64]:
        """The integer table: (K, K') for a shared one, (contexts, K, K') for one per group."""
        if self.contexts == 1:
            return self.weights_of(0)
        if self.contexts * self.space.size * self.released_space.size > _LARGE:
            raise ShapeError(
                "Expected few tables; this channel has one per row. Use weights_of(context), forward or likelihood.",
                contexts=self.contexts,
            )
        return np.stack([self.weights_of(c) for c in range(self.contexts)])

    @final
    @property
    def transition(self) -> NDArray[np.float64]:
        """P(released | true) as floats, in the shape of :attr:`weights`."""
        return self.weights / float(TOTAL)

    @final
    def posterior(self, codes: object, prior: object) -> NDArray[np.float64]:
        """Return P(true label | released label) for each row, (n, K), by Bayes from a prior (K,) or (n, K)."""
        likelihood = self.likelihood(codes)
        belief = belief_table(prior, *likelihood.shape)
        joint = likelihood * belief
        total = joint.sum(axis=1, keepdims=True)
        # An output that the prior deems impossible teaches nothing: the prior stands.
        impossible = total[:, 0] <= 0
        if impossible.any():
            joint[impossible] = belief[impossible]
            total = joint.sum(axis=1, keepdims=True)
        result: NDArray[np.float64] = joint / total
        return result

    @final
    def digest(self) -> bytes:
        """SHA-256 of the shared public parameters."""
        return hashlib.sha256(json.dumps(self.public(), sort_keys=True, separators=(",", ":")).encode()).digest()

    @final
    def plan(self, public: PublicData) -> Plan:
        """Settle a release of one noisy label per row."""
        if public.space != self.space:
            raise SpaceMismatchError(
                f"Expected labels of {self.space}, got labels of {public.space}.", expected=self.space
            )
        if self.rows is not None and self.rows != public.rows:
            raise ShapeError(
                f"Expected {self.rows} rows, one for each of the channel's, got {public.rows} labels.",
                expected=self.rows,
                got=public.rows,
            )

        def draw(codes: Codes, coins: CoinAccess) -> RowsDrawn:
            return RowsDrawn(self, draw_rows(self, codes, coins.rows("row release").stream()))

        return Plan(self.guarantee, self.public(), self.parameter_digest(public.ids), draw)

    @final
    def parameter_digest(self, ids: RowIds) -> bytes:
        """Digest the per-row parameters together with the rows' ids; empty where there are none."""
        return parameter_digest(ids, self.row_bytes, self._compact_arrays) if self.rows is not None else b""

    @final
    def row_bytes(self) -> NDArray[np.uint8]:
        """Return per-row parameters as one row of bytes each."""
        columns = [np.ascontiguousarray(c).reshape(len(c), -1).view(np.uint8) for c in self.row_columns().values()]
        return np.concatenate(columns, axis=1)

    def _compact_arrays(self) -> list[NDArray[Any]]:
        """Return per-row parameters as they are kept, in a form that depends on their content alone."""
        return list(self.row_columns().values())

    @final
    def followed_by(self, channel: FiniteChannel) -> FiniteChannel:
        """Return the channel that sends this one's output through another, as a table of its own."""
        from labeldp.channels.algebra import followed_by

        return followed_by(self, channel)

    @final
    def product(self, channel: FiniteChannel) -> FiniteChannel:
        """Return the channel that releases a pair: this one's and another's output of the same label."""
        from labeldp.channels.algebra import product

        return product(self, channel)

    @final
    def __eq__(self, other: object) -> bool:
        if not isinstance(other, FiniteChannel) or other.public() != self.public():
            return False
        mine, theirs = self.row_columns(), other.row_columns()
        return mine.keys() == theirs.keys() and all(np.array_equal(mine[k], theirs[k]) for k in mine)

    @final
    def __hash__(self) -> int:
        return hash(self.digest())

    @final
    def __repr__(self) -> str:
        bound = "" if self.rows is None else f", {self.rows} rows"
        return f"{type(self).__name__}({self.space.size} labels, epsilon <= {self.epsilon:.6g}{bound})"

    @final
    def __reduce__(self) -> tuple[Any, tuple[dict[str, Any], dict[str, NDArray[Any]]]]:
        # A channel is public: its pickle holds what a release file holds, and is checked like one.
        return _restored, (self.public(), self.row_columns())

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"Channels are immutable; cannot set {name!r}.")

    @final
    def _fix(self, **fields: object) -> None:
        """Set fields once, at construction."""
        for name, value in fields.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)


def _restored(public: dict[str, Any], columns: dict[str, NDArray[Any]]) -> FiniteChannel:
    from labeldp.channels.restore import restore_channel

    return restore_channel(public, columns)


def draw_rows(channel: FiniteChannel, codes: Codes, words: Iterator[tuple[int, NDArray[np.uint64]]]) -> Codes:
    """Draw every row from its word, in cache-sized steps."""
    from labeldp.labels import code_type

    out = np.empty(len(codes), code_type(channel.released_space.size))
    for start, part in words:
        stop = start + len(part)
        out[start:stop] = channel._draw(codes[start:stop], part, start)  # the curator's kernel
    return out


def per_word(weight: NDArray[np.uint64] | int) -> Any:  # same kind as given
    """Scale units of 2^-62 to units of a 64-bit word: the top 62 bits of a word decide."""
    return np.uint64(weight) * _WORDS_PER_UNIT if isinstance(weight, int) else weight * _WORDS_PER_UNIT


def code_array(codes: object, channel: FiniteChannel) -> NDArray[np.intp]:
    """Read released codes, one a row of the channel."""
    array = np.asarray(codes)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (channel.rows is not None and len(array) != channel.rows):
        raise ShapeError(
            f"Expected one released code for each of the channel's {channel.rows or 'n'} rows, "
            f"got an array of shape {array.shape} and type {array.dtype}."
        )
    if len(array) and not (int(array.min()) >= 0 and int(array.max()) < channel.released_space.size):
        raise ShapeError(f"Expected codes 0 .. {channel.released_space.size - 1}.")
    return array.astype(np.intp)


def class_table(values: object, channel: FiniteChannel, what: str) -> NDArray[np.float64]:
    """Read a (n, K) table by true label; a single row of K serves for one row."""
    array = np.atleast_2d(np.asarray(values, np.float64))
    rows = channel.rows
    if array.ndim != 2 or array.shape[1] != channel.space.size or (rows is not None and len(array) not in (1, rows)):
        raise ShapeError(
            f"Expected {what} of shape ({rows or 'n'}, {channel.space.size}), got {array.shape}.", shape=array.shape
        )
    if rows is not None and len(array) == 1 and rows != 1:
        array = np.broadcast_to(array, (rows, channel.space.size))
    return array


def float_array(values: object) -> NDArray[np.float64]:
    """Read public numbers as floats; texts, complex numbers and values under a mask are a TypeError."""
    array = np.asarray(values)
    if array.dtype.kind not in "biufO" or np.ma.is_masked(values):
        raise TypeError(f"no table of numbers: {array.dtype}")
    return array.astype(np.float64, copy=False)


def steps(rows: int, size: int = ROWS_PER_STEP) -> Iterator[slice]:
    """Cut rows into steps."""
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


def row_numbers(rows: object, bound: int) -> NDArray[np.intp]:
    """Turn a mask, a slice or positions into positions."""
    if isinstance(rows, slice):
        return np.arange(bound)[rows]
    array = np.asarray(rows)
    if array.dtype != bool:
        return array.astype(np.intp)
    if array.shape != (bound,):
        raise ShapeError(f"Expected a mask of {bound} rows, got shape {array.shape}.", shape=array.shape)
    return np.flatnonzero(array)


def belief_table(prior: object, rows: int, labels: int) -> NDArray[np.float64]:
    """Read a prior of a correction or a posterior, (K,) or (n, K), as a table for ``rows`` rows."""
    table = np.asarray(prior, np.float64)
    if table.shape not in {(labels,), (rows, labels)}:
        raise PriorError(f"Expected a prior of shape ({labels},) or ({rows}, {labels}), got {table.shape}.")
    if not (bool((table >= 0).all()) and bool(np.isfinite(table).all()) and bool((table.sum(axis=-1) > 0).all())):
        raise PriorError("Expected a prior of finite numbers that are not negative, nor all zero in a row.")
    return np.broadcast_to(table, (rows, labels))


_LARGE: Final = 1 << 26
