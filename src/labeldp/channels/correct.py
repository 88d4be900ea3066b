"""Corrections of a loss for the noise in its label: closed forms in O(K)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, final

import numpy as np

from labeldp.errors import BiasWarning

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.channels.base import FiniteChannel

_TINY = 1e-12


def warn_of_bias(channel: FiniteChannel) -> None:
    """Say that no unbiased correction exists."""
    warnings.warn(
        f"{channel!r} is not invertible: no unbiased correction of a loss exists (ERRATA D4). The best linear one "
        "is used; a prior= makes it unbiased on average, and maximum likelihood (ForwardCorrected) needs none.",
        BiasWarning,
        stacklevel=3,
    )


def mixture_indicators(
    codes: NDArray[np.intp], law: NDArray[np.float64], redraw: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the corrected indicators at the released label: (1{o = y} - lambda q(y)) / (1 - lambda)."""
    out = np.repeat(-redraw * law, len(codes), axis=0) if len(law) == 1 else -redraw * law
    out[np.arange(len(codes)), codes] += 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        corrected: NDArray[np.float64] = out / (1.0 - redraw)
    return corrected


def mixture_correction(
    losses: NDArray[np.float64], law: NDArray[np.float64], redraw: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Debias under "keep, or redraw from q": l~(y) = (l(y) - lambda <q, l>) / (1 - lambda) (ERRATA A5)."""
    mean = (losses * law).sum(axis=1, keepdims=True)
    corrected: NDArray[np.float64] = (losses - redraw * mean) / (1.0 - redraw)
    return corrected


@final
class SetCorrection:
    """Best linear correction for responses over sets, one row each; exact where the set holds every label.

    With C[o, y] = P(o | y) = extra 1{o = y} + other (y in S), 1/k (y outside), the correction is
    A = D C^T (C D C^T)^-1 (ERRATA D4), D the prior or, without one, the identity (the least-squares inverse).
    C D C^T = extra^2 D_S + extra other (d 1^T + 1 d^T) + g 11^T, so Woodbury's identity inverts it in O(K).
    """

    def __init__(
        self,
        mask: NDArray[np.bool_],
        other: NDArray[np.float64],
        extra: NDArray[np.float64],
        belief: NDArray[np.float64] | None,
    ) -> None:
        self._mask, self._other, self._extra = mask, other, extra
        self._k = mask.sum(axis=1, keepdims=True)
        self._weight = np.ones(mask.shape) if belief is None else np.maximum(belief, _TINY)
        self._inside = np.where(mask, self._weight, 0.0)
        self._outside = self._weight - self._inside
        # A single member, or a response that keeps nothing: C has equal rows, and the correction is a mean.
        self._alone = (self._k == 1) | (extra <= 0)
        self._full = (self._k == mask.shape[1]) & ~self._alone

    def losses(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return l~ = l A for losses by true label."""
        inside = (self._inside * losses).sum(axis=1, keepdims=True)
        outside = (self._outside * losses).sum(axis=1, keepdims=True)
        # C D l = extra D_S l_S + (other <d_S, l_S> + <d_out, l_out> / k) 1.
        right = self._extra * self._inside * losses + self._other * inside + outside / self._k
        result = self._solved(np.where(self._mask, right, 0.0))
        mean = (inside + outside) / self._weight.sum(axis=1, keepdims=True)
        total = losses.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            exact = (losses - self._other * total) / self._extra
        result = np.where(self._alone, mean, np.where(self._full, exact, result))
        out: NDArray[np.float64] = np.where(self._mask, result, 0.0)
        return out

    def indicators(self, codes: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return A e_o: the corrected indicators of all labels at the released one, (n, K)."""
        rows = np.arange(len(codes))
        unit = np.zeros((len(codes), self._mask.shape[1]))
        unit[rows, codes] = 1.0
        solved = self._solved(np.where(self._mask, unit, 0.0))
        total = solved.sum(axis=1, keepdims=True)
        result = self._inside * (self._extra * solved + self._other * total) + self._outside * total / self._k
        mean = self._weight / self._weight.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            exact = (unit - self._other) / self._extra
        out: NDArray[np.float64] = np.where(self._alone, mean, np.where(self._full, exact, result))
        return out

    def _solved(self, right: NDArray[np.float64]) -> NDArray[np.float64]:
        """Solve (C D C^T) x = right on the members: with U = [d, 1], C D C^T = diag + U [[0, c], [c, g]] U^T."""
        mask, inside = self._mask, self._inside
        cross = np.broadcast_to(self._extra * self._other, self._k.shape)
        flat = self._other**2 * inside.sum(axis=1, keepdims=True)
        flat = flat + self._outside.sum(axis=1, keepdims=True) / self._k**2
        diagonal = np.where(mask & ~self._alone, self._extra**2 * inside, 1.0)
        solved = np.where(mask, right / diagonal, 0.0)
        ones_solved = np.where(mask, 1.0 / diagonal, 0.0)
        weight_solved = np.where(mask, inside / diagonal, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            # The capacitance matrix: the inverse of [[0, c], [c, g]], plus U^T diag^-1 U.
            a11 = -flat / cross**2 + (inside * weight_solved).sum(axis=1, keepdims=True)
            a12 = 1.0 / cross + weight_solved.sum(axis=1, keepdims=True)
            a22 = ones_solved.sum(axis=1, keepdims=True)
            b1 = (inside * solved).sum(axis=1, keepdims=True)
            b2 = solved.sum(axis=1, keepdims=True)
            determinant = a11 * a22 - a12**2
            x1 = (a22 * b1 - a12 * b2) / determinant
            x2 = (a11 * b2 - a12 * b1) / determinant
            result: NDArray[np.float64] = solved - weight_solved * x1 - ones_solved * x2
        return result


def table_correction(channel: NDArray[np.float64], prior: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return A with l~ = l A: the inverse of P[true, released] where it exists, else the best linear one.

    ERRATA D4: with C = P^T, A C = I if rank C = K; otherwise C^+ or, under a prior D, D C^T (C D C^T)^+.
    """
    forward = channel.T
    if prior is None:
        pseudo: NDArray[np.float64] = np.linalg.pinv(forward)
        return pseudo
    weighted = prior[:, None] * channel
    correction: NDArray[np.float64] = weighted @ np.linalg.pinv(forward @ weighted)
    return correction


def full_rank(channel: NDArray[np.float64]) -> bool:
    """Whether an unbiased correction exists: P[true, released] has rank K."""
    return int(np.linalg.matrix_rank(channel)) == len(channel)
