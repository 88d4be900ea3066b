"""What is wrong is refused at the door: with a typed, helpful error, nothing released and nothing charged."""

from __future__ import annotations

import copy
import errno
import math
import os
import pickle
import re
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse
from sklearn.linear_model import LogisticRegression

import labeldp as ldp
from labeldp import errors
from labeldp.guarantee.ledger import Request
from labeldp.guarantee.value import ApproximateLoss, Charge, PureLoss
from labeldp.plan import Plan, PublicData
from tests.curator.owner import COLUMNS, GROUPS, HALF, IDS, LAWS, PRIORS, ROWS, SPACE, TABLE, makers

LABELS = COLUMNS["inner row"]
BUDGET = 2
OTHER = ldp.LabelSpace(["x", "y", "z"])
GOOD = ldp.RandomizedResponse(SPACE, HALF)
UNKNOWN = "zebra"


@dataclass
class Owner:
    """A ledger in a file, a curator who has released once, and what an attempt must leave as it is."""

    folder: Path
    ledger: ldp.Ledger
    curator: ldp.Curator

    def state(self) -> tuple[Any, ...]:
        """All that a charge or a release would change."""
        releases = self.folder / "ledger.db.releases"
        return (
            self.ledger.entries(),
            self.curator.spent,
            self.ledger.verify(),
            {path.name: path.read_bytes() for path in releases.iterdir()},
            sorted(path.name for path in self.folder.iterdir() if not path.name.endswith(("-wal", "-shm"))),
        )

    def another(self, labels: Any = LABELS, budget: Any = None, **facts: Any) -> ldp.Curator:
        """Another curator of the same data, with some facts changed."""
        named = {"space": SPACE, "ids": IDS, "dataset": "d", "ledger": self.ledger, **facts}
        return ldp.Curator(labels, budget, **named)


@contextmanager
def owner_in(folder: Path, timeout: float = 30.0) -> Iterator[Owner]:
    """Open the books."""
    with ldp.Ledger(folder / "ledger.db", key=bytes(32), timeout=timeout) as ledger:
        curator = ldp.Curator(LABELS, BUDGET, ledger=ledger, space=SPACE, ids=IDS, bags=GROUPS, dataset="d")
        curator.release(GOOD)
        yield Owner(folder, ledger, curator)


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Owner]:
    """An owner who has released once."""
    with owner_in(tmp_path) as made:
        yield made


Case = tuple[type[Exception], str, Callable[[Owner], object]]


class Foreign:
    """A mechanism of somebody else, with a plan of one's choice."""

    space = SPACE

    def __init__(self, **changes: Any) -> None:
        self._changes = changes

    def plan(self, public: PublicData) -> Plan:
        """Change the plan of ours."""
        return replace(GOOD.plan(public), description={"family": "foreign"}, **self._changes)


# ---- parameters ----------------------------------------------------------------------------------------------


NO_EPSILON = [
    0,
    -1,
    -0.0,
    math.nan,
    math.inf,
    -math.inf,
    "one",
    True,
    1j,
    [1],
    Decimal("NaN"),
    np.float64("nan"),
    10**9,
]


@pytest.mark.parametrize("epsilon", NO_EPSILON, ids=repr)
@pytest.mark.parametrize("name", sorted(makers()))
def test_no_mechanism_takes_a_bad_epsilon(name: str, epsilon: Any, owner: Owner) -> None:
    """Zero, negative, infinite, not a number or no number at all: no mechanism is made, so none is released."""
    kinds = {
        "RandomizedResponse": lambda: ldp.RandomizedResponse(SPACE, epsilon),
        "TopKRandomizedResponse": lambda: ldp.TopKRandomizedResponse(SPACE, epsilon, ["a"]),
        "PriorRandomizedResponse": lambda: ldp.PriorRandomizedResponse(SPACE, epsilon, PRIORS),
        "ResampledResponse": lambda: ldp.ResampledResponse(SPACE, LAWS, epsilon, groups=GROUPS),
        "TableChannel": lambda: ldp.TableChannel(SPACE, TABLE, epsilon),
        "ClusterPriorResponse": lambda: ldp.ClusterPriorResponse(SPACE, epsilon, GROUPS),
    }
    make = makers()[name][0]
    kind = type(make())
    before = owner.state()

    with pytest.raises(errors.EpsilonError, match="Expected") as caught:
        owner.curator.release(kinds.get(name, lambda: kind(SPACE, epsilon))())

    assert before == owner.state()
    assert len(str(caught.value)) > 25


