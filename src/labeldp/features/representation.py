"""Represent training and test features by a stage, and say what it was fitted to."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, final

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from labeldp.errors import InputError, ShapeError
from labeldp.features.base import PublicStage
from labeldp.features.digest import digest_of_work
from labeldp.features.gate import refuse_foreign
from labeldp.features.inputs import as_frame, column_names, is_frame, one_of

if TYPE_CHECKING:
    from labeldp.features.cache import Cache

Setting = Literal["inductive", "transductive"]


@final
@dataclass(frozen=True, eq=False)
class Representation:
    """Represented rows, and how they came about.

    ``digest`` names inputs, stage, parameters and versions: equal digests mean equal work.  ``seconds`` is what the
    work took when it was done, also where it came from a cache.
    """

    train: Any
    test: Any
    setting: Setting
    digest: str
    seconds: float

    def __repr__(self) -> str:
        test = "no test rows" if self.test is None else f"{self.test.shape[0]} test rows"
        rows, width = self.train.shape
        return f"Representation({self.setting}, {rows} training rows, {test}, {width} features)"


def represent(
    stage: PublicStage | Pipeline,
    train: Any,
    test: Any = None,
    *,
    setting: Setting = "inductive",
    cache: Cache | None = None,
) -> Representation:
    """Fit a copy of a stage and represent training and test rows by it.

    ``setting`` says what it is fitted to: "inductive" to the training features, as when test rows come later;
    "transductive" to all public features, the test rows too.  Report both where they differ: a figure for rows that
    come later is the inductive one.

    ``stage`` is a public stage, or a scikit-learn pipeline of such.  With a ``cache`` each step is looked up before it
    is made, and arrays come back read-only, mapped from the disk.

    >>> from sklearn.pipeline import make_pipeline
    >>> from labeldp.features import PCA, Standardize
    >>> X = np.random.default_rng(0).normal(size=(300, 5))
    >>> represent(make_pipeline(Standardize(), PCA(2)), X[:200], X[200:], setting="transductive")
    Representation(transductive, 200 training rows, 100 test rows, 2 features)
    """
    one_of(("inductive", "transductive"), setting=setting)
    for features, where in ((train, "to train on"), (test, "to test on")):
        refuse_foreign(features, where)
    found: Representation | None = None
    for step in _steps(stage):
        before = (train, test) if found is None else (found.train, found.test)
        found = _one(step, *before, setting, cache, 0.0 if found is None else found.seconds)
    if found is None:
        raise InputError("Expected at least one stage, got a pipeline of none.")
    return found


def _steps(stage: object) -> list[PublicStage]:
    if isinstance(stage, Pipeline):
        return [part for _, step in stage.steps if step not in (None, "passthrough") for part in _steps(step)]
    if not isinstance(stage, PublicStage):
        raise InputError(
            f"Expected a public stage or a pipeline of such, got {type(stage).__name__}. Derive from "
            "labeldp.features.PublicStage to make one that cannot receive labels."
        )
    return [stage]


def _one(
    stage: PublicStage, train: Any, test: Any, setting: Setting, cache: Cache | None, spent: float
) -> Representation:
    digest = digest_of_work(setting, stage, train, test)
    kept = None if cache is None else cache.load(digest)
    if kept is None:
        start = time.perf_counter()
        arrays = _fitted(clone(stage), train, test, setting)
        facts = {"seconds": time.perf_counter() - start}
        if cache is not None:
            cache.store(digest, facts, arrays)
            # The mapped arrays instead of those in memory: the second time is like the first.
            facts, arrays = cache.load(digest) or (facts, arrays)
    else:
        facts, arrays = kept
    return Representation(arrays["train"], arrays.get("test"), setting, digest, spent + facts["seconds"])


def _fitted(stage: PublicStage, train: Any, test: Any, setting: Setting) -> dict[str, Any]:
    if test is None:
        return {"train": stage.fit_transform(train)}
    if setting == "inductive":
        return {"train": stage.fit_transform(train), "test": stage.transform(test)}
    rows = train.shape[0] if hasattr(train, "shape") else len(train)
    both = stage.fit_transform(_stacked(train, test))
    return {"train": both[:rows], "test": both[rows:]}


def _stacked(train: Any, test: Any) -> Any:
    """Put the rows of both under each other, in their own type."""
    if is_frame(train) or is_frame(test):
        import narwhals as nw

        if column_names(train) != column_names(test):
            raise ShapeError(
                "Expected training and test features with the same columns in the same order, got others.",
                expected=column_names(train),
                got=column_names(test),
            )
        return nw.concat([as_frame(train), as_frame(test)]).to_native()
    if hasattr(train, "tocsr") or hasattr(test, "tocsr"):
        from scipy.sparse import vstack

        return vstack([train, test], format="csr")
    if isinstance(train, list | tuple) and isinstance(test, list | tuple):
        return [*train, *test]
    first, second = np.asarray(train), np.asarray(test)
    if first.shape[1:] != second.shape[1:]:
        raise ShapeError(
            f"Expected training and test rows of one shape, got {first.shape[1:]} and {second.shape[1:]}.",
            expected=first.shape[1:],
            got=second.shape[1:],
        )
    return np.concatenate([first, second])
