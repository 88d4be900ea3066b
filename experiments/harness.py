"""What an experiment is: cells, each measured once for every seed, and the rows that come of it.

A module of this package that measures something ends in one line::

    EXPERIMENT = Experiment("D-figure1b", what="...", rows=cells, draw=draw)

where ``cells(options)`` returns a :class:`Cell` for every dataset, method and epsilon.  Making cells costs nothing:
data are loaded when a cell is measured.
"""

from __future__ import annotations

import hashlib
import json
import math
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar, final

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from experiments.journal import Entry

T = TypeVar("T")
Row = dict[str, Any]

#: Few seeds are enough to see that an experiment runs.
_QUICK_SEEDS: Final = 2
#: Fields of a row which the harness fills in.
RESERVED: Final = frozenset({
    "dataset", "method", "epsilon", "delta", "metric", "mean", "sd", "trials", "seconds", "cpu_seconds", "values",
    "seeds", "parameters", "facts",
})  # fmt: skip


@final
@dataclass(frozen=True)
class Options:
    """How much to measure."""

    #: So many seeds, instead of the experiment's own number.
    seeds: int | None = None
    #: All of it, however long it takes.
    full: bool = False
    #: Tiny subsets, to see that it runs.
    quick: bool = False

    def pick(self, normal: T, *, quick: T, full: T | None = None) -> T:
        """Return what suits these options; without ``full``, a full run takes the normal value."""
        if self.quick:
            return quick
        return full if self.full and full is not None else normal


@final
@dataclass(frozen=True)
class Point:
    """What a run found: a value for each metric, ``at`` some place if a run gives several (an epoch, a threshold).

    ``facts`` are kept beside the values (steps taken, a chosen parameter) and are not averaged.
    """

    values: Mapping[str, float]
    at: Mapping[str, Any] = field(default_factory=dict)
    facts: Mapping[str, Any] = field(default_factory=dict)


#: What measuring returns: the value of the cell's metric, or values by metric, or several points.
Measured = float | Mapping[str, float] | Point | Sequence[Point]


@final
@dataclass(frozen=True, kw_only=True)
class Cell:
    """One place of a table, to be measured with the seeds 0, 1, 2 and so on.

    ``measure(seed)`` draws all its randomness from the seed: labels are released with ``SeededCoins(seed)``.
    ``prepare`` is called before it and not timed: it loads data and makes public stages, and keeps them in a cache.

    A finished run is kept and not repeated as long as everything stays the same that is written here: so
    ``parameters`` hold every number on which the result depends and which is not a field of the row, and ``version``
    grows by one whenever the code of the method changes its results.
    """

    dataset: str
    method: str
    #: What the mechanism really has; None without privacy.
    epsilon: float | None
    measure: Callable[[int], Measured]
    delta: float = 0.0
    #: The name of the value when ``measure`` returns a number.
    metric: str = "test_accuracy"
    #: What else varies or must be told: setting, classes, n; these are fields of the row.
    fields: Mapping[str, Any] = field(default_factory=dict)
    parameters: Mapping[str, Any] = field(default_factory=dict)
    version: int = 1
    prepare: Callable[[], object] | None = None
    #: So many seeds at most.
    seeds: int | None = None

    def __post_init__(self) -> None:
        if self.epsilon is not None and not 0 < self.epsilon < math.inf:
            raise ValueError(f"Expected epsilon > 0, or None without privacy, got {self.epsilon}.")
        clashes = sorted(RESERVED & self.fields.keys())
        if clashes:
            raise ValueError(f"Expected fields with names of their own, got {', '.join(clashes)}.")

    def describe(self) -> Row:
        """Return everything that makes a run of this cell what it is, except the seed."""
        private = self.epsilon is not None
        described: Row = {
            "dataset": self.dataset,
            "method": self.method,
            "epsilon": float(self.epsilon) if self.epsilon is not None else None,
            "delta": float(self.delta) if private else None,
            "fields": dict(self.fields),
            "parameters": dict(self.parameters),
            "version": self.version,
        }
        # As a file would give it back: lists for tuples, plain numbers for NumPy's.
        plain: Row = json.loads(json.dumps(described, allow_nan=False, default=_plain))
        return plain

    def key(self, seed: int) -> str:
        """Return the digest under which the run with this seed is kept."""
        return hashlib.sha256(canonical({**self.describe(), "seed": seed}).encode()).hexdigest()[:32]

    def points(self, measured: Measured) -> list[Point]:
        """Return what was measured in its general form, and refuse what is no number."""
        if isinstance(measured, Point):
            points = [measured]
        elif isinstance(measured, Mapping):
            points = [Point(measured)]
        elif isinstance(measured, Sequence):
            points = list(measured)
        else:
            points = [Point({self.metric: measured})]
        for point in points:
            clashes = sorted((RESERVED | self.fields.keys()) & point.at.keys())
            if clashes:
                raise ValueError(f"Expected places with names of their own, got {', '.join(clashes)}.")
            for metric, value in point.values.items():
                if not math.isfinite(value):
                    raise ValueError(f"Expected {metric} to be a finite number, got {value}.")
        return points


