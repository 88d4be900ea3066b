"""The declared label space, and the only object that may hold raw labels."""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

import numpy as np

from labeldp.errors import (
    EmptyInputError,
    InputError,
    LabelSpaceError,
    MissingLabelError,
    RawLabelsError,
    ShapeError,
    UnknownLabelError,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

Label = str | int | bool | None
Codes = np.ndarray[Any, np.dtype[np.unsignedinteger[Any]]]

_KINDS: Final = {str: "text", bool: "truth value", int: "integer"}


def code_type(size: int) -> np.dtype[np.unsignedinteger[Any]]:
    """Return the smallest unsigned type that holds codes 0 .. ``size`` - 1."""
    return np.dtype(np.min_scalar_type(max(size - 1, 0)))


@final
class LabelSpace:
    """A public, ordered, declared set of labels.

    All labels are of one kind: texts, integers or truth values.  ``None`` among them declares that a missing
    value is a label of its own; otherwise missing values are refused.

    >>> space = LabelSpace(["no", "yes"])
    >>> space.size
    2
    >>> space.decode(space.encode(["yes", "no", "yes"])).tolist()
    ['yes', 'no', 'yes']
    """

    __slots__ = ("_index", "kind", "labels")

    labels: tuple[Label, ...]
    kind: str
    _index: NDArray[Any] | None

    def __init__(self, labels: Iterable[Label]) -> None:
        declared = tuple(_plain(label) for label in _iterable(labels))
        if len(set(declared)) != len(declared):
            twice = next(label for i, label in enumerate(declared) if label in declared[:i])
            raise LabelSpaceError(f"Expected distinct labels, got {twice!r} twice.", label=twice)
        if len(declared) < 2:  # one label is known to everybody
            raise LabelSpaceError(
                f"Expected at least 2 labels, got {len(declared)}: with fewer there is nothing to hide. "
                "Declare every label that could occur.",
                size=len(declared),
            )
        kinds = {_KINDS[type(label)] for label in declared if label is not None}
        if len(kinds) != 1:
            raise LabelSpaceError(
                f"Expected labels of one kind, got {', '.join(sorted(kinds))}. Write them all as texts, for example.",
                kinds=kinds,
            )
        object.__setattr__(self, "labels", declared)
        object.__setattr__(self, "kind", kinds.pop())
        object.__setattr__(self, "_index", None)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"LabelSpace is immutable; cannot set {name!r}.")

    def __delattr__(self, name: str) -> NoReturn:
        raise AttributeError(f"LabelSpace is immutable; cannot delete {name!r}.")

    def __reduce__(self) -> tuple[type[LabelSpace], tuple[tuple[Label, ...]]]:
        return LabelSpace, (self.labels,)

    @property
    def size(self) -> int:
        """Number of labels, K."""
        return len(self.labels)

    @property
    def missing_code(self) -> int | None:
        """Code of the label that stands for a missing value, if one is declared."""
        return self.labels.index(None) if None in self.labels else None

    def __len__(self) -> int:
        return len(self.labels)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LabelSpace) and other.kind == self.kind and other.labels == self.labels

    def __hash__(self) -> int:
        return hash((self.kind, self.labels))

    def __repr__(self) -> str:
        shown = ", ".join(repr(label) for label in self.labels[:6])
        more = f", ... {self.size} in all" if self.size > 6 else ""  # what fits a line
        return f"LabelSpace([{shown}{more}])"

    def encode(self, values: object) -> Codes:
        """Turn labels into codes 0 .. K-1, refusing missing and undeclared ones.

        Accepts lists, NumPy arrays, and series of pandas, polars or pyarrow.  No message shows a label.
        """
        return _encode(self, values)

    def decode(self, codes: object) -> NDArray[Any]:
        """Turn codes into labels: a text, integer or truth-value array, of objects if one label is missing."""
        array = np.asarray(codes)
        if array.size == 0:
            array = array.astype(np.intp)  # an empty list is an array of floats
        # A negative code would count from the end, and truth values would choose labels instead of rows.
        if array.dtype.kind not in "iu" or not 0 <= int(array.min(initial=0)) <= int(array.max(initial=0)) < self.size:
            raise ShapeError(f"Expected codes 0 .. {self.size - 1}, got others, or an array of type {array.dtype}.")
        labels: NDArray[Any] = self._table()[array]
        return labels

    def digest(self) -> bytes:
        """SHA-256 of the declared labels, their kind and order."""
        return hashlib.sha256(json.dumps(self.to_json(), separators=(",", ":")).encode()).digest()

    def to_json(self) -> dict[str, Any]:
        """Return what :meth:`from_json` reads."""
        return {"kind": self.kind, "labels": list(self.labels)}

    @staticmethod
    def from_json(data: dict[str, Any]) -> LabelSpace:
        """Read what :meth:`to_json` wrote."""
        return LabelSpace(data["labels"])

    def _table(self) -> NDArray[Any]:
        if self._index is None:
            # A NumPy text forgets NULs at its end.
            plain = all(label is not None and not str(label).endswith("\0") for label in self.labels)
            dtype = None if plain else object
            table = np.array(self.labels, dtype=dtype)
            table.flags.writeable = False
            object.__setattr__(self, "_index", table)
            return table
        return self._index


