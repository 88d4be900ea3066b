"""Sets of labels, one a row, kept compactly: member lists where sets are small, bits where they are large."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from labeldp.labels import code_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Offsets into the member list are kept once for this many rows, and summed up inside.
_STRIDE: Final = 8192
#: Up to this many labels, the members of all sets are tabled: some 50 KB.
_TABLED: Final = 12
#: Rows of up to this many bytes are kept as bits: that is small enough, and needs no offsets.
_WORD: Final = 8


@final
class LabelSets:
    """One non-empty set of labels per row."""

    __slots__ = ("_bits", "_members", "_offsets", "labels", "sizes")

    def __init__(
        self,
        labels: int,
        sizes: NDArray[Any],
        members: NDArray[Any] | None,
        bits: NDArray[np.uint8] | None,
    ) -> None:
        self.labels = labels
        self.sizes = sizes
        self._members = members
        self._bits = bits
        self._offsets: NDArray[np.int64] | None = None
        for array in (sizes, members, bits):
            if array is not None:
                array.flags.writeable = False
        if members is not None:
            starts = np.arange(0, len(sizes), _STRIDE)
            sums = np.add.reduceat(sizes, starts, dtype=np.int64) if len(sizes) else np.zeros(0, np.int64)
            self._offsets = np.concatenate([[0], np.cumsum(sums)])

    @classmethod
    def of_mask(cls, mask: NDArray[np.bool_]) -> LabelSets:
        """Read a (rows, K) table of truth values."""
        return cls.of_packed(np.packbits(mask, axis=1, bitorder="little"), mask.shape[1])

    @classmethod
    def of_packed(cls, bits: NDArray[np.uint8], labels: int) -> LabelSets:
        """Read one bit a label, little end first."""
        sizes = np.bitwise_count(bits).sum(axis=1, dtype=np.int64).astype(code_type(labels + 1))
        return cls(labels, sizes, None, np.ascontiguousarray(bits))

    @classmethod
    def of_parts(cls, labels: int, parts: list[tuple[NDArray[Any], NDArray[Any], bool]]) -> LabelSets:
        """Join parts of (sizes, data, dense): packed bits where dense, member lists otherwise.

        The whole is kept in the smaller of the two forms.
        """
        sizes = np.concatenate([part[0] for part in parts])
        if not _as_bits(sizes, labels):
            members = [_listed(data, labels) if dense else data for _, data, dense in parts]
            return cls(labels, sizes, np.concatenate(members), None)
        bits = np.empty((len(sizes), -(-labels // 8)), np.uint8)
        start = 0
        for part_sizes, data, dense in parts:
            stop = start + len(part_sizes)
            bits[start:stop] = data if dense else _packed(part_sizes, data, labels)
            start = stop
        return cls(labels, sizes, None, bits)

    def __len__(self) -> int:
        return len(self.sizes)

    def mask(self, rows: slice) -> NDArray[np.bool_]:
        """Return some rows as a table of truth values."""
        if self._bits is not None:
            table = np.unpackbits(self._bits[rows], axis=1, count=self.labels, bitorder="little")
            return table.view(np.bool_)
        sizes, members = self._listed(rows)
        return _mask_of(sizes, members, self.labels)

    def packed(self) -> NDArray[np.uint8]:
        """Return all rows, one bit a label."""
        if self._bits is not None:
            return self._bits
        out = np.empty((len(self), -(-self.labels // 8)), np.uint8)
        for start in range(0, len(self), _STRIDE):
            rows = slice(start, min(start + _STRIDE, len(self)))
            out[rows] = _packed(*self._listed(rows), self.labels)
        return out

    def arrays(self) -> list[NDArray[Any]]:
        """Return the sets in the form that suits them: equal sets give equal arrays."""
        if _as_bits(self.sizes, self.labels):
            return [self.packed()]
        members = self._members if self._bits is None else _listed(self._bits, self.labels)
        assert members is not None  # noqa: S101  # one of the two forms
        return [self.sizes, members]

    def take(self, rows: NDArray[np.intp]) -> LabelSets:
        """Return the sets of some rows."""
        if self._bits is not None:
            return LabelSets(self.labels, self.sizes[rows], None, self._bits[rows])
        ends = np.cumsum(self.sizes, dtype=np.int64)
        sizes = self.sizes[rows].astype(np.int64)
        starts = ends[rows] - sizes
        first = np.cumsum(sizes) - sizes
        assert self._members is not None  # noqa: S101  # the other form
        members = self._members[np.repeat(starts - first, sizes) + np.arange(int(sizes.sum()))]
        return LabelSets(self.labels, self.sizes[rows], members, None)

    def contains(self, codes: NDArray[Any], rows: slice, *, shared: bool) -> NDArray[np.bool_]:
        """Whether each row's set holds its code; one set serves for all rows if ``shared``."""
        if shared:
            shared_set: NDArray[np.bool_] = self.mask(slice(0, 1))[0]
            return np.asarray(shared_set[codes])
        if self._bits is not None and self.labels <= _TABLED:
            return np.asarray((_numbers(self._bits[rows]) >> codes & 1).astype(bool))
        if self._bits is not None:
            byte = self._bits[rows][np.arange(len(codes)), codes >> 3]
            return np.asarray((byte >> (codes & 7).astype(np.uint8) & 1).astype(bool))
        sizes, members = self._listed(rows)
        owner = np.repeat(np.arange(len(codes)), sizes)
        inside = np.zeros(len(codes), bool)
        inside[owner[members == codes[owner]]] = True
        return inside

    def select(self, rank: NDArray[np.intp], rows: slice, *, shared: bool) -> NDArray[Any]:
        """Return each row's member number ``rank``, counting labels upwards from 0."""
        if shared:
            return np.flatnonzero(self.mask(slice(0, 1))[0])[rank]
        if self._bits is not None:
            bits = self._bits[rows]
            return _looked_up(bits, rank, self.labels) if self.labels <= _TABLED else _nth_bit(bits, rank)
        sizes, members = self._listed(rows)
        chosen: NDArray[Any] = members[np.cumsum(sizes, dtype=np.int64) - sizes + rank]
        return chosen

    def _listed(self, rows: slice) -> tuple[NDArray[Any], NDArray[Any]]:
        assert self._members is not None  # noqa: S101  # the other form
        assert self._offsets is not None  # noqa: S101  # comes with it
        start, stop, _ = rows.indices(len(self))
        block = start // _STRIDE
        first = int(self._offsets[block]) + int(self.sizes[block * _STRIDE : start].sum(dtype=np.int64))
        sizes = self.sizes[start:stop]
        return sizes, self._members[first : first + int(sizes.sum(dtype=np.int64))]


