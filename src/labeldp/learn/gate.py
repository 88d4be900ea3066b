"""The gate: learners take releases, and nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from labeldp.errors import RawLabelsError, ShapeError
from labeldp.learn.evidence import BagEvidence, Evidence, RowEvidence
from labeldp.release import BagRelease, LabelledRelease, Release


def as_evidence(y: object, rows: int | None = None) -> Evidence:
    """Return what a release says of its rows, or refuse: raw labels, arrays of labels, releases without rows.

    >>> as_evidence(["yes", "no"])
    Traceback (most recent call last):
    ...
    labeldp.errors.RawLabelsError: Expected a release as y, got list. ...
    """
    evidence: Evidence
    if isinstance(y, LabelledRelease):
        evidence = RowEvidence(y.channel, y.codes)
    elif isinstance(y, BagRelease):
        evidence = BagEvidence(y.space, y.counts, y.variance, y.bags, y.paired)
    elif isinstance(y, Evidence):
        evidence = y
    elif isinstance(y, Release):
        raise ShapeError(
            f"Expected a release that speaks of rows, got a {type(y).__name__} of counts or sums. Release counts with "
            "BagCounts, which says who is in which bag, or use a learner made for sums.",
        )
    else:
        # No word on what is in it: it may be anybody's labels.
        raise RawLabelsError(
            f"Expected a release as y, got {type(y).__name__}. Learners never see labels: make a release with "
            "labeldp.privatize or a Curator on their owner's side, or read one with labeldp.read_release."
        )
    if rows is not None and len(evidence) != rows:
        raise ShapeError(
            f"Expected features and release of one length, got {rows} rows of features and {len(evidence)} "
            "released labels.",
            expected=rows,
            got=len(evidence),
        )
    return evidence


def as_row_evidence(y: object, rows: int | None = None) -> RowEvidence:
    """Return what a release of one label a row says, or refuse."""
    evidence = as_evidence(y, rows)
    if not isinstance(evidence, RowEvidence):
        raise ShapeError(
            f"Expected a release with one label a row, got {evidence!r}. Bag counts go to BagClassifier or "
            "ForwardCorrected, and are scored by evidence.log_likelihood(probabilities).",
        )
    return evidence


def is_release(y: object) -> bool:
    """Whether ``y`` is released, rather than labels of the learner's own."""
    return isinstance(y, Release | Evidence)


def rows_of(X: Any) -> int:
    """Return the number of rows of a table of features, of any library."""
    shape = getattr(X, "shape", None)
    if shape:
        return int(shape[0])
    return len(X) if hasattr(X, "__len__") else len(np.asarray(X))


def take_rows(X: Any, places: Any) -> Any:
    """Return some rows of a table of features, in its own type."""
    if hasattr(X, "iloc"):
        return X.iloc[places]
    if hasattr(X, "tocsr"):
        return X.tocsr()[places]
    if isinstance(X, list | tuple):
        return [X[place] for place in places]
    if hasattr(X, "columns") or hasattr(X, "column_names"):
        import narwhals as nw

        return nw.from_native(X)[places].to_native()  # polars, pyarrow
    return np.asarray(X)[places]
