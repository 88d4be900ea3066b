"""Small data sets, and releases that hide nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

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
