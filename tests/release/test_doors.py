"""Every kind of release can be indexed, split and handed on as the array that it stands for."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.model_selection import KFold, StratifiedKFold, cross_val_score, train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.utils import _safe_indexing

import labeldp as ldp
from labeldp import errors
from labeldp.release import LabelledRelease, Release, manifest_of
from tests.golden.make_releases import releases, said

MADE = releases()
ROWS = {name: release for name, release in MADE.items() if isinstance(release, LabelledRelease)}
NUMBERS = {name: release for name, release in MADE.items() if name not in ROWS}
EVEN = np.arange(12) % 2 == 0
PLACES: dict[str, Any] = {
    "slice": slice(2, 9, 2),
    "backwards": slice(None, None, -1),
    "mask": EVEN,
    "list of truth values": EVEN.tolist(),
    "mask as a series": pd.Series(EVEN),
    "positions": np.array([5, 0, 5]),
    "list": [5, 0, 5],
    "small integers": np.array([1, 2], np.uint8),
    "from the end": [-1, -12],
    "positions and ...": (np.array([3, 1]), ...),
    "...": ...,
}


def plain(release: Any) -> np.ndarray[Any, Any]:
    """Return a release as an array."""
    return np.asarray(release)


@pytest.mark.parametrize("name", MADE)
def test_a_release_has_the_shape_of_its_array(name: str) -> None:
    """Length, shape, dimensions, type and iteration are those of the array."""
    release: Any = MADE[name]
    array = plain(release)

    assert (len(array), array.shape, array.ndim, array.dtype) == (
        len(release),
        release.shape,
        release.ndim,
        release.dtype,
    )
    assert array.tolist() == [value.tolist() if isinstance(value, np.ndarray) else value for value in release]
    assert array.astype(object).tolist() == np.asarray(release, dtype=object).tolist()
    assert array.tolist() == np.array(release, copy=True).tolist()


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("name", ROWS)
def test_a_part_is_the_release_of_those_rows(name: str, places: str) -> None:
    """Labels, ids, channel and features of a part are those of its rows; its promise and provenance stay."""
    whole, index = ROWS[name], PLACES[places]
    rows = np.arange(12)[index]

    part = whole[index]

    assert type(whole) is type(part)
    assert plain(whole)[rows].tolist() == plain(part).tolist()
    assert whole.stamp == part.stamp
    likelihood = whole.channel.likelihood(whole.codes)[rows]
    assert likelihood.tolist() == part.channel.likelihood(part.codes).tolist()
    ids, of_part = said(whole)["ids"], said(part)["ids"]
    assert (ids and [ids[row] for row in rows]) == of_part
    if isinstance(whole, ldp.TableRelease):
        assert whole.features.take(rows).equals(part.features)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("name", ROWS)
def test_a_part_is_written_and_read(name: str, ending: str, tmp_path: Path) -> None:
    """A part is a release like any other, and survives a file."""
    part = ROWS[name][[7, 2, 3]]

    part.write(tmp_path / f"x.{ending}")
    back = ldp.read_release(tmp_path / f"x.{ending}")

    assert said(part) == said(back)
    assert manifest_of(part)[0] == manifest_of(back)[0]


@pytest.mark.parametrize("name", ROWS)
def test_one_row_is_a_label(name: str) -> None:
    """An integer of any type picks one label, from either end."""
    whole = ROWS[name]
    labels = plain(whole).tolist()

    for place in (3, -2, np.int64(3), np.uint8(3), np.array(3), (3,), (3, ...), (..., 3)):
        which = place if isinstance(place, int) else 3
        assert labels[which] == whole[place]
    for beyond in (12, -13, np.int32(12)):
        with pytest.raises(IndexError):
            whole[beyond]


@pytest.mark.parametrize(
    "index", [True, np.bool_(True), None, (slice(None), None), (1, 2), np.zeros((2, 2), int)], ids=repr
)
def test_what_is_no_list_of_rows_is_refused(index: Any) -> None:
    """A release has one dimension, and a truth value is no position."""
    with pytest.raises(errors.ShapeError, match="Expected"):
        ROWS["rows-integers"][index]


@pytest.mark.parametrize("index", ["a", [0.5], [True]], ids=repr)
def test_other_indices_fail_as_those_of_an_array(index: Any) -> None:
    """Texts, fractions and short masks are the errors of NumPy."""
    with pytest.raises(IndexError):
        ROWS["rows-integers"][index]


@pytest.mark.parametrize(
    "index", [0, -1, slice(1), [1, 0], np.array([True, False]), (0, 1), (slice(None), 0)], ids=repr
)
@pytest.mark.parametrize("name", [name for name in NUMBERS if name != "vector"])
def test_a_part_of_a_statistic_is_plain_numbers(name: str, index: Any) -> None:
    """Counts and sums are indexed as their array; what is computed from a release needs no stamp."""
    assert plain(NUMBERS[name])[index].tolist() == NUMBERS[name][index].tolist()


def test_a_vector_is_indexed_in_its_own_unit() -> None:
    """The numbers of a vector are the noisy statistic, and not the integers on its grid."""
    vector: Any = NUMBERS["vector"]

    assert [-0.25, -0.125] == vector[0].tolist()
    assert (vector.values * 0.125).tolist() == vector[:].tolist()


@pytest.mark.parametrize("name", MADE)
def test_scikit_learn_splits_a_release(name: str) -> None:
    """Safe indexing, folds and splits see rows of a release, and give back releases of labels."""
    release: Any = MADE[name]
    rows = len(release)
    picked = _safe_indexing(release, np.array([1, 0]))
    masked = _safe_indexing(release, np.arange(rows) > 0)
    train, test = train_test_split(release, random_state=0)

    assert plain(release)[[1, 0]].tolist() == plain(picked).tolist()
    assert plain(release)[1:].tolist() == plain(masked).tolist()
    assert list(range(rows)) == [int(row) for _, fold in KFold(2).split(release) for row in fold]
    assert rows == len(train) + len(test)
    assert isinstance(train, LabelledRelease) == (name in ROWS)
    assert isinstance(picked, LabelledRelease) == (name in ROWS)


def test_scikit_learn_scores_with_a_release_as_labels() -> None:
    """A release goes through stratified cross-validation in the place of y."""
    truth = np.repeat([3, -1, 7], 40)
    X = np.random.default_rng(0).normal(size=(120, 1)) + 9.0 * truth[:, None]
    release = ldp.privatize(truth, ldp.RandomizedResponse(ldp.LabelSpace([3, -1, 7]), 20))

    scores = cross_val_score(GaussianNB(), X, release, cv=StratifiedKFold(3))  # type: ignore[arg-type]

    assert scores.tolist() == [1.0] * 3


@pytest.mark.parametrize("name", MADE)
def test_a_release_is_frozen(name: str) -> None:
    """Neither a field nor a number of a release can be changed in place; its labels are decoded anew."""
    release: Any = MADE[name]
    for field, value in vars(release).items():
        with pytest.raises(AttributeError):
            setattr(release, field, value)
        if isinstance(value, np.ndarray):
            with pytest.raises(ValueError, match="read-only"):
                value[...] = 0
    before = plain(release).tolist()
    np.array(release)[...] = None if plain(release).dtype == object else 0

    assert before == plain(release).tolist()


@pytest.mark.parametrize("name", MADE)
def test_a_release_is_copied_and_pickled_as_it_is(name: str) -> None:
    """A release is public: it goes through a pickle or a copy without loss."""
    release = MADE[name]

    for other in (copy.copy(release), copy.deepcopy(release), pickle.loads(pickle.dumps(release))):
        assert said(release) == said(other)
        assert type(release) is type(other)


def test_a_release_of_nothing_is_not_written(tmp_path: Path) -> None:
    """An empty part can be held, but a file of nothing serves nobody."""
    empty = ROWS["prior-by-row"][[]]

    assert 0 == len(empty)
    for ending in ("parquet", "csv"):
        with pytest.raises(errors.EmptyInputError, match="Expected"):
            empty.write(tmp_path / f"x.{ending}")
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", ["dictionary", "decimal", "zoned", "nested"])
def test_what_csv_cannot_hold_is_refused_when_it_is_written(kind: str, tmp_path: Path) -> None:
    """Columns that could not be read back are no CSV file; Parquet holds them."""
    import pyarrow as pa

    words = pa.array(["x", "y"] * 6)
    column = {
        "dictionary": words.dictionary_encode(),
        "decimal": pa.array(range(12)).cast(pa.decimal128(21, 2)),
        "zoned": pa.array([0] * 12, pa.timestamp("us", "Europe/Rome")),
        "nested": pa.array([{"a": 1}] * 12),
    }[kind]
    rows: Any = ROWS["rows-positions"]
    release = ldp.TableRelease(rows.codes, rows.channel, pa.table({"x": column}), rows.stamp)

    with pytest.raises(errors.ReleaseFileError, match="Parquet"):
        release.write(tmp_path / "x.csv")
    assert [] == list(tmp_path.iterdir())
    release.write(tmp_path / "x.parquet")
    back = ldp.read_release(tmp_path / "x.parquet")
    assert isinstance(back, ldp.TableRelease)
    assert back.features.equals(release.features)


def test_every_kind_of_release_has_its_door() -> None:
    """All public kinds are made here, and are all releases."""
    kinds = {
        ldp.RowRelease, ldp.TableRelease, ldp.ClusterRelease, ldp.HistogramRelease, ldp.BagRelease, ldp.VectorRelease,
    }  # fmt: skip

    assert kinds == {type(release) for release in MADE.values()}
    assert all(isinstance(release, Release) for release in MADE.values())
