"""The ledger: what every row of a data set has spent, written down before anything is released.

A data set is registered once, with a budget that never changes, and its parts with the rows they hold.  A request
names rows of one part and a charge; it is granted if and only if every row it names stays within the budget.  A
charge is on the disk when :meth:`Ledger.charge` returns; a repeated request is recognised by its public fields and
charged once.

This module decides.  What it stands on::

    budget          what a label may cost in total, and what a charge costs under each kind of budget
    spending        sums row by row, and why adding up is sound
    rows            tags and masks of rows, and the most that any named row has spent
    chain, replay   the records, what their keyed hashes promise, and what they say
    keys            the subkeys of a ledger
    store, schema   the database: turns, forks, tables that only grow
    place           the files on the disk: database, key, releases
"""

from __future__ import annotations

import hmac
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, final

import numpy as np

from labeldp.errors import (
    AccountMismatchError,
    BoundaryError,
    BudgetExhaustedError,
    DuplicateIdError,
    EmptyInputError,
    IdError,
    InputError,
    LedgerCorruptError,
    LedgerError,
    ShapeError,
)
from labeldp.guarantee.budget import (
    Budget,
    charge_of,
    check_charge,
    cost_of,
    parts_of,
    read_spelled,
    shown,
    spelled,
)
from labeldp.guarantee.chain import Chain
from labeldp.guarantee.place import Place, filesystem_of
from labeldp.guarantee.replay import Part, Record, Replay
from labeldp.guarantee.rows import Mask, count_shared, pack_tags, sorted_tags, unpack_tags
from labeldp.guarantee.spending import left_of
from labeldp.guarantee.store import Store, atomic
from labeldp.guarantee.value import Charge

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.exact import Number

