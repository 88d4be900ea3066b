"""One noisy label per row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np

from labeldp.errors import ShapeError
from labeldp.release.base import Release, Stamp

if TYPE_CHECKING:
    from collections.abc import Iterator
    from fractions import Fraction

    import pyarrow as pa
    from numpy.typing import NDArray

    from labeldp.channels.base import FiniteChannel
    from labeldp.guarantee.value import Guarantee
    from labeldp.ids import RowIds
    from labeldp.labels import Codes, LabelSpace


class LabelledRelease(Release):
    """A release with one released label per row: behaves as the array of those labels.

    Indexing by a slice, positions or a mask gives the release of those rows, so that it goes through
    scikit-learn's splitters as ``y``.
    """

    codes: Codes
    channel: FiniteChannel
    ids: RowIds | None

    def __post_init__(self) -> None:
        self.codes.flags.writeable = False

    @property
    def space(self) -> LabelSpace:
        """The true labels."""
        return self.channel.space

    @final
    @property
    def labels(self) -> NDArray[Any]:
        """The released labels, in row order."""
        return self.channel.released_space.decode(self.codes)

    @final
    @property
    def shape(self) -> tuple[int]:
        """Number of rows, as an array's shape."""
        return (len(self.codes),)

    @final
    @property
    def ndim(self) -> int:
        """One dimension."""
        return 1

    @final
    @property
    def dtype(self) -> np.dtype[Any]:
        """Type of the released labels as an array."""
        return self.channel.released_space.decode(self.codes[:0]).dtype

    @final
    def __len__(self) -> int:
        return len(self.codes)

    @final
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        labels = self.labels
        if copy is False:
            raise ValueError("The labels are decoded into a new array; copy=False cannot be met.")
        return labels if dtype is None else labels.astype(dtype)

    @final
    def __iter__(self) -> Iterator[Any]:
        return iter(self.labels)

    @final
    def __getitem__(self, rows: Any) -> Any:  # a label or a release
        if isinstance(rows, tuple):
            named = [part for part in rows if part is not Ellipsis]
            if len(named) > 1:
                raise ShapeError(f"Expected one index, since a release has one dimension, got {len(named)}.")
            rows = named[0] if named else slice(None)
        if np.ndim(rows) == 0 and np.asarray(rows).dtype.kind in "iu":
            return self.channel.released_space.decode(self.codes[rows])
        places = np.arange(len(self))[rows]
        if places.ndim != 1:
            raise ShapeError(f"Expected rows by position, slice or mask, got an index of shape {places.shape}.")
        return self._rows(places)

    @final
    def _label_columns(self) -> tuple[dict[str, Any], dict[str, Any]]:
        from labeldp.release.columns import label_column, row_parameter_columns

        ids = None if self.ids is None else self.ids.to_arrow()
        columns: dict[str, Any] = {} if ids is None else {self.stamp.id_column: ids}
        columns[self.stamp.column] = label_column(self.channel.released_space, self.codes)
        columns.update(row_parameter_columns(self.channel))
        return {
            "channel": self.channel.public(),
            "ids": None if ids is None or self.ids is None else self.ids.kind,
        }, columns

    def _rows(self, places: NDArray[np.intp]) -> Self:
        return replace(self, **self._parts_of(places))  # type: ignore[type-var]  # subclasses are dataclasses

    @final
    def _parts_of(self, places: NDArray[np.intp]) -> dict[str, Any]:
        return {
            "codes": self.codes[places],
            "channel": self.channel.take(places),
            "ids": None if self.ids is None else self.ids.take(places),
        }


@final
@dataclass(frozen=True, eq=False, repr=False)
class RowRelease(LabelledRelease):
    """Released labels, one a row, and the channel that explains them."""

    kind = "rows"

    codes: Codes
    channel: FiniteChannel
    stamp: Stamp
    ids: RowIds | None = None

    def held(self, epsilon: Fraction | None = None) -> Guarantee:  # noqa: ARG002  # one signature for all
        """Return what the channel guarantees."""
        return self.channel.guarantee

    def __repr__(self) -> str:
        return f"RowRelease({len(self)} rows, {self.stamp.guarantee})"

    def to_table(self) -> tuple[dict[str, Any], pa.Table]:
        """Return the channel and the columns: ids, released labels, per-row parameters."""
        import pyarrow as pa

        facts, columns = self._label_columns()
        return facts, pa.table(columns)


@final
@dataclass(frozen=True, eq=False, repr=False)
class TableRelease(LabelledRelease):
    """A released table: labels and features were both randomised."""

    kind = "table"

    codes: Codes
    channel: FiniteChannel
    features: pa.Table
    stamp: Stamp
    ids: RowIds | None = None

    def held(self, epsilon: Fraction | None = None) -> Guarantee:  # noqa: ARG002  # one signature for all
        """Return what the channel guarantees."""
        return self.channel.guarantee

    def __repr__(self) -> str:
        return f"TableRelease({len(self)} rows, {self.features.num_columns} features, {self.stamp.guarantee})"

    def _rows(self, places: NDArray[np.intp]) -> Self:
        return replace(super()._rows(places), features=self.features.take(places))

    def to_table(self) -> tuple[dict[str, Any], pa.Table]:
        """Return the channel and the columns: ids, released labels, per-row parameters, released features."""
        import pyarrow as pa

        facts, columns = self._label_columns()
        clash = sorted(set(columns) & set(self.features.column_names))
        if clash:
            raise ShapeError(f"Expected features under other names than {', '.join(clash)}.", columns=clash)
        columns.update(zip(self.features.column_names, self.features.columns, strict=True))
        return {**facts, "features": self.features.column_names}, pa.table(columns)
