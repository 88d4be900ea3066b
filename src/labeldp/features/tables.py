"""Tables of numbers and categories as numbers: nothing to declare, nothing silently lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

import numpy as np

from labeldp.errors import EmptyInputError, InputError, ShapeError
from labeldp.features.base import PublicStage
from labeldp.features.inputs import as_array, as_frame, at_least, is_frame, one_of, whole
from labeldp.features.linear import moments

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@final
class TableFeatures(PublicStage):
    """Encode a table of mixed columns, of any data frame library or as rows.

    * Numbers and truth values are standardised.  A column that is nowhere negative and whose skewness exceeds
      ``heavy`` goes through log(1 + x) first (mirrored for negative values that come later).  Missing numbers become
      the median, and a column of their own says where.
    * Texts, and columns named in ``categorical``, become one column a category.  Categories of fewer than ``rare``
      rows, those beyond the ``most`` frequent ones, and those that come later share the column "is rare".
    * Dates, lists and other things are refused: what matters in them is for you to say.

    Parameters
    ----------
    output : {"dense", "csr"}
        A float32 array, or a sparse one for many categories.
    categorical : list of names or places
        Columns of numbers that stand for categories.
    rare : int
        A category of its own needs so many rows.
    most : int
        Categories a column at most.
    heavy : float
        Skewness from which on a column is taken for heavy-tailed.

    Attributes:
    ----------
    feature_names_out_ : names of the columns of the output

    Examples:
    --------
    >>> rows = [[25, "Private"], [38, "State"], [None, "Private"], [51, "Self"]] * 10
    >>> stage = TableFeatures(rare=15).fit(rows)
    >>> stage.get_feature_names_out().tolist()
    ['x0', 'x0 is missing', 'x1=Private', 'x1 is rare']
    >>> stage.transform([[38, "Private"], [38, "Unheard of"]])[:, 1:].tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    libraries = ("numpy", "pyarrow")

    def __init__(
        self,
        *,
        output: str = "dense",
        categorical: Sequence[str | int] = (),
        rare: int = 10,
        most: int = 100,
        heavy: float = 2.0,
    ) -> None:
        self.output = output
        self.categorical = categorical
        self.rare = rare
        self.most = most
        self.heavy = heavy

    def _read(self, X: Any) -> Any:
        table = _frame_columns(X) if is_frame(X) else _row_columns(X)
        if not table.shape[0] or not table.shape[1]:
            raise EmptyInputError(f"Expected at least one row and one column, got shape {table.shape}.")
        return table

    def _learn(self, X: _Table) -> None:
        one_of(("dense", "csr"), output=self.output)
        whole(1, rare=self.rare, most=self.most)
        at_least(0, heavy=self.heavy)
        chosen = {self._place(column, X.names) for column in self.categorical}
        self.columns_: list[_Numbers | _Categories] = []
        for place, (name, column) in enumerate(zip(X.names, X.columns, strict=True)):
            if place in chosen or not _is_numeric(column):
                self.columns_.append(_Categories.learn(name, _as_texts(column), self.rare, self.most))
            else:
                self.columns_.append(_Numbers.learn(name, _as_floats(name, column), self.heavy))
        self.feature_names_out_ = [name for column in self.columns_ for name in column.names]
        self.n_features_out_ = len(self.feature_names_out_)

    def _apply(self, X: _Table) -> Any:
        parts = []
        for known, name, column in zip(self.columns_, X.names, X.columns, strict=True):
            if isinstance(known, _Numbers):
                if not _is_numeric(column):
                    raise InputError(
                        f"Expected numbers in column {name!r}, as in the table that was fitted, got {column.type}.",
                        column=name,
                    )
                parts.append(known.encode(_as_floats(name, column)))
            else:
                parts.append(known.encode(_as_texts(column)))
        return _csr(parts, X.shape[0]) if self.output == "csr" else _dense(parts, X.shape[0])

    def _place(self, column: str | int, names: list[str]) -> int:
        if isinstance(column, str) and column in names:
            return names.index(column)
        if isinstance(column, int | np.integer) and -len(names) <= column < len(names):
            return int(column) % len(names)
        raise InputError(f"Expected categorical columns of the table, got {column!r}, which is none.", column=column)