def budgets() -> Iterator[Any]:
    """Budgets that are none."""
    yield from (bad for bad in NO_EPSILON if bad not in (10**9, [1]))
    yield from [(), (1, 1), (1, -0.1), (1, math.nan), (0, 0.1), (1, 2, 3), (1, "x"), [1], {}]


@pytest.mark.parametrize("budget", list(budgets()), ids=repr)
def test_no_account_is_opened_with_a_bad_budget(budget: Any, owner: Owner) -> None:
    """A budget is a finite number above zero, or a pair with a delta below one; at both doors."""
    before = owner.state()

    for attempt in (
        lambda: owner.another(budget=budget, dataset="new"),
        lambda: ldp.Curator(LABELS, budget, space=SPACE),
        lambda: owner.ledger.register("new", budget=budget, rows=3, ids_digest=b"x", id_tags=None),
    ):
        with pytest.raises(errors.EpsilonError, match="Expected"):
            attempt()

    assert before == owner.state()


@pytest.mark.parametrize(
    "charge",
    [
        Charge(Fraction(-1), Fraction(0), None),
        Charge(0.5, Fraction(0), None),  # type: ignore[arg-type]
        Charge(math.nan, Fraction(0), None),  # type: ignore[arg-type]
        Charge(Fraction(1), Fraction(-1, 2), None),
        Charge(Fraction(1), Fraction(1), None),
        Charge(True, Fraction(0), None),
    ],
    ids=repr,
)
def test_no_ledger_takes_a_bad_charge(charge: Charge, owner: Owner) -> None:
    """A charge is exact and not negative: a negative one would give budget back."""
    before = owner.state()

    with pytest.raises(errors.EpsilonError, match="charge"):
        owner.ledger.charge(Request("d", "", "", b"x", {}, charge))

    assert before == owner.state()


# ---- the matrix ----------------------------------------------------------------------------------------------


def parameters() -> dict[str, Case]:
    """Parameters by row and parameters that are public, but do not fit."""
    ids, some = "Expected", {"rows": [0, 1]}
    return {
        "a prior of fewer rows": (
            errors.ShapeError,
            "Expected 23 rows",
            lambda o: o.curator.release(ldp.PriorRandomizedResponse(SPACE, 1, PRIORS[1:])),
        ),
        "a prior of more rows": (
            errors.ShapeError,
            "Expected 25 rows",
            lambda o: o.curator.release(ldp.PriorRandomizedResponse(SPACE, 1, PRIORS[[0, *range(ROWS)]])),
        ),
        "a prior for all rows, and some rows": (
            errors.ShapeError,
            "Expected 24 rows",
            lambda o: o.curator.release(ldp.PriorRandomizedResponse(SPACE, 1, PRIORS), **some),
        ),
        "a prior of other labels": (
            errors.PriorError,
            ids,
            lambda o: o.curator.release(ldp.PriorRandomizedResponse(SPACE, 1, PRIORS[:, :2])),
        ),
        "a prior that is none": (
            errors.PriorError,
            ids,
            lambda o: o.curator.release(ldp.PriorRandomizedResponse(SPACE, 1, -PRIORS)),
        ),
        "groups of another length": (
            errors.ShapeError,
            "Expected 23 rows",
            lambda o: o.curator.release(ldp.ResampledResponse(SPACE, LAWS, 1, groups=GROUPS[1:])),
        ),
        "groups of counts of another length": (
            errors.ShapeError,
            "24 rows",
            lambda o: o.curator.release(ldp.LabelHistogram(SPACE, 1, groups=GROUPS[1:])),
        ),
        "fractional groups": (
            errors.ShapeError,
            "integer",
            lambda o: o.curator.release(ldp.LabelHistogram(SPACE, 1, groups=GROUPS / 2)),
        ),
        "an identity": (
            errors.EpsilonError,
            "finite",
            lambda o: o.curator.release(ldp.TableChannel(SPACE, np.eye(3))),
        ),
        "a table that is none": (
            errors.MatrixError,
            "stochastic",
            lambda o: o.curator.release(ldp.TableChannel(SPACE, np.ones((3, 3)))),
        ),
        "no guarantee": (
            errors.NotPrivateError,
            "guarantee",
            lambda o: o.curator.release(Foreign(guarantee=ldp.Estimate(1.0, 0.0, "a guess"))),  # type: ignore[arg-type]
        ),
        "a pair for a pure account": (
            errors.AccountMismatchError,
            "pure",
            lambda o: o.curator.release(
                Foreign(guarantee=ldp.Guarantee(ApproximateLoss(Fraction(1), Fraction(1, 1000))))
            ),
        ),
        "no mechanism": (errors.InputError, "a channel", lambda o: o.curator.release("response")),  # type: ignore[arg-type]
        "a class": (errors.InputError, "a channel", lambda o: o.curator.release(ldp.RandomizedResponse)),  # type: ignore[arg-type]
        "nothing": (errors.InputError, "a channel", lambda o: o.curator.release(None)),  # type: ignore[arg-type]
        "a mechanism without a space": (errors.InputError, "a channel", lambda o: ldp.privatize(LABELS, "response")),  # type: ignore[arg-type]
    }


