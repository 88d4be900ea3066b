"""The benchmarks: subjects do what they are timed for, and the harness compares them as it says."""

from __future__ import annotations

import importlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks.__main__ import ALL, run
from benchmarks.harness import Bar, Case, Measured, Scale, Subject, measure, peer, report, subject_of, write

TINY = Scale(rows=1000, fewest=1, most=1, seconds=0.0, sample=0.0)
FIELDS = {"case", "subject", "seconds", "peak_mib", "baseline", "ratio"}


@pytest.mark.parametrize("name", ALL)
def test_every_subject_does_its_work(name: str, tmp_path: Path) -> None:
    """On 1000 rows every subject's result passes its check, and every row says how long it took or why it did not."""
    rows = run(ALL[name], TINY, Console(quiet=True))
    path = tmp_path / f"{name}.json"
    write(path, report(ALL[name], rows, "python -m benchmarks"))
    result = json.loads(path.read_text())

    assert {"what", "command", "versions", "cpu", "rows"} <= result.keys()
    assert result["rows"]
    assert all(row.keys() >= FIELDS for row in result["rows"])
    assert all(row["seconds"] > 0 if row["seconds"] is not None else row["note"] for row in result["rows"])
    assert any(row["subject"].startswith("labeldp") and row["ratio"] is not None for row in result["rows"])


def test_a_check_that_fails_stops_the_run() -> None:
    """Nothing is timed whose result is wrong."""
    with pytest.raises(AssertionError, match="wrong"):
        measure(Case("case", [Subject("liar", lambda: 1, _refuse)], "liar"), TINY)


def test_ratio_is_baseline_over_subject() -> None:
    """A subject three times as fast as the baseline has the ratio 3; one that did a third of the work counts so."""
    subjects = [_taking("base", 3.0), _taking("fast", 1.0), _taking("third", 1.0, work=1 / 3)]
    rows = measure(Case("case", subjects, "base"), TINY)

    assert [1.0, 3.0, pytest.approx(1.0)] == [row["ratio"] for row in rows]


def test_a_bar_is_held_against_the_fastest() -> None:
    """A bar adds a row whose baseline is the fastest of those it names, and judges that ratio and the memory."""
    subjects = [_taking("base", 9.0), _taking("ours", 2.0), _taking("a", 8.0), _taking("b", 6.0)]
    bars = [Bar("ours", ("a", "b", "absent"), 4.0), Bar("ours", ("base",), 4.0, peak_mib_at_most=5.0)]
    judged = {row["baseline"]: row["bar"] for row in measure(Case("case", subjects, "base", bars), TINY) if row["bar"]}

    assert {
        "base": {"ratio_at_least": 4.0, "peak_mib_at_most": 5.0, "passed": True},
        "b": {"ratio_at_least": 4.0, "passed": False},
    } == judged


def test_an_absent_peer_says_why() -> None:
    """A peer that cannot be imported is a row without numbers and with the reason."""
    subject = subject_of("nobody", lambda: Subject("nobody", peer("no_such_module_anywhere").run))
    rows = measure(Case("case", [_taking("base", 1.0), subject], "base"), TINY)

    assert [None, None, None] == [rows[1][key] for key in ("seconds", "peak_mib", "ratio")]
    assert "no_such_module_anywhere" in rows[1]["note"]


def test_repeats_rotate_and_memory_is_measured_apart() -> None:
    """Every subject runs once to be checked, once a repeat with another one first each time, and once for memory."""
    order: list[str] = []
    subjects = [Subject(name, lambda name=name: order.append(name)) for name in "abc"]
    measure(Case("case", subjects, "a", repeats=3), TINY)

    assert "abc" + "abc" + "bca" + "cab" + "abc" == "".join(order)


def test_short_subjects_run_several_times_in_a_row() -> None:
    """A subject that takes a tenth of the sample runs some ten times a repeat, and its seconds are those of one run."""
    calls: list[float] = []

    def nap() -> None:
        calls.append(time.perf_counter())
        time.sleep(0.01)

    case = Case("case", [Subject("napper", nap)], "napper", repeats=1)
    row = measure(case, Scale(sample=0.1))[0]

    # Once to check, once to see how long it takes, up to ten times for the repeat, once for memory.
    assert 5 <= len(calls) <= 13
    assert 0.01 <= row["seconds"] < 0.1


def test_peak_is_what_numpy_allocates() -> None:
    """A temporary array of 8 MiB shows as a peak of 8 MiB, also when it is gone at the end."""
    numpy = importlib.import_module("numpy")
    case = Case("case", [Subject("temporary", lambda: numpy.ones(1 << 20).sum())], "temporary")

    assert pytest.approx(8.0, abs=0.5) == measure(case, TINY)[0]["peak_mib"]


def test_seconds_are_wall_clock() -> None:
    """A subject that sleeps for 20 ms takes at least 20 ms."""
    case = Case("case", [Subject("sleeper", lambda: time.sleep(0.02))], "sleeper")

    assert measure(case, TINY)[0]["seconds"] >= 0.02


def _taking(name: str, seconds: float, work: float = 1.0) -> Subject:
    return Subject(name, lambda: Measured(seconds, 1.0), work=work)


def _refuse(result: Any) -> None:
    raise AssertionError(f"wrong result {result}")
