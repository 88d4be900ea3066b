"""The harness: every case runs all its subjects in turns, so that what disturbs the machine disturbs them alike.

One repeat runs every subject, a short one several times in a row; the next repeat starts with another subject.
Seconds are those of one run, medians over the repeats.
Memory is measured in a pass of its own, since watching it takes time: the peak of what Python and NumPy allocate
during a run (``tracemalloc``; arguments and native heaps such as Rust's are not in it).
"""

from __future__ import annotations

import gc
import json
import os
import platform
import statistics
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final
from warnings import catch_warnings, simplefilter

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

RESULTS: Final = Path(__file__).parent / "results"
MIB: Final = 1 << 20
_MOST_RUNS: Final = 50

Row = dict[str, Any]


@final
@dataclass(frozen=True)
class Scale:
    """How much to measure: at most ``rows`` rows a case, and how often."""

    rows: int | None = None
    fewest: int = 5
    most: int = 25
    #: A case is repeated for about so long.
    seconds: float = 30.0
    #: A subject runs for about so long in each repeat: a run of a millisecond alone would show the last one's caches.
    sample: float = 0.05

    def sizes(self, *wanted: int) -> list[int]:
        """Return the wanted numbers of rows, cut to what is allowed."""
        return sorted({size if self.rows is None else min(size, self.rows) for size in wanted})

    def full(self, size: int) -> bool:
        """Whether so many rows are allowed: bars are set for full sizes only."""
        return self.rows is None or size <= self.rows


QUICK: Final = Scale(rows=10_000, fewest=3, most=5, seconds=2.0, sample=0.01)


@final
@dataclass(frozen=True)
class Measured:
    """What a subject measured itself, in a process of its own."""

    seconds: float
    peak_mib: float


def _nothing() -> None:
    pass


def _anything(result: Any) -> None:
    pass


@final
@dataclass(frozen=True)
class Subject:
    """One way to do a case's work; ``run`` is None where that way does not exist here, and ``note`` says why."""

    name: str
    run: Callable[[], Any] | None
    #: Raises ``AssertionError`` if the result is not what the work asks for.
    check: Callable[[Any], None] = _anything
    #: Untimed, before every run.
    prepare: Callable[[], None] = _nothing
    #: How many times the case's work one run does; seconds are divided by it.
    work: float = 1.0
    note: str = ""


@final
@dataclass(frozen=True)
class Bar:
    """What a subject must reach: a ratio to the fastest of ``against``, or a peak of memory."""

    subject: str
    against: tuple[str, ...] = ()
    ratio_at_least: float | None = None
    peak_mib_at_most: float | None = None


@final
@dataclass(frozen=True)
class Case:
    """One piece of work, the subjects that can do it, and the one whose seconds are the measure."""

    name: str
    subjects: Sequence[Subject]
    baseline: str
    bars: Sequence[Bar] = ()
    #: So many repeats, whatever the scale says.
    repeats: int | None = None


@final
@dataclass(frozen=True)
class Benchmark:
    """A named family of cases; ``libraries`` are those whose versions matter."""

    name: str
    what: str
    libraries: tuple[str, ...]
    cases: Callable[[Scale], Iterator[Case]]


class AbsentError(Exception):
    """A peer that cannot be imported here."""


def peer(name: str) -> Any:
    """Import a module of a peer, or raise :class:`AbsentError` with the reason."""
    try:
        with catch_warnings():
            simplefilter("ignore")  # theirs to mend
            return import_module(name)
    except Exception as error:
        raise AbsentError(f"not measured: {type(error).__name__}: {error}") from error


def subject_of(name: str, make: Callable[[], Subject]) -> Subject:
    """Make the subject of a peer, or one that says why it is absent."""
    try:
        return make()
    except AbsentError as error:
        return Subject(name, None, note=str(error))


# ---- measuring ------------------------------------------------------------------------------------------


def measure(case: Case, scale: Scale, tell: Callable[[str], None] = _anything) -> list[Row]:
    """Check, time and weigh all subjects of a case, and compare them."""
    present = [subject for subject in case.subjects if subject.run is not None]
    # First of all once each: compiles what compiles, fills caches, and shows that the result is worth timing.
    runs: dict[str, int] = {}
    spent = 0.0
    for subject in present:
        tell(f"{case.name}: checking {subject.name}")
        seconds, result = _timed(subject)
        subject.check(result)
        runs[subject.name], seconds = _runs(subject, result, seconds, scale.sample)
        spent += seconds
    repeats = case.repeats or max(scale.fewest, min(scale.most, int(scale.seconds / max(spent, 1e-9))))
    times: dict[str, list[float]] = {subject.name: [] for subject in present}
    for repeat in range(repeats):
        tell(f"{case.name}: repeat {repeat + 1} of {repeats}")
        gc.collect()
        first = repeat % len(present)
        for subject in present[first:] + present[:first]:
            times[subject.name].append(_timed(subject, runs[subject.name])[0] / subject.work)
    tell(f"{case.name}: memory")
    peaks = {subject.name: _peak_mib(subject) for subject in present}
    return _compared(case, times, peaks)


