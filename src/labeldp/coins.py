"""Coins: secret random bits that belong to a row, not to a moment.

The bits of a row are AES-256 of a 16-byte block made of its row id, under a working key derived from the
secret key and everything that distinguishes one use from another.  Evaluating a row twice therefore gives the
same bits, and changing the mechanism, the purpose or a label gives unrelated ones.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import stat
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, NoReturn, final

from labeldp.errors import EpsilonError, IdError, KeyMaterialError, RawLabelsError
from labeldp.ids import RowIds
from labeldp.prf import RowDigest, derive, stream_words

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy as np
    from numpy.typing import NDArray

KEY_BYTES: Final = 32


class Coins(ABC):
    """Where the random bits of a release come from."""

    __slots__ = ()

    kind: ClassVar[str]
    private: ClassVar[bool]
    #: A kept key would reuse bits for other rows at the same position, so it must know rows by id.
    needs_ids: ClassVar[bool]
    #: Only a kept key can meet the same rows again with edited labels.
    binds_labels: ClassVar[bool]

    @abstractmethod
    def _secret(self) -> bytes:
        """Return the secret key of one release."""

    @final
    def session(self) -> CoinSession:
        """Open the coins for one release."""
        return CoinSession(self._secret(), self)

    @final
    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def _refuse(self, *_args: object) -> NoReturn:
        raise RawLabelsError("Coins are as secret as the labels: they are not copied or pickled. Keep a key file.")

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __getstate__ = _refuse


@final
class SystemCoins(Coins):
    """A fresh secret key from the operating system for every release, forgotten afterwards."""

    __slots__ = ()

    kind = "system"
    private = True
    needs_ids = False
    binds_labels = False

    def _secret(self) -> bytes:
        return os.urandom(KEY_BYTES)


@final
class KeyedCoins(Coins):
    """A kept secret key: the same labels, mechanism and ids give the same release for ever.

    The key is as sensitive as the labels.  It requires row ids.

    >>> KeyedCoins(bytes(32))
    KeyedCoins()
    """

    # A slot, so that the key is in no dictionary which something could print.
    __slots__ = ("__key",)

    kind = "keyed"
    private = True
    needs_ids = True
    binds_labels = True

    def __init__(self, key: bytes) -> None:
        given: object = key
        if not isinstance(given, bytes | bytearray) or len(given) != KEY_BYTES:
            got = f"{len(given)} bytes" if isinstance(given, bytes | bytearray) else type(given).__name__
            raise KeyMaterialError(f"Expected a key of {KEY_BYTES} bytes, got {got}. Use KeyedCoins.generate().")
        self.__key = bytes(key)

    @classmethod
    def generate(cls) -> KeyedCoins:
        """Make coins with a new key from the operating system."""
        return cls(os.urandom(KEY_BYTES))

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> KeyedCoins:
        """Read a key file, refusing one that other users can read."""
        return cls(read_key_file(path))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the key to a new file that only its owner can read."""
        write_key_file(path, self.__key)

    def _secret(self) -> bytes:
        return self.__key


@final
class SeededCoins(Coins):
    """Reproducible coins for research: whoever knows the seed can undo the release, so it is not private."""

    __slots__ = ("seed",)

    kind = "seeded"
    private = False
    needs_ids = False
    binds_labels = False

    def __init__(self, seed: int) -> None:
        if isinstance(seed, bool) or not isinstance(seed, int):
            raise EpsilonError(f"Expected an integer seed, got {type(seed).__name__}.")
        self.seed = seed

    def _secret(self) -> bytes:
        return hashlib.sha256(b"labeldp seeded coins, not private" + str(self.seed).encode()).digest()


