"""Label spaces, and raw labels that stay where they are."""

from __future__ import annotations

import array
import copy
import decimal
import enum
import json
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labeldp as ldp
from labeldp import errors
from labeldp.curator import prepare
from labeldp.labels import LabelSpace, RawLabels, code_type, owner_codes
from labeldp.testing.strategies import label_spaces

#: A label that must show nowhere, as a text and as an integer.
SECRET = "Xyzzy-4711"
NUMBER = 918_273_645
YES_NO = LabelSpace(["no", "yes"])
DIGITS = LabelSpace(range(10))
TRUTH = LabelSpace([False, True])


# ---- the space -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "kind"),
    [
        (["no", "yes"], "text"),
        (("", "0", "Ж", "a\0"), "text"),
        ([3, 1, 2], "integer"),
        ([-(2**63), 2**63 - 1], "integer"),
        (range(300), "integer"),
        ([True, False], "truth value"),
        (["no", None, "yes"], "text"),
        ([0, None], "integer"),
        ([None, True], "truth value"),
    ],
)
def test_a_space_keeps_its_labels_in_order(labels: Any, kind: str) -> None:
    """Texts, integers and truth values are declared in an order of their own; None is a label among them."""
    space = LabelSpace(labels)

    assert space.labels == tuple(labels)
    assert space.kind == kind
    assert space.size == len(space) == len(labels)
    assert space.missing_code == (list(labels).index(None) if None in labels else None)


def test_labels_become_plain_ones() -> None:
    """NumPy's scalars and members of enumerations are declared by value, and keep no type of their own."""
    colour = enum.Enum("colour", {"RED": "red", "BLUE": "blue"}, type=str)
    level = enum.IntEnum("level", {"LOW": 1, "HIGH": 2})

    spaces = [
        LabelSpace(np.array(["red", "blue"])),
        LabelSpace([np.str_("red"), "blue"]),
        LabelSpace(colour),
        LabelSpace(np.array([1, 2], np.uint8)),
        LabelSpace(level),
        LabelSpace([np.bool_(True), False]),
    ]

    assert [("red", "blue")] * 3 + [(1, 2)] * 2 + [(True, False)] == [space.labels for space in spaces]
    assert [str] * 6 + [int] * 4 + [bool] * 2 == [type(label) for space in spaces for label in space.labels]
    assert LabelSpace(colour).encode(["blue", colour["RED"]]).tolist() == [1, 0]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([], "at least 2 labels, got 0"),
        (["only"], "at least 2 labels, got 1"),
        ([None], "at least 2 labels, got 1"),
        (["a", "b", "a"], "'a' twice"),
        ([None, "a", None], "None twice"),
        ([1, np.int64(1)], "1 twice"),
        ([1, True], "twice"),
        ([2, True], "one kind, got integer, truth value"),
        (["a", 1], "one kind, got integer, text"),
        (["1", 1, False], "one kind, got integer, text, truth value"),
        ([0.5, 1.5], "got float"),
        (["a", float("nan")], "got float"),
        (["a", pd.NA], "got NAType"),
        ([b"a", b"b"], "got bytes"),
        ([("a",), ("b",)], "got tuple"),
        ([[0, 1], [2, 3]], "got list"),
        (np.zeros((2, 2), int), "got ndarray"),
        ([2**63, 0], "64 bits"),
        ([-(2**63) - 1, 0], "64 bits"),
        (["\ud800", "a"], "UTF-8"),
        ({"a", "b"}, "order of their own, got set"),
        (frozenset("ab"), "got frozenset"),
        ("ab", "got str"),
        (b"ab", "got bytes"),
        (2, "got int"),
        (None, "got NoneType"),
    ],
)
def test_unusable_spaces_are_refused(labels: Any, words: str) -> None:
    """Fewer than two labels, repeated, mixed, fractional or unordered ones make no space; the error says which."""
    with pytest.raises(errors.LabelSpaceError, match=words):
        LabelSpace(labels)


def test_a_space_is_a_value() -> None:
    """Equal spaces are one key; order and kind matter; nothing in it can be changed."""
    space = LabelSpace(["a", "b"])

    assert space == LabelSpace(iter(["a", "b"]))
    assert hash(space) == hash(LabelSpace(("a", "b")))
    assert space != LabelSpace(["b", "a"])
    assert LabelSpace([0, 1]) != LabelSpace([False, True])
    assert LabelSpace([0, 1]) != LabelSpace(["0", "1"])
    assert space != ("a", "b")
    for name in ("labels", "kind", "_index", "other"):
        with pytest.raises(AttributeError):
            setattr(space, name, ("c", "d"))
    for name in ("labels", "kind", "_index"):
        with pytest.raises(AttributeError):
            delattr(space, name)
    with pytest.raises(ValueError, match="read-only"):
        space._table()[0] = "c"


