"""Graph embeddings keep what is connected together, and place new rows among their neighbours."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from sklearn.manifold import trustworthiness
from sklearn.neighbors import KNeighborsClassifier

from labeldp.errors import InputError
from labeldp.features import SpectralEmbedding, UmapEmbedding, graph


def rings(rows: int = 300, seed: int = 0) -> tuple[Any, Any]:
    """Two rings, one inside the other: neighbours are of one ring, means are the same."""
    rng = np.random.default_rng(seed)
    angle, ring = rng.uniform(0, 2 * np.pi, rows), np.arange(rows) % 2
    radius = 1.0 + 2.0 * ring + 0.05 * rng.normal(size=rows)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), ring


def test_parts_of_the_graph_come_apart() -> None:
    """The first dimension tells two rings apart that no line can, and new rows fall on the right side."""
    X, ring = rings()
    new, truth = rings(seed=1)
    stage = SpectralEmbedding(2, neighbors=8).fit(X)

    side = stage.embedding_[:, 0] > 0
    assert max((side == ring).mean(), (side != ring).mean()) == 1.0
    assert 1.0 == KNeighborsClassifier(3).fit(stage.embedding_, ring).score(stage.transform(new), truth)


def test_a_line_is_unrolled_in_order() -> None:
    """Along a spiral the first dimension rises or falls with the place on it."""
    place = np.linspace(1, 4 * np.pi, 400)
    X = np.column_stack([place * np.cos(place), place * np.sin(place)])

    first = SpectralEmbedding(1, neighbors=6).fit_transform(X)[:, 0]

    assert abs(np.corrcoef(np.argsort(np.argsort(first)), np.arange(400))[0, 1]) > 0.999


@pytest.mark.parametrize("metric", ["euclidean", "cosine", "manhattan"])
def test_rows_of_the_fit_stay_where_they_are(metric: str) -> None:
    """Transforming a row of the fit gives its place in the embedding."""
    X, _ = rings()
    X = np.column_stack([X, np.arange(300.0) / 100])
    stage = SpectralEmbedding(3, metric=metric).fit(X)

    assert np.allclose(stage.embedding_, stage.transform(X), atol=1e-6)


def test_large_graphs_are_solved_as_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """The iterative solver finds what the direct one finds, and finds it again."""
    X, _ = rings()
    direct = SpectralEmbedding(3).fit(X)
    monkeypatch.setattr(graph, "_SMALL", 10)

    found, again = SpectralEmbedding(3).fit(X), SpectralEmbedding(3).fit(X)

    assert np.allclose(direct.eigenvalues_, found.eigenvalues_, atol=1e-4)
    assert (np.abs((direct.embedding_ * found.embedding_).mean(axis=0)) > 0.99 * found.embedding_.var(axis=0)).all()
    assert np.array_equal(found.embedding_, again.embedding_)


def test_repeated_rows_are_no_trouble() -> None:
    """Rows that are equal, all of them even, have finite places."""
    X, _ = rings(60)

    assert np.isfinite(SpectralEmbedding(2).fit_transform(np.repeat(X, 20, axis=0))).all()
    assert np.isfinite(SpectralEmbedding(2).fit(np.ones((30, 2))).transform(np.ones((3, 2)))).all()
    assert np.isfinite(SpectralEmbedding(2).fit(X).transform(X * 100)).all()


def test_umap_is_asked_for_what_was_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings reach umap-learn under its names, with a fixed seed on one core, and never a label."""
    asked: dict[str, Any] = {}

    class Fake:
        def __init__(self, **settings: Any) -> None:
            asked.update(settings)

        def fit_transform(self, X: Any) -> Any:
            return X[:, : asked["n_components"]] * 2

        def transform(self, X: Any) -> Any:
            return X[:, : asked["n_components"]] * 3

    monkeypatch.setitem(sys.modules, "umap", SimpleNamespace(UMAP=Fake))
    X = np.random.default_rng(0).normal(size=(12, 4))

    stage = UmapEmbedding(2, neighbors=30, epochs=7, min_dist=0.1)
    placed = stage.fit_transform(X)

    assert np.allclose(X[:, :2] * 2, placed)
    assert np.allclose(X[:, :2] * 3, stage.transform(X))
    assert np.float32 == placed.dtype
    assert {
        "n_components": 2,
        "n_neighbors": 11,
        "n_epochs": 7,
        "min_dist": 0.1,
        "metric": "euclidean",
        "random_state": 0,
        "n_jobs": 1,
        "verbose": False,
    } == asked
    with pytest.raises(InputError, match="at least 4 rows"):
        UmapEmbedding(2).fit(X[:3])


@pytest.mark.long
@pytest.mark.skipif(find_spec("umap") is None, reason="umap-learn is an extra; test_extras.py tests what is said")
@pytest.mark.filterwarnings("ignore::Warning")  # numba and pynndescent have warnings of their own
def test_umap_keeps_neighbours() -> None:
    """With the extra, neighbours stay neighbours, the same each time, and new rows fall among their own."""
    X, ring = rings()
    new, truth = rings(seed=1)
    stage = UmapEmbedding(2).fit(X)

    assert trustworthiness(X, stage.embedding_, n_neighbors=5) > 0.95
    assert np.array_equal(stage.embedding_, UmapEmbedding(2).fit(X).embedding_)
    assert KNeighborsClassifier(3).fit(stage.embedding_, ring).score(stage.transform(new), truth) > 0.98
