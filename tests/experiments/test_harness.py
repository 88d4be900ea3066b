"""Cells become runs, and runs become rows: means, deviations, places, facts; keys change with whatever matters."""

from __future__ import annotations

import math
import statistics
from dataclasses import replace

import numpy as np
import pytest

from experiments.harness import Cell, Experiment, Measured, Options, Plan, Point, Row
from experiments.journal import Entry

CELL = Cell(dataset="tea", method="rr", epsilon=1.0, measure=lambda _: 0.0, fields={"classes": 3})


def entry(cell: Cell, measured: Measured, seconds: float = 1.0) -> Entry:
    """Return what the journal keeps of a run."""
    return Entry(tuple(cell.points(measured)), seconds, 2 * seconds, {"python": "3"}, "abacus")


def rows_of(cell: Cell, *measured: Measured) -> list[Row]:
    """Return the rows of a cell whose seeds measured so."""
    plan = Plan((cell,), len(measured))
    return plan.aggregate({run.key: entry(cell, found) for run, found in zip(plan, measured, strict=True)})


def test_a_row_has_mean_and_sample_deviation() -> None:
    """The mean, and the deviation that divides by trials - 1; seconds are those of a run."""
    values = [0.5, 0.75, 0.875]
    plan = Plan((CELL,), 3)
    kept = {run.key: entry(CELL, values[run.seed], 10.0 + run.seed) for run in plan}
    mean = sum(values) / 3

    assert [
        {
            "dataset": "tea",
            "method": "rr",
            "epsilon": 1.0,
            "delta": 0.0,
            "classes": 3,
            "metric": "test_accuracy",
            "mean": pytest.approx(mean),
            "sd": pytest.approx(math.sqrt(sum((value - mean) ** 2 for value in values) / 2)),
            "trials": 3,
            "seconds": 11.0,
            "cpu_seconds": 22.0,
            "values": values,
            "seeds": [0, 1, 2],
        }
    ] == plan.aggregate(kept)


def test_one_trial_has_no_deviation() -> None:
    """Nothing is said about what was not measured."""
    row = rows_of(CELL, 0.5)[0]

    assert (0.5, None, 1) == (row["mean"], row["sd"], row["trials"])


def test_runs_that_are_missing_are_left_out() -> None:
    """Rows are of the seeds there are; a cell without any has no row."""
    plan = Plan((CELL, replace(CELL, epsilon=2.0)), 3)
    run = plan.of(CELL)[2]

    assert [([0.25], [2])] == [(row["values"], row["seeds"]) for row in plan.aggregate({run.key: entry(CELL, 0.25)})]


def test_without_privacy_there_is_no_epsilon_and_no_delta() -> None:
    """Both are null, and rows with privacy have both."""
    clean, private = (rows_of(replace(CELL, epsilon=epsilon, delta=1e-5), 0.5)[0] for epsilon in (None, 2))

    assert (None, None) == (clean["epsilon"], clean["delta"])
    assert (2.0, 1e-5) == (private["epsilon"], private["delta"])


def test_several_metrics_are_several_rows() -> None:
    """A mapping has a row for each of its names."""
    rows = rows_of(CELL, {"auc": 0.75, "rmse": 1.0}, {"auc": 0.25, "rmse": 2.0})

    assert [("auc", 0.5), ("rmse", 1.5)] == [(row["metric"], row["mean"]) for row in rows]


def test_several_points_are_several_rows() -> None:
    """Points at one place are averaged over seeds, and the place is a field of the row."""
    first, second = ([Point({"l1": base + epoch}, at={"epoch": epoch}) for epoch in (1, 2)] for base in (0.0, 1.0))
    rows = rows_of(CELL, first, second[::-1])

    assert [(1, 1.5), (2, 2.5)] == [(row["epoch"], row["mean"]) for row in rows]


def test_facts_stand_beside_the_values() -> None:
    """One for each seed, and nothing where a run had none."""
    rows = rows_of(CELL, Point({"l1": 1.0}, facts={"steps": 3}), Point({"l1": 2.0}, facts={"top": 5}))

    assert {"steps": [3, None], "top": [None, 5]} == rows[0]["facts"]


