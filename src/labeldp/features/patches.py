"""Convolutional features without a network: responses to learned or random patches, pooled over the image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from labeldp.errors import InputError
from labeldp.features.base import PublicStage
from labeldp.features.inputs import as_images, as_pixels, at_least, one_of, whole
from labeldp.features.linear import principal, project
from labeldp.progress import progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

#: Patches to learn the dictionary from, in all and of an image; images to learn the principal components from.
_PATCHES, _EACH = 40_000, 100
_IMAGES = 20_000
_ROUNDS = 15
#: Length of each image's responses: the usual penalties of linear models suit it.
_LENGTH = np.float32(10)
#: Images per step: their patches and responses stay within tens of megabytes.
_STEP = 32


@final
class PatchFeatures(PublicStage):
    """Pooled responses to a dictionary of image patches, after Coates, Lee and Ng (2011).

    Every patch p of an image is freed of brightness and contrast, (p - mean p) / sqrt(var p + contrast), whitened, and
    compared with dictionary elements d of length one.  Its features are max(0, d p - t) and max(0, -d p - t), a soft
    threshold.  They are averaged under overlapping tents centred on a grid, so that a shift by a pixel changes little;
    then come square roots, one length for all images, and the leading principal components.

    Parameters
    ----------
    filters : int
        Elements of the dictionary; more help on colour images.
    size : int
        Side of a patch in pixels.
    dictionary : {"kmeans", "patches", "gaussian"}
        Learned by spherical k-means; patches of the images themselves; or random directions.
    grid : int
        Tents along each side: 2 are quadrants.
    threshold : float
        t above.
    whitening : float
        Added to the variances of patches before whitening; less of it brings out finer detail and noise.
    contrast : float
        Added to the variance of each patch; pixels run from 0 to 1.
    components : int or None
        Principal components at most; None keeps all 2 filters grid^2 responses.
    shape : (height, width), (height, width, colours) or None
        How flat rows fold into images.
    random_state : int
        For the choice of patches and the dictionary.
    verbose : bool
        Show progress.

    Attributes:
    ----------
    filters_ : array (size * size * colours, filters), what a patch freed of brightness and contrast is multiplied by
    offset_ : array (filters,), what is subtracted then

    Examples:
    --------
    >>> images = np.random.default_rng(0).integers(0, 256, size=(30, 12, 12), dtype=np.uint8)
    >>> PatchFeatures(filters=8, size=5, components=16).fit_transform(images).shape
    (30, 16)
    """

    libraries = ("numpy", "scikit-learn")

    def __init__(
        self,
        filters: int = 64,
        size: int = 7,
        *,
        dictionary: str = "kmeans",
        grid: int = 4,
        threshold: float = 0.8,
        whitening: float = 0.3,
        contrast: float = 0.01,
        components: int | None = 512,
        shape: tuple[int, ...] | None = None,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.filters = filters
        self.size = size
        self.dictionary = dictionary
        self.grid = grid
        self.threshold = threshold
        self.whitening = whitening
        self.contrast = contrast
        self.components = components
        self.shape = shape
        self.random_state = random_state
        self.verbose = verbose

    def _read(self, X: Any) -> Any:
        return as_images(X, self.shape)

    def _learn(self, X: Any) -> None:
        whole(1, filters=self.filters, size=self.size, grid=self.grid)
        whole(1, none=True, components=self.components)
        whole(0, random_state=self.random_state)
        at_least(0, threshold=self.threshold)
        at_least(1e-9, whitening=self.whitening, contrast=self.contrast)
        one_of(("kmeans", "patches", "gaussian"), dictionary=self.dictionary)
        if self.size > min(X.shape[1:3]):
            raise InputError(
                f"Expected patches no larger than the images, got size={self.size} for images of {X.shape[1]} x "
                f"{X.shape[2]}. Choose a smaller size.",
                value=self.size,
            )
        random = np.random.default_rng(self.random_state)
        self.filters_, self.offset_ = self._dictionary(self._sample(X, random), random)
        self.n_features_out_ = 2 * self.filters * self.grid**2
        self.components_: NDArray[np.floating[Any]] | None = None
        if self.components is not None:
            some = X if len(X) <= _IMAGES else X[np.sort(random.choice(len(X), _IMAGES, replace=False))]
            self.mean_, self.components_, _ = principal(self._responses(some), self.components, self.random_state)
            self.n_features_out_ = len(self.components_)

    def _apply(self, X: Any) -> Any:
        return self._responses(X)

    def _sample(self, X: NDArray[Any], random: np.random.Generator) -> Floats:
        """Return random patches of the images, freed of brightness and contrast."""
        images, height, width, _ = X.shape
        count = min(_PATCHES, _EACH * images)
        image = random.integers(images, size=count)
        top = random.integers(height - self.size + 1, size=count)
        left = random.integers(width - self.size + 1, size=count)
        patches = as_pixels(_windows(X, self.size)[image, top, left].reshape(count, -1))
        patches -= patches.mean(axis=1, keepdims=True)
        patches /= np.sqrt((patches**2).mean(axis=1, keepdims=True) + np.float32(self.contrast))
        return patches

    def _dictionary(self, patches: Floats, random: np.random.Generator) -> tuple[Floats, Floats]:
        """Return whitening and dictionary as one matrix, and the responses of the mean patch."""
        mean = patches.mean(axis=0)
        variances, axes = np.linalg.eigh(np.cov(patches - mean, rowvar=False).reshape(len(mean), -1).astype(np.float64))
        whiten = ((axes / np.sqrt(np.maximum(variances, 0.0) + self.whitening)) @ axes.T).astype(np.float32)
        # Nearly empty patches have no direction to learn.
        busy = np.flatnonzero((patches**2).mean(axis=1) > 0.01)
        white = (patches[busy] - mean) @ whiten
        elements = random.standard_normal((self.filters, patches.shape[1])).astype(np.float32)
        if self.dictionary == "patches" and len(busy):
            elements = white[random.integers(len(busy), size=self.filters)]
        elements = _unit(elements)
        if self.dictionary == "kmeans" and len(busy):
            elements = _spherical_k_means(white, elements)
        filters = whiten @ elements.T
        return filters, mean @ filters

    def _responses(self, X: NDArray[Any]) -> Floats:
        """Return the pooled responses of images, projected if the projection is known."""
        width = 2 * self.filters * self.grid**2
        out = np.empty((len(X), width if self.components_ is None else len(self.components_)), np.float32)
        with progress("Patches", len(X), shown=self.verbose) as advance:
            for start in range(0, len(X), _STEP):
                part = self._pooled(as_pixels(X[start : start + _STEP]))
                if self.components_ is not None:
                    part = project(part, self.mean_, self.components_)
                out[start : start + _STEP] = part
                advance(len(part))
        return out

    def _pooled(self, pixels: Floats) -> Floats:
        before, after = self.size // 2, (self.size - 1) // 2
        padded = np.pad(pixels, ((0, 0), (before, after), (before, after), (0, 0)), mode="edge")
        windows = _windows(padded, self.size)
        count, height, width = windows.shape[:3]
        patches = windows.reshape(count * height * width, -1)
        mean = patches.mean(axis=1)
        variance = np.einsum("ij,ij->i", patches, patches) / np.float32(patches.shape[1]) - mean**2
        # (p - mean p) F / s without a centred copy: p (F - column means of F) / s is the same.
        filters = self.filters_ - self.filters_.mean(axis=0)
        found = patches @ filters
        found /= np.sqrt(np.maximum(variance, 0) + np.float32(self.contrast))[:, None]
        found -= self.offset_
        across, down = _tents(width, self.grid), _tents(height, self.grid)
        level = np.float32(self.threshold)
        sides = []
        for side in (np.maximum(found - level, 0), np.maximum(-level - found, 0)):
            rows = np.matmul(across, side.reshape(count * height, width, -1))
            sides.append(np.matmul(down, rows.reshape(count, height, -1)).reshape(count, -1))
        return _LENGTH * _unit(np.sqrt(np.concatenate(sides, axis=1)))


def _windows(images: NDArray[Any], size: int) -> NDArray[Any]:
    """Return all patches, (n, tops, lefts, colours, size, size), as a view."""
    return np.lib.stride_tricks.sliding_window_view(images, (size, size), axis=(1, 2))


def _tents(length: int, count: int) -> Floats:
    """Return weights (count, length) that fall linearly from equidistant centres to zero at the next ones."""
    spacing = length / count
    centres = (np.arange(count) + 0.5) * spacing
    weights = np.maximum(0.0, 1.0 - np.abs(np.arange(length) + 0.5 - centres[:, None]) / max(spacing, 1.0))
    weights /= weights.sum(axis=1, keepdims=True)
    return weights.astype(np.float32)


def _unit(rows: Floats) -> Floats:
    length = np.linalg.norm(rows, axis=1, keepdims=True).astype(np.float32)
    unit: Floats = rows / np.maximum(length, np.float32(1e-6))
    return unit


def _spherical_k_means(points: Floats, centres: Floats) -> Floats:
    """Return directions, each towards the points which it or its opposite is nearest to."""
    for _ in range(_ROUNDS):
        products = points @ centres.T
        nearest = np.abs(products).argmax(axis=1)
        strength = products[np.arange(len(points)), nearest]
        order = np.argsort(nearest, kind="stable")
        starts = np.searchsorted(nearest[order], np.arange(len(centres)))
        sums = np.add.reduceat(np.vstack([strength[order, None] * points[order], centres[:1] * 0]), starts, axis=0)
        sums[np.bincount(nearest, minlength=len(centres)) == 0] = 0
        # A little of the old centre: one without points stays where it is.
        centres = _unit(sums + np.float32(0.1) * centres)
    return centres
