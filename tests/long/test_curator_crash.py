"""Two curators race on one ledger, and one is killed at random, two hundred times."""

from __future__ import annotations

from pathlib import Path

from tests.curator.test_crash import race


def test_two_hundred_kills_do_no_harm(tmp_path: Path) -> None:
    """The budget is never exceeded, the file never corrupt, and every released file has its charge."""
    assert race(tmp_path / "ledger.db", kills=200, seed=2) > 0
