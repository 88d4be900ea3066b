"""Noisy label counts of bags, released together with who is in which bag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, final

import numpy as np

from labeldp.errors import EpsilonError, InputError, ShapeError
from labeldp.exact import delta_in_range, positive_epsilon
from labeldp.mechanisms.counting import Counted, group_numbers, plan_counts
from labeldp.noise import gaussian_counts, laplace_counts
from labeldp.plan import Plan, PublicData
from labeldp.release.seal import seal
from labeldp.release.statistics import BagRelease

if TYPE_CHECKING:
    from labeldp.ids import RowIds
    from labeldp.labels import LabelSpace
    from labeldp.noise import IntegerNoise
    from labeldp.release.base import Release, Stamp

Noise = Literal["auto", "laplace", "gaussian"]


@final
@dataclass(frozen=True, eq=False)
class BagsDrawn:
    """Noisy counts of bags, before they are stamped."""

    counted: Counted


@final
class BagCounts:
    """Release the label counts of every bag: sets of rows that were formed without the labels.

    The bags are public data: ``privatize(labels, BagCounts(...), bags=...)``, one number 0 .. B-1 a row.  Noise is
    discrete: Laplace (pure) or, with a ``delta``, Gaussian; "auto" takes the one of smaller variance, which is public.
    An account of (epsilon, delta) is charged just what was asked for, one of zCDP the noise's rho.
    A bag holds at least two rows: the count of a single one is a noisy label at a poor price.

    >>> from labeldp.curator import privatize
    >>> from labeldp.labels import LabelSpace
    >>> space = LabelSpace(["no", "yes"])
    >>> release = privatize(["no", "yes", "yes", "no"], BagCounts(space, epsilon=1.0), bags=[0, 0, 1, 1])
    >>> release.counts.shape, release.bags.tolist(), release.sizes.tolist()
    ((2, 2), [0, 0, 1, 1], [2, 2])
    """

    def __init__(self, space: LabelSpace, epsilon: object, delta: object = 0.0, noise: Noise = "auto") -> None:
        self._space = space
        self._asked = positive_epsilon(epsilon), delta_in_range(delta)
        self.noise = _chosen(epsilon, delta, space.size, noise)

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self._space

    def __repr__(self) -> str:
        return f"BagCounts({self.space.size} labels, {self.noise!r})"

    def plan(self, public: PublicData) -> Plan:
        """Settle bags, sizes, noise and guarantee."""
        if public.bags is None:
            raise InputError("Expected bags, one number a row: pass bags= to privatize or to the Curator.")
        bags = group_numbers(public.bags, "bag")
        sizes = np.bincount(bags)
        if int(sizes.min()) < 2:  # a single row
            small = int(sizes.argmin())
            raise ShapeError(
                f"Expected bags of at least 2 rows, bag {small} has {sizes[small]}. Merge small bags with their "
                "neighbours (labeldp.learn.make_bags does), and number bags without gaps.",
                bag=small,
            )
        return plan_counts("bag counts", self.space, self.noise, bags, public, BagsDrawn, self._asked)


@seal.register(BagsDrawn)
def _(drawn: BagsDrawn, stamp: Stamp, ids: RowIds) -> Release:  # noqa: ARG001  # one signature for all
    found = drawn.counted
    return BagRelease(found.space, found.counts, found.sizes, found.noise, found.groups, stamp, found.paired)


def _chosen(epsilon: object, delta: object, classes: int, noise: str) -> IntegerNoise:
    if noise not in ("auto", "laplace", "gaussian"):
        raise InputError(f"Expected noise to be 'auto', 'laplace' or 'gaussian', got {noise!r}.", value=noise)
    if delta_in_range(delta) == 0:
        if noise == "gaussian":
            raise EpsilonError("Expected delta > 0 for Gaussian noise, which is never pure; got 0.", value=delta)
        return laplace_counts(epsilon, classes)
    found: list[IntegerNoise] = []
    if noise != "gaussian":
        found.append(laplace_counts(epsilon, classes, delta))
    if noise != "laplace":
        found.append(gaussian_counts(epsilon, delta, classes))
    return min(found, key=lambda law: law.variance)