def _as_bits(sizes: NDArray[Any], labels: int) -> bool:
    """Whether bits are the smaller form, or small enough to save the offsets of lists."""
    width = -(-labels // 8)
    return width <= _WORD or int(sizes.sum(dtype=np.int64)) * code_type(labels).itemsize > len(sizes) * width


def _packed(sizes: NDArray[Any], members: NDArray[Any], labels: int) -> NDArray[np.uint8]:
    return np.packbits(_mask_of(sizes, members, labels), axis=1, bitorder="little")


def _mask_of(sizes: NDArray[Any], members: NDArray[Any], labels: int) -> NDArray[np.bool_]:
    mask = np.zeros((len(sizes), labels), bool)
    mask[np.repeat(np.arange(len(sizes)), sizes), members] = True
    return mask


def _listed(bits: NDArray[np.uint8], labels: int) -> NDArray[Any]:
    mask = np.unpackbits(bits, axis=1, count=labels, bitorder="little")
    return np.nonzero(mask)[1].astype(code_type(labels))


def _looked_up(bits: NDArray[np.uint8], rank: NDArray[np.intp], labels: int) -> NDArray[Any]:
    """Find the rank-th member of each row's set in a table of all sets, which fits the cache."""
    place = _numbers(bits) * np.intp(labels)
    place += rank
    found: NDArray[Any] = _all_sets(labels).take(place)
    return found


def _numbers(bits: NDArray[np.uint8]) -> NDArray[Any]:
    """Read rows of one or two bytes as numbers."""
    return bits[:, 0] if bits.shape[1] == 1 else bits.view("<u2")[:, 0]


@lru_cache(maxsize=_TABLED)
def _all_sets(labels: int) -> NDArray[np.uint8]:
    """List the members of every set of so many labels, ascending, row by row, filled up with zeros."""
    sets = np.arange(1 << labels)[:, None] >> np.arange(labels) & 1
    # A stable sort of "is no member" puts members first, in their order.
    order = np.argsort(1 - sets, axis=1, kind="stable")
    table = np.where(np.arange(labels) < sets.sum(axis=1, keepdims=True), order, 0).astype(np.uint8).ravel()
    table.flags.writeable = False
    return table


def _nth_bit(bits: NDArray[np.uint8], rank: NDArray[np.intp]) -> NDArray[Any]:
    """Find the rank-th set bit of each row: the byte by running counts, the bit in it by a table."""
    columns = np.ascontiguousarray(bits.T)
    # Bytes whose running count does not exceed the rank lie before the one that holds the bit.
    counts = np.bitwise_count(columns)
    running = counts[0].astype(rank.dtype)
    before = np.zeros_like(rank)
    place = np.zeros_like(rank)
    for count in counts[1:]:
        passed = running <= rank
        place += passed
        np.copyto(before, running, where=passed)
        running += count
    found: NDArray[Any] = place * 8 + _BIT_TABLE[columns[place, np.arange(len(rank))], rank - before]
    return found


def _bit_table() -> NDArray[np.uint8]:
    table = np.zeros((256, 8), np.uint8)
    for byte in range(256):
        bits = [bit for bit in range(8) if byte >> bit & 1]
        table[byte, : len(bits)] = bits
    return table


_BIT_TABLE: Final = _bit_table()
