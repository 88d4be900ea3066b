"""A killed experiment goes on where it was, and its result is what it would have been."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from experiments.__main__ import carry_out
from experiments.harness import Cell, Experiment, Options, Point
from experiments.journal import Journal
from experiments.runner import Budget, expected_seconds, journal_of, result_of
from tests.experiments.helpers import toy

_ROOT = Path(__file__).parent.parent.parent
RUNS = 12


def value(dataset: str, epsilon: float | None, seed: int) -> float:
    """Return a number that names its run."""
    return len(dataset) + (epsilon or 0.0) / 10 + seed / 100


def measured(experiment: Experiment, folder: Path, minutes: float | None = None, **options: Any) -> int:
    """Carry an experiment out in silence; return how many runs failed."""
    return carry_out(experiment, Options(**options), folder, Budget(minutes), Console(quiet=True))


def result(folder: Path) -> dict[str, Any]:
    """Return the result file."""
    read: dict[str, Any] = json.loads((folder / "D-toy.json").read_text())
    return read


def timeless(folder: Path) -> dict[str, Any]:
    """Return the result file without what a clock says."""
    read = result(folder)
    for row in read["rows"]:
        del row["seconds"], row["cpu_seconds"]
    return read


class Interrupted:
    """Measures, and is interrupted at one of its calls."""

    def __init__(self, call: int) -> None:
        self.calls = 0
        self.call = call

    def __call__(self, dataset: str, epsilon: float | None, seed: int) -> float:
        self.calls += 1
        if self.calls == self.call:
            raise KeyboardInterrupt
        return value(dataset, epsilon, seed)


def test_a_result_file_keeps_its_contract(tmp_path: Path) -> None:
    """The file says what, how, with what and where; each row has all its fields."""
    assert 0 == measured(toy(value), tmp_path)
    read = result(tmp_path)

    assert {"what", "command", "versions", "cpu", "complete", "runs", "rows"} == read.keys()
    assert ("a toy", True) == (read["what"], read["complete"])
    assert "python -m experiments --only D-toy" == read["command"]
    assert {"python", "labeldp", "numpy", "scikit-learn"} == read["versions"].keys()
    assert all(read["versions"].values())
    assert read["cpu"].endswith("cores")
    assert {"planned": RUNS, "done": RUNS} == read["runs"]
    expected = itertools.product(("tea", "milk"), (None, 1.0, 2.0))
    assert list(expected) == [(row["dataset"], row["epsilon"]) for row in read["rows"]]
    for row in read["rows"]:
        found = [value(row["dataset"], row["epsilon"], seed) for seed in (0, 1)]

        assert found == row["values"]
        assert pytest.approx(sum(found) / 2) == row["mean"]
        assert {"delta", "metric", "sd", "trials", "seconds", "cpu_seconds", "setting"} <= row.keys()


@pytest.mark.parametrize("call", range(1, RUNS + 1))
def test_an_interrupted_experiment_goes_on(tmp_path: Path, call: int) -> None:
    """Wherever it stops: no run is repeated, and the result is that of an experiment which was never interrupted."""
    first, second = Interrupted(call), Interrupted(0)
    with pytest.raises(KeyboardInterrupt):
        measured(toy(first), tmp_path / "a")
    if call > 1:
        partial = result(tmp_path / "a")

        assert (False, call - 1) == (partial["complete"], partial["runs"]["done"])
        assert call - 1 == sum(row["trials"] for row in partial["rows"])
    measured(toy(second), tmp_path / "a")
    measured(toy(value), tmp_path / "b")

    assert RUNS - (call - 1) == second.calls
    assert timeless(tmp_path / "b") == timeless(tmp_path / "a")


def test_a_killed_process_has_kept_its_runs(tmp_path: Path) -> None:
    """After SIGKILL in the sixth run five are kept, and the rest gives the same result as one process would."""
    program = """
        import os, signal, sys
        from pathlib import Path
        from tests.experiments.helpers import toy
        from tests.experiments.test_runner import measured, value
        calls = 0
        def measure(*run):
            global calls
            calls += 1
            if calls == 6:
                os.kill(os.getpid(), signal.SIGKILL)
            return value(*run)
        measured(toy(measure), Path(sys.argv[1]))
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(tmp_path / "a")]
    done = subprocess.run(command, cwd=_ROOT, check=False, env={**os.environ, "PYTHONPATH": str(_ROOT)})
    second = Interrupted(0)

    assert -signal.SIGKILL == done.returncode
    assert not (tmp_path / "a" / "D-toy.json").exists()
    measured(toy(second), tmp_path / "a")
    measured(toy(value), tmp_path / "b")
    assert RUNS - 5 == second.calls
    assert timeless(tmp_path / "b") == timeless(tmp_path / "a")


