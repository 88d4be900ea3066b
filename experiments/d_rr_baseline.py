"""D-rr-baseline: what randomised response costs on three small tables, with the noise accounted for by the learner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Final, cast

import numpy as np

import labeldp as ldp
from experiments.data import SOURCES, DataSet, load
from experiments.harness import Cell, Experiment, Layout, Options, Point, Row
from experiments.pictures import curves

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

EPSILONS: Final = (0.5, 1.0, 2.0, 4.0)
#: Boosted trees at every step of EM are worth their time on the smallest table only.
TABLES: Final = (("adult", "logistic"), ("letter", "logistic"), ("magic", "logistic"), ("magic", "boosting"))
#: A tree that memorises confirms its own guesses: few leaves, few steps.
_PARAMETERS: Final[dict[str, dict[str, int]]] = {
    "logistic": {"max_iter": 200, "em_steps": 50},
    "boosting": {"max_iter": 60, "max_leaf_nodes": 15, "em_steps": 5},
}


def cells(options: Options) -> Iterator[Cell]:
    """For each table and learner: without privacy, and from randomised response at each epsilon."""
    rows = options.pick(None, quick=300)
    for dataset, learner in TABLES:
        parameters = _PARAMETERS[learner]
        if rows is not None:
            parameters = {**parameters, "max_iter": 10, "em_steps": 2, "rows": rows}
        for epsilon in (None, *EPSILONS):
            yield Cell(
                dataset=dataset,
                method="clean" if epsilon is None else "rr",
                epsilon=epsilon,
                fields={"learner": learner, "classes": SOURCES[dataset].space.size, "setting": "inductive"},
                parameters=parameters,
                prepare=partial(_encoded, dataset, rows),
                measure=partial(_measure, dataset, epsilon, learner, parameters),
            )


def _measure(dataset: str, epsilon: float | None, learner: str, parameters: dict[str, int], seed: int) -> Point:
    data, train, test = _encoded(dataset, parameters.get("rows"))
    model = _classifier(learner, parameters, seed)
    if epsilon is None:
        model.fit(train, data.train_labels)
        facts = {}
    else:
        channel = ldp.RandomizedResponse(data.space, epsilon=epsilon)
        release = ldp.privatize(data.train_labels, channel, coins=ldp.SeededCoins(seed))
        steps = parameters["em_steps"]
        model = ldp.learn.ForwardCorrected(model, max_iter=steps, random_state=seed).fit(train, release)
        facts = {"em_steps_taken": model.n_iter_}
    return Point({"test_accuracy": np.mean(model.predict(test) == data.test_labels)}, facts=facts)


def _classifier(learner: str, parameters: dict[str, int], seed: int) -> Any:  # one of scikit-learn's
    if learner == "logistic":
        from sklearn.linear_model import LogisticRegression

        return LogisticRegression(max_iter=parameters["max_iter"])
    from sklearn.ensemble import HistGradientBoostingClassifier

    settings = {name: parameters[name] for name in ("max_iter", "max_leaf_nodes")}
    return HistGradientBoostingClassifier(**settings, early_stopping=False, random_state=seed)


@lru_cache(maxsize=3)
def _encoded(dataset: str, rows: int | None) -> tuple[DataSet, Floats, Floats]:
    """Return a data set and its features as numbers, with scales and categories from the training half alone."""
    data = load(dataset).part(rows, rows)
    if isinstance(data.train, np.ndarray):
        pairs = [(cast("Floats", data.train), cast("Floats", data.test))]
    else:
        pairs = [_columns(data.train.column(name), data.test.column(name)) for name in data.train.column_names]
    train, test = (np.column_stack(half) for half in zip(*pairs, strict=True))
    mean, spread = train.mean(axis=0), train.std(axis=0)
    scale = np.where(spread > 0, spread, 1.0)
    return data, (train - mean) / scale, (test - mean) / scale


def _columns(train: Any, test: Any) -> tuple[Floats, Floats]:  # columns of pyarrow
    """Numbers as they are, the very skewed ones as logarithms; one column for each text of the training half."""
    import pyarrow as pa

    if pa.types.is_integer(train.type):
        halves = [np.asarray(column, np.float64) for column in (train, test)]
        return cast(
            "tuple[Floats, Floats]", tuple(np.log1p(half) if halves[0].max() > 1000 else half for half in halves)
        )
    halves = [np.array(column.fill_null("").to_pylist()) for column in (train, test)]
    texts = np.unique(halves[0])
    return cast("tuple[Floats, Floats]", tuple((half[:, None] == texts).astype(np.float64) for half in halves))


def draw(rows: Sequence[Row]) -> Figure:
    """A panel for each table and learner."""
    named = [{**row, "panel": f"{row['dataset']}, {row['learner']}"} for row in rows]
    return curves(named, panels="panel", ylabel="test accuracy")


EXPERIMENT: Final = Experiment(
    "D-rr-baseline",
    what="randomised response with a learner that corrects for it (labeldp.learn.ForwardCorrected), beside the same "
    "learner on clean labels",
    rows=cells,
    draw=draw,
    table=Layout(lines=("dataset", "learner", "method")),
    seeds=2,
)
