"""The ledger: what every row of a data set has spent, written down before anything is released.

A data set is registered once, with a budget that never changes, and its parts with the rows they hold.  A request
names rows of one part and a charge; it is granted if and only if every row it names stays within the budget.

Why adding up is sound, although requests may be chosen after seeing earlier releases.  Fix one row, and two
data sets that differ in its label alone.  What is asked (rows, mechanism, charge) depends on public data and
earlier releases only, so along every transcript both data sets meet the same requests, and a release that does
not name the row has the same law in both.

* Pure: the log-ratio of the transcript's probabilities is the sum of the log-ratios of the releases that name the
  row, each within its epsilon, and the ledger lets no transcript happen whose sum exceeds the budget.
* (epsilon, delta): sums of both against a budget fixed beforehand are a valid filter as well (Rogers, Roth,
  Ullman and Vadhan 2016, basic composition).
* Concentrated: given the past, a release contributes at most alpha * rho to the Renyi divergence of order alpha,
  so the sum of rho bounds every order at once (Feldman and Zrnic 2021; Whitehouse et al. 2023).

Each row has a sum of its own because the argument looks at one row at a time.  It fails if the rows of a request
are chosen by looking at true labels.  Tighter composition whose charges are chosen along the way has no such
argument and is not offered here.

What the file promises.  A charge is on the disk when :meth:`Ledger.charge` returns; a repeated request is
recognised by its public fields and charged once.  Records form a chain of keyed hashes, and a seal over its length
and head tells when its end is missing.  Whoever lacks the key cannot change, drop, swap or add a record unseen;
nobody can tell from the file alone that all of it was replaced by its own older copy: heads kept elsewhere (every
release carries one) tell, by :meth:`Ledger.contains_head`.  Since heads are public, nothing that depends on a label
enters the chain: digests of labels lie beside it, each guarded by a keyed hash of its own.
"""

from __future__ import annotations

import errno
import hashlib
import hmac
import json
import math
import operator
import os
import re
import secrets
import sqlite3
import threading
import time
import weakref
import zlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn, final

import numpy as np

from labeldp.coins import KEY_BYTES, read_key_file, write_key_file
from labeldp.errors import (
    AccountMismatchError,
    BoundaryError,
    BudgetExhaustedError,
    DuplicateIdError,
    EmptyInputError,
    EpsilonError,
    IdError,
    InputError,
    KeyMaterialError,
    LedgerCorruptError,
    LedgerError,
    LedgerLockedError,
    LedgerPlaceError,
    LedgerReadOnlyError,
    ShapeError,
)
from labeldp.exact import Number, declared, from_text, to_text
from labeldp.guarantee.value import Charge
from labeldp.prf import derive

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["Budget", "Entry", "Ledger", "Request", "Verification", "filesystem_of"]

Kind = Literal["pure", "approximate", "concentrated"]


@final
@dataclass(frozen=True, init=False)
class Budget:
    """What one label of a data set may cost in total; numbers are read as they are written.

    >>> Budget(0.3).epsilon
    Fraction(3, 10)
    >>> Budget.of((1, 1e-6)).kind
    'approximate'
    >>> Budget(rho="0.5").kind
    'concentrated'
    """

    epsilon: Fraction | None
    delta: Fraction
    rho: Fraction | None

    def __init__(self, epsilon: Number | None = None, delta: Number = 0, rho: Number | None = None) -> None:
        if (epsilon is None) == (rho is None):
            raise EpsilonError("Expected either epsilon or rho for a budget, such as Budget(1) or Budget(rho=0.5).")
        exact_delta = declared(delta)
        if not 0 <= exact_delta < 1:
            raise EpsilonError(f"Expected 0 <= delta < 1, got {delta}.", value=delta)
        if rho is not None and exact_delta:
            raise EpsilonError(f"Expected delta=0 in a budget of rho, got {delta}.", value=delta)
        object.__setattr__(self, "epsilon", None if epsilon is None else _above_zero("epsilon", epsilon))
        object.__setattr__(self, "delta", exact_delta)
        object.__setattr__(self, "rho", None if rho is None else _above_zero("rho", rho))

    @classmethod
    def of(cls, budget: Budget | Number | tuple[Number, ...]) -> Budget:
        """Read a budget from a number (epsilon), a pair (epsilon, delta) or a budget."""
        if isinstance(budget, Budget):
            return budget
        if isinstance(budget, tuple):
            if not 1 <= len(budget) <= 2:
                raise EpsilonError(f"Expected a budget (epsilon, delta), got {len(budget)} numbers.", value=budget)
            return cls(*budget)
        return cls(budget)

    @property
    def kind(self) -> Kind:
        """Which sum the budget bounds."""
        if self.rho is not None:
            return "concentrated"
        return "approximate" if self.delta else "pure"

    @property
    def _limits(self) -> dict[str, Fraction]:
        return _parts_of(self)

    def _costs(self, charge: Charge) -> dict[str, Fraction]:
        """Return what a charge adds to each bounded sum, or refuse a charge that no such sum can hold."""
        if self.kind == "concentrated":
            # With a delta beside it, rho may be a bound that holds up to delta only, and no account here adds those.
            if charge.rho is None or (charge.delta and charge.epsilon is None):
                self._refuse(charge, "ask for a mechanism with a pure or zCDP guarantee")
            return {"rho": charge.rho}
        if charge.epsilon is None:
            self._refuse(charge, "ask for an (epsilon, delta) guarantee, or register the data set with Budget(rho=...)")
        if self.kind == "approximate":
            return {"epsilon": charge.epsilon, "delta": charge.delta}
        if charge.delta:
            self._refuse(charge, "ask for a pure mechanism, or register the data set with Budget(epsilon, delta)")
        return {"epsilon": charge.epsilon}

    def _refuse(self, charge: Charge, advice: str) -> NoReturn:
        raise AccountMismatchError(
            f"An account of {_shown(self._limits)} cannot hold a charge of {_shown(_parts_of(charge))}; {advice}.",
            budget=self,
            charge=charge,
        )


@final
@dataclass(frozen=True, eq=False)
class Request:
    """A release somebody asks for: public fields only.

    ``digest`` identifies the request and covers all its public fields, ``rows`` names rows of the part in its
    canonical order (None: all of them).
    """

    dataset: str
    version: str
    part: str
    digest: bytes
    description: Mapping[str, Any]
    charge: Charge
    rows: NDArray[np.bool_] | None = None


