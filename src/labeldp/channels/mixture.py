"""Channels that keep the label or redraw it from a public law."""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.channels.base import TOTAL, FiniteChannel, belief_table, class_table, code_array
from labeldp.channels.correct import mixture_correction, mixture_indicators, warn_of_bias
from labeldp.exact import log_up
from labeldp.guarantee.value import FiniteLoss, Loss

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.labels import LabelSpace


class MixtureChannel(FiniteChannel):
    """Weights ``law[context, released] + extra[context] 1{released = true}``."""

    _space: LabelSpace
    _law: NDArray[np.int64]
    _extra: NDArray[np.int64]
    _groups: NDArray[Any] | None

    def _fix_mixture(self, space: LabelSpace, law: NDArray[np.int64], groups: NDArray[Any] | None) -> None:
        extra = TOTAL - law.sum(axis=1)
        total = law.sum(axis=1, keepdims=True)
        self._fix(_space=space, _law=law, _extra=extra, _groups=groups)
        # The probability of keeping is divided on its own: 1 - redraw would lose the digits of a small one.
        self._fix(_weight=law / TOTAL, _redraw=total / TOTAL, _keep=extra[:, None] / TOTAL, _q=law / total)

    _weight: NDArray[np.float64]
    _redraw: NDArray[np.float64]
    _keep: NDArray[np.float64]
    _q: NDArray[np.float64]

    @property
    def space(self) -> LabelSpace:
        """The true labels."""
        return self._space

    @property
    def released_space(self) -> LabelSpace:
        """The same labels."""
        return self._space

    @property
    def rows(self) -> int | None:
        """Rows that were sorted into groups, or None for one shared law."""
        return None if self._groups is None else len(self._groups)

    @property
    def contexts(self) -> int:
        """One table a group."""
        return len(self._law)

    def context_of(self, row: int) -> int:
        """Return the group of a row."""
        return 0 if self._groups is None else int(self._groups[row])

    def weights_of(self, context: int) -> NDArray[np.int64]:
        """Return the exact table of one group."""
        weights = np.repeat(self._law[context][None], self.space.size, axis=0)
        weights[np.diag_indices(self.space.size)] += self._extra[context]
        return weights

    @cached_property
    def epsilon_exact(self) -> Fraction:
        """Log (1 + extra / min law), the largest over groups (ERRATA A3)."""
        pairs = zip(self._extra.tolist(), self._law.min(axis=1).tolist(), strict=True)
        # Where nothing is kept all labels have one law, which may even miss some labels.
        return log_up(1 + max(Fraction(extra, smallest) if extra else Fraction(0) for extra, smallest in pairs))

    def _loss(self) -> Loss:
        # The two labels with the smallest weights give the largest divergence of every kind: it is a sum of a
        # decreasing function of the one weight, an increasing one of the size of the other's ratio, and a constant.
        two = np.unique(np.column_stack([np.partition(self._law, 1, axis=1)[:, :2], self._extra]), axis=0)
        low, next_low, extra = two.T
        rest = TOTAL - low - next_low - extra
        first = np.column_stack([low + extra, next_low, rest])
        second = np.column_stack([low, next_low + extra, rest])
        return FiniteLoss(self.epsilon_exact, np.concatenate([first, second]), np.concatenate([second, first]))

    @property
    def invertible(self) -> bool:
        """Whether some of the label is kept everywhere."""
        return bool((self._extra > 0).all())

    def forward(self, probabilities: object) -> NDArray[np.float64]:
        """(1 - lambda) p + lambda q; O(K) a row."""
        table = class_table(probabilities, self, "probabilities")
        redrawn = table.sum(axis=1, keepdims=True) * self._at(self._weight)
        out: NDArray[np.float64] = table * self._at(self._keep) + redrawn
        return out

    def likelihood(self, codes: object) -> NDArray[np.float64]:
        """P(released | true): the law's weight of the released label, and more for that label itself."""
        array = code_array(codes, self)
        group = 0 if self._groups is None else self._groups
        column = self._weight[group, array]
        out = np.repeat(column[:, None], self.space.size, axis=1)
        out[np.arange(len(array)), array] += np.broadcast_to(self._keep[group, 0], len(array))
        return out

    def unbias(self, losses: object, *, prior: object = None) -> NDArray[np.float64]:
        """Debias losses in O(K) a row (ERRATA A5); the prior is not needed where something is kept."""
        table = class_table(losses, self, "losses")
        if self.invertible:
            return mixture_correction(table, self._at(self._weight), self._at(self._keep))
        warn_of_bias(self)
        belief = np.ones_like(table) if prior is None else belief_table(prior, *table.shape)
        mean = (belief * table).sum(axis=1, keepdims=True) / belief.sum(axis=1, keepdims=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            corrected = mixture_correction(table, self._at(self._weight), self._at(self._keep))
        # A group that keeps nothing releases pure noise: the best guess of a loss is its prior mean.
        return np.where(self._at(self._keep) > 0.0, corrected, mean)

    def soft_labels(self, codes: object, *, prior: object = None) -> NDArray[np.float64]:
        """Debiased indicators of all labels at each row's released one; O(K) a row."""
        array = code_array(codes, self)
        soft = mixture_indicators(array, self._at(self._weight), self._at(self._keep))
        if self.invertible:
            return soft
        warn_of_bias(self)
        belief = belief_table(np.ones(self.space.size) if prior is None else prior, *soft.shape)
        return np.where(self._at(self._keep) > 0.0, soft, belief / belief.sum(axis=1, keepdims=True))

    @cached_property
    def variance_factor(self) -> float:
        """Mean over rows of E |corrected indicator|^2, in closed form."""
        size = self.space.size
        keep = self._keep
        with np.errstate(divide="ignore", invalid="ignore"):
            # At the released label o the debiased indicator of y' is (1{o = y'} - w(y')) / keep.
            length = (1.0 - 2.0 * self._weight + (self._weight**2).sum(axis=1, keepdims=True)) / keep**2
            released = self._weight + keep / size
            factor = np.where(keep[:, 0] > 0, (released * length).sum(axis=1), 1.0 / size)
        if self._groups is None:
            return float(factor[0])
        return float(factor[self._groups].mean())

    def row_columns(self) -> dict[str, NDArray[Any]]:
        """Return each row's group."""
        return {} if self._groups is None else {"group": self._groups}

    def _at(self, table: NDArray[np.float64]) -> NDArray[np.float64]:
        return table if self._groups is None else table[self._groups]
