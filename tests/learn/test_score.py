"""Scores on releases have the scores on true labels as their mean, and intervals that count the noise."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.errors import BiasWarning, InputError, RawLabelsError, ShapeError, UnknownLabelError
from labeldp.learn import (
    RowEvidence,
    Score,
    debiased_accuracy,
    debiased_confusion,
    debiased_log_loss,
    forward_log_loss,
    score_accuracy,
    score_log_loss,
)
from tests.learn.helpers import SPACE, THREE, released, three_classes

CHANNEL = ldp.ResampledResponse(THREE, [0.6, 0.3, 0.1], 0.9)


def _expected(values: Any) -> float:
    """Average a score over every release of three rows, each by its probability: truth is red, green, blue."""
    total = 0.0
    for outcome in np.ndindex(3, 3, 3):
        probability = math.prod(CHANNEL.transition[row, released] for row, released in enumerate(outcome))
        total += probability * float(values(RowEvidence(CHANNEL, np.array(outcome))))
    return total


def test_scores_are_unbiased_exactly() -> None:
    """Over all releases, by their probabilities, the debiased scores average to the scores on the true labels."""
    predicted = ["red", "blue", "blue"]
    chances = np.array([[0.7, 0.2, 0.1], [0.2, 0.3, 0.5], [0.25, 0.25, 0.5]])
    losses = -np.log([0.7, 0.3, 0.5])

    assert 2 / 3 == pytest.approx(_expected(lambda e: debiased_accuracy(e, predicted)))
    assert losses.mean() == pytest.approx(_expected(lambda e: debiased_log_loss(e, chances)))
    confusion = np.array(
        [
            [_expected(lambda e, i=i, j=j: debiased_confusion(e, predicted).shares[i, j]) for j in range(3)]
            for i in range(3)
        ]
    )
    assert np.allclose(np.array([[1, 0, 0], [0, 0, 1], [0, 0, 1]]) / 3, confusion)


def test_agreement_with_the_release_ranks_models_wrongly_and_the_debiased_score_does_not() -> None:
    """A response that often redraws one label flatters whoever predicts it always."""
    rows = 40_000
    truth = THREE.decode(np.random.default_rng(0).choice(3, rows, p=[0.2, 0.4, 0.4]))
    channel = ldp.ResampledResponse(THREE, [0.8, 0.1, 0.1], keep=0.1)
    release = released(truth, channel)
    constant = np.full(rows, "red")

    raw = (np.asarray(release) == constant).mean(), (np.asarray(release) == truth).mean()
    fair = debiased_accuracy(release, constant), debiased_accuracy(release, truth)

    assert raw[0] > raw[1]
    assert fair[0].high < fair[1].low
    assert abs(fair[0].value - 0.2) < 4.5 * fair[0].standard_error
    assert abs(fair[1].value - 1.0) < 4.5 * fair[1].standard_error


def test_intervals_cover_as_often_as_they_say() -> None:
    """Of 400 releases the 90 % interval holds the true score about 360 times, and a narrower one clearly fewer."""
    rng = np.random.default_rng(1)
    truth = rng.integers(0, 3, 2_000)
    predicted = np.where(rng.random(2_000) < 0.7, truth, rng.integers(0, 3, 2_000))
    exact = (truth == predicted).mean()
    scores = [
        debiased_accuracy(released(THREE.decode(truth), CHANNEL, seed), THREE.decode(predicted), level=0.9)
        for seed in range(400)
    ]

    covered = sum(score.low <= exact <= score.high for score in scores)
    narrow = sum(abs(score.value - exact) <= 0.7 * (score.high - score.value) for score in scores)
    # The truth is fixed here, and the interval also counts the sampling of rows: it covers a little more.
    # 340 and 395 are more than three standard deviations away from 360 .. 380; at 0.7 of the width 0.75 are expected.
    assert 340 <= covered <= 395
    assert narrow < 335


def test_the_forward_loss_is_proper_for_every_channel() -> None:
    """In the mean over releases the true law of the label has a smaller forward loss than any other."""
    channel = ldp.TopKRandomizedResponse(THREE, 1.0, ["red", "green"])
    truth = np.array([0.5, 0.2, 0.3])
    seen = truth @ channel.transition

    def mean_loss(law: Any) -> float:
        codes = np.array([0, 1])
        each = [float(forward_log_loss(RowEvidence(channel, codes[i : i + 1]), [law])) for i in range(2)]
        return float(seen[:2] @ each)

    best = mean_loss(truth)
    for law in np.random.default_rng(0).dirichlet(np.ones(3), 50):
        assert mean_loss(law) >= best - 1e-12


def test_confusion_counts_the_noise() -> None:
    """Shares sum to one, column by column to what was predicted, and lie within their errors of the truth."""
    X, y = three_classes(30_000)
    predicted = THREE.decode((X @ np.array([[2.0, -1.0, -1.0], [0.0, 2.0, -2.0]])).argmax(axis=1))
    truth, codes = THREE.encode(y), THREE.encode(predicted)
    exact = np.zeros((3, 3))
    np.add.at(exact, (truth, codes), 1 / len(truth))

    got = debiased_confusion(released(y, CHANNEL), predicted)

    assert np.allclose(np.bincount(codes) / len(codes), got.shares.sum(axis=0))
    assert (np.abs(got.shares - exact) < 4.5 * got.standard_errors).all()


def test_a_score_reads_as_a_number() -> None:
    """A score is its value to whoever needs a float, and shows its interval."""
    score = Score(0.5, 0.1, 0.95)

    assert 0.5 == float(score)
    assert (pytest.approx(0.304, abs=1e-3), pytest.approx(0.696, abs=1e-3)) == (score.low, score.high)
    assert "0.5 +- 0.196 at 95 %" in repr(score)


def test_wrong_input_is_refused() -> None:
    """Labels in place of a release, predictions of another length or of unknown labels, and odd levels."""
    release = released(["yes", "no"], ldp.RandomizedResponse(SPACE, 1.0))

    with pytest.raises(RawLabelsError):
        debiased_accuracy(["yes", "no"], ["yes", "no"])
    with pytest.raises(ShapeError, match="2 predictions"):
        debiased_accuracy(release, ["yes"])
    with pytest.raises(UnknownLabelError):
        debiased_accuracy(release, ["yes", "maybe"])
    with pytest.raises(InputError, match="level"):
        debiased_accuracy(release, ["yes", "no"], level=1.0)
    with pytest.raises(ShapeError, match="probabilities of shape"):
        debiased_log_loss(release, [[0.5, 0.5]])


def test_without_an_inverse_a_score_says_that_it_is_biased() -> None:
    """The best linear correction is used, with a warning."""
    release = released(["red", "blue"] * 20, ldp.TopKRandomizedResponse(THREE, 1.0, ["red", "green"]))

    with pytest.warns(BiasWarning):
        score = debiased_accuracy(release, ["red"] * 40)

    assert math.isfinite(score.value)


class _Fixed:
    """A model that says the same of every row."""

    classes_ = np.array(["yes", "no"])

    def predict(self, X: Any) -> Any:
        return np.array(["yes"] * len(X))

    def predict_proba(self, X: Any) -> Any:
        return np.tile([0.8, 0.2], (len(X), 1))


def test_scorers_put_a_models_columns_in_their_places() -> None:
    """A model of scikit-learn's that orders its classes otherwise is scored by label, not by column."""
    truth = ["yes"] * 900 + ["no"] * 100
    release = released(truth, ldp.RandomizedResponse(SPACE, 6.0))
    X = np.zeros((1_000, 1))

    assert 0.9 == pytest.approx(score_accuracy(_Fixed(), X, release), abs=0.02)
    expected = 0.9 * math.log(0.8) + 0.1 * math.log(0.2)
    assert expected == pytest.approx(score_log_loss(_Fixed(), X, release), abs=0.03)
