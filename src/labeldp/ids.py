"""Row ids: what a row is called, and the 16-byte block made of it.

The type is part of the id: the integer 7, the text "7" and position 7 are three different rows.  Floats are
refused (7.0 is which row?), so are missing and duplicate ids.
"""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, final

import numpy as np

from labeldp.errors import DuplicateIdError, EmptyInputError, IdError, LabelSpaceError, ShapeError
from labeldp.labels import _from_python, as_series
from labeldp.prf import PUBLIC_KEY, ROWS_PER_STEP, Aes, derive, mac_texts, native

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

Kind = Literal["position", "integer", "text", "uuid"]

_TAG: Final[dict[str, int]] = {"position": 1, "integer": 2, "text": 3, "uuid": 4}
_NEGATIVE: Final = 1 << 8  # second byte of an integer's block: which side of zero, so that 2^64 - 1 is not -1


@final
class RowIds:
    """Names of rows: positions, integers, texts or UUIDs.

    >>> RowIds.of(["a", "b"])
    RowIds(2 rows by text)
    """

    __slots__ = ("_data", "_offsets", "_rows", "kind")

    kind: Kind

    def __init__(self, kind: Kind, rows: int, data: NDArray[Any] | None, offsets: NDArray[np.int64] | None) -> None:
        self.kind = kind
        self._rows = rows
        self._data = data
        self._offsets = offsets

    @classmethod
    def positions(cls, rows: int) -> RowIds:
        """Rows known only by their place in this one table."""
        return cls("position", rows, None, None)

    @classmethod
    def of(cls, values: object) -> RowIds:
        """Read ids from a list, an array or a series, and refuse what cannot name a row."""
        if isinstance(values, RowIds):
            return values
        try:
            array = as_series(_uuid_bytes(values))
            if isinstance(array, np.ndarray) and array.dtype.kind in "UTO":
                array = _from_python(array)
        except LabelSpaceError:
            raise IdError(
                "Expected row ids of one kind (integers, texts or UUIDs), got a mixture or another type."
            ) from None
        if isinstance(array, np.ndarray) and array.dtype.kind in "iu":
            return cls("integer", len(array), _integers(array), None)
        return _from_arrow(cls, array)

    @classmethod
    def join(cls, parts: Sequence[RowIds]) -> RowIds:
        """Return the ids of several batches of one table, one after the other."""
        kinds = {part.kind for part in parts}
        if len(kinds) != 1 or "position" in kinds:
            raise IdError(f"Expected row ids of one kind in all batches, got {', '.join(sorted(kinds)) or 'none'}.")
        kind = parts[0].kind
        data = [part._data for part in parts if part._data is not None]
        rows = sum(map(len, parts))
        if parts[0]._offsets is None:
            signed = all(part.dtype == np.int64 for part in data)
            whole = np.concatenate([part if signed else _widest(part) for part in data])
            return cls(kind, rows, _integers(whole), None)
        offsets = [part._offsets for part in parts if part._offsets is not None]
        texts = np.concatenate([part[: ends[-1]] for part, ends in zip(data, offsets, strict=True)])
        lengths = np.concatenate([np.diff(ends) for ends in offsets])
        return cls(kind, rows, _padded(texts), np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64))

    def __len__(self) -> int:
        return self._rows

    def __repr__(self) -> str:
        return f"RowIds({len(self)} rows by {self.kind})"

    def take(self, rows: NDArray[Any]) -> RowIds:
        """Return the ids of some rows, in that order."""
        rows = np.flatnonzero(rows) if rows.dtype == bool else rows
        if self.kind == "position":
            picked = rows.astype(np.int64) if self._data is None else self._data[rows]
            return RowIds("position", len(rows), picked, None)
        assert self._data is not None  # noqa: S101  # only positions have none
        if self._offsets is None:
            return RowIds(self.kind, len(rows), self._data[rows], None)
        starts, lengths = self._offsets[:-1][rows], np.diff(self._offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        at = np.repeat(starts - offsets[:-1], lengths) + np.arange(offsets[-1])
        return RowIds(self.kind, len(rows), _padded(self._data[at]), offsets)

    def blocks(self, mac_key: bytes) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Yield (first row, 16-byte blocks as (m, 2) words) in steps; every step overwrites the last."""
        blocks = np.empty((min(ROWS_PER_STEP, len(self)), 2), np.uint64)
        tag = native(np.uint64(_TAG[self.kind]))
        blocks[:, 0] = tag
        data, offsets = self._data, self._offsets
        for start in range(0, len(self), ROWS_PER_STEP):
            part = blocks[: len(self) - start]
            stop = start + len(part)
            if data is None:
                part[:, 1] = native(_COUNT[: len(part)] + np.uint64(start))
            elif offsets is None:
                values = data[start:stop]
                if values.dtype != np.uint64:
                    part[:, 0] = tag + native((values < 0) * np.uint64(_NEGATIVE))
                part[:, 1] = native(values.view(np.uint64))
            else:
                first, last = int(offsets[start]), int(offsets[stop])
                part[:] = mac_texts(mac_key, data[first : last + 16], offsets[start : stop + 1] - first, int(tag))
            yield start, part

    def tags(self, key: bytes) -> NDArray[np.uint64]:
        """Return a keyed 128-bit name, (n, 2) words, for every row: for comparing rows without their ids."""
        aes = Aes(derive(key, b"id tag"))
        out = np.empty((len(self), 2), np.uint64)
        for start, blocks in self.blocks(derive(key, b"id mac")):
            out[start : start + len(blocks)] = native(aes(blocks))
        return out

    def public_order(self) -> NDArray[np.intp]:
        """Return the rows in an order that depends on the set of ids alone."""
        if self._data is None:
            return np.arange(len(self))
        if self._offsets is None:
            return np.argsort(self._data, kind="stable")
        tags = self.tags(PUBLIC_KEY)
        # Texts whose tags were made to collide keep the order they came in: then only the digest is another one.
        return np.lexsort((tags[:, 1], tags[:, 0]))

    def public_digest(self) -> bytes:
        """SHA-256 of the ids, whatever their order: ids are public, and may be chosen by anybody."""
        digest = hashlib.sha256(f"labeldp row ids: {len(self)} by {self.kind};".encode())
        if self._data is None:
            return digest.digest()
        ordered = self.take(self.public_order())
        if ordered._offsets is None:
            # A block is a type, a sign and a value: no two integers share one.
            for _, blocks in ordered.blocks(PUBLIC_KEY):
                digest.update(blocks.data)
        else:
            assert ordered._data is not None  # noqa: S101  # texts have bytes
            digest.update(np.diff(ordered._offsets).astype("<i8").data)
            digest.update(ordered._data[: ordered._offsets[-1]].data)
        return digest.digest()

    def check_unique(self) -> None:
        """Refuse duplicate ids, with an example (ids are public)."""
        if self._data is None:
            return
        twice: int | str | None
        if self._offsets is None:
            twice = _repeated(self._data)
        else:
            tags = self.tags(b"uniqueness, nothing secret".ljust(32))
            rows = _repeated_pair(tags)
            twice = None if rows is None else self._text(rows)
        if twice is not None:
            raise DuplicateIdError(
                f"Expected unique row ids, got {twice!r} at least twice. Two rows with one id would share their "
                "coins; make ids unique, or release one label per id.",
                example=twice,
            )

    def to_arrow(self) -> Any:  # pyarrow.Array or None
        """Return the ids as an Arrow array; positions are not worth a column."""
        import pyarrow as pa

        if self.kind == "position" or self._data is None:
            return None
        if self._offsets is None:
            return pa.array(self._data)
        buffers = [None, pa.py_buffer(self._offsets), pa.py_buffer(np.ascontiguousarray(self._data))]
        if self.kind == "uuid":
            kind = pa.binary(16)
            return pa.Array.from_buffers(kind, len(self), [None, buffers[2]])
        return pa.Array.from_buffers(pa.large_string(), len(self), buffers)

    def _text(self, row: int) -> str:
        assert self._data is not None  # noqa: S101  # texts have bytes
        assert self._offsets is not None  # noqa: S101  # texts have offsets
        value = self._data[self._offsets[row] : self._offsets[row + 1]].tobytes()
        return value.hex() if self.kind == "uuid" else value.decode("utf-8", "replace")


def _widest(values: NDArray[Any]) -> NDArray[np.uint64]:
    if values.dtype == np.int64 and len(values) and int(values.min()) < 0:
        raise IdError("Expected integer ids that fit one type of 64 bits, got negative ones and some beyond 2^63.")
    return values.astype(np.uint64)


def _integers(array: NDArray[Any]) -> NDArray[Any]:
    if array.dtype == np.uint64 and len(array) and int(array.max()) >= 2**63:
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array, dtype=np.int64)


def _from_arrow(cls: type[RowIds], array: Any) -> RowIds:  # pyarrow.Array
    import pyarrow as pa

    if isinstance(array, np.ndarray):
        _wrong_type(array.dtype)
    if isinstance(array.type, pa.BaseExtensionType):
        array = array.storage
    if len(array) == 0 and pa.types.is_null(array.type):
        raise EmptyInputError("Expected at least one row id, got none.")
    if array.null_count:
        raise IdError(f"Expected an id for every row, got {array.null_count} missing ids.", missing=array.null_count)
    kind = array.type
    if pa.types.is_integer(kind):
        return cls("integer", len(array), _integers(array.to_numpy(zero_copy_only=False)), None)
    if pa.types.is_fixed_size_binary(kind) and kind.byte_width == 16:  # a UUID
        # A slice shares the buffer of the whole and begins at its offset.
        data = np.frombuffer(array.buffers()[1] or b"", np.uint8)[16 * array.offset : 16 * (array.offset + len(array))]
        return cls("uuid", len(array), _padded(data), np.arange(len(array) + 1, dtype=np.int64) * 16)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        texts = pa.concat_arrays([array.cast(pa.large_string())])
        _, offsets_buffer, data_buffer = texts.buffers()
        offsets = np.frombuffer(offsets_buffer, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]] if len(texts) else _EMPTY
        return cls("text", len(texts), _padded(data), offsets - offsets[0])
    return _wrong_type(kind)


def _uuid_bytes(values: object) -> object:
    """Turn UUIDs into columns of 16 bytes, which every version of Arrow knows."""
    if isinstance(values, np.ndarray) and values.dtype == object and values.ndim == 1:
        values = values.tolist()
    if not isinstance(values, list | tuple) or not values or not all(isinstance(value, uuid.UUID) for value in values):
        return values
    import pyarrow as pa

    return pa.array([value.bytes for value in values], pa.binary(16))


def _wrong_type(kind: object) -> NoReturn:
    raise IdError(
        f"Expected row ids that are integers, texts or UUIDs, got {kind}. Floats and truth values do not name a row; "
        "convert them to integers or texts.",
        type=str(kind),
    )


def _padded(data: NDArray[np.uint8]) -> NDArray[np.uint8]:
    out = np.zeros(len(data) + 16, np.uint8)
    out[: len(data)] = data
    return out


def _repeated(values: NDArray[Any]) -> int | None:
    if len(values) < 2 or bool((values[1:] > values[:-1]).all()):  # already in order: no sort
        return None
    ranked = np.sort(values)
    same = np.flatnonzero(ranked[1:] == ranked[:-1])
    return int(ranked[same[0]]) if len(same) else None


def _repeated_pair(tags: NDArray[np.uint64]) -> int | None:
    order = np.lexsort((tags[:, 1], tags[:, 0])) if len(tags) < 2**16 else np.argsort(tags[:, 0])
    ranked = tags[order]
    first = ranked[1:, 0] == ranked[:-1, 0]
    if first.any() and len(tags) >= 2**16:
        order = np.lexsort((tags[:, 1], tags[:, 0]))
        ranked = tags[order]
        first = ranked[1:, 0] == ranked[:-1, 0]
    same = np.flatnonzero(first & (ranked[1:, 1] == ranked[:-1, 1]))
    return int(order[same[0]]) if len(same) else None


def same_length(ids: RowIds, rows: int) -> None:
    """Refuse ids of another number of rows."""
    if len(ids) != rows:
        raise ShapeError(f"Expected {rows} row ids, one a label, got {len(ids)}.", expected=rows, got=len(ids))


_EMPTY: Final = np.empty(0, np.uint8)
_COUNT: Final = np.arange(ROWS_PER_STEP, dtype=np.uint64)