def test_a_space_shows_few_labels() -> None:
    """A space is public: it shows its labels, and of many only the first and their number."""
    assert repr(LabelSpace(["a", None])) == "LabelSpace(['a', None])"
    assert repr(LabelSpace(range(7))) == "LabelSpace([0, 1, 2, 3, 4, 5, ... 7 in all])"


@given(label_spaces())
def test_a_space_survives_json_copies_and_pickles(space: LabelSpace) -> None:
    """Written and read back, copied or pickled, a space is the same, and so is its digest."""
    others = [
        LabelSpace.from_json(json.loads(json.dumps(space.to_json()))),
        pickle.loads(pickle.dumps(space)),
        copy.copy(space),
        copy.deepcopy(space),
    ]

    assert [space] * 4 == others
    assert [space.digest()] * 4 == [other.digest() for other in others]


def test_digests_of_spaces_differ() -> None:
    """Order, kind, spelling and a missing label each change the digest of a space."""
    spaces: list[list[Any]] = [["a", "b"], ["b", "a"], ["a", "b", None], ["ab", ""], [0, 1], ["0", "1"], [False, True]]

    assert len({LabelSpace(labels).digest() for labels in spaces}) == len(spaces)


# ---- encode and decode ---------------------------------------------------------------------------------------

Door = Callable[[list[Any]], Any]

_ANY: dict[str, Door] = {
    "list": list,
    "tuple": tuple,
    "NumPy objects": lambda v: np.array([*v, None], object)[:-1],
    "NumPy masked objects": lambda v: np.ma.array([*v, 0], object, mask=[x is None for x in v] + [True])[:-1],
    "pandas objects": lambda v: pd.Series(v, dtype=object),
    "pandas index": lambda v: pd.Index(v, dtype=object),
    "pandas category": lambda v: pd.Series(pd.Categorical(v)),
    "pandas categorical": pd.Categorical,
    "pandas slice": lambda v: pd.Series([v[0], *v], index=range(5, 6 + len(v)), dtype=object)[1:],
    "pyarrow dictionary": lambda v: pa.array(v).dictionary_encode(),
    "pyarrow chunks": lambda v: pa.chunked_array([v[:1], v[1:]], type=pa.array(v).type),
    "pyarrow chunked dictionary": lambda v: pa.chunked_array(
        [pa.array(part, pa.array(v).type).dictionary_encode() for part in (v[:2], v[2:])]
    ),
    "pyarrow slice": lambda v: pa.array([v[-1], *v, v[0]])[1:-1],
    "polars": pl.Series,
    "polars slice": lambda v: pl.Series([v[-1], *v])[1:],
}
_DOORS: dict[str, dict[str, Door]] = {
    "text": _ANY
    | {
        "pandas string": lambda v: pd.Series(v, dtype="string"),
        "pandas python string": lambda v: pd.Series(v, dtype="string[python]"),
        "pandas str": lambda v: pd.Series(v, dtype="str"),
        "pyarrow large_string": lambda v: pa.array(v, pa.large_string()),
        "pyarrow string_view": lambda v: pa.array(v, pa.string_view()),
        "pyarrow string_view chunks": lambda v: pa.chunked_array([v[:1], v[1:]], type=pa.string_view()),
        "pyarrow string_view dictionary": lambda v: pa.array(v, pa.string_view()).dictionary_encode(),
        "polars categorical": lambda v: pl.Series(v, dtype=pl.Categorical),
        "polars enum": lambda v: pl.Series(v, dtype=pl.Enum(sorted({x for x in v if x is not None}))),
    },
    "integer": _ANY
    | {
        "pandas Int64": lambda v: pd.Series(v, dtype="Int64"),
        "pandas arrow": lambda v: pd.Series(v, dtype="int64[pyarrow]"),
        "NumPy masked": lambda v: np.ma.array([x or 0 for x in v], np.int64, mask=[x is None for x in v]),
    },
    "truth value": _ANY
    | {
        "pandas boolean": lambda v: pd.Series(v, dtype="boolean"),
        "NumPy masked": lambda v: np.ma.array([bool(x) for x in v], bool, mask=[x is None for x in v]),
    },
}
#: Doors through which no missing value fits.
_FULL: dict[str, dict[str, Door]] = {
    "text": {
        "NumPy": np.array,
        "NumPy big-endian": lambda v: np.array(v).astype(np.array(v).dtype.newbyteorder(">")),
        "NumPy strings": lambda v: np.array(v, np.dtypes.StringDType()),
    },
    "integer": {
        "range of bytes": lambda v: array.array("q", v),
        "NumPy big-endian": lambda v: np.array(v, ">i8"),
        "NumPy strided": lambda v: np.repeat(np.array(v, np.int64), 2)[::2],
        "pandas int64": lambda v: pd.Series(v, dtype=np.int64),
    },
    "truth value": {
        "NumPy": lambda v: np.array(v, bool),
        "pandas bool": lambda v: pd.Series(v, dtype=bool),
    },
}
_WIDTHS = [np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64]