@final
@dataclass(frozen=True)
class Entry:
    """A granted request; ``head`` is the chain's hash after it, ``rows`` how many rows it names."""

    sequence: int
    release_id: str
    head: str
    dataset: str
    version: str
    part: str
    digest: bytes
    charge: Charge
    rows: int
    description: dict[str, Any] = field(hash=False)
    repeated: bool = field(default=False, compare=False)


@final
@dataclass(frozen=True)
class Verification:
    """The result of a full check: how many records, and the head that stands for all of them."""

    ok: bool
    records: int
    head: str


def filesystem_of(path: Path) -> str | None:
    """Return the type of the file system that holds ``path``, or None where the system does not tell."""
    try:
        table = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return _mounted_as(path, table)


@final
class Ledger:
    """An append-only account of releases, in one file or (``path=None``) in memory.

    Several processes and threads may use one file.  Beside it lie ``<path>.key``, its secret key (unless ``key``
    is given), and ``<path>.releases/``.

    >>> ledger = Ledger()
    >>> ledger.register("income", budget=1, rows=4, ids_digest=b"positions", id_tags=None).kind
    'pure'
    >>> half = Charge(epsilon=Fraction(1, 2), delta=Fraction(0), rho=None)
    >>> entry = ledger.charge(Request("income", "", "", b"first", {"mechanism": "response"}, half))
    >>> entry.sequence, ledger.left("income").epsilon
    (4, Fraction(1, 2))
    >>> ledger.verify().ok
    True
    """

    def __init__(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        key: bytes | None = None,
        timeout: float = 30.0,
        filesystem: Callable[[Path], str | None] = filesystem_of,
    ) -> None:
        if not (timeout > 0 and math.isfinite(timeout)):
            raise InputError(f"Expected timeout > 0 seconds, got {timeout}.", value=timeout)
        self._place = None if path is None else _Place(Path(path), filesystem)
        self._timeout = float(timeout)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._process = os.getpid()
        self._inode: tuple[int, int] | None = None
        self._replay = _Replay()
        self._written: list[tuple[str, _Record]] = []
        self._kept: dict[str, object] = {}
        # A file without a given key has one of its own, which takes the place of this one when it is opened.
        self._keys = _Keys(secrets.token_bytes(KEY_BYTES) if key is None else key)
        self._own_key_unread = key is None and path is not None
        _LEDGERS.add(self)
        try:
            with self._transaction(write=True):
                pass
        except BaseException:
            self.close()
            raise

    @property
    def path(self) -> Path | None:
        """Where the ledger lies, or None in memory."""
        return None if self._place is None else self._place.file

    def __repr__(self) -> str:
        place = "in memory" if self._place is None else repr(str(self._place.file))
        return f"Ledger({place}, data sets={len(self._replay.budgets)}, entries={len(self._replay.entries)})"

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        connection, self._connection = getattr(self, "_connection", None), None
        # SQLite forbids closing what another process opened.
        if connection is not None and self._process == os.getpid():
            connection.close()

    def _refuse_copy(self, *_: object) -> NoReturn:
        raise BoundaryError("A ledger holds a secret key and is not copied or pickled; open it by its path.")

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __getstate__ = _refuse_copy

    def close(self) -> None:
        """Close the file; the next use opens it again.  A ledger in memory is kept."""
        if self._place is not None:
            with self._turn():
                self._disconnect()

    # ---- registration --------------------------------------------------------------------------------------

    def register(
        self,
        dataset: str,
        part: str = "",
        *,
        budget: Budget | Number | tuple[Number, ...] | None,
        rows: int,
        ids_digest: bytes,
        id_tags: NDArray[np.uint64] | None,
    ) -> Budget:
        """Register a part of a data set, and the data set with its budget at the first part; return the budget.

        Repeating a registration changes nothing; ``budget=None`` means "as registered".  ``id_tags`` are keyed
        64-bit digests of the row ids: rows of two parts must differ, and only tags can show that.
        """
        _check_texts(dataset=dataset, part=part)
        wanted = None if budget is None else Budget.of(budget)
        _check_bytes(ids_digest=ids_digest)
        rows = operator.index(rows)
        if rows < 1:
            raise EmptyInputError(f"Expected at least one row in part {part!r} of {dataset!r}, got {rows}.", rows=rows)
        with self._transaction():
            account, known = self._registered(dataset, part, wanted, rows, ids_digest)
        if known:
            return account
        tags = None if id_tags is None else _sorted_tags(id_tags, rows)
        blobs = [] if tags is None else [_pack_tags(tags[i : i + _CHUNK]) for i in range(0, rows, _CHUNK)]
        with self._transaction(write=True) as connection:
            account, known = self._registered(dataset, part, wanted, rows, ids_digest)
            if known:
                return account
            self._check_disjoint(connection, dataset, part, tags)
            if dataset not in self._replay.budgets:
                self._append(connection, "account", [dataset], {"budget": _spelled(account)})
            body = {"rows": rows, "ids": ids_digest.hex(), "tags": tags is not None}
            self._append(connection, "part", [dataset, part], body, blobs)
        return account

    def _registered(
        self, dataset: str, part: str, wanted: Budget | None, rows: int, ids_digest: bytes
    ) -> tuple[Budget, bool]:
        """Return the budget, and whether the part is known just so; refuse a contradiction."""
        budget = self._replay.budgets.get(dataset, wanted)
        if budget is None:
            raise AccountMismatchError(f"Data set {dataset!r} is not registered yet: give a budget.", dataset=dataset)
        if wanted is not None and wanted != budget:
            raise AccountMismatchError(
                f"Data set {dataset!r} is registered with {_shown(budget._limits)}, got {_shown(wanted._limits)}. "
                "A budget is fixed at registration; leave budget out, or use another data set name for other people.",
                dataset=dataset,
                registered=budget,
                got=wanted,
            )
        known = self._replay.parts.get((dataset, part))
        if known is None:
            return budget, False
        if known.rows != rows or not hmac.compare_digest(known.ids, ids_digest.hex()):
            raise AccountMismatchError(
                f"Part {part!r} of data set {dataset!r} is registered with {known.rows} rows; these {rows} rows "
                "are not the same. Register appended rows as a new part, with ids.",
                dataset=dataset,
                part=part,
            )
        return budget, True

    def _check_disjoint(
        self, connection: sqlite3.Connection, dataset: str, part: str, tags: NDArray[np.uint64] | None
    ) -> None:
        others = [(name, known) for (owner, name), known in self._replay.parts.items() if owner == dataset]
        if not others:
            return
        if tags is None:
            raise IdError(
                f"Part {part!r} is appended to data set {dataset!r} without row ids, so nothing shows that its rows "
                "are new. Give ids.",
                dataset=dataset,
                part=part,
            )
        for name, known in others:
            if not known.tagged:
                raise AccountMismatchError(
                    f"Part {name!r} of data set {dataset!r} was registered without row ids, so nothing can be "
                    "appended to it. Register the data anew with ids, under another name.",
                    dataset=dataset,
                    part=name,
                )
            shared = sum(
                _count_shared(tags, _unpack_tags(self._blob(connection, known.sequence, chunk)))
                for chunk in range(len(self._replay.blobs[known.sequence]))
            )
            if shared:
                raise DuplicateIdError(
                    f"{shared} rows of part {part!r} are in part {name!r} of data set {dataset!r} already. "
                    "An appended part holds new rows only.",
                    dataset=dataset,
                    part=part,
                    count=shared,
                )

    def note_labels(self, dataset: str, version: str, part: str, column: str, label_tag: bytes) -> bool:
        """Write down the keyed digest of the labels at first use; later, tell whether they are still the same."""
        _check_texts(dataset=dataset, version=version, part=part, column=column)
        _check_bytes(label_tag=label_tag)
        with self._transaction(write=True) as connection:
            self._part(dataset, part)
            known = self._replay.labels.get((dataset, version, part, column))
            if known is None:
                self._append(connection, "labels", [dataset, version, part, column], {}, secret=label_tag)
                return True
            return hmac.compare_digest(self._blob(connection, known, 0)[:-_MAC], label_tag)

    # ---- charging ------------------------------------------------------------------------------------------

    def charge(self, request: Request) -> Entry:
        """Charge a request durably and return its entry, or raise and record nothing.

        A request that was granted before is returned as ``repeated`` and costs nothing.
        """
        _check_texts(dataset=request.dataset, version=request.version, part=request.part)
        _check_bytes(digest=request.digest)
        _check_charge(request.charge)
        mask = _Mask.of(request.rows)
        identity = (request.dataset, request.version, request.part, request.digest.hex())
        with self._transaction(write=True) as connection:
            part = self._part(request.dataset, request.part)
            if mask.length not in {None, part.rows}:
                raise ShapeError(
                    f"Expected one truth value for each of the {part.rows} rows, got {mask.length}.",
                    expected=part.rows,
                    got=mask.length,
                )
            known = self._replay.entries.get(identity)
            if known is not None:
                entry = known.entry(repeated=True)
                if known.mask != mask.digest:
                    raise InputError(
                        "This request names other rows than the earlier one with the same digest; "
                        "a digest must cover the rows.",
                        release_id=entry.release_id,
                    )
                return entry
            self._check_budget(connection, request, part, mask)
            body = {
                "release": self._keys.release_id(identity),
                "charge": _spelled(request.charge),
                "rows": part.rows if mask.packed is None else mask.named,
                "mask": mask.digest,
                "description": dict(request.description),
            }
            blobs = [] if mask.blob is None else [mask.blob]
            return self._append(connection, "entry", identity, body, blobs).entry()

    def _check_budget(self, connection: sqlite3.Connection, request: Request, part: _Part, mask: _Mask) -> None:
        budget = self._replay.budgets[request.dataset]
        asked = budget._costs(request.charge)
        spent = self._spending(connection, part, budget, mask.packed)
        left = {name: limit - spent[name] for name, limit in budget._limits.items()}
        if all(asked[name] <= left[name] for name in left):
            return
        asks, leaves = _shown(asked), _shown(left)
        if asks == leaves:
            asks, leaves = _shown(asked, full=True), _shown(left, full=True)
        raise BudgetExhaustedError(
            f"The request asks for {asks}, and {leaves} is left for the most spent of its rows, of "
            f"{_shown(budget._limits)} for data set {request.dataset!r}. Nothing was charged; ask for less, or for "
            "rows that have spent less.",
            dataset=request.dataset,
            asked=request.charge,
            left=_charge(left),
            budget=budget,
        )

    def _spending(
        self, connection: sqlite3.Connection, part: _Part, budget: Budget, named: NDArray[np.uint8] | None
    ) -> dict[str, Fraction]:
        """Return the largest sums over the named rows of a part (None: all rows)."""
        masks = {
            digest: np.frombuffer(zlib.decompress(self._blob(connection, sequence, 0)), np.uint8)
            for digest, sequence in part.masks.items()
        }
        spent = {}
        for name in budget._limits:
            by_mask = part.spent[name]
            weighted = [(mask, by_mask[digest]) for digest, mask in masks.items() if by_mask[digest]]
            spent[name] = by_mask[None] + _heaviest(weighted, named)
        return spent

    # ---- looking -------------------------------------------------------------------------------------------

    def spent(self, dataset: str) -> Charge:
        """Return what the most spent row of a data set has spent; of epsilon and delta, each by itself."""
        return _charge(self._dataset_spending(dataset)[1])

    def left(self, dataset: str) -> Charge:
        """Return what every row of a data set can still spend."""
        budget, spent = self._dataset_spending(dataset)
        return _charge({name: limit - spent[name] for name, limit in budget._limits.items()})

    def _dataset_spending(self, dataset: str) -> tuple[Budget, dict[str, Fraction]]:
        with self._transaction() as connection:
            budget = self._replay.budgets.get(dataset)
            if budget is None:
                raise AccountMismatchError(f"Data set {dataset!r} is not registered.", dataset=dataset)
            sums = [
                self._spending(connection, part, budget, None)
                for (owner, _), part in self._replay.parts.items()
                if owner == dataset
            ]
        return budget, {name: max(part[name] for part in sums) for name in budget._limits}

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """Return all entries, or those of one data set, in order."""
        with self._transaction():
            known = [record for subject, record in self._replay.entries.items() if dataset in {None, subject[0]}]
        return [record.entry() for record in known]

    def contains_head(self, head: str) -> bool:
        """Tell whether a head, such as one kept in a release, is part of this chain."""
        with self._transaction():
            return head.lower() in self._replay.heads

    def verify(self) -> Verification:
        """Check every byte of the ledger; raise :class:`LedgerCorruptError`, naming the first bad record."""
        with self._transaction() as connection:
            said = connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
            if said != "ok":
                raise LedgerCorruptError(f"The database of {self._name} is damaged: {said}.")
            self._check_format(connection)
            replay = _Replay()
            self._read_on(connection, replay)
            self._check_blobs(connection, replay)
        return Verification(ok=True, records=replay.count, head=replay.head.hex())

    def subkey(self, purpose: str) -> bytes:
        """Return a secret key of the owner's for one purpose, such as digests of labels or ids."""
        return self._keys.subkey(purpose)

    # ---- releases ------------------------------------------------------------------------------------------

    def release_path(self, entry: Entry) -> Path | None:
        """Return where the release of an entry is published, or None in memory."""
        return None if self._place is None else self._place.releases / f"{entry.release_id}.parquet"

    def publish(self, entry: Entry, write: Callable[[Path], object]) -> Path:
        """Publish the release of an entry durably, once: the first writer wins, and its file is the release.

        ``write`` writes a temporary file, which appears under its name complete or not at all.
        """
        final_path = self.release_path(entry)
        if final_path is None:
            raise LedgerError("A ledger in memory has no files; use keep() and kept().")
        self._check_entry(entry)
        folder = final_path.parent
        with _writing(folder):
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
                _sync(folder.parent)
            _remove_stale(folder)
        if not final_path.exists():
            temporary = folder / f".{entry.release_id}.{secrets.token_hex(8)}.tmp"
            try:
                write(temporary)
                _sync(temporary)
                _link(temporary, final_path)
            finally:
                temporary.unlink(missing_ok=True)
        # Also when another process was first: its name must be on the disk before anybody relies on it.
        _sync(folder)
        return final_path

    def keep(self, entry: Entry, release: object) -> object:
        """Keep the release of an entry in memory, once: the first one kept is the release, and is returned."""
        if self._place is not None:
            raise LedgerError("A ledger in a file publishes releases as files; use publish().")
        self._check_entry(entry)
        with self._turn():
            return self._kept.setdefault(entry.release_id, release)

    def kept(self, entry: Entry) -> object | None:
        """Return what was kept for an entry, or None."""
        return self._kept.get(entry.release_id)

    def _check_entry(self, entry: Entry) -> None:
        identity = (entry.dataset, entry.version, entry.part, entry.digest.hex())
        with self._transaction():
            known = self._replay.entries.get(identity)
        if known is None or known.entry() != entry:
            raise LedgerError("This entry is not in this ledger; nothing is released without a charge.", entry=entry)

    # ---- records -------------------------------------------------------------------------------------------

    def _append(
        self,
        connection: sqlite3.Connection,
        kind: str,
        subject: Sequence[str],
        body: dict[str, Any],
        blobs: Sequence[bytes] = (),
        *,
        secret: bytes | None = None,
    ) -> _Record:
        """Write one record, its blobs and the new seal; a ``secret`` is kept like a blob, but no head depends on it."""
        last = connection.execute("SELECT sequence, hash FROM records ORDER BY sequence DESC LIMIT 1").fetchone()
        sequence, previous = (1, bytes(32)) if last is None else (last[0] + 1, last[1])
        subject_text = _json(list(subject))
        digests = [_digest(blob) for blob in blobs]
        if secret is not None:
            blobs, digests = [secret + self._keys.guard(sequence, secret)], [_BESIDE]
        text = _json({**body, "blobs": digests})
        head = self._keys.link(previous, sequence, kind, subject_text, text)
        connection.execute(
            "INSERT INTO records VALUES (?, ?, ?, ?, ?, ?)", (sequence, kind, subject_text, text, previous, head)
        )
        connection.executemany(
            "INSERT INTO blobs VALUES (?, ?, ?)", [(sequence, chunk, blob) for chunk, blob in enumerate(blobs)]
        )
        connection.execute(
            "UPDATE seal SET records = ?, head = ?, mac = ?", (sequence, head, self._keys.seal(sequence, head))
        )
        record = _Record(sequence, tuple(subject), text, head.hex())
        self._written.append((kind, record))
        return record

    def _read_on(self, connection: sqlite3.Connection, replay: _Replay) -> None:
        """Read and check the records that ``replay`` does not know yet, and the seal over all of them."""
        seal = connection.execute("SELECT id, records, head, mac FROM seal").fetchall()
        rows = connection.execute(
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
            replay.add(kind, _Record(sequence, tuple(json.loads(subject)), body, head.hex()))
        if not sealed:
            self._corrupt(replay.count, "is not sealed: the seal is damaged")
        if seal[0][1] < replay.count:
            self._corrupt(seal[0][1] + 1, "was not there when the chain was sealed, or the ledger went back in time")
        if seal[0][1] > replay.count:
            self._corrupt(replay.count + 1, "is missing")
        if seal[0][2] != replay.head:
            self._corrupt(replay.count, "is another one than before")

    def _seal_holds(self, seal: tuple[object, ...]) -> bool:
        identity, records, head, mac = seal
        if not (isinstance(records, int) and isinstance(head, bytes) and isinstance(mac, bytes)):
            return False
        return identity == 1 and hmac.compare_digest(mac, self._keys.seal(records, head))

    def _check_blobs(self, connection: sqlite3.Connection, replay: _Replay) -> None:
        expected = {
            (sequence, chunk): digest
            for sequence, digests in replay.blobs.items()
            for chunk, digest in enumerate(digests)
        }
        for sequence, chunk, blob in connection.execute("SELECT * FROM blobs ORDER BY sequence, chunk"):
            if not self._intact(sequence, blob, expected.pop((sequence, chunk), None)):
                self._corrupt(sequence, "has rows or tags that were changed")
        if expected:
            self._corrupt(min(expected)[0], "has rows or tags that are missing")

    def _blob(self, connection: sqlite3.Connection, sequence: int, chunk: int) -> bytes:
        found = connection.execute(
            "SELECT bytes FROM blobs WHERE sequence = ? AND chunk = ?", (sequence, chunk)
        ).fetchone()
        if found is None or not self._intact(sequence, found[0], self._replay.blobs[sequence][chunk]):
            self._corrupt(sequence, "has rows or tags that were changed")
        return bytes(found[0])

    def _intact(self, sequence: int, blob: object, expected: str | None) -> bool:
        if expected == _BESIDE and isinstance(blob, bytes):
            return hmac.compare_digest(blob[-_MAC:], self._keys.guard(sequence, blob[:-_MAC]))
        return _digest(blob) == expected

    def _part(self, dataset: str, part: str) -> _Part:
        known = self._replay.parts.get((dataset, part))
        if known is None:
            raise AccountMismatchError(
                f"Part {part!r} of data set {dataset!r} is not registered: register it first.",
                dataset=dataset,
                part=part,
            )
        return known

    def _corrupt(self, record: int, what: str) -> NoReturn:
        raise LedgerCorruptError(
            f"Record {record} of {self._name} {what}. Stop releasing, and restore the ledger from a backup that is "
            "newer than the last release.",
            record=record,
        )

    # ---- the file ------------------------------------------------------------------------------------------

    @property
    def _name(self) -> str:
        return "the ledger in memory" if self._place is None else f"ledger {self._place.file}"

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait for the other threads of this process."""
        if self._connection is not None and self._process != os.getpid():
            raise LedgerError(
                f"{self._name} was opened before this process was forked and cannot be used in it. A ledger in memory "
                "serves one process; one in a file can be opened anew by its path."
            )
        if not self._lock.acquire(timeout=self._timeout):
            raise LedgerLockedError(f"Another thread has held {self._name} for {self._timeout:g} seconds.")
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[sqlite3.Connection]:
        """One snapshot, or one atomic and durable change, judged by records that were checked."""
        with self._turn(), _explained(self._name, self._timeout):
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE" if write else "BEGIN")
            self._written.clear()
            try:
                self._read_on(connection, self._replay)
                yield connection
                connection.execute("COMMIT")
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
            for kind, record in self._written:
                self._replay.add(kind, record)

    def _connected(self) -> sqlite3.Connection:
        if self._place is not None and self._inode not in {None, _inode(self._place.file)}:
            raise LedgerCorruptError(f"{self._name} was moved, deleted or replaced while in use.")
        if self._connection is None:
            self._process = os.getpid()
            self._connection = self._open()
        if self._connection.in_transaction:
            # An interrupt between two instructions can leave one behind.
            self._connection.execute("ROLLBACK")
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self) -> sqlite3.Connection:
        target, inode = "file::memory:", None
        if self._place is not None:
            if self._inode is None:
                self._place.create()
            target, inode = f"{self._place.file.as_uri()}?mode=rw", _inode(self._place.file)
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
        mode = _retried(lambda: connection.execute("PRAGMA journal_mode = WAL").fetchone()[0], self._timeout)
        if self._place is not None and mode != "wal":
            raise LedgerPlaceError(f"The disk of {self._name} does not support a write-ahead log; use a local disk.")
        connection.execute("BEGIN IMMEDIATE")
        try:
            new = _is_empty(connection)
            if new:
                self._create(connection)
            else:
                self._check_format(connection)
                if self._place is not None and self._own_key_unread:
                    self._keys = self._place.read_key()
                # A transaction begins on a read-only file as well; only a change is refused. This one is rolled back.
                connection.execute(f"PRAGMA user_version = {_FORMAT}")
            if new:
                connection.execute("COMMIT")
        finally:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        if new and self._place is not None and self._own_key_unread:
            self._place.adopt_key()
        self._own_key_unread = False

    def _create(self, connection: sqlite3.Connection) -> None:
        """Write an empty ledger; its key gets its final name after the commit, so that a key means a ledger."""
        if self._place is not None:
            self._place.check_untouched()
            if self._own_key_unread:
                self._keys = self._place.make_key()
        for statement in _SCHEMA:
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION}")
        connection.execute(f"PRAGMA user_version = {_FORMAT}")
        connection.execute("INSERT INTO seal VALUES (1, 0, ?, ?)", (bytes(32), self._keys.seal(0, bytes(32))))
        self._append(connection, "ledger", [], {"format": _FORMAT})

    def _check_format(self, connection: sqlite3.Connection) -> None:
        application, version = _versions(connection)
        if application != _APPLICATION:
            raise LedgerCorruptError(f"{self._name} is a database, but not a ledger.")
        if version != _FORMAT:
            raise LedgerCorruptError(
                f"{self._name} has format {version}; this version of labeldp reads format {_FORMAT}.", format=version
            )
        found = {sql for (sql,) in connection.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL")}
        if found != set(_SCHEMA):
            raise LedgerCorruptError(f"The tables of {self._name}, or what guards them, were changed.")

    # ---- forks ---------------------------------------------------------------------------------------------

    def _before_fork(self) -> bool:
        """Close the file and keep other threads out of it: SQLite's locks do not survive in a child."""
        if self._place is None or not self._lock.acquire(timeout=self._timeout):
            return False
        if self._process == os.getpid():
            self._disconnect()
        return True

    def _after_fork(self) -> None:
        self._lock.release()


# ---- records read back -------------------------------------------------------------------------------------


@final
@dataclass(frozen=True)
class _Record:
    """One record of the chain, its body as it was written and hashed."""

    sequence: int
    subject: tuple[str, ...]
    text: str
    head: str

    @property
    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.text)
        return body

    @property
    def mask(self) -> str | None:
        digest: str | None = self.body["mask"]
        return digest

    def entry(self, *, repeated: bool = False) -> Entry:
        """Make the entry anew: its description is the caller's to change."""
        dataset, version, part, digest = self.subject
        body = self.body
        return Entry(
            sequence=self.sequence,
            release_id=body["release"],
            head=self.head,
            dataset=dataset,
            version=version,
            part=part,
            digest=bytes.fromhex(digest),
            charge=Charge(**_read(body["charge"])),
            rows=body["rows"],
            description=body["description"],
            repeated=repeated,
        )