def rows_and_names() -> dict[str, Case]:
    """Rows that are none, and names that are none."""
    cases: dict[str, Case] = {}
    for name, rows, kind in [
        ("beyond the end", [ROWS], errors.ShapeError),
        ("before the start", [-1], errors.ShapeError),
        ("twice", [1, 1], errors.ShapeError),
        ("none", [], errors.EmptyInputError),
        ("no row of a mask", np.zeros(ROWS, bool), errors.EmptyInputError),
        ("a short mask", [True, False], errors.ShapeError),
        ("halves", [0.5], errors.ShapeError),
        ("words", ["row 1"], errors.ShapeError),
        ("a number", 3, errors.ShapeError),
        ("a table", [[1, 2]], errors.ShapeError),
        ("lists of different lengths", [[1], [1, 2]], errors.ShapeError),
        ("far away", np.array([2**63], np.uint64), errors.ShapeError),
    ]:
        cases[f"rows: {name}"] = kind, "Expected", lambda o, rows=rows: o.curator.release(GOOD, rows=rows)
    for name in ("dataset", "version", "part", "column", "id_column"):
        for value, words in ((5, "to be a text"), (None, "to be a text"), ("\ud800", "UTF-8")):
            cases[f"{name}: {value!a}"] = (
                errors.InputError,
                f"{name} .*{words}",
                lambda o, facts={name: value}: o.another(**facts),  # read only
            )
    for facts in ({"column": "id"}, {"id_column": "label"}, {"column": "channel_group"}, {"id_column": "channel_x"}):
        cases[f"names: {facts}"] = errors.InputError, "different columns", lambda o, facts=facts: o.another(**facts)
    return cases


def ids_and_company() -> dict[str, Case]:
    """Row ids, features, bags and persons that do not fit the labels."""
    cases: dict[str, Case] = {}
    twins = [uuid.UUID(int=1)] * 2 + [uuid.UUID(int=i) for i in range(2, ROWS)]
    for name, ids, kind, words in [
        ("a text twice", [*IDS[1:], IDS[3]], errors.DuplicateIdError, "'row 3' at least twice"),
        ("an integer twice", [5, 5, *range(10, 32)], errors.DuplicateIdError, "got 5 at least twice"),
        ("a UUID twice", twins, errors.DuplicateIdError, "at least twice"),
        ("missing", [*IDS[1:], None], errors.IdError, "missing"),
        ("missing numbers", pa.array([*range(23), None]), errors.IdError, "missing"),
        ("missing in pandas", pd.Series([*IDS[1:], None]), errors.IdError, "missing"),
        ("fractions", np.arange(ROWS) / 2, errors.IdError, "Floats"),
        ("not a number", pd.Series([*range(23), None]), errors.IdError, "missing"),
        ("truth values", [True] * ROWS, errors.IdError, "truth values"),
        ("a mixture", [*IDS[1:], 7], errors.IdError, "mixture"),
        ("lists", [[name] for name in IDS], errors.IdError, "Expected"),
        ("too few", IDS[1:], errors.ShapeError, "Expected 24 row ids"),
        ("too many", [*IDS, "more"], errors.ShapeError, "Expected 24 row ids"),
        ("none", [], errors.InputError, "Expected"),
        ("a table", np.arange(2 * ROWS).reshape(-1, 2), errors.ShapeError, "one dimension"),
        ("one text", "row", errors.ShapeError, "a list"),
        ("a number", 5, errors.ShapeError, "a list"),
        ("raw labels", ldp.RawLabels(LABELS, SPACE), errors.RawLabelsError, "owner"),
    ]:
        cases[f"ids: {name}"] = kind, words, lambda o, ids=ids: o.another(ids=ids)
    for what in ("features", "bags"):
        for name, values, kind in [
            ("too few", list(range(ROWS - 1)), errors.ShapeError),
            ("too many", np.zeros((ROWS + 1, 2)), errors.ShapeError),
            ("a frame", pd.DataFrame({"x": range(3)}), errors.ShapeError),
            ("an Arrow table", pa.table({"x": [1, 2]}), errors.ShapeError),
            ("a sparse table", scipy.sparse.eye_array(ROWS - 1).tocsr(), errors.ShapeError),
            ("a number", 5, errors.ShapeError),
            ("raw labels", ldp.RawLabels(LABELS, SPACE), errors.RawLabelsError),
        ]:
            words = "public" if kind is errors.RawLabelsError else f"Expected {what} of 24 rows"
            cases[f"{what}: {name}"] = kind, words, lambda o, facts={what: values}: o.another(**facts)
    for name, person, kind in [
        ("too few", list(range(ROWS - 1)), errors.ShapeError),
        ("missing", [*IDS[1:], None], errors.IdError),
        ("fractions", np.arange(ROWS) / 2, errors.IdError),
        ("raw labels", ldp.RawLabels(LABELS, SPACE), errors.RawLabelsError),
        ("a number", 5, errors.ShapeError),
    ]:
        cases[f"person: {name}"] = kind, "Expected|owner", lambda o, person=person: o.another(person=person)
    return cases