def _doors(space: LabelSpace, labels: list[Any]) -> Iterator[tuple[str, Any]]:
    """Write ``labels`` in every form that can hold them."""
    full = None not in labels
    for name, door in (_DOORS[space.kind] | (_FULL[space.kind] if full else {})).items():
        if name.startswith("NumPy") and any(str(label).endswith("\0") for label in labels) and "object" not in name:
            continue  # a NumPy text forgets NULs at its end
        yield name, door(labels)
    if space.kind == "integer" and full:
        for width in _WIDTHS:
            if np.iinfo(width).min <= min(labels) and max(labels) <= np.iinfo(width).max:
                kind = np.dtype(width)
                yield str(kind), np.array(labels, width)
                yield f"pyarrow {kind}", pa.array(labels, kind.name)
                yield f"pandas {kind} nullable", pd.Series(labels, dtype=kind.name.replace("i", "I").replace("u", "U"))
                yield f"polars {kind}", pl.Series(np.array(labels, width))


@given(st.data())
def test_labels_of_every_form_have_the_same_codes(data: st.DataObject) -> None:
    """Lists, arrays and series of NumPy, pandas, polars and pyarrow give one code a label, and decode to the labels."""
    space = data.draw(label_spaces())
    labels = data.draw(st.lists(st.sampled_from(space.labels), min_size=1, max_size=12))
    if all(label is None for label in labels):
        labels.append(next(label for label in space.labels if label is not None))
    expected = [space.labels.index(label) for label in labels]
    forms = list(_doors(space, labels))

    for name, form in forms:
        codes = space.encode(form)

        assert (name, expected) == (name, codes.tolist())
        assert (name, code_type(space.size)) == (name, codes.dtype)
        assert (name, labels) == (name, space.decode(codes).tolist())
    assert len(forms) >= len(_ANY)


@given(label_spaces(2, 8), st.sampled_from(_WIDTHS))
def test_codes_of_every_width_decode(space: LabelSpace, width: type) -> None:
    """Codes may be integers of any width, in lists and arrays of any shape; what comes out has that shape."""
    codes = np.arange(space.size, dtype=width)

    assert list(space.labels) == space.decode(codes).tolist()
    assert list(space.labels) == space.decode(codes.tolist()).tolist()
    assert [[label] for label in space.labels] == space.decode(codes[:, None]).tolist()
    assert space.labels[1] == np.asarray(space.decode(1), object).tolist()


def test_decoded_labels_have_the_type_of_the_space() -> None:
    """Texts, integers and truth values are arrays of their own types; with a missing label, of objects."""
    spaces: list[list[Any]] = [["a", "bb"], [0, 2**40], [True, False], ["a", None], ["a", "a\0"]]

    kinds = [LabelSpace(labels).decode([0, 1]).dtype.kind for labels in spaces]

    assert ["U", "i", "b", "O", "O"] == kinds
    assert [LabelSpace(labels).decode([]).dtype.kind for labels in spaces] == kinds
    assert LabelSpace(["a", "a\0"]).decode([1, 0]).tolist() == ["a\0", "a"]


@pytest.mark.parametrize("codes", [[-1], [2], [0, 1, 256], [True, False], [0.0], ["no"], [None], np.array([2**63])])
def test_codes_outside_the_space_do_not_decode(codes: Any) -> None:
    """A negative code does not count from the end, a mask does not choose, and a code too large is a typed error."""
    with pytest.raises(errors.ShapeError, match=r"codes 0 \.\. 1"):
        YES_NO.decode(codes)


def test_code_types_are_as_narrow_as_they_can_be() -> None:
    """Codes take one byte up to 256 labels, then two, then four."""
    sizes = [1, 2, 256, 257, 2**16, 2**16 + 1, 2**32, 2**32 + 1]

    assert [1, 1, 1, 2, 2, 4, 4, 8] == [code_type(size).itemsize for size in sizes]
    assert LabelSpace(range(257)).encode([256, 0]).tolist() == [256, 0]


