"""The best channel for a prior and a utility, by linear programming (paper D, Theorem 3)."""

from __future__ import annotations

import numpy as np

from labeldp.channels.base import float_array
from labeldp.channels.prior import read_prior
from labeldp.channels.table import TableChannel
from labeldp.errors import MatrixError, PriorError
from labeldp.exact import positive_epsilon
from labeldp.labels import LabelSpace


def best_channel(
    space: LabelSpace, prior: object, epsilon: object, utility: object = None, *, released: LabelSpace | None = None
) -> TableChannel:
    """Return the epsilon-DP channel of the largest expected utility under a public prior.

    ``utility[true, released]`` says what releasing a label is worth; by default 1 for the true one, else 0, which
    gives the response of :class:`PriorRandomizedResponse`.  The programme maximises
    sum_y p_y sum_o u(y, o) P(o | y) over stochastic P with P(o | y) <= e^eps P(o | y').

    >>> space = LabelSpace(["a", "b", "c", "d"])
    >>> channel = best_channel(space, [0.5, 0.3, 0.15, 0.05], 1.0)
    >>> round(float((np.diag(channel.transition) * [0.5, 0.3, 0.15, 0.05]).sum()), 6)
    0.584847
    """
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    asked = positive_epsilon(epsilon)
    table, shared = read_prior(space.size, prior)
    if not shared:
        raise PriorError(f"Expected one prior of shape ({space.size},); design one channel a prior, got {table.shape}.")
    law = np.asarray(table[0], np.float64)
    if not (law >= 0).all() or abs(float(law.sum()) - 1.0) > 1e-6:  # float error
        raise PriorError("Expected a prior that is not negative and sums to 1.")
    target = space if released is None else released
    size, outputs = space.size, target.size
    try:
        worth = np.eye(size) if utility is None else float_array(utility)
    except (TypeError, ValueError):
        raise MatrixError(f"Expected a utility of shape ({size}, {outputs}), got {type(utility).__name__}.") from None
    if worth.shape != (size, outputs) or not np.isfinite(worth).all():
        raise MatrixError(f"Expected a finite utility of shape ({size}, {outputs}), got {worth.shape}.")
    # Unknowns are P(o | y) and, for each output, its smallest probability m_o: m_o <= P(o | y) <= e^eps m_o.
    # That is 2 K K' constraints instead of K^2 K'.
    growth = float(np.exp(min(float(asked), _LARGEST)))
    cells = np.arange(size * outputs)
    column = size * outputs + cells % outputs
    ones = np.ones(len(cells))
    low = coo_array((np.r_[ones, -ones], (np.r_[cells, cells], np.r_[column, cells])))
    high = coo_array((np.r_[ones, -growth * ones], (np.r_[cells, cells] + len(cells), np.r_[cells, column])))
    bounds = coo_array(
        (np.r_[low.data, high.data], (np.r_[low.row, high.row], np.r_[low.col, high.col])),
        shape=(2 * len(cells), len(cells) + outputs),
    )
    sums = coo_array((ones, (cells // outputs, cells)), shape=(size, len(cells) + outputs))
    solved = linprog(
        -np.r_[(law[:, None] * worth).ravel(), np.zeros(outputs)],
        A_ub=bounds.tocsr(),
        b_ub=np.zeros(2 * len(cells)),
        A_eq=sums.tocsr(),
        b_eq=np.ones(size),
        bounds=(0, 1),
        method="highs",
    )
    if not solved.success:
        raise MatrixError(f"Expected a solvable programme; the solver says: {solved.message}")
    return TableChannel(
        space, _cleaned(solved.x[: len(cells)].reshape(size, outputs), growth), asked, released=released
    )


def _cleaned(matrix: np.ndarray, growth: float) -> np.ndarray:
    """Undo the solver's tolerance: drop outputs that are never used, and restore the smallest probabilities."""
    matrix = np.where(matrix.max(axis=0) > _UNUSED, np.maximum(matrix, 0.0), 0.0)
    for _ in range(_REPAIRS):
        matrix = np.maximum(matrix, matrix.max(axis=0) / growth)
        matrix /= matrix.sum(axis=1, keepdims=True)
    return matrix


#: A float cannot tell what a larger epsilon would add, and the solver refuses larger coefficients.
_LARGEST = 34.0
_UNUSED = 1e-9
_REPAIRS = 50
