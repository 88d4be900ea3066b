"""The database of a ledger: one connection, which serves one thread of one process at a time."""

from __future__ import annotations

import os
import secrets
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, final

from labeldp.coins import KEY_BYTES
from labeldp.errors import LedgerCorruptError, LedgerError, LedgerLockedError, LedgerPlaceError
from labeldp.guarantee.chain import Chain
from labeldp.guarantee.keys import Keys
from labeldp.guarantee.place import Place
from labeldp.guarantee.replay import Replay
from labeldp.guarantee.schema import check_tables, check_writable, is_empty
from labeldp.guarantee.sqlite_errors import explained, retried


@final
class Store:
    """A database in a file or (without a place) in memory, with the keys of its ledger."""

    def __init__(self, place: Place | None, key: bytes | None, timeout: float) -> None:
        self.place = place
        self.name = "the ledger in memory" if place is None else f"ledger {place.file}"
        # A file without a given key has one of its own, which takes the place of this one when it is opened.
        self.keys = Keys(secrets.token_bytes(KEY_BYTES) if key is None else key)
        self._own_key_unread = key is None and place is not None
        self._timeout = timeout
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._inode: tuple[int, int] | None = None
        _STORES.add(self)

    def __del__(self) -> None:
        connection, self._connection = getattr(self, "_connection", None), None
        # SQLite forbids closing what another process opened.
        if connection is not None and self._process == os.getpid():
            connection.close()

    # ---- turns ---------------------------------------------------------------------------------------------

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait for the other threads of this process."""
        if self._connection is not None and self._process != os.getpid():
            raise LedgerError(
                f"{self.name} was opened before this process was forked and cannot be used in it. A ledger in memory "
                "serves one process; one in a file can be opened anew by its path."
            )
        if not self._lock.acquire(timeout=self._timeout):
            raise LedgerLockedError(f"Another thread has held {self.name} for {self._timeout:g} seconds.")
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def connected(self) -> Iterator[sqlite3.Connection]:
        """One turn with the database, opened if need be."""
        with self.turn(), explained(self.name, self._timeout):
            if self.place is not None and self._inode not in {None, self.place.inode}:
                raise LedgerCorruptError(f"{self.name} was moved, deleted or replaced while in use.")
            if self._connection is None:
                self._process = os.getpid()
                self._connection = self._open()
            if self._connection.in_transaction:
                # An interrupt between two instructions can leave one behind.
                self._connection.execute("ROLLBACK")
            yield self._connection

    def close(self) -> None:
        """Close the file until its next use; what is in memory only is kept."""
        if self.place is not None:
            with self.turn():
                self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # ---- opening -------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        target, inode = "file::memory:", None
        if self.place is not None:
            if self._inode is None:
                self.place.create()
            target, inode = f"{self.place.file.as_uri()}?mode=rw", self.place.inode
        connection = sqlite3.connect(
            target, uri=True, timeout=self._timeout, isolation_level=None, check_same_thread=False
        )
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        self._inode = inode
        return connection

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")
        mode = retried(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone()[0], self._timeout)
        if self.place is not None and mode != "wal":
            raise LedgerPlaceError(f"The disk of {self.name} does not support a write-ahead log; use a local disk.")
        connection.execute("BEGIN IMMEDIATE")
        try:
            new = is_empty(connection)
            if new:
                self._create(connection)
                connection.execute("COMMIT")
            else:
                check_tables(connection, self.name)
                if self.place is not None and self._own_key_unread:
                    self.keys = self.place.read_key()
                check_writable(connection)
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if new and self.place is not None and self._own_key_unread:
            self.place.adopt_key()
        self._own_key_unread = False

    def _create(self, connection: sqlite3.Connection) -> None:
        """Write an empty ledger; its key gets its final name after the commit, so that a key means a ledger."""
        if self.place is not None:
            self.place.check_untouched()
            if self._own_key_unread:
                self.keys = self.place.make_key()
        Chain(connection, self.keys, Replay(), self.name).begin()

    # ---- forks ---------------------------------------------------------------------------------------------

    def _before_fork(self) -> bool:
        """Close the file and keep other threads out of it: SQLite's locks do not survive in a child."""
        if self.place is None or not self._lock.acquire(timeout=self._timeout):
            return False
        if self._process == os.getpid():
            self._disconnect()
        return True

    def _after_fork(self) -> None:
        self._lock.release()


@contextmanager
def atomic(connection: sqlite3.Connection, *, write: bool) -> Iterator[None]:
    """One snapshot, or one atomic and durable change."""
    connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
    try:
        yield
        connection.execute("COMMIT")
    finally:
        if connection.in_transaction:
            connection.execute("ROLLBACK")


_STORES: Final[weakref.WeakSet[Store]] = weakref.WeakSet()
_FORKING: Final = threading.Lock()
_PAUSED: Final[list[Store]] = []


def _pause_all() -> None:
    _FORKING.acquire()
    _PAUSED.extend(store for store in list(_STORES) if store._before_fork())


def _resume_all() -> None:
    while _PAUSED:
        _PAUSED.pop()._after_fork()
    _FORKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_pause_all, after_in_parent=_resume_all, after_in_child=_resume_all)