@pytest.mark.parametrize(
    "labels",
    [
        [5, 6, 7],
        [7, 6, 5],
        [-3, -2, -1],
        [-(2**63), -(2**63) + 1],
        [2**63 - 2, 2**63 - 1],
        [-(2**63), 0, 2**63 - 1],
        [2**63 - 1, -(2**63)],
        [0, 1, 2, 4],
        [0, 2, 1, 3],
        list(range(-128, 128)),
        list(range(-128, 300)),
    ],
)
def test_integer_labels_of_any_layout_have_their_places_as_codes(labels: list[int]) -> None:
    """Consecutive, descending, scattered and extreme integers are all found, and their neighbours are not."""
    space = LabelSpace(labels)

    for width in _WIDTHS:
        fits = [x for x in labels if np.iinfo(width).min <= x <= np.iinfo(width).max]

        assert [labels.index(x) for x in fits] == space.encode(np.array(fits, width)).tolist()
    assert list(range(len(labels))) == space.encode(labels).tolist()
    for stranger in {x + step for x in labels for step in (-1, 1)} - set(labels):
        width = np.int64 if stranger < 2**63 else np.uint64
        if stranger >= -(2**63):
            with pytest.raises(errors.UnknownLabelError):
                space.encode(np.array([stranger], width))


@pytest.mark.parametrize("width", _WIDTHS)
def test_integers_do_not_wrap_around(width: type) -> None:
    """The extremes of every integer type are strangers to a space of ten digits."""
    for stranger in (np.iinfo(width).min, np.iinfo(width).max, 10):
        column = np.array([3, stranger], width)
        if stranger:
            with pytest.raises(errors.UnknownLabelError):
                DIGITS.encode(column)
            with pytest.raises(errors.UnknownLabelError):
                DIGITS.encode(pa.array(column))


def test_truth_values_of_any_order_have_their_places_as_codes() -> None:
    """An array of truth values is found wherever the space has them, also beside a missing label."""
    column = np.array([True, False, True])

    assert LabelSpace([True, False]).encode(column).tolist() == [0, 1, 0]
    assert LabelSpace([False, True]).encode(column).tolist() == [1, 0, 1]
    assert LabelSpace([None, True, False]).encode(column).tolist() == [1, 2, 1]
    for only in (True, False):
        with pytest.raises(errors.UnknownLabelError):
            LabelSpace([only, None]).encode(column)


def test_a_text_does_not_end_at_a_nul() -> None:
    """Texts that differ after a NUL are different labels, in arrays of NumPy as in lists."""
    labels = ["a", "a\0b", "a\0c", "\0a"]
    space = LabelSpace(labels)

    assert space.encode(np.array(labels)).tolist() == [0, 1, 2, 3]
    assert space.encode(labels).tolist() == [0, 1, 2, 3]
    with pytest.raises(errors.UnknownLabelError):
        space.encode(np.array(["a", "a\0d"]))


def test_codes_are_a_copy() -> None:
    """Changing the array that labels came from does not change them."""
    labels = np.array([0, 1, 2], np.uint8)
    raw = RawLabels(labels, LabelSpace(range(3)))

    labels[:] = 2

    assert owner_codes(raw).tolist() == [0, 1, 2]
    assert not owner_codes(raw).flags.writeable
    assert labels.flags.writeable


# ---- what is refused, and in which words ---------------------------------------------------------------------

_EMPTY: dict[str, Any] = {
    "list": [],
    "tuple": (),
    "array": np.array([]),
    "integers": np.array([], int),
    "texts": np.array([], str),
    "pandas": pd.Series([], dtype=object),
    "pandas floats": pd.Series([], dtype=float),
    "pandas category": pd.Categorical([]),
    "polars": pl.Series([]),
    "arrow": pa.array([]),
    "arrow chunks": pa.chunked_array([], pa.string()),
}


@pytest.mark.parametrize("name", _EMPTY)
def test_no_labels_at_all_are_refused(name: str) -> None:
    """Nothing encodes to nothing, whatever its type; as raw labels it is an error of its own."""
    assert YES_NO.encode(_EMPTY[name]).tolist() == []
    assert DIGITS.encode(_EMPTY[name]).dtype == np.uint8
    with pytest.raises(errors.EmptyInputError, match="at least one label"):
        RawLabels(_EMPTY[name], YES_NO)


_MISSING: dict[str, tuple[LabelSpace, Any]] = {
    "None": (YES_NO, ["no", None]),
    "NaN": (YES_NO, ["no", float("nan")]),
    "NA": (YES_NO, ["no", pd.NA]),
    "NaT": (YES_NO, ["no", pd.NaT]),
    "only None": (YES_NO, [None, None]),
    "integers and None": (DIGITS, [1, None]),
    "integers and NaN": (DIGITS, [1, float("nan")]),
    "integers and NA": (DIGITS, [1, pd.NA]),
    "truth values and None": (TRUTH, [True, None]),
    "object array": (YES_NO, np.array(["no", None, np.nan], object)),
    "masked integers": (DIGITS, np.ma.array([1, 2], mask=[False, True])),
    "masked texts": (YES_NO, np.ma.array(["no", "yes"], mask=[False, True])),
    "masked truth values": (TRUTH, np.ma.array([True, False], mask=[False, True])),
    "pandas texts": (YES_NO, pd.Series(["no", None])),
    "pandas string": (YES_NO, pd.Series(["no", None], dtype="string")),
    "pandas category": (YES_NO, pd.Categorical(["no", None])),
    "pandas Int64": (DIGITS, pd.Series([1, None], dtype="Int64")),
    "pandas boolean": (TRUTH, pd.Series([True, None], dtype="boolean")),
    "polars": (YES_NO, pl.Series(["no", None])),
    "arrow": (YES_NO, pa.array(["no", None])),
    "arrow dictionary": (YES_NO, pa.array(["no", None]).dictionary_encode()),
    "arrow nulls": (YES_NO, pa.nulls(2)),
    "arrow string_view": (YES_NO, pa.array(["no", None], pa.string_view())),
}


