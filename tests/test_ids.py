"""Row ids: what names a row, and that no two names make one block."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable
from decimal import Decimal
from types import FrameType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from labeldp import errors
from labeldp.ids import RowIds, _repeated_pair, same_length
from labeldp.labels import LabelSpace, RawLabels
from labeldp.prf import ROWS_PER_STEP
from labeldp.testing.strategies import ids as drawn_ids
from tests import slow_coins

KEY = bytes(range(32))
UUIDS = [uuid.UUID(int=i * 0x0123_4567_89AB_CDEF_0123_4567_89AB_CDEF % 2**128) for i in range(1, 6)]
TEXTS = ["", "a", "A", "7", "ä", "a\u0308", "日本語", "\0", "a\0", "a\0b", "😀" * 5, "x" * 15, "x" * 16, "x" * 17]
TEXTS += ["y" * 32, "y" * 4096, "y" * 4097, "y" * 4096 + "z", "é" * 3000]
INTEGERS = [0, 1, -1, 7, 255, 256, 2**31, -(2**31), 2**32, 2**63 - 1, -(2**63), -(2**63) + 1]
UNSIGNED = [0, 7, 2**63 - 1, 2**63, 2**64 - 1]


def blocks(ids: RowIds, key: bytes = KEY) -> list[bytes]:
    """Return all blocks of a table."""
    return [row.tobytes() for _, part in ids.blocks(key) for row in part.copy().astype("<u8")]


def kind_of(name: slow_coins.Id) -> str:
    """Return the kind of an id written in Python."""
    return "integer" if isinstance(name, int) else "text" if isinstance(name, str) else "uuid"


def names_of(ids: RowIds) -> list[Any]:
    """Return the ids of a table as Python writes them."""
    array = ids.to_arrow()
    return [uuid.UUID(bytes=x) if isinstance(x, bytes) else x for x in array.to_pylist()]


# ---- blocks --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [INTEGERS, UNSIGNED, TEXTS, UUIDS], ids=["signed", "unsigned", "texts", "uuids"])
def test_blocks_are_those_of_the_slow_implementation(names: list[Any]) -> None:
    """Integers of either sign, unsigned ones, texts of any length and UUIDs have the documented blocks."""
    ids = RowIds.of(names)

    assert kind_of(names[0]) == ids.kind
    assert [slow_coins.block(KEY, ids.kind, name) for name in names] == blocks(ids)


def test_positions_have_blocks_of_their_own() -> None:
    """Positions count from 0, across the steps in which blocks are made, and after rows were picked."""
    rows = 2 * ROWS_PER_STEP + 5
    ids = RowIds.positions(rows)
    picked = np.array([rows - 1, 3, 0])

    made = blocks(ids)

    assert [slow_coins.block(KEY, "position", row) for row in range(rows)] == made
    assert [made[row] for row in picked] == blocks(ids.take(picked))
    assert [made[0], made[rows - 1]] == blocks(ids.take(picked).take(np.array([2, 0])))


@given(st.data())
def test_every_id_has_the_documented_block(data: st.DataObject) -> None:
    """Whatever ids are drawn, blocks are those of the slow implementation, all different, and survive Arrow."""
    names = data.draw(drawn_ids(data.draw(st.integers(1, 10))))
    ids = RowIds.of(names)
    made = blocks(ids)

    assert [slow_coins.block(KEY, kind_of(name), name) for name in names] == made
    assert len(set(made)) == len(names)
    assert names == names_of(ids)
    assert made == blocks(RowIds.of(ids.to_arrow()))


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), min_size=1, max_size=60))
def test_texts_do_not_disturb_their_neighbours(names: list[str]) -> None:
    """A text has one block, whatever stands before and after it in the table."""
    alone = [blocks(RowIds.of([name]))[0] for name in names]

    assert alone == blocks(RowIds.of(names))


def test_texts_cross_the_steps() -> None:
    """Texts of many lengths keep their blocks over the borders of the steps in which blocks are made."""
    names = [f"{'z' * (i % 41)}{i}" for i in range(ROWS_PER_STEP + 300)]
    made = blocks(RowIds.of(names))
    at = [0, 1, 40, ROWS_PER_STEP - 1, ROWS_PER_STEP, ROWS_PER_STEP + 1, len(names) - 1]

    assert [slow_coins.block(KEY, "text", names[i]) for i in at] == [made[i] for i in at]
    assert len(set(made)) == len(names)


def test_the_type_is_part_of_an_id() -> None:
    """7 is not "7", nor position 7; -1 is not 2^64 - 1; a UUID is not its text nor its bytes as text."""
    same_bytes = uuid.UUID(bytes=b"sixteen letters!")
    tables = [
        RowIds.of([7]),
        RowIds.of(["7"]),
        RowIds.positions(8).take(np.array([7])),
        RowIds.of([-1]),
        RowIds.of(np.array([2**64 - 1], np.uint64)),
        RowIds.of([same_bytes]),
        RowIds.of([str(same_bytes)]),
        RowIds.of(["sixteen letters!"]),
        RowIds.of([same_bytes.int % 2**63]),
    ]

    assert len({blocks(ids)[0] for ids in tables}) == len(tables)
    assert len({ids.tags(KEY).tobytes() for ids in tables}) == len(tables)
    assert len({ids.public_digest() for ids in tables}) == len(tables)


def test_lookalikes_are_different_texts() -> None:
    """Case, composition, spaces, NULs and empty texts make different ids: bytes decide, nothing is normalised."""
    names = ["a", "A", " a", "a ", "a\0", "a\0\0", "", "\0", "ä", "a\u0308", "Å", "\u212b", "1", "1.0", "01"]

    assert len(set(blocks(RowIds.of(names)))) == len(names)
    RowIds.of(names).check_unique()


def test_the_key_decides_the_blocks_of_texts() -> None:
    """Texts and UUIDs go through a keyed function, so that nobody can prepare two with one block."""
    other = bytes(32)

    assert set(blocks(RowIds.of(TEXTS))).isdisjoint(blocks(RowIds.of(TEXTS), other))
    assert set(blocks(RowIds.of(UUIDS))).isdisjoint(blocks(RowIds.of(UUIDS), other))


# ---- doors ---------------------------------------------------------------------------------------------------


def _chunks(values: list[Any], kind: Any = None) -> pa.ChunkedArray:
    whole = pa.array(values, kind)
    return pa.chunked_array([whole[:2], whole[2:2], whole[2:]])


_RAW_UUIDS = [name.bytes for name in UUIDS]
_SOME = TEXTS[:12]
_FORMS: dict[str, tuple[list[Any], Any]] = {
    "list": (INTEGERS, INTEGERS),
    "tuple": (INTEGERS, tuple(INTEGERS)),
    "range": ([0, 1, 2], range(3)),
    "int64": (INTEGERS, np.array(INTEGERS)),
    "int8": ([1, -1, 127], np.array([1, -1, 127], np.int8)),
    "uint8": ([1, 255], np.array([1, 255], np.uint8)),
    "uint64": (UNSIGNED, np.array(UNSIGNED, np.uint64)),
    "small uint64": ([1, 7], np.array([1, 7], np.uint64)),
    "big-endian": (INTEGERS, np.array(INTEGERS, ">i8")),
    "strided": (INTEGERS, np.repeat(np.array(INTEGERS), 3)[::3]),
    "reversed": (INTEGERS, np.array(INTEGERS[::-1])[::-1]),
    "objects": (INTEGERS, np.array(INTEGERS, object)),
    "unsigned objects": (UNSIGNED, np.array(UNSIGNED, object)),
    "NumPy scalars": ([1, 2], [np.int64(1), np.uint8(2)]),
    "full mask": ([1, 2], np.ma.array([1, 2])),
    "pandas int64": (INTEGERS, pd.Series(INTEGERS)),
    "pandas Int64": (INTEGERS, pd.Series(INTEGERS, dtype="Int64")),
    "pandas UInt64": (UNSIGNED, pd.Series(UNSIGNED, dtype="UInt64")),
    "pandas index": (INTEGERS, pd.Index(INTEGERS)),
    "pandas range": ([0, 1, 2], pd.RangeIndex(3)),
    "pandas category": ([3, 1], pd.Categorical([3, 1])),
    "polars Int64": (INTEGERS, pl.Series(INTEGERS)),
    "polars UInt64": (UNSIGNED, pl.Series(UNSIGNED, dtype=pl.UInt64)),
    "arrow int64": (INTEGERS, pa.array(INTEGERS)),
    "arrow int16": ([1, -1], pa.array([1, -1], pa.int16())),
    "arrow uint64": (UNSIGNED, pa.array(UNSIGNED, pa.uint64())),
    "arrow chunks of integers": (INTEGERS, _chunks(INTEGERS)),
    "arrow slice of integers": (INTEGERS, pa.array([9, *INTEGERS, 9])[1:-1]),
    "arrow dictionary of integers": (INTEGERS, pa.array(INTEGERS).dictionary_encode()),
    "texts": (TEXTS, TEXTS),
    "NumPy texts": (["a", "ä", "a\0b", ""], np.array(["a", "ä", "a\0b", ""])),
    "NumPy strings": (TEXTS, np.array(TEXTS, np.dtypes.StringDType())),
    "NumPy objects": (TEXTS, np.array(TEXTS, object)),
    "pandas texts": (TEXTS, pd.Series(TEXTS)),
    "pandas object texts": (TEXTS, pd.Series(TEXTS, dtype=object)),
    "pandas text index": (TEXTS, pd.Index(TEXTS)),
    "pandas text category": (TEXTS, pd.Categorical(TEXTS)),
    "polars texts": (TEXTS, pl.Series(TEXTS)),
    "polars categorical": (TEXTS, pl.Series(TEXTS, dtype=pl.Categorical)),
    "arrow string": (TEXTS, pa.array(TEXTS)),
    "arrow large_string": (TEXTS, pa.array(TEXTS, pa.large_string())),
    "arrow string_view": (TEXTS, pa.array(TEXTS, pa.string_view())),
    "arrow slice": (TEXTS, pa.array(["before", *TEXTS, "after"])[1:-1]),
    "arrow large slice": (TEXTS, pa.array(["before", *TEXTS, "after"], pa.large_string())[1:-1]),
    "arrow slice of a slice": (TEXTS[2:], pa.array(["before", *TEXTS])[1:][2:]),
    "arrow view slice": (TEXTS, pa.array(["before, and longer than twelve", *TEXTS], pa.string_view())[1:]),
    "arrow chunks": (TEXTS, _chunks(TEXTS)),
    "arrow view chunks": (TEXTS, _chunks(TEXTS, pa.string_view())),
    "arrow dictionary": (TEXTS, pa.array(TEXTS).dictionary_encode()),
    "arrow view dictionary": (TEXTS, pa.array(TEXTS, pa.string_view()).dictionary_encode()),
    "UUIDs": (UUIDS, UUIDS),
    "UUID tuple": (UUIDS, tuple(UUIDS)),
    "UUID objects": (UUIDS, np.array(UUIDS, object)),
    "pandas UUIDs": (UUIDS, pd.Series(UUIDS)),
    "pandas UUID index": (UUIDS, pd.Index(UUIDS)),
    "arrow UUIDs": (UUIDS, pa.array(_RAW_UUIDS, pa.uuid())),
    "arrow UUID slice": (UUIDS[1:], pa.array(_RAW_UUIDS, pa.uuid())[1:]),
    "arrow UUID chunks": (UUIDS, _chunks(_RAW_UUIDS, pa.uuid())),
    "16 bytes": (UUIDS, pa.array(_RAW_UUIDS, pa.binary(16))),
    "16 bytes slice": (UUIDS[2:4], pa.array(_RAW_UUIDS, pa.binary(16))[2:4]),
    "16 bytes chunks": (UUIDS, _chunks(_RAW_UUIDS, pa.binary(16))),
}


@pytest.mark.parametrize("form", _FORMS)
def test_ids_of_every_form_are_the_same_ids(form: str) -> None:
    """However a column holds its ids, whole or as a slice of another, they have the same blocks and come back."""
    names, column = _FORMS[form]
    ids = RowIds.of(column)

    assert len(ids) == len(names)
    assert [slow_coins.block(KEY, kind_of(name), name) for name in names] == blocks(ids)
    assert names == names_of(ids)
    assert ids.public_digest() == RowIds.of(names).public_digest()
    assert RowIds.of(ids) is ids


@pytest.mark.parametrize("form", _FORMS)
def test_rows_can_be_picked(form: str) -> None:
    """Rows picked by position, in any order and repeatedly, or by a mask, keep their blocks."""
    ids = RowIds.of(_FORMS[form][1])
    made = blocks(ids)
    places = np.array([len(ids) - 1, 0, 1, 0])
    mask = np.arange(len(ids)) % 2 == 1

    assert [made[i] for i in places] == blocks(ids.take(places))
    assert [made[i] for i in np.flatnonzero(mask)] == blocks(ids.take(mask))
    assert made[::-1] == blocks(ids.take(np.arange(len(ids))[::-1]))
    assert [made[0]] == blocks(ids.take(places).take(np.array([1])))
    assert names_of(ids.take(places)) == [names_of(ids)[i] for i in places]
    assert len(ids.take(np.zeros(len(ids), bool))) == 0


def test_positions_need_no_column() -> None:
    """Positions write no column, neither all of them nor some."""
    assert RowIds.positions(3).to_arrow() is None
    assert RowIds.positions(3).take(np.array([2])).to_arrow() is None
    assert len(RowIds.positions(3).take(np.array([True, False, True]))) == 2


def test_ids_show_their_number_and_kind() -> None:
    """repr shows how many ids there are and of which kind."""
    assert repr(RowIds.of(["a", "b"])) == "RowIds(2 rows by text)"
    assert repr(RowIds.positions(3)) == "RowIds(3 rows by position)"
    assert repr(RowIds.of([1])) == "RowIds(1 rows by integer)"
    assert repr(RowIds.of(UUIDS)) == "RowIds(5 rows by uuid)"


def test_another_number_of_ids_is_refused() -> None:
    """There is one id a label."""
    same_length(RowIds.positions(3), 3)
    with pytest.raises(errors.ShapeError, match="Expected 4 row ids, one a label, got 3") as caught:
        same_length(RowIds.positions(3), 4)

    assert (caught.value.expected, caught.value.got) == (4, 3)
    with pytest.raises(errors.ShapeError, match="Expected 2 row ids, one a label, got 3"):
        same_length(RowIds.positions(3), 2)


# ---- refusals ------------------------------------------------------------------------------------------------

_REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "floats": ([1.0, 2.0], errors.IdError, "double"),
    "float among integers": ([1, 2.5], errors.IdError, "double"),
    "float array": (np.array([1.0]), errors.IdError, "float64"),
    "float objects": (np.array([1.0], object), errors.IdError, "double"),
    "pandas floats": (pd.Series([1.0]), errors.IdError, "double"),
    "truth values": ([True, False], errors.IdError, "bool"),
    "truth array": (np.array([True]), errors.IdError, "bool"),
    "truth among integers": ([1, True], errors.IdError, "mixture"),
    "integers among truth": ([True, 1], errors.IdError, "mixture"),
    "mixture": ([1, "a"], errors.IdError, "mixture"),
    "mixed objects": (np.array(["a", 1], object), errors.IdError, "mixture"),
    "UUID among texts": (["a", UUIDS[0]], errors.IdError, "mixture"),
    "text among UUIDs": ([UUIDS[0], "a"], errors.IdError, "mixture"),
    "None": ([1, None], errors.IdError, "1 missing"),
    "only None": ([None, None], errors.IdError, "2 missing"),
    "None among texts": (["a", None, None], errors.IdError, "2 missing"),
    "None among UUIDs": ([UUIDS[0], None], errors.IdError, "missing"),
    "NaN": ([1, float("nan")], errors.IdError, "1 missing"),
    "NaN among texts": (["a", float("nan")], errors.IdError, "1 missing"),
    "NA": ([1, pd.NA], errors.IdError, "1 missing"),
    "mask": (np.ma.array([1, 2], mask=[False, True]), errors.IdError, "1 missing"),
    "pandas NA": (pd.Series([1, None], dtype="Int64"), errors.IdError, "1 missing"),
    "polars null": (pl.Series(["a", None]), errors.IdError, "1 missing"),
    "arrow null": (pa.array([1, None]), errors.IdError, "1 missing"),
    "arrow UUID null": (pa.array([_RAW_UUIDS[0], None], pa.uuid()), errors.IdError, "1 missing"),
    "dictionary null": (pa.array(["a", None]).dictionary_encode(), errors.IdError, "1 missing"),
    "too large": ([2**64], errors.IdError, "mixture"),
    "beyond both": ([-1, 2**63], errors.IdError, "mixture"),
    "surrogates": (["\ud800"], errors.IdError, "mixture"),
    "bytes": ([b"a"], errors.IdError, "binary"),
    "byte array": (np.array([b"a"]), errors.IdError, "S1"),
    "8 bytes": (pa.array([bytes(8)], pa.binary(8)), errors.IdError, "binary"),
    "dates": (np.array(["2026-01-01"], "M8[D]"), errors.IdError, "datetime64"),
    "decimals": ([Decimal(1)], errors.IdError, "decimal"),
    "lists": ([[1], [2]], errors.IdError, "list"),
    "structures": ([{"a": 1}], errors.IdError, "struct"),
    "objects": ([object()], errors.IdError, "mixture"),
    "table": (np.ones((2, 2), int), errors.ShapeError, "one dimension"),
    "bare text": ("abc", errors.ShapeError, "got str"),
    "bare number": (7, errors.ShapeError, "got int"),
    "set": ({1, 2}, errors.ShapeError, "got set"),
    "frame": (pd.DataFrame({"id": [1]}), errors.ShapeError, "got DataFrame"),
    "nothing": ([], errors.EmptyInputError, "at least one row id"),
    "raw labels": (RawLabels(["a"], LabelSpace(["a", "b"])), errors.RawLabelsError, "Raw labels"),
}


@pytest.mark.parametrize("name", _REFUSED)
def test_what_cannot_name_a_row_is_refused(name: str) -> None:
    """Floats, truth values, missing ids, mixtures and other types are refused, with the reason."""
    values, kind, words = _REFUSED[name]

    with pytest.raises(kind, match=words) as caught:
        RowIds.of(values)

    assert type(caught.value) is kind


# ---- uniqueness ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "example"),
    [
        ([1, 2, 1], 1),
        ([5, 5], 5),
        ([1, 2, 3, 3], 3),
        ([-1, 0, -1], -1),
        (np.array([2**63, 7, 2**63], np.uint64), 2**63),
        (["a", "b", "a"], "a"),
        (["", "x", ""], ""),
        (["ä" * 3000, "ä", "ä" * 3000], "ä" * 3000),
        ([UUIDS[0], UUIDS[1], UUIDS[0]], UUIDS[0].hex),
    ],
    ids=lambda value: str(value)[:20] if isinstance(value, int | str) else "ids",
)
def test_duplicates_are_refused_with_an_example(names: Any, example: object) -> None:
    """Two rows with one id are refused, wherever they are; the error shows an id that is there twice."""
    with pytest.raises(errors.DuplicateIdError, match="at least twice") as caught:
        RowIds.of(names).check_unique()

    assert caught.value.example == example
    assert repr(example) in str(caught.value)


@pytest.mark.parametrize("names", [INTEGERS, UNSIGNED, TEXTS, UUIDS, [3], ["a"], [2, 1], [-1, 2**63 - 1]], ids=len)
def test_different_ids_pass(names: Any) -> None:
    """Different ids in any order are unique, and so are positions."""
    RowIds.of(names).check_unique()
    RowIds.of(names).take(np.arange(len(names))[::-1]).check_unique()
    RowIds.positions(5).check_unique()


def test_positions_picked_twice_are_found() -> None:
    """Picking a row twice makes a duplicate, even among positions."""
    with pytest.raises(errors.DuplicateIdError):
        RowIds.positions(5).take(np.array([4, 1, 4])).check_unique()


_LARGE = 1_000_000


def _integers(generator: np.random.Generator) -> Any:
    return generator.permutation(_LARGE) - _LARGE // 2


def _unsigned(generator: np.random.Generator) -> Any:
    return generator.permutation(_LARGE).astype(np.uint64) + np.uint64(2**63)


def _texts(generator: np.random.Generator) -> Any:
    return pa.array(generator.permutation(_LARGE)).cast(pa.string())


def _uuids(generator: np.random.Generator) -> Any:
    return pa.Array.from_buffers(pa.binary(16), _LARGE, [None, pa.py_buffer(generator.bytes(16 * _LARGE))])


@pytest.mark.parametrize("make", [_integers, _unsigned, _texts, _uuids])
def test_one_duplicate_among_a_million_is_found(make: Callable[[np.random.Generator], Any]) -> None:
    """A million different ids pass, and one that is there twice, far apart, is named."""
    ids = RowIds.of(make(np.random.default_rng(7)))
    places = np.arange(_LARGE)
    places[-10] = 10

    ids.check_unique()
    with pytest.raises(errors.DuplicateIdError) as caught:
        ids.take(places).check_unique()

    name = names_of(ids.take(np.array([10])))[0]
    assert caught.value.example == (name.hex if isinstance(name, uuid.UUID) else name)


@pytest.mark.parametrize("rows", [10, 2**16 + 10])
def test_ids_that_share_half_a_tag_are_different(rows: int) -> None:
    """Only rows whose tags agree in all 128 bits are the same row, in small tables and in large ones."""
    tags = np.stack([np.zeros(rows, np.uint64), np.arange(rows, dtype=np.uint64)], axis=1)
    twice = tags.copy()
    twice[-1] = twice[3]

    assert _repeated_pair(tags) is None
    assert _repeated_pair(tags[:, ::-1]) is None
    assert _repeated_pair(twice) in {3, rows - 1}
    assert _repeated_pair(twice[:, ::-1]) in {3, rows - 1}


# ---- digests and tags ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [INTEGERS, TEXTS, UUIDS], ids=["integers", "texts", "uuids"])
def test_the_public_digest_forgets_the_order_only(names: list[Any]) -> None:
    """The digest of a table is that of its ids in any order; one id more, less or other changes it."""
    ids = RowIds.of(names)

    assert ids.public_digest() == RowIds.of(names[::-1]).public_digest()
    assert ids.public_digest() != RowIds.of(names[1:]).public_digest()
    assert ids.public_digest() != RowIds.of([*names[:-1], names[0]]).public_digest()
    assert ids.public_digest() == slow_coins.public_digest(ids.kind, names)


def test_the_public_digest_of_positions_is_that_of_their_number() -> None:
    """Tables without ids are told apart by their length, and from picked rows."""
    assert RowIds.positions(3).public_digest() == RowIds.positions(3).public_digest()
    assert RowIds.positions(3).public_digest() != RowIds.positions(4).public_digest()
    picked = [RowIds.positions(5).take(np.array(rows)) for rows in ([0, 1, 2], [0, 1, 3], [3, 1, 0])]
    assert picked[0].public_digest() != picked[1].public_digest()
    assert picked[1].public_digest() == picked[2].public_digest()


def test_tags_depend_on_key_and_id_alone() -> None:
    """A tag is a keyed name of a row: the same in every table, unrelated under another key."""
    ids = RowIds.of(TEXTS)
    tags = ids.tags(KEY)

    assert tags.shape == (len(TEXTS), 2)
    assert tags[::-1].tolist() == RowIds.of(TEXTS[::-1]).tags(KEY).tolist()
    assert set(tags.ravel().tolist()).isdisjoint(ids.tags(bytes(32)).ravel().tolist())
    mac, key = slow_coins.derive(KEY, b"id mac"), slow_coins.derive(KEY, b"id tag")
    expected = [slow_coins.aes(key, slow_coins.block(mac, "text", name)) for name in TEXTS]
    assert expected == [row.astype("<u8").tobytes() for row in tags]


# ---- no loop over rows ---------------------------------------------------------------------------------------


def calls_of(work: Callable[[], object]) -> int:
    """Count how many functions, of Python or of C, are called meanwhile."""
    count = 0

    def note(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


_ROWS = 20_000


def _columns() -> dict[str, Any]:
    raw = np.random.default_rng(1).bytes(16 * _ROWS)
    return {
        "integers": np.arange(_ROWS)[::-1] - 5,
        "unsigned": np.arange(_ROWS, dtype=np.uint64) + np.uint64(2**63),
        "list": list(range(_ROWS)),
        "texts": pa.array(np.arange(_ROWS)).cast(pa.string()),
        "list of texts": [f"user-{i}" for i in range(_ROWS)],
        "array of texts": np.array([f"user-{i}" for i in range(_ROWS)]),
        "pandas": pd.Series([f"user-{i}" for i in range(_ROWS)]),
        "polars": pl.Series([f"user-{i}" for i in range(_ROWS)]),
        "uuids": pa.Array.from_buffers(pa.binary(16), _ROWS, [None, pa.py_buffer(raw)]),
    }


_WORK: dict[str, Callable[[RowIds], object]] = {
    "blocks": lambda ids: [None for _ in ids.blocks(KEY)],
    "tags": lambda ids: ids.tags(KEY),
    "unique": lambda ids: ids.check_unique(),
    "digest": lambda ids: ids.public_digest(),
    "take": lambda ids: ids.take(np.arange(len(ids))[::-1]),
    "write": lambda ids: ids.to_arrow(),
}


@pytest.mark.parametrize("form", _columns())
def test_no_python_runs_for_each_row(form: str) -> None:
    """20,000 ids take a few hundred calls, those of three steps, and not one a row."""
    column = _columns()[form]
    ids = RowIds.of(column)

    assert calls_of(lambda: RowIds.of(column)) < _ROWS / 20
    for name, work in _WORK.items():
        work(ids)  # the first time, libraries are loaded
        calls = calls_of(lambda work=work: work(ids))

        assert (name, True) == (name, 0 < calls < _ROWS / 20)


def test_a_loop_over_rows_would_be_seen() -> None:
    """The test above could fail: one call a row is counted."""
    column = np.arange(_ROWS)

    assert calls_of(lambda: [int(value) for value in column]) <= 5  # what a loop without calls shows
    assert calls_of(lambda: [value.tobytes() for value in column]) >= _ROWS


def test_blocks_do_not_grow_with_the_table() -> None:
    """Blocks come in steps of bounded size, which share their memory."""
    steps: list[NDArray[np.uint64]] = [part for _, part in RowIds.positions(5 * ROWS_PER_STEP).blocks(KEY)]

    assert {len(part) for part in steps} == {ROWS_PER_STEP}
    assert all(np.shares_memory(steps[0], part) for part in steps)


# ---- several batches of one table ------------------------------------------------------------------------------


@pytest.mark.parametrize("names", [INTEGERS, TEXTS, UUIDS], ids=["integers", "texts", "uuids"])
def test_batches_join_to_the_table(names: list[Any]) -> None:
    """The ids of batches, one after the other, are those of the whole: in every digest and in every coin."""
    whole = RowIds.of(names)
    parts = [whole.take(np.arange(len(names))[rows]) for rows in (slice(0, 1), slice(1, 3), slice(3, None))]

    joined = RowIds.join(parts)

    assert len(whole) == len(joined)
    assert whole.public_digest() == joined.public_digest()
    assert np.array_equal(whole.tags(bytes(32)), joined.tags(bytes(32)))


def test_batches_of_different_kinds_do_not_join() -> None:
    """One table has ids of one kind."""
    with pytest.raises(errors.IdError, match="one kind in all batches, got integer, text"):
        RowIds.join([RowIds.of([1, 2]), RowIds.of(["a"])])
    with pytest.raises(errors.IdError, match="one kind"):
        RowIds.join([])
    with pytest.raises(errors.IdError, match="negative ones and some beyond"):
        RowIds.join([RowIds.of([-1]), RowIds.of(np.array([2**63], np.uint64))])
