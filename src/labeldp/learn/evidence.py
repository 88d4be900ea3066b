"""What releases say about labels, as values that add up and that any learner can use.

A row release says how probable what was released is under each true label of a row (:class:`RowEvidence`).  A release
of bag counts says how many labels of each kind a bag holds, up to noise of known variance (:class:`BagEvidence`).
Evidence of independent releases of the same rows adds up with ``+``: log-likelihoods are summed.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from labeldp.errors import ShapeError, SpaceMismatchError
from labeldp.learn.tilt import Bags, tilted

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.channels.base import FiniteChannel
    from labeldp.labels import Codes, LabelSpace

    Floats = NDArray[np.float64]

#: A released label that a model deems impossible costs this much at most.
_LEAST = 1e-300


class Evidence(ABC):
    """What releases say about the labels of the same rows."""

    @property
    @abstractmethod
    def space(self) -> LabelSpace:
        """The true labels."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @property
    @abstractmethod
    def rows(self) -> RowEvidence | None:
        """What was released row by row, if anything."""

    @property
    @abstractmethod
    def bags(self) -> tuple[BagEvidence, ...]:
        """What was released by bags."""

    @abstractmethod
    def take(self, places: NDArray[Any]) -> Evidence:
        """Return what is known of some rows: only row by row evidence can be taken apart."""

    @final
    def __add__(self, other: Evidence) -> Evidence:
        """Return both together; they must speak of the same rows, and their noise must be independent."""
        if other.space != self.space:
            raise SpaceMismatchError(f"Expected evidence on {self.space}, got some on {other.space}.")
        if len(other) != len(self):
            raise ShapeError(f"Expected evidence on {len(self)} rows, got some on {len(other)}.")
        rows = self.rows if other.rows is None else other.rows if self.rows is None else self.rows.times(other.rows)
        return JointEvidence(rows, (*self.bags, *other.bags))

    @final
    def log_likelihood(self, probabilities: object) -> float:
        """Return log P(releases | features) when true labels have these probabilities, (n, K), independently.

        Exact for rows; for bags the law of a count is taken as normal, with the variance of the labels themselves and
        of the noise.
        """
        table = class_probabilities(probabilities, self)
        total = sum(bag.log_likelihood_of(table) for bag in self.bags)
        if self.rows is not None:
            total += float(np.log(np.maximum(self.rows.probability(table), _LEAST)).sum())
        return total

    @final
    def __repr__(self) -> str:
        counts = "".join(f", {len(bag.counts)} bags" for bag in self.bags)
        released = "" if self.rows is None else ", a released label a row"
        return f"{type(self).__name__}({len(self)} rows, {self.space.size} labels{released}{counts})"


@final
@dataclass(frozen=True, eq=False, repr=False)
class RowEvidence(Evidence):
    """Released labels and the channel that explains them: P(released | true) for every row and true label.

    ``known`` masks the rows that were released; the others say nothing.  ``others`` are further independent releases
    of the same rows.
    """

    channel: FiniteChannel
    codes: Codes
    known: NDArray[np.bool_] | None = None
    others: tuple[RowEvidence, ...] = ()

    @property
    def space(self) -> LabelSpace:
        """The true labels."""
        return self.channel.space

    def __len__(self) -> int:
        return len(self.codes if self.known is None else self.known)

    @property
    def rows(self) -> RowEvidence:
        """Itself."""
        return self

    @property
    def bags(self) -> tuple[BagEvidence, ...]:
        """No bags."""
        return ()

    @property
    def alone(self) -> bool:
        """Whether it is one release of all rows."""
        return self.known is None and not self.others

    @cached_property
    def likelihood(self) -> Floats:
        """P(released labels | true label) of every row, (n, K)."""
        own = self.channel.likelihood(self.codes)
        if self.known is not None:
            table = np.ones((len(self), self.space.size))
            table[self.known] = own
            own = table
        for other in self.others:
            own = own * other.likelihood
        return own

    def indicators(self, prior: object = None) -> Floats:
        """Debiased indicators of the true label, (n, K): signed soft labels whose mean is the true one."""
        if not self.alone:
            raise ShapeError("Expected one release of all rows: debiased indicators of several are not defined.")
        return self.channel.soft_labels(self.codes, prior=prior)

    def probability(self, probabilities: object) -> Floats:
        """P(released labels) of every row when its true label has these probabilities."""
        table = class_probabilities(probabilities, self)
        result: Floats = np.einsum("ij,ij->i", self.likelihood, table)
        return result

    def take(self, places: NDArray[Any]) -> RowEvidence:
        """Return what is known of some rows."""
        others = tuple(other.take(places) for other in self.others)
        if self.known is None:
            return RowEvidence(self.channel.take(places), self.codes[places], None, others)
        order = np.cumsum(self.known) - 1
        known = self.known[places]
        inner = order[places][known]
        return RowEvidence(self.channel.take(inner), self.codes[inner], known, others)

    def times(self, other: RowEvidence) -> RowEvidence:
        """Return the evidence of both releases of the same rows."""
        return RowEvidence(self.channel, self.codes, self.known, (*self.others, other))

    def spread(self, places: NDArray[Any], rows: int) -> RowEvidence:
        """Return the same evidence as that of the rows ``places`` among ``rows``, the others unknown."""
        known = np.zeros(rows, bool)
        known[places] = True
        ascending = np.argsort(places, kind="stable")
        return RowEvidence(self.channel.take(ascending), self.codes[ascending], known)