def test_the_result_file_can_be_made_again_from_the_journal(tmp_path: Path) -> None:
    """Without a single run, and to the byte; picture included."""
    experiment = toy(value, draw=_draw)
    measured(experiment, tmp_path)
    files = [tmp_path / f"D-toy.{kind}" for kind in ("json", "svg")]
    before = [path.read_bytes() for path in files]
    for path in files:
        path.unlink()
    measured(toy(_never, draw=_draw), tmp_path, minutes=0)

    assert before == [path.read_bytes() for path in files]


def test_more_seeds_are_added_to_those_there_are(tmp_path: Path) -> None:
    """Asking for three seeds after two measures the third alone."""
    seeds: list[int] = []
    measured(toy(value), tmp_path)
    measured(toy(lambda dataset, epsilon, seed: seeds.append(seed) or value(dataset, epsilon, seed)), tmp_path, seeds=3)

    assert [2] * 6 == seeds
    assert {3} == {row["trials"] for row in result(tmp_path)["rows"]}
    assert result(tmp_path)["command"].endswith("--seeds 3")


def test_a_new_version_of_a_method_is_measured_again(tmp_path: Path) -> None:
    """Runs of the old code are not taken for runs of the new one."""

    def one(version: int, found: float) -> Experiment:
        cell = Cell(dataset="tea", method="rr", epsilon=1.0, measure=lambda _: found, version=version)
        return Experiment("D-toy", "a toy", lambda _: [cell], seeds=1)

    for version, found in ((1, 0.25), (2, 0.75), (1, 0.0)):
        measured(one(version, found), tmp_path)
        expected = 0.75 if version == 2 else 0.25

        assert expected == result(tmp_path)["rows"][0]["mean"]


@pytest.mark.parametrize("cut", [1, 20, -2])
def test_a_line_that_was_cut_off_is_measured_again(tmp_path: Path, cut: int) -> None:
    """What a killed writer left of a line is passed over, and does not spoil the next one."""
    measured(toy(value), tmp_path)
    expected = timeless(tmp_path)
    path = journal_of(toy(value), tmp_path).path
    lines = path.read_bytes().rstrip(b"\n").split(b"\n")
    path.write_bytes(b"\n".join([*lines[:-1], lines[-1][:cut]]))
    second = Interrupted(0)
    measured(toy(second), tmp_path)

    assert 1 == second.calls
    assert expected == timeless(tmp_path)
    assert RUNS == len(Journal(path))


def test_a_budget_stops_new_runs(tmp_path: Path) -> None:
    """After its minutes nothing is started; what is there is written, the first seed first."""
    now = [0.0]

    def measure(dataset: str, epsilon: float | None, seed: int) -> float:
        now[0] += 60.0
        return value(dataset, epsilon, seed)

    experiment = toy(measure)
    carry_out(experiment, Options(), tmp_path, Budget(6.5, lambda: now[0]), Console(quiet=True))
    read = result(tmp_path)

    assert (False, 7) == (read["complete"], read["runs"]["done"])
    assert [2, 1, 1, 1, 1, 1] == [row["trials"] for row in read["rows"]]


def test_a_complete_result_is_not_replaced_by_a_part(tmp_path: Path) -> None:
    """Where the journal is gone, a short run leaves the complete file as it was."""
    measured(toy(value), tmp_path)
    before = (tmp_path / "D-toy.json").read_bytes()
    journal_of(toy(value), tmp_path).path.unlink()
    with pytest.raises(KeyboardInterrupt):
        measured(toy(Interrupted(3)), tmp_path)

    assert before == (tmp_path / "D-toy.json").read_bytes()