class _Table(NamedTuple):
    """Named Arrow columns."""

    names: list[str]
    columns: list[Any]
    shape: tuple[int, int]


class _Part(NamedTuple):
    """Columns of the output: dense ones, then one 1 a row at ``hot``."""

    dense: list[Floats]
    hot: NDArray[np.intp] | None
    width: int


@final
@dataclass(frozen=True, eq=False)
class _Numbers:
    """A column of numbers: what fills the missing, whether it goes through the logarithm, and its scale."""

    name: str
    median: float
    heavy: bool
    mean: float
    scale: float
    indicated: bool

    @staticmethod
    def learn(name: str, values: Floats, heavy: float) -> _Numbers:
        missing = np.isnan(values)
        known = values[~missing]
        median = float(np.median(known)) if len(known) else 0.0
        # Between 0 and 1 the logarithm is nearly straight.
        logged = len(known) > 0 and known.min() >= 0 and known.max() > 1 and _skewness(known) > heavy
        filled = np.where(missing, median, values)
        mean, scale = moments((_mirrored_log(filled) if logged else filled)[:, None])
        return _Numbers(name, median, bool(logged), float(mean[0]), float(scale[0]), bool(missing.any()))

    @property
    def names(self) -> list[str]:
        own = f"log1p({self.name})" if self.heavy else self.name
        return [own, f"{self.name} is missing"] if self.indicated else [own]

    def encode(self, values: Floats) -> _Part:
        missing = np.isnan(values)
        filled = np.where(missing, self.median, values)
        scaled = ((_mirrored_log(filled) if self.heavy else filled) - self.mean) / self.scale
        dense = [scaled, missing.astype(np.float64)] if self.indicated else [scaled]
        return _Part(dense, None, len(dense))


@final
@dataclass(frozen=True, eq=False)
class _Categories:
    """A column of categories: those with a place of their own, a shared place, and one for what is missing."""

    name: str
    kept: Any  # an Arrow array of texts
    indicated: bool

    @staticmethod
    def learn(name: str, texts: Any, rare: int, most: int) -> _Categories:
        import pyarrow.compute as pc

        counted = pc.value_counts(texts.drop_null())
        counts = counted.field("counts").to_numpy()
        values = counted.field("values")
        order = sorted(range(len(counts)), key=lambda place: (-counts[place], values[place].as_py()))
        kept = [place for place in order[:most] if counts[place] >= rare]
        return _Categories(
            name, values.take(sorted(kept, key=lambda place: values[place].as_py())), texts.null_count > 0
        )

    @property
    def names(self) -> list[str]:
        own = [f"{self.name}={category}" for category in self.kept.to_pylist()] + [f"{self.name} is rare"]
        return [*own, f"{self.name} is missing"] if self.indicated else own

    def encode(self, texts: Any) -> _Part:
        import pyarrow.compute as pc

        place = pc.index_in(texts, value_set=self.kept).fill_null(len(self.kept)).to_numpy(zero_copy_only=False)
        hot = place.astype(np.intp)
        if self.indicated:
            hot[np.asarray(texts.is_null())] = len(self.kept) + 1
        return _Part([], hot, len(self.kept) + 1 + self.indicated)


def _frame_columns(X: Any) -> _Table:
    import pyarrow as pa

    frame = as_frame(X)
    columns = []
    for name in frame.columns:
        try:
            array = frame[name].to_arrow()
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as problem:
            raise _unfit(str(name), "values of several kinds") from problem
        columns.append(_plain(str(name), array))
    return _Table([str(name) for name in frame.columns], columns, (len(frame), len(columns)))


