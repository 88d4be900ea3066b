"""Priors: public laws of each row's label, with what they cost and where they came from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, final

import numpy as np

from labeldp.errors import PriorError, ShapeError, SpaceMismatchError
from labeldp.release import BagRelease, ClusterRelease, HistogramRelease, Release, laws_of_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.guarantee.value import Estimate, Guarantee
    from labeldp.labels import LabelSpace

    Floats = NDArray[np.float64]

#: Rows of probabilities may miss 1 by this much: float error of a model.
_ERROR = 1e-6


@final
@dataclass(frozen=True, eq=False)
class Prior:
    """A law of labels, one for all rows (K,) or one a row (n, K): goes wherever a prior is asked for.

    ``guarantee`` is that of the releases it was made from, and None where only public knowledge went into it.  It was
    paid for when these were released; using the prior is free.

    >>> from labeldp import LabelSpace, PriorRandomizedResponse
    >>> space = LabelSpace(["a", "b", "c"])
    >>> prior = given_prior(space, [0.6, 0.3, 0.1])
    >>> np.asarray(prior.tempered(0.5)).round(3).tolist()
    [0.783, 0.196, 0.022]
    >>> PriorRandomizedResponse(space, 1.0, prior).sizes.tolist()
    [2]
    """

    space: LabelSpace
    table: Floats
    origin: str
    guarantee: Guarantee | Estimate | None = None

    def __post_init__(self) -> None:
        table = np.array(self.table, np.float64)
        if table.ndim not in (1, 2) or table.shape[-1] != self.space.size or table.size == 0:
            raise PriorError(
                f"Expected a prior of shape ({self.space.size},) or (n, {self.space.size}), got {table.shape}."
            )
        sums = table.sum(axis=-1)
        if not (bool((table >= 0).all()) and bool((np.abs(sums - 1) <= _ERROR).all())):
            raise PriorError("Expected rows of probabilities that are not negative and sum to 1. Normalise them first.")
        table = table / np.expand_dims(sums, -1)
        table.flags.writeable = False
        object.__setattr__(self, "table", table)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.table, dtype=dtype, copy=copy)

    def __len__(self) -> int:
        return len(self.table)

    def __repr__(self) -> str:
        rows = "one law" if self.table.ndim == 1 else f"{len(self)} rows"
        paid = "public" if self.guarantee is None else str(self.guarantee)
        return f"Prior({rows}, {self.space.size} labels, {self.origin}; {paid})"

    def tempered(self, temperature: float) -> Prior:
        """Sharpen (below 1) or flatten (above) the law: p^(1/t), normalised (paper D, appendix E)."""
        if not (temperature > 0 and np.isfinite(temperature)):
            raise PriorError(f"Expected a temperature > 0, got {temperature!r}.", value=temperature)
        logs = np.log(np.maximum(self.table, 1e-300)) / temperature
        sharp = np.where(self.table > 0, np.exp(logs - logs.max(axis=-1, keepdims=True)), 0.0)
        table = sharp / sharp.sum(axis=-1, keepdims=True)
        return replace(self, table=table, origin=f"{self.origin}, temperature {temperature:g}")

    def blended(self, other: Prior, share: float) -> Prior:
        """Mix with the share ``share`` of another prior; what both cost, both cost."""
        if other.space != self.space:
            raise SpaceMismatchError(f"Expected a prior on {self.space}, got one on {other.space}.")
        if not 0 <= share <= 1:
            raise PriorError(f"Expected 0 <= share <= 1, got {share!r}.", value=share)
        if self.table.ndim == other.table.ndim == 2 and len(self) != len(other):
            raise ShapeError(f"Expected a prior of {len(self)} rows, got one of {len(other)}.")
        table = (1 - share) * self.table + share * other.table
        return Prior(self.space, table, f"{self.origin} and {other.origin}", _both(self.guarantee, other.guarantee))

    def take(self, rows: object) -> Prior:
        """Return the prior of some rows."""
        return self if self.table.ndim == 1 else replace(self, table=self.table[np.asarray(rows)])


def uniform_prior(space: LabelSpace) -> Prior:
    """Return the law that knows nothing."""
    return Prior(space, np.full(space.size, 1 / space.size), "uniform")


def given_prior(space: LabelSpace, table: object, origin: str = "given") -> Prior:
    """Return a prior from public knowledge: of the domain, or of a model that saw none of these labels."""
    return Prior(space, np.asarray(table, np.float64), origin)


def cluster_prior(release: Release, groups: object = None, *, smooth: float = 0.0) -> Prior:
    """Return each row's cluster law from released counts (paper D, Algorithm 4): clipped, smoothed, normalised.

    A release of bags or of clusters knows whose cluster is whose; for a histogram pass ``groups``.
    """
    if isinstance(release, BagRelease):
        members = release.bags
    elif isinstance(release, ClusterRelease):
        members = release.groups
    elif isinstance(release, HistogramRelease) and groups is not None:
        members = np.asarray(groups)
        if not np.array_equal(np.bincount(members, minlength=len(release.sizes)), release.sizes):
            raise ShapeError("Expected the groups that were counted: their sizes differ from those of the release.")
    else:
        raise ShapeError(
            f"Expected a release of counts by bag or cluster, or a histogram with groups=, got {type(release).__name__}."
        )
    table = laws_of_counts(release.counts, smooth)[members]
    return Prior(release.space, table, f"law of {len(release.counts)} clusters", release.guarantee)


def model_prior(model: Any, X: Any, space: LabelSpace, guarantee: Guarantee | Estimate | None = None) -> Prior:
    """Return a model's predictions as a prior; ``guarantee`` is that of the releases it was trained on, if any."""
    from labeldp.learn.score import aligned

    try:
        codes = space.encode(model.classes_)
    except ValueError:
        raise SpaceMismatchError(
            f"Expected a model of labels of {space}; the model's classes are others.", expected=space
        ) from None
    table = aligned(np.asarray(model.predict_proba(X), np.float64), codes, space.size)
    return Prior(space, table, f"predictions of {type(model).__name__}", guarantee)


def _both(one: Guarantee | Estimate | None, other: Guarantee | Estimate | None) -> Guarantee | Estimate | None:
    if one is None or other is None or one is other:
        return other if one is None else one
    return one.then(other)
