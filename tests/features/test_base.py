"""What all stages share: scikit-learn's manners, repeatability, and refusals in words."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline, make_union

from labeldp.errors import EmptyInputError, InputError, ShapeError
from labeldp.features import PCA, PatchFeatures, PublicStage, SpectralEmbedding, Standardize
from tests.features.helpers import CORE, dense, images, name_of, numbers
from tests.test_import import loaded_by


@pytest.mark.parametrize(("stage", "X"), CORE, ids=name_of)
def test_a_stage_has_the_manners_of_scikit_learn(stage: PublicStage, X: Any) -> None:
    """It can be cloned, set, pickled, fitted again, and names its columns; it changes neither itself nor its input."""
    before, parameters = pickle.dumps(X), stage.get_params()
    copy = clone(stage)

    first = dense(copy.fit_transform(X))

    assert pickle.dumps(X) == before
    assert parameters.keys() == copy.get_params().keys()
    assert repr(parameters) == repr(copy.get_params())
    assert (len(X), copy.n_features_out_) == first.shape
    assert copy.n_features_out_ == len(set(copy.get_feature_names_out()))
    assert np.isfinite(first).all()
    assert np.array_equal(first, dense(clone(stage).fit_transform(X)))
    assert np.array_equal(first, dense(copy.fit(X[:30]).fit_transform(X)))
    assert np.allclose(dense(copy.transform(X)), dense(pickle.loads(pickle.dumps(copy)).transform(X)))
    assert np.allclose(first, dense(copy.transform(X)), atol=1e-5)


@pytest.mark.parametrize(("stage", "X"), CORE, ids=name_of)
def test_rows_are_represented_one_by_one(stage: PublicStage, X: Any) -> None:
    """What becomes of a row does not depend on the rows beside it."""
    fitted = clone(stage).fit(X)

    whole = dense(fitted.transform(X))

    assert np.allclose(whole[7:20], dense(fitted.transform(X[7:20])), atol=1e-5)
    assert np.allclose(whole[3:4], dense(fitted.transform(X[3:4])), atol=1e-5)


@pytest.mark.parametrize(("stage", "X"), CORE, ids=name_of)
def test_an_unfitted_stage_and_no_rows_are_refused(stage: PublicStage, X: Any) -> None:
    """Transforming before fitting, and an empty input, are errors with words."""
    with pytest.raises(NotFittedError):
        clone(stage).transform(X)
    with pytest.raises(NotFittedError):
        clone(stage).get_feature_names_out()
    with pytest.raises(EmptyInputError, match="at least one row"):
        clone(stage).fit(X[:0])


@pytest.mark.parametrize("stage", [Standardize(), PCA(2), SpectralEmbedding(2)], ids=name_of)
def test_other_columns_than_the_fitted_are_refused(stage: PublicStage) -> None:
    """Another width, and a frame with other names or another order of columns, are refused with both told."""
    fitted = clone(stage).fit(numbers())
    frame = pd.DataFrame(numbers(), columns=list("abcde"))
    named = clone(stage).fit(frame)

    with pytest.raises(ShapeError, match=r"rows of shape \(5,\).*got \(4,\)"):
        fitted.transform(numbers()[:, :4])
    with pytest.raises(ShapeError, match=r"'a', 'b', 'c', 'd', 'e'.*'b', 'a'"):
        named.transform(frame[list("bacde")])
    assert np.allclose(fitted.transform(numbers()), named.transform(pl.from_pandas(frame)))
    assert np.allclose(fitted.transform(numbers()), named.transform(frame.to_numpy()))


@pytest.mark.parametrize("stage", [Standardize(), PCA(2), SpectralEmbedding(2)], ids=name_of)
@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
def test_missing_and_infinite_features_are_refused_with_their_place(stage: PublicStage, wrong: float) -> None:
    """Fitting and transforming say where the first missing or infinite number stands."""
    X = numbers()
    X[7, 2] = wrong

    for call in (clone(stage).fit, clone(stage).fit(numbers()).transform):
        with pytest.raises(InputError, match=r"1 that are missing or infinite, the first at \(7, 2\)") as refused:
            call(X)
        assert (7, 2) == refused.value.place


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        ([["a", "b"]], InputError, "TableFeatures"),
        (np.array([[1, "a"]], dtype=object), InputError, "TableFeatures"),
        (np.zeros((2, 2), complex), InputError, "complex"),
        (np.zeros(3), ShapeError, "reshape"),
        (np.zeros((3, 2, 2)), ShapeError, "reshape"),
        ([[1.0], [1.0, 2.0]], ShapeError, "several"),
        (np.ma.masked_array(np.zeros((2, 2)), mask=np.eye(2)), InputError, "mask"),
        (pd.DataFrame({"a": ["x", "y"]}), InputError, "column 'a'"),
        (pl.LazyFrame({"a": [1.0]}), InputError, "Collect"),
        (pd.DataFrame(np.zeros((2, 2)), columns=["a", "a"]), InputError, "'a' 2 times"),
        (np.zeros((0, 3)), EmptyInputError, "row"),
        (np.zeros((3, 0)), EmptyInputError, "column"),
        (None, InputError, "."),
        (3.0, InputError, "."),
    ],
)
def test_what_is_no_table_of_numbers_is_refused(X: Any, error: type[Exception], words: str) -> None:
    """Texts, objects, other shapes, masks and lazy frames are refused, with what to do instead."""
    with pytest.raises(error, match=words):
        Standardize().fit(X)


def test_a_second_fit_forgets_the_first() -> None:
    """Names and places of rows that a stage learned before do not outlive another fit."""
    frame = pd.DataFrame(numbers(), columns=list("abcde"))
    stage = SpectralEmbedding(2).fit(frame).fit(numbers()[:, :3])

    assert not hasattr(stage, "feature_names_in_")
    assert (60, 2) == stage.transform(frame[["b", "a", "c"]]).shape
    with pytest.raises(InputError, match="at least 4 rows"):
        stage.fit(numbers(3))
    with pytest.raises(NotFittedError):
        stage.transform(numbers(3))


def test_sparse_tables_are_refused_where_they_would_not_stay_sparse() -> None:
    """A stage for dense tables does not make a sparse one dense behind its owner's back."""
    from scipy.sparse import csr_array

    with pytest.raises(InputError, match="sparse"):
        PCA(2).fit(csr_array(np.eye(4)))


