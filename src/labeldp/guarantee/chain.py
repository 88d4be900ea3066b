"""The chain of records: what a ledger's file promises.

Records form a chain of keyed hashes, and a seal over its length and head tells when its end is missing.  Whoever
lacks the key cannot change, drop, swap or add a record unseen; nobody can tell from the file alone that all of it
was replaced by its own older copy: heads kept elsewhere tell.  Since heads are public, nothing that depends on a
label enters the chain: digests of labels lie beside it, each guarded by a keyed hash of its own.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import sqlite3
from collections.abc import Sequence
from typing import Any, Final, NoReturn, final

from labeldp.errors import KeyMaterialError, LedgerCorruptError
from labeldp.guarantee.keys import Keys, canonical_json
from labeldp.guarantee.replay import Record, Replay
from labeldp.guarantee.schema import FORMAT, check_integrity, check_tables, create_tables

_MAC: Final = 32
#: Stands in a record for what is kept beside the chain.
_BESIDE: Final = "beside the chain"


@final
class Chain:
    """The records that one transaction sees, checked into a replay, and those that it appends."""

    def __init__(self, connection: sqlite3.Connection, keys: Keys, replay: Replay, name: str) -> None:
        self._connection = connection
        self._keys = keys
        self._replay = replay
        self._name = name
        self._appended: list[tuple[str, Record]] = []

    # ---- writing -------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Make the tables, the seal and the first record of a new ledger."""
        create_tables(self._connection)
        self._connection.execute("INSERT INTO seal VALUES (1, 0, ?, ?)", (bytes(32), self._keys.seal(0, bytes(32))))
        self.append("ledger", [], {"format": FORMAT})

    def append(
        self,
        kind: str,
        subject: Sequence[str],
        body: dict[str, Any],
        blobs: Sequence[bytes] = (),
        *,
        secret: bytes | None = None,
    ) -> Record:
        """Write one record, its blobs and the new seal; a ``secret`` is kept like a blob, but no head depends on it."""
        execute = self._connection.execute
        last = execute("SELECT sequence, hash FROM records ORDER BY sequence DESC LIMIT 1").fetchone()
        sequence, previous = (1, bytes(32)) if last is None else (last[0] + 1, last[1])
        subject_text = canonical_json(list(subject))
        digests = [_digest(blob) for blob in blobs]
        if secret is not None:
            blobs, digests = [secret + self._keys.guard(sequence, secret)], [_BESIDE]
        text = canonical_json({**body, "blobs": digests})
        head = self._keys.link(previous, sequence, kind, subject_text, text)
        execute("INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", (sequence, kind, subject_text, text, previous, head))
        self._connection.executemany(
            "INSERT INTO blobs VALUES (?, ?, ?)", [(sequence, chunk, blob) for chunk, blob in enumerate(blobs)]
        )
        execute("UPDATE seal SET records = ?, head = ?, mac = ?", (sequence, head, self._keys.seal(sequence, head)))
        record = Record(sequence, tuple(subject), text, head.hex())
        self._appended.append((kind, record))
        return record

    def settle(self) -> None:
        """Enter what was appended into the replay, now that it is on the disk."""
        for kind, record in self._appended:
            self._replay.add(kind, record)

    # ---- checking ------------------------------------------------------------------------------------------

    def read_on(self) -> None:
        """Read and check the records that the replay does not know yet, and the seal over all of them."""
        replay = self._replay
        seal = self._connection.execute("SELECT id, records, head, mac FROM seal").fetchall()
        rows = self._connection.execute(
            "SELECT sequence, kind, subject, body, previous, hash FROM records WHERE sequence > ? ORDER BY sequence",
            # From the very beginning, a record before the first one is seen too.
            (replay.count or -1 << 63,),
        )
        sealed = len(seal) == 1 and self._seal_holds(seal[0])
        for row in rows:
            sequence, kind, subject, body, previous, head = row
            if sequence != replay.count + 1:
                self._corrupt(min(sequence, replay.count + 1), "is missing, or not in its place")
            typed = [type(value) for value in row] == [int, str, str, str, bytes, bytes]
            if not typed or not hmac.compare_digest(head, self._keys.link(previous, sequence, kind, subject, body)):
                if replay.count == 0 and not sealed:
                    raise KeyMaterialError(f"The key given is not the one {self._name} was made with.")
                self._corrupt(sequence, "was changed")
            if previous != replay.head:
                self._corrupt(sequence, "does not follow the one before it")
            replay.add(kind, Record(sequence, tuple(json.loads(subject)), body, head.hex()))
        if not sealed:
            self._corrupt(replay.count, "is not sealed: the seal is damaged")
        if seal[0][1] < replay.count:
            self._corrupt(seal[0][1] + 1, "was not there when the chain was sealed, or the ledger went back in time")
        if seal[0][1] > replay.count:
            self._corrupt(replay.count + 1, "is missing")
        if seal[0][2] != replay.head:
            self._corrupt(replay.count, "is another one than before")

    def verified(self) -> Replay:
        """Check every byte anew, and return what the records say."""
        check_integrity(self._connection, self._name)
        check_tables(self._connection, self._name)
        fresh = Chain(self._connection, self._keys, Replay(), self._name)
        fresh.read_on()
        fresh._check_blobs()
        return fresh._replay

    def blob(self, sequence: int, chunk: int = 0) -> bytes:
        """Return a blob of a record, checked."""
        query = "SELECT bytes FROM blobs WHERE sequence = ? AND chunk = ?"
        found = self._connection.execute(query, (sequence, chunk)).fetchone()
        if found is None or not self._intact(sequence, found[0], self._replay.blobs[sequence][chunk]):
            self._corrupt(sequence, "has rows or tags that were changed")
        return bytes(found[0])

    def secret(self, sequence: int) -> bytes:
        """Return what a record keeps beside the chain, checked."""
        return self.blob(sequence)[:-_MAC]

    def _check_blobs(self) -> None:
        expected = {
            (sequence, chunk): digest
            for sequence, digests in self._replay.blobs.items()
            for chunk, digest in enumerate(digests)
        }
        for sequence, chunk, blob in self._connection.execute("SELECT * FROM blobs ORDER BY sequence, chunk"):
            if not self._intact(sequence, blob, expected.pop((sequence, chunk), None)):
                self._corrupt(sequence, "has rows or tags that were changed")
        if expected:
            self._corrupt(min(expected)[0], "has rows or tags that are missing")

    def _seal_holds(self, seal: tuple[object, ...]) -> bool:
        identity, records, head, mac = seal
        if not (isinstance(records, int) and isinstance(head, bytes) and isinstance(mac, bytes)):
            return False
        return identity == 1 and hmac.compare_digest(mac, self._keys.seal(records, head))

    def _intact(self, sequence: int, blob: object, expected: str | None) -> bool:
        if expected == _BESIDE and isinstance(blob, bytes):
            return hmac.compare_digest(blob[-_MAC:], self._keys.guard(sequence, blob[:-_MAC]))
        return _digest(blob) == expected

    def _corrupt(self, record: int, what: str) -> NoReturn:
        raise LedgerCorruptError(
            f"Record {record} of {self._name} {what}. Stop releasing, and restore the ledger from a backup that is "
            "newer than the last release.",
            record=record,
        )


def _digest(blob: object) -> str:
    return hashlib.sha256(blob).hexdigest() if isinstance(blob, bytes) else ""
