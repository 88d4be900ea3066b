"""The gate lets releases through, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import labeldp as ldp
from labeldp.errors import RawLabelsError, ShapeError
from labeldp.learn import ForwardCorrected, RowEvidence, UnbiasedLogisticRegression, as_evidence, posterior
from labeldp.learn.gate import rows_of, take_rows
from tests.learn.helpers import SPACE, THREE, released, two_classes

LEARNERS = [ForwardCorrected, UnbiasedLogisticRegression]
VALUES = ["yes", "no"] * 10


@pytest.mark.parametrize("learner", LEARNERS)
@pytest.mark.parametrize(
    "y",
    [
        VALUES,
        tuple(VALUES),
        np.array(VALUES),
        pd.Series(VALUES),
        pa.array(VALUES),
        ldp.RawLabels(VALUES, SPACE),
        None,
        "yes",
    ],
    ids=lambda y: type(y).__name__,
)
def test_labels_are_refused_by_type_and_not_shown(learner: Any, y: Any) -> None:
    """Whatever holds labels is refused, and the message says what to do and shows none."""
    with pytest.raises(RawLabelsError, match="Expected a release as y") as refused:
        learner().fit(np.zeros((20, 2)), y)

    assert "yes" not in str(refused.value)
    assert not hasattr(refused.value, "labels")


@pytest.mark.parametrize("learner", LEARNERS)
def test_other_releases_and_other_lengths_are_refused(learner: Any) -> None:
    """A release of counts is no label a row, and a release must have as many rows as the features."""
    counts = ldp.privatize(VALUES, ldp.LabelHistogram(SPACE, 1.0))
    rows = released(VALUES, ldp.RandomizedResponse(SPACE, 1.0))

    with pytest.raises(ShapeError, match="counts or sums"):
        learner().fit(np.zeros((20, 2)), counts)
    with pytest.raises(ShapeError, match="19 rows of features and 20"):
        learner().fit(np.zeros((19, 2)), rows)


def test_evidence_is_the_channel_at_the_released_labels() -> None:
    """Likelihood, indicators and probability of the release are those of the channel."""
    X, y = two_classes(50)
    release = released(y, ldp.RandomizedResponse(SPACE, 1.0))
    evidence = as_evidence(release)
    uniform = np.full((50, 2), 0.5)

    assert len(evidence) == 50 == rows_of(X)
    assert as_evidence(evidence) is evidence
    assert np.allclose(evidence.likelihood, release.channel.transition[:, release.codes].T)
    assert np.allclose(evidence.indicators().sum(axis=1), 1.0)
    assert np.allclose(evidence.probability(uniform), 0.5)
    assert np.allclose(posterior(evidence, uniform), release.channel.posterior(release.codes, [0.5, 0.5]))
    with pytest.raises(ShapeError, match="column for every declared label"):
        posterior(evidence, np.ones((50, 3)))


def test_an_impossible_release_leaves_the_model_its_opinion() -> None:
    """Where the model rules out every label that could have been released, the E-step returns the model's law."""
    channel = ldp.TopKRandomizedResponse(THREE, 1.0, ["red", "green"])
    evidence = RowEvidence(channel, np.array([2, 0]))

    got = posterior(evidence, [[0.2, 0.3, 0.5], [0.2, 0.3, 0.5]])

    assert [0.2, 0.3, 0.5] == got[0].tolist()
    assert 1.0 == pytest.approx(got[1].sum())


@pytest.mark.parametrize("kind", ["array", "list", "csr", "pandas", "polars", "arrow"])
def test_rows_can_be_taken_of_every_kind_of_table(kind: str) -> None:
    """Positions, repeated or not, select rows of any table, in its own type."""
    import polars as pl
    from scipy.sparse import csr_array

    X = np.arange(12.0).reshape(6, 2)
    frame = {"a": X[:, 0], "b": X[:, 1]}
    tables: dict[str, Any] = {
        "array": X,
        "list": X.tolist(),
        "csr": csr_array(X),
        "pandas": pd.DataFrame(frame, index=list("uvwxyz")),
        "polars": pl.DataFrame(frame),
        "arrow": pa.table(frame),
    }
    table = tables[kind]

    taken = take_rows(table, np.array([3, 3, 0]))

    assert 6 == rows_of(table)
    assert type(taken) is type(table)
    if kind == "csr":
        taken = taken.toarray()
    elif kind == "arrow":
        taken = taken.to_pandas()
    assert X[[3, 3, 0]].tolist() == np.asarray(taken).tolist()