@dataclass
class _Part:
    """A part, and the sums of its entries: for each bounded number, by the mask they name (None: all rows)."""

    sequence: int
    rows: int
    ids: str
    tagged: bool
    spent: defaultdict[str, defaultdict[str | None, Fraction]]
    masks: dict[str, int]


@dataclass
class _Replay:
    """What the checked records say: the only thing that requests are judged by."""

    count: int = 0
    head: bytes = bytes(32)
    heads: set[str] = field(default_factory=set)
    blobs: dict[int, list[str]] = field(default_factory=dict)
    budgets: dict[str, Budget] = field(default_factory=dict)
    parts: dict[tuple[str, str], _Part] = field(default_factory=dict)
    labels: dict[tuple[str, ...], int] = field(default_factory=dict)
    entries: dict[tuple[str, ...], _Record] = field(default_factory=dict)

    def add(self, kind: str, record: _Record) -> None:
        body = record.body
        match kind, record.subject:
            case "ledger", ():
                pass
            case "account", (dataset,):
                self.budgets[dataset] = Budget(**_read(body["budget"]))
            case "part", (dataset, part):
                sums: defaultdict[str, defaultdict[str | None, Fraction]] = defaultdict(lambda: defaultdict(Fraction))
                self.parts[dataset, part] = _Part(record.sequence, body["rows"], body["ids"], body["tags"], sums, {})
            case "labels", (_, _, _, _):
                self.labels[record.subject] = record.sequence
            case "entry", (dataset, _, part, _):
                self._add_entry(record, body, self.budgets[dataset], self.parts[dataset, part])
            case _:
                raise LedgerCorruptError(f"Record {record.sequence} is of unknown kind.", record=record.sequence)
        self.blobs[record.sequence] = body["blobs"]
        self.heads.add(record.head)
        self.count, self.head = record.sequence, bytes.fromhex(record.head)

    def _add_entry(self, record: _Record, body: dict[str, Any], budget: Budget, part: _Part) -> None:
        self.entries[record.subject] = record
        mask = body["mask"]
        if mask is not None:
            part.masks.setdefault(mask, record.sequence)
        for name, cost in budget._costs(Charge(**_read(body["charge"]))).items():
            part.spent[name][mask] += cost


