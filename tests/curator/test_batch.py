"""The kernel: the same bits whole, in batches, shuffled, and from a file."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import labeldp as ldp
from labeldp import errors
from labeldp.curator import prepare

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
    """One channel of each way to hold parameters: shared, by group, by row."""
    rng = np.random.default_rng(3)
    return [
        ldp.RandomizedResponse(SPACE, 1),
        ldp.ResampledResponse(SPACE, rng.dirichlet(np.ones(3), 5), 1, groups=np.arange(ROWS) % 5),
        ldp.PriorRandomizedResponse(SPACE, 1, rng.dirichlet(np.ones(3), ROWS)),
    ]


@pytest.mark.parametrize("channel", channels(), ids=lambda c: type(c).__name__)
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

    assert one.context == two.context


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
