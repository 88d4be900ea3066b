"""A public stage: it turns features into better ones, and cannot receive labels at all."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Self, final

import numpy as np
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from labeldp.errors import ShapeError
from labeldp.features.gate import refuse_foreign, refuse_labels
from labeldp.features.inputs import column_names

if TYPE_CHECKING:
    from numpy.typing import NDArray


class PublicStage(TransformerMixin, BaseEstimator, ABC):
    """A transformer of scikit-learn's kind whose ``fit`` takes features only.

    Labels, releases and evidence are refused by type, wherever they are handed in: so nothing that a stage makes can
    depend on a label, and making it spends no budget.  Fitting and transforming check what they are given; a table
    with other columns than the fitted one is refused.

    A stage of your own derives from this class and says how it reads (``_read``), learns (``_learn``, which sets
    ``n_features_out_`` and whatever ends in an underscore) and applies itself (``_apply``).  Where the rows of the
    fit have places of their own, as in an embedding of a graph, ``_learn`` leaves them in ``embedding_``.

    >>> from sklearn.pipeline import make_pipeline
    >>> from labeldp.features import PCA, Standardize
    >>> X = np.random.default_rng(0).normal(size=(100, 5))
    >>> make_pipeline(Standardize(), PCA(2)).fit_transform(X).shape
    (100, 2)
    >>> Standardize().fit(X, np.arange(100) % 2)
    Traceback (most recent call last):
    ...
    labeldp.errors.RawLabelsError: Expected no y for Standardize, got ndarray. ...
    """

    #: Part of every digest: count it up when the same input gives another output.
    code_version: ClassVar[int] = 1
    #: Distributions whose version can change the output.
    libraries: ClassVar[tuple[str, ...]] = ("numpy",)
    #: Parameters which cannot change the output.
    cosmetic: ClassVar[frozenset[str]] = frozenset({"verbose"})

    row_shape_: tuple[int, ...]
    n_features_out_: int

    @final
    def fit(self, X: Any, y: None = None) -> Self:
        """Learn from features.  ``y`` exists for pipelines, and must be None."""
        name = type(self).__name__
        refuse_labels(y, name)
        for parameter, value in self.get_params(deep=False).items():
            refuse_foreign(value, f"and settings for {name}, in {parameter}")
        for stale in [attribute for attribute in vars(self) if attribute.endswith("_")]:
            delattr(self, stale)
        refuse_foreign(X, f"for {name}")
        table = self._read(X)
        self._learn(table)
        names = column_names(X)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)
        self.row_shape_ = tuple(getattr(table, "shape", (0,))[1:])
        if self.row_shape_:
            self.n_features_in_ = int(np.prod(self.row_shape_))
        return self

    @final
    def transform(self, X: Any) -> Any:
        """Represent rows: an array, or a sparse csr array where the stage says so."""
        check_is_fitted(self, "row_shape_")
        name = type(self).__name__
        refuse_foreign(X, f"for {name}")
        names, known = column_names(X), getattr(self, "feature_names_in_", None)
        if names is not None and known is not None and names != list(known):
            raise ShapeError(
                f"Expected the columns that {name} was fitted to, {_few(known)}, got {_few(names)}. Choose and order "
                "them alike.",
                expected=list(known),
                got=names,
            )
        table = self._read(X)
        shape = tuple(getattr(table, "shape", (0,))[1:])
        if shape != self.row_shape_:
            raise ShapeError(
                f"Expected rows of shape {self.row_shape_}, as {name} was fitted to, got {shape}. Fit the stage to such "
                "rows, or hand in the ones it knows.",
                expected=self.row_shape_,
                got=shape,
            )
        return self._apply(table)

    @final
    def fit_transform(self, X: Any, y: None = None) -> Any:
        """Fit, and represent the same rows.  ``y`` exists for pipelines, and must be None."""
        self.fit(X, y)
        placed = getattr(self, "embedding_", None)
        return self.transform(X) if placed is None else placed

    @final
    def get_feature_names_out(self, input_features: object = None) -> NDArray[Any]:
        """Name the columns of the output."""
        del input_features
        check_is_fitted(self, "row_shape_")
        own = getattr(self, "feature_names_out_", None)
        stem = type(self).__name__.lower()
        names = [f"{stem}{place}" for place in range(self.n_features_out_)] if own is None else own
        return np.array(names, dtype=object)

    @abstractmethod
    def _read(self, X: Any) -> Any:
        """Return checked rows; what has a ``shape`` must keep all but its length from fit to transform."""

    @abstractmethod
    def _learn(self, X: Any) -> None:
        """Check parameters and learn from read rows."""

    @abstractmethod
    def _apply(self, X: Any) -> Any:
        """Represent read rows."""


def _few(names: Any) -> str:
    shown = ", ".join(map(repr, list(names)[:5]))
    return f"[{shown}, ... {len(names)} in all]" if len(names) > 5 else f"[{shown}]"
