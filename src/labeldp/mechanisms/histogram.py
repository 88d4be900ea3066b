"""Noisy label counts per group of rows: the statistic that cluster laws, priors and bags are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, final

import numpy as np

from labeldp.mechanisms.counting import Counted, group_numbers, plan_counts
from labeldp.noise import laplace_counts
from labeldp.plan import Plan, PublicData
from labeldp.release.seal import seal
from labeldp.release.statistics import HistogramRelease

if TYPE_CHECKING:
    from labeldp.ids import RowIds
    from labeldp.labels import LabelSpace
    from labeldp.release.base import Release, Stamp


@final
@dataclass(frozen=True, eq=False)
class HistogramDrawn:
    """Noisy counts of groups, before they are stamped."""

    counted: Counted


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
        self.groups = None if groups is None else group_numbers(groups)

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self._space

    def __repr__(self) -> str:
        return f"LabelHistogram({self.space.size} labels, {self.noise!r})"

    def plan(self, public: PublicData) -> Plan:
        """Settle sizes, noise and guarantee."""
        groups = np.zeros(public.rows, np.int64) if self.groups is None else self.groups
        return plan_counts("label histogram", self.space, self.noise, groups, public, HistogramDrawn)


@seal.register(HistogramDrawn)
def _(drawn: HistogramDrawn, stamp: Stamp, ids: RowIds) -> Release:  # noqa: ARG001  # one signature for all
    found = drawn.counted
    return HistogramRelease(found.space, found.counts, found.sizes, found.noise, stamp, found.paired)