def labels() -> dict[str, Case]:
    """Labels that are none of the space, or no raw labels."""
    cases: dict[str, Case] = {}
    for name, values, kind in [
        ("unknown", ["a", UNKNOWN], errors.UnknownLabelError),
        ("missing", ["a", None], errors.MissingLabelError),
        ("not a number", pd.Series(["a", math.nan]), errors.MissingLabelError),
        ("none", [], errors.EmptyInputError),
        ("none, array", np.array([], int), errors.EmptyInputError),
        ("none, Arrow", pa.array([], pa.string()), errors.EmptyInputError),
        ("numbers", [1, 2], errors.LabelSpaceError),
        ("a mixture", ["a", 1], errors.LabelSpaceError),
        ("a table", np.array([["a", "b"]]), errors.ShapeError),
        ("one text", "a", errors.ShapeError),
        ("a frame", pd.DataFrame({"label": ["a"]}), errors.ShapeError),
        ("nothing", None, errors.ShapeError),
    ]:
        count = 1 if values is None else len(values)
        cases[f"labels: {name}"] = (
            kind,
            "[Ll]abel|list|Expected",
            lambda o, values=values, count=count: o.another(values, 1, ids=list(range(count)), dataset="new"),
        )
        cases[f"labels: {name}, privatize"] = (
            kind,
            "[Ll]abel|list|Expected",
            lambda o, values=values: ldp.privatize(values, GOOD),
        )
    release = ldp.privatize(LABELS, GOOD)
    counts = ldp.privatize(LABELS, ldp.LabelHistogram(SPACE, 1))
    cases |= {
        "a release as labels": (errors.RawLabelsError, "release already", lambda o: o.another(release)),
        "counts as labels": (errors.RawLabelsError, "release already", lambda o: o.another(counts)),
        "a release as labels, privatize": (
            errors.RawLabelsError,
            "release already",
            lambda o: ldp.privatize(release, GOOD),
        ),
        "labels of another space": (
            errors.SpaceMismatchError,
            "Expected",
            lambda o: o.another(ldp.RawLabels(["x", "y"], OTHER)),
        ),
        "labels of another space, privatize": (
            errors.SpaceMismatchError,
            "Expected",
            lambda o: ldp.privatize(ldp.RawLabels(["x", "y"], OTHER), GOOD),
        ),
        "a list in place of a space": (errors.InputError, "LabelSpace", lambda o: o.another(space=["a", "b", "c"])),
        "no space": (errors.InputError, "space=", lambda o: ldp.Curator(LABELS)),
        "one label to choose from": (
            errors.LabelSpaceError,
            "at least 2",
            lambda o: o.another(["a"], space=ldp.LabelSpace(["a"])),
        ),
        "no label to choose from": (errors.LabelSpaceError, "at least 2", lambda o: ldp.LabelSpace([])),
        "one label twice": (errors.LabelSpaceError, "twice", lambda o: ldp.LabelSpace(["a", "a"])),
    }
    return cases


