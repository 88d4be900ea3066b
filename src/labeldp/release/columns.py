"""Columns of a release file, and back."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from labeldp.errors import ReleaseFileError
from labeldp.ids import RowIds

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.channels.base import FiniteChannel
    from labeldp.labels import Codes, LabelSpace

PARAMETER = "channel_"


def label_column(space: LabelSpace, codes: Codes) -> pa.Array:
    """Return released labels as a column of their own type."""
    return pa.array(list(space.labels)).take(pa.array(codes))


def label_codes(space: LabelSpace, column: pa.ChunkedArray) -> Codes:
    """Read a column of released labels."""
    return space.encode(column)


def row_parameter_columns(channel: FiniteChannel) -> dict[str, pa.Array]:
    """Return the channel's per-row parameters as columns: integers, or bytes of one length."""
    columns = {}
    for name, values in channel.row_columns().items():
        if values.ndim == 2:  # a row of bytes each
            data = pa.py_buffer(np.ascontiguousarray(values))
            columns[PARAMETER + name] = pa.Array.from_buffers(pa.binary(values.shape[1]), len(values), [None, data])
        else:
            columns[PARAMETER + name] = pa.array(values)
    return columns


def row_parameters(table: pa.Table) -> dict[str, NDArray[Any]]:
    """Read what :func:`row_parameter_columns` wrote."""
    found = {}
    for name in table.column_names:
        if name.startswith(PARAMETER):
            found[name.removeprefix(PARAMETER)] = bytes_or_integers(one_chunk(table.column(name)))
    return found


def bytes_or_integers(array: pa.Array) -> NDArray[Any]:
    """Read a column of integers, or of bytes of one length as a table."""
    if pa.types.is_fixed_size_binary(array.type):
        width = array.type.byte_width
        data = np.frombuffer(array.buffers()[1], np.uint8)
        return data[array.offset * width : (array.offset + len(array)) * width].reshape(len(array), width)
    values: NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values


def id_column(kind: str | None, column: pa.ChunkedArray | None) -> RowIds | None:
    """Read a column of row ids of a known kind."""
    if kind is None or column is None:
        return None
    ids = RowIds.of(one_chunk(column))
    if ids.kind != kind:
        raise ReleaseFileError(f"Expected row ids of kind {kind}, got {ids.kind}.")
    return ids


def one_chunk(column: pa.ChunkedArray) -> pa.Array:
    """Return a column as one array."""
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def type_name(kind: pa.DataType) -> str:
    """Return a type's name; Parquet renames the items of a list, which is no difference."""
    return f"large_list<{kind.value_type}>" if pa.types.is_large_list(kind) else str(kind)


def content_digest(table: pa.Table) -> str:
    """SHA-256 of a table's values, the same for every way of ordering, chunking or encoding its columns."""
    digest = hashlib.sha256()
    for name in sorted(table.column_names):
        array = one_chunk(table.column(name))
        for part in (name, type_name(array.type), str(len(array))):
            digest.update(len(part.encode()).to_bytes(8, "big") + part.encode())
        for part in _parts(array):
            digest.update(part.nbytes.to_bytes(8, "big"))
            digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()


def _parts(array: pa.Array) -> list[NDArray[Any]]:
    """Return a column's values as plain arrays: validity, then values or lengths and bytes."""
    kind = array.type
    valid = np.asarray(array.is_valid())
    if pa.types.is_dictionary(kind):
        return _parts(array.dictionary_decode())
    if pa.types.is_string(kind) or pa.types.is_binary(kind) or pa.types.is_large_string(kind):
        texts = pa.concat_arrays([array.cast(pa.large_binary()).fill_null(b"")])
        offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
        data = np.frombuffer(texts.buffers()[2] or b"", np.uint8)[offsets[0] : offsets[-1]] if len(texts) else _NONE
        return [valid, np.diff(offsets), data]
    if pa.types.is_boolean(kind):
        return [valid, np.asarray(array.fill_null(False)).astype(np.uint8)]  # Arrow's signature
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        values = np.asarray(array.fill_null(0))
        return [valid, values.astype(values.dtype.newbyteorder("<"))]
    if pa.types.is_fixed_size_binary(kind):
        return [valid, bytes_or_integers(array.fill_null(bytes(kind.byte_width)))]
    if pa.types.is_large_list(kind) and pa.types.is_integer(kind.value_type):
        lists = pa.concat_arrays([array])
        return [valid, np.diff(lists.offsets.to_numpy()), *_parts(lists.flatten())]
    # Dates, decimals, nested values: their text form is canonical, and such columns are features of few rows.
    texts = pa.array([str(value) for value in array.to_pylist()], pa.large_string())
    return [valid, *_parts(texts)[1:]]


_NONE = np.empty(0, np.uint8)
