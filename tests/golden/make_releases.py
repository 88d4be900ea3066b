"""Make the golden release files, once for each version of the format: ``python tests/golden/make_releases.py``.

They stay as they are: whatever the library becomes, it reads them.  A new kind of release adds files; nothing is
ever written over.
"""

from __future__ import annotations

import json
import sys
import uuid
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import labeldp as ldp
from labeldp.noise import guarantee_of_counts, guarantee_of_vector
from labeldp.release import FORMAT_VERSION, CountRelease, LabelledRelease, Release, Stamp

HERE = Path(__file__).parent / "releases"
ROWS = 12
KEY = bytes(range(32))
TEXT = ldp.LabelSpace(["a", "b", 'c, "quoted"', None, ""])
NUMBER = ldp.LabelSpace([3, -1, 7])
TRUTH = ldp.LabelSpace([False, True])
NUMBERS = [3, -1, 7, 7, 3, 3, -1, 7, 3, -1, -1, 7]
TEXTS = ["a", "b", 'c, "quoted"', None, ""] * 2 + ["a", "b"]
TRUTHS = [True, False, False] * 4
GROUPS = np.arange(ROWS) % 2
INTEGERS = [-(2**63), -1, 0, 1, 2**63 - 1, *range(100, 107)]
UUIDS = [uuid.UUID(int=2**120 + 7**i) for i in range(ROWS)]
WORDS = [f"é{i}, {'x' * i}" for i in range(ROWS)]
#: A law for each group, and a prior for each row: binary fractions, which are the same everywhere.
LAWS = np.array([[2, 1, 1], [1, 6, 1]]) / np.array([[4], [8]])
PRIORS = np.array([[8, 4, 4], [2, 12, 2], [5, 5, 6]])[np.arange(ROWS) % 3] / 16


def keyed(labels: Any, mechanism: Any, ids: Any, **names: Any) -> Release:
    """Release with a kept key and a ledger, as an owner would."""
    ledger = ldp.Ledger(key=KEY[::-1])
    curator = ldp.Curator(labels, 4, ldp.KeyedCoins(KEY), ledger, space=mechanism.space, ids=ids, **names)
    return curator.release(mechanism)


def seeded(labels: Any, mechanism: Any) -> Release:
    """Release without row ids; only a seed repeats that."""
    return ldp.privatize(labels, mechanism, coins=ldp.SeededCoins(1))


def stamp(guarantee: ldp.Guarantee) -> Stamp:
    """Stamp what no mechanism draws yet."""
    return Stamp(guarantee, "keyed", "00" * 32, dataset="golden", library="0.1.0")