@final
class CoinSession:
    """The coins of one release: derives the working keys and meets the rows."""

    __slots__ = ("__secret", "binds_labels", "kind", "needs_ids", "private")

    def __init__(self, secret: bytes, coins: Coins) -> None:
        self.__secret = secret
        self.kind = coins.kind
        self.private = coins.private
        self.needs_ids = coins.needs_ids
        self.binds_labels = coins.binds_labels

    def __repr__(self) -> str:
        return f"CoinSession({self.kind})"

    def _refuse(self, *_args: object) -> NoReturn:
        raise RawLabelsError("A session holds a secret key: it is not copied or pickled.")

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __getstate__ = _refuse

    def label_digest(self) -> RowDigest:
        """Digest (id, label) pairs in any order, under a subkey of its own; it never leaves the owner."""
        return RowDigest(derive(self.__secret, b"label digest"))

    def row_digest(self, purpose: str) -> RowDigest:
        """Digest rows for one more purpose of the owner's, under a subkey of its own; it never leaves the owner."""
        return RowDigest(derive(self.__secret, b"row digest", purpose.encode()))

    def bits(self, ids: RowIds, purpose: str, *context: bytes) -> RowBits:
        """Return the bits of rows ``ids`` for one purpose under one public context."""
        if self.needs_ids and ids.kind == "position":
            raise IdError(
                "A kept key requires row ids: positions of another table would reuse its bits. "
                "Pass ids=, or use SystemCoins()."
            )
        return RowBits(derive(self.__secret, b"row bits", purpose.encode(), *context), ids)

    def bin_bits(self, bins: RowIds, purpose: str, *context: bytes) -> RowBits:
        """Return the bits of numbered bins: a statistic is drawn once, under a context that names its data."""
        return RowBits(derive(self.__secret, b"bin bits", purpose.encode(), *context), bins)


@final
class RowBits:
    """Uniform 64-bit words of rows: word ``w`` of a row depends on the working key, ``w`` and the row id alone."""

    __slots__ = ("__key", "ids")

    def __init__(self, key: bytes, ids: RowIds) -> None:
        self.__key = key
        self.ids = ids

    def __repr__(self) -> str:
        return f"RowBits({len(self.ids)} rows)"

    def __len__(self) -> int:
        return len(self.ids)

    def _refuse(self, *_args: object) -> NoReturn:
        raise RawLabelsError("Row bits undo a release: they are not copied or pickled.")

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __getstate__ = _refuse

    def stream(self, word: int = 0) -> Iterator[tuple[int, NDArray[np.uint64]]]:
        """Yield (first row, words) in cache-sized blocks; the words are overwritten by the next step."""
        return stream_words(derive(self.__key, b"word", word.to_bytes(8, "big")), self.ids)

    def words(self, word: int = 0, rows: NDArray[Any] | None = None) -> NDArray[np.uint64]:
        """Return word number ``word`` of all rows, or of the positions ``rows``."""
        import numpy as np

        ids = self.ids if rows is None else self.ids.take(rows)
        out = np.empty(len(ids), np.uint64)
        for start, words in stream_words(derive(self.__key, b"word", word.to_bytes(8, "big")), ids):
            out[start : start + len(words)] = words
        return out


def read_key_file(path: str | os.PathLike[str]) -> bytes:
    """Read 32 secret bytes from a file that only its owner can read."""
    descriptor = os.open(path, os.O_RDONLY)
    with os.fdopen(descriptor, "rb") as file:
        mode = os.fstat(descriptor).st_mode
        if mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise KeyMaterialError(
                f"Expected a key file that only its owner can read, {path} has mode {stat.S_IMODE(mode):04o}. "
                f"Run: chmod 600 {path}",
                path=str(path),
            )
        key = file.read(KEY_BYTES + 1)
    if len(key) != KEY_BYTES:
        raise KeyMaterialError(f"Expected {KEY_BYTES} bytes in key file {path}.", path=str(path))
    return key


def write_key_file(path: str | os.PathLike[str], key: bytes) -> None:
    """Write secret bytes to a new file of mode 0600, durably; an existing file is an error."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    directory = os.open(Path(path).resolve().parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def compare(left: bytes, right: bytes) -> bool:
    """Compare two digests in constant time."""
    return hmac.compare_digest(left, right)
