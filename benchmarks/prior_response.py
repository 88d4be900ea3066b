"""RRWithPrior: from a table of priors, one law a row, to one released label a row."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import labeldp as ldp
from benchmarks.harness import MIB, Bar, Benchmark, Case, Scale, Subject
from labeldp.channels.base import draw_rows
from labeldp.ids import RowIds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.integer[Any]]
    Table = NDArray[np.floating[Any]]

EPSILON: Final = 1.0
TOP: Final = 0.9
#: Cells a block of the sorting solutions: the fastest of 2^14, 2^16, 2^18 and 2^20 here.
_CELLS: Final = 1 << 16
#: Allocations beyond the prior itself, as a share of it.
_MEMORY: Final = 0.3
_BARS: Final = {("peaked", 10): 2.5, ("peaked", 100): 7.0, ("peaked", 1000): 30.0}
_FLAT_BAR: Final = 2.5
_SHAPES: Final = ((100_000, 10), (100_000, 100), (100_000, 1000), (1_000_000, 100))
_CHECKED: Final = 2_000

Law = Callable[[np.random.Generator, int, int], "NDArray[np.float64]"]


def cases(scale: Scale) -> Iterator[Case]:
    """Peaked, flat and near uniform priors of 10, 100 and 1000 classes, in both precisions."""
    # What is cut is the number of cells: a row of 1000 is as much work as ten rows of 100.
    cut = {(rows, classes): scale.sizes(rows * classes // 100)[0] * 100 // classes for rows, classes in _SHAPES}
    for rows, classes in sorted({(cut[rows, classes], classes) for rows, classes in _SHAPES}):
        for kind, law in _LAWS.items():
            for dtype in (np.float64, np.float32):
                with tempfile.TemporaryDirectory(prefix="labeldp-benchmark-") as folder:
                    yield _case(rows, classes, kind, law, dtype, Path(folder), full=rows == 10**5)


def _case(rows: int, classes: int, kind: str, law: Law, dtype: type, folder: Path, *, full: bool) -> Case:
    prior, labels = _data(rows, classes, law, dtype)
    file = folder / "prior.npy"
    np.save(file, prior)
    space = ldp.LabelSpace(range(classes))
    rng = np.random.default_rng(2)
    codes = labels.astype(np.min_scalar_type(classes - 1))
    check = partial(_check, labels, _odds(prior, labels))
    subjects = [
        Subject("labeldp", lambda: draw(space, prior, codes), check, note="channel and draw, kept with exact weights"),
        Subject(
            "labeldp, memory-mapped",
            lambda: draw(space, np.load(file, mmap_mode="r"), codes),
            check,
            note="the same from a file",
        ),
        Subject(
            "labeldp privatize",
            lambda: ldp.privatize(labels, ldp.PriorRandomizedResponse(space, EPSILON, prior)).codes,  # type: ignore[attr-defined]  # a release of rows
            check,
            note="and checks of labels, digest of the sets, the release object",
        ),
        Subject("numpy argsort", lambda: respond_by_argsort(prior, labels, rng), check, note="blockwise, PCG64"),
        Subject(
            "numpy argsort, whole table",
            (lambda: respond_by_argsort(prior, labels, rng, prior.size)) if full and dtype is np.float64 else None,
            check,
            note="vectorised as one writes it" if full and dtype is np.float64 else "measured in float64 at 10^5 rows",
        ),
        Subject("numpy sort", lambda: respond_by_sort(prior, labels, rng), check, note="sorts values, not places"),
        Subject("limit: sum of the prior", prior.sum),
        Subject("limit: copy of the prior", prior.copy),
    ]
    bars = []
    if full and dtype is np.float64:  # bars are set at 10^5 rows
        memory = _MEMORY * prior.nbytes / MIB
        ratio = _BARS.get((kind, classes), _FLAT_BAR)
        bars = [
            Bar("labeldp", ("numpy argsort",), ratio, memory),
            Bar("labeldp", ("numpy argsort, whole table",), ratio),
            Bar("labeldp, memory-mapped", ("numpy argsort",), peak_mib_at_most=memory),
        ]
    name = f"n={rows:.0e} K={classes} {kind} {np.dtype(dtype).name}".replace("e+0", "e")
    return Case(name, subjects, "numpy argsort", bars)


def draw(space: ldp.LabelSpace, prior: Table, codes: Codes) -> Codes:
    """Construct the channel, and draw with fresh coins."""
    channel = ldp.PriorRandomizedResponse(space, EPSILON, prior)
    bits = ldp.SystemCoins().session().bits(RowIds.positions(len(codes)), "row release")
    return draw_rows(channel, codes, bits.stream())  # type: ignore[arg-type]  # codes are unsigned


# ---- the sorting solutions ------------------------------------------------------------------------------


def respond_by_argsort(prior: Table, labels: Codes, rng: np.random.Generator, cells: int = _CELLS) -> Codes:
    """Sort places, add up, take the best k, mark the set, and draw; so many cells at a time."""
    rows, classes = prior.shape
    growth = math.exp(EPSILON)
    weight = (growth / (growth + np.arange(classes))).astype(prior.dtype)
    out = np.empty(rows, labels.dtype)
    step = max(1, cells // classes)
    for start in range(0, rows, step):
        block, true = prior[start : start + step], labels[start : start + step]
        order = np.argsort(block, axis=1)[:, ::-1]
        value = np.cumsum(np.take_along_axis(block, order, axis=1), axis=1)
        value *= weight
        k = value.argmax(axis=1) + 1
        inside = np.zeros(block.shape, bool)
        np.put_along_axis(inside, order, np.arange(classes) < k[:, None], axis=1)
        each = np.arange(len(block))
        # Keep, or redraw from the set: together the true label has e^eps / (e^eps + k - 1).
        kept = inside[each, true] & (rng.random(len(block)) < (growth - 1) / (growth - 1 + k))
        rank = (rng.random(len(block)) * k).astype(np.intp)
        out[start : start + step] = np.where(kept, true, order[each, rank])
    return out


def respond_by_sort(prior: Table, labels: Codes, rng: np.random.Generator) -> Codes:
    """Do the same from sorted values alone: the k-th largest is the threshold of the set."""
    rows, classes = prior.shape
    growth = math.exp(EPSILON)
    weight = (growth / (growth + np.arange(classes))).astype(prior.dtype)
    out = np.empty(rows, labels.dtype)
    step = max(1, _CELLS // classes)
    for start in range(0, rows, step):
        block, true = prior[start : start + step], labels[start : start + step]
        ranked = np.sort(block, axis=1)[:, ::-1]
        value = np.cumsum(ranked, axis=1)
        value *= weight
        each = np.arange(len(block))
        inside = block >= ranked[each, value.argmax(axis=1)][:, None]
        k = np.count_nonzero(inside, axis=1)
        kept = inside[each, true] & (rng.random(len(block)) < (growth - 1) / (growth - 1 + k))
        rank = (rng.random(len(block)) * k).astype(np.intp)
        out[start : start + step] = np.where(kept, true, np.nonzero(inside)[1][np.cumsum(k) - k + rank])
    return out


# ---- data -----------------------------------------------------------------------------------------------


def _data(rows: int, classes: int, law: Law, dtype: type) -> tuple[Table, Codes]:
    rng = np.random.default_rng(classes)
    prior: Table = np.empty((rows, classes), dtype)
    step = max(1, (1 << 22) // classes)
    for start in range(0, rows, step):
        prior[start : start + step] = law(rng, min(step, rows - start), classes)
    # Most labels are what the prior expects, some are anything.
    labels = np.where(rng.random(rows) < TOP, prior.argmax(axis=1), rng.integers(0, classes, rows))
    return prior, labels


def _peaked(rng: np.random.Generator, rows: int, classes: int) -> NDArray[np.float64]:
    """Softmax of normals, scaled so that the largest entry is TOP on average."""
    scores = rng.standard_normal((rows, classes))
    sample = np.random.default_rng(0).standard_normal((_CHECKED, classes))
    low, high = 0.0, 256.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if _softmax(middle * sample).max(axis=1).mean() < TOP else (low, middle)
    return _softmax(low * scores)


def _flat(rng: np.random.Generator, rows: int, classes: int) -> NDArray[np.float64]:
    """Uniform on the simplex: Dirichlet(1)."""
    table = rng.standard_exponential((rows, classes))
    table /= table.sum(axis=1, keepdims=True)
    return table


def _near_uniform(rng: np.random.Generator, rows: int, classes: int) -> NDArray[np.float64]:
    """All labels about as likely."""
    return _softmax(0.01 * rng.standard_normal((rows, classes)))


def _softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    table: NDArray[np.float64] = np.exp(scores - scores.max(axis=1, keepdims=True))
    table /= table.sum(axis=1, keepdims=True)
    return table


_LAWS: Final[dict[str, Law]] = {"peaked": _peaked, "flat": _flat, "near uniform": _near_uniform}


# ---- sanity ---------------------------------------------------------------------------------------------


def _odds(prior: Table, labels: Codes) -> NDArray[np.float64]:
    """P(released = true) of the first rows, by the definition: the maximum over k, in float64."""
    table = prior[:_CHECKED].astype(np.float64)
    growth = math.exp(EPSILON)
    ranked = -np.sort(-table, axis=1)
    k = (np.cumsum(ranked, axis=1) / (growth + np.arange(table.shape[1]))).argmax(axis=1) + 1
    each = np.arange(len(table))
    inside = table[each, labels[: len(table)]] >= ranked[each, k - 1]
    return np.where(inside, growth / (growth + k - 1), 0.0)


def _check(labels: Codes, odds: NDArray[np.float64], released: Any) -> None:
    """The shape and the range are right, and labels survive as often as they should (within 6 sigma)."""
    array = np.asarray(released)
    assert array.shape == labels.shape
    assert array.dtype.kind in "iu"
    assert int(array.min()) >= 0
    survived = int((array == labels)[: len(odds)].sum())
    spread = math.sqrt(float((odds * (1 - odds)).sum()))
    assert abs(survived - float(odds.sum())) <= 6 * spread + 3, (survived, odds.sum(), spread)


BENCHMARK: Final = Benchmark(
    "prior-response",
    "RRWithPrior at epsilon 1 from one prior a row: construct the channel and draw; seconds are medians, peak_mib is "
    "what Python and NumPy allocate during the run (tracemalloc, in a pass of its own; the prior itself is not in it)",
    ("labeldp", "numpy", "cryptography"),
    cases,
)