def test_parameters_are_in_the_row() -> None:
    """Whoever reads a result knows how it was made, also when NumPy made the numbers."""
    row = rows_of(replace(CELL, parameters={"epochs": np.int64(3), "sizes": (1, 2)}), np.float32(0.5))[0]

    assert {"epochs": 3, "sizes": [1, 2]} == row["parameters"]
    assert int is type(row["parameters"]["epochs"])


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(value: float) -> None:
    """A run that found no finite number has failed."""
    with pytest.raises(ValueError, match="auc to be a finite number"):
        CELL.points({"auc": value})


def test_names_are_used_once() -> None:
    """Fields and places never hide what the harness fills in, nor each other."""
    with pytest.raises(ValueError, match="got mean, values"):
        replace(CELL, fields={"values": 1, "mean": 2})
    for name in ("sd", "classes"):
        with pytest.raises(ValueError, match=f"got {name}"):
            CELL.points(Point({"l1": 1.0}, at={name: 1}))


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_epsilon_is_positive_and_finite(epsilon: float) -> None:
    """No privacy is None, and never an infinite epsilon."""
    with pytest.raises(ValueError, match="None without privacy"):
        replace(CELL, epsilon=epsilon)


def test_a_key_depends_on_everything_that_matters() -> None:
    """Each change of a run has a key of its own; how it is measured, shown and prepared does not matter."""
    changes = [
        {"dataset": "milk"},
        {"method": "clean"},
        {"epsilon": 1.5},
        {"epsilon": None},
        {"delta": 1e-6},
        {"fields": {"classes": 4}},
        {"parameters": {"epochs": 1}},
        {"version": 2},
    ]
    keys = {CELL.key(0), CELL.key(1), *(replace(CELL, **change).key(0) for change in changes)}
    same = [{"measure": lambda _: 1.0}, {"prepare": list}, {"seeds": 1}, {"metric": "auc"}, {"epsilon": 1}]

    assert 2 + len(changes) == len(keys)
    assert {CELL.key(0)} == {replace(CELL, **change).key(0) for change in same}


def test_a_key_never_changes() -> None:
    """Journals outlive versions of this code: this run has this key for ever."""
    assert "93567cf6c641bab2a6d88c7fe93779a5" == CELL.key(0)


def test_all_cells_have_their_first_seed_first() -> None:
    """A plan that is cut short is a whole table from fewer seeds; a cell may have fewer seeds than others."""
    plan = Plan((CELL, replace(CELL, epsilon=None, seeds=1), replace(CELL, epsilon=2.0)), 2)
    order = [(run.cell.epsilon, run.seed) for run in plan]

    assert [(1.0, 0), (None, 0), (2.0, 0), (1.0, 1), (2.0, 1)] == order
    assert 5 == len(plan)


def test_a_cell_stands_once() -> None:
    """Two cells with the same description would share their runs."""
    with pytest.raises(ValueError, match="one twice"):
        Plan((CELL, replace(CELL, measure=lambda _: 1.0)), 1)


@pytest.mark.parametrize(
    ("options", "seeds", "picked"),
    [
        (Options(), 5, "normal"),
        (Options(quick=True), 2, "quick"),
        (Options(full=True), 9, "full"),
        (Options(full=True, quick=True), 2, "quick"),
        (Options(seeds=3, full=True), 3, "full"),
        (Options(seeds=4, quick=True), 4, "quick"),
    ],
)
def test_options_choose_seeds_and_sizes(options: Options, seeds: int, picked: str) -> None:
    """The number of seeds is the one asked for, or the experiment's own for this kind of run."""
    experiment = Experiment("D-toy", "a toy", lambda _: [CELL], seeds=5, full_seeds=9)

    assert seeds == experiment.plan(options).seeds
    assert picked == options.pick("normal", quick="quick", full="full")


def test_without_more_a_full_run_is_a_normal_one() -> None:
    """An experiment that has no larger form need not say so."""
    experiment = Experiment("D-toy", "a toy", lambda _: [CELL], seeds=5)

    assert 5 == experiment.plan(Options(full=True)).seeds
    assert "normal" == Options(full=True).pick("normal", quick="quick")


def test_the_sample_deviation_is_that_of_the_standard_library() -> None:
    """Seven values of one cell, compared with another implementation's result."""
    values = [0.1, 0.2, 0.4, 0.8, 0.16, 0.32, 0.64]

    assert pytest.approx(np.std(values, ddof=1)) == rows_of(CELL, *values)[0]["sd"] == statistics.stdev(values)
