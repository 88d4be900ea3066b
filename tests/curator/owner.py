"""An owner at work: every mechanism, released, repeated and refused; what others could see of it is printed.

Run as ``python -W always -m tests.curator.owner FOLDER COLUMN``; the label columns differ in one row.
"""

from __future__ import annotations

import importlib
import inspect
import json
import logging
import pkgutil
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import labeldp as ldp
from labeldp.errors import LabeldpError
from labeldp.release import manifest_of
from tests.channels.test_laws import final_classes

SPACE = ldp.LabelSpace(["a", "b", "c"])
ROWS = 24
IDS = [f"row {i}" for i in range(ROWS)]
#: One label everywhere, which is as telling as a column can be; then one row is another one that is nowhere else.
COLUMNS = {
    "plain": ["a"] * ROWS,
    "first row": ["b"] + ["a"] * (ROWS - 1),
    "inner row": ["a"] * 7 + ["c"] + ["a"] * (ROWS - 8),
}
HALF = Fraction(1, 2)
GROUPS = np.arange(ROWS) % 3
LAWS = np.array([[2, 1, 1], [1, 2, 1], [1, 1, 6]]) / np.array([[4], [4], [8]])
PRIORS = np.array([[8, 6, 2], [2, 12, 2], [5, 5, 6], [15, 1, 0]])[np.arange(ROWS) % 4] / 16
TABLE = [[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.3, 0.3, 0.4]]

#: How to make each mechanism, in every form it has.  A new one is made as ``Mechanism(space, epsilon)``, with features
#: and bags at hand, unless it has a line here.
MAKERS: dict[str, list[Callable[[], Any]]] = {
    "RandomizedResponse": [
        lambda: ldp.RandomizedResponse(SPACE, HALF),
        lambda: ldp.RandomizedResponse(SPACE, keep=Fraction(7, 16)),
    ],
    "TopKRandomizedResponse": [
        lambda: ldp.TopKRandomizedResponse(SPACE, HALF, ["a", "b"]),
        lambda: ldp.TopKRandomizedResponse(SPACE, HALF, ["b"]),
    ],
    "PriorRandomizedResponse": [
        lambda: ldp.PriorRandomizedResponse(SPACE, HALF, PRIORS[0]),
        lambda: ldp.PriorRandomizedResponse(SPACE, HALF, PRIORS),
        lambda: ldp.PriorRandomizedResponse(SPACE, HALF, PRIORS, choose="information"),
    ],
    "ResampledResponse": [
        lambda: ldp.ResampledResponse(SPACE, LAWS[0], HALF),
        lambda: ldp.ResampledResponse(SPACE, LAWS, HALF, groups=GROUPS),
    ],
    "TableChannel": [
        lambda: ldp.TableChannel(SPACE, TABLE, HALF),
        lambda: ldp.ResampledResponse(SPACE, LAWS, HALF, groups=GROUPS).followed_by(ldp.RandomizedResponse(SPACE, 1)),
    ],
    "ClusterPriorResponse": [
        lambda: ldp.ClusterPriorResponse(SPACE, HALF, GROUPS),
        lambda: ldp.ClusterPriorResponse(SPACE, HALF, GROUPS, split=Fraction(1, 2), smooth=1.0, choose="information"),
    ],
    "LabelHistogram": [
        lambda: ldp.LabelHistogram(SPACE, HALF),
        lambda: ldp.LabelHistogram(SPACE, HALF, groups=GROUPS),
    ],
}


def mechanisms_of_the_package() -> dict[str, Any]:
    """Find every class of the package that can be planned, wherever it is."""
    found: dict[str, Any] = {kind.__name__: kind for kind in final_classes()}
    for module in pkgutil.walk_packages(ldp.__path__, "labeldp."):
        if module.name.startswith(("labeldp.cli", "labeldp.demo", "labeldp.learn.torch", "labeldp.service")):
            continue
        for name, kind in vars(importlib.import_module(module.name)).items():
            own = inspect.isclass(kind) and kind.__module__ == module.name and not getattr(kind, "_is_protocol", False)
            if own and callable(getattr(kind, "plan", None)) and not inspect.isabstract(kind):
                found[name] = kind
    return found