@pytest.mark.parametrize("name", _MISSING)
def test_missing_labels_are_refused_unless_declared(name: str) -> None:
    """None, NaN, NA and what a mask hides are missing: an error, or the label None where it is declared."""
    space, values = _MISSING[name]
    with_none = LabelSpace([space.labels[1], None, space.labels[0]])

    with pytest.raises(errors.MissingLabelError, match=r"LabelSpace\(\[\.\.\., None\]\)"):
        space.encode(values)
    codes = with_none.encode(values).tolist()

    assert codes[1] == 1
    assert codes[0] == 1 if name in {"only None", "arrow nulls"} else codes[0] in {0, 2}


def test_what_a_mask_hides_is_not_a_value() -> None:
    """A masked value may lie outside the space: it is missing, whatever lies beneath."""
    hidden = np.ma.array([1, NUMBER], mask=[False, True])

    assert LabelSpace([None, 1]).encode(hidden).tolist() == [1, 0]


_STRANGERS: dict[str, tuple[LabelSpace, Any, type[errors.InputError]]] = {
    # not in the space
    "list": (YES_NO, ["no", SECRET], errors.UnknownLabelError),
    "list of one": (YES_NO, [SECRET], errors.UnknownLabelError),
    "array": (YES_NO, np.array(["no", SECRET]), errors.UnknownLabelError),
    "object array": (YES_NO, np.array(["no", SECRET], object), errors.UnknownLabelError),
    "string array": (YES_NO, np.array(["no", SECRET], np.dtypes.StringDType()), errors.UnknownLabelError),
    "pandas": (YES_NO, pd.Series(["no", SECRET]), errors.UnknownLabelError),
    "pandas string": (YES_NO, pd.Series(["no", SECRET], dtype="string"), errors.UnknownLabelError),
    "pandas category": (YES_NO, pd.Series(["no", SECRET], dtype="category"), errors.UnknownLabelError),
    "pandas index": (YES_NO, pd.Index(["no", SECRET]), errors.UnknownLabelError),
    "polars": (YES_NO, pl.Series(["no", SECRET]), errors.UnknownLabelError),
    "polars enum": (YES_NO, pl.Series(["no", SECRET], dtype=pl.Enum(["no", SECRET])), errors.UnknownLabelError),
    "arrow": (YES_NO, pa.array(["no", SECRET]), errors.UnknownLabelError),
    "arrow large": (YES_NO, pa.array(["no", SECRET], pa.large_string()), errors.UnknownLabelError),
    "arrow view": (YES_NO, pa.array(["no", SECRET], pa.string_view()), errors.UnknownLabelError),
    "arrow chunks": (YES_NO, pa.chunked_array([["no"], [SECRET]]), errors.UnknownLabelError),
    "arrow dictionary": (YES_NO, pa.array(["no", SECRET]).dictionary_encode(), errors.UnknownLabelError),
    "other case": (LabelSpace(["A", "B"]), ["a"], errors.UnknownLabelError),
    "space around": (YES_NO, ["no", f" {SECRET}"], errors.UnknownLabelError),
    "integers": (DIGITS, [1, NUMBER], errors.UnknownLabelError),
    "negative": (DIGITS, [1, -NUMBER], errors.UnknownLabelError),
    "integer array": (DIGITS, np.array([1, NUMBER]), errors.UnknownLabelError),
    "unsigned array": (DIGITS, np.array([1, NUMBER + 2**63], np.uint64), errors.UnknownLabelError),
    "unsigned list": (DIGITS, [1, NUMBER + 2**63], errors.UnknownLabelError),
    "unsigned arrow": (DIGITS, pa.array([1, NUMBER + 2**63], pa.uint64()), errors.UnknownLabelError),
    "unsigned polars": (DIGITS, pl.Series([1, NUMBER + 2**63], dtype=pl.UInt64), errors.UnknownLabelError),
    "nullable integers": (DIGITS, pd.Series([1, NUMBER], dtype="Int64"), errors.UnknownLabelError),
    "integers with a missing label": (LabelSpace([1, None]), np.array([1, NUMBER]), errors.UnknownLabelError),
    "categories of integers": (DIGITS, pd.Categorical([1, NUMBER]), errors.UnknownLabelError),
    "beside a missing label": (LabelSpace(["no", None]), ["no", None, SECRET], errors.UnknownLabelError),
    "no such truth": (LabelSpace([True, None]), [False], errors.UnknownLabelError),
    # of another kind
    "texts for integers": (DIGITS, [SECRET], errors.LabelSpaceError),
    "text array for integers": (DIGITS, np.array([SECRET]), errors.LabelSpaceError),
    "texts for truth values": (TRUTH, [SECRET], errors.LabelSpaceError),
    "integers for texts": (YES_NO, [NUMBER], errors.LabelSpaceError),
    "integer array for texts": (YES_NO, np.array([NUMBER]), errors.LabelSpaceError),
    "integers for truth values": (TRUTH, [NUMBER], errors.LabelSpaceError),
    "truth values for integers": (DIGITS, np.array([True, False]), errors.LabelSpaceError),
    "floats": (DIGITS, [NUMBER / 1000], errors.LabelSpaceError),
    "whole floats": (DIGITS, np.array([1.0, float(NUMBER)]), errors.LabelSpaceError),
    "bytes": (YES_NO, [SECRET.encode()], errors.LabelSpaceError),
    "byte array": (YES_NO, np.array([SECRET.encode()]), errors.LabelSpaceError),
    "decimals": (DIGITS, [decimal.Decimal(NUMBER)], errors.LabelSpaceError),
    "structures": (YES_NO, [{SECRET: SECRET}], errors.LabelSpaceError),
    "arrow structures": (YES_NO, pa.array([{SECRET: SECRET}]), errors.LabelSpaceError),
    "lists of lists": (YES_NO, [[SECRET], ["no"]], errors.LabelSpaceError),
    "polars lists": (YES_NO, pl.Series([[SECRET]]), errors.LabelSpaceError),
    "run ends": (YES_NO, pa.RunEndEncodedArray.from_arrays([2], [SECRET]), errors.LabelSpaceError),
    "binary views": (YES_NO, pa.array([SECRET.encode()], pa.binary_view()).dictionary_encode(), errors.LabelSpaceError),
    # mixed, or of no kind
    "mixture": (YES_NO, ["no", 1, SECRET], errors.LabelSpaceError),
    "mixture of numbers": (DIGITS, [1, SECRET], errors.LabelSpaceError),
    "mixed object array": (DIGITS, np.array([1, SECRET], object), errors.LabelSpaceError),
    "mixed pandas": (DIGITS, pd.Series([1, SECRET], dtype=object), errors.LabelSpaceError),
    "mixed truth": (TRUTH, pd.Series([True, SECRET], dtype=object), errors.LabelSpaceError),
    "mixed categories": (DIGITS, pd.Categorical([1, SECRET]), errors.LabelSpaceError),
    "truth among integers": (DIGITS, [True, NUMBER], errors.LabelSpaceError),
    "too large": (DIGITS, [NUMBER * 2**64], errors.LabelSpaceError),
    "too small": (DIGITS, [-NUMBER * 2**64], errors.LabelSpaceError),
    "unsigned and negative": (DIGITS, [NUMBER + 2**63, -1], errors.LabelSpaceError),
    "surrogates": (YES_NO, [f"{SECRET}\ud800"], errors.LabelSpaceError),
    "surrogate array": (YES_NO, np.array([f"{SECRET}\ud800"]), errors.LabelSpaceError),
    "surrogate series": (YES_NO, pd.Series([f"{SECRET}\ud800"], dtype=object), errors.LabelSpaceError),
    "complex": (DIGITS, [complex(NUMBER)], errors.LabelSpaceError),
    "objects": (YES_NO, [object(), SECRET], errors.LabelSpaceError),
    "classes": (YES_NO, [type(SECRET, (), {})], errors.LabelSpaceError),
    "polars objects": (YES_NO, pl.Series([SECRET], dtype=pl.Object), errors.LabelSpaceError),
    # of a wrong shape
    "two dimensions": (YES_NO, np.array([[SECRET]]), errors.ShapeError),
    "no dimension": (YES_NO, np.array(SECRET), errors.ShapeError),
    "masked table": (YES_NO, np.ma.array([[SECRET]]), errors.ShapeError),
    "bare text": (YES_NO, SECRET, errors.ShapeError),
    "bare bytes": (YES_NO, SECRET.encode(), errors.ShapeError),
    "bare number": (DIGITS, NUMBER, errors.ShapeError),
    "nothing": (YES_NO, None, errors.ShapeError),
    "set": (YES_NO, {SECRET}, errors.ShapeError),
    "mapping": (YES_NO, {SECRET: SECRET}, errors.ShapeError),
    "iterator": (YES_NO, iter([SECRET]), errors.ShapeError),
    "pandas frame": (YES_NO, pd.DataFrame({SECRET: [SECRET]}), errors.ShapeError),
    "polars frame": (YES_NO, pl.DataFrame({SECRET: [SECRET]}), errors.ShapeError),
    "lazy frame": (YES_NO, pl.LazyFrame({SECRET: [SECRET]}), errors.ShapeError),
    "arrow table": (YES_NO, pa.table({SECRET: [SECRET]}), errors.ShapeError),
    "arrow scalar": (YES_NO, pa.scalar(SECRET), errors.ShapeError),
}