@final
@dataclass(frozen=True, eq=False, repr=False)
class BagEvidence(Evidence):
    """Noisy label counts of bags, the variance of their noise, and who is in which bag.

    ``paired``: there are two labels and one count was released; the other is the bag's size less it, noise included.
    """

    label_space: LabelSpace
    counts: NDArray[np.int64]
    variance: float
    members: NDArray[np.int64]
    paired: bool = False

    def __post_init__(self) -> None:
        if len(self.members) == 0 or int(self.members.max()) >= len(self.counts) or int(self.members.min()) < 0:
            raise ShapeError(f"Expected every row in one of {len(self.counts)} bags.")

    @property
    def space(self) -> LabelSpace:
        """The true labels."""
        return self.label_space

    def __len__(self) -> int:
        return len(self.members)

    @property
    def rows(self) -> None:
        """Nothing was released row by row."""
        return

    @property
    def bags(self) -> tuple[BagEvidence, ...]:
        """Itself."""
        return (self,)

    @cached_property
    def grouped(self) -> Bags:
        """Rows in the order of their bags, for sums by bag."""
        return Bags.of(self.members, len(self.counts))

    @property
    def free(self) -> int:
        """How many counts of a bag carry noise of their own."""
        return 1 if self.paired else self.counts.shape[1]

    def take(self, places: NDArray[Any]) -> BagEvidence:
        """Refuse: the count of a bag says nothing of a part of it."""
        raise ShapeError(
            f"Expected all {len(self)} rows: bag counts speak of whole bags, so evidence from them cannot be split "
            f"(asked for {len(places)} rows). Split by bags before release, or use row evidence.",
        )

    def log_likelihood_of(self, table: Floats) -> float:
        """Return the normal log-likelihood of the counts under class probabilities (n, K)."""
        grouped = self.grouped
        means = grouped.sums(table)[:, : self.free]
        spread = grouped.sums(table * (1.0 - table))[:, : self.free] + self.variance
        misses = self.counts[:, : self.free] - means
        return float(-0.5 * (misses**2 / spread + np.log(2 * math.pi * spread)).sum())


@final
@dataclass(frozen=True, eq=False, repr=False)
class JointEvidence(Evidence):
    """Row by row releases and bag counts together."""

    released: RowEvidence | None
    counted: tuple[BagEvidence, ...]

    @property
    def space(self) -> LabelSpace:
        """The true labels."""
        return self._first.space

    def __len__(self) -> int:
        return len(self._first)

    @property
    def rows(self) -> RowEvidence | None:
        """What was released row by row, if anything."""
        return self.released

    @property
    def bags(self) -> tuple[BagEvidence, ...]:
        """What was released by bags."""
        return self.counted

    def take(self, places: NDArray[Any]) -> Evidence:
        """Return what is known of some rows, where nothing was released by bags."""
        if self.counted or self.released is None:
            return self.counted[0].take(places)
        return self.released.take(places)

    @property
    def _first(self) -> Evidence:
        return self.counted[0] if self.released is None else self.released


def posterior(evidence: Evidence, probabilities: object) -> Floats:
    """Return P(true label | features, releases), (n, K), from a model's probabilities: the E-step for any learner.

    Rows alone: Bayes' rule.  With bags the mean-field posterior: every row's law, times exp(lambda) of its bag, lambda
    such that sums by bag meet the noisy counts as far as their noise allows (see :mod:`labeldp.learn.tilt`).

    >>> from labeldp import LabelSpace, TableChannel
    >>> space = LabelSpace(["a", "b"])
    >>> channel = TableChannel(space, [[0.8, 0.2], [0.4, 0.6]])
    >>> posterior(RowEvidence(channel, np.array([0, 1])), [[0.5, 0.5], [0.5, 0.5]]).round(3).tolist()
    [[0.667, 0.333], [0.25, 0.75]]
    >>> counted = BagEvidence(space, np.array([[4, 0]]), 0.5, np.zeros(4, int))
    >>> posterior(counted, np.full((4, 2), 0.5)).round(2)[0].tolist()
    [0.88, 0.12]
    """
    table = class_probabilities(probabilities, evidence)
    if evidence.rows is not None:
        joint = evidence.rows.likelihood * table
        total = joint.sum(axis=1, keepdims=True)
        # A released label that the model deems impossible teaches nothing: the model's opinion stands.
        table = np.where(total > 0, joint / np.where(total > 0, total, 1.0), table)
    for bag in evidence.bags:
        table = tilted(table, bag.grouped, bag.counts[:, : bag.free], bag.variance)
    return table


def class_probabilities(probabilities: object, evidence: Evidence) -> Floats:
    """Read a model's probabilities, one row for each of the evidence's and one column for each declared label."""
    table: Any = np.asarray(probabilities, np.float64)
    if table.shape != (len(evidence), evidence.space.size):
        raise ShapeError(
            f"Expected probabilities of shape ({len(evidence)}, {evidence.space.size}), a column for every declared "
            f"label, got {table.shape}.",
            shape=table.shape,
        )
    result: Floats = table
    return result
