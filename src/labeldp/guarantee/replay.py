"""The records of a ledger read back: what they say is the only thing that requests are judged by."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, final

from labeldp.errors import LedgerCorruptError
from labeldp.guarantee.budget import Budget, cost_of, read_spelled
from labeldp.guarantee.spending import Spending
from labeldp.guarantee.value import Charge


@final
@dataclass(frozen=True)
class Record:
    """One record of the chain, its body as it was written and hashed."""

    sequence: int
    subject: tuple[str, ...]
    text: str
    head: str

    @property
    def body(self) -> dict[str, Any]:
        """The body, read anew: it is the caller's to change."""
        body: dict[str, Any] = json.loads(self.text)
        return body


@final
@dataclass
class Part:
    """A registered part, and what its rows have spent."""

    sequence: int
    rows: int
    ids: str
    tagged: bool
    spending: Spending = field(default_factory=Spending)


@final
@dataclass
class Replay:
    """What the checked records say, up to the last one that was read."""

    count: int = 0
    head: bytes = bytes(32)
    heads: set[str] = field(default_factory=set)
    blobs: dict[int, list[str]] = field(default_factory=dict)
    budgets: dict[str, Budget] = field(default_factory=dict)
    parts: dict[tuple[str, str], Part] = field(default_factory=dict)
    labels: dict[tuple[str, ...], int] = field(default_factory=dict)
    entries: dict[tuple[str, ...], Record] = field(default_factory=dict)
    release_ids: set[str] = field(default_factory=set)
    published: dict[str, int] = field(default_factory=dict)

    def add(self, kind: str, record: Record) -> None:
        """Take in the next record, which has been checked."""
        body = record.body
        match kind, record.subject:
            case "ledger", ():
                pass
            case "account", (dataset,):
                self.budgets[dataset] = Budget(**read_spelled(body["budget"]))
            case "part", (dataset, part):
                self.parts[dataset, part] = Part(record.sequence, body["rows"], body["ids"], body["tags"])
            case "labels", (_, _, _, _):
                self.labels[record.subject] = record.sequence
            case "entry", (dataset, _, part, _):
                costs = cost_of(Charge(**read_spelled(body["charge"])), self.budgets[dataset])
                self.parts[dataset, part].spending.add(costs, body["mask"], record.sequence)
                self.entries[record.subject] = record
                self.release_ids.add(body["release"])
            case "published", (release_id,):
                self.published[release_id] = record.sequence
            case _:
                raise LedgerCorruptError(f"Record {record.sequence} is of unknown kind.", record=record.sequence)
        self.blobs[record.sequence] = body["blobs"]
        self.heads.add(record.head)
        self.count, self.head = record.sequence, bytes.fromhex(record.head)