def _said(error: BaseException | None, seen: Iterable[int] = ()) -> str:
    """Return all that an error and its chain could put into a log, the local variables aside."""
    if error is None or id(error) in seen:
        return ""
    parts = [str(error), repr(error), repr(error.args), repr(getattr(error, "context", "")), repr(vars(error))]
    before = {*seen, id(error)}
    return " ".join([*parts, _said(error.__cause__, before), _said(error.__context__, before)])


def _by_encode(values: Any, space: LabelSpace) -> None:
    space.encode(values)


def _by_raw_labels(values: Any, space: LabelSpace) -> None:
    RawLabels(values, space)


def _by_privatize(values: Any, space: LabelSpace) -> None:
    ldp.privatize(values, ldp.RandomizedResponse(space, 1))


def _by_curator(values: Any, space: LabelSpace) -> None:
    ldp.Curator(values, 1.0, space=space)


def _by_histogram(values: Any, space: LabelSpace) -> None:
    ldp.privatize(values, ldp.LabelHistogram(space, 1))


@pytest.mark.parametrize("enter", [_by_encode, _by_raw_labels, _by_privatize, _by_curator, _by_histogram])
@pytest.mark.parametrize("name", _STRANGERS)
def test_no_error_shows_a_label(name: str, enter: Callable[[Any, LabelSpace], None]) -> None:
    """Whatever is wrong with labels, through whichever door: a typed error, and nothing in its chain is a label."""
    space, values, kind = _STRANGERS[name]

    with warnings.catch_warnings(record=True) as warned, pytest.raises(kind) as caught:
        enter(values if name != "iterator" else iter([SECRET]), space)
    said = _said(caught.value) + " ".join(str(warning.message) for warning in warned)

    assert type(caught.value) is kind
    assert SECRET not in said
    assert str(NUMBER) not in said
    assert str(NUMBER)[:6] not in said
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None