__all__ = ["Budget", "Entry", "Ledger", "Request", "Verification", "filesystem_of"]


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
        self._place = None if path is None else Place(Path(path), filesystem)
        self._store = Store(self._place, key, float(timeout))
        self._replay = Replay()
        self._kept: dict[str, object] = {}
        # Looked at before the records are: whoever publishes meanwhile has charged before that.
        there = set() if self._place is None else self._place.published_ids()
        try:
            with self._transaction(write=True):
                self._refuse_older_copy(there)
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

    def _refuse_copy(self, *_: object) -> NoReturn:
        raise BoundaryError("A ledger holds a secret key and is not copied or pickled; open it by its path.")

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __getstate__ = _refuse_copy

    def close(self) -> None:
        """Close the file; the next use opens it again.  A ledger in memory is kept."""
        self._store.close()

    @contextmanager
    def _transaction(self, *, write: bool = False) -> Iterator[Chain]:
        """One snapshot, or one atomic and durable change, judged by records that were checked."""
        with self._store.connected() as connection:
            chain = Chain(connection, self._store.keys, self._replay, self._store.name)
            with atomic(connection, write=write):
                chain.read_on()
                yield chain
            chain.settle()

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
        if isinstance(rows, bool) or not isinstance(rows, int | np.integer):
            raise InputError(f"Expected a whole number of rows, got {rows!r}.", value=rows)
        rows = int(rows)
        if rows < 1:
            raise EmptyInputError(f"Expected at least one row in part {part!r} of {dataset!r}, got {rows}.", rows=rows)
        with self._transaction():
            account, known = self._registered(dataset, part, wanted, rows, ids_digest)
        if known:
            return account
        tags = None if id_tags is None else sorted_tags(id_tags, rows)
        blobs = [] if tags is None else pack_tags(tags)
        with self._transaction(write=True) as chain:
            account, known = self._registered(dataset, part, wanted, rows, ids_digest)
            if known:
                return account
            self._check_disjoint(chain, dataset, part, tags)
            if dataset not in self._replay.budgets:
                chain.append("account", [dataset], {"budget": spelled(account)})
            body = {"rows": rows, "ids": ids_digest.hex(), "tags": tags is not None}
            chain.append("part", [dataset, part], body, blobs)
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
                f"Data set {dataset!r} is registered with {shown(parts_of(budget))}, got {shown(parts_of(wanted))}. "
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

    def _check_disjoint(self, chain: Chain, dataset: str, part: str, tags: NDArray[np.uint64] | None) -> None:
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
                count_shared(tags, unpack_tags(chain.blob(known.sequence, chunk)))
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
        with self._transaction(write=True) as chain:
            self._part(dataset, part)
            known = self._replay.labels.get((dataset, version, part, column))
            if known is None:
                chain.append("labels", [dataset, version, part, column], {}, secret=label_tag)
                return True
            return hmac.compare_digest(chain.secret(known), label_tag)

    def _part(self, dataset: str, part: str) -> Part:
        known = self._replay.parts.get((dataset, part))
        if known is None:
            raise AccountMismatchError(
                f"Part {part!r} of data set {dataset!r} is not registered: register it first.",
                dataset=dataset,
                part=part,
            )
        return known

    # ---- charging ------------------------------------------------------------------------------------------

    def charge(self, request: Request) -> Entry:
        """Charge a request durably and return its entry, or raise and record nothing.

        A request that was granted before is returned as ``repeated`` and costs nothing.
        """
        _check_texts(dataset=request.dataset, version=request.version, part=request.part)
        _check_bytes(digest=request.digest)
        check_charge(request.charge)
        mask = Mask.of(request.rows)
        identity = (request.dataset, request.version, request.part, request.digest.hex())
        with self._transaction(write=True) as chain:
            part = self._part(request.dataset, request.part)
            if mask.length not in {None, part.rows}:
                raise ShapeError(
                    f"Expected one truth value for each of the {part.rows} rows, got {mask.length}.",
                    expected=part.rows,
                    got=mask.length,
                )
            known = self._replay.entries.get(identity)
            if known is not None:
                entry = _entry_of(known, repeated=True)
                if known.body["mask"] != mask.digest:
                    raise InputError(
                        "This request names other rows than the earlier one with the same digest; "
                        "a digest must cover the rows.",
                        release_id=entry.release_id,
                    )
                return entry
            self._check_budget(chain, request, part, mask)
            body = {
                "release": self._store.keys.release_id(identity),
                "charge": spelled(request.charge),
                "rows": part.rows if mask.packed is None else mask.named,
                "mask": mask.digest,
                "description": dict(request.description),
            }
            blobs = [] if mask.blob is None else [mask.blob]
            return _entry_of(chain.append("entry", identity, body, blobs))

    def _check_budget(self, chain: Chain, request: Request, part: Part, mask: Mask) -> None:
        budget = self._replay.budgets[request.dataset]
        asked = cost_of(request.charge, budget)
        left = left_of(budget, part.spending.most(parts_of(budget), mask.packed, chain.blob))
        if all(asked[name] <= left[name] for name in left):
            return
        asks, leaves = shown(asked), shown(left)
        if asks == leaves:
            asks, leaves = shown(asked, full=True), shown(left, full=True)
        raise BudgetExhaustedError(
            f"The request asks for {asks}, and {leaves} is left for the most spent of its rows, of "
            f"{shown(parts_of(budget))} for data set {request.dataset!r}. Nothing was charged; ask for less, or for "
            "rows that have spent less.",
            dataset=request.dataset,
            asked=request.charge,
            left=charge_of(left),
            budget=budget,
        )

    # ---- looking -------------------------------------------------------------------------------------------

    def spent(self, dataset: str) -> Charge:
        """Return what the most spent row of a data set has spent; of epsilon and delta, each by itself."""
        return charge_of(self._dataset_spending(dataset)[1])

    def left(self, dataset: str) -> Charge:
        """Return what every row of a data set can still spend."""
        budget, spent = self._dataset_spending(dataset)
        return charge_of(left_of(budget, spent))

    def _dataset_spending(self, dataset: str) -> tuple[Budget, dict[str, Fraction]]:
        with self._transaction() as chain:
            budget = self._replay.budgets.get(dataset)
            if budget is None:
                raise AccountMismatchError(f"Data set {dataset!r} is not registered.", dataset=dataset)
            names = parts_of(budget)
            sums = [
                part.spending.most(names, None, chain.blob)
                for (owner, _), part in self._replay.parts.items()
                if owner == dataset
            ]
        return budget, {name: max(part[name] for part in sums) for name in names}

    def entries(self, dataset: str | None = None) -> list[Entry]:
        """Return all entries, or those of one data set, in order."""
        with self._transaction():
            known = [record for subject, record in self._replay.entries.items() if dataset in {None, subject[0]}]
        return [_entry_of(record) for record in known]

    def contains_head(self, head: str) -> bool:
        """Tell whether a head, such as one kept in a release, is part of this chain."""
        with self._transaction():
            return head.lower() in self._replay.heads

    def verify(self) -> Verification:
        """Check every byte of the ledger; raise :class:`LedgerCorruptError`, naming the first bad record."""
        with self._transaction() as chain:
            replay = chain.verified()
        return Verification(ok=True, records=replay.count, head=replay.head.hex())

    def subkey(self, purpose: str) -> bytes:
        """Return a secret key of the owner's for one purpose, such as digests of labels or ids."""
        return self._store.keys.subkey(purpose)

    # ---- releases ------------------------------------------------------------------------------------------

    def release_path(self, entry: Entry) -> Path | None:
        """Return where the release of an entry is published, or None in memory."""
        return None if self._place is None else self._place.release_path(entry.release_id)

    def published(self, entry: Entry) -> Path | None:
        """Return the file of an entry's release if it was published, checked against what was recorded then.

        A file that nobody recorded is refused; None also where a recorded one is gone (see :meth:`publish`).
        """
        place = self._required_place()
        self._check_entry(entry)
        recorded = self._recorded(entry)
        if recorded is not None:
            return place.published(entry.release_id, recorded)
        self._refuse_unrecorded(place, entry)
        return None

    def publish(self, entry: Entry, write: Callable[[Path], object]) -> Path:
        """Publish the release of an entry durably, once: the first writer wins, and its file is the release.

        ``write`` writes a temporary file, which appears under its name complete or not at all.  That it was published
        is recorded before anybody can have seen it, its digest beside the chain.  If its file is gone later, only the
        very same file takes its place: another draw would be a second release that nobody paid for.
        """
        place = self._required_place()
        self._check_entry(entry)
        if self._recorded(entry) is None:
            self._refuse_unrecorded(place, entry)
        digest = place.draft(entry.release_id, write, self._replay.published)
        with self._transaction(write=True) as chain:
            known = self._replay.published.get(entry.release_id)
            if known is None:
                chain.append("published", [entry.release_id], {}, secret=digest)
            recorded = digest if known is None else chain.secret(known)
        found = place.published(entry.release_id, recorded)
        if not hmac.compare_digest(recorded, digest):
            place.drop(entry.release_id, digest)
        if found is None:
            raise LedgerError(
                f"The release {entry.release_id} was published before, and its file is gone: drawing it again would be "
                f"a second release of the same labels, which nobody paid for. Restore {place.release_path(entry.release_id)} "
                "from a backup, or ask the one who got it for a copy. (With the same kept key, the same labels and the "
                "same version of labeldp it can be made again.)",
                release_id=entry.release_id,
            )
        return found

    def _recorded(self, entry: Entry) -> bytes | None:
        with self._transaction() as chain:
            known = self._replay.published.get(entry.release_id)
            return None if known is None else chain.secret(known)

    def _refuse_unrecorded(self, place: Place, entry: Entry) -> None:
        path = place.release_path(entry.release_id)
        # A race is won by whoever records first, so look for the record once more after the file.
        if path.exists() and self._recorded(entry) is None:
            raise LedgerCorruptError(
                f"{path} lies beside the ledger, but was not published by it. Take it away, or restore the newer copy "
                "of the ledger that it belongs to.",
                path=str(path),
            )

    def _refuse_older_copy(self, there: set[str]) -> None:
        """Refuse a ledger that does not know the releases that lie beside it: it is older than they are."""
        unknown = there - self._replay.release_ids
        if unknown:
            raise LedgerCorruptError(
                f"Beside {self._store.name} lie {len(unknown)} releases that it does not know: it is an older copy, "
                "which has forgotten what was spent. Restore the newest one, or, for other data, choose another path.",
                releases=sorted(unknown),
            )

    def _required_place(self) -> Place:
        if self._place is None:
            raise LedgerError("A ledger in memory has no files; use keep() and kept().")
        return self._place

    def keep(self, entry: Entry, release: object) -> object:
        """Keep the release of an entry in memory, once: the first one kept is the release, and is returned."""
        if self._place is not None:
            raise LedgerError("A ledger in a file publishes releases as files; use publish().")
        self._check_entry(entry)
        with self._store.turn():
            return self._kept.setdefault(entry.release_id, release)

    def kept(self, entry: Entry) -> object | None:
        """Return what was kept for an entry, or None."""
        self._check_entry(entry)
        with self._store.turn():
            return self._kept.get(entry.release_id)

    def _check_entry(self, entry: Entry) -> None:
        identity = (entry.dataset, entry.version, entry.part, entry.digest.hex())
        with self._transaction():
            known = self._replay.entries.get(identity)
        if known is None or _entry_of(known) != entry:
            raise LedgerError("This entry is not in this ledger; nothing is released without a charge.", entry=entry)


def _entry_of(record: Record, *, repeated: bool = False) -> Entry:
    """Make the entry anew: its description is the caller's to change."""
    dataset, version, part, digest = record.subject
    body = record.body
    return Entry(
        sequence=record.sequence,
        release_id=body["release"],
        head=record.head,
        dataset=dataset,
        version=version,
        part=part,
        digest=bytes.fromhex(digest),
        charge=Charge(**read_spelled(body["charge"])),
        rows=body["rows"],
        description=body["description"],
        repeated=repeated,
    )


def _check_texts(**texts: object) -> None:
    for name, value in texts.items():
        if not isinstance(value, str):
            raise InputError(f"Expected {name} to be a text, got {type(value).__name__}.", value=value)


def _check_bytes(**values: object) -> None:
    for name, value in values.items():
        if not isinstance(value, bytes) or not value:
            raise InputError(f"Expected {name} to be bytes, and not empty.")