def test_nothing_measured_is_nothing_written(tmp_path: Path) -> None:
    """Without any run there is no file."""
    measured(toy(_never), tmp_path, minutes=0)

    assert [] == list(tmp_path.iterdir())


def test_a_run_that_fails_leaves_the_others_alone(tmp_path: Path) -> None:
    """It is counted, told, and tried again the next time."""

    def fails(dataset: str, epsilon: float | None, seed: int) -> float:
        if (dataset, epsilon, seed) == ("tea", 1.0, 0):
            raise RuntimeError("no convergence today")
        return value(dataset, epsilon, seed)

    console = Console(file=io.StringIO(), width=120)
    failures = carry_out(toy(fails), Options(), tmp_path, Budget(), console)
    second = Interrupted(0)

    assert 1 == failures
    assert "no convergence today" in console.file.getvalue()
    assert [1] == [
        row["trials"] for row in result(tmp_path)["rows"] if (row["dataset"], row["epsilon"]) == ("tea", 1.0)
    ]
    assert 0 == measured(toy(second), tmp_path)
    assert 1 == second.calls
    assert result(tmp_path)["complete"]


@pytest.mark.parametrize("found", [float("nan"), "text", Point({"auc": 1.0}, facts={"model": object()})])
def test_what_cannot_be_kept_has_failed(tmp_path: Path, found: Any) -> None:
    """A run whose result is no number, or holds what no file can hold, is a failure and nothing else."""
    assert RUNS == measured(toy(lambda *_: found), tmp_path)
    assert 0 == len(journal_of(toy(value), tmp_path))


def test_preparing_is_not_timed(tmp_path: Path) -> None:
    """Seconds are those of measuring: data that everyone needs are loaded before."""
    calls: list[str] = []

    def busy(name: str, times: int) -> Callable[..., float]:
        def work(*_: int) -> float:
            calls.append(name)
            return float(sum(range(times)) * 0.0)

        return work

    cell = Cell(
        dataset="tea", method="rr", epsilon=1.0, measure=busy("measure", 10), prepare=busy("prepare", 5_000_000)
    )
    measured(Experiment("D-toy", "a toy", lambda _: [cell], seeds=2), tmp_path)
    row = result(tmp_path)["rows"][0]

    assert ["prepare", "measure"] * 2 == calls
    assert row["cpu_seconds"] < 0.02
    assert row["seconds"] >= 0


def test_versions_are_those_of_the_runs(tmp_path: Path) -> None:
    """Runs of two times, with two versions of a library, are not passed off as runs with one of them."""
    experiment = toy(value)
    measured(experiment, tmp_path)
    path = journal_of(experiment, tmp_path).path
    first, rest = path.read_text().strip().split("\n", 1)
    path.write_text(re.sub(r'"numpy":"[^"]*"', '"numpy":"1.0"', first) + "\n" + rest + "\n")
    read = result_of(experiment, Options(), Journal(path))

    assert read is not None
    assert ["1.0", result(tmp_path)["versions"]["numpy"]] == read["versions"]["numpy"].split(", ")


def test_derived_rows_follow_the_measured_ones(tmp_path: Path) -> None:
    """They are made of the rows, whether measured or kept."""
    experiment = toy(value, derive=lambda rows: [{**rows[0], "metric": "relative_accuracy", "mean": 1.0}])
    for _ in range(2):
        measured(experiment, tmp_path)

        assert ["relative_accuracy"] == [row["metric"] for row in result(tmp_path)["rows"][6:]]


def test_the_estimate_of_time_goes_by_runs_alike() -> None:
    """Known kinds of runs count with their mean, unknown ones with the mean of all; nothing known is no estimate."""
    todo = list(toy(value).plan(Options(seeds=1)))
    known = {("tea", "clean"): [1.0, 3.0], ("tea", "rr"): [10.0]}

    assert expected_seconds(todo, {}) is None
    # One clean and two private runs of a known dataset, three of another.
    assert 2.0 + 2 * 10.0 + 3 * 14.0 / 3 == expected_seconds(todo, known)
    assert 0.0 == expected_seconds([], known)


def _never(*_: object) -> float:
    raise AssertionError("Nothing was to be measured.")


def _draw(rows: Any) -> Any:
    from experiments.pictures import curves

    return curves(rows)
