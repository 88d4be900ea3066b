"""Rows as a table: on the terminal, and in Markdown between the markers of the page of results."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, final

from experiments.harness import RESERVED, Experiment, Layout, Row, canonical

if TYPE_CHECKING:
    from rich.table import Table

_NO_PRIVACY: Final = "no privacy"
#: What tells a row from others, beside its own fields; in this order.
_NAMES: Final = ("dataset", "method", "metric", "epsilon", "delta")


@final
@dataclass(frozen=True)
class Grid:
    """A table of texts; the first ``names`` columns say what a line is about."""

    heads: tuple[str, ...]
    body: tuple[tuple[str, ...], ...]
    names: int


def grid(rows: Sequence[Row], layout: Layout) -> Grid:
    """Arrange rows in lines and columns, both in the order in which they first appear."""
    shown = [row for row in rows if layout.where(row)]
    lines = layout.lines or _telling(shown, layout.columns)
    columns: dict[str, Any] = {}
    cells: dict[tuple[str, ...], dict[str, str]] = {}
    for row in shown:
        line = tuple(_shown(row.get(name)) for name in lines)
        column = canonical(row.get(layout.columns))
        columns.setdefault(column, row.get(layout.columns))
        if column in cells.setdefault(line, {}):
            raise ValueError(f"Expected one row for {', '.join(line)} at {layout.columns} {column}, got several.")
        cells[line][column] = _number(row, layout.decimals)
    order = sorted(columns, key=lambda column: _rank(columns[column], list(columns).index(column)))
    heads = [_head(layout.columns, columns[column]) for column in order]
    body = tuple((*line, *(found.get(column, "") for column in order)) for line, found in cells.items())
    return Grid((*lines, *heads), body, len(lines))


def _telling(rows: Sequence[Row], columns: str) -> tuple[str, ...]:
    """Return the fields that tell lines apart: dataset and method always, others if they differ."""
    fields = dict.fromkeys(name for row in rows for name in row if name not in RESERVED)
    names = [name for name in (*_NAMES[:2], *fields, *_NAMES[2:]) if name != columns]
    # Rows without privacy have no delta; that alone is no difference.
    differ = [name for name in names if len({canonical(row.get(name)) for row in rows} - {"null"}) > 1]
    return tuple(name for name in names if name in {"dataset", "method"} or name in differ)


def _rank(value: Any, place: int) -> tuple[int, float]:
    """Numbers in their order, then others as they came, then nothing: no privacy is at the right."""
    if value is None:
        return 2, 0.0
    return (0, float(value)) if isinstance(value, int | float) else (1, float(place))


def _head(name: str, value: Any) -> str:
    if name == "epsilon":
        return _NO_PRIVACY if value is None else f"ε = {value:g}"
    return f"{name} = {_shown(value)}"


def _shown(value: Any) -> str:
    return "" if value is None else f"{value:g}" if isinstance(value, float) else str(value)


def _number(row: Row, decimals: int) -> str:
    mean = f"{row['mean']:.{decimals}f}"
    return mean if row.get("sd") is None else f"{mean} ± {row['sd']:.{decimals}f}"


def caption(result: dict[str, Any], layout: Layout) -> str:
    """Say in words what the numbers of a grid are: metric, trials, what is the same everywhere, cost, machine."""
    rows = [row for row in result["rows"] if layout.where(row)]
    fields = dict.fromkeys(name for row in rows for name in row if name not in RESERVED)
    same = {name: {canonical(row.get(name)): row.get(name) for row in rows} for name in ("metric", *fields)}
    fixed = [_shown(value) for found in same.values() if len(found) == 1 for value in found.values()]
    trials = sorted({row["trials"] for row in rows})
    count = f"{trials[0]}" if len(trials) == 1 else f"{trials[0]} to {trials[-1]}"
    spread = "mean ± standard deviation" if any(row["sd"] is not None for row in rows) else "one run"
    texts = [f"{', '.join(fixed)}: {spread} over {count} seed{'s' if trials[-1] > 1 else ''}"]
    texts.append(f"{result['cpu']}")
    if not result["complete"]:
        texts.append(f"NOT COMPLETE: {result['runs']['done']} of {result['runs']['planned']} runs")
    return "; ".join(texts) + "."


def terminal(experiment: Experiment, result: dict[str, Any]) -> Table:
    """Return the rows as a table for the terminal."""
    from rich.table import Table

    arranged = grid(result["rows"], experiment.table)
    table = Table(title=experiment.name, title_justify="left", caption=caption(result, experiment.table))
    for place, head in enumerate(arranged.heads):
        table.add_column(head, justify="left" if place < arranged.names else "right")
    for line in arranged.body:
        table.add_row(*line)
    return table


def markdown(experiment: Experiment, result: dict[str, Any], picture: str | None) -> str:
    """Return the block of the page: what it is, the table, how it was made, and the picture."""
    arranged = grid(result["rows"], experiment.table)
    rule = ["---" if place < arranged.names else "---:" for place in range(len(arranged.heads))]
    lines = [" | ".join(_escaped(line)) for line in (arranged.heads, rule, *arranged.body)]
    texts = [
        _sentence(result["what"]),
        "\n".join(f"| {line} |" for line in lines),
        f"{caption(result, experiment.table)}\nMade by `{result['command']}`.",
    ]
    if picture is not None:
        texts.append(f"![{experiment.name}]({picture})")
    return "\n\n".join(texts)


def _escaped(texts: Sequence[str]) -> list[str]:
    return [text.replace("|", "\\|") for text in texts]


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "."


def replaced(page: str, name: str, block: str) -> str:
    """Return a page with the text between an experiment's markers replaced; without any, they are added at the end."""
    begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
    new = f"{begin}\n\n{block}\n\n{end}"
    marked = re.compile(f"{re.escape(begin)}.*?{re.escape(end)}", re.DOTALL)
    found = len(marked.findall(page))
    if found > 1 or page.count(begin) != found or page.count(end) != found:
        raise ValueError(f"Expected the markers of {name} once, {begin} before {end}.")
    return marked.sub(lambda _: new, page) if found else f"{page.rstrip()}\n\n### {name}\n\n{new}\n"
