"""No label comes near a public stage: not as y, not as features, not in a setting."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import labeldp as ldp
from labeldp.errors import BoundaryError, RawLabelsError
from labeldp.features import PCA, PublicStage, Standardize, TableFeatures, represent
from tests.features.helpers import CORE, EXTRA, name_of, numbers

SPACE = ldp.LabelSpace(["no", "yes"])
VALUES = ["yes", "no"] * 30
RAW = ldp.RawLabels(VALUES, SPACE)
RELEASE = ldp.privatize(VALUES, ldp.RandomizedResponse(SPACE, 1.0), coins=ldp.SeededCoins(0))
HANDED_IN = [VALUES, tuple(VALUES), np.array(VALUES), np.zeros(60), pd.Series(VALUES), RAW, RELEASE, "yes", 0, False]
ALL = CORE + EXTRA


@pytest.mark.parametrize(("stage", "X"), ALL, ids=name_of)
@pytest.mark.parametrize("y", HANDED_IN, ids=lambda y: type(y).__name__)
@pytest.mark.parametrize("method", ["fit", "fit_transform"])
def test_any_y_is_refused_before_anything_else(stage: PublicStage, X: Any, y: Any, method: str) -> None:
    """Whatever stands where labels would is refused by every stage, and the message shows none of it."""
    copy = clone(stage)

    with pytest.raises(BoundaryError, match=f"Expected no y for {type(stage).__name__}") as refused:
        getattr(copy, method)(X, y)

    assert isinstance(refused.value, RawLabelsError) == (y is not RELEASE)
    assert "yes" not in str(refused.value)
    assert not hasattr(copy, "row_shape_")


@pytest.mark.parametrize(("stage", "X"), CORE, ids=name_of)
def test_labels_and_releases_are_no_features(stage: PublicStage, X: Any) -> None:
    """Raw labels, releases and what learners make of them are refused as features, also inside a list."""
    evidence = ldp.learn.as_evidence(RELEASE)
    fitted = clone(stage).fit(X)

    for wrong, error in ((RAW, RawLabelsError), (RELEASE, BoundaryError), (evidence, BoundaryError)):
        for features in (wrong, [wrong, wrong], (wrong,), {"a": wrong}):
            for call in (clone(stage).fit, clone(stage).fit_transform, fitted.transform):
                with pytest.raises(error, match="Expected features"):
                    call(features)
            for both in ((features, X), (X, features)):
                with pytest.raises(error, match="Expected features"):
                    represent(stage, *both)


@pytest.mark.parametrize("smuggled", [RAW, RELEASE, SPACE], ids=lambda value: type(value).__name__)
def test_a_setting_cannot_carry_labels(smuggled: Any) -> None:
    """A parameter that holds labels, or a list of them, is refused when the stage is fitted."""
    for stage in (PCA(components=smuggled), TableFeatures(categorical=[smuggled])):
        with pytest.raises(BoundaryError, match=f"settings for {type(stage).__name__}"):
            stage.fit(numbers())


def test_a_frozen_stage_serves_a_pipeline_that_ends_in_a_learner() -> None:
    """Inside such a pipeline an unfrozen stage is refused its y, and the way out that the message names works."""
    X = numbers()
    plain = make_pipeline(Standardize(), LogisticRegression())
    frozen = make_pipeline(FrozenEstimator(Standardize().fit(X)), LogisticRegression())

    with pytest.raises(RawLabelsError, match="FrozenEstimator"):
        ldp.learn.ForwardCorrected(plain).fit(X, RELEASE)
    model = ldp.learn.ForwardCorrected(frozen, max_iter=100, tol=1e-3).fit(X, RELEASE)

    direct = ldp.learn.ForwardCorrected(LogisticRegression(), max_iter=100, tol=1e-3)
    direct.fit(Standardize().fit_transform(X), RELEASE)
    assert np.allclose(direct.predict_proba(Standardize().fit_transform(X)), model.predict_proba(X))
