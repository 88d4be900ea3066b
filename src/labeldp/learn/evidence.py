"""What a release says about labels, as a value that any learner can use."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, final

import numpy as np

from labeldp.errors import ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.channels.base import FiniteChannel
    from labeldp.labels import Codes, LabelSpace

    Floats = NDArray[np.float64]


@final
@dataclass(frozen=True, eq=False, repr=False)
class RowEvidence:
    """Released labels and the channel that explains them: P(released | true) for every row and true label."""

    channel: FiniteChannel
    codes: Codes

    @property
    def space(self) -> LabelSpace:
        """The true labels."""
        return self.channel.space

    def __len__(self) -> int:
        return len(self.codes)

    def __repr__(self) -> str:
        return f"RowEvidence({len(self)} rows, {self.space.size} labels)"

    @cached_property
    def likelihood(self) -> Floats:
        """P(released label | true label) of every row, (n, K)."""
        return self.channel.likelihood(self.codes)

    def indicators(self, prior: object = None) -> Floats:
        """Debiased indicators of the true label, (n, K): signed soft labels whose mean is the true one."""
        return self.channel.soft_labels(self.codes, prior=prior)

    def probability(self, probabilities: object) -> Floats:
        """P(released label) of every row when its true label has these probabilities."""
        table = class_probabilities(probabilities, self)
        result: Floats = np.einsum("ij,ij->i", self.likelihood, table)
        return result


def posterior(evidence: RowEvidence, probabilities: object) -> Floats:
    """Return P(true label | features, release), (n, K), from a model's probabilities: the E-step for any learner.

    >>> from labeldp import LabelSpace, TableChannel
    >>> channel = TableChannel(LabelSpace(["a", "b"]), [[0.8, 0.2], [0.4, 0.6]])
    >>> posterior(RowEvidence(channel, np.array([0, 1])), [[0.5, 0.5], [0.5, 0.5]]).round(3).tolist()
    [[0.667, 0.333], [0.25, 0.75]]
    """
    table = class_probabilities(probabilities, evidence)
    joint = evidence.likelihood * table
    total = joint.sum(axis=1, keepdims=True)
    # A released label that the model deems impossible teaches nothing: the model's opinion stands.
    return np.where(total > 0, joint / np.where(total > 0, total, 1.0), table)


def class_probabilities(probabilities: object, evidence: RowEvidence) -> Floats:
    """Read a model's probabilities, one row for each of the evidence's and one column for each declared label."""
    table: Any = np.asarray(probabilities, np.float64)
    if table.shape != (len(evidence), evidence.space.size):
        raise ShapeError(
            f"Expected probabilities of shape ({len(evidence)}, {evidence.space.size}), a column for every declared "
            f"label, got {table.shape}.",
            shape=table.shape,
        )
    result: Floats = table
    return result