def releases() -> dict[str, Release]:
    """One release of every kind, of every family of channels, and with ids of every kind."""
    half = Fraction(1, 2)
    laplace, gaussian = ldp.DiscreteLaplace(half), ldp.DiscreteGaussian(Fraction(9, 2))
    tenths = (np.full((3, 3), 3) + np.eye(3) * 7) / 16
    wide = ldp.LabelSpace(["low", "middle", "high", "none"])
    to_wide = np.array([[4, 2, 1, 1], [2, 4, 1, 1], [1, 1, 4, 2]]) / 8
    response = ldp.RandomizedResponse(NUMBER, 1)
    table = seeded(NUMBERS, response)
    assert isinstance(table, ldp.RowRelease)
    features = pa.table({"x": np.arange(ROWS) / 8, "when": pa.array(range(ROWS), pa.date32()), "word": WORDS})
    counts = np.array([[4, -1, 2], [0, 3, 5]])
    return {
        "rows-positions": seeded(TEXTS, ldp.RandomizedResponse(TEXT, 1)),
        "rows-integers": keyed(
            NUMBERS, response, INTEGERS, dataset="d", version="2", part="p", column="vote", id_column="voter"
        ),
        "rows-words": keyed(TRUTHS, ldp.TopKRandomizedResponse(TRUTH, 1, [True]), WORDS),
        "rows-uuids": keyed(TEXTS, ldp.RandomizedResponse(TEXT, keep=Fraction(3, 4)), UUIDS, person=GROUPS),
        "top-k": keyed(NUMBERS, ldp.TopKRandomizedResponse(NUMBER, 1, [3, 7]), INTEGERS),
        "prior": keyed(NUMBERS, ldp.PriorRandomizedResponse(NUMBER, 1, PRIORS[0]), INTEGERS),
        "prior-by-row": keyed(NUMBERS, ldp.PriorRandomizedResponse(NUMBER, 1, PRIORS), INTEGERS),
        "resampled": keyed(NUMBERS, ldp.ResampledResponse(NUMBER, LAWS[0], 1), INTEGERS),
        "resampled-by-group": keyed(NUMBERS, ldp.ResampledResponse(NUMBER, LAWS, half, groups=GROUPS), INTEGERS),
        "table": keyed(NUMBERS, ldp.TableChannel(NUMBER, tenths, 2), INTEGERS),
        "table-released": keyed(NUMBERS, ldp.TableChannel(NUMBER, to_wide, released=wide), INTEGERS),
        "table-by-group": keyed(
            NUMBERS, ldp.ResampledResponse(NUMBER, LAWS, 1, groups=GROUPS).followed_by(response), INTEGERS
        ),
        "histogram": keyed(NUMBERS, ldp.LabelHistogram(NUMBER, 1, groups=GROUPS), INTEGERS),
        "histogram-paired": keyed(TRUTHS, ldp.LabelHistogram(TRUTH, 1, groups=GROUPS), WORDS),
        "bags": ldp.BagRelease(
            NUMBER, counts, np.array([6, 6]), laplace, GROUPS[::-1].copy(), stamp(guarantee_of_counts(laplace, 3))
        ),
        "bags-gaussian": ldp.BagRelease(
            NUMBER, counts, np.array([6, 6]), gaussian, GROUPS, stamp(guarantee_of_counts(gaussian, 3))
        ),
        "bags-asked": ldp.privatize(
            NUMBERS,
            ldp.BagCounts(NUMBER, 1, Fraction(1, 1000), "gaussian"),
            ids=INTEGERS,
            coins=ldp.KeyedCoins(KEY),
            bags=GROUPS,
        ),
        "clusters": keyed(NUMBERS, ldp.ClusterPriorResponse(NUMBER, 2, GROUPS, choose="information"), INTEGERS),
        "vector": ldp.VectorRelease(
            NUMBER,
            np.arange(6).reshape(3, 2) - 2,
            Fraction(1, 8),
            laplace,
            Fraction(2),
            stamp(guarantee_of_vector(laplace, l1=2)),
            rows=ROWS,
        ),
        "features": ldp.TableRelease(table.codes, table.channel, features, table.stamp),
    }


def said(release: Release) -> dict[str, Any]:
    """What a release says, as JSON."""
    stamp = release.stamp.to_json()
    facts: dict[str, Any] = {
        "kind": release.kind,
        "type": type(release).__name__,
        "values": np.asarray(release).tolist(),
        "space": release.space.to_json(),
        "private": release.private,
        "epsilon": release.guarantee.epsilon(),
        "epsilon at 1e-6": release.guarantee.epsilon(1e-6),
        "delta at 1/4": release.guarantee.delta(0.25),
        "person": None if release.person_guarantee is None else release.person_guarantee.epsilon(),
        "text": str(release.guarantee),
        "stamp": {name: value for name, value in stamp.items() if name not in {"guarantee", "estimate", "library"}},
    }
    if isinstance(release, LabelledRelease):
        ids = None if release.ids is None else release.ids.to_arrow().to_pylist()
        facts["ids"] = [value.hex() if isinstance(value, bytes) else value for value in ids] if ids else None
        facts["family"] = release.channel.family
        facts["channel epsilon"] = release.channel.epsilon
        facts["likelihood"] = release.channel.likelihood(release.codes).tolist()
    elif isinstance(release, CountRelease):
        facts |= {"sizes": release.sizes.tolist(), "paired": release.paired, "noise": release.noise.to_json()}
    if isinstance(release, ldp.ClusterRelease):
        facts |= {"counts": release.counts.tolist(), "groups": release.groups.tolist()}
        facts["labels cost"] = str(release.response_epsilon)
    if isinstance(release, ldp.BagRelease):
        facts["bags"] = release.bags.tolist()
    if isinstance(release, ldp.VectorRelease):
        facts |= {"rows": release.rows, "step": str(release.step), "noise": release.noise.to_json()}
        facts["sensitivity"] = str(release.sensitivity)
    if isinstance(release, ldp.TableRelease):
        facts["features"] = json.loads(json.dumps(release.features.to_pydict(), default=str))
    return facts


def main(folder: Path) -> None:
    """Write every release that is not there yet, and what it says."""
    folder.mkdir(exist_ok=True)
    for name, release in releases().items():
        for ending in ("parquet", "csv", "csv.gz") if name == "rows-positions" else ("parquet", "csv"):
            path = folder / f"v{FORMAT_VERSION}-{name}.{ending}"
            if not path.exists():
                release.write(path)
        expected = folder / f"v{FORMAT_VERSION}-{name}.expected.json"
        if not expected.exists():
            expected.write_text(json.dumps(said(release), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else HERE)
