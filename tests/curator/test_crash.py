"""Curators on one ledger, one of them killed at random: nothing over-spent, nothing uncharged, nothing corrupt."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import labeldp as ldp
from labeldp.errors import BudgetExhaustedError
from labeldp.plan import PublicData

BUDGET = 1
ROWS = 400
NAMED = 50
SPACE = ldp.LabelSpace(["a", "b", "c"])
LABELS = [("a", "b", "c")[i % 3] for i in range(ROWS)]
#: Small charges fill the ledger, large ones meet the end of the budget.
EPSILONS = ("0.01", "0.02", "0.25")
#: New data sets keep coming, so that registrations are interrupted as well, and budgets run out again and again.
KILLS_PER_DATASET = 8

#: Works through random requests for ever, and notes each before it is made and after it was answered.
_WORKER = f"""
import os, random, sys
import labeldp as ldp
from labeldp.errors import BudgetExhaustedError
path, seed, first = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
log = os.open(path + ".log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
say = lambda *words: os.write(log, (" ".join(map(str, words)) + "\\n").encode())
chance = random.Random(seed)
space = ldp.LabelSpace({list(SPACE.labels)})
raw = ldp.RawLabels({LABELS}, space)
ledger = ldp.Ledger(path, timeout=120)
curators = [
    ldp.Curator(raw, {BUDGET}, ledger=ledger, ids=list(range({ROWS})), dataset=str(first + i)) for i in range(2)
]
print("ready", flush=True)
while True:
    which, epsilon, low = chance.randrange(2), chance.choice({EPSILONS}), chance.randrange({ROWS - NAMED})
    say("asked", first + which, epsilon, low)
    try:
        release = curators[which].release(
            ldp.RandomizedResponse(space, epsilon), rows=list(range(low, low + {NAMED}))
        )
    except BudgetExhaustedError:
        say("refused")
        continue
    say("got", release.stamp.release_id, "".join(release.labels))
"""


def race(path: Path, kills: int, seed: int) -> Counter[str]:
    """Keep two workers running and kill one at random, ``kills`` times; return what was found."""
    chance = random.Random(seed)
    killed = 0

    def start() -> subprocess.Popen[str]:
        numbers = str(chance.randrange(2**32)), str(killed // KILLS_PER_DATASET)
        return subprocess.Popen([sys.executable, "-c", _WORKER, str(path), *numbers], stdout=subprocess.PIPE, text=True)

    workers = [start(), start()]
    try:
        for _ in range(kills):
            victim = chance.randrange(2)
            # Mostly wait until it works, so that it dies in the middle of requests, sometimes of its beginning.
            if chance.random() < 0.8:
                assert workers[victim].stdout is not None
                assert "ready\n" == workers[victim].stdout.readline()
            time.sleep(chance.random() * 0.3)
            assert workers[victim].poll() is None, "a worker ended by itself"
            os.kill(workers[victim].pid, signal.SIGKILL)
            end(workers[victim])
            killed += 1
            workers[victim] = start()
    finally:
        for worker in workers:
            worker.kill()
            end(worker)
    return check(path) + Counter(kills=killed)


def end(worker: subprocess.Popen[str]) -> None:
    """Wait for a killed worker and let go of its pipe."""
    worker.wait()
    assert worker.stdout is not None
    worker.stdout.close()


def check(path: Path) -> Counter[str]:
    """Check the ledger, the budget of every row, every released file, and what every worker was told."""
    with closing(sqlite3.connect(path)) as connection:
        assert [("ok",)] == connection.execute("PRAGMA integrity_check").fetchall()
    lines = [line.split() for line in Path(f"{path}.log").read_text().splitlines()]
    folder = path.with_name(f"{path.name}.releases")
    with ldp.Ledger(path) as ledger:
        assert ledger.verify().ok
        entries = {entry.release_id: entry for entry in ledger.entries()}
        curators: dict[str, ldp.Curator] = {}
        asked = {tuple(words) for kind, *words in lines if kind == "asked"}
        by_entry = {}
        for dataset, epsilon, low in asked:
            if dataset not in curators:
                raw = ldp.RawLabels(LABELS, SPACE)
                curators[dataset] = ldp.Curator(raw, BUDGET, ledger=ledger, ids=np.arange(ROWS), dataset=dataset)
            by_entry[digest_of(curators[dataset], epsilon, int(low))] = dataset, epsilon, int(low)
        # Every charge was asked for by somebody, and no row was charged beyond the budget.
        spent: dict[str, list[Fraction]] = {}
        for entry in entries.values():
            dataset, epsilon, low = by_entry[entry.digest]
            assert (dataset, NAMED) == (entry.dataset, entry.rows)
            assert entry.charge.epsilon is not None
            assert 0 < entry.charge.epsilon <= Fraction(epsilon) < entry.charge.epsilon + Fraction(1, 10**9)
            rows = spent.setdefault(dataset, [Fraction(0)] * ROWS)
            rows[low : low + NAMED] = [before + entry.charge.epsilon for before in rows[low : low + NAMED]]
        assert all(max(rows) <= BUDGET for rows in spent.values())
        assert {name: max(rows) for name, rows in spent.items()} == {name: ledger.spent(name).epsilon for name in spent}
        # Every released file has its charge, and is what the workers got.
        files = {file.stem: file for file in folder.glob("*.parquet")}
        assert files.keys() <= entries.keys()
        for name, file in files.items():
            release = ldp.read_release(file)
            assert isinstance(release, ldp.RowRelease)
            assert release.ids is not None
            _, _, low = by_entry[entries[name].digest]
            assert (entries[name].head, name) == (release.stamp.ledger_head, release.stamp.release_id)
            assert list(range(low, low + NAMED)) == release.ids.to_arrow().to_pylist()
            assert entries[name].charge == release.guarantee.charge()  # type: ignore[union-attr]
        got = [(name, labels) for kind, *words in lines if kind == "got" for name, labels in [words]]
        for name, labels in got:
            assert labels == "".join(np.asarray(ldp.read_release(files[name])))
        # A second draw of a charged request, which a worker was about to publish, bears a name that is cleared away.
        left = set(folder.iterdir()) - set(files.values()) if folder.exists() else set()
        assert left <= {*folder.glob(".*.tmp"), *folder.glob(".*.draft")}
        # What was charged and not released, or not answered, is released now, once, and for nothing.
        unreleased = [entry for name, entry in entries.items() if name not in files]
        for entry in [*unreleased, *entries.values()][: len(unreleased) + 20]:
            dataset, epsilon, low = by_entry[entry.digest]
            before = files[entry.release_id].read_bytes() if entry.release_id in files else None
            release = ask(curators[dataset], epsilon, low)
            file = folder / f"{entry.release_id}.parquet"
            assert (entry.head, entry.release_id) == (release.stamp.ledger_head, release.stamp.release_id)
            assert before in {None, file.read_bytes()}
            assert np.asarray(ldp.read_release(file)).tolist() == np.asarray(release).tolist()
        assert len(entries) == len(ledger.entries())
        assert ledger.verify().ok
    return Counter(
        entries=len(entries),
        released=len(files),
        answered=len(got),
        unreleased=len(unreleased),
        refused=sum(kind == "refused" for kind, *_ in lines),
        left=len(left),
        datasets=len(spent),
    )


def request_of(epsilon: str, low: int) -> tuple[ldp.RandomizedResponse, list[int]]:
    """Return the mechanism and the rows of a request."""
    return ldp.RandomizedResponse(SPACE, epsilon), list(range(low, low + NAMED))


def ask(curator: ldp.Curator, epsilon: str, low: int) -> ldp.Release:
    """Ask for what a worker asked for."""
    mechanism, rows = request_of(epsilon, low)
    return curator.release(mechanism, rows=rows)


def digest_of(curator: ldp.Curator, epsilon: str, low: int) -> bytes:
    """Return the name of a request, without making it."""
    mechanism, rows = request_of(epsilon, low)
    places = np.array(rows)
    public = PublicData(SPACE, curator._ids.take(places))
    return curator._request_digest(public, mechanism.plan(public), places)


def test_a_few_kills_do_no_harm(tmp_path: Path) -> None:
    """Killed in the middle of anything, a curator leaves a ledger that adds up."""
    found = race(tmp_path / "ledger.db", kills=4, seed=1)

    assert found["entries"] > 0
    assert found["released"] > 0


_DIES = """
import os, sys
import labeldp as ldp
from pathlib import Path
path, when = sys.argv[1], sys.argv[2]
space = ldp.LabelSpace(["a", "b"])
curator = ldp.Curator(ldp.RawLabels(["a", "b"] * 20, space), 2, ledger=ldp.Ledger(path), ids=list(range(40)))
def die(*_):
    os._exit(9)
if when == "before the draw":
    ldp.RandomizedResponse._draw = die
elif when == "while writing":
    import pyarrow.parquet as pq
    pq.write_table = lambda table, file, **_: (Path(file).write_bytes(b"half a fi"), die())
else:
    def rename(source, target, really=Path.rename):
        if source.suffix == ".draft" and when == "before the file has its name":
            die()
        really(source, target)
        if (source.suffix, when) in {(".tmp", "before it is recorded"), (".draft", "before the answer")}:
            die()
    Path.rename = rename
curator.release(ldp.RandomizedResponse(space, 1))
"""


def test_a_death_at_any_moment_after_the_charge_costs_nothing(tmp_path: Path) -> None:
    """Whoever dies between charge and answer has paid: the request is answered later, once, for nothing."""
    space = ldp.LabelSpace(["a", "b"])
    for moment in (
        "before the draw",
        "while writing",
        "before it is recorded",
        "before the file has its name",
        "before the answer",
    ):
        path = tmp_path / f"{moment}.db"
        command = [sys.executable, "-c", _DIES, str(path), moment]
        assert 9 == subprocess.run(command, check=False).returncode
        folder = path.with_name(f"{path.name}.releases")
        kept = {file: file.read_bytes() for file in folder.glob("*.parquet")}
        with ldp.Ledger(path) as ledger:
            entries = ledger.entries()
            curator = ldp.Curator(ldp.RawLabels(["a", "b"] * 20, space), ledger=ledger, ids=list(range(40)))
            # What a dead process left behind is removed when nobody can be at work on it any more.
            for file in folder.glob(".*"):
                os.utime(file, (0, 0))

            release = curator.release(ldp.RandomizedResponse(space, 1))

            assert 1 == len(entries) == len(ledger.entries())
            assert entries[0].release_id == release.stamp.release_id
            assert int(moment == "before the answer") == len(kept)
            assert all(content == file.read_bytes() for file, content in kept.items())
            with pytest.raises(BudgetExhaustedError):
                curator.release(ldp.RandomizedResponse(space, 1.5))
            other = curator.release(ldp.RandomizedResponse(space, 0.5))
            names = {f"{part.stamp.release_id}.parquet" for part in (release, other)}
            assert names == {file.name for file in folder.iterdir()}