@pytest.mark.parametrize("values", [[SECRET], pa.array(["no", SECRET]), [1], [None], [f"{SECRET}\ud800"]], ids=range(5))
def test_the_kernel_shows_no_label(values: Any) -> None:
    """In batches, errors are as silent as in one piece, in the first pass and in the second."""
    channel = ldp.RandomizedResponse(YES_NO, 1)
    good = pa.record_batch({"id": [1], "label": ["no"]})
    kernel = prepare(channel, ldp.KeyedCoins(bytes(32)), [good])
    try:
        bad = pa.record_batch({"id": list(range(len(values))), "label": values})
    except Exception:  # noqa: BLE001  # Arrow does not even hold it
        bad = pa.record_batch({"id": [1], "label": pa.array([SECRET.encode()])})

    with pytest.raises(errors.InputError) as first:
        prepare(channel, ldp.KeyedCoins(bytes(32)), [good, bad])
    with pytest.raises(errors.InputError) as second:
        kernel(bad)

    assert SECRET not in _said(first.value) + _said(second.value)


def test_the_sentinel_is_found_where_it_shows() -> None:
    """The test above could fail: a label in a message, an attribute or a hidden cause is found."""

    def hidden() -> None:
        try:
            raise ValueError(SECRET)
        except ValueError:
            raise errors.LabelSpaceError("Silent.") from None

    with pytest.raises(errors.LabelSpaceError) as chained:
        hidden()

    assert SECRET in _said(chained.value)
    assert SECRET in _said(errors.UnknownLabelError("Silent.", value=SECRET))
    assert SECRET in _said(ValueError(SECRET))
    assert SECRET not in _said(ValueError("Silent."))


def test_a_message_does_not_depend_on_how_labels_are_written() -> None:
    """Not even the number of digits shows: decimals of any length are refused in the same words."""
    with pytest.raises(errors.LabelSpaceError) as short:
        DIGITS.encode([decimal.Decimal("1.5")])
    with pytest.raises(errors.LabelSpaceError) as long:
        DIGITS.encode([decimal.Decimal("123456.75")])

    assert str(short.value) == str(long.value)
    assert "decimal" in str(long.value)


