"""Channels made of channels, as tables of their own."""

from __future__ import annotations

import json
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from labeldp.channels.base import SCALE_BITS, TOTAL, FiniteChannel
from labeldp.channels.table import TableChannel, to_weights
from labeldp.errors import MatrixError, ShapeError, SpaceMismatchError
from labeldp.labels import LabelSpace, code_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MOST_CELLS: Final = 1 << 26
_FLOAT_ERROR: Final = Fraction(1, 10**12)


def followed_by(first: FiniteChannel, second: FiniteChannel) -> TableChannel:
    """Return the channel that sends the output of ``first`` through ``second``.

    By data processing it costs no more than ``first``; rounding to integers respects that exactly.
    """
    if second.space != first.released_space:
        raise SpaceMismatchError(
            f"Expected a second channel on {first.released_space}, got one on {second.space}.",
            expected=first.released_space,
        )

    def join(a: int, b: int) -> NDArray[np.int64]:
        return _rounded((first.weights_of(a) / TOTAL) @ (second.weights_of(b) / TOTAL), first.epsilon_exact)

    return _combined(first, second, second.released_space, join)


def product(first: FiniteChannel, second: FiniteChannel) -> TableChannel:
    """Return the channel that releases both outputs of the same label, drawn with independent coins."""
    if second.space != first.space:
        raise SpaceMismatchError(f"Expected a channel on {first.space}, got one on {second.space}.")
    both = [(a, b) for a in first.released_space.labels for b in second.released_space.labels]
    names = [f"{a} & {b}" for a, b in both]
    # Labels that hold the separator themselves can make two pairs look alike.
    pairs = LabelSpace(names if len(set(names)) == len(names) else [json.dumps(pair) for pair in both])
    mine, other = first.epsilon_exact, second.epsilon_exact
    bound = None if mine is None or other is None else mine + other

    def join(a: int, b: int) -> NDArray[np.int64]:
        left, right = first.weights_of(a) / TOTAL, second.weights_of(b) / TOTAL
        joint = (left[:, :, None] * right[:, None, :]).reshape(first.space.size, -1)
        return _rounded(joint, bound)

    return _combined(first, second, pairs, join)


def _combined(first: FiniteChannel, second: FiniteChannel, released: LabelSpace, join: Any) -> TableChannel:
    """Join the tables of every pair of contexts that occurs together in a row."""
    if first.rows is not None and second.rows is not None and first.rows != second.rows:
        raise ShapeError(f"Expected channels of as many rows, got {first.rows} and {second.rows}.")
    rows = first.rows or second.rows
    if rows is None:
        return TableChannel.from_weights(first.space, join(0, 0), released=released)
    left, right = _contexts(first, rows), _contexts(second, rows)
    distinct, groups = np.unique(np.column_stack([left, right]), axis=0, return_inverse=True)
    cells = len(distinct) * first.space.size * released.size
    if cells > _MOST_CELLS:
        raise ShapeError(
            f"Expected channels whose rows share few tables; joining these needs {len(distinct)} tables of "
            f"{first.space.size} x {released.size}. Release through the first, and process the release instead.",
            tables=len(distinct),
        )
    weights = np.stack([join(int(a), int(b)) for a, b in distinct])
    return TableChannel.from_weights(
        first.space, weights, released=released, groups=groups.ravel().astype(code_type(len(distinct)))
    )


def _rounded(joint: NDArray[np.float64], bound: Fraction | None) -> NDArray[np.int64]:
    """Round to integers within an epsilon that is known to hold; rounding may cost a mixture of the rows."""
    try:
        return to_weights(joint, bound, coarsest=0)
    except MatrixError:
        if bound is None:
            raise
        # Rows differ by no more than float error, which alone exceeds the bound: rows that are alike spend nothing.
        if bound <= _FLOAT_ERROR:
            return to_weights(np.repeat(joint[:1], len(joint), axis=0), None)
        raise MatrixError(
            f"Expected a table that 2^{SCALE_BITS} draws can hold at epsilon {float(bound):.3g}: its smallest "
            f"probability, {joint[joint > 0].min():.3g}, is too few of them. Release through the two channels one after "
            "the other, or ask for a larger epsilon or a less skewed law.",
            epsilon=float(bound),
        ) from None


def _contexts(channel: FiniteChannel, rows: int) -> NDArray[np.intp]:
    """Return one number a row, equal where the rows' tables are equal."""
    if channel.rows is None:
        return np.zeros(rows, np.intp)
    _, first, inverse = np.unique(channel.row_bytes(), axis=0, return_index=True, return_inverse=True)
    return np.array([channel.context_of(int(row)) for row in first], np.intp)[inverse.ravel()]
