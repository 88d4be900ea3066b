"""Release files: complete or absent, enough to learn from, and refused when altered."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labeldp as ldp
from labeldp import errors
from labeldp.noise import guarantee_of_counts, guarantee_of_vector
from labeldp.release import BagRelease, Stamp, TableRelease, VectorRelease, manifest_of
from labeldp.testing import strategies

TEXT = ldp.LabelSpace(["a", "b", 'c, "quoted"', None])
NUMBER = ldp.LabelSpace([3, -1, 7])
TRUTH = ldp.LabelSpace([False, True])


def stamp(guarantee: ldp.Guarantee) -> Stamp:
    """A stamp as a curator would give it."""
    return replace(ldp.privatize([3, -1], ldp.RandomizedResponse(NUMBER, 1)).stamp, guarantee=guarantee)


def releases() -> dict[str, Any]:
    """One release of every kind, label type and id type."""
    rng = np.random.default_rng(0)
    texts = ["a", "b", 'c, "quoted"', None] * 10
    numbers = [3, -1, 7, 7] * 10
    ids = list(range(-5, 35))
    noise = ldp.DiscreteLaplace(Fraction(1, 2))
    held = guarantee_of_counts(noise, 3)
    rows = ldp.privatize(numbers, ldp.RandomizedResponse(NUMBER, 1), coins=ldp.SeededCoins(0))
    features = pa.table({"x": rng.normal(size=40), "when": pa.array([0] * 40, pa.date32())})
    return {
        "texts": ldp.privatize(texts, ldp.RandomizedResponse(TEXT, 1)),
        "numbers with ids": ldp.privatize(numbers, ldp.RandomizedResponse(NUMBER, 1), ids=ids),
        "truths with text ids": ldp.privatize(
            [True, False] * 20, ldp.TopKRandomizedResponse(TRUTH, 1, [True, False]), ids=[f"é{i}" for i in ids]
        ),
        "a prior a row": ldp.privatize(
            numbers, ldp.PriorRandomizedResponse(NUMBER, 1, rng.dirichlet(np.ones(3), 40)), ids=ids
        ),
        "a law a group": ldp.privatize(
            numbers, ldp.ResampledResponse(NUMBER, rng.dirichlet(np.ones(3), 2), 1, groups=np.arange(40) % 2)
        ),
        "a table": ldp.privatize(numbers, ldp.TableChannel(NUMBER, np.full((3, 3), 0.2) + np.eye(3) * 0.4)),
        "seeded": rows,
        "histogram": ldp.privatize(numbers, ldp.LabelHistogram(NUMBER, 1, groups=np.arange(40) % 3)),
        "clusters": ldp.privatize(numbers, ldp.ClusterPriorResponse(NUMBER, 1, np.arange(40) % 3), ids=ids),
        "bags": BagRelease(
            NUMBER,
            np.arange(9).reshape(3, 3),
            np.array([10, 0, 30]),
            noise,
            np.repeat([0, 2, 2, 2], 10),
            stamp(held),
        ),
        "vector": VectorRelease(
            NUMBER,
            np.arange(6).reshape(3, 2),
            Fraction(1, 8),
            noise,
            Fraction(2),
            stamp(guarantee_of_vector(noise, l1=2)),
            rows=40,
        ),
        "features too": TableRelease(rows.codes, rows.channel, features, stamp(rows.channel.guarantee)),
    }


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz"])
@pytest.mark.parametrize("name", releases())
def test_what_is_written_is_read(name: str, ending: str, tmp_path: Path) -> None:
    """Every kind survives every format: values, channel, guarantee, ids."""
    release = releases()[name]
    path = tmp_path / f"x.{ending}"

    release.write(path)
    back = ldp.read_release(path)

    assert manifest_of(back)[0] == manifest_of(release)[0]
    assert manifest_of(back)[1].to_pydict() == manifest_of(release)[1].to_pydict()
    assert np.asarray(back).tolist() == np.asarray(release).tolist()
    assert back.guarantee == release.guarantee
    assert type(back) is type(release)


@given(data=st.data(), ending=st.sampled_from(["parquet", "csv", "csv.gz"]))
def test_any_labels_ids_and_names_are_written_and_read(
    data: st.DataObject, ending: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Line feeds, quotes, empty and missing labels, ids of any kind and columns of any name survive every format."""
    space = data.draw(strategies.label_spaces())
    labels = data.draw(st.lists(st.sampled_from(space.labels), min_size=1, max_size=6))
    ids = data.draw(strategies.ids(len(labels)))
    column, id_column, dataset = data.draw(st.lists(strategies.texts, min_size=3, max_size=3, unique=True))
    curator = ldp.Curator(
        labels,
        coins=ldp.KeyedCoins(bytes(32)),
        space=space,
        ids=ids,
        column=f"c{column}",
        id_column=f"i{id_column}",
        dataset=dataset,
    )
    release = curator.release(ldp.RandomizedResponse(space, 1))
    path = tmp_path_factory.mktemp("any") / f"x.{ending}"

    release.write(path)
    back = ldp.read_release(path)

    assert manifest_of(release)[0] == manifest_of(back)[0]
    assert manifest_of(release)[1].equals(manifest_of(back)[1])
    assert np.asarray(release).tolist() == np.asarray(back).tolist()


