"""Pictures of rows: the same rows give the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from experiments.harness import Row

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Colours which readers who see few colours can tell apart (Okabe and Ito), each with a marker.
STYLES: Final = (
    ("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"), ("#E69F00", "v"), ("#56B4E9", "P"),
    ("#000000", "X"), ("#7F7F7F", "*"),
)  # fmt: skip


def save(draw: Callable[[Sequence[Row]], Figure], rows: Sequence[Row], path: Path) -> None:
    """Draw rows into a file of SVG: no date, no embedded fonts, element names that depend on its content only."""
    with _settings(path.stem):
        figure = draw(rows)
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        figure.savefig(temporary, format="svg", metadata={"Date": None})
    temporary.replace(path)


@contextmanager
def _settings(salt: str) -> Iterator[None]:
    import matplotlib as mpl
    from matplotlib import style

    # Whatever somebody has in a file of settings does not show.
    with style.context(
        ["default", {"svg.hashsalt": salt, "svg.fonttype": "none", "axes.grid": True, "grid.alpha": 0.3}]
    ):
        assert mpl.rcParams["svg.hashsalt"] == salt
        yield


def curves(
    rows: Sequence[Row],
    *,
    x: str = "epsilon",
    series: str | Callable[[Row], str] = "method",
    panels: str = "dataset",
    title: str = "",
    ylabel: str = "",
) -> Figure:
    """Draw means over ``x``, with bars of one standard deviation: a panel for each dataset, a line for each method.

    A row without a value of ``x`` (no privacy) is a dashed line across its panel.
    """
    from matplotlib.figure import Figure

    def name(row: Row) -> str:
        return series(row) if callable(series) else str(row[series])

    names = list(dict.fromkeys(name(row) for row in rows))
    values = list(dict.fromkeys(row[panels] for row in rows))
    figure = Figure(figsize=(1.2 + 3.2 * len(values), 3.6), layout="constrained")
    for axes, value in zip(figure.subplots(1, len(values), squeeze=False)[0], values, strict=True):
        mine = [row for row in rows if row[panels] == value]
        for place, each in enumerate(names):
            _line(axes, [row for row in mine if name(row) == each], x, each, STYLES[place % len(STYLES)])
        axes.set(title=str(value), xlabel="ε" if x == "epsilon" else x)
        if x == "epsilon":
            ticks = sorted({row[x] for row in mine if row[x] is not None})
            axes.set_xscale("log")
            axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
            axes.minorticks_off()
    figure.axes[0].set_ylabel(ylabel or rows[0]["metric"].replace("_", " "))
    handles = {
        label: handle for axes in figure.axes for handle, label in zip(*axes.get_legend_handles_labels(), strict=True)
    }
    figure.legend(
        handles.values(), handles.keys(), loc="outside lower center", ncols=min(6, len(handles)), frameon=False
    )
    if title:
        figure.suptitle(title)
    return figure


def _line(axes: Axes, rows: Sequence[Row], x: str, label: str, style: tuple[str, str]) -> None:
    colour, marker = style
    placed = sorted((row for row in rows if row[x] is not None), key=lambda row: row[x])
    if placed:
        found: dict[str, Any] = {
            "x": [row[x] for row in placed],
            "y": [row["mean"] for row in placed],
            "yerr": [row["sd"] or 0.0 for row in placed],
        }
        axes.errorbar(**found, label=label, color=colour, marker=marker, markersize=5, capsize=2)
    for row in rows:
        if row[x] is None:
            axes.axhline(row["mean"], color=colour, linestyle="--", label=label)