def _timed(subject: Subject, runs: int = 1) -> tuple[float, Any]:
    """Return the seconds of one run, and its result."""
    assert subject.run is not None
    subject.prepare()
    gc.disable()
    try:
        began = time.perf_counter()
        for _ in range(runs):
            result = subject.run()
        seconds = (time.perf_counter() - began) / runs
    finally:
        gc.enable()
    return (result.seconds if isinstance(result, Measured) else seconds), result


def _runs(subject: Subject, result: Any, seconds: float, sample: float) -> tuple[int, float]:
    """Return how many runs fill a sample, and how long they take; the first run may have compiled or loaded things."""
    if isinstance(result, Measured) or subject.prepare is not _nothing:
        return 1, seconds
    if sample and seconds < 10 * sample:
        seconds = _timed(subject)[0]
    runs = max(1, min(_MOST_RUNS, int(sample / max(seconds, 1e-9))))
    return runs, runs * seconds


def _peak_mib(subject: Subject) -> float | None:
    assert subject.run is not None
    if subject.work < 1:
        # It did a part of the work only, and memory need not be proportional.
        return None
    subject.prepare()
    tracemalloc.start()
    try:
        result = subject.run()
        peak = tracemalloc.get_traced_memory()[1] / MIB
    finally:
        tracemalloc.stop()
    return result.peak_mib if isinstance(result, Measured) else peak


def _compared(case: Case, times: dict[str, list[float]], peaks: dict[str, float | None]) -> list[Row]:
    medians = {name: statistics.median(each) for name, each in times.items()}
    rows = []
    for subject in case.subjects:
        bars = [bar for bar in case.bars if bar.subject == subject.name]
        # A row for the case's baseline, and one for each other baseline that a bar asks for.
        wanted: dict[str, list[Bar]] = {case.baseline: []}
        for bar in bars:
            known = [name for name in bar.against if name in medians]
            against = min(known, key=medians.__getitem__) if known else next(iter(bar.against), case.baseline)
            wanted.setdefault(against, []).append(bar)
        for baseline, asked in wanted.items():
            mine, theirs = medians.get(subject.name), medians.get(baseline)
            row: Row = {
                "case": case.name,
                "subject": subject.name,
                "seconds": mine,
                "peak_mib": peaks.get(subject.name),
                "baseline": baseline,
                "ratio": None if mine is None or theirs is None else theirs / mine,
                "fastest": min(times[subject.name]) if subject.name in times else None,
                "repeats": len(times.get(subject.name, ())),
                "note": subject.note,
            }
            rows.append({**row, "bar": _judged(asked, row)})
    return rows


def _judged(bars: Sequence[Bar], row: Row) -> Row | None:
    """Return the limits that hold for a row, and whether it kept them; None where nothing is asked."""
    verdict: Row = {}
    kept = []
    for bar in bars:
        if bar.ratio_at_least is not None and row["ratio"] is not None:
            verdict["ratio_at_least"] = bar.ratio_at_least
            kept.append(row["ratio"] >= bar.ratio_at_least)
        if bar.peak_mib_at_most is not None and row["peak_mib"] is not None:
            verdict["peak_mib_at_most"] = bar.peak_mib_at_most
            kept.append(row["peak_mib"] <= bar.peak_mib_at_most)
    return {**verdict, "passed": all(kept)} if kept else None


# ---- telling --------------------------------------------------------------------------------------------


def report(benchmark: Benchmark, rows: Sequence[Row], command: str) -> dict[str, Any]:
    """Return the result file's object."""
    return {
        "what": benchmark.what,
        "command": command,
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in benchmark.libraries},
        "cpu": f"{_cpu()}, {os.cpu_count()} cores",
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "rows": list(rows),
    }


def write(path: Path, result: dict[str, Any]) -> None:
    """Write a result file, or leave the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(result, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    temporary.replace(path)


def show(console: Console, rows: Sequence[Row]) -> None:
    """Print the rows of a case."""
    console.print(_table(rows))


def _table(rows: Sequence[Row]) -> Table:
    from rich.table import Table

    table = Table(title=rows[0]["case"], title_justify="left")
    table.add_column("subject")
    for column in ("ms", "peak MiB", "ratio"):
        table.add_column(column, justify="right")
    for column in ("baseline", "bar", "note"):
        table.add_column(column)
    for row in rows:
        table.add_row(
            row["subject"],
            _number(row["seconds"], 1e3),
            _number(row["peak_mib"]),
            _number(row["ratio"]),
            row["baseline"],
            _verdict(row["bar"]),
            row["note"],
        )
    return table


def _number(value: float | None, factor: float = 1.0) -> str:
    return "-" if value is None else f"{value * factor:,.3g}" if value * factor < 1000 else f"{value * factor:,.0f}"


def _verdict(bar: Row | None) -> str:
    if bar is None:
        return ""
    limits = [f"ratio >= {bar['ratio_at_least']:g}"] if "ratio_at_least" in bar else []
    limits += [f"<= {bar['peak_mib_at_most']:.3g} MiB"] if "peak_mib_at_most" in bar else []
    return f"{'[green]pass' if bar['passed'] else '[red]miss'}[/] ({', '.join(limits)})"


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
