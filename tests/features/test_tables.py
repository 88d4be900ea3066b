"""Mixed tables: every library's frames alike, missing and rare values kept apart, surprises refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from labeldp.errors import EmptyInputError, InputError, ShapeError
from labeldp.features import TableFeatures
from tests.features.helpers import mixed, rows_of_mixed


def _column(stage: TableFeatures, table: Any, name: str) -> Any:
    return np.asarray(table)[:, stage.get_feature_names_out().tolist().index(name)]


def test_numbers_are_scaled_and_holes_are_marked() -> None:
    """A missing number counts as the median, with a column that says where it was; the rest is standardised."""
    stage = TableFeatures(rare=5)
    table = stage.fit_transform(pl.DataFrame(mixed()))
    age = np.array(mixed()["age"], float)

    filled = np.where(np.isnan(age), np.nanmedian(age), age)
    assert np.allclose((filled - filled.mean()) / filled.std(), _column(stage, table, "age"), atol=1e-6)
    assert np.array_equal(np.isnan(age), _column(stage, table, "age is missing"))


def test_a_heavy_tail_goes_through_the_logarithm() -> None:
    """A skewed column is logged, and mirrored for negative values that come later; the threshold decides."""
    frame = pl.DataFrame(mixed())
    stage = TableFeatures().fit(frame)
    gain = np.log1p(mixed()["gain"])

    logged = _column(stage, stage.transform(frame), "log1p(gain)")
    flipped = _column(stage, stage.transform(frame.with_columns(gain=-pl.col("gain"))), "log1p(gain)")

    assert np.allclose((gain - gain.mean()) / gain.std(), logged, atol=1e-6)
    assert np.allclose((-gain - gain.mean()) / gain.std(), flipped, atol=1e-5)
    assert "gain" in TableFeatures(heavy=1e6).fit(frame).get_feature_names_out()
    assert "member" in stage.get_feature_names_out()


def test_what_lies_between_zero_and_one_is_not_logged() -> None:
    """Rare truth values and small shares are skewed too, but a logarithm would change nothing but their name."""
    stage = TableFeatures().fit(pl.DataFrame({"rare": [True] * 3 + [False] * 97, "share": [0.9] * 3 + [0.0] * 97}))

    assert ["rare", "share"] == stage.get_feature_names_out().tolist()


def test_categories_have_columns_and_the_rare_ones_share_one() -> None:
    """Frequent categories, rare ones, unknown ones and missing ones are told apart; each row has one of them."""
    stage = TableFeatures(rare=5).fit(pl.DataFrame(mixed()))
    names = [name for name in stage.get_feature_names_out() if name.startswith("origin")]
    new = pl.DataFrame({**mixed(5), "origin": ["c0", "c1", "never seen", None, "c30"]})
    rows = np.column_stack([_column(stage, stage.transform(new), name) for name in names])

    assert ["origin=c0", "origin=c1", "origin=c2", "origin is rare", "origin is missing"] == names
    assert [0, 1, 3, 4, 3] == rows.argmax(axis=1).tolist()
    assert (rows.sum(axis=1) == 1).all()


def test_only_the_most_frequent_categories_are_kept() -> None:
    """Of many categories the most frequent ones have columns, in the order of their names."""
    words = ["b"] * 9 + ["a"] * 7 + ["c"] * 8 + ["d"] * 5
    stage = TableFeatures(rare=1, most=2).fit([[word] for word in words])

    assert ["x0=b", "x0=c", "x0 is rare"] == stage.get_feature_names_out().tolist()


def test_all_libraries_give_the_same_features() -> None:
    """Frames of pandas, polars and Arrow, object arrays and lists of rows are encoded alike, dense or sparse."""
    stage = TableFeatures(rare=5)
    expected = stage.fit_transform(pl.DataFrame(mixed()))
    rows = rows_of_mixed()
    categories = pd.DataFrame(mixed()).astype({"work": "category", "origin": "category"})
    enums = pl.DataFrame(mixed()).with_columns(pl.col("work").cast(pl.Categorical))

    for table in (pd.DataFrame(mixed()), pa.table(mixed()), categories, enums, np.array(rows, object), rows):
        assert np.array_equal(expected, TableFeatures(rare=5).fit_transform(table))
        assert np.array_equal(expected, TableFeatures(rare=5, output="csr").fit_transform(table).toarray())
    assert np.float32 == expected.dtype


def test_numbers_can_stand_for_categories() -> None:
    """Columns named as categorical, by name or place, become one column a value, whatever their type."""
    frame = pd.DataFrame({"code": [7, 8] * 20, "ratio": [0.5, np.nan] * 20})

    stage = TableFeatures(categorical=["code", 1]).fit(frame)

    assert ["code=7", "code=8", "code is rare", "ratio=0.5", "ratio is rare", "ratio is missing"] == list(
        stage.get_feature_names_out()
    )
    with pytest.raises(InputError, match="'wages'"):
        TableFeatures(categorical=["wages"]).fit(frame)
    with pytest.raises(InputError, match="got 2"):
        TableFeatures(categorical=[2]).fit(frame)


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([dt.date(2024, 1, 1)] * 3, "date.*weekday"),
        ([dt.datetime(2024, 1, 1)] * 3, "timestamp"),  # noqa: DTZ001  # of no zone, like most in tables
        ([dt.timedelta(1)] * 3, "duration"),
        ([[1, 2]] * 3, "list"),
        ([b"a"] * 3, "binary"),
        ([1, "a", None], "several kinds"),
        ([np.inf, 1.0, 2.0], "infinite ones in column 'when'"),
    ],
)
def test_other_kinds_of_columns_are_refused_by_name(values: list[Any], words: str) -> None:
    """Dates, durations, lists, bytes, mixtures and infinities are refused, with column and advice."""
    table = pd.DataFrame({"n": [1, 2, 3], "when": pd.Series(values, dtype=None if values[0] == np.inf else object)})

    with pytest.raises(InputError, match=words) as refused:
        TableFeatures().fit(table)

    assert "when" == refused.value.column


def test_a_column_must_keep_its_kind() -> None:
    """Texts where numbers were are refused; other numbers and all-missing columns are not."""
    stage = TableFeatures(rare=1).fit(pd.DataFrame({"n": [1, 2, 3], "w": ["a", "b", "a"]}))

    with pytest.raises(InputError, match="Expected numbers in column 'n'"):
        stage.transform(pd.DataFrame({"n": ["1", "2", "3"], "w": ["a", "b", "a"]}))
    with pytest.raises(ShapeError, match="'n', 'w'"):
        stage.transform(pd.DataFrame({"w": ["a"], "n": [1]}))
    with pytest.raises(ShapeError, match=r"got \(1,\)"):
        stage.transform([[1]])
    assert np.isfinite(stage.transform(pl.DataFrame({"n": [None], "w": [None]}))).all()


def test_unusual_numbers_are_read() -> None:
    """Decimals, nullable integers, truth values with holes and 64-bit integers are numbers."""
    table = pl.DataFrame(
        {"d": [Decimal("1.5"), Decimal(2), None], "i": [2**62, None, 5], "b": [True, None, False], "u": [0, 0, 0]},
        schema={"d": pl.Decimal(10, 2), "i": pl.Int64, "b": pl.Boolean, "u": pl.UInt8},
    )

    got = TableFeatures().fit_transform(table)

    assert np.isfinite(got).all()
    assert np.array_equal(got, TableFeatures().fit_transform(table.to_pandas().convert_dtypes()))


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        ([], EmptyInputError, "row"),
        (pd.DataFrame({"a": []}), EmptyInputError, "row"),
        ([1, 2], ShapeError, "rows as lists"),
        ([[1], [1, 2]], ShapeError, "several"),
        (np.zeros(3), ShapeError, "columns"),
        (pl.LazyFrame({"a": [1]}), InputError, "Collect"),
    ],
)
def test_what_is_no_table_is_refused(X: Any, error: type[Exception], words: str) -> None:
    """Empty, ragged and lazy tables are refused."""
    with pytest.raises(error, match=words):
        TableFeatures().fit(X)


@pytest.mark.parametrize(
    ("settings", "words"),
    [({"output": "coo"}, "'dense', 'csr'"), ({"rare": 0}, "rare"), ({"most": 0}, "most"), ({"heavy": -1}, "heavy")],
)
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    """Each parameter out of range is named."""
    with pytest.raises(InputError, match=words):
        TableFeatures(**settings).fit(rows_of_mixed())


def test_sparse_input_is_refused() -> None:
    """A sparse table has no kinds of columns to tell apart."""
    from scipy.sparse import csr_array

    with pytest.raises(InputError, match="sparse"):
        TableFeatures().fit(csr_array(np.eye(3)))
