"""Patch features: the formula against loops, invariances, and that they tell shapes apart."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.neighbors import KNeighborsClassifier

from labeldp.errors import InputError
from labeldp.features import PatchFeatures
from labeldp.features.patches import _tents
from tests.features.helpers import images


def _by_loops(stage: PatchFeatures, image: Any) -> Any:
    """The definition, a patch at a time, without square roots, length and projection."""
    size, grid = stage.size, stage.grid
    before, after = size // 2, (size - 1) // 2
    padded = np.pad(image / 255, ((before, after), (before, after), (0, 0)), mode="edge")
    height, width = image.shape[:2]
    found = np.zeros((2, grid, grid, stage.filters))
    down, across = _tents(height, grid), _tents(width, grid)
    for top in range(height):
        for left in range(width):
            patch = padded[top : top + size, left : left + size].transpose(2, 0, 1).ravel()
            patch = (patch - patch.mean()) / np.sqrt(patch.var() + stage.contrast)
            response = patch @ stage.filters_ - stage.offset_
            weight = np.outer(down[:, top], across[:, left])[:, :, None]
            found[0] += weight * np.maximum(0, response - stage.threshold)
            found[1] += weight * np.maximum(0, -response - stage.threshold)
    return found.reshape(-1)


@pytest.mark.parametrize("colours", [1, 3])
@pytest.mark.parametrize("dictionary", ["kmeans", "patches", "gaussian"])
def test_features_are_pooled_thresholded_responses(colours: int, dictionary: str) -> None:
    """Each image's features are, up to their length, the roots of what a loop over its patches gives."""
    X = images(10, colours=colours).reshape(10, 12, 12, colours)
    stage = PatchFeatures(filters=5, size=4, dictionary=dictionary, grid=3, components=None, threshold=0.3).fit(X)

    got = stage.transform(X[:2])

    expected = np.sqrt([_by_loops(stage, image) for image in X[:2]])
    expected *= 10 / np.linalg.norm(expected, axis=1, keepdims=True)
    assert (2, 2 * 5 * 9) == got.shape
    assert np.allclose(expected, got, atol=2e-3)


def test_tents_are_averages_that_cover_every_place_once() -> None:
    """The weights of each tent sum to one, and away from the edges all of them together weigh every place alike."""
    tents = _tents(24, 4)

    assert np.allclose(1.0, tents.sum(axis=1))
    assert np.allclose(tents.sum(axis=0)[9:-9], tents.sum(axis=0)[12])
    assert np.allclose(1.0, _tents(3, 3).max(axis=1))
    assert np.isfinite(_tents(3, 5)).all()


def strokes(rows: int, seed: int) -> Any:
    """Strokes of 6 x 2 pixels anywhere in 20 x 20, lying in the first half of the images, standing in the second."""
    rng = np.random.default_rng(seed)
    out = rng.integers(0, 40, size=(rows, 20, 20), dtype=np.uint8)
    for place in range(rows):
        top, left = rng.integers(0, 14, size=2)
        high, wide = (2, 6) if place < rows // 2 else (6, 2)
        out[place, top : top + high, left : left + wide] = 220
    return out


def test_shapes_are_told_apart_wherever_they_are() -> None:
    """Short lying and standing strokes: neighbours in feature space are of one kind, in pixels less often."""
    X, test = strokes(80, seed=0), strokes(80, seed=1)
    kinds = np.arange(80) < 40
    stage = PatchFeatures(filters=12, size=5, grid=2, components=16).fit(X)

    def accuracy(train: Any, rest: Any) -> float:
        return float(KNeighborsClassifier(3).fit(train, kinds).score(rest, kinds))

    assert accuracy(stage.transform(X), stage.transform(test)) == 1.0
    assert accuracy(X.reshape(80, -1), test.reshape(80, -1)) < 0.9


def test_brightness_changes_nothing_and_contrast_little() -> None:
    """An image in a darker range has the same features, and one of half the contrast almost."""
    X = images().astype(np.float32) / 255 * 0.5
    stage = PatchFeatures(filters=8, size=5, components=None, contrast=1e-4).fit(X)

    assert np.allclose(stage.transform(X), stage.transform(X + 0.5), atol=0.02)
    assert np.abs(stage.transform(X) - stage.transform(X / 2)).mean() < 0.1


@pytest.mark.parametrize("level", [0, 255])
def test_empty_images_have_finite_features(level: int) -> None:
    """Images without any structure give finite features, alone and among others, without a warning."""
    blank = np.full((6, 12, 12), level, np.uint8)

    assert np.isfinite(PatchFeatures(filters=4).fit_transform(blank)).all()
    assert np.isfinite(PatchFeatures(filters=4).fit(images()).transform(blank)).all()


def test_no_more_components_than_images() -> None:
    """A small set of images has as many components as it can."""
    assert (10, 10) == PatchFeatures(filters=8).fit_transform(images(10)).shape


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"filters": 0}, "filters"),
        ({"grid": 1.5}, "grid"),
        ({"components": 0}, "components .* or None"),
        ({"threshold": -1}, "threshold"),
        ({"whitening": 0.0}, "whitening"),
        ({"contrast": float("nan")}, "contrast"),
        ({"dictionary": "wavelets"}, "'kmeans', 'patches', 'gaussian'"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    """Each parameter out of range is named."""
    with pytest.raises(InputError, match=words):
        PatchFeatures(**settings).fit(images())


def test_progress_changes_nothing() -> None:
    """A bar can be shown; the features are the same."""
    plain, shown = PatchFeatures(filters=4), PatchFeatures(filters=4, verbose=True)

    assert np.array_equal(plain.fit_transform(images()), shown.fit_transform(images()))
