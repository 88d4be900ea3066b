"""The gate: public stages take features, and nothing that is or was a label."""

from __future__ import annotations

from typing import Any

from labeldp.errors import BoundaryError, RawLabelsError
from labeldp.labels import RawLabels
from labeldp.release import Release


def refuse_labels(y: object, stage: str) -> None:
    """Refuse whatever stands where labels would: only None may.

    >>> refuse_labels(["yes", "no"], "PCA")
    Traceback (most recent call last):
    ...
    labeldp.errors.RawLabelsError: Expected no y for PCA, got list. A public stage learns from features alone. ...
    """
    if y is None:
        return
    kind = BoundaryError if isinstance(y, Release) else RawLabelsError
    # No word on what is in it: it may be anybody's labels.
    raise kind(
        f"Expected no y for {stage}, got {type(y).__name__}. A public stage learns from features alone. Represent the "
        "features first and hand them to the learner; or, inside a pipeline that ends in one, freeze the fitted stage: "
        "make_pipeline(sklearn.frozen.FrozenEstimator(stage.fit(X)), learner)."
    )


def refuse_foreign(value: object, where: str) -> None:
    """Refuse what belongs to the other parts of this package, also one level deep in a list or a mapping."""
    _refuse(value, where)
    inner: Any = value.values() if isinstance(value, dict) else value
    if isinstance(value, list | tuple | dict):
        for part in inner:
            _refuse(part, where)


def _refuse(value: object, where: str) -> None:
    if isinstance(value, RawLabels):
        raise RawLabelsError(f"Expected features {where}, got RawLabels. A public stage never sees labels.")
    home = type(value).__module__.split(".")
    if isinstance(value, Release) or (home[0] == "labeldp" and home[1:2] != ["features"]):
        raise BoundaryError(
            f"Expected features {where}, got {type(value).__name__}. Hand the release to a learner, and the features "
            "to the stage."
        )