def makers() -> dict[str, list[Callable[[], Any]]]:
    """Return how to make every mechanism of the package."""
    return {name: MAKERS.get(name, [partial(kind, SPACE, HALF)]) for name, kind in mechanisms_of_the_package().items()}


def refusals(curator: ldp.Curator) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Requests that are refused, for their form or for want of budget."""
    good = ldp.RandomizedResponse(SPACE, HALF)
    yield "too dear", lambda: curator.release(ldp.RandomizedResponse(SPACE, 40))
    yield "too dear, for some rows", lambda: curator.release(ldp.RandomizedResponse(SPACE, 40), rows=[7, 3])
    yield "no epsilon", lambda: curator.release(ldp.RandomizedResponse(SPACE, 0))
    yield "not a number", lambda: curator.release(ldp.LabelHistogram(SPACE, float("nan")))
    yield "another length", lambda: curator.release(ldp.PriorRandomizedResponse(SPACE, HALF, PRIORS[1:]))
    yield "another number of groups", lambda: curator.release(ldp.LabelHistogram(SPACE, HALF, groups=GROUPS[1:]))
    yield "another space", lambda: curator.release(ldp.RandomizedResponse(ldp.LabelSpace(["a", "b"]), HALF))
    yield "no such row", lambda: curator.release(good, rows=[ROWS])
    yield "no mechanism", lambda: curator.release("response")  # type: ignore[arg-type]


def seen(release: ldp.Release) -> dict[str, Any]:
    """All of a release that is not drawn."""
    manifest, table = manifest_of(release)
    drawn = {release.stamp.column, "value", *(f"count_{code}" for code in range(SPACE.size))}
    if release.kind == "clusters":
        # Counts are drawn, and so are the sets that are made of them: each row's, and which sizes they have.
        drawn.add("channel_label_set")
        del manifest["counts"], manifest["channel"]["tables"]
    public = {name: str(table.column(name).to_pylist()) for name in table.column_names if name not in drawn}
    return {"repr": repr(release), "manifest": manifest, "columns": table.column_names, "public": public}


def work(curator: ldp.Curator, ledger: ldp.Ledger, folder: Path) -> dict[str, Any]:
    """Release through every mechanism, twice, ask for what is refused, and tell what could be seen."""
    told: dict[str, Any] = {}

    def state() -> dict[str, Any]:
        return {
            "left": str(curator.left),
            "spent": str(curator.spent),
            "entries": [str((*vars(entry).values(),)) for entry in ledger.entries()],
            "head": ledger.verify().head,
            "files": sorted(str(path.relative_to(folder)) for path in folder.rglob("*")),
            "repr": f"{curator!r}",
        }

    for name, forms in sorted(makers().items()):
        for number, make in enumerate(forms):
            for rows in (None, np.arange(0, ROWS, 2)) if name == "RandomizedResponse" else (None,):
                first = curator.release(make(), rows=rows)
                again = curator.release(make(), rows=rows)
                assert np.asarray(first).tolist() == np.asarray(again).tolist()
                assert manifest_of(first)[0] == manifest_of(again)[0]
                part = "" if rows is None else ", some rows"
                told[f"{name} {number}{part}"] = {"release": seen(first), **state()}
    for name, attempt in refusals(curator):
        try:
            attempt()
        except LabeldpError as error:
            told[name] = {"error": type(error).__name__, "text": str(error), "context": str(error.context), **state()}
        else:
            raise AssertionError(f"{name} was not refused")
    return told


def main(folder: Path, column: str) -> None:
    """Do it with a kept key and with fresh ones; then ask for too much, and end of that."""
    logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
    labels = ldp.RawLabels(COLUMNS[column], SPACE)
    told = {}
    for coins in (ldp.KeyedCoins(bytes(32)), ldp.SystemCoins()):
        place = folder / coins.kind
        place.mkdir(parents=True)
        with ldp.Ledger(place / "ledger.db", key=bytes(range(32))) as ledger:
            curator = ldp.Curator(
                labels,
                12,
                coins,
                ledger,
                ids=IDS,
                features=np.arange(2 * ROWS).reshape(-1, 2),
                bags=GROUPS,
                person=np.arange(ROWS) // 2,
                dataset="d",
            )
            told[coins.kind] = work(curator, ledger, place)
    print(json.dumps(told, indent=1))
    curator.release(ldp.RandomizedResponse(SPACE, 41))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
