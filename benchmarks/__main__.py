"""``python -m benchmarks``: measure, print, and write the result files."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer
from rich.console import Console

from benchmarks import import_time, ledger, noise, prior_response, randomized_response
from benchmarks.harness import QUICK, RESULTS, Benchmark, Case, Row, Scale, measure, report, show, write

ALL: Final[dict[str, Benchmark]] = {
    module.BENCHMARK.name: module.BENCHMARK
    for module in (randomized_response, prior_response, import_time, noise, ledger)
}


def main(
    only: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(ALL)}; may be repeated.")] = None,
    quick: Annotated[bool, typer.Option(help="Few rows and repeats; writes <name>-quick.json.")] = False,
    strict: Annotated[bool, typer.Option(help="Exit with an error if a bar is missed.")] = False,
    output: Annotated[Path, typer.Option(help="Folder of the result files.")] = RESULTS,
) -> None:
    """Measure labeldp against other libraries and against physical limits."""
    unknown = sorted(set(only or ()) - ALL.keys())
    if unknown:
        raise typer.BadParameter(f"Expected one of {', '.join(ALL)}, got {', '.join(unknown)}.", param_hint="--only")
    console = Console(width=None if sys.stdout.isatty() else 160)
    command = shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
    missed = 0
    for name in only or ALL:
        rows = run(ALL[name], QUICK if quick else Scale(), console)
        path = output / f"{name}{'-quick' if quick else ''}.json"
        write(path, report(ALL[name], rows, command))
        console.print(f"Written: {path}\n")
        missed += sum(row["bar"] is not None and not row["bar"]["passed"] for row in rows)
    console.print(f"{missed} bars missed." if missed else "All bars held.")
    if strict and missed:
        raise typer.Exit(1)


def run(benchmark: Benchmark, scale: Scale, console: Console) -> list[Row]:
    """Measure all cases of a benchmark, one table at a time."""
    console.rule(benchmark.name)
    rows: list[Row] = []
    cases = benchmark.cases(scale)
    # No loop variable: it would keep a case's arrays alive while the next case makes its own.
    while (measured := _next(cases, scale, console)) is not None:
        show(console, measured)
        rows += measured
    return rows


def _next(cases: Iterator[Case], scale: Scale, console: Console) -> list[Row] | None:
    case = next(cases, None)
    if case is None:
        return None
    with console.status(case.name) as status:
        return measure(case, scale, status.update)


if __name__ == "__main__":
    typer.run(main)