@final
class _Keys:
    """The subkeys of a ledger; the key itself is never shown or copied."""

    __slots__ = ("__chain", "__owner", "__release", "__seal", "__secret")

    def __init__(self, key: object) -> None:
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            got = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
            raise KeyMaterialError(f"Expected a key of {KEY_BYTES} bytes, got {got}.")
        self.__chain = derive(key, b"labeldp ledger", b"chain")
        self.__seal = derive(key, b"labeldp ledger", b"seal")
        self.__release = derive(key, b"labeldp ledger", b"release id")
        self.__secret = derive(key, b"labeldp ledger", b"secret")
        self.__owner = derive(key, b"labeldp ledger", b"owner")

    def __repr__(self) -> str:
        return "<secret>"

    def __reduce__(self) -> NoReturn:
        raise BoundaryError("A secret key is not copied or pickled.")

    def link(self, previous: bytes, sequence: int, kind: str, subject: str, body: str) -> bytes:
        """Hash a record and, through the hash before it, all earlier ones."""
        texts = (text.encode("utf-8", "surrogatepass") for text in (str(sequence), kind, subject, body))
        return derive(self.__chain, previous, *texts)

    def seal(self, records: int, head: bytes) -> bytes:
        return derive(self.__seal, str(records).encode(), head)

    def guard(self, sequence: int, secret: bytes) -> bytes:
        return derive(self.__secret, str(sequence).encode(), secret)

    def release_id(self, identity: Sequence[str]) -> str:
        return derive(self.__release, _json(list(identity)).encode())[:16].hex()

    def subkey(self, purpose: str) -> bytes:
        return derive(self.__owner, purpose.encode())


