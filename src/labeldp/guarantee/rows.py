"""Rows of a part: who is named, who is new, and the most that any named row has spent, exactly."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np

from labeldp.errors import DuplicateIdError, EmptyInputError, ShapeError

if TYPE_CHECKING:
    from numpy.typing import NDArray

# ---- tags --------------------------------------------------------------------------------------------------

_CHUNK: Final = 2**20


def sorted_tags(tags: object, rows: int) -> NDArray[np.uint64]:
    """Return id tags in order, after making sure that there is one a row and that all differ."""
    if not isinstance(tags, np.ndarray) or tags.dtype != np.uint64 or tags.shape != (rows,):
        raise ShapeError(f"Expected {rows} id tags of type uint64, one a row.", expected=rows)
    ordered = np.sort(tags)
    twice = int(np.count_nonzero(ordered[1:] == ordered[:-1]))
    if twice:
        raise DuplicateIdError(f"{twice} rows carry the id of another row; ids must be unique.", count=twice)
    return ordered


def pack_tags(tags: NDArray[np.uint64]) -> list[bytes]:
    """Compress sorted tags, chunk by chunk."""
    return [_packed(tags[start : start + _CHUNK]) for start in range(0, len(tags), _CHUNK)]


def _packed(chunk: NDArray[np.uint64]) -> bytes:
    """Compress the gaps byte by byte, so that high bytes, mostly zero, lie side by side."""
    gaps = np.diff(chunk, prepend=np.uint64(0)).astype("<u8")
    return zlib.compress(np.ascontiguousarray(gaps.view(np.uint8).reshape(-1, 8).T).tobytes(), 1)


def unpack_tags(blob: bytes) -> NDArray[np.uint64]:
    """Return the tags of one chunk."""
    planes = np.frombuffer(zlib.decompress(blob), np.uint8).reshape(8, -1)
    return np.cumsum(np.ascontiguousarray(planes.T).view("<u8").ravel(), dtype=np.uint64)


def count_shared(mine: NDArray[np.uint64], chunk: NDArray[np.uint64]) -> int:
    """Count common values of two sorted arrays without repetitions, the second a piece of a longer one."""
    near = mine[np.searchsorted(mine, chunk[0]) : np.searchsorted(mine, chunk[-1], "right")]
    if not len(near):
        return 0
    return int(np.count_nonzero(chunk[np.searchsorted(chunk, near)] == near))


# ---- masks -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Mask:
    """The rows of a request, packed; ``packed`` is None for all rows, however they were named."""

    length: int | None
    named: int
    packed: NDArray[np.uint8] | None
    digest: str | None
    blob: bytes | None

    @classmethod
    def of(cls, rows: object) -> Mask:
        """Read the rows of a request: None, or one truth value a row of which one at least is true."""
        if rows is None:
            return cls(None, 0, None, None, None)
        if not isinstance(rows, np.ndarray) or rows.dtype != np.bool_ or rows.ndim != 1:
            raise ShapeError("Expected rows to be None or one truth value for each row.")
        named = int(np.count_nonzero(rows))
        if not named:
            raise EmptyInputError("Expected a request to name at least one row, got none.")
        if named == len(rows):
            return cls(len(rows), named, None, None, None)
        packed = np.packbits(rows, bitorder="little")
        data = packed.tobytes()
        return cls(len(rows), named, packed, hashlib.sha256(data).hexdigest(), zlib.compress(data, 1))


def unpack_mask(blob: bytes) -> NDArray[np.uint8]:
    """Return a packed mask from its compressed bytes."""
    return np.frombuffer(zlib.decompress(blob), np.uint8)


# ---- sums --------------------------------------------------------------------------------------------------

#: Bytes of a packed mask per step (eight rows a byte): what belongs to them stays in the second-level cache.
_STEP: Final = 2**13
_WORD: Final = 63


def heaviest(masks: Sequence[tuple[NDArray[np.uint8], Fraction]], named: NDArray[np.uint8] | None) -> Fraction:
    """Return the largest exact sum, over the named rows, of the weights of the masks that hold a row.

    Rows with equal histories have equal sums, and a history is one byte per eight masks: a table of 256 sums
    per byte replaces any arithmetic per row.  The sums are integers over a common denominator, in limbs
    that fit a machine word, compared from the highest limb down.
    """
    everywhere = Fraction(0)
    varied: list[tuple[NDArray[np.uint8], Fraction]] = []
    for mask, weight in masks:
        if named is not None:
            shared = mask & named
            if not shared.any():
                continue
            if np.array_equal(shared, named):
                everywhere += weight
                continue
        varied.append((mask, weight))
    if not varied:
        return everywhere
    scale = math.lcm(*(weight.denominator for _, weight in varied))
    units = [int(weight * scale) for _, weight in varied]
    packed = [mask for mask, _ in varied]
    groups = [packed[i : i + 8] for i in range(0, len(packed), 8)]
    bits = _WORD - len(groups).bit_length()
    limbs = -(-sum(units).bit_length() // bits)
    tables = [_limbs(_subset_sums(units[i : i + 8]), limbs, bits) for i in range(0, len(units), 8)]
    best = 0
    for start in range(0, len(packed[0]), _STEP):
        here = slice(start, start + _STEP)
        chosen = None if named is None else named[here]
        if chosen is not None and not chosen.any():
            continue
        size = 8 * len(packed[0][here])
        sums = np.zeros((limbs, size), np.int64)
        found = np.empty(size, np.int64)
        for group, table in zip(groups, tables, strict=True):
            histories = _histories([mask[here] for mask in group])
            for limb, values in enumerate(table):
                sums[limb] += values.take(histories, out=found, mode="clip")
        best = max(best, _largest(sums, bits, chosen))
    return everywhere + Fraction(best, scale)


def _subset_sums(units: Sequence[int]) -> list[int]:
    """Return the sum for every byte whose bit j stands for the j-th number."""
    sums = [0]
    for unit in units:
        sums += [unit + total for total in sums]
    return sums


def _limbs(numbers: Sequence[int], limbs: int, bits: int) -> NDArray[np.int64]:
    low = (1 << bits) - 1
    return np.array([[number >> (bits * limb) & low for number in numbers] for limb in range(limbs)], np.int64)


def _histories(masks: Sequence[NDArray[np.uint8]]) -> NDArray[np.intp]:
    """Return one byte per row whose bit j tells whether the j-th of up to eight packed masks holds the row."""
    square = np.zeros((len(masks[0]), 8), np.uint8)
    np.stack(masks, axis=1, out=square[:, : len(masks)])
    # Each word is an 8 x 8 square of bits; three rounds of swaps transpose it.
    words = square.view("<u8").ravel()
    for shift, pattern in _SWAPS:
        moved = (words ^ (words >> shift)) & pattern
        words ^= moved ^ (moved << shift)
    return words.view(np.uint8).astype(np.intp)


_SWAPS: Final = tuple(
    (np.uint64(shift), np.uint64(pattern))
    for shift, pattern in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))
)


def _largest(sums: NDArray[np.int64], bits: int, chosen: NDArray[np.uint8] | None) -> int:
    """Return the largest of many numbers given in limbs (lowest first), among the chosen ones."""
    low = np.int64((1 << bits) - 1)
    for limb in range(len(sums) - 1):
        sums[limb + 1] += sums[limb] >> np.int64(bits)
        sums[limb] &= low
    within = None if chosen is None else np.unpackbits(chosen, bitorder="little").astype(bool)
    candidates = sums if within is None else sums[:, within]
    largest = 0
    for limb in range(len(sums) - 1, -1, -1):
        top = candidates[limb].max()
        largest = (largest << bits) + int(top)
        if limb:
            candidates = candidates[:, candidates[limb] == top]
    return largest
