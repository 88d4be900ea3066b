"""Errors of SQLite: which of them are waited for."""

from __future__ import annotations

import sqlite3

import pytest

from labeldp.guarantee.sqlite_errors import retried


def test_what_sqlite_refuses_at_once_is_tried_again() -> None:
    """Switching on the log does not wait for other processes by itself; other errors are not repeated."""
    busy, damaged = sqlite3.OperationalError("busy"), sqlite3.OperationalError("damaged")
    busy.sqlite_errorcode, damaged.sqlite_errorcode = sqlite3.SQLITE_BUSY, sqlite3.SQLITE_CORRUPT
    answers: list[sqlite3.OperationalError | str] = [busy, busy, "wal", busy, damaged, busy, busy]

    def action() -> str:
        answer = answers.pop(0)
        if isinstance(answer, str):
            return answer
        raise answer

    assert "wal" == retried(action, 60)
    with pytest.raises(sqlite3.OperationalError, match="damaged"):
        retried(action, 60)
    with pytest.raises(sqlite3.OperationalError, match="busy"):
        retried(action, -1)
    assert [busy] == answers
