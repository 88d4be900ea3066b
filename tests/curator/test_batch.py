"""The kernel: the same bits whole, in batches, shuffled, and from a file."""

from __future__ import annotations

import pickle
import uuid
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as ldp
from labeldp import errors
from labeldp.curator import prepare
from tests.channels.test_laws import final_classes

SPACE = ldp.LabelSpace(["no", "yes", "maybe"])
ROWS = 5_500
KEY = bytes(range(32))


def table() -> pa.Table:
    """A table with a column that must pass through."""
    rng = np.random.default_rng(2)
    return pa.table(
        {
            "id": [f"user-{i}" for i in range(ROWS)],
            "income": rng.normal(size=ROWS),
            "label": rng.choice(["no", "yes", "maybe"], ROWS),
        }
    )


def channels() -> list[ldp.FiniteChannel]:
    """One channel of each family and of each way to hold parameters: shared, by group, by row."""
    rng = np.random.default_rng(3)
    groups, laws = np.arange(ROWS) % 5, rng.dirichlet(np.ones(3), 5)
    response = ldp.RandomizedResponse(SPACE, 1)
    return [
        response,
        ldp.TopKRandomizedResponse(SPACE, 1, ["no", "maybe"]),
        ldp.PriorRandomizedResponse(SPACE, 1, [0.5, 0.3, 0.2]),
        ldp.PriorRandomizedResponse(SPACE, 1, rng.dirichlet(np.ones(3), ROWS)),
        ldp.ResampledResponse(SPACE, laws[0], 1),
        ldp.ResampledResponse(SPACE, laws, 1, groups=groups),
        ldp.TableChannel(SPACE, (np.ones((3, 3)) + np.eye(3)) / 4, 2),
        ldp.ResampledResponse(SPACE, laws, 1, groups=groups).followed_by(response),
    ]


def test_every_family_of_channels_goes_through_the_kernel() -> None:
    """A new family of channels cannot be added without going through the kernel here."""
    assert set(final_classes()) == {type(channel) for channel in channels()}


@pytest.mark.parametrize("channel", channels(), ids=lambda c: f"{type(c).__name__}, {c.rows or 'shared'}")
def test_the_same_bits_however_the_rows_come(channel: ldp.FiniteChannel, tmp_path: Path) -> None:
    """Whole, in batches of 1,000, shuffled, read back from a file: one released label per row."""
    whole = table()
    coins = ldp.KeyedCoins(KEY)
    expected = np.asarray(ldp.privatize(whole.column("label"), channel, ids=whole.column("id"), coins=coins)).tolist()
    pq.write_table(whole, tmp_path / "t.parquet", row_group_size=1_000)
    stored = pq.read_table(tmp_path / "t.parquet")
    order = np.random.default_rng(4).permutation(ROWS)
    shuffled = whole.take(order)

    batches = whole.to_batches(max_chunksize=1_000)
    kernel = prepare(channel, coins, batches)
    starts = np.cumsum([0, *(b.num_rows for b in batches)])
    in_batches = pa.Table.from_batches([kernel(b, start=int(s)) for b, s in zip(batches, starts, strict=False)])
    from_file = ldp.privatize(stored.column("label"), channel, ids=stored.column("id"), coins=coins)
    from_shuffled = ldp.privatize(shuffled.column("label"), channel.take(order), ids=shuffled.column("id"), coins=coins)

    coins_of_file = ldp.KeyedCoins(KEY)
    ldp.privatize(whole.column("label"), channel, ids=whole.column("id"), coins=coins_of_file).write(tmp_path / "r.csv")

    assert np.asarray(ldp.read_release(tmp_path / "r.csv")).tolist() == expected
    assert in_batches.column("label").to_pylist() == expected
    assert in_batches.drop("label").equals(whole.drop("label"))
    assert np.asarray(from_file).tolist() == expected
    assert np.asarray(from_shuffled).tolist() == [expected[i] for i in order]


def test_the_digest_pass_does_not_depend_on_batches() -> None:
    """Two ways of cutting the same table prepare the same kernel."""
    whole = table()
    channel = ldp.RandomizedResponse(SPACE, 1)

    one = prepare(channel, ldp.KeyedCoins(KEY), whole.to_batches(max_chunksize=700))
    two = prepare(channel, ldp.KeyedCoins(KEY), reversed(whole.to_batches(max_chunksize=2_000)))

    assert one._context == two._context


def test_a_kernel_needs_ids_under_a_kept_key_and_hides_it() -> None:
    """A kernel shows no key and is not pickled; an empty table is refused."""
    whole = table()
    kernel = prepare(ldp.RandomizedResponse(SPACE, 1), ldp.KeyedCoins(KEY), whole.to_batches())

    assert KEY.hex() not in repr(kernel)
    assert repr(KEY) not in repr(kernel)
    with pytest.raises(errors.RawLabelsError):
        pickle.dumps(kernel)
    with pytest.raises(errors.EmptyInputError):
        prepare(ldp.RandomizedResponse(SPACE, 1), ldp.KeyedCoins(KEY), [])