def test_an_error_says_what_to_do() -> None:
    """Errors of labels name the remedy."""
    with pytest.raises(errors.UnknownLabelError, match="Declare every label that can occur"):
        YES_NO.encode(["maybe"])
    with pytest.raises(errors.LabelSpaceError, match=r"integers like the declared ones, got a column of type text"):
        DIGITS.encode(["1"])
    with pytest.raises(errors.ShapeError, match=r"one dimension, got an array of shape \(2, 1\)"):
        YES_NO.encode(np.array([["no"], ["yes"]]))


# ---- raw labels ----------------------------------------------------------------------------------------------

RAW = RawLabels(["no", "yes", "yes"], YES_NO)

_WAYS_OUT: dict[str, Callable[[Any], Any]] = {
    "asarray": np.asarray,
    "array of objects": lambda raw: np.array([raw]),
    "concatenate": lambda raw: np.concatenate([raw, raw]),
    "unique": np.unique,
    "__array__": lambda raw: raw.__array__(np.uint8, copy=True),
    "iter": iter,
    "list": list,
    "tuple": lambda raw: (*raw,),
    "unpack": lambda raw: print(*raw),
    "sorted": sorted,
    "max": max,
    "reversed": lambda raw: next(reversed(raw)),
    "index": lambda raw: raw[0],
    "slice": lambda raw: raw[:],
    "in": lambda raw: "no" in raw,
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "deepcopy in a list": lambda raw: copy.deepcopy([raw]),
    **{f"pickle {n}": lambda raw, n=n: pickle.dumps(raw, n) for n in range(pickle.HIGHEST_PROTOCOL + 1)},
    "pickle in a dict": lambda raw: pickle.dumps({"labels": raw}),
    "reduce": lambda raw: raw.__reduce__(),
    "getstate": lambda raw: raw.__getstate__(),
    "dlpack": np.from_dlpack,
    "__dlpack__": lambda raw: raw.__dlpack__(stream=None),
    "arrow": pa.array,
    "arrow table": lambda raw: pa.table({"label": raw}),
    "__arrow_array__": lambda raw: raw.__arrow_array__(type=None),
    "__arrow_c_array__": lambda raw: raw.__arrow_c_array__(requested_schema=None),
    "pandas": pd.Series,
    "pandas frame": lambda raw: pd.DataFrame({"label": raw}),
    "polars": pl.Series,
    "encode": YES_NO.encode,
    "raw labels again": lambda raw: RawLabels(raw, YES_NO),
    "ids": lambda raw: ldp.privatize(["no"] * 3, ldp.RandomizedResponse(YES_NO, 1), ids=raw),
}


@pytest.mark.parametrize("way", _WAYS_OUT)
def test_raw_labels_do_not_come_out(way: str) -> None:
    """Raw labels become no array, list, copy, pickle, tensor or column; the error says where to go instead."""
    with pytest.raises(errors.RawLabelsError, match=r"labeldp\.privatize"):
        _WAYS_OUT[way](RAW)


@pytest.mark.parametrize("way", [memoryview, bytes, json.dumps, vars, float, int, lambda raw: raw + raw, next])
def test_raw_labels_are_nothing_else_either(way: Callable[[Any], Any]) -> None:
    """Whatever Python tries without asking for a conversion fails too, and says nothing."""
    with pytest.raises((TypeError, errors.RawLabelsError)) as caught:
        way(RAW)

    assert "no" not in _said(caught.value).replace("not", "")


def test_raw_labels_show_their_length_only() -> None:
    """repr, str and format show how many there are; two columns of one length look the same."""
    other = RawLabels(["yes", "no", "no"], YES_NO)

    assert len(RAW) == 3
    assert RAW.space is YES_NO
    assert {"RawLabels(3 rows)"} == {repr(RAW), str(RAW), f"{RAW}", f"{RAW!r}", repr(other)}
    assert "RawLabels(3 rows)" in repr({"labels": RAW})
    assert RAW.__sizeof__() == other.__sizeof__()
    assert bool(RAW)


def test_raw_labels_are_equal_only_to_themselves() -> None:
    """Comparing columns would tell whether a label differs: each is equal to itself alone."""
    twin = RawLabels(["no", "yes", "yes"], YES_NO)

    assert RAW == RAW  # noqa: PLR0124  # what is tested
    assert twin != RAW
    assert len({RAW, twin}) == 2


def test_raw_labels_have_no_attribute_with_codes() -> None:
    """No public name leads to the codes, no dictionary holds them, and nothing can be put on top."""
    public = {name for name in dir(RAW) if not name.startswith("_")}

    assert public == {"space"}
    assert not hasattr(RAW, "__dict__")
    for name in ("codes", "_codes", "__codes", "values", "labels", "data", "__array_interface__"):
        assert not hasattr(RAW, name)
    with pytest.raises(AttributeError):
        RAW.space = DIGITS  # type: ignore[misc]  # what is tested
    with pytest.raises(AttributeError):
        RAW.note = "x"  # type: ignore[attr-defined]  # what is tested