def coins_and_books() -> dict[str, Case]:
    """Coins, ledgers and accounts that do not fit."""
    return {
        "seeded coins": (
            errors.NotPrivateError,
            "secret coins",
            lambda o: o.another(coins=ldp.SeededCoins(0)).release(GOOD),
        ),
        "seeded coins, a budget in memory": (
            errors.NotPrivateError,
            "secret coins",
            lambda o: ldp.Curator(LABELS, 1, ldp.SeededCoins(0), space=SPACE).release(GOOD),
        ),
        "no coins": (errors.InputError, "SystemCoins", lambda o: o.another(coins=7)),
        "a class of coins": (errors.InputError, "SystemCoins", lambda o: o.another(coins=ldp.SystemCoins)),
        "a kept key without ids": (
            errors.IdError,
            "Pass ids=",
            lambda o: o.another(ids=None, coins=ldp.KeyedCoins(bytes(32)), dataset="new", budget=1),
        ),
        "no ledger": (errors.InputError, "a ledger", lambda o: o.another(ledger="ledger.db")),
        "another budget": (errors.AccountMismatchError, "epsilon=2", lambda o: o.another(budget=3)),
        "no budget": (errors.AccountMismatchError, "give a budget", lambda o: o.another(dataset="new")),
        "other rows": (
            errors.AccountMismatchError,
            "not the same",
            lambda o: o.another(ids=[f"other {i}" for i in range(ROWS)]),
        ),
        "more rows": (
            errors.AccountMismatchError,
            "not the same",
            lambda o: o.another([*LABELS, "a"], ids=[*IDS, "more"]),
        ),
        "rows of another part": (errors.DuplicateIdError, "24 rows", lambda o: o.another(part="2026")),
        "a part without ids": (errors.IdError, "Give ids", lambda o: o.another(part="2026", ids=None)),
        "no account": (errors.InputError, "no account", lambda o: ldp.Curator(LABELS, space=SPACE).left),
        "too dear": (
            errors.BudgetExhaustedError,
            re.escape("asks for epsilon=2, and epsilon=1.5 is left"),
            lambda o: o.curator.release(ldp.RandomizedResponse(SPACE, 2)),
        ),
        "too dear for some rows": (
            errors.BudgetExhaustedError,
            re.escape("epsilon=1.5 is left for the most spent of its rows, of epsilon=2"),
            lambda o: o.curator.release(ldp.RandomizedResponse(SPACE, 2), rows=[5]),
        ),
        "too dear by a hair": (
            errors.BudgetExhaustedError,
            "is left",
            lambda o: o.curator.release(
                Foreign(guarantee=ldp.Guarantee(PureLoss(Fraction(3, 2) + Fraction(1, 10**12))))
            ),
        ),
        "counts that are too dear": (
            errors.BudgetExhaustedError,
            "is left",
            lambda o: o.curator.release(ldp.LabelHistogram(SPACE, 2)),
        ),
    }


def learners() -> dict[str, Case]:
    """Raw labels where a release must go, and where nothing must go."""
    raw, X = ldp.RawLabels(LABELS, SPACE), np.zeros((ROWS, 2))
    refused = errors.RawLabelsError
    return {
        "raw labels for a learner": (
            refused,
            "release",
            lambda o: ldp.learn.ForwardCorrected(LogisticRegression()).fit(X, raw),
        ),
        "labels for a learner": (
            refused,
            "release",
            lambda o: ldp.learn.ForwardCorrected(LogisticRegression()).fit(X, LABELS),
        ),
        "raw labels as evidence": (refused, "release", lambda o: ldp.learn.as_evidence(raw)),
        "a curator as evidence": (refused, "release", lambda o: ldp.learn.as_evidence(o.curator)),
        "raw labels as an array": (refused, "owner", lambda o: np.asarray(raw)),
        "raw labels as a list": (refused, "owner", lambda o: list(raw)),  # type: ignore[call-overload]
        "raw labels in a table": (refused, "owner", lambda o: pa.array(raw)),
        "raw labels in a pickle": (refused, "owner", lambda o: pickle.dumps(raw)),
        "raw labels in a copy": (refused, "owner", lambda o: copy.copy(raw)),
        "raw labels as groups": (
            refused,
            "owner",
            lambda o: o.curator.release(ldp.LabelHistogram(SPACE, 1, groups=raw)),
        ),
        "raw labels as rows": (refused, "owner", lambda o: o.curator.release(GOOD, rows=raw)),
        "a curator in a pickle": (refused, "pickled", lambda o: pickle.dumps(o.curator)),
        "a curator in a copy": (refused, "copied", lambda o: copy.deepcopy(o.curator)),
    }