def test_stages_make_pipelines_and_unions() -> None:
    """Stages follow each other and stand side by side, and name their columns."""
    X = numbers()

    chain = make_pipeline(Standardize(), PCA(2)).fit(X)
    union = make_union(Standardize(), PCA(2)).set_output(transform="pandas")

    assert np.allclose(PCA(2).fit_transform(Standardize().fit_transform(X)), chain.transform(X))
    assert ["pca0", "pca1"] == chain.get_feature_names_out().tolist()
    assert 7 == union.fit_transform(pd.DataFrame(X, columns=list("abcde"))).shape[1]


def test_integers_and_narrow_floats_become_narrow_floats() -> None:
    """Small integers and float32 are worked on as float32, all others as float64."""
    X = images().reshape(40, -1)

    assert np.float32 == Standardize().fit_transform(X).dtype
    assert np.float32 == Standardize().fit_transform(X.astype(np.float32)).dtype
    assert np.float64 == Standardize().fit_transform(X.astype(np.int64)).dtype


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (PCA(0), "components to be an integer from 1"),
        (PCA(2.0), "components"),  # type: ignore[arg-type]  # wrong on purpose
        (PCA(True), "components"),
        (PCA(random_state=None), "random_state"),  # type: ignore[arg-type]  # what is kept must be repeatable
        (SpectralEmbedding(59), "at least 61 rows"),
        (SpectralEmbedding(2, metric="best"), "metric"),
    ],
)
def test_settings_are_checked_when_fitting(stage: PublicStage, words: str) -> None:
    """A wrong parameter is named with what it should be; making the stage itself never fails."""
    with pytest.raises(InputError, match=words):
        stage.fit(numbers())


@pytest.mark.parametrize(
    ("X", "shape", "error", "words"),
    [
        (np.zeros((3, 784)), None, ShapeError, "shape="),
        (np.zeros((3, 784)), (28, 27), ShapeError, "756 pixels"),
        (np.zeros((3, 3, 32, 32)), None, ShapeError, "transpose"),
        (np.zeros((3, 32, 32, 2)), None, ShapeError, "1 or 3 colours"),
        (np.zeros((3, 32, 32)), (28, 28), ShapeError, "28"),
        (np.zeros(3), None, ShapeError, "images"),
        (np.zeros((3, 28, 28)), 28, InputError, "shape="),
        (np.zeros((3, 28, 28)), (28,), InputError, "shape="),
        (np.full((3, 28, 28), 2.0), None, InputError, "Divide by 255"),
        (np.full((3, 28, 28), -1), None, InputError, "0 to 255"),
        (np.full((3, 28, 28), 300), None, InputError, "0 to 255"),
        (np.full((3, 28, 28), np.nan), None, InputError, "missing"),
        (np.full((3, 28, 28), "a"), None, InputError, "uint8"),
        (np.zeros((0, 28, 28)), None, EmptyInputError, "row"),
        (np.zeros((3, 5, 5)), None, InputError, "size=7"),
    ],
)
def test_what_are_no_images_is_refused(X: Any, shape: Any, error: type[Exception], words: str) -> None:
    """Unexpected shapes, orders of axes, types and ranges are refused, with what to do instead."""
    with pytest.raises(error, match=words):
        PatchFeatures(shape=shape).fit(X)


def test_images_come_in_many_forms() -> None:
    """Flat or not, bytes, integers or floats, arrays or frames: the same images give the same features."""
    stage = PatchFeatures(filters=4, size=4, components=6, shape=(12, 12))
    X = images()
    expected = stage.fit_transform(X)

    forms = [X.reshape(40, -1), X[..., None], X.astype(np.int64), X / 255, (X / 255).astype(np.float32)]
    forms += [pd.DataFrame(X.reshape(40, -1)), np.asfortranarray(X), X[::-1][::-1]]

    for form in forms:
        assert np.allclose(expected, stage.transform(form), atol=1e-4)
    with pytest.raises(ShapeError, match="fitted to"):
        clone(stage).set_params(shape=None).fit(X).transform(images(side=14))


def test_importing_the_stages_loads_no_extra() -> None:
    """The package loads neither networks nor numba, nor plots (Arrow itself loads pandas)."""
    loaded = loaded_by("import labeldp.features; dir(labeldp.features)")

    assert "sklearn" in loaded
    assert set() == loaded & {"torch", "umap", "numba", "matplotlib", "polars", "dp_accounting"}
