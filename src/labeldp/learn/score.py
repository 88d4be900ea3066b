"""Scores on released labels, corrected for their noise, with intervals that count it.

Agreement with released labels ranks models wrongly: it rewards predicting the noise.  A debiased score has the
score on the true labels as its mean (ERRATA D4: the corrected loss), so selecting by it is free post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, final

import numpy as np

from labeldp.errors import InputError, ShapeError
from labeldp.learn.evidence import RowEvidence, class_probabilities
from labeldp.learn.gate import as_row_evidence

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Probabilities below this are scored as this, as scikit-learn does.
_LEAST = float(np.finfo(np.float64).eps)


@final
@dataclass(frozen=True)
class Score:
    """An estimated mean, its standard error, and a normal interval: sampling and privacy noise together.

    >>> Score(0.8, 0.01, 0.95)
    Score(0.8 +- 0.0196 at 95 %)
    """

    value: float
    standard_error: float
    level: float

    @property
    def low(self) -> float:
        """Lower end of the interval."""
        return self.value - self._half

    @property
    def high(self) -> float:
        """Upper end of the interval."""
        return self.value + self._half

    @property
    def _half(self) -> float:
        return NormalDist().inv_cdf((1 + self.level) / 2) * self.standard_error

    def __float__(self) -> float:
        return self.value

    def __repr__(self) -> str:
        return f"Score({self.value:.3g} +- {self._half:.3g} at {100 * self.level:g} %)"


@final
@dataclass(frozen=True, eq=False)
class ConfusionScore:
    """Estimated shares of rows by (true label, predicted label), and their standard errors."""

    shares: Floats
    standard_errors: Floats

    def __repr__(self) -> str:
        return f"ConfusionScore({len(self.shares)} labels)"


def debiased_accuracy(
    release: object, predicted: object, *, prior: object = None, sample_weight: Any = None, level: float = 0.95
) -> Score:
    """Estimate how often predictions equal the true labels.

    ``predicted`` are labels of the declared space.  The estimate is the mean of the debiased indicators at the
    predictions; it is unbiased where the channel is invertible, and can leave [0, 1] by its error.

    >>> from labeldp import LabelSpace, RandomizedResponse, SeededCoins, privatize
    >>> space = LabelSpace(["no", "yes"])
    >>> truth = ["no", "yes"] * 5_000
    >>> release = privatize(truth, RandomizedResponse(space, 1.0), coins=SeededCoins(0))
    >>> round(float(np.mean(np.asarray(release) == truth)), 2)  # agreement with the release misleads
    0.73
    >>> score = debiased_accuracy(release, truth)
    >>> bool(score.low < 1.0 < score.high)
    True
    """
    evidence = as_row_evidence(release)
    codes = _codes(predicted, evidence)
    return _mean(evidence.indicators(prior)[np.arange(len(codes)), codes], level, sample_weight)


def debiased_log_loss(release: object, probabilities: object, *, prior: object = None, level: float = 0.95) -> Score:
    """Estimate the mean log-loss of class probabilities (n, K) on the true labels."""
    evidence = as_row_evidence(release)
    losses = -np.log(np.maximum(class_probabilities(probabilities, evidence), _LEAST))
    return _mean(np.einsum("ij,ij->i", evidence.indicators(prior), losses), level)


def forward_log_loss(release: object, probabilities: object, *, level: float = 0.95) -> Score:
    """Return the mean log-loss of the *released* labels, the probabilities pushed through the channel.

    A proper score: in the mean it is least for the true probabilities.  It needs no inverse, so it serves every
    channel, and it varies less than the debiased log-loss; its scale is that of the released labels.
    """
    evidence = as_row_evidence(release)
    return _mean(-np.log(np.maximum(evidence.probability(probabilities), _LEAST)), level)


def debiased_confusion(release: object, predicted: object, *, prior: object = None) -> ConfusionScore:
    """Estimate the shares of rows by true label (rows) and predicted label (columns)."""
    evidence = as_row_evidence(release)
    codes = _codes(predicted, evidence)
    indicators = evidence.indicators(prior)
    size, count = evidence.space.size, len(codes)
    chosen = np.eye(size)[codes]
    shares = indicators.T @ chosen / count
    squares = (indicators**2).T @ chosen / count
    errors = np.sqrt(np.maximum(squares - shares**2, 0.0) / max(count - 1, 1))
    return ConfusionScore(shares, errors)


def score_accuracy(estimator: Any, X: Any, y: object) -> float:
    """Score for ``GridSearchCV(scoring=...)``: :func:`debiased_accuracy` of the predictions."""
    return float(debiased_accuracy(y, estimator.predict(X)))


def score_log_loss(estimator: Any, X: Any, y: object) -> float:
    """Score for ``GridSearchCV(scoring=...)``: minus :func:`debiased_log_loss`, so that more is better."""
    return -float(debiased_log_loss(y, _aligned(estimator, X, y)))


def score_forward_log_loss(estimator: Any, X: Any, y: object) -> float:
    """Score for ``GridSearchCV(scoring=...)``: minus :func:`forward_log_loss`, so that more is better."""
    return -float(forward_log_loss(y, _aligned(estimator, X, y)))


def aligned(probabilities: Floats, classes: Any, size: int) -> Floats:
    """Put a model's columns, named by codes, in the places of the declared labels; absent labels get nothing."""
    places = np.asarray(classes).astype(np.intp)
    if probabilities.shape[1] == size and np.array_equal(places, np.arange(size)):
        return probabilities
    table = np.zeros((len(probabilities), size))
    table[:, places] = probabilities
    return table


def _aligned(estimator: Any, X: Any, y: object) -> Floats:
    evidence = as_row_evidence(y)
    codes = evidence.space.encode(estimator.classes_)
    return aligned(np.asarray(estimator.predict_proba(X), np.float64), codes, evidence.space.size)


def _codes(predicted: object, evidence: RowEvidence) -> NDArray[np.intp]:
    codes = evidence.space.encode(predicted)
    if len(codes) != len(evidence):
        raise ShapeError(
            f"Expected {len(evidence)} predictions, one a released label, got {len(codes)}.",
            expected=len(evidence),
            got=len(codes),
        )
    return codes.astype(np.intp)


def _mean(values: Floats, level: float, sample_weight: Any = None) -> Score:
    if not 0 < level < 1:
        raise InputError(f"Expected 0 < level < 1, got {level}.", value=level)
    weight = np.full(len(values), 1.0) if sample_weight is None else np.asarray(sample_weight, np.float64)
    share = weight / weight.sum()
    mean = float(share @ values)
    if len(values) < 2:
        return Score(mean, math.inf, level)
    # The usual n / (n - 1) for equal weights.
    variance = float(share**2 @ (values - mean) ** 2) * len(values) / (len(values) - 1)
    return Score(mean, math.sqrt(variance), level)
