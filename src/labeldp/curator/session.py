"""The curator: the one door from raw labels to releases."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

import numpy as np

from labeldp.coins import Coins, SystemCoins
from labeldp.curator.batch import canonical, context_of
from labeldp.errors import (
    BudgetError,
    EmptyInputError,
    IdError,
    InputError,
    LabelsChangedError,
    LedgerError,
    LedgerLockedError,
    LedgerReadOnlyError,
    NotPrivateError,
    RawLabelsError,
    ShapeError,
    SpaceMismatchError,
)
from labeldp.guarantee.ledger import Budget, Entry, Ledger, Request
from labeldp.guarantee.value import Estimate, Guarantee
from labeldp.ids import RowIds, same_length
from labeldp.labels import LabelSpace, RawLabels, owner_codes
from labeldp.mechanisms import BagCounts
from labeldp.plan import CoinAccess, Mechanism, Plan, PublicData
from labeldp.prf import PUBLIC_KEY, RowDigest
from labeldp.release import BagRelease, LabelledRelease, Release, Stamp, read_release, seal
from labeldp.release.base import library_version
from labeldp.release.columns import PARAMETER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from labeldp.labels import Codes

_SEEDED: Final = "NOT PRIVATE: seeded coins; whoever knows the seed can undo the release"


def privatize(
    labels: object,
    mechanism: Mechanism,
    *,
    ids: object = None,
    coins: Coins | None = None,
    features: object = None,
    bags: object = None,
) -> Release:
    """Release labels once, through one mechanism, with fresh secret coins.

    The labels are checked against the mechanism's label space.  With ``ids`` and a kept key the release can be
    made again, bit for bit.  For several releases of the same labels use a :class:`Curator`, which adds them up.

    >>> space = LabelSpace(["no", "yes"])
    >>> from labeldp.channels import RandomizedResponse
    >>> release = privatize(["no", "yes", "yes"], RandomizedResponse(space, epsilon=1.0))
    >>> len(release), release.guarantee.epsilon()
    (3, 1.0)
    """
    raw = _raw(labels, _space_of(mechanism))
    return Curator(raw, coins=coins, ids=ids, features=features, bags=bags).release(mechanism)


@final
class Curator:
    """Holds raw labels, a budget and coins: the one door to releases of these labels.

    ``labels`` are :class:`RawLabels`, or values with ``space``.  With a ``budget`` or a ``ledger`` every release
    is charged before it is drawn, a repeated request returns the stored release, and a request beyond the budget
    is refused; without either, every row is released once.  ``person`` names the owner of each label when somebody may
    own several: a release then shows, beside the guarantee for one label, that for all labels of one person in this
    table and column.  ``column`` tells label columns of one table
    apart; they share the table's budget.

    >>> space = LabelSpace(["no", "yes"])
    >>> curator = Curator(RawLabels(["no", "yes", "yes"], space), budget=1.0)
    >>> from labeldp.channels import RandomizedResponse
    >>> curator.release(RandomizedResponse(space, epsilon=0.75)).guarantee.epsilon()
    0.75
    >>> round(float(curator.left.epsilon), 9)
    0.25
    """

    def __init__(  # public facts about the labels, by keyword
        self,
        labels: object,
        budget: Budget | float | tuple[float, ...] | None = None,
        coins: Coins | None = None,
        ledger: Ledger | None = None,
        *,
        space: LabelSpace | None = None,
        ids: object = None,
        features: object = None,
        bags: object = None,
        person: object = None,
        dataset: str = "",
        version: str = "",
        part: str = "",
        column: str = "label",
        id_column: str = "id",
    ) -> None:
        self.__labels = _raw(labels, space)
        rows = len(self.__labels)
        self._coins = SystemCoins() if coins is None else _checked_coins(coins)
        self._ids = RowIds.positions(rows) if ids is None else RowIds.of(ids)
        same_length(self._ids, rows)
        self._ids.check_unique()
        self._features, self._bags = _as_long(features, rows, "features"), _as_long(bags, rows, "bags")
        self._persons = None if person is None else _person_numbers(person, rows)
        self._names = _checked_names(id_column, dataset=dataset, version=version, part=part, column=column)
        self._id_column = id_column
        self._ledger = Ledger() if ledger is None and budget is not None else _checked_ledger(ledger)
        if self._coins.needs_ids and self._ids.kind == "position":
            raise IdError("A kept key requires row ids, so that its bits belong to rows. Pass ids=.")
        self._order: NDArray[np.intp] | None = None
        self._drawn_rows: NDArray[np.bool_] | None = None
        if self._ledger is not None:
            self._register(self._ledger, budget)

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""
        return self.__labels.space

    @property
    def left(self) -> Any:  # a Charge
        """What is left of the budget for the row that has spent most."""
        return self._required_ledger().left(self._names["dataset"])

    @property
    def spent(self) -> Any:  # a Charge
        """What the row that has spent most has spent."""
        return self._required_ledger().spent(self._names["dataset"])

    def __len__(self) -> int:
        return len(self.__labels)

    def __repr__(self) -> str:
        kept = "no ledger" if self._ledger is None else repr(self._ledger)
        return f"Curator({len(self)} labels, {self._coins!r}, {kept})"

    def _refuse(self, *_args: object) -> NoReturn:
        raise RawLabelsError("A curator holds raw labels and keys: it is not copied or pickled.")

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __getstate__ = _refuse

    def count(self, bags: object, epsilon: object, delta: object = 0) -> BagRelease:
        """Release the noisy label counts of bags: ``BagCounts``, for bags that are named only now."""
        released = self._release(BagCounts(self.space, epsilon, delta), None, _as_long(bags, len(self), "bags"))
        assert isinstance(released, BagRelease)  # noqa: S101  # what BagCounts makes
        return released

    def release(self, mechanism: Mechanism, *, rows: object = None) -> Release:
        """Plan on public data, charge, draw, store, and return the release.

        ``rows`` restricts it to some rows (positions or a mask); they must be chosen without the labels.
        """
        return self._release(mechanism, rows, self._bags)

    def _release(self, mechanism: Mechanism, rows: object, bags: object) -> Release:
        places = self._places(rows)
        public = PublicData(
            self.space,
            self._ids if places is None else self._ids.take(places),
            _part(self._features, places),
            _part(bags, places),
        )
        plan = _planned(mechanism, public)
        request = self._request_digest(public, plan, places)
        if self._ledger is None:
            self._refuse_second_draw(places)
            return self._drawn(plan, public, places, self._stamp(plan, request, None))
        if not self._coins.private:
            raise NotPrivateError(
                "Expected secret coins where a budget is kept; seeded coins make releases that anybody can undo. "
                "Use SystemCoins or KeyedCoins, or privatize(..., coins=SeededCoins(seed)) for research."
            )
        _check_folder(self._ledger)
        entry = self._ledger.charge(
            Request(
                self._names["dataset"],
                self._names["version"],
                self._names["part"],
                request,
                {"mechanism": _summary(plan.description), "column": self._names["column"], "rows": public.rows},
                plan.guarantee.charge(),
                self._mask(places),
            )
        )
        with _charged(entry):
            # Only now, when the charge is the same for all labels, may the owner hear that they changed.
            self._same_labels(self._ledger)
            stored = self._stored(self._ledger, entry)
            if stored is None:
                stamp = self._stamp(plan, request, entry)
                stored = self._store(self._ledger, entry, self._drawn(plan, public, places, stamp))
        return _aligned(stored, public.ids)

    # ---- drawing ----------------------------------------------------------------------------------------

    def _drawn(self, plan: Plan, public: PublicData, places: NDArray[np.intp] | None, stamp: Stamp) -> Release:
        codes: Codes = owner_codes(self.__labels)
        codes = codes if places is None else codes[places]
        session = self._coins.session()
        context = context_of(
            self._names["dataset"],
            self._names["version"],
            {"mechanism": plan.description, "column": self._names["column"]},
            self.space,
            plan.parameters,
            session.label_digest().add(public.ids, codes).close() if session.binds_labels else b"",
        )
        return seal(plan.draw(codes, CoinAccess(session, public.ids, context)), stamp, public.ids)

    def _stamp(self, plan: Plan, request: bytes, entry: Entry | None) -> Stamp:
        promise: Guarantee | Estimate = plan.guarantee
        if not self._coins.private:
            promise = Estimate.of(plan.guarantee, _SEEDED)
        return Stamp(
            guarantee=promise,
            coins=self._coins.kind,
            request=request.hex(),
            id_column=self._id_column,
            ledger_head=None if entry is None else entry.head,
            release_id=None if entry is None else entry.release_id,
            # Over the whole table: other rows of a person may go out with other requests.
            labels_per_person=None if self._persons is None else int(np.bincount(self._persons).max()),
            library=library_version(),
            **self._names,
        )

    def _refuse_second_draw(self, places: NDArray[np.intp] | None) -> None:
        """Without an account nothing adds up, so every row is released once; seeded coins promise nothing anyway."""
        if not self._coins.private:
            return
        drawn = np.zeros(len(self), bool) if self._drawn_rows is None else self._drawn_rows
        now = slice(None) if places is None else places
        if bool(drawn[now].any()):
            raise BudgetError(
                "Expected a curator with a budget or a ledger for a second release of the same rows: without one nothing "
                "adds up what they cost, and repeated noisy labels average out. Pass budget= or ledger= to Curator."
            )
        drawn[now] = True
        self._drawn_rows = drawn

    # ---- the ledger's side ------------------------------------------------------------------------------

    def _register(self, ledger: Ledger, budget: Budget | float | tuple[float, ...] | None) -> None:
        named = self._ids.kind != "position"
        tags = self._ids.tags(ledger.subkey("row tags"))[:, 0] if named else None
        # Rows are counted in the order of their tags, so that a shuffled table is the same table.
        self._order = None if tags is None else np.argsort(tags)
        ledger.register(
            self._names["dataset"],
            self._names["part"],
            budget=budget,
            rows=len(self),
            ids_digest=self._ids.public_digest(),
            id_tags=tags,
        )

    def _same_labels(self, ledger: Ledger) -> None:
        key = ledger.subkey("label tags")
        tag = RowDigest(key).add(self._ids, owner_codes(self.__labels)).close()
        names = self._names
        if not ledger.note_labels(names["dataset"], names["version"], names["part"], names["column"], tag):
            raise LabelsChangedError(
                f"Other labels were released as data set {names['dataset']!r}, version {names['version']!r}. "
                "For your eyes only: nothing was released now. Give edited labels a new version."
            )

    def _stored(self, ledger: Ledger, entry: Entry) -> Release | None:
        if ledger.path is None:
            kept = ledger.kept(entry)
            return kept if isinstance(kept, Release) else None
        path = ledger.published(entry)
        return None if path is None else read_release(path)

    def _store(self, ledger: Ledger, entry: Entry, release: Release) -> Release:
        if ledger.release_path(entry) is None:
            kept = ledger.keep(entry, release)
            return kept if isinstance(kept, Release) else release
        published: Path = ledger.publish(entry, release.write)
        # Another process may have been first: what is on the disk is the release.
        return read_release(published)

    def _mask(self, places: NDArray[np.intp] | None) -> NDArray[np.bool_] | None:
        if places is None:
            return None
        chosen = np.zeros(len(self), bool)
        chosen[places] = True
        return chosen if self._order is None else chosen[self._order]

    def _request_digest(self, public: PublicData, plan: Plan, places: NDArray[np.intp] | None) -> bytes:
        facts = {
            "mechanism": plan.description,
            "column": self._names["column"],
            "dataset": self._names["dataset"],
            "version": self._names["version"],
            "part": self._names["part"],
            "space": self.space.to_json(),
            "parameters": plan.parameters.hex(),
            "ids": public.ids.public_digest().hex(),
        }
        if places is not None and public.ids.kind == "position":
            # Without ids, nothing could put a stored release into another order.
            facts["places"] = hashlib.sha256(places.astype("<i8").tobytes()).hexdigest()
        return hashlib.sha256(canonical(facts)).digest()

    def _places(self, rows: object) -> NDArray[np.intp] | None:
        if rows is None:
            return None
        try:
            array = np.asarray(rows)
        except ValueError:
            raise ShapeError("Expected rows as positions or a mask, got lists of different lengths.") from None
        if array.size == 0:
            raise EmptyInputError("Expected at least one row, got none.")
        if array.dtype == bool:
            if array.shape != (len(self),):
                raise ShapeError(f"Expected a mask of {len(self)} rows, got shape {array.shape}.")
            array = np.flatnonzero(array)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise ShapeError(f"Expected rows as positions or a mask, got shape {array.shape} and type {array.dtype}.")
        if (
            int(array.min(initial=0)) < 0
            or int(array.max(initial=0)) >= len(self)
            or len(np.unique(array)) != len(array)
        ):
            raise ShapeError(f"Expected different positions 0 .. {len(self) - 1}.")
        return array.astype(np.intp)

    def _required_ledger(self) -> Ledger:
        if self._ledger is None:
            raise InputError("Expected a curator with a budget or a ledger; this one keeps no account.")
        return self._ledger


def _raw(labels: object, space: LabelSpace | None) -> RawLabels:
    if isinstance(labels, RawLabels):
        if space is not None and space != labels.space:
            raise SpaceMismatchError(f"Expected labels of {space}, got labels of {labels.space}.")
        return labels
    if isinstance(labels, Release):
        raise RawLabelsError("Expected raw labels; this is a release already, and releasing it again adds nothing.")
    if space is None:
        raise InputError("Expected RawLabels(values, space), or values together with space=.")
    return RawLabels(labels, space)


def _space_of(mechanism: object) -> LabelSpace:
    space = getattr(mechanism, "space", None)
    if not isinstance(space, LabelSpace):
        raise InputError(f"Expected a channel or another mechanism, got {type(mechanism).__name__}.")
    return space


def _planned(mechanism: object, public: PublicData) -> Plan:
    if not isinstance(mechanism, Mechanism) or isinstance(mechanism, type):
        raise InputError(f"Expected a channel or another mechanism, got {type(mechanism).__name__}.")
    if mechanism.space != public.space:
        raise SpaceMismatchError(
            f"Expected a mechanism for labels of {public.space}, got one for {mechanism.space}.",
            expected=public.space,
        )
    plan = mechanism.plan(public)
    if not isinstance(plan.guarantee, Guarantee):
        raise NotPrivateError("Expected a mechanism with a guarantee; an estimate certifies nothing.")
    return plan


def _checked_coins(coins: object) -> Coins:
    if not isinstance(coins, Coins):
        raise InputError(f"Expected coins such as SystemCoins(), got {type(coins).__name__}.")
    return coins


def _checked_ledger(ledger: object) -> Ledger | None:
    if ledger is not None and not isinstance(ledger, Ledger):
        raise InputError(f"Expected a ledger, such as Ledger('labels.ledger'), got {type(ledger).__name__}.")
    return ledger


def _checked_names(id_column: object, **names: object) -> dict[str, str]:
    """Refuse names that could not be written down, or would take the place of another column of a release."""
    for name, value in {**names, "id_column": id_column}.items():
        if not isinstance(value, str):
            raise InputError(f"Expected {name} to be a text, got {type(value).__name__}.", value=value)
        if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
            raise InputError(f"Expected {name} to be a text that UTF-8 can write, got {value!a}.", value=value)
    column = str(names["column"])
    if column == id_column or column.startswith(PARAMETER) or str(id_column).startswith(PARAMETER):
        raise InputError(
            f"Expected different columns for labels and ids, neither of which begins with {PARAMETER!r}, got "
            f"{column!r} and {id_column!r}.",
            column=column,
        )
    return {name: str(value) for name, value in names.items()}


def _check_folder(ledger: Ledger) -> None:
    """Find out before the charge, not after it, that a release could not be stored."""
    if ledger.path is None:
        return
    folder = ledger.path.with_name(f"{ledger.path.name}.releases")
    try:
        if folder.exists():
            handle, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=folder)
            os.close(handle)
            Path(name).unlink()
    except OSError as problem:
        raise LedgerReadOnlyError(
            f"Releases cannot be stored in {folder}: {problem.strerror}. Nothing was charged.", path=str(folder)
        ) from problem


@contextmanager
def _charged(entry: Entry) -> Iterator[None]:
    """Say of what fails after the charge that it was made, and that asking again is free."""
    try:
        yield
    except (LedgerLockedError, LedgerReadOnlyError, OSError) as problem:
        kind = type(problem) if isinstance(problem, LedgerError) else LedgerError
        reason = problem.strerror if isinstance(problem, OSError) else type(problem).__name__
        raise kind(
            f"The request is charged, as {entry.release_id}, but its release could not be stored: {reason}. Nothing "
            "was released. When that is mended, ask again: it costs nothing more.",
            entry=entry,
        ) from problem


def _as_long(values: Any, rows: int, what: str) -> Any:  # arrays and frames pass through
    if values is None:
        return None
    if isinstance(values, RawLabels):
        raise RawLabelsError(f"Expected public {what}, got raw labels.")
    shape = getattr(values, "shape", None)  # a sparse matrix has no length
    found = shape[0] if shape else len(values) if hasattr(values, "__len__") else None
    if found != rows:
        got = type(values).__name__ if found is None else str(found)
        raise ShapeError(f"Expected {what} of {rows} rows, one a label, got {got}.")
    return values


def _part(values: Any, places: NDArray[np.intp] | None) -> Any:  # arrays and frames
    if values is None or places is None:
        return values
    return values.iloc[places] if hasattr(values, "iloc") else np.asarray(values)[places]


def _person_numbers(person: object, rows: int) -> NDArray[np.intp]:
    owners = RowIds.of(person)
    same_length(owners, rows)
    tags = owners.tags(PUBLIC_KEY)
    return np.unique(tags, axis=0, return_inverse=True)[1].ravel()


def _aligned(release: Release, ids: RowIds) -> Release:
    """Return a stored release in the order of ``ids``: the same rows may come shuffled."""
    if not isinstance(release, LabelledRelease) or release.ids is None:
        return release
    theirs, ours = release.ids.tags(PUBLIC_KEY), ids.tags(PUBLIC_KEY)
    if np.array_equal(theirs, ours):
        return release
    from_order = np.lexsort((theirs[:, 1], theirs[:, 0]))
    to_order = np.lexsort((ours[:, 1], ours[:, 0]))
    places = np.empty(len(ids), np.intp)
    places[to_order] = from_order
    result: Release = release[places]
    return result


def _summary(description: dict[str, Any]) -> dict[str, Any]:
    """Shorten a mechanism's description for the ledger: its family and a digest of the rest."""
    return {"family": description.get("family", ""), "digest": hashlib.sha256(canonical(description)).hexdigest()}
