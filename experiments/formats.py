"""Readers of the file formats that the data sets come in; each returns arrays or tables, nothing is interpreted."""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

_IDX_TYPES: Final = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


class DataError(Exception):
    """Data that are missing, or not what they should be."""


def read_gzip(path: Path) -> bytes:
    """Return the unpacked content of a file."""
    with _reading(path):
        return gzip.decompress(path.read_bytes())


def read_json(path: Path) -> Any:
    """Return what a JSON file holds."""
    with _reading(path):
        return json.loads(path.read_bytes())


def read_idx(path: Path) -> NDArray[Any]:
    """Return the array of a packed IDX file: two zeros, a type, the number of axes, their lengths, the values."""
    content = read_gzip(path)
    if len(content) < 4 or content[:2] != b"\0\0" or content[2] not in _IDX_TYPES:
        raise DataError(f"Expected an IDX file, got something else: {path}.")
    axes = content[3]
    start = 4 + 4 * axes
    shape = tuple(int(length) for length in np.frombuffer(content[4:start], ">u4"))
    kind = np.dtype(_IDX_TYPES[content[2]])
    expected = start + math.prod(shape) * kind.itemsize
    if len(shape) != axes or len(content) != expected:
        raise DataError(f"Expected {expected} bytes for shape {shape}, got {len(content)}: {path}.")
    return np.frombuffer(content, kind, offset=start).reshape(shape)


def read_tiles(path: Path, side: int) -> NDArray[np.uint8]:
    """Return the square tiles of a picture, row by row, as an array (tiles, side, side, 3)."""
    from PIL import Image

    Image.MAX_IMAGE_PIXELS = None  # these files are large on purpose
    with _reading(path), Image.open(path) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    if pixels.shape[0] % side or pixels.shape[1] % side:
        raise DataError(f"Expected tiles of {side} pixels, got a picture of {pixels.shape[:2]}: {path}.")
    down, across = pixels.shape[0] // side, pixels.shape[1] // side
    return pixels.reshape(down, side, across, side, 3).transpose(0, 2, 1, 3, 4).reshape(-1, side, side, 3)


def read_csv(
    path: Path,
    names: Sequence[str] | None = None,
    *,
    missing: Sequence[str] = (),
    delimiter: str = ",",
    comment: bytes = b"",
) -> pa.Table:
    """Return the table of a packed text file; columns of numbers become numbers, empty lines are dropped.

    Without ``names`` the first line holds them, and quoted values may hold line breaks.  With ``names``, lines at the
    beginning that start with ``comment`` and spaces after commas are dropped.
    """
    content = read_gzip(path)
    return _table(_headed(content, comment)[1] if comment else content, path, names, missing, delimiter)


def read_keel(path: Path) -> tuple[pa.Table, NDArray[Any]]:
    """Return the features and the last column, as texts, of a packed KEEL file; its ``@`` lines may be missing."""
    header, body = _headed(read_gzip(path), b"@")
    attribute = r"^\s*@attribute\s+(?:'([^']*)'|([^\s{\[]+))"
    found = re.findall(attribute, header.decode(), re.MULTILINE | re.IGNORECASE)
    columns = body.partition(b"\n")[0].count(b",") + 1
    names = [quoted or plain for quoted, plain in found] or [*(f"x{i}" for i in range(1, columns)), "class"]
    table = _table(body, path, names)
    labels = np.array([str(label) for label in table.column(columns - 1).to_pylist()])
    return table.select(range(columns - 1)), labels


def _headed(content: bytes, mark: bytes) -> tuple[bytes, bytes]:
    """Cut off the first lines that begin with a mark or are empty."""
    header = re.match(rb"(?:[ \t]*(?:%s.*)?\r?\n)*" % re.escape(mark), content)
    assert header is not None  # it may be empty
    return header[0], content[header.end() :]


def _table(
    content: bytes,
    path: Path,
    names: Sequence[str] | None,
    missing: Sequence[str] = (),
    delimiter: str = ",",
) -> pa.Table:
    from pyarrow import BufferReader, csv

    if names is not None:
        content = content.replace(b", ", b",")
    with _reading(path):
        return csv.read_csv(
            BufferReader(content),
            read_options=csv.ReadOptions(column_names=names),
            parse_options=csv.ParseOptions(delimiter=delimiter, newlines_in_values=names is None),
            convert_options=csv.ConvertOptions(null_values=list(missing), strings_can_be_null=bool(missing)),
        )


def matrix(table: pa.Table, kind: str, path: Path) -> NDArray[Any]:
    """Return a table of numbers as an array whose type holds them all exactly."""
    import pyarrow as pa

    for column in table.itercolumns():
        if column.null_count or not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            raise DataError(f"Expected numbers without gaps, got a column of type {column.type}: {path}.")
    values = np.column_stack([column.to_numpy() for column in table.itercolumns()])
    array = values.astype(kind)
    if not bool((array == values).all()):
        raise DataError(f"Expected numbers that {kind} can hold, got others: {path}.")
    return array


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise DataError(f"Expected the file {path}, got nothing. Is LABELDP_DATA the right folder?") from error
    except (OSError, EOFError, zlib.error, ValueError) as error:
        # Pictures, JSON and tables that cannot be read are among these.
        raise DataError(f"Expected a file that can be read, got {type(error).__name__}: {error}: {path}.") from error