CASES = {**parameters(), **rows_and_names(), **ids_and_company(), **labels(), **coins_and_books(), **learners()}


@pytest.mark.parametrize("name", CASES)
def test_what_is_wrong_is_refused(name: str, owner: Owner) -> None:
    """A typed error of our own tree says what was expected; nothing is charged, written or released."""
    kind, words, attempt = CASES[name]
    before = owner.state()

    with pytest.raises(kind, match=words) as caught:
        attempt(owner)

    assert before == owner.state()
    assert isinstance(caught.value, errors.LabeldpError)
    assert 25 < len(str(caught.value)) < 500
    assert UNKNOWN not in repr(caught.value)
    # The door still opens.
    assert ROWS == len(np.asarray(owner.curator.release(ldp.RandomizedResponse(SPACE, Fraction(1, 4)))))


def test_the_curator_compares_spaces_for_those_who_do_not(owner: Owner) -> None:
    """A mechanism of somebody else, which forgets to look, is not handed labels of another space."""
    drawn = []

    class Careless:
        space = SPACE

        def plan(self, public: PublicData) -> Plan:
            return Plan(GOOD.guarantee, {"family": "careless"}, b"", lambda codes, coins: drawn.append(codes))  # type: ignore[arg-type, func-returns-value]

    curator = owner.another(["x", "y"] * 12, 1, space=OTHER, dataset="other")
    before = owner.state()

    with pytest.raises(errors.SpaceMismatchError, match="Expected a mechanism for labels of"):
        curator.release(Careless())

    assert before == owner.state()
    assert [] == drawn


@pytest.mark.parametrize("name", sorted(makers()))
def test_labels_of_another_space_than_the_mechanism_s_are_refused(name: str, owner: Owner) -> None:
    """Every mechanism refuses labels of another space, also of one with as many labels, before any is counted."""
    for space, values in ((OTHER, ["x", "y"] * 12), (ldp.LabelSpace(["a", "b", "c", "d"]), ["d", "a"] * 12)):
        curator = owner.another(values, 1, space=space, dataset=f"{space.size} labels", bags=GROUPS)
        before = owner.state()
        for make in makers()[name]:
            with pytest.raises(errors.SpaceMismatchError, match="Expected"):
                curator.release(make())
            with pytest.raises(errors.SpaceMismatchError, match="Expected"):
                make().plan(PublicData(space, curator._ids, bags=GROUPS))

        assert before == owner.state()


# ---- the disk ------------------------------------------------------------------------------------------------


def test_a_locked_ledger_is_refused_after_its_time(tmp_path: Path) -> None:
    """While another program holds the file, nothing is released or charged; afterwards the door opens again."""
    with owner_in(tmp_path, timeout=0.2) as owner, closing(sqlite3.connect(tmp_path / "ledger.db")) as other:
        before = owner.state()
        other.isolation_level = None
        other.execute("BEGIN IMMEDIATE")
        attempts = [
            lambda: owner.curator.release(ldp.RandomizedResponse(SPACE, 1)),
            lambda: owner.curator.release(GOOD),
            lambda: owner.another(budget=1, dataset="new"),
            lambda: ldp.Ledger(tmp_path / "ledger.db", key=bytes(32), timeout=0.2),
        ]
        for attempt in attempts:
            start = time.monotonic()
            with pytest.raises(errors.LedgerLockedError, match=r"for 0\.2 seconds\. Nothing was written; try again"):
                attempt()
            assert 0.1 < time.monotonic() - start < 20

        assert before == owner.state()
        other.execute("ROLLBACK")
        assert ROWS == len(np.asarray(owner.curator.release(ldp.RandomizedResponse(SPACE, 1))))