def _row_columns(X: Any) -> _Table:
    """Return the columns of an array or of rows in lists."""
    import pyarrow as pa

    if hasattr(X, "tocsr"):
        raise InputError(f"Expected a dense table, got a sparse {type(X).__name__}. Pass X.toarray() if it fits.")
    if isinstance(X, list | tuple):
        if not all(isinstance(row, list | tuple | np.ndarray) for row in X):
            raise ShapeError("Expected a data frame, an array, or rows as lists, got a list of something else.")
        widths = {len(row) for row in X}
        if len(widths) > 1:
            raise ShapeError("Expected rows of one length, got rows of several.")
        array = np.empty((len(X), widths.pop() if widths else 0), dtype=object)
        for place, row in enumerate(X):
            array[place] = row.tolist() if isinstance(row, np.ndarray) else list(row)
    else:
        array = as_array(X)
    if array.ndim != 2:
        raise ShapeError(f"Expected a table of shape (rows, columns), got shape {array.shape}.", shape=array.shape)
    names = [f"x{place}" for place in range(array.shape[1])]
    columns = []
    for name, values in zip(names, array.T, strict=True):
        try:
            raw = pa.array(values.tolist() if values.dtype.kind in "OUST" else values, from_pandas=True)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError) as problem:
            raise _unfit(name, "values of several kinds") from problem
        columns.append(_plain(name, raw))
    return _Table(names, columns, (len(array), len(columns)))


def _plain(name: str, array: Any) -> Any:
    """Return an Arrow column as float64, large texts or nulls, or refuse it."""
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    kind, types = array.type, pa.types
    if types.is_boolean(kind):
        return array.cast(pa.uint8()).cast(pa.float64())
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        # As integers a category keeps its name: 7, not 7.0.
        return array if types.is_integer(kind) else array.cast(pa.float64(), safe=False)
    if types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind):
        return array.cast(pa.large_string())
    if types.is_null(kind):
        return array
    raise _unfit(name, str(kind))


def _unfit(name: str, kind: str) -> InputError:
    return InputError(
        f"Expected numbers, truth values or texts, got {kind} in column {name!r}. Derive what matters from it first: "
        "of a date the year, the weekday or the days since an event, say.",
        column=name,
    )


def _is_numeric(column: Any) -> bool:
    import pyarrow as pa

    # A column of nothing but missing values fits either kind.
    return not pa.types.is_large_string(column.type)


def _as_floats(name: str, column: Any) -> Floats:
    import pyarrow as pa

    values: Floats = column.cast(pa.float64(), safe=False).fill_null(np.nan).to_numpy(zero_copy_only=False)
    if np.isinf(values).any():
        raise InputError(
            f"Expected finite or missing numbers, got infinite ones in column {name!r}. Clip them, or make them missing.",
            column=name,
        )
    return values


def _as_texts(column: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        column = pc.if_else(pc.is_nan(column), None, column)
    return column.cast(pa.large_string())


def _mirrored_log(values: Floats) -> Floats:
    return np.copysign(np.log1p(np.abs(values)), values)


def _skewness(values: Floats) -> float:
    """Return the third standardised moment."""
    spread = float(values.std())
    if spread <= 0 or not np.isfinite(spread):
        return 0.0
    return float((((values - values.mean()) / spread) ** 3).mean())


def _dense(parts: list[_Part], rows: int) -> NDArray[np.float32]:
    out = np.zeros((rows, sum(part.width for part in parts)), np.float32)
    start = 0
    for part in parts:
        for place, values in enumerate(part.dense):
            out[:, start + place] = values
        if part.hot is not None:
            out[np.arange(rows), start + part.hot] = 1
        start += part.width
    return out


def _csr(parts: list[_Part], rows: int) -> Any:
    """Return the same, sparse: every row holds one value for each dense column and one for each category column."""
    from scipy.sparse import csr_array

    values, places, start = [], [], 0
    for part in parts:
        for place, column in enumerate(part.dense):
            values.append(column)
            places.append(np.full(rows, start + place))
        if part.hot is not None:
            values.append(np.ones(rows))
            places.append(start + part.hot)
        start += part.width
    data = np.column_stack(values).astype(np.float32)
    ends = np.arange(rows + 1) * data.shape[1]
    table = csr_array((data.ravel(), np.column_stack(places).ravel(), ends), shape=(rows, start))
    table.eliminate_zeros()
    return table