def test_a_read_release_is_enough_to_learn_from(tmp_path: Path) -> None:
    """The channel of a file that was opened elsewhere explains each row exactly as the owner's did."""
    release = releases()["a prior a row"]
    release.write(tmp_path / "x.parquet")

    back = ldp.read_release(tmp_path / "x.parquet")

    assert back.channel == release.channel
    assert back.channel.epsilon_exact == release.channel.epsilon_exact
    assert np.array_equal(back.channel.likelihood(back.codes), release.channel.likelihood(release.codes))
    assert np.array_equal(back.channel.weights_of(7), release.channel.weights_of(7))


def altered(path: Path, change: Any) -> None:
    """Rewrite a Parquet release with a changed manifest or table."""
    table = pq.read_table(path)
    metadata = dict(table.schema.metadata)
    table, metadata = change(table, metadata)
    pq.write_table(table.replace_schema_metadata(metadata), path)


def manifest_change(**facts: Any) -> Any:
    """Change facts of the manifest."""

    def change(table: pa.Table, metadata: dict[bytes, bytes]) -> tuple[pa.Table, dict[bytes, bytes]]:
        manifest = {**json.loads(metadata[b"labeldp"]), **facts}
        return table, {**metadata, b"labeldp": json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()}

    return change


def resealed(change: Any) -> Any:
    """Make a change and a new seal, as a careful forger would."""
    from labeldp.release.files import _sealed

    def both(table: pa.Table, metadata: dict[bytes, bytes]) -> tuple[pa.Table, dict[bytes, bytes]]:
        table, metadata = change(table, metadata)
        return table, {**metadata, b"labeldp.seal": _sealed(metadata[b"labeldp"], table).encode()}

    return both


def smaller_epsilon(table: pa.Table, metadata: dict[bytes, bytes]) -> tuple[pa.Table, dict[bytes, bytes]]:
    """Promise the epsilon of another release."""
    other = ldp.privatize([3, -1], ldp.RandomizedResponse(NUMBER, Fraction(1, 2)))
    manifest = json.loads(metadata[b"labeldp"])
    stated = {**manifest["stamp"]["guarantee"], "charge": other.guarantee.charge().to_json()}  # type: ignore[union-attr]
    return manifest_change(stamp={**manifest["stamp"], "guarantee": stated})(table, metadata)


def broken_weights(table: pa.Table, metadata: dict[bytes, bytes]) -> tuple[pa.Table, dict[bytes, bytes]]:
    """Declare a weight that no response has."""
    manifest = json.loads(metadata[b"labeldp"])
    return manifest_change(channel={**manifest["channel"], "other": "0"})(table, metadata)