def test_a_lock_that_comes_after_the_charge_costs_nothing_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says that the request is charged and not released; asked again, it is answered for nothing."""
    with owner_in(tmp_path, timeout=0.2) as owner, closing(sqlite3.connect(tmp_path / "ledger.db")) as other:
        other.isolation_level = None
        charge = ldp.Ledger.charge

        def charge_and_lock(ledger: ldp.Ledger, request: Request) -> Any:
            entry = charge(ledger, request)
            other.execute("BEGIN IMMEDIATE")
            return entry

        monkeypatch.setattr(ldp.Ledger, "charge", charge_and_lock)
        with pytest.raises(errors.LedgerLockedError, match=r"is charged.*Nothing was released.*nothing more"):
            owner.curator.release(ldp.RandomizedResponse(SPACE, 1))
        monkeypatch.undo()
        other.execute("ROLLBACK")
        entries, left = owner.ledger.entries(), owner.curator.left

        owner.curator.release(ldp.RandomizedResponse(SPACE, 1))

        assert (entries, left) == (owner.ledger.entries(), owner.curator.left)


def test_a_read_only_ledger_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be written is found before anything is charged or released."""
    with owner_in(tmp_path) as owner:
        before = owner.state()
        owner.ledger.close()
        connect = sqlite3.connect

        def read_only(target: str, **options: Any) -> sqlite3.Connection:
            return connect(target.replace("mode=rw", "mode=ro"), **options)

        monkeypatch.setattr(sqlite3, "connect", read_only)
        attempts = [
            lambda: owner.curator.release(ldp.RandomizedResponse(SPACE, 1)),
            lambda: owner.another(budget=1, dataset="new"),
            lambda: ldp.Ledger(tmp_path / "ledger.db", key=bytes(32)),
        ]
        for attempt in attempts:
            with pytest.raises(errors.LedgerReadOnlyError, match="cannot be written"):
                attempt()
        monkeypatch.undo()

        assert before == owner.state()


def test_a_read_only_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no file can be made, no ledger is begun."""
    opened = os.open

    def read_only(path: Any, flags: int, *mode: int, **options: Any) -> int:
        if flags & os.O_CREAT:
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, flags, *mode, **options)

    monkeypatch.setattr(os, "open", read_only)
    with pytest.raises(errors.LedgerReadOnlyError, match="cannot be written: Permission denied"):
        ldp.Ledger(tmp_path / "ledger.db")
    monkeypatch.undo()

    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("number", [errno.EROFS, errno.EACCES, errno.ENOSPC], ids=errno.errorcode.get)
def test_a_folder_of_releases_that_cannot_be_written_is_found_before_the_charge(
    number: int, owner: Owner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A release that could not be stored is not charged."""
    before = owner.state()

    def full(**_: Any) -> Any:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(tempfile, "mkstemp", full)
    with pytest.raises(errors.LedgerReadOnlyError, match=r"cannot be stored .* Nothing was charged"):
        owner.curator.release(ldp.RandomizedResponse(SPACE, 1))
    monkeypatch.undo()

    assert before == owner.state()


def test_a_file_in_the_place_of_the_releases_is_found_before_the_charge(tmp_path: Path) -> None:
    """What lies where releases belong is left there, and nothing is charged."""
    (tmp_path / "ledger.db.releases").write_text("mine")
    with ldp.Ledger(tmp_path / "ledger.db") as ledger:
        curator = ldp.Curator(LABELS, 1, ledger=ledger, space=SPACE)

        with pytest.raises(errors.LedgerReadOnlyError, match="cannot be stored"):
            curator.release(GOOD)

        assert [] == ledger.entries()
        assert "mine" == (tmp_path / "ledger.db.releases").read_text()


