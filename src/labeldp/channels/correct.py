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
        f"{channel!r} is not invertible: no unbiased correction of a loss exists (docs/errata.md, D4). The best "
        "linear one is used; a prior= makes it unbiased on average, and maximum likelihood (ForwardCorrected) needs none.",
        BiasWarning,
        stacklevel=3,
    )


def mixture_indicators(
    codes: NDArray[np.intp], weight: NDArray[np.float64], keep: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return the corrected indicators at the released label: (1{o = y} - w(y)) / keep, w = lambda q."""
    out = np.repeat(-weight, len(codes), axis=0) if len(weight) == 1 else -weight
    out[np.arange(len(codes)), codes] += 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        corrected: NDArray[np.float64] = out / keep
    return corrected


def mixture_correction(
    losses: NDArray[np.float64], weight: NDArray[np.float64], keep: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Debias under "keep, or redraw from q": l~(y) = (l(y) - <w, l>) / keep, w = lambda q (ERRATA A5).

    ``keep`` is given beside the weights, because 1 - lambda would lose the digits of a small one.
    """
    corrected: NDArray[np.float64] = (losses - (losses * weight).sum(axis=1, keepdims=True)) / keep
    return corrected


@final
class SetCorrection:
    """Best linear correction for responses over sets, one row each; exact where the set holds every label.

    With C[o, y] = P(o | y) = extra 1{o = y} + other (y in S), 1/k (y outside), the correction A l~ minimises
    sum_y d_y (E[l~ | y] - l_y)^2, d the prior or, without one, 1 (ERRATA D4: D C^T (C D C^T)^+, or C^+).  Write
    l~ = m + u / extra with sum_S u = 0: as extra + k other = 1, the mean is E[l~ | y] = m + u_y inside, m outside.
    Setting derivatives to zero gives, with H = sum_S 1/d and L = sum_S l,
    m = (k L / H + sum_out d l) / (k^2 / H + sum_out d) and u_y = l_y - m - (L - k m) / (H d_y): O(K), and no
    difference of large numbers.
    """

    def __init__(
        self,
        mask: NDArray[np.bool_],
        extra: NDArray[np.float64],
        belief: NDArray[np.float64] | None,
    ) -> None:
        self._mask, self._extra = mask, extra
        self._k = mask.sum(axis=1, keepdims=True)
        self._weight = np.ones(mask.shape) if belief is None else np.maximum(belief, _TINY)
        self._outside = np.where(mask, 0.0, self._weight)
        self._inverse = np.where(mask, 1.0 / self._weight, 0.0)
        self._sum = self._inverse.sum(axis=1, keepdims=True)
        self._scale = self._k**2 / self._sum + self._outside.sum(axis=1, keepdims=True)
        # A single member, or a response that keeps nothing: C has equal rows, and the correction is a mean.
        self._alone = (self._k == 1) | (extra <= 0)

    def losses(self, losses: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return l~ = l A for losses by true label."""
        total = np.where(self._mask, losses, 0.0).sum(axis=1, keepdims=True)
        outside = (self._outside * losses).sum(axis=1, keepdims=True)
        middle = (self._k * total / self._sum + outside) / self._scale
        apart = losses - middle - (total - self._k * middle) * self._inverse / self._sum
        mean = (self._weight * losses).sum(axis=1, keepdims=True) / self._weight.sum(axis=1, keepdims=True)
        out: NDArray[np.float64] = np.where(self._mask, self._joined(middle, apart, mean), 0.0)
        return out

    def indicators(self, codes: NDArray[np.intp]) -> NDArray[np.float64]:
        """Return A e_o: the corrected indicators of all labels at the released one, (n, K)."""
        rows = np.arange(len(codes))
        middle = (np.where(self._mask, self._k / self._sum, 0.0) + self._outside) / self._scale
        share = np.broadcast_to(self._inverse / self._sum, (len(codes), self._mask.shape[1]))[rows, codes, None]
        apart = -middle - (self._mask - self._k * middle) * share
        apart[rows, codes] += 1.0
        mean = self._weight / self._weight.sum(axis=1, keepdims=True)
        return self._joined(middle, apart, mean)

    def _joined(
        self, middle: NDArray[np.float64], apart: NDArray[np.float64], mean: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        with np.errstate(divide="ignore", invalid="ignore"):
            joined: NDArray[np.float64] = np.where(self._alone, mean, middle + apart / self._extra)
        return joined


def table_correction(channel: NDArray[np.float64], prior: NDArray[np.float64] | None) -> NDArray[np.float64]:
    """Return A with l~ = l A: the inverse of P[true, released] where it exists, else the best linear one.

    ERRATA D4: with C = P^T, A C = I if rank C = K; otherwise C^+ or, under a prior D, D C^T (C D C^T)^+.
    """
    forward = channel.T
    if prior is None:
        return np.asarray(np.linalg.pinv(forward), np.float64)
    # D C^T (C D C^T)^+ = D^1/2 (C D^1/2)^+, which squares no condition number.
    root = np.sqrt(prior)
    return np.asarray(root[:, None] * np.linalg.pinv(forward * root), np.float64)


def full_rank(channel: NDArray[np.float64]) -> bool:
    """Whether an unbiased correction exists: P[true, released] has rank K."""
    return int(np.linalg.matrix_rank(channel)) == len(channel)
