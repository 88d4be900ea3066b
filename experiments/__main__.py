"""``python -m experiments``: measure what is not measured yet, print, and write the result files."""

from __future__ import annotations

import importlib
import json
import shutil
import sys
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console

from benchmarks.harness import write
from experiments import pictures, tables
from experiments.data import DataError
from experiments.harness import Experiment, Options
from experiments.journal import Journal
from experiments.runner import QUICK_RESULTS, RESULTS, Budget, journal_of, result_of, run

PAGE: Final = Path(__file__).parent.parent / "docs" / "results.md"
#: Folder of the page's pictures, beside the page.
IMAGES: Final = "images/results"


def found() -> dict[str, str]:
    """Return the modules of the experiments by name, without importing them: ``d_rr_baseline`` is D-rr-baseline."""
    stems = sorted(path.stem for path in Path(__file__).parent.glob("[a-e]_*.py"))
    return {f"{stem[0].upper()}-{stem[2:].replace('_', '-')}": stem for stem in stems}


def experiment(name: str) -> Experiment:
    """Import an experiment."""
    loaded: Experiment = importlib.import_module(f"experiments.{found()[name]}").EXPERIMENT
    if loaded.name != name:
        raise ValueError(f"Expected the experiment of {found()[name]}.py to be named {name}, got {loaded.name}.")
    return loaded


def main(
    only: Annotated[list[str] | None, typer.Option(help="The name of an experiment; may be repeated.")] = None,
    show: Annotated[bool, typer.Option("--list", help="Name the experiments and what is done of them.")] = False,
    seeds: Annotated[
        int | None, typer.Option(min=1, help="So many seeds, instead of each experiment's own number.")
    ] = None,
    full: Annotated[bool, typer.Option(envvar="FULL", help="All of it, however long it takes.")] = False,
    quick: Annotated[bool, typer.Option(help="Tiny subsets, to see that it runs; writes elsewhere.")] = False,
    budget: Annotated[
        float | None,
        typer.Option(min=0, help="CPU minutes; then no run is started any more. 0: only write what is there."),
    ] = None,
    docs: Annotated[bool, typer.Option(help="Write tables and pictures of the result files into the page.")] = False,
    output: Annotated[Path | None, typer.Option(help="Folder of the result files.")] = None,
    page: Annotated[Path, typer.Option(help="The page that --docs writes into.")] = PAGE,
) -> None:
    """Measure the tables and figures of the papers; what was measured before is kept."""
    known = found()
    unknown = sorted(set(only or ()) - known.keys())
    if unknown:
        raise typer.BadParameter(f"Expected one of {', '.join(known)}, got {', '.join(unknown)}.", param_hint="--only")
    console = Console(width=None if sys.stdout.isatty() else 160)
    folder = output or (QUICK_RESULTS if quick else RESULTS)
    options = Options(seeds=seeds, full=full, quick=quick)
    names = list(only or known)
    if show:
        console.print(_listed(names, options, folder))
    elif docs:
        _write_page(names, folder, page, console)
    else:
        _run(names, options, folder, Budget(budget), console)


def _run(names: list[str], options: Options, folder: Path, budget: Budget, console: Console) -> None:
    failures = 0
    for name in names:
        console.rule(name)
        try:
            failures += carry_out(experiment(name), options, folder, budget, console)
        except DataError as error:
            console.print(f"[red]Data missing.[/] {error}", highlight=False)
            raise typer.Exit(2) from None
    if failures:
        console.print(f"{failures} runs failed.")
        raise typer.Exit(1)


def carry_out(each: Experiment, options: Options, folder: Path, budget: Budget, console: Console) -> int:
    """Measure what is missing and write the results, also when that is interrupted; return how many runs failed."""
    journal = journal_of(each, folder)
    try:
        return run(each, options, journal, budget, console)
    finally:
        settle(each, options, journal, folder, console)


def settle(each: Experiment, options: Options, journal: Journal, folder: Path, console: Console) -> None:
    """Write the result file and the picture of all runs there are, and print the table."""
    result = result_of(each, options, journal)
    if result is None:
        return
    path = folder / f"{each.name}.json"
    console.print(tables.terminal(each, result))
    if not result["complete"] and path.exists() and json.loads(path.read_text(encoding="utf-8"))["complete"]:
        console.print(f"Not complete, so this stays as it is: {path}\n")
        return
    write(path, result)
    console.print(f"Written: {path}\n")
    if each.draw is not None:
        pictures.save(each.draw, result["rows"], path.with_suffix(".svg"))


def _listed(names: list[str], options: Options, folder: Path) -> Any:  # a rich table
    from rich.table import Table

    table = Table("name", "runs", "result file", "what")
    for name in names:
        each = experiment(name)
        plan, journal = each.plan(options), journal_of(each, folder)
        kept = sum(run.key in journal for run in plan)
        path = folder / f"{name}.json"
        written = "none"
        if path.exists():
            written = "complete" if json.loads(path.read_text(encoding="utf-8"))["complete"] else "not complete"
        table.add_row(name, f"{kept} of {len(plan)}", written, each.what)
    return table


def _write_page(names: list[str], folder: Path, page: Path, console: Console) -> None:
    text = page.read_text(encoding="utf-8")
    for name in names:
        path = folder / f"{name}.json"
        if not path.exists():
            console.print(f"No result file yet: {name}")
            continue
        drawn = path.with_suffix(".svg")
        picture = f"{IMAGES}/{name}.svg" if drawn.exists() else None
        if picture is not None:
            (page.parent / picture).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(drawn, page.parent / picture)
        result = json.loads(path.read_text(encoding="utf-8"))
        text = tables.replaced(text, name, tables.markdown(experiment(name), result, picture))
    page.write_text(text, encoding="utf-8")
    console.print(f"Written: {page}")


if __name__ == "__main__":
    typer.run(main)
