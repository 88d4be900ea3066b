"""What the errors of SQLite mean for a ledger."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from labeldp.errors import LedgerCorruptError, LedgerError, LedgerLockedError, LedgerReadOnlyError

_BUSY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_UNWRITABLE: Final = {sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
_FAILED: Final = {sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_INTERRUPT}


@contextmanager
def explained(name: str, timeout: float) -> Iterator[None]:
    """Say what an error of SQLite means for the ledger."""
    try:
        yield
    except sqlite3.Error as error:
        code = _code(error)
        if code is None:
            # The error quotes what is stored, which may be a digest of labels.
            raise LedgerCorruptError(f"{name} holds values that cannot be read.") from None
        if code in _BUSY:
            raise LedgerLockedError(
                f"Another process has held {name} for {timeout:g} seconds. Nothing was written; try again."
            ) from error
        if code in _UNWRITABLE:
            raise LedgerReadOnlyError(f"{name} or its folder cannot be written: {error}.") from error
        if code in _FAILED:
            raise LedgerError(f"{name} could not be read or written: {error}.") from error
        raise LedgerCorruptError(f"{name} is damaged, or is not a ledger: {error}.") from error


def retried(action: Callable[[], str], timeout: float) -> str:
    """Repeat what SQLite refuses at once, without its own waiting, while another process opens the file."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if _code(error) not in _BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


def _code(error: sqlite3.Error) -> int | None:
    """Return the primary code; errors of the Python layer, such as text that is not UTF-8, have none."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF
