"""Curators on one ledger, one of them killed at random: nothing over-spent, nothing uncharged, nothing corrupt."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path

import labeldp as ldp

BUDGET = 3
ROWS = 400

_WORKER = f"""
import random, sys
import labeldp as ldp
from labeldp.errors import BudgetExhaustedError
seed, path = int(sys.argv[1]), sys.argv[2]
chance = random.Random(seed)
space = ldp.LabelSpace(["a", "b", "c"])
labels = [("a", "b", "c")[i % 3] for i in range({ROWS})]
ledger = ldp.Ledger(path)
curator = ldp.Curator(ldp.RawLabels(labels, space), {BUDGET}, ledger=ledger, ids=list(range({ROWS})))
print("ready", flush=True)
while True:
    epsilon = chance.choice([0.01, 0.02, 0.03, 0.05])
    low = chance.randrange({ROWS} - 50)
    try:
        curator.release(ldp.RandomizedResponse(space, epsilon), rows=list(range(low, low + 50)))
    except BudgetExhaustedError:
        continue
"""


def race(path: Path, kills: int, seed: int) -> int:
    """Keep two workers running and kill one at random, ``kills`` times; return how many entries were granted."""
    chance = random.Random(seed)
    started = 0

    def start() -> subprocess.Popen[str]:
        nonlocal started
        started += 1
        command = [sys.executable, "-c", _WORKER, str(seed * 1_000 + started), str(path)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    workers = [start(), start()]
    try:
        for _ in range(kills):
            victim = chance.randrange(2)
            # Half of the time wait until it works, so that it dies in the middle of requests.
            if chance.random() < 0.5:
                assert workers[victim].stdout is not None
                workers[victim].stdout.readline()
            time.sleep(chance.random() * 0.3)
            os.kill(workers[victim].pid, signal.SIGKILL)
            end(workers[victim])
            workers[victim] = start()
    finally:
        for worker in workers:
            worker.kill()
            end(worker)
    return check(path)


def end(worker: subprocess.Popen[str]) -> None:
    """Wait for a killed worker and let go of its pipe."""
    worker.wait()
    assert worker.stdout is not None
    worker.stdout.close()


def check(path: Path) -> int:
    """Check the ledger, the budget of every row, and every released file."""
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    with ldp.Ledger(path) as ledger:
        assert ledger.verify().ok
        spent = ledger.spent("")
        assert spent.epsilon is not None
        assert spent.epsilon <= BUDGET
        entries = {entry.release_id: entry for entry in ledger.entries()}
        assert sum((entry.charge.epsilon or Fraction(0)) for entry in entries.values()) > 0
        for file in path.with_name(path.name + ".releases").glob("*.parquet"):
            release = ldp.read_release(file)
            entry = entries[file.stem]
            assert release.stamp.ledger_head == entry.head
            assert Fraction(release.guarantee.epsilon()) >= (entry.charge.epsilon or 0)
    return len(entries)


def test_a_few_kills_do_no_harm(tmp_path: Path) -> None:
    """Killed in the middle of anything, a curator leaves a ledger that adds up."""
    assert race(tmp_path / "ledger.db", kills=4, seed=1) > 0
