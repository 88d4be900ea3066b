"""Linear stages: scaling columns, and principal components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, final

import numpy as np

from labeldp.errors import InputError
from labeldp.features.base import PublicStage
from labeldp.features.inputs import as_matrix, whole

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]

#: Up to this many columns the covariance is decomposed exactly.
_NARROW = 2048
#: Directions with less than this share of the largest variance are rounding, not data.
_NOISE = 1e-10
_ROWS = 8192


@final
class Standardize(PublicStage):
    """Columns less their mean, over their standard deviation; constant columns become zero.

    Attributes:
    ----------
    mean_ : array (d,)
    scale_ : array (d,), infinite for constant columns

    Examples:
    --------
    >>> Standardize().fit_transform([[1.0, 5.0], [3.0, 5.0]]).tolist()
    [[-1.0, 0.0], [1.0, 0.0]]
    """

    def __init__(self) -> None:
        pass

    def _read(self, X: Any) -> Any:
        return as_matrix(X)

    def _learn(self, X: Any) -> None:
        self.mean_, self.scale_ = moments(X)
        self.n_features_out_ = X.shape[1]

    def _apply(self, X: Any) -> Any:
        out = X - self.mean_.astype(X.dtype)
        out /= self.scale_.astype(X.dtype)
        return out


@final
class PCA(PublicStage):
    """The directions of greatest variance, exactly or, for wide tables, by a random sketch.

    Columns are ordered by falling variance; the sign of each makes its largest loading positive.

    Parameters
    ----------
    components : int
        How many at most: no more than there are rows or columns.
    whiten : bool
        Scale every output to variance one.  Directions that hold rounding only become zero.
    random_state : int
        For the sketch.

    Attributes:
    ----------
    mean_ : array (d,)
    components_ : array (k, d)
    variances_ : array (k,)

    Examples:
    --------
    >>> X = np.random.default_rng(0).normal(size=(500, 3)) * [5.0, 1.0, 0.1]
    >>> PCA(2, whiten=True).fit_transform(X).std(axis=0).round(2).tolist()
    [1.0, 1.0]
    """

    libraries = ("numpy", "scikit-learn")

    def __init__(self, components: int = 64, *, whiten: bool = False, random_state: int = 0) -> None:
        self.components = components
        self.whiten = whiten
        self.random_state = random_state

    def _read(self, X: Any) -> Any:
        return as_matrix(X)

    def _learn(self, X: Any) -> None:
        whole(1, components=self.components)
        whole(0, random_state=self.random_state)
        self.mean_, self.components_, self.variances_ = principal(X, self.components, self.random_state)
        self.n_features_out_ = len(self.variances_)

    def _apply(self, X: Any) -> Any:
        axes = self.components_
        if self.whiten:
            floor = _NOISE * self.variances_[0]
            axes = axes / np.sqrt(np.where(self.variances_ > floor, self.variances_, np.inf))[:, None]
        return project(X, self.mean_, axes)


def project(X: Floats, mean: Floats, axes: Floats) -> Floats:
    """Return (X - mean) axes^T in the type of X, a block of rows at a time."""
    turned = axes.T.astype(X.dtype)
    out = np.empty((len(X), len(axes)), X.dtype)
    for rows, part in blocks(X):
        np.matmul(part - mean.astype(X.dtype), turned, out=out[rows])
    return out


def principal(X: Floats, count: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return mean, axes (k, d) and variances of the leading principal components."""
    rows, width = X.shape
    count = min(count, rows, width)
    mean = np.asarray(np.mean(X, axis=0, dtype=np.float64))
    if width <= _NARROW or (count > width // 4 and width <= 3 * _NARROW):
        table = np.zeros((width, width))
        for _, part in blocks(X):
            centred = part - mean
            table += centred.T @ centred
        variances, axes = np.linalg.eigh(table / rows)
        variances, axes = variances[::-1][:count], axes.T[::-1][:count]
    else:
        from sklearn.utils.extmath import randomized_svd

        _, singular, axes = randomized_svd(X - mean.astype(X.dtype), count, random_state=seed)
        variances = singular.astype(np.float64) ** 2 / rows
    largest = np.abs(axes).argmax(axis=1)
    signs = np.where(axes[np.arange(count), largest] < 0, -1.0, 1.0)
    return mean, np.ascontiguousarray(axes * signs[:, None]), np.maximum(variances, 0.0)


def moments(X: Floats) -> tuple[Floats, Floats]:
    """Return mean and standard deviation of the columns; infinity stands for a constant column's."""
    mean = np.asarray(np.mean(X, axis=0, dtype=np.float64))
    squares = np.zeros(X.shape[1])
    with np.errstate(over="ignore"):
        for _, part in blocks(X):
            squares += ((part - mean) ** 2).sum(axis=0)
    scale = np.sqrt(squares / len(X))
    if not (np.isfinite(mean).all() and np.isfinite(scale).all()):
        raise InputError("Expected values whose squares are finite, got larger ones. Rescale the columns first.")
    # What is left of a constant column is the rounding of its mean, a sum of as many terms as rows.
    constant = scale <= len(X) * np.finfo(np.float64).eps * np.abs(mean)
    return mean, np.where(constant | (scale == 0), np.inf, scale)


def blocks(X: Any, rows: int = _ROWS) -> Iterator[tuple[slice, Any]]:
    """Yield slices of rows and the rows, a bounded number at a time."""
    for start in range(0, len(X), rows):
        part = slice(start, min(start + rows, len(X)))
        yield part, X[part]
