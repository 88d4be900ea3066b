"""The keyed function behind the coins: AES-256 over 16-byte row blocks, and a vectorised 128-bit MAC.

Reused, cache-sized buffers: allocating per call costs several times the encryption itself.
"""

from __future__ import annotations

import hashlib
import hmac
import sys
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

import numpy as np

from labeldp.errors import RawLabelsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from labeldp.ids import RowIds

BLOCK: Final = 16
#: Digests of public things need no secret; this key only fixes the function.
PUBLIC_KEY: Final = b"labeldp: digests of public data."
#: Rows per step: blocks, their encryption and the words derived from them stay in the second-level cache.
ROWS_PER_STEP: Final = 8192


def derive(key: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA256 over length-prefixed parts, so that no two lists of parts collide."""
    message = b"".join(len(part).to_bytes(8, "big") + part for part in parts)
    return hmac.new(key, message, hashlib.sha256).digest()


class Aes:
    """AES-256 on arrays of 16-byte blocks, in place of which nothing else may be used."""

    __slots__ = ("_buffer", "_encryptor")

    def __init__(self, key: bytes, rows: int = ROWS_PER_STEP) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher
        from cryptography.hazmat.primitives.ciphers.algorithms import AES
        from cryptography.hazmat.primitives.ciphers.modes import ECB

        # ECB is AES itself: every block is a different row id, so no block repeats under one key.
        self._encryptor = Cipher(AES(key), ECB()).encryptor()  # noqa: S305
        self._buffer = np.empty(rows * BLOCK + BLOCK, np.uint8)

    def __call__(self, blocks: NDArray[np.uint64]) -> NDArray[np.uint64]:
        """Encrypt (m, 2) words; the result is overwritten by the next call."""
        size = len(blocks) * BLOCK
        self._encryptor.update_into(blocks.data.cast("B"), self._buffer.data[: size + BLOCK - 1])
        return self._buffer[:size].view(np.uint64).reshape(-1, 2)


def stream_words(key: bytes, ids: RowIds) -> Iterator[tuple[int, NDArray[np.uint64]]]:
    """Yield (first row, one 64-bit word per row) in steps; every step overwrites the words of the last."""
    aes = Aes(key)
    # Contiguous words: integer division of every other word would cost six times as much as this copy.
    words = np.empty(min(ROWS_PER_STEP, len(ids)), np.uint64)
    for start, blocks in ids.blocks(derive(key, b"id mac")):
        part = words[: len(blocks)]
        np.copyto(part, aes(blocks)[:, 0])
        yield start, native(part)


@final
class RowDigest:
    """A digest of (id, value) pairs, whatever their order, that adds up over batches.

    It is a sum of keyed 128-bit hashes, AES(AES(id) xor value) under two keys (for byte rows a MAC of the row).  The key
    must be secret: with a known one, rows can be chosen whose sums collide.  Public things get SHA-256 instead.
    """

    __slots__ = ("__key", "_rows", "_total")

    def __init__(self, key: bytes) -> None:
        self.__key = key
        self._total = np.zeros(2, np.uint64)
        self._rows = 0

    def __repr__(self) -> str:
        return f"RowDigest({self._rows} rows)"

    def _refuse(self, *_args: object) -> NoReturn:
        raise RawLabelsError("A digest in the making holds a secret key: it is not copied or pickled.")

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __getstate__ = _refuse

    def add(self, ids: RowIds, values: NDArray[Any]) -> RowDigest:
        """Add rows, each with one code or one row of bytes, and return itself."""
        for _, terms in self._terms(ids, values):
            self._total += terms.sum(axis=0, dtype=np.uint64)
        self._rows += len(ids)
        return self

    def words(self, ids: RowIds, values: NDArray[Any]) -> NDArray[np.uint64]:
        """Return one secret 64-bit word for each (id, value): for recognising rows that were added."""
        out = np.empty(len(ids), np.uint64)
        for start, terms in self._terms(ids, values):
            out[start : start + len(terms)] = terms[:, 0]
        return out

    def _terms(self, ids: RowIds, values: NDArray[Any]) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        inner, outer = Aes(derive(self.__key, b"inner")), Aes(derive(self.__key, b"outer"))
        value_key = derive(self.__key, b"value mac")
        for start, blocks in ids.blocks(derive(self.__key, b"id mac")):
            stop = start + len(blocks)
            mixed = inner(blocks)
            if values.ndim == 1:
                mixed[:, 1] ^= native(values[start:stop].astype(np.uint64))
            else:
                mixed ^= mac_rows(value_key, values[start:stop])
            yield start, native(outer(mixed))

    def close(self) -> bytes:
        """Return the digest of all rows that were added."""
        return derive(self.__key, b"digest", self._rows.to_bytes(8, "big"), native(self._total).tobytes())


def parameter_digest(ids: RowIds, rows: Any, arrays: Any = None) -> bytes:  # callables of arrays
    """Digest public per-row parameters: in any order where rows have ids, as they stand where they have none.

    ``rows()`` gives one row of bytes each; ``arrays()`` the same content as compactly as it is kept.  It is SHA-256,
    because whoever chooses the parameters must not find two tables that share a digest, and so the coins.
    """
    digest = hashlib.sha256()
    if ids.kind != "position":
        digest.update(ids.public_digest())
        order, table = ids.public_order(), rows()
        digest.update(f"{table.dtype.str} {table.shape};".encode())
        for start in range(0, len(order), ROWS_PER_STEP):
            digest.update(np.ascontiguousarray(table[order[start : start + ROWS_PER_STEP]]).data)
        return digest.digest()
    for array in arrays() if arrays else [rows()]:
        digest.update(f"{array.dtype.str} {array.shape};".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.digest()


def mac_rows(key: bytes, rows: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """128-bit CBC-MAC of byte rows of one length, the length prepended."""
    count, width = rows.shape
    steps = -(-width // BLOCK)
    padded = np.zeros((count, steps * BLOCK), np.uint8)
    padded[:, :width] = rows
    words = padded.view(np.uint64).reshape(count, steps, 2)
    aes = Aes(key, count)
    state = np.empty((count, 2), np.uint64)
    state[:] = native(np.array([width, 0], np.uint64))
    state[:] = aes(state)
    for step in range(steps):
        state ^= words[:, step]
        state[:] = aes(state)
    return state


def mac_texts(key: bytes, data: NDArray[np.uint8], offsets: NDArray[np.int64], tag: int) -> NDArray[np.uint64]:
    """128-bit CBC-MAC of byte strings ``data[offsets[i]:offsets[i+1]]``, length and ``tag`` prepended.

    Vectorised over the strings: step j encrypts the j-th 16 bytes of every string that is long enough.
    ``data`` must be followed by 16 readable bytes.
    """
    starts = offsets[:-1]
    lengths = np.diff(offsets)
    count = len(lengths)
    aes = Aes(key, count)
    state = np.empty((count, 2), np.uint64)
    state[:, 0] = native(np.uint64(tag))
    state[:, 1] = native(lengths.astype(np.uint64))
    state[:] = aes(state)
    # An unaligned window on the bytes: element i is the word that starts at byte i.
    window: NDArray[np.uint64] = np.ndarray((len(data) - 7,), "<u8", data, strides=(1,))
    for step in range(int(-(-lengths.max(initial=0) // BLOCK))):
        left = lengths - step * BLOCK
        active = np.flatnonzero(left > 0)
        at = starts[active] + step * BLOCK
        chunk = np.empty((len(active), 2), np.uint64)
        chunk[:, 0] = native(window[at] & _MASKS[np.minimum(left[active], 8)])
        chunk[:, 1] = native(window[at + 8] & _MASKS[np.clip(left[active] - 8, 0, 8)])
        chunk ^= state[active]
        state[active] = aes(chunk)
    return state


def native(words: Any) -> Any:  # arrays and scalars of uint64
    """Read or write words as little-endian, on any machine."""
    return words.byteswap() if sys.byteorder == "big" else words


_MASKS: Final = np.array([(1 << 8 * n) - 1 for n in range(9)], np.uint64)
