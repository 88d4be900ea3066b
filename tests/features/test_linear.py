"""Scaling, and principal components against the singular value decomposition."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.preprocessing import StandardScaler

from labeldp.errors import InputError
from labeldp.features import PCA, Standardize
from labeldp.features.linear import principal
from tests.features.helpers import numbers


def test_standardized_columns_have_mean_zero_and_variance_one() -> None:
    """It does what scikit-learn's scaler does, in float32 for float32."""
    X = numbers()

    assert np.allclose(StandardScaler().fit_transform(X), Standardize().fit_transform(X))
    assert np.allclose(StandardScaler().fit_transform(X), Standardize().fit_transform(X.astype(np.float32)), atol=1e-4)


def test_constant_columns_become_zero_and_stay_so() -> None:
    """A constant column, also one whose mean rounds, is zero; for new rows too."""
    X = np.column_stack([np.full(1000, 0.1), np.full(1000, 1e9), np.zeros(1000), np.arange(1000.0)])
    stage = Standardize().fit(X)

    assert not stage.transform(X)[:, :3].any()
    assert not stage.transform(X + 5)[:, :3].any()
    assert 1.0 == pytest.approx(stage.transform(X)[:, 3].std())


def test_values_whose_squares_overflow_are_refused() -> None:
    """A scale that is no number is not passed on."""
    with pytest.raises(InputError, match="Rescale"):
        Standardize().fit([[1e300], [-1e300]])


@pytest.mark.parametrize("whiten", [False, True])
def test_components_are_the_leading_singular_directions(whiten: bool) -> None:
    """Scores, variances and their order are those of the decomposition, up to the declared sign."""
    X = numbers(200)
    stage = PCA(3, whiten=whiten).fit(X)

    U, S, _ = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    scores = U[:, :3] * (np.sqrt(200) if whiten else S[:3])
    assert np.allclose(np.abs(scores), np.abs(stage.transform(X)), rtol=1e-4, atol=1e-6)
    assert np.allclose(S[:3] ** 2 / 200, stage.variances_)
    largest = np.abs(stage.components_).argmax(axis=1)
    assert (stage.components_[np.arange(3), largest] > 0).all()


def test_a_wide_table_is_sketched_to_the_same_directions() -> None:
    """Beyond the width where the covariance is decomposed, the leading directions are found all the same."""
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(80, 4)) * [9.0, 6.0, 4.0, 2.0]) @ rng.normal(size=(4, 2100)) + 0.01 * rng.normal(size=2100)

    mean, axes, variances = principal(X, 4, 0)

    _, S, V = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)
    assert np.allclose(X.mean(axis=0), mean)
    assert np.allclose(1.0, np.abs((axes * V[:4]).sum(axis=1)), atol=1e-6)
    assert np.allclose(S[:4] ** 2 / 80, variances)


def test_no_more_components_than_the_data_have() -> None:
    """More components than rows or columns are not invented, and whitened rounding is zero, not noise."""
    X = numbers(4)
    flat = np.outer(np.arange(50.0), np.ones(6))

    assert (4, 4) == PCA(64).fit_transform(X).shape
    assert not PCA(6, whiten=True).fit_transform(flat)[:, 1:].any()
    assert not PCA(2, whiten=True).fit_transform(np.ones((5, 3))).any()
