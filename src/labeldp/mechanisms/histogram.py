"""Noisy label counts per group of rows: the statistic that cluster laws, priors and bags are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from labeldp.errors import EmptyInputError, ShapeError
from labeldp.noise import guarantee_of_counts, laplace_counts
from labeldp.plan import CoinAccess, Plan, PublicData
from labeldp.prf import parameter_digest
from labeldp.release.seal import seal
from labeldp.release.statistics import HistogramRelease

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.ids import RowIds
    from labeldp.labels import Codes, LabelSpace
    from labeldp.noise import IntegerNoise
    from labeldp.release.base import Release, Stamp


@final
@dataclass(frozen=True, eq=False)
class CountsDrawn:
    """Noisy counts before they are stamped."""

    space: LabelSpace
    counts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    noise: IntegerNoise
    paired: bool


@final
class LabelHistogram:
    """Release the label counts of every group of rows, with exact discrete Laplace noise.

    ``groups`` names each row's group, 0 .. G-1, formed without the labels; without it all rows are one group.
    Replacing one label moves two counts of one group by one, so the counts of a group cost 2a (ERRATA A1); with
    two labels the group's size is public and one count says it all, at cost a.  Groups are disjoint: together
    they cost as much as one.

    >>> from labeldp.curator import privatize
    >>> from labeldp.labels import LabelSpace
    >>> space = LabelSpace(["no", "yes"])
    >>> release = privatize(["no", "yes", "yes"], LabelHistogram(space, epsilon=1.0))
    >>> release.counts.shape, int(release.counts.sum())
    ((1, 2), 3)
    """

    def __init__(self, space: LabelSpace, epsilon: object, groups: object = None) -> None:
        self._space = space
        self.noise = laplace_counts(epsilon, space.size)
        self.groups = None if groups is None else _group_numbers(groups)

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self._space

    def __repr__(self) -> str:
        return f"LabelHistogram({self.space.size} labels, {self.noise!r})"

    def plan(self, public: PublicData) -> Plan:
        """Settle sizes, noise and guarantee."""
        groups = np.zeros(public.rows, np.int64) if self.groups is None else self.groups
        if len(groups) != public.rows:
            raise ShapeError(f"Expected a group for each of {public.rows} rows, got {len(groups)}.")
        paired = self.space.size == 2  # then one count says it all
        sizes = np.bincount(groups).astype(np.int64)
        guarantee = guarantee_of_counts(self.noise, self.space.size)

        def draw(codes: Codes, coins: CoinAccess) -> CountsDrawn:
            free = 1 if paired else self.space.size
            bits = coins.bins("noise of counts", len(sizes) * free)
            noise = self.noise.draw(len(sizes) * free, bits).reshape(len(sizes), free)
            cells = groups * self.space.size + codes
            counts = np.bincount(cells, minlength=len(sizes) * self.space.size).reshape(len(sizes), -1)
            counts = counts[:, :free].astype(np.int64) + noise
            if paired:
                counts = np.column_stack([counts[:, 0], sizes - counts[:, 0]])
            return CountsDrawn(self.space, counts, sizes, self.noise, paired)

        description: dict[str, Any] = {"family": "label histogram", "noise": self.noise.to_json()}
        rows = groups.astype("<i8").view(np.uint8).reshape(-1, 8)
        return Plan(guarantee, description, parameter_digest(public.ids, lambda: rows), draw)


@seal.register(CountsDrawn)
def _(drawn: CountsDrawn, stamp: Stamp, ids: RowIds) -> Release:  # noqa: ARG001  # one signature for all
    return HistogramRelease(drawn.space, drawn.counts, drawn.sizes, drawn.noise, stamp, drawn.paired)


def _group_numbers(groups: object) -> NDArray[np.int64]:
    array = np.asarray(groups)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ShapeError(f"Expected one integer group a row, got shape {array.shape} and type {array.dtype}.")
    if len(array) == 0:
        raise EmptyInputError("Expected at least one row in groups, got none.")
    if int(array.min()) < 0:
        raise ShapeError(f"Expected groups from 0 upwards, got {array.min()}.")
    return array.astype(np.int64)