DAMAGE = {
    "another kind": manifest_change(kind="vector"),
    "another space": manifest_change(rows=3),
    "a row less": lambda t, m: (t.slice(1), m),
    "a label changed": lambda t, m: (t.set_column(1, "label", pa.array([3] * t.num_rows)), m),
    "no manifest": lambda t, m: (t, {k: v for k, v in m.items() if k != b"labeldp"}),
    "no seal": lambda t, m: (t, {b"labeldp": m[b"labeldp"]}),
    "half a manifest": lambda t, m: (t, {**m, b"labeldp": m[b"labeldp"][:50]}),
    "a newer format, sealed": resealed(manifest_change(format_version=99)),
    "a smaller epsilon, sealed": resealed(smaller_epsilon),
    "broken weights, sealed": resealed(broken_weights),
    "a row less, sealed": resealed(lambda t, m: (t.slice(1), m)),
    "an unknown kind, sealed": resealed(manifest_change(kind="story")),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_file_is_refused(name: str, tmp_path: Path) -> None:
    """No altered manifest or column is believed."""
    path = tmp_path / "x.parquet"
    releases()["numbers with ids"].write(path)
    altered(path, DAMAGE[name])

    with pytest.raises(errors.ReleaseFileError, match="Expected"):
        ldp.read_release(path)


@given(cut=st.floats(0, 0.999))
def test_a_truncated_file_is_refused(cut: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Cut anywhere, a file is not a release."""
    path = tmp_path_factory.mktemp("cut") / "x.parquet"
    releases()["texts"].write(path)
    data = path.read_bytes()
    path.write_bytes(data[: int(cut * len(data))])

    with pytest.raises(errors.ReleaseFileError):
        ldp.read_release(path)


def test_something_else_is_refused(tmp_path: Path) -> None:
    """A missing file, a plain Parquet file and a CSV file without its sidecar have clear errors."""
    plain, lone = tmp_path / "plain.parquet", tmp_path / "lone.csv"
    pq.write_table(pa.table({"x": [1]}), plain)
    lone.write_text("label\n1\n")

    for path in (tmp_path / "absent.parquet", plain, lone):
        with pytest.raises(errors.ReleaseFileError, match="Expected a release"):
            ldp.read_release(path)


def test_an_interrupted_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the disk fails, the old file stays and no part of the new one is left."""
    path = tmp_path / "x.parquet"
    releases()["texts"].write(path)
    before = path.read_bytes()

    def fail(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space"):
        releases()["numbers with ids"].write(path)

    assert path.read_bytes() == before
    assert [path] == list(tmp_path.iterdir())


@pytest.mark.parametrize("mask", [0o022, 0o027, 0o077, 0o002])
def test_a_file_has_the_usual_mode_and_the_mask_is_not_touched(
    mask: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel applies the process's mask: to read it would change it, and folders of other threads with it."""
    usual = os.umask(mask)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", lambda _mask: pytest.fail("the mask of the process was changed"))
            for ending in ("parquet", "csv"):
                releases()["texts"].write(tmp_path / f"x.{ending}")
    finally:
        os.umask(usual)

    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert dict.fromkeys(["x.parquet", "x.csv", "x.csv.json"], 0o666 & ~mask) == modes


def test_no_secret_is_in_a_file(tmp_path: Path) -> None:
    """Neither the key nor the ledger's key can be found in a release."""
    key, chain = bytes(range(100, 132)), bytes(range(50, 82))
    with ldp.Ledger(tmp_path / "l.db", key=chain) as ledger:
        curator = ldp.Curator(ldp.RawLabels([3, -1], NUMBER), 1, ldp.KeyedCoins(key), ledger, ids=[1, 2])
        curator.release(ldp.RandomizedResponse(NUMBER, 1)).write(tmp_path / "x.csv")
    text = (tmp_path / "x.csv").read_bytes() + (tmp_path / "x.csv.json").read_bytes()

    for secret in (key, chain):
        assert secret not in text
        assert secret.hex().encode() not in text