@final
class RawLabels:
    """Raw labels on their owner's side; shows only its length.

    It refuses to become an array, to be iterated, indexed, copied or pickled: the curator is the only reader.

    >>> RawLabels(["no", "yes", "yes"], LabelSpace(["no", "yes"]))
    RawLabels(3 rows)
    """

    __slots__ = ("__codes", "__space")

    def __init__(self, values: object, space: LabelSpace) -> None:
        given: object = space
        if not isinstance(given, LabelSpace):
            raise InputError(
                f"Expected a declared label space, such as LabelSpace(['no', 'yes']), got {type(given).__name__}."
            )
        codes = space.encode(values)
        if len(codes) == 0:
            raise EmptyInputError("Expected at least one label, got none.")
        codes.flags.writeable = False
        self.__codes = codes
        self.__space = space

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self.__space

    def __len__(self) -> int:
        return len(self.__codes)

    def __repr__(self) -> str:
        return f"RawLabels({len(self)} rows)"

    __hash__ = object.__hash__

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        raise RawLabelsError(
            "Raw labels stay with their owner: they do not become arrays, copies, files or pickles. "
            "Release them through labeldp.privatize or a Curator, and use the release."
        )

    __array__ = __iter__ = __getitem__ = __contains__ = _refuse
    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _refuse
    __arrow_array__ = __arrow_c_array__ = __dlpack__ = _refuse


def owner_codes(labels: RawLabels) -> Codes:
    """Return the codes behind ``labels``: for the curator's side only (an import rule keeps learners out)."""
    codes: Codes = labels._RawLabels__codes  # type: ignore[attr-defined]  # the one door
    return codes


def as_series(values: object) -> Any:  # an array of NumPy or of Arrow
    """Return ``values`` as a one-dimensional NumPy or Arrow array, without importing anybody's data frames."""
    if isinstance(values, RawLabels):
        values._refuse()  # same refusal, same words
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise ShapeError(f"Expected one dimension, got an array of shape {values.shape}.", shape=values.shape)
        # What lies under a mask is not a value.
        return _from_python(values.tolist()) if isinstance(values, np.ma.MaskedArray) else values
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return _from_python(list(values))
    if "pyarrow" in sys.modules:
        import pyarrow as pa

        if isinstance(values, pa.Array | pa.ChunkedArray):
            return _combined(values)
    if "pandas" in sys.modules or "polars" in sys.modules:
        import narwhals as nw

        pandas = sys.modules.get("pandas")
        if pandas is not None and isinstance(values, pandas.Index | pandas.api.extensions.ExtensionArray):
            values = pandas.Series(values)
        try:
            series = nw.from_native(values, series_only=True)  # type: ignore[call-overload]
        except TypeError:
            series = None
        if series is not None:
            return _combined(_quietly(series.to_arrow))
    raise ShapeError(f"Expected a list, an array or a series, got {type(values).__name__}.")


def _encode(space: LabelSpace, values: object) -> Codes:
    array = as_series(values)
    if len(array) == 0:
        return np.empty(0, code_type(space.size))  # whatever the type: an empty list becomes an array of floats
    if isinstance(array, np.ndarray):
        if array.dtype.kind in "iu" and space.kind == "integer" and None not in space.labels:
            return _encode_integers(space, array)
        if array.dtype.kind == "b" and space.kind == "truth value":
            array = array.astype(np.uint8)
            return _looked_up(space, array, np.array([int(bool(x)) for x in space.labels if x is not None], np.uint8))
        array = _from_python(array)
    return _encode_arrow(space, array)


def _encode_integers(space: LabelSpace, array: NDArray[Any]) -> Codes:
    labels = np.array(space.labels, dtype=np.int64)
    low = int(labels[0])
    if int(array.min()) < int(labels.min()) or int(array.max()) > int(labels.max()):
        _unknown()
    # From here on every value fits 64 signed bits; narrower types could not hold a difference.
    if int(labels[-1]) - low == space.size - 1 and bool((np.diff(labels) == 1).all()):
        shifted = array if low == 0 else array.astype(np.int64) - low
        return shifted.astype(code_type(space.size))
    return _looked_up(space, array.astype(np.int64, copy=False), labels)


def _looked_up(space: LabelSpace, array: NDArray[Any], labels: NDArray[Any]) -> Codes:
    order = np.argsort(labels, kind="stable")
    ranked = labels[order]
    place = np.searchsorted(ranked, array)
    place[place == len(ranked)] = 0
    if not bool((ranked[place] == array).all()):
        _unknown()
    known = np.flatnonzero([label is not None for label in space.labels])
    return known[order][place].astype(code_type(space.size))


