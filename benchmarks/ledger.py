"""The ledger: how long a charge takes until it is on the disk, and how long it takes to check all of them."""

from __future__ import annotations

import hashlib
import hmac
import os
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import labeldp as ldp
from benchmarks.harness import Benchmark, Case, Scale, Subject
from labeldp.guarantee.ledger import Request
from labeldp.guarantee.value import Charge

_ENTRIES: Final = (10, 1000)
_ROWS: Final = 100_000
_COST: Final = Charge(epsilon=Fraction(1, 10), delta=Fraction(0), rho=None)
_RECORD: Final = bytes(512)


def cases(scale: Scale) -> Iterator[Case]:
    """A ledger of 10 and of 1000 entries, in a file and in memory."""
    for entries in _ENTRIES:
        if scale.full(entries):
            with tempfile.TemporaryDirectory(prefix="labeldp-benchmark-") as folder:
                yield from _cases(entries, Path(folder))


def _cases(entries: int, folder: Path) -> Iterator[Case]:
    file, memory = _Kept(entries, folder, on_disk=True), _Kept(entries, folder, on_disk=False)
    yield Case(
        f"charge, {entries} entries",
        [
            Subject("labeldp, file", file.charge, _check_entry, file.renew),
            Subject("labeldp, memory", memory.charge, _check_entry, memory.renew),
            Subject("limit: append 512 bytes, fsync", file.append),
        ],
        "limit: append 512 bytes, fsync",
    )
    yield Case(
        f"verify, {entries} entries",
        [
            Subject("labeldp, file", file.verify, _check_all, file.renew),
            Subject("labeldp, memory", memory.verify, _check_all, memory.renew),
            Subject("limit: as many HMACs of 512 bytes", lambda: _chain(entries)),
        ],
        "limit: as many HMACs of 512 bytes",
    )


class _Kept:
    """A ledger of about so many entries: made anew when runs have made it a tenth longer."""

    def __init__(self, entries: int, folder: Path, *, on_disk: bool) -> None:
        self._entries, self._folder, self._on_disk = entries, folder, on_disk
        self._made = self._charged = 0
        self._ledger: ldp.Ledger | None = None
        self.renew()

    def renew(self) -> None:
        """Give the ledger its number of entries."""
        if self._ledger is not None and self._charged <= self._entries * 1.1:
            return
        self._made += 1
        self._charged = 0
        if self._ledger is not None:
            self._ledger.close()
        self._ledger = ldp.Ledger(self._folder / f"{self._made}.ledger" if self._on_disk else None)
        self._ledger.register("data", budget=10**9, rows=_ROWS, ids_digest=b"positions", id_tags=None)
        for _ in range(self._entries):
            self.charge()

    def charge(self) -> Any:
        """Charge a new request for all rows."""
        assert self._ledger is not None
        self._charged += 1
        digest = hashlib.sha256(self._charged.to_bytes(8, "big")).digest()
        description = {"mechanism": {"family": "response", "digest": digest.hex()}, "column": "label", "rows": _ROWS}
        return self._ledger.charge(Request("data", "", "", digest, description, _COST))

    def verify(self) -> Any:
        """Check every byte."""
        assert self._ledger is not None
        return self._ledger.verify()

    def append(self) -> None:
        """Do what any durable record must do at least."""
        with (self._folder / "appended").open("ab") as file:
            file.write(_RECORD)
            file.flush()
            os.fsync(file.fileno())


def _chain(records: int) -> bytes:
    head = bytes(32)
    for _ in range(records):
        head = hmac.digest(head, _RECORD, "sha256")
    return head


def _check_entry(entry: Any) -> None:
    assert not entry.repeated
    assert entry.rows == _ROWS


def _check_all(verification: Any) -> None:
    assert verification.ok
    assert verification.records > 0


BENCHMARK: Final = Benchmark(
    "ledger",
    "the ledger: one charge until it is durable, and a check of every byte; seconds are medians, peak_mib is what Python "
    "and NumPy allocate during the run (tracemalloc, in a pass of its own; SQLite's own memory is not in it)",
    ("labeldp",),
    cases,
)
