"""Inductive and transductive representations, their digests, and the cache that keeps them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy.sparse import csr_array, issparse
from sklearn.decomposition import TruncatedSVD
from sklearn.pipeline import make_pipeline

from labeldp.errors import InputError, ShapeError
from labeldp.features import (
    PCA,
    Cache,
    HashedText,
    PublicStage,
    SpectralEmbedding,
    Standardize,
    TableFeatures,
    TextFeatures,
    represent,
)
from labeldp.features.digest import digest_of
from tests.features.helpers import CORE, dense, mixed, name_of, numbers, texts


@pytest.mark.parametrize(("stage", "X"), CORE, ids=name_of)
@pytest.mark.parametrize("setting", ["inductive", "transductive"])
def test_the_setting_says_what_the_stage_saw(stage: PublicStage, X: Any, setting: Any) -> None:
    """Inductive is fitted to the training rows only, transductive to all; both represent both, and say so."""
    train, test = X[:30], X[30:]

    found = represent(stage, train, test, setting=setting)

    from sklearn.base import clone

    seen = train if setting == "inductive" else X
    fitted = clone(stage).fit(seen)
    assert setting == found.setting
    assert np.allclose(dense(fitted.transform(train)), dense(found.train), atol=1e-5)
    assert np.allclose(dense(fitted.transform(test)), dense(found.test), atol=1e-5)
    assert found.seconds > 0
    assert not hasattr(stage, "row_shape_")
    assert f"{setting}, 30 training rows, {len(test)} test rows" in repr(found)


def test_test_rows_are_not_seen_in_the_inductive_setting() -> None:
    """Whatever the test rows are, the training rows come out the same; transductively they do not."""
    train, test = numbers(40), numbers(20, seed=5)

    def trained(setting: Any, scale: float) -> Any:
        return represent(Standardize(), train, test * scale, setting=setting).train

    assert np.array_equal(trained("inductive", 1.0), trained("inductive", 9.0))
    assert not np.allclose(trained("transductive", 1.0), trained("transductive", 9.0))


def test_an_embedding_places_test_rows_with_the_others_when_it_may() -> None:
    """Transductively the rows of an embedding have places of their own, as in one fit to all."""
    X = numbers(50)

    found = represent(SpectralEmbedding(2, neighbors=6), X[:40], X[40:], setting="transductive")

    assert np.array_equal(
        SpectralEmbedding(2, neighbors=6).fit(X).embedding_, np.concatenate([found.train, found.test])
    )


def test_a_pipeline_is_represented_step_by_step() -> None:
    """A pipeline of stages, one within another even, gives what its own fit gives; test rows may be absent."""
    X = numbers()
    chain = make_pipeline(Standardize(), "passthrough", make_pipeline(PCA(3), Standardize()))

    found = represent(chain, X[:40], X[40:])

    assert np.allclose(chain.fit(X[:40]).transform(X[40:]), found.test)
    assert represent(chain, X).test is None
    assert "no test rows" in repr(represent(chain, X))
    for wrong in (make_pipeline(Standardize(), TruncatedSVD(2)), TruncatedSVD(2), "PCA", None):
        with pytest.raises(InputError, match="Expected a public stage"):
            represent(wrong, X)  # type: ignore[arg-type]  # wrong on purpose
    with pytest.raises(InputError, match="at least one stage"):
        represent(make_pipeline("passthrough"), X)
    with pytest.raises(InputError, match="'inductive', 'transductive'"):
        represent(PCA(2), X, setting="both")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.parametrize(
    ("stage", "whole"),
    [
        (TableFeatures(rare=5), pd.DataFrame(mixed())),
        (TableFeatures(rare=5), pl.DataFrame(mixed())),
        (TextFeatures(components=2), texts(60)),
        (TextFeatures(components=2), pd.Series(texts(60))),
        (TextFeatures(components=None), np.array(texts(60))),
    ],
)
def test_rows_of_all_kinds_are_put_together(stage: PublicStage, whole: Any) -> None:
    """Frames, series, arrays and lists of texts can be represented transductively."""
    from sklearn.base import clone

    train, test = whole[:40], whole[40:]

    found = represent(stage, train, test, setting="transductive")

    assert np.allclose(dense(clone(stage).fit_transform(whole))[40:], dense(found.test), atol=1e-6)


def test_rows_that_do_not_fit_together_are_refused() -> None:
    """Other columns or shapes in the test rows are told before anything is fitted to both."""
    with pytest.raises(ShapeError, match="same columns"):
        represent(Standardize(), pd.DataFrame({"a": [1, 2]}), pd.DataFrame({"b": [1, 2]}), setting="transductive")
    with pytest.raises(ShapeError, match="one shape"):
        represent(Standardize(), np.ones((3, 2)), np.ones((3, 3)), setting="transductive")


def test_equal_content_has_an_equal_digest() -> None:
    """The layout does not matter; values, types, shapes, names and their order do."""
    X = numbers()
    frame = pd.DataFrame(mixed())
    same = [
        (X, X.copy(), np.asfortranarray(X), X[::-1][::-1], X.tolist()),
        (texts(), tuple(texts()), np.array(texts())),
        (frame, frame.copy(), frame.set_index(np.arange(60) + 5)),
        (csr_array(X), csr_array(X).tocoo()),
    ]
    tiny = X.copy()
    tiny[-1, -1] = np.nextafter(tiny[-1, -1], np.inf)
    others = [
        X,
        tiny,
        X.astype(np.float32),
        X.view(np.int64),
        X.T,
        X.ravel(),
        X[:-1],
        texts(),
        texts()[::-1],
        ["ab", "c"],
        ["a", "bc"],
        ["1"],
        np.array([1], dtype=object),
        frame,
        frame[frame.columns[::-1]],
        frame.rename(columns={"age": "Age"}),
        csr_array(X),
        csr_array(X[:, ::-1]),
    ]

    for group in same:
        assert 1 == len({digest_of(X) for X in group})
    assert len(others) == len({digest_of(X) for X in others})


def test_the_digest_names_everything_that_decides_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    """Inputs, setting, class, parameters and version of the code change it; what only shows progress does not."""
    X, Y = numbers(), numbers(20, seed=1)
    base = represent(PCA(2), X, Y)
    different = [
        represent(PCA(3), X, Y),
        represent(PCA(2, whiten=True), X, Y),
        represent(PCA(2), X, Y, setting="transductive"),
        represent(PCA(2), Y, X),
        represent(PCA(2), X),
        represent(Standardize(), X, Y),
    ]
    monkeypatch.setattr(PCA, "code_version", 99)
    different.append(represent(PCA(2), X, Y))

    assert len(different) + 1 == len({base.digest, *(found.digest for found in different)})
    monkeypatch.undo()
    assert base.digest == represent(PCA(2), X.copy(), Y).digest
    assert base.digest == represent(PCA(np.int64(2)), X, Y).digest  # type: ignore[arg-type]  # as a grid search has it
    with pytest.raises(InputError, match="written down"):
        represent(PCA(2, random_state=np.random.default_rng(0)), X)  # type: ignore[arg-type]  # wrong on purpose


def test_a_second_time_comes_from_the_cache(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is fitted again; the arrays are the same, mapped and read-only; another epsilon or seed costs nothing."""
    X = numbers()
    chain = make_pipeline(Standardize(), PCA(2))
    cache = Cache(tmp_path)
    plain = represent(chain, X[:40], X[40:])
    first = represent(chain, X[:40], X[40:], cache=cache)
    monkeypatch.setattr(PCA, "_learn", None)
    monkeypatch.setattr(Standardize, "_learn", None)

    again = represent(chain, X[:40], X[40:], cache=cache)

    for found in (first, again):
        assert np.array_equal(plain.train, found.train)
        assert np.array_equal(plain.test, found.test)
        assert isinstance(found.train, np.memmap)
        assert not found.train.flags.writeable
    assert first.digest == again.digest == plain.digest
    assert first.seconds == again.seconds
    assert 2 == len(cache.digests())


def test_sparse_representations_are_kept_too(tmp_path: Any) -> None:
    """A csr table comes back as one."""
    cache = Cache(tmp_path)

    first, again = (represent(HashedText(64), texts(), texts(8), cache=cache) for _ in range(2))

    assert issparse(again.train)
    assert np.array_equal(first.train.toarray(), again.train.toarray())
    assert (8, 64) == again.test.shape
