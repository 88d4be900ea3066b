"""The tables of a ledger's database, and the triggers which let them only grow."""

from __future__ import annotations

import sqlite3
from typing import Final

from labeldp.errors import LedgerCorruptError

#: The format of the records and of the tables.
FORMAT: Final = 1

_APPLICATION: Final = 0x6C64704C


def _guard(table: str, event: str, when: str = "") -> str:
    condition = f" WHEN {when}" if when else ""
    return (
        f"CREATE TRIGGER {table}_{event.lower()} BEFORE {event} ON {table}{condition} "
        f"BEGIN SELECT RAISE(ABORT, 'the ledger is append-only: {event} on {table}'); END"
    )


_RECORDS: Final = (
    "CREATE TABLE records (sequence INTEGER PRIMARY KEY, kind TEXT NOT NULL, subject TEXT NOT NULL, "
    "body TEXT NOT NULL, previous BLOB NOT NULL, hash BLOB NOT NULL, UNIQUE (kind, subject))"
)
_BLOBS: Final = (
    "CREATE TABLE blobs (sequence INTEGER NOT NULL REFERENCES records (sequence), chunk INTEGER NOT NULL, "
    "bytes BLOB NOT NULL, PRIMARY KEY (sequence, chunk))"
)
_SEAL: Final = (
    "CREATE TABLE seal (id INTEGER PRIMARY KEY CHECK (id = 1), records INTEGER NOT NULL, head BLOB NOT NULL, "
    "mac BLOB NOT NULL)"
)
_SCHEMA: Final = (
    _RECORDS,
    _BLOBS,
    _SEAL,
    # INSERT OR REPLACE deletes without asking the triggers on DELETE, so inserts are guarded too.
    _guard("records", "INSERT", "NEW.sequence IS NOT (SELECT coalesce(max(sequence), 0) + 1 FROM records)"),
    _guard("records", "UPDATE"),
    _guard("records", "DELETE"),
    _guard(
        "blobs",
        "INSERT",
        "NEW.sequence IS NOT (SELECT max(sequence) FROM records) "
        "OR NEW.chunk IS NOT (SELECT count(*) FROM blobs WHERE sequence = NEW.sequence)",
    ),
    _guard("blobs", "UPDATE"),
    _guard("blobs", "DELETE"),
    _guard("seal", "INSERT", "EXISTS (SELECT 1 FROM seal)"),
    _guard("seal", "UPDATE", "NEW.id IS NOT 1 OR NEW.records <= OLD.records"),
    _guard("seal", "DELETE"),
)


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables and their guards, and mark the database as a ledger."""
    for statement in _SCHEMA:
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {_APPLICATION}")
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def check_tables(connection: sqlite3.Connection, name: str) -> None:
    """Refuse a database that is not a ledger of this format, tables and guards included."""
    application, version = _versions(connection)
    if application != _APPLICATION:
        raise LedgerCorruptError(f"{name} is a database, but not a ledger.")
    if version != FORMAT:
        raise LedgerCorruptError(
            f"{name} has format {version}; this version of labeldp reads format {FORMAT}.", format=version
        )
    found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
    if found != set(_SCHEMA):
        raise LedgerCorruptError(f"The tables of {name}, or what guards them, were changed.")


def check_integrity(connection: sqlite3.Connection, name: str) -> None:
    """Let SQLite check all of its pages and indices."""
    said = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
    if said != "ok":
        raise LedgerCorruptError(f"The database of {name} is damaged: {said}.")


def check_writable(connection: sqlite3.Connection) -> None:
    """Change what stays as it is: a transaction begins on a read-only file as well, only a change is refused."""
    connection.execute(f"PRAGMA user_version = {FORMAT}")


def is_empty(connection: sqlite3.Connection) -> bool:
    """Tell whether nothing at all was written to the database."""
    objects = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return objects == 0 and _versions(connection) == (0, 0)


def _versions(connection: sqlite3.Connection) -> tuple[int, int]:
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return application, version
