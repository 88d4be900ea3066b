"""Texts: the weights by their formula, directions that tell topics apart, and what is no text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.sparse import issparse

from labeldp.errors import EmptyInputError, InputError, ShapeError
from labeldp.features import HashedText, TextFeatures
from tests.features.helpers import texts


def test_weights_are_those_of_the_formula() -> None:
    """A term weighs (1 + log count) times (1 + log of the inverse share), in rows of length one."""
    X = ["rain rain sun", "rain wind", "wind wind"]
    stage = TextFeatures(components=None, words=1, characters=0, least=1).fit(X)

    table = stage.transform(X).toarray()

    rarity = 1 + np.log(4 / (1 + np.array([2, 1, 2])))
    row = np.array([1 + np.log(2), 1.0, 0.0]) * rarity
    assert ["rain", "sun", "wind"] == stage.get_feature_names_out().tolist()
    assert np.allclose(row / np.linalg.norm(row), table[0], atol=1e-6)


def test_directions_tell_topics_apart() -> None:
    """Texts of one kind are nearer to each other than to the other kind."""
    rows = TextFeatures(components=4).fit_transform(texts())

    likeness = rows @ rows.T
    kind = np.arange(40) % 2
    assert likeness[kind[:, None] == kind].mean() > likeness[kind[:, None] != kind].mean() + 0.3
    assert np.allclose(1.0, np.linalg.norm(rows, axis=1), atol=1e-5)


def test_a_text_of_unknown_terms_is_zero() -> None:
    """What shares nothing with the fitted texts has no direction, and no NaN."""
    assert not TextFeatures(components=3, characters=0).fit(texts()).transform(["zzz", ""]).any()
    assert 0 == HashedText(32).fit(texts()).transform(["", ""]).nnz


def test_hashing_learns_nothing_and_has_length_one() -> None:
    """The same text has the same row whatever was fitted; equal terms fall in equal places."""
    one, other = HashedText(128, characters=4).fit(["x"]), HashedText(128, characters=4).fit(texts())

    row = one.transform(["a fine day"])

    assert issparse(row)
    assert 0 == (row != other.transform(["a fine day"])).nnz
    assert 1.0 == pytest.approx(np.linalg.norm(row.toarray()))


@pytest.mark.parametrize(
    "make",
    [list, tuple, np.array, lambda x: np.array(x, dtype=object), pd.Series, pl.Series, pa.array, pa.chunked_array],
)
def test_texts_come_in_many_columns(make: Any) -> None:
    """Lists, arrays, series and one-column frames give the same rows."""
    expected = TextFeatures(components=2).fit_transform(texts())
    X = make([texts()]) if make is pa.chunked_array else make(texts())

    assert np.array_equal(expected, TextFeatures(components=2).fit_transform(X))
    assert np.array_equal(expected, TextFeatures(components=2).fit_transform(pd.DataFrame({"t": texts()})))


@pytest.mark.parametrize(
    ("X", "error", "words"),
    [
        ("one text", ShapeError, "list"),
        (["a", None], InputError, "NoneType in row 1"),
        (pd.Series(["a", np.nan], dtype=object), InputError, "row 1"),
        ([1, 2], InputError, "int in row 0"),
        ([["a"], ["b"]], InputError, "list in row 0"),
        (3, InputError, "int"),
        (pd.DataFrame({"a": ["x"], "b": ["y"]}), ShapeError, "one column"),
        ([], EmptyInputError, "row"),
    ],
)
def test_what_are_no_texts_is_refused(X: Any, error: type[Exception], words: str) -> None:
    """Single texts, missing texts and other values are refused, with the row."""
    with pytest.raises(error, match=words):
        TextFeatures().fit(X)


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        (TextFeatures(words=0, characters=0), "words or characters"),
        (TextFeatures(characters=1), "characters"),
        (TextFeatures(least=0), "least"),
        (TextFeatures(words=1, characters=0, least=50), "Lower"),
        (HashedText(0), "places"),
    ],
)
def test_settings_are_checked(stage: Any, words: str) -> None:
    """A setting that leaves no terms, or is none, is named."""
    X = [f"word{place}" for place in range(60)]
    with pytest.raises(InputError, match=words):
        stage.fit(X)
