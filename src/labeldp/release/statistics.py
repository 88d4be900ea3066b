"""Released statistics of labels: noisy counts per cluster or bag, and noisy vectors, all of them integers."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, final

import numpy as np

from labeldp.errors import ShapeError
from labeldp.exact import from_text, to_text
from labeldp.labels import LabelSpace
from labeldp.noise import (
    DiscreteLaplace,
    IntegerNoise,
    guarantee_of_counts,
    guarantee_of_vector,
    noise_from_json,
)
from labeldp.release.base import Release, Stamp

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from numpy.typing import NDArray

    from labeldp.guarantee.value import Guarantee


class StatisticRelease(Release):
    """A release of numbers: behaves as their array, and a part of it is plain numbers.

    What is computed from a release costs nothing more, and needs no stamp.
    """

    @property
    @abstractmethod
    def _numbers(self) -> NDArray[Any]:
        """The released numbers."""

    @final
    def __post_init__(self) -> None:
        for value in vars(self).values():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False

    @final
    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the released numbers."""
        return self._numbers.shape

    @final
    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return self._numbers.ndim

    @final
    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the released numbers."""
        return self._numbers.dtype

    @final
    def __len__(self) -> int:
        return len(self._numbers)

    @final
    def __iter__(self) -> Iterator[Any]:
        return iter(self._numbers)

    @final
    def __getitem__(self, places: Any) -> Any:  # a number or an array
        return self._numbers[places]

    @final
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self._numbers, dtype=dtype, copy=copy)


class CountRelease(StatisticRelease):
    """Noisy label counts of sets of rows that were formed without the labels.

    ``counts[set, label]`` are integers and may be negative; ``sizes`` are the true, public sizes of the sets.
    With two labels one noisy count serves: then ``paired`` is true, and the second is the size minus the first.
    """

    label_space: LabelSpace
    counts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    noise: IntegerNoise
    paired: bool

    @final
    @property
    def space(self) -> LabelSpace:
        """The true labels."""
        return self.label_space

    @final
    @property
    def variance(self) -> float:
        """Variance of the noise of every count."""
        return self.noise.variance

    @final
    def _by_noise(self, epsilon: Fraction | None) -> Guarantee:
        """Return what the noise guarantees: of one drawn count where the other follows from it, else of all."""
        one = self.paired and self.space.size == 2
        return guarantee_of_counts(self.noise, 2 if one else max(self.space.size, 3), epsilon=epsilon)

    @final
    @property
    def _numbers(self) -> NDArray[np.int64]:
        return self.counts

    @final
    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} sets x {self.space.size} labels, {self.stamp.guarantee})"

    @final
    def _count_table(self) -> tuple[dict[str, Any], pa.Table]:
        import pyarrow as pa

        columns: dict[str, Any] = {"size": pa.array(self.sizes)}
        columns.update({f"count_{code}": pa.array(self.counts[:, code]) for code in range(self.space.size)})
        facts = {"space": self.space.to_json(), "noise": self.noise.to_json(), "paired": self.paired}
        return facts, pa.table(columns)


@final
@dataclass(frozen=True, eq=False, repr=False)
class HistogramRelease(CountRelease):
    """Noisy label counts per cluster of public features."""

    kind = "histogram"

    label_space: LabelSpace
    counts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    noise: IntegerNoise
    stamp: Stamp
    paired: bool = False

    def held(self, epsilon: Fraction | None = None) -> Guarantee:
        """Return what the noise of the counts guarantees."""
        return self._by_noise(epsilon)

    def to_table(self) -> tuple[dict[str, Any], pa.Table]:
        """Return the noise law and the counts."""
        return self._count_table()


@final
@dataclass(frozen=True, eq=False, repr=False)
class BagRelease(CountRelease):
    """Noisy label counts per bag, and which bag each row is in."""

    kind = "bags"

    label_space: LabelSpace
    counts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    noise: IntegerNoise
    bags: NDArray[np.int64]
    stamp: Stamp
    paired: bool = False

    def held(self, epsilon: Fraction | None = None) -> Guarantee:
        """Return what the noise of the counts guarantees."""
        return self._by_noise(epsilon)

    def to_table(self) -> tuple[dict[str, Any], pa.Table]:
        """Return the noise law, and for every bag its counts and the positions of its rows."""
        import pyarrow as pa

        facts, table = self._count_table()
        order = np.argsort(self.bags, kind="stable")
        ends = np.cumsum(np.bincount(self.bags, minlength=len(self)))
        members = pa.LargeListArray.from_arrays(np.concatenate([[0], ends]), order)
        return facts, table.append_column("rows", members)


@final
@dataclass(frozen=True, eq=False, repr=False)
class VectorRelease(StatisticRelease):
    """A noisy integer statistic on a public grid: ``values`` times ``step`` estimates it.

    ``sensitivity`` says by how much one label can move the integers, and is public: in the 1-norm for Laplace noise,
    in the squared 2-norm for Gaussian noise.
    """

    kind = "vector"

    label_space: LabelSpace
    values: NDArray[np.int64]
    step: Fraction
    noise: IntegerNoise
    sensitivity: Fraction
    stamp: Stamp
    rows: int = 0

    def __repr__(self) -> str:
        return f"VectorRelease({' x '.join(map(str, self.values.shape))}, {self.stamp.guarantee})"

    @property
    def space(self) -> LabelSpace:
        """The true labels."""
        return self.label_space

    @property
    def statistic(self) -> NDArray[np.float64]:
        """The noisy statistic in its own unit."""
        return np.asarray(self.values * float(self.step), np.float64)

    def held(self, epsilon: Fraction | None = None) -> Guarantee:  # noqa: ARG002  # one signature for all
        """Return what noise and sensitivity guarantee."""
        norm = "l1" if isinstance(self.noise, DiscreteLaplace) else "l2_squared"
        return guarantee_of_vector(self.noise, **{norm: self.sensitivity})

    @property
    def _numbers(self) -> NDArray[np.float64]:
        return self.statistic

    def to_table(self) -> tuple[dict[str, Any], pa.Table]:
        """Return the grid, the noise law and the values."""
        import pyarrow as pa

        facts = {
            "space": self.space.to_json(),
            "noise": self.noise.to_json(),
            "shape": list(self.values.shape),
            "step": to_text(self.step),
            "sensitivity": to_text(self.sensitivity),
            "vector_rows": self.rows,
        }
        return facts, pa.table({"value": pa.array(self.values.ravel())})


def restore_counts(facts: dict[str, Any], table: pa.Table, stamp: Stamp) -> CountRelease:
    """Rebuild noisy counts from a file."""
    space = LabelSpace.from_json(facts["space"])
    counts = np.column_stack([table.column(f"count_{c}").to_numpy() for c in range(space.size)]).astype(np.int64)
    sizes = table.column("size").to_numpy().astype(np.int64)
    noise = noise_from_json(facts["noise"])
    paired = facts["paired"]
    if paired is not False and not (paired is True and space.size == 2 and (counts.sum(axis=1) == sizes).all()):
        raise ShapeError("Expected pairs of counts that sum to the public sizes.")
    if facts["kind"] == "histogram":
        return HistogramRelease(space, counts, sizes, noise, stamp, paired)
    bags = _bag_of_row(table.column("rows"))
    if not np.array_equal(np.bincount(bags, minlength=len(sizes)), sizes):
        raise ShapeError("Expected bags of the public sizes.")
    return BagRelease(space, counts, sizes, noise, bags, stamp, paired)


def _bag_of_row(column: pa.ChunkedArray) -> NDArray[np.int64]:
    lists = column.combine_chunks()
    members = lists.flatten().to_numpy()
    lengths = np.diff(lists.offsets.to_numpy())
    if not np.array_equal(np.sort(members), np.arange(len(members))):
        raise ShapeError("Expected every row in exactly one bag.")
    bags = np.empty(len(members), np.int64)
    bags[members] = np.repeat(np.arange(len(lengths)), lengths)
    return bags


def restore_vector(facts: dict[str, Any], table: pa.Table, stamp: Stamp) -> VectorRelease:
    """Rebuild a noisy vector from a file."""
    return VectorRelease(
        LabelSpace.from_json(facts["space"]),
        table.column("value").to_numpy().reshape(facts["shape"]).astype(np.int64),
        from_text(facts["step"]),
        noise_from_json(facts["noise"]),
        from_text(facts["sensitivity"]),
        stamp,
        facts["vector_rows"],
    )
