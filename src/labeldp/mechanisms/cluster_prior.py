"""Cluster priors: noisy counts first, then responses over the sets that these counts make best (paper D, Algorithm 4)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np

from labeldp.channels import FiniteChannel, PriorRandomizedResponse
from labeldp.channels.base import draw_rows
from labeldp.errors import EpsilonError
from labeldp.exact import exact, positive_epsilon, to_text
from labeldp.guarantee.value import Guarantee, PureLoss
from labeldp.mechanisms.counting import Counted, group_numbers, plan_counts
from labeldp.noise import laplace_counts
from labeldp.plan import CoinAccess, Plan, PublicData
from labeldp.release.clusters import ClusterRelease
from labeldp.release.laws import laws_of_counts
from labeldp.release.seal import seal

if TYPE_CHECKING:
    from labeldp.ids import RowIds
    from labeldp.labels import Codes, LabelSpace
    from labeldp.release.base import Release, Stamp

#: Share of the budget for the counts, where none is given.
USUAL_SPLIT = Fraction(1, 10)


@final
@dataclass(frozen=True, eq=False)
class ClustersDrawn:
    """Counts and labels, before they are stamped."""

    counted: Counted
    channel: FiniteChannel
    codes: Codes
    epsilon: Fraction


@final
class ClusterPriorResponse:
    """Count the labels of every cluster with noise, then release each row's label with its cluster's law as the prior.

    ``clusters`` is each row's cluster, 0 .. C-1, formed without the labels.  The share ``split`` of epsilon pays for the
    counts (discrete Laplace; two of a cluster's counts move by one, or with two labels one), the rest for
    ``PriorRandomizedResponse``; both are charged at once.  ``smooth`` is added to every clipped count.  The result is a
    ``ClusterRelease``: labels, and counts.

    >>> from labeldp.curator import privatize
    >>> from labeldp.labels import LabelSpace
    >>> space = LabelSpace(["a", "b", "c"])
    >>> release = privatize(["a"] * 50 + ["c"] * 50, ClusterPriorResponse(space, 2.0, [0] * 50 + [1] * 50))
    >>> release.guarantee.epsilon(), release.counts.shape
    (2.0, (2, 3))
    """

    def __init__(
        self,
        space: LabelSpace,
        epsilon: object,
        clusters: object,
        *,
        split: object = USUAL_SPLIT,
        smooth: float = 0.0,
        choose: Literal["correct", "information"] = "correct",
    ) -> None:
        asked, share = positive_epsilon(epsilon), exact(split)
        if not 0 < share < 1:
            raise EpsilonError(
                f"Expected 0 < split < 1, got {split}: both stages need a part of the budget.", value=split
            )
        self._space = space
        self.noise = laplace_counts(asked * share, space.size)
        # What the noise, rounded, does not spend goes to the response.
        spent = self.noise.a * (1 if space.size == 2 else 2)
        self.response_epsilon = asked - spent
        self.clusters = group_numbers(clusters, "cluster")
        self.smooth, self.choose = smooth, choose
        # A choice or a smoothing that there is not is refused now, not in the draw.
        self._channel(laws_of_counts(np.zeros((1, space.size)), smooth))

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self._space

    def __repr__(self) -> str:
        return f"ClusterPriorResponse({self.space.size} labels, {self.noise!r}, epsilon={float(self.response_epsilon):.6g})"

    def plan(self, public: PublicData) -> Plan:
        """Settle sizes, noise and guarantee: the second stage costs the same whatever the first one says."""
        kept: list[Counted] = []
        counts = plan_counts("cluster prior", self.space, self.noise, self.clusters, public, _remember(kept))
        stage = Guarantee(PureLoss(self.response_epsilon), counts.guarantee.neighbour, counts.guarantee.trust)

        def draw(codes: Codes, coins: CoinAccess) -> ClustersDrawn:
            counts.draw(codes, coins)
            counted = kept.pop()
            channel = self._channel(laws_of_counts(counted.counts, self.smooth)).take(counted.groups)
            return ClustersDrawn(
                counted, channel, draw_rows(channel, codes, coins.rows("row release").stream()), self.response_epsilon
            )

        description: dict[str, Any] = {
            **counts.description,
            "epsilon": to_text(self.response_epsilon),
            "smooth": repr(float(self.smooth)),
            "choose": self.choose,
        }
        return Plan(counts.guarantee.then(stage), description, counts.parameters, draw)

    def _channel(self, laws: Any) -> PriorRandomizedResponse:
        return PriorRandomizedResponse(self.space, self.response_epsilon, laws, choose=self.choose)


def _remember(kept: list[Counted]) -> Any:
    def remember(counted: Counted) -> Counted:
        kept.append(counted)
        return counted

    return remember


@seal.register(ClustersDrawn)
def _(drawn: ClustersDrawn, stamp: Stamp, ids: RowIds) -> Release:
    found = drawn.counted
    named = None if ids.kind == "position" else ids
    return ClusterRelease(
        drawn.codes, drawn.channel, found.groups, found.counts, found.sizes, found.noise, drawn.epsilon, stamp, named
    )