@final
@dataclass(frozen=True)
class Layout:
    """How rows become a printed table: a line for each combination of ``lines``, a column for each of ``columns``."""

    columns: str = "epsilon"
    #: Without any: dataset, method, and whatever differs between rows.
    lines: tuple[str, ...] = ()
    decimals: int = 4
    #: The rows that are shown.
    where: Callable[[Row], bool] = lambda _row: True


def _nothing(_rows: Sequence[Row]) -> Iterable[Row]:
    return ()


@final
@dataclass(frozen=True)
class Experiment:
    """A table or a figure of a paper, named ``<letter>-<name>`` like its module, and how it is measured."""

    name: str
    what: str
    #: The cells, in the order of the rows that come of them.
    rows: Callable[[Options], Iterable[Cell]]
    draw: Callable[[Sequence[Row]], Figure] | None = None
    table: Layout = field(default_factory=Layout)
    seeds: int = 5
    full_seeds: int | None = None
    #: Those whose versions matter.
    libraries: tuple[str, ...] = ("labeldp", "numpy", "scikit-learn")
    #: Rows which follow from the measured ones, such as ratios.
    derive: Callable[[Sequence[Row]], Iterable[Row]] = _nothing

    def plan(self, options: Options) -> Plan:
        """Return the runs that make up the experiment."""
        count = options.pick(self.seeds, quick=min(self.seeds, _QUICK_SEEDS), full=self.full_seeds)
        return Plan(tuple(self.rows(options)), options.seeds or count)


@final
@dataclass(frozen=True)
class Run:
    """A cell with one seed."""

    cell: Cell
    seed: int
    key: str


@final
@dataclass(frozen=True)
class Plan:
    """The cells of an experiment, and how many seeds each gets."""

    cells: tuple[Cell, ...]
    seeds: int

    def __post_init__(self) -> None:
        seen: dict[str, Cell] = {}
        for cell in self.cells:
            if seen.setdefault(cell.key(0), cell) is not cell:
                raise ValueError(f"Expected cells that differ, got one twice: {canonical(cell.describe())}.")

    def of(self, cell: Cell) -> list[Run]:
        """Return the runs of a cell."""
        count = self.seeds if cell.seeds is None else min(self.seeds, cell.seeds)
        return [Run(cell, seed, cell.key(seed)) for seed in range(count)]

    def __iter__(self) -> Iterator[Run]:
        """All runs, one seed after the other: a plan cut short gives the whole table from fewer seeds."""
        runs = [run for cell in self.cells for run in self.of(cell)]
        return iter(sorted(runs, key=lambda run: run.seed))

    def __len__(self) -> int:
        return sum(len(self.of(cell)) for cell in self.cells)

    def aggregate(self, kept: Mapping[str, Entry]) -> list[Row]:
        """Return the rows of what is kept: one for each cell, place and metric, over the seeds there are.

        ``sd`` is the sample's (divided by trials - 1), and null for a single trial; seconds are means over runs.
        """
        rows: list[Row] = []
        for cell in self.cells:
            done = [(run.seed, kept[run.key]) for run in self.of(cell) if run.key in kept]
            rows += _rows(cell, done)
        return rows


def _rows(cell: Cell, done: Sequence[tuple[int, Entry]]) -> Iterator[Row]:
    groups: dict[tuple[str, str], list[tuple[int, Entry, Point]]] = {}
    for seed, entry in done:
        for point in entry.points:
            for metric in point.values:
                groups.setdefault((canonical(point.at), metric), []).append((seed, entry, point))
    described = cell.describe()
    for (_, metric), found in groups.items():
        values = [float(point.values[metric]) for _, _, point in found]
        row: Row = {name: described[name] for name in ("dataset", "method", "epsilon", "delta")}
        row |= described["fields"] | dict(found[0][2].at)
        row |= {
            "metric": metric,
            "mean": statistics.fmean(values),
            "sd": statistics.stdev(values) if len(values) > 1 else None,
            "trials": len(values),
            "seconds": statistics.fmean(entry.seconds for _, entry, _ in found),
            "cpu_seconds": statistics.fmean(entry.cpu_seconds for _, entry, _ in found),
            "values": values,
            "seeds": [seed for seed, _, _ in found],
        }
        if cell.parameters:
            row["parameters"] = described["parameters"]
        facts = [point.facts for _, _, point in found]
        if any(facts):
            names = dict.fromkeys(name for each in facts for name in each)
            row["facts"] = {name: [each.get(name) for each in facts] for name in names}
        yield row


def canonical(value: object) -> str:
    """Return the one JSON text of a value: keys in order, no spaces, no NaN, numbers of NumPy as plain ones."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:  # a number or an array of NumPy, or of torch
    if not hasattr(value, "tolist"):
        raise TypeError(f"Expected something that JSON can hold, got {type(value).__name__}.")
    return value.tolist()
