"""Small public inputs, and every stage with one that it takes."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import pytest

from labeldp.features import (
    PCA,
    HashedText,
    PatchFeatures,
    PretrainedImages,
    PublicStage,
    SelfSupervised,
    SpectralEmbedding,
    Standardize,
    TableFeatures,
    TextFeatures,
    UmapEmbedding,
)

if find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)  # tests run side by side already
needs_torch = pytest.mark.skipif(
    find_spec("torch") is None, reason="torch is an extra; what is said without it is tested in test_extras.py"
)


def numbers(rows: int = 60, width: int = 5, seed: int = 0) -> Any:
    """Correlated columns of unlike scale."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, width)) @ rng.normal(size=(width, width)) * 10.0 ** np.arange(width) + 3.0


def images(rows: int = 40, side: int = 12, colours: int = 1, seed: int = 0) -> Any:
    """Bars, lying in the first half of the images and standing in the second, at random places, with noise."""
    rng = np.random.default_rng(seed)
    out = rng.integers(0, 40, size=(rows, side, side, colours), dtype=np.uint8)
    for place in range(rows):
        start = rng.integers(1, side - 3)
        if place < rows // 2:
            out[place, start : start + 2, 1:-1] = 220
        else:
            out[place, 1:-1, start : start + 2] = 220
    return out[..., 0] if colours == 1 else out


def texts(rows: int = 40) -> list[str]:
    """Two kinds of short texts."""
    fine = ["a fine day today", "what a fine night", "such a lovely day", "a lovely night today"]
    rain = ["rain all day", "nothing but rain tonight", "rain and wind all night", "wind and more wind"]
    return [(fine if place % 2 else rain)[place // 2 % 4] for place in range(rows)]


def mixed(rows: int = 60) -> dict[str, list[Any]]:
    """Columns of a mixed table: numbers with holes, a heavy tail, truth values, categories."""
    rng = np.random.default_rng(1)
    return {
        "age": [None if place % 10 == 3 else float(value) for place, value in enumerate(rng.integers(18, 90, rows))],
        "gain": [float(10 ** rng.integers(0, 6)) if place % 8 == 0 else 0.0 for place in range(rows)],
        "member": [bool(value) for value in rng.integers(0, 2, rows)],
        "work": [["state", "private", "private", "self"][place % 4] for place in range(rows)],
        "origin": [None if place % 15 == 4 else f"c{place % 3 if place % 30 else place}" for place in range(rows)],
    }


def rows_of_mixed(rows: int = 60) -> list[list[Any]]:
    """The same table, as rows."""
    return [list(row) for row in zip(*mixed(rows).values(), strict=True)]


#: Stages that need no extra, each with an input.
CORE: list[tuple[PublicStage, Any]] = [
    (Standardize(), numbers()),
    (PCA(3, whiten=True), numbers()),
    (PatchFeatures(filters=6, size=4, grid=2, components=8), images()),
    (SpectralEmbedding(2, neighbors=6), numbers()),
    (TableFeatures(rare=5), rows_of_mixed()),
    (TextFeatures(components=3), texts()),
    (HashedText(64), texts()),
]
#: Stages that need one.
EXTRA: list[tuple[PublicStage, Any]] = [
    (SelfSupervised(8, epochs=1), images()),
    (PretrainedImages(32), images()),
    (UmapEmbedding(2), numbers()),
]


def name_of(value: Any) -> str:
    """Name a stage in a test's id."""
    return type(value).__name__ if isinstance(value, PublicStage) else ""


def dense(table: Any) -> Any:
    """Return an array, of a sparse table too."""
    return table.toarray() if hasattr(table, "toarray") else np.asarray(table)