_MAC: Final = 32
#: Stands in a record for what is kept beside the chain.
_BESIDE: Final = "beside the chain"


def _json(value: object) -> str:
    """Write JSON in one way only, in ASCII, so that it is also what was hashed."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"Expected a public description that is JSON: {error}.") from None


def _digest(blob: object) -> str:
    return hashlib.sha256(blob).hexdigest() if isinstance(blob, bytes) else ""


def _spelled(value: Budget | Charge) -> dict[str, str]:
    return {name: to_text(number) for name, number in _parts_of(value).items()}


def _read(body: dict[str, str]) -> dict[str, Any]:
    return {"epsilon": None, "delta": Fraction(0), "rho": None} | {k: from_text(v) for k, v in body.items()}


def _parts_of(value: Budget | Charge) -> dict[str, Fraction]:
    parts = {"epsilon": value.epsilon, "delta": value.delta, "rho": value.rho}
    return {name: number for name, number in parts.items() if number is not None and (number or name != "delta")}


def _charge(sums: Mapping[str, Fraction]) -> Charge:
    return Charge(epsilon=sums.get("epsilon"), delta=sums.get("delta", Fraction(0)), rho=sums.get("rho"))


def _shown(numbers: Mapping[str, Fraction], *, full: bool = False) -> str:
    return ", ".join(f"{name}={to_text(x) if full else f'{float(x):.6g}'}" for name, x in numbers.items())


# ---- checks of what is handed in ---------------------------------------------------------------------------


def _above_zero(name: str, number: Number) -> Fraction:
    value = declared(number)
    if value <= 0:
        raise EpsilonError(f"Expected {name} > 0 in a budget, got {number}.", value=number)
    return value


def _check_texts(**texts: object) -> None:
    for name, value in texts.items():
        if not isinstance(value, str):
            raise InputError(f"Expected {name} to be a text, got {type(value).__name__}.", value=value)


def _check_bytes(**values: object) -> None:
    for name, value in values.items():
        if not isinstance(value, bytes) or not value:
            raise InputError(f"Expected {name} to be bytes, and not empty.")


def _check_charge(charge: Charge) -> None:
    """Refuse what is not an exact number, and above all a negative one: it would give budget back."""
    numbers: dict[str, object] = {"epsilon": charge.epsilon, "delta": charge.delta, "rho": charge.rho}
    for name, number in numbers.items():
        if number is None and name != "delta":
            continue
        if isinstance(number, bool) or not isinstance(number, Fraction | int):
            raise EpsilonError(f"Expected an exact {name} in a charge, got {type(number).__name__}.", value=number)
        if number < 0 or (name == "delta" and number >= 1):
            raise EpsilonError(f"Expected {name} in range in a charge, got {number}.", value=number)


def _sorted_tags(tags: object, rows: int) -> NDArray[np.uint64]:
    if not isinstance(tags, np.ndarray) or tags.dtype != np.uint64 or tags.shape != (rows,):
        raise ShapeError(f"Expected {rows} id tags of type uint64, one a row.", expected=rows)
    ordered = np.sort(tags)
    twice = int(np.count_nonzero(ordered[1:] == ordered[:-1]))
    if twice:
        raise DuplicateIdError(f"{twice} rows carry the id of another row; ids must be unique.", count=twice)
    return ordered


# ---- rows --------------------------------------------------------------------------------------------------

_CHUNK: Final = 2**20


def _pack_tags(tags: NDArray[np.uint64]) -> bytes:
    """Compress sorted tags: their gaps byte by byte, so that high bytes, mostly zero, lie side by side."""
    gaps = np.diff(tags, prepend=np.uint64(0)).astype("<u8")
    return zlib.compress(np.ascontiguousarray(gaps.view(np.uint8).reshape(-1, 8).T).tobytes(), 1)


def _unpack_tags(blob: bytes) -> NDArray[np.uint64]:
    planes = np.frombuffer(zlib.decompress(blob), np.uint8).reshape(8, -1)
    return np.cumsum(np.ascontiguousarray(planes.T).view("<u8").ravel(), dtype=np.uint64)


def _count_shared(mine: NDArray[np.uint64], chunk: NDArray[np.uint64]) -> int:
    """Count common values of two sorted arrays without repetitions, the second a piece of a longer one."""
    near = mine[np.searchsorted(mine, chunk[0]) : np.searchsorted(mine, chunk[-1], "right")]
    if not len(near):
        return 0
    return int(np.count_nonzero(chunk[np.searchsorted(chunk, near)] == near))


@dataclass(frozen=True, eq=False)
class _Mask:
    """The rows of a request, packed; ``packed`` is None for all rows, however they were named."""

    length: int | None
    named: int
    packed: NDArray[np.uint8] | None
    digest: str | None
    blob: bytes | None

    @classmethod
    def of(cls, rows: object) -> _Mask:
        if rows is None:
            return cls(None, 0, None, None, None)
        if not isinstance(rows, np.ndarray) or rows.dtype != np.bool_ or rows.ndim != 1:
            raise ShapeError("Expected rows to be None or one truth value for each row.")
        named = int(np.count_nonzero(rows))
        if not named:
            raise EmptyInputError("Expected a request to name at least one row, got none.")
        if named == len(rows):
            return cls(len(rows), named, None, None, None)
        packed = np.packbits(rows, bitorder="little")
        data = packed.tobytes()
        return cls(len(rows), named, packed, hashlib.sha256(data).hexdigest(), zlib.compress(data, 1))


#: Bytes of a packed mask per step (eight rows a byte): what belongs to them stays in the second-level cache.
_STEP: Final = 2**13
_WORD: Final = 63


def _heaviest(masks: Sequence[tuple[NDArray[np.uint8], Fraction]], named: NDArray[np.uint8] | None) -> Fraction:
    """Return the largest exact sum, over the named rows, of the weights of the masks that hold a row.

    Rows with equal histories have equal sums, and a history is one byte per eight masks: a table of 256 sums
    per byte replaces any arithmetic per row.  The sums are integers over a common denominator, in limbs
    that fit a machine word, compared from the highest limb down.
    """
    everywhere = Fraction(0)
    varied: list[tuple[NDArray[np.uint8], Fraction]] = []
    for mask, weight in masks:
        if named is not None:
            shared = mask & named
            if not shared.any():
                continue
            if np.array_equal(shared, named):
                everywhere += weight
                continue
        varied.append((mask, weight))
    if not varied:
        return everywhere
    scale = math.lcm(*(weight.denominator for _, weight in varied))
    units = [int(weight * scale) for _, weight in varied]
    packed = [mask for mask, _ in varied]
    groups = [packed[i : i + 8] for i in range(0, len(packed), 8)]
    bits = _WORD - len(groups).bit_length()
    limbs = -(-sum(units).bit_length() // bits)
    tables = [_limbs(_subset_sums(units[i : i + 8]), limbs, bits) for i in range(0, len(units), 8)]
    best = 0
    for start in range(0, len(packed[0]), _STEP):
        here = slice(start, start + _STEP)
        chosen = None if named is None else named[here]
        if chosen is not None and not chosen.any():
            continue
        size = 8 * len(packed[0][here])
        sums = np.zeros((limbs, size), np.int64)
        found = np.empty(size, np.int64)
        for group, table in zip(groups, tables, strict=True):
            histories = _histories([mask[here] for mask in group])
            for limb, values in enumerate(table):
                sums[limb] += values.take(histories, out=found, mode="clip")
        best = max(best, _largest(sums, bits, chosen))
    return everywhere + Fraction(best, scale)


def _subset_sums(units: Sequence[int]) -> list[int]:
    """Return the sum for every byte whose bit j stands for the j-th number."""
    sums = [0]
    for unit in units:
        sums += [unit + total for total in sums]
    return sums


def _limbs(numbers: Sequence[int], limbs: int, bits: int) -> NDArray[np.int64]:
    low = (1 << bits) - 1
    return np.array([[number >> (bits * limb) & low for number in numbers] for limb in range(limbs)], np.int64)


def _histories(masks: Sequence[NDArray[np.uint8]]) -> NDArray[np.intp]:
    """Return one byte per row whose bit j tells whether the j-th of up to eight packed masks holds the row."""
    square = np.zeros((len(masks[0]), 8), np.uint8)
    np.stack(masks, axis=1, out=square[:, : len(masks)])
    # Each word is an 8 x 8 square of bits; three rounds of swaps transpose it.
    words = square.view("<u8").ravel()
    for shift, pattern in _SWAPS:
        moved = (words ^ (words >> shift)) & pattern
        words ^= moved ^ (moved << shift)
    return words.view(np.uint8).astype(np.intp)


_SWAPS: Final = tuple(
    (np.uint64(shift), np.uint64(pattern))
    for shift, pattern in ((7, 0x00AA00AA00AA00AA), (14, 0x0000CCCC0000CCCC), (28, 0x00000000F0F0F0F0))
)


def _largest(sums: NDArray[np.int64], bits: int, chosen: NDArray[np.uint8] | None) -> int:
    """Return the largest of many numbers given in limbs (lowest first), among the chosen ones."""
    low = np.int64((1 << bits) - 1)
    for limb in range(len(sums) - 1):
        sums[limb + 1] += sums[limb] >> np.int64(bits)
        sums[limb] &= low
    within = None if chosen is None else np.unpackbits(chosen, bitorder="little").astype(bool)
    candidates = sums if within is None else sums[:, within]
    largest = 0
    for limb in range(len(sums) - 1, -1, -1):
        top = candidates[limb].max()
        largest = (largest << bits) + int(top)
        if limb:
            candidates = candidates[:, candidates[limb] == top]
    return largest


# ---- the disk ----------------------------------------------------------------------------------------------

_APPLICATION: Final = 0x6C64704C
_FORMAT: Final = 1


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

#: Disks on which two machines may hold the same lock, or a sync may not reach the disk.
_NETWORK: Final = re.compile(
    r"(fuse\.)?((nfs|smb|cifs).*|9p|afs|beegfs|ceph|coda|curlftpfs|davfs2?|gcsfuse|gfs2|glusterfs|gpfs|lustre"
    r"|ncp(fs)?|ocfs2|orangefs|panfs|prl_fs|pvfs2|rclone|s3fs|sshfs|vboxsf|vmhgfs(-fuse)?)"
)
_DAY: Final = 86_400.0


@final
class _Place:
    """The files of a ledger: itself, its key, and its releases."""

    def __init__(self, path: Path, filesystem: Callable[[Path], str | None]) -> None:
        # Two names of one file must not mean two keys and two write-ahead logs.
        self.file = Path(os.path.realpath(path))
        self.key = self.file.with_name(self.file.name + ".key")
        self.new_key = self.file.with_name(self.file.name + ".key.new")
        self.releases = self.file.with_name(self.file.name + ".releases")
        folder = self.file.parent
        if not folder.is_dir():
            raise LedgerError(f"The folder {folder} for the ledger does not exist.", path=str(self.file))
        if self.file.is_dir():
            raise LedgerError(f"Expected a file for the ledger, {self.file} is a folder.", path=str(self.file))
        kind = filesystem(folder)
        if kind is not None and _NETWORK.fullmatch(kind):
            raise LedgerPlaceError(
                f"{self.file} lies on a network disk ({kind}), where locks and syncs cannot be relied on. Put the "
                "ledger on a local disk, and let other machines ask a service on this one.",
                path=str(self.file),
                filesystem=kind,
            )

    def create(self) -> None:
        """Make the file if it is not there; never open one that is, since closing it would drop SQLite's locks."""
        # In this order: a key is made after its ledger.
        if self.key.exists() and not self.file.exists():
            self._refuse_restart()
        with _writing(self.file.parent), suppress(FileExistsError):
            os.close(os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            _sync(self.file.parent)

    def check_untouched(self) -> None:
        """Refuse to begin where a ledger was before."""
        if self.key.exists() or any(self.releases.glob("*.parquet")):
            self._refuse_restart()

    def make_key(self) -> _Keys:
        """Write a new key under a name that says that its ledger is not complete yet."""
        with _writing(self.file.parent):
            # Left by a creation that died before its commit: only one process gets here at a time.
            self.new_key.unlink(missing_ok=True)
            key = secrets.token_bytes(KEY_BYTES)
            write_key_file(self.new_key, key)
        return _Keys(key)

    def adopt_key(self) -> None:
        """Give the key of a complete ledger its final name; another process may have been faster."""
        with _writing(self.file.parent):
            with suppress(FileNotFoundError):
                self.new_key.rename(self.key)
            _sync(self.file.parent)

    def read_key(self) -> _Keys:
        if not self.key.exists():
            self.adopt_key()
        try:
            return _Keys(read_key_file(self.key))
        except FileNotFoundError:
            raise KeyMaterialError(
                f"The key of ledger {self.file} is missing: restore {self.key}, or pass key=.", path=str(self.key)
            ) from None
        except OSError as error:
            raise KeyMaterialError(f"{self.key} cannot be read: {error.strerror}.", path=str(self.key)) from None

    def _refuse_restart(self) -> NoReturn:
        raise LedgerCorruptError(
            f"Ledger {self.file} is missing or empty, but its key or its releases are there. Restore it from a "
            "backup: a new one would forget what was spent. To start over with other data, choose another path."
        )


def _mounted_as(path: Path, table: str) -> str | None:
    """Find the mount with the longest path above ``path``; of two at one place, the later one covers the other."""
    best, kind = -1, None
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4]))
        if len(point.parts) >= best and path.is_relative_to(point):
            best, kind = len(point.parts), after.split(" ")[0]
    return kind


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def _versions(connection: sqlite3.Connection) -> tuple[int, int]:
    application: int = connection.execute("PRAGMA application_id").fetchone()[0]
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    return application, version


