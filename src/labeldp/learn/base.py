"""What all classifiers of this package share: they learn declared labels, and judge themselves on releases fairly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, final

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from labeldp.errors import InputError, ShapeError
from labeldp.learn.gate import is_release
from labeldp.learn.score import debiased_accuracy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.labels import LabelSpace

    Floats = NDArray[np.float64]


class LabelClassifier(ClassifierMixin, BaseEstimator, ABC):
    """A classifier of declared labels: ``classes_`` is the label space, whatever labels were released."""

    classes_: NDArray[Any]

    @abstractmethod
    def predict_proba(self, X: Any) -> Floats:
        """P(true label | features), a column for every declared label."""

    @final
    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable declared label."""
        codes = self.predict_proba(X).argmax(axis=1)
        chosen: NDArray[Any] = self.classes_[codes]
        return chosen

    @final
    def predict_log_proba(self, X: Any) -> Floats:
        """Return the logarithm of :meth:`predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @final
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy: debiased where ``y`` is a release, plain where it is labels of your own."""
        predicted = self.predict(X)
        if is_release(y):
            return float(debiased_accuracy(y, predicted, sample_weight=sample_weight))
        return float(np.average(np.asarray(y) == predicted, weights=sample_weight))

    @final
    def _declare(self, space: LabelSpace) -> None:
        self.classes_ = space.decode(np.arange(space.size))


def is_whole(value: object) -> bool:
    """Whether a parameter is an integer, and no truth value."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def row_weights(sample_weight: Any, rows: int) -> Floats:
    """Read sample weights, one a row."""
    if sample_weight is None:
        return np.ones(rows)
    weight = np.asarray(sample_weight, np.float64)
    if weight.shape != (rows,):
        raise ShapeError(f"Expected {rows} sample weights, one a row, got shape {weight.shape}.", shape=weight.shape)
    if not (bool(np.isfinite(weight).all()) and bool((weight >= 0).all()) and bool(weight.any())):
        raise InputError("Expected sample weights that are finite, not negative and not all zero.")
    return weight