def _encode_arrow(space: LabelSpace, array: Any) -> Codes:  # pyarrow.Array
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = _arrow_kind(array.type)
    if kind not in (space.kind, "null"):
        raise LabelSpaceError(
            f"Expected labels that are {space.kind}s like the declared ones, got a column of type {kind}. "
            "Declare the space with labels of that type, or convert the column first.",
            expected=space.kind,
        )
    known = [label for label in space.labels if label is not None]
    if kind == "null":
        codes, missing = np.zeros(len(array), np.int64), np.ones(len(array), bool)
        found = codes
    else:
        table = pa.array(known)
        if kind == "text" and not pa.types.is_string(array.type):
            table = table.cast(pa.large_string())
        try:
            array = array.cast(table.type)
        except pa.ArrowInvalid:
            array = None  # Arrow's message quotes the value: it must not even be chained
        if array is None:
            _unknown()
        found_at = pc.index_in(array, value_set=table)
        missing = np.asarray(array.is_null())
        found = np.asarray(found_at.fill_null(-1)).astype(np.int64)
    if bool(missing.any()) and space.missing_code is None:
        raise MissingLabelError(
            "Some labels are missing. Drop those rows, or declare None as a label of its own: LabelSpace([..., None])."
        )
    if bool((found[~missing] < 0).any()):
        _unknown()
    positions = np.flatnonzero([label is not None for label in space.labels])
    codes = positions[np.where(missing, 0, found)]
    if space.missing_code is not None:
        codes = np.where(missing, space.missing_code, codes)
    return codes.astype(code_type(space.size))


def _arrow_kind(kind: Any) -> str:  # pyarrow.DataType
    import pyarrow as pa

    if pa.types.is_boolean(kind):
        return "truth value"
    if pa.types.is_integer(kind):
        return "integer"
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return "text"
    if pa.types.is_nested(kind):
        return "nested"  # the name of a structure's type quotes its keys
    # The digits of a decimal type are those of the labels, so only the name of a type may show.
    return "null" if pa.types.is_null(kind) else re.split(r"[^\w ]", str(kind), maxsplit=1)[0]


def _from_python(values: Any) -> Any:  # list or NumPy array in, pyarrow.Array out
    import pyarrow as pa

    if isinstance(values, np.ndarray) and not values.dtype.isnative:
        values = values.astype(values.dtype.newbyteorder("="))  # Arrow knows this machine's byte order only
    # A list of integers beyond 2^63 is taken for one of signed ones first.
    array = _quietly(lambda: pa.array(values, from_pandas=True), lambda: pa.array(values, pa.uint64()))
    if isinstance(values, np.ndarray) and values.dtype.kind == "U" and _shorter(array, values):
        array = _quietly(lambda: pa.array(values.tolist()))
    return array


def _shorter(array: Any, values: NDArray[np.str_]) -> bool:
    """Whether Arrow lost a part of some text: of NumPy's it reads no more than what precedes the first NUL."""
    import pyarrow.compute as pc

    length: int = pc.sum(pc.utf8_length(array), min_count=0).as_py()
    return length != int(np.strings.str_len(values).sum())


def _quietly(*ways: Callable[[], Any]) -> Any:  # pyarrow.Array
    """Convert values without letting through what a converter says of them: messages quote values."""
    for convert in ways:
        try:
            return convert()
        except Exception:  # noqa: BLE001, S112  # whatever it says, it must not even be chained
            continue
    raise LabelSpaceError(
        "Expected values of one kind (texts, integers or truth values), got a mixture or a type that cannot "
        "be a label. Convert them to one kind first."
    )


def _combined(array: Any) -> Any:  # pyarrow arrays
    import pyarrow as pa

    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        if pa.types.is_string_view(array.type.value_type):
            # Arrow decodes no dictionary of these.
            array = pa.DictionaryArray.from_arrays(array.indices, array.dictionary.cast(pa.large_string()))
        array = _quietly(array.dictionary_decode)
    return array


def _unknown() -> NoReturn:
    raise UnknownLabelError(
        "Some labels are not in the declared label space. Declare every label that can occur, or clean the column; "
        "comparing its distinct values with space.labels on the owner's side shows which."
    )


def _plain(label: object) -> Label:
    if label is None or isinstance(label, bool):
        return label
    if isinstance(label, np.bool_):
        return bool(label)
    if isinstance(label, str):
        if not label.isascii() and any("\ud800" <= character <= "\udfff" for character in label):
            raise LabelSpaceError(f"Expected texts that UTF-8 can write, got {label!a}.", label=label)
        return str.__str__(label)  # of a member of an Enum, str() would give the name
    if isinstance(label, int | np.integer):
        if not -(2**63) <= int(label) < 2**63:
            raise LabelSpaceError(f"Expected integers of 64 bits, got {label}.", label=label)
        return int(label)
    raise LabelSpaceError(
        f"Expected labels that are texts, integers, truth values or None, got {type(label).__name__}. "
        "Bin or rename continuous values first.",
        label=label,
    )


def _iterable(labels: Iterable[Label]) -> Iterable[Label]:
    if isinstance(labels, str | bytes | set | frozenset) or not isinstance(labels, Iterable):
        raise LabelSpaceError(f"Expected a list of labels, in an order of their own, got {type(labels).__name__}.")
    return labels
