"""Noisy counts of clusters, and one noisy label a row that was drawn with their help."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from labeldp.errors import ReleaseFileError, ShapeError
from labeldp.exact import from_text, to_text
from labeldp.guarantee.value import Guarantee, PureLoss
from labeldp.noise import IntegerNoise, guarantee_of_counts, noise_from_json
from labeldp.release.base import Stamp
from labeldp.release.laws import laws_of_counts
from labeldp.release.rows import LabelledRelease
from labeldp.release.statistics import BagRelease

if TYPE_CHECKING:
    from fractions import Fraction

    import pyarrow as pa
    from numpy.typing import NDArray

    from labeldp.channels.base import FiniteChannel
    from labeldp.ids import RowIds
    from labeldp.labels import Codes

CLUSTER = "cluster"


@final
@dataclass(frozen=True, eq=False, repr=False)
class ClusterRelease(LabelledRelease):
    """Released labels, one a row; and the noisy counts of clusters that their channel was made from.

    ``groups`` is each row's cluster.  As labels it goes to every learner of rows; :attr:`counted` is the other half.
    """

    kind = "clusters"

    codes: Codes
    channel: FiniteChannel
    groups: NDArray[np.int64]
    counts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    noise: IntegerNoise
    #: What the labels cost whatever the counts turn out to be: the channel that was made of them costs no more.
    response_epsilon: Fraction
    stamp: Stamp
    ids: RowIds | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for array in (self.groups, self.counts, self.sizes):
            array.flags.writeable = False
        if len(self.groups) != len(self.codes) or self.counts.shape != (len(self.sizes), self.channel.space.size):
            raise ShapeError("Expected a cluster for every row, and counts of every label for every cluster.")
        if self.space.size == 2 and not np.array_equal(self.counts.sum(axis=1), self.sizes):
            # Then two counts would carry noise, and cost twice what is held.
            raise ShapeError("Expected the two counts of a cluster to sum to its size: only one of them was released.")
        if len(self.groups) and not 0 <= int(self.groups.min()) <= int(self.groups.max()) < len(self.sizes):
            raise ShapeError(f"Expected clusters 0 .. {len(self.sizes) - 1}.")

    def held(self, epsilon: Fraction | None = None) -> Guarantee:
        """Return what counts and channel guarantee together: the channel was chosen after seeing the counts."""
        pure = self.channel.epsilon_exact
        if pure is None or pure > self.response_epsilon:
            raise ReleaseFileError("Expected a channel that costs no more than the labels are said to.")
        counts = guarantee_of_counts(self.noise, self.space.size, epsilon=epsilon)
        return counts.then(Guarantee(PureLoss(self.response_epsilon), counts.neighbour, counts.trust))

    @property
    def laws(self) -> NDArray[np.float64]:
        """The law of labels that the noisy counts say each cluster has."""
        return laws_of_counts(self.counts)

    @property
    def counted(self) -> BagRelease:
        """The counts and whom they count, as a release of bags; only while all rows are here."""
        if not np.array_equal(np.bincount(self.groups, minlength=len(self.sizes)), self.sizes):
            raise ShapeError("Expected all rows of all clusters: counts speak of whole clusters, not of parts of them.")
        paired = self.space.size == 2
        return BagRelease(self.space, self.counts, self.sizes, self.noise, self.groups, self.stamp, paired)

    def __repr__(self) -> str:
        return f"ClusterRelease({len(self)} rows, {len(self.sizes)} clusters, {self.stamp.guarantee})"

    def _rows(self, places: NDArray[np.intp]) -> Self:
        return replace(self, **self._parts_of(places), groups=self.groups[places])

    def to_table(self) -> tuple[dict[str, Any], pa.Table]:
        """Return channel, noise and counts; and the columns: ids, released labels, per-row parameters, clusters."""
        import pyarrow as pa

        facts, columns = self._label_columns()
        if CLUSTER in columns:
            raise ShapeError(f"Expected columns for labels and ids under other names than {CLUSTER!r}.")
        columns[CLUSTER] = pa.array(self.groups)
        counted = {
            "counts": self.counts.tolist(),
            "sizes": self.sizes.tolist(),
            "noise": self.noise.to_json(),
            "response_epsilon": to_text(self.response_epsilon),
        }
        return {**facts, **counted}, pa.table(columns)


def restore_clusters(
    facts: dict[str, Any], table: pa.Table, codes: Codes, channel: FiniteChannel, stamp: Stamp, ids: RowIds | None
) -> ClusterRelease:
    """Rebuild a release of counts and labels from a file."""
    counts, sizes = np.array(facts["counts"]), np.array(facts["sizes"])
    if counts.dtype.kind != "i" or sizes.dtype.kind != "i" or counts.ndim != 2:  # a table
        raise ReleaseFileError("Expected counts and sizes that are integers.")
    groups = table.column(CLUSTER).to_numpy().astype(np.int64)
    return ClusterRelease(
        codes,
        channel,
        groups,
        counts.astype(np.int64),
        sizes.astype(np.int64),
        noise_from_json(facts["noise"]),
        from_text(facts["response_epsilon"]),
        stamp,
        ids,
    )
