"""Small data sets, and releases that hide nothing."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_X_y, column_or_1d

import labeldp as ldp
from labeldp.channels import identity_channel
from labeldp.release import RowRelease, Stamp

SPACE = ldp.LabelSpace(["no", "yes"])
THREE = ldp.LabelSpace(["red", "green", "blue"])


def unnoised(values: Any, space: ldp.LabelSpace) -> RowRelease:
    """A release through the identity: for comparing with learners that see labels."""
    stamp = Stamp(ldp.Estimate(float("inf"), 1.0, "a test: nothing is hidden"), "seeded", "")
    return RowRelease(space.encode(values), identity_channel(space), stamp)


def two_classes(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Features, and labels from a logistic law."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    chance = 1 / (1 + np.exp(-(2.0 * X[:, 0] - 1.5 * X[:, 1] + 0.5)))
    return X, SPACE.decode((rng.random(rows) < chance).astype(int))


def three_classes(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Features, and labels from a softmax law."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2))
    scores = X @ np.array([[2.0, -1.0, -1.0], [0.0, 2.0, -2.0]]) + rng.gumbel(size=(rows, 3))
    return X, THREE.decode(scores.argmax(axis=1))


def released(values: Any, channel: ldp.FiniteChannel, seed: int = 0) -> Any:
    """A release with fixed coins."""
    return ldp.privatize(values, channel, coins=ldp.SeededCoins(seed))


def checked_release(X: Any, y: Any) -> RowRelease:
    """Check features and labels as scikit-learn's own checks expect it, and release the labels as they are."""
    check_X_y(X.tocsr() if issparse(X) else X, y, accept_sparse=True)
    values = column_or_1d(np.array(y), warn=True)
    check_classification_targets(values)
    labels = np.unique(values).tolist()
    if len(labels) < 2:
        raise ValueError("a classifier needs more than one class")
    # No label space declares floats.
    declared = [int(label) if isinstance(label, float) else label for label in labels]
    values = values.astype(int) if values.dtype.kind == "f" else values
    return unnoised(values.tolist(), ldp.LabelSpace(declared))
