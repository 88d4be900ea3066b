"""Running a plan: what is kept is not repeated, a budget is held, and the result file is written whatever happens."""

from __future__ import annotations

import os
import platform
import statistics
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

from benchmarks.harness import _cpu as cpu_name
from benchmarks.harness import _version as version_of
from experiments.data import DataError
from experiments.harness import Experiment, Options, Plan, Row, Run
from experiments.journal import Entry, Journal

if TYPE_CHECKING:
    from rich.console import Console

RESULTS: Final = Path(__file__).parent / "results"
#: Results of quick runs are worth nothing, and not kept by git.
QUICK_RESULTS: Final = RESULTS / ".quick"


def cpu_seconds() -> float:
    """Return the processor time of this process, all its threads, and its finished children."""
    children = os.times()
    return time.process_time() + children.children_user + children.children_system


@final
class Budget:
    """CPU minutes; when they are used up, no further run is started."""

    def __init__(self, minutes: float | None = None, clock: Callable[[], float] = cpu_seconds) -> None:
        self._clock = clock
        self._end = None if minutes is None else clock() + 60 * minutes

    def spent(self) -> bool:
        """Whether nothing is left."""
        return self._end is not None and self._clock() >= self._end


def journal_of(experiment: Experiment, folder: Path) -> Journal:
    """Return the journal of an experiment whose results are in ``folder``."""
    return Journal(folder / ".journal" / f"{experiment.name}.jsonl")


def run(experiment: Experiment, options: Options, journal: Journal, budget: Budget, console: Console) -> int:
    """Do the runs that are not kept yet, and keep them; return how many failed."""
    plan = experiment.plan(options)
    todo = [each for each in plan if each.key not in journal]
    kept = len(plan) - len(todo)
    console.print(f"{len(plan)} runs, {kept} of them kept from before." if kept else f"{len(plan)} runs.")
    where = _where(experiment)
    failures = 0
    with _progress(console, plan, journal, todo) as tell:
        for place, each in enumerate(todo):
            if budget.spent():
                console.print(f"The budget is used up: {len(todo) - place} runs are left for another time.")
                break
            try:
                entry = _measured(each, where)
                journal.add(each, entry)
            except DataError:
                raise
            except Exception:  # noqa: BLE001  # the other runs are worth having
                console.print(f"[red]failed[/]: {_name(each)}")
                console.print(traceback.format_exc(limit=-4), markup=False, highlight=False)
                failures += 1
            else:
                tell(each, entry, todo[place + 1 :])
    return failures


def result_of(experiment: Experiment, options: Options, journal: Mapping[str, Entry]) -> dict[str, Any] | None:
    """Return the object of the result file, from what is kept; None if nothing is."""
    plan = experiment.plan(options)
    entries = [journal[each.key] for each in plan if each.key in journal]
    if not entries:
        return None
    rows = plan.aggregate(journal)
    return {
        "what": experiment.what,
        "command": _command(experiment, options),
        "versions": _together(entries),
        "cpu": _joined(entry.cpu for entry in entries),
        "complete": len(entries) == len(plan),
        "runs": {"planned": len(plan), "done": len(entries)},
        "rows": [*rows, *experiment.derive(rows)],
    }


def _measured(each: Run, where: tuple[dict[str, str | None], str]) -> Entry:
    cell = each.cell
    if cell.prepare is not None:
        cell.prepare()
    began, cpu_began = time.perf_counter(), cpu_seconds()
    measured = cell.measure(each.seed)
    seconds, used = time.perf_counter() - began, cpu_seconds() - cpu_began
    return Entry(tuple(cell.points(measured)), round(seconds, 3), round(used, 3), *where)


def _where(experiment: Experiment) -> tuple[dict[str, str | None], str]:
    versions = {"python": platform.python_version()} | {name: version_of(name) for name in experiment.libraries}
    return versions, f"{cpu_name()}, {os.cpu_count()} cores"


def _command(experiment: Experiment, options: Options) -> str:
    """Return what makes this result, which need not be what was typed."""
    words = ["python -m experiments --only", experiment.name]
    words += ["--quick"] if options.quick else ["--full"] if options.full else []
    words += [f"--seeds {options.seeds}"] if options.seeds else []
    return " ".join(words)


def _together(entries: list[Entry]) -> dict[str, str | None]:
    """Return the versions with which the runs were made: several, if they were made at different times."""
    names = dict.fromkeys(name for entry in entries for name in entry.versions)
    return {name: _joined(entry.versions.get(name) for entry in entries) or None for name in names}


def _joined(texts: Any) -> str:  # an iterable of texts and Nones
    return ", ".join(dict.fromkeys(text for text in texts if text is not None))


# ---- telling --------------------------------------------------------------------------------------------


def _name(each: Run) -> str:
    cell = each.cell
    shown: Row = {"epsilon": "none" if cell.epsilon is None else f"{cell.epsilon:g}", **cell.fields, "seed": each.seed}
    return f"{cell.dataset} {cell.method} " + " ".join(f"{name}={value}" for name, value in shown.items())


def expected_seconds(todo: list[Run], known: Mapping[tuple[str, str], list[float]]) -> float | None:
    """Return how long the runs may take, judged by runs like them, or by all runs where there are none."""
    everything = [seconds for each in known.values() for seconds in each]
    if not everything:
        return None
    usual = statistics.fmean(everything)
    like = {kind: statistics.fmean(found) for kind, found in known.items()}
    return sum(like.get((each.cell.dataset, each.cell.method), usual) for each in todo)


def _duration(seconds: float | None) -> str:
    if seconds is None:
        return "time unknown"
    minutes = round(seconds / 60)
    return (
        f"{seconds:.0f} s left"
        if minutes < 2
        else f"{minutes} min left"
        if minutes < 120
        else f"{minutes / 60:.1f} h left"
    )


@contextmanager
def _progress(
    console: Console, plan: Plan, journal: Journal, todo: list[Run]
) -> Iterator[Callable[[Run, Entry, list[Run]], None]]:
    """Show a bar on a terminal, and a line for each run elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    known: dict[tuple[str, str], list[float]] = {}
    for each in plan:
        if each.key in journal:
            known.setdefault((each.cell.dataset, each.cell.method), []).append(journal[each.key].seconds)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[left]}"), TextColumn("{task.description}"))
    bar = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
    done = len(plan) - len(todo)
    task = bar.add_task(
        _name(todo[0]) if todo else "",
        total=len(plan),
        completed=done,
        left=_duration(expected_seconds(todo, known)),
    )

    def tell(each: Run, entry: Entry, rest: list[Run]) -> None:
        nonlocal done
        done += 1
        known.setdefault((each.cell.dataset, each.cell.method), []).append(entry.seconds)
        left = _duration(expected_seconds(rest, known))
        bar.update(task, completed=done, left=left, description=_name(rest[0]) if rest else "")
        if not console.is_terminal:
            first = next(iter(entry.points[0].values.items()), ("nothing", 0.0)) if entry.points else ("nothing", 0.0)
            found = f"{first[0]} {first[1]:.4f}"
            console.print(f"{done}/{len(plan)} {_name(each)}: {found}, {entry.seconds:.1f} s; {left}", highlight=False)

    with bar:
        yield tell