@pytest.mark.parametrize("sizes", [[1], [3, 0, 1_000], [5_499, 1]], ids=str)
@pytest.mark.parametrize("kind", ["integer", "text", "uuid"])
def test_batches_of_any_size_and_ids_of_any_kind(kind: str, sizes: list[int]) -> None:
    """One row, no row or nearly all at a time, in any order: the bits are those of the whole."""
    numbers = np.arange(-20, ROWS - 20)
    ids = {
        "integer": pa.array(numbers),
        "text": pa.array([f"{'x' * (i % 40)}{i}" for i in numbers]),
        "uuid": pa.array([uuid.UUID(int=2**90 + int(i)).bytes for i in numbers], pa.binary(16)),
    }[kind]
    whole = pa.table({"id": ids, "label": table().column("label")}).slice(0, 300 if sizes == [1] else ROWS)
    channel, coins = ldp.RandomizedResponse(SPACE, 1), ldp.KeyedCoins(KEY)
    expected = np.asarray(ldp.privatize(whole.column("label"), channel, ids=whole.column("id"), coins=coins)).tolist()
    parts, start = [], 0
    while start < whole.num_rows:
        size = sizes[len(parts) % len(sizes)]
        parts.append(whole.slice(start, size).combine_chunks())
        start += size
    batches = [batch for part in parts for batch in part.to_batches() or [empty(part)]]
    kernel = prepare(channel, coins, batches)

    released = [kernel(batch).column("label").to_pylist() for batch in reversed(batches)]

    assert expected == [label for part in reversed(released) for label in part]


def empty(part: pa.Table) -> pa.RecordBatch:
    """Return a batch of no rows."""
    return pa.RecordBatch.from_pylist([], part.schema)


def test_the_kernel_and_the_curator_are_one_function() -> None:
    """Data set, version and column mean the same to both: either of two organisations' programs gives the same labels."""
    whole = table().rename_columns(["who", "income", "vote"])
    coins = ldp.KeyedCoins(KEY)
    channel = ldp.RandomizedResponse(SPACE, 1)
    names = {"dataset": "census", "version": "2025"}
    curator = ldp.Curator(
        whole.column("vote"), coins=coins, space=SPACE, ids=whole.column("who"), column="vote", id_column="who", **names
    )
    kernel = prepare(channel, coins, whole.to_batches(), label="vote", id="who", **names)

    released = pa.Table.from_batches([kernel(batch) for batch in whole.to_batches()])

    assert np.asarray(curator.release(channel)).tolist() == released.column("vote").to_pylist()


def test_ids_of_a_table_are_unique_across_its_batches() -> None:
    """An id that comes again, in the same batch or in another one, is refused: its rows would share their coins."""
    whole = table()
    channel, coins = ldp.RandomizedResponse(SPACE, 1), ldp.KeyedCoins(KEY)
    for again in (1, 1_500, ROWS - 1):
        ids = whole.column("id").to_pylist()
        ids[again] = ids[0]
        batches = whole.set_column(0, "id", pa.array(ids)).to_batches(max_chunksize=1_000)

        with pytest.raises(errors.DuplicateIdError, match="'user-0' at least twice"):
            prepare(channel, coins, batches)


def test_parameters_per_row_need_the_place_of_a_batch() -> None:
    """A channel with parameters per row is not applied to the wrong rows for want of a number."""
    whole = table()
    channel = next(channel for channel in channels() if channel.rows is not None)
    batches = whole.to_batches(max_chunksize=1_000)
    kernel = prepare(channel, ldp.KeyedCoins(KEY), batches)

    for start in (None, -1, ROWS - 999):
        with pytest.raises(errors.ShapeError, match="start="):
            kernel(batches[0], start=start)
    with pytest.raises(errors.ShapeError, match="rows"):
        prepare(channel, ldp.KeyedCoins(KEY), batches[1:])
    with pytest.raises(errors.ShapeError, match="rows"):
        prepare(channel, ldp.KeyedCoins(KEY), [*batches, batches[0]])


def test_only_the_rows_of_the_first_pass_are_released() -> None:
    """Another label, another id, a row of another place: the kernel's bits belong to the table as it was."""
    whole = table()
    batch = whole.to_batches()[0]
    rng = np.random.default_rng(5)
    prior = ldp.PriorRandomizedResponse(SPACE, 1, rng.dirichlet(np.ones(3), ROWS))
    shared, by_row = (
        prepare(channel, ldp.KeyedCoins(KEY), whole.to_batches())
        for channel in (ldp.RandomizedResponse(SPACE, 1), prior)
    )
    labels = batch.column("label").to_pylist()
    edited = batch.set_column(2, "label", pa.array(["no" if labels[0] != "no" else "yes", *labels[1:]]))
    renamed = batch.set_column(0, "id", pa.array(["stranger", *batch.column("id").to_pylist()[1:]]))

    for kernel, options in ((shared, {}), (by_row, {"start": 0})):
        assert kernel(batch, **options).num_rows == batch.num_rows
        for other in (edited, renamed):
            with pytest.raises(errors.LabelsChangedError, match="not those of the first pass"):
                kernel(other, **options)
    with pytest.raises(errors.LabelsChangedError):
        by_row(batch.slice(0, 100), start=1)