def _is_empty(connection: sqlite3.Connection) -> bool:
    objects = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    return objects == 0 and _versions(connection) == (0, 0)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except FileExistsError:
        return
    except OSError as error:
        if error.errno in {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS}:
            raise LedgerPlaceError(f"The disk of {target.parent} has no hard links; use another one.") from error
        raise


def _remove_stale(folder: Path) -> None:
    old = time.time() - _DAY
    for path in folder.glob(".*.tmp"):
        # Its owner may be removing it at this moment.
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < old:
                path.unlink()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Say of a folder that cannot be written what it means for the ledger."""
    try:
        yield
    except OSError as error:
        if isinstance(error, PermissionError) or error.errno == errno.EROFS:
            raise LedgerReadOnlyError(f"The folder {folder} cannot be written: {error.strerror}.") from error
        raise


_BUSY: Final = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
_UNWRITABLE: Final = {sqlite3.SQLITE_PERM, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN}
_FAILED: Final = {sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_INTERRUPT}


def _code(error: sqlite3.Error) -> int | None:
    """Return the primary code; errors of the Python layer, such as text that is not UTF-8, have none."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


@contextmanager
def _explained(name: str, timeout: float) -> Iterator[None]:
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
                f"Another process has held {name} for {timeout:g} seconds. Nothing was charged; try again."
            ) from error
        if code in _UNWRITABLE:
            raise LedgerReadOnlyError(f"{name} or its folder cannot be written: {error}.") from error
        if code in _FAILED:
            raise LedgerError(f"{name} could not be read or written: {error}.") from error
        raise LedgerCorruptError(f"{name} is damaged, or is not a ledger: {error}.") from error


def _retried(action: Callable[[], str], timeout: float) -> str:
    """Repeat what SQLite refuses at once, without its own waiting, while another process opens the file."""
    deadline = time.monotonic() + timeout
    while True:
        try:
            return action()
        except sqlite3.OperationalError as error:
            if _code(error) not in _BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)


# ---- forks -------------------------------------------------------------------------------------------------

_LEDGERS: Final[weakref.WeakSet[Ledger]] = weakref.WeakSet()
_FORKING: Final = threading.Lock()
_PAUSED: Final[list[Ledger]] = []


def _pause_all() -> None:
    _FORKING.acquire()
    _PAUSED.extend(ledger for ledger in list(_LEDGERS) if ledger._before_fork())


def _resume_all() -> None:
    while _PAUSED:
        _PAUSED.pop()._after_fork()
    _FORKING.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_pause_all, after_in_parent=_resume_all, after_in_child=_resume_all)