def test_a_disk_that_is_full_after_the_charge_costs_nothing_more(owner: Owner, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was charged and could not be stored is not released, and is released later for nothing."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    before = owner.state()
    monkeypatch.setattr(pq, "write_table", full)
    with pytest.raises(errors.LedgerError, match=r"is charged.*No space left.*Nothing was released.*nothing more"):
        owner.curator.release(ldp.RandomizedResponse(SPACE, 1))
    monkeypatch.undo()
    charged = owner.state()

    assert len(before[0]) + 1 == len(charged[0])
    assert before[3] == charged[3]
    release = owner.curator.release(ldp.RandomizedResponse(SPACE, 1))
    after = owner.state()
    assert charged[:2] == after[:2]
    assert {f"{release.stamp.release_id}.parquet"} == after[3].keys() - charged[3].keys()


def damages() -> dict[str, Callable[[Path], object]]:
    """Ways to damage a ledger's file."""

    def written(path: Path, place: int, data: bytes) -> None:
        with path.open("rb+") as file:
            file.seek(place)
            file.write(data)

    return {
        "the head": lambda path: written(path, 0, b"no database at all"),
        "the schema": lambda path: written(path, 100, bytes(3_000)),
        "the middle": lambda path: written(path, path.stat().st_size // 2, b"\xff" * 5_000),
        "cut off": lambda path: os.truncate(path, path.stat().st_size // 2),
        "another file": lambda path: path.write_text("a diary"),
        "empty": lambda path: os.truncate(path, 0),
    }


@pytest.mark.parametrize("damage", damages())
def test_a_corrupt_ledger_is_refused(damage: str, tmp_path: Path) -> None:
    """A damaged file is not opened, or not charged, and no release comes of it."""
    with owner_in(tmp_path) as owner:
        for _ in range(3):
            owner.curator.release(ldp.RandomizedResponse(SPACE, HALF / 2), rows=np.arange(12) + _)
        releases = {path.name: path.read_bytes() for path in (tmp_path / "ledger.db.releases").iterdir()}
    assert not (tmp_path / "ledger.db-wal").exists()
    damages()[damage](tmp_path / "ledger.db")
    content = (tmp_path / "ledger.db").read_bytes()

    with pytest.raises(errors.LedgerCorruptError) as caught, owner_in(tmp_path):
        pass

    assert len(str(caught.value)) > 30
    # An empty file is given a head before it is seen that its releases are there.
    assert damage == "empty" or content == (tmp_path / "ledger.db").read_bytes()
    assert releases == {path.name: path.read_bytes() for path in (tmp_path / "ledger.db.releases").iterdir()}


def test_another_key_is_refused(owner: Owner) -> None:
    """A ledger is not opened with the key of another one."""
    before = owner.state()

    with pytest.raises(errors.KeyMaterialError, match="not the one"):
        ldp.Ledger(owner.folder / "ledger.db", key=bytes(range(32)))

    assert before == owner.state()


def test_a_damaged_release_is_not_drawn_a_second_time(owner: Owner) -> None:
    """A stored release that cannot be read is an error: another draw would be another release of the same labels."""
    release = owner.curator.release(GOOD)
    path = owner.folder / "ledger.db.releases" / f"{release.stamp.release_id}.parquet"
    path.write_bytes(path.read_bytes()[:-9])
    before = owner.state()

    with pytest.raises((errors.ReleaseFileError, errors.LedgerCorruptError)):
        owner.curator.release(GOOD)

    assert before == owner.state()


# ---- what is not refused -------------------------------------------------------------------------------------


def test_the_same_rows_in_another_order_are_answered_in_that_order() -> None:
    """Without ids, rows are known by position: a stored release is not handed out for another order of its rows."""
    labels = ["a", "b", "c"] * 100
    curator = ldp.Curator(labels, 100, space=SPACE)
    channel = ldp.RandomizedResponse(SPACE, 30)
    order = np.arange(300)[::-1]

    first, second = (np.asarray(curator.release(channel, rows=rows)) for rows in (np.arange(300), order))

    assert labels == first.tolist()
    assert labels[::-1] == second.tolist()


def test_a_stored_table_comes_in_the_order_that_is_asked_for(tmp_path: Path) -> None:
    """Features of a stored table follow their rows, as its labels do, when the same rows come shuffled."""
    features = pa.table({"x": np.arange(ROWS)})

    @dataclass(frozen=True)
    class Drawn:
        rows: Any

    @ldp.release.seal.register(Drawn)  # type: ignore[attr-defined]
    def _(drawn: Drawn, stamp: Any, ids: Any) -> ldp.Release:
        return ldp.TableRelease(drawn.rows.codes, drawn.rows.channel, features, stamp, ids)

    class Tables(Foreign):
        def plan(self, public: PublicData) -> Plan:
            plan = GOOD.plan(public)
            return replace(plan, draw=lambda codes, coins: Drawn(plan.draw(codes, coins)))

    with ldp.Ledger(tmp_path / "ledger.db") as ledger:
        order = np.random.default_rng(0).permutation(ROWS)
        first = ldp.Curator(LABELS, 1, space=SPACE, ids=IDS, ledger=ledger).release(Tables())
        shuffled = ldp.Curator(
            [LABELS[i] for i in order], space=SPACE, ids=[IDS[i] for i in order], ledger=ledger
        ).release(Tables())

    assert isinstance(first, ldp.TableRelease)
    assert isinstance(shuffled, ldp.TableRelease)
    assert order.tolist() == shuffled.features.column("x").to_pylist()
    assert np.asarray(first)[order].tolist() == np.asarray(shuffled).tolist()
