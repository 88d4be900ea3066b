"""The ledger: budgets, row-wise accounting, the chain, the file, several processes, and what errors say."""

from __future__ import annotations

import copy
import json
import math
import os
import pickle
import shutil
import sqlite3
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from labeldp.errors import (
    AccountMismatchError,
    BoundaryError,
    BudgetError,
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
from labeldp.exact import exact
from labeldp.guarantee import place as module
from labeldp.guarantee.ledger import Budget, Entry, Ledger, Request
from labeldp.guarantee.value import Charge
from tests.long.test_ledger_crash import Race

KEY = bytes(range(32))
ZERO = Fraction(0)


def pure(epsilon: object) -> Charge:
    """Return a pure charge of a number."""
    return Charge(epsilon=exact(epsilon), delta=ZERO, rho=None)


def tags(*values: int) -> NDArray[np.uint64]:
    """Return id tags."""
    return np.array(values, np.uint64)


def ask(
    digest: bytes | str,
    charge: Charge,
    rows: list[int] | NDArray[np.bool_] | None = None,
    *,
    dataset: str = "d",
    version: str = "",
    part: str = "",
    **description: Any,
) -> Request:
    """Return a request with few words."""
    mask = rows if rows is None or isinstance(rows, np.ndarray) else np.array(rows, bool)
    name = digest.encode() if isinstance(digest, str) else digest
    return Request(dataset, version, part, name, description, charge, mask)


def opened(budget: Any = 1, rows: int = 4, path: Path | None = None, **options: Any) -> Ledger:
    """Return a ledger with one data set of one part."""
    ledger = Ledger(path, **options)
    ledger.register("d", budget=budget, rows=rows, ids_digest=b"ids", id_tags=None)
    return ledger


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A place for a ledger."""
    return tmp_path / "labels.ledger"


# ---- budgets -----------------------------------------------------------------------------------------------


def test_ten_tenths_fit_into_one() -> None:
    """Ten charges of 0.1 fit a budget of 1.0 exactly, and an eleventh of next to nothing does not."""
    ledger = opened(1.0)
    for number in range(10):
        ledger.charge(ask(bytes([number]), pure(0.1)))

    assert ledger.left("d") == Charge(epsilon=ZERO, delta=ZERO, rho=None)
    with pytest.raises(BudgetExhaustedError):
        ledger.charge(ask("more", pure(Fraction(1, 10**40))))


def test_exhausted_budget_says_what_is_left_and_records_nothing() -> None:
    """The refusal names what was asked and what the most spent named row has left."""
    ledger = opened(1)
    ledger.charge(ask("half", pure(0.5), [1, 0, 0, 0]))
    ledger.charge(ask("fifth", pure("0.2"), [1, 1, 0, 0]))
    before = ledger.verify()
    with pytest.raises(BudgetExhaustedError, match=r"asks for epsilon=0\.9, and epsilon=0\.8 is left") as caught:
        ledger.charge(ask("much", pure("0.9"), [0, 1, 1, 0]))

    assert caught.value.left == Charge(epsilon=Fraction(4, 5), delta=ZERO, rho=None)
    assert caught.value.asked == pure("0.9")
    assert before == ledger.verify()
    assert ledger.charge(ask("much", pure("0.9"), [0, 0, 1, 1])).repeated is False


def test_exhausted_budget_by_a_hair_is_shown_exactly() -> None:
    """Two numbers which print alike are printed as fractions, so that the message makes sense."""
    ledger = opened(1)
    with pytest.raises(BudgetExhaustedError, match=r"asks for epsilon=10000000001/10000000000, and epsilon=1 is left"):
        ledger.charge(ask("hair", pure(Fraction(10**10 + 1, 10**10))))


# ---- kinds of accounts -------------------------------------------------------------------------------------


def test_approximate_account_bounds_epsilon_and_delta() -> None:
    """Either sum refuses by itself; pure charges fit as they are."""
    ledger = opened((1, "1e-6"))
    ledger.charge(ask("a", Charge(epsilon=Fraction(1, 4), delta=Fraction(6, 10**7), rho=None), [1, 1, 0, 0]))
    ledger.charge(ask("b", pure(0.5), [0, 1, 1, 0]))

    assert ledger.spent("d") == Charge(epsilon=Fraction(3, 4), delta=Fraction(6, 10**7), rho=None)
    assert ledger.left("d") == Charge(epsilon=Fraction(1, 4), delta=Fraction(4, 10**7), rho=None)
    with pytest.raises(BudgetExhaustedError, match="delta"):
        ledger.charge(ask("c", Charge(epsilon=Fraction(1, 8), delta=Fraction(1, 2 * 10**6), rho=None), [1, 0, 0, 0]))
    with pytest.raises(BudgetExhaustedError):
        ledger.charge(ask("d", pure(0.5), [0, 1, 0, 0]))
    ledger.charge(ask("c", Charge(epsilon=Fraction(1, 8), delta=Fraction(1, 2 * 10**6), rho=None), [0, 0, 1, 1]))


def test_concentrated_account_adds_rho() -> None:
    """A pure charge counts by its rho, which is what pure losses are worth in zCDP."""
    ledger = opened(Budget(rho=1))
    ledger.charge(ask("pure", Charge(epsilon=Fraction(1), delta=ZERO, rho=Fraction(462118, 10**6))))
    ledger.charge(ask("gauss", Charge(epsilon=None, delta=ZERO, rho=Fraction(1, 2))))

    assert ledger.spent("d") == Charge(epsilon=None, delta=ZERO, rho=Fraction(962118, 10**6))
    with pytest.raises(BudgetExhaustedError, match="rho"):
        ledger.charge(ask("more", Charge(epsilon=None, delta=ZERO, rho=Fraction(1, 25))))


@pytest.mark.parametrize(
    ("budget", "charge"),
    [
        (1, Charge(epsilon=None, delta=ZERO, rho=Fraction(1, 100))),
        (1, Charge(epsilon=Fraction(1, 2), delta=Fraction(1, 10**9), rho=None)),
        ((1, 1e-6), Charge(epsilon=None, delta=ZERO, rho=Fraction(1, 100))),
        (Budget(rho=1), Charge(epsilon=Fraction(1, 100), delta=ZERO, rho=None)),
        (Budget(rho=1), Charge(epsilon=None, delta=Fraction(1, 10**9), rho=Fraction(1, 100))),
    ],
)
def test_charge_of_another_kind_is_refused_with_advice(budget: Any, charge: Charge) -> None:
    """What no sum of the account can hold is refused, saying what to do; nothing is recorded."""
    ledger = opened(budget)
    with pytest.raises(AccountMismatchError, match="ask for") as caught:
        ledger.charge(ask("x", charge))

    assert isinstance(caught.value, BudgetError)
    assert ledger.entries() == []


@pytest.mark.parametrize(
    "charge",
    [
        Charge(epsilon=Fraction(-1), delta=ZERO, rho=None),
        Charge(epsilon=Fraction(1), delta=Fraction(-1, 9), rho=None),
        Charge(epsilon=Fraction(1), delta=Fraction(1), rho=None),
        Charge(epsilon=Fraction(1), delta=ZERO, rho=Fraction(-1)),
        Charge(epsilon=0.5, delta=ZERO, rho=None),  # type: ignore[arg-type]
        Charge(epsilon=Fraction(1), delta=None, rho=None),  # type: ignore[arg-type]
    ],
)
def test_charge_cannot_give_budget_back(charge: Charge) -> None:
    """Negative and inexact charges are refused, whatever the account."""
    for budget in (5, (5, 0.5), Budget(rho=5)):
        with pytest.raises(EpsilonError):
            opened(budget).charge(ask("x", charge))


# ---- rows --------------------------------------------------------------------------------------------------


def test_disjoint_rows_cost_the_maximum() -> None:
    """A label pays for the releases that name its row, and for no others."""
    ledger = opened(1)
    for row in range(4):
        ledger.charge(ask(bytes([row]), pure("0.25") if row else pure("0.75"), [int(row == i) for i in range(4)]))

    assert Fraction(3, 4) == ledger.spent("d").epsilon
    ledger.charge(ask("all", pure("0.25")))
    assert Fraction(1) == ledger.spent("d").epsilon
    ledger.charge(ask("last three", pure("0.5"), [0, 1, 1, 1]))
    assert [1, 1, 1, 1, 4, 3] == [entry.rows for entry in ledger.entries()]


def test_rows_must_fit_the_part() -> None:
    """A request names at least one row, with one truth value for each row of the part."""
    ledger = opened(1)
    with pytest.raises(EmptyInputError):
        ledger.charge(ask("x", pure(0.1), [0, 0, 0, 0]))
    with pytest.raises(ShapeError):
        ledger.charge(ask("x", pure(0.1), [1, 1, 1]))
    with pytest.raises(ShapeError):
        ledger.charge(ask("x", pure(0.1), [1, 1, 1, 0, 0]))
    with pytest.raises(ShapeError):
        ledger.charge(ask("x", pure(0.1), np.array([1, 0, 1, 0])))
    assert [] == ledger.entries()


def test_naming_all_rows_is_naming_none() -> None:
    """A mask that is true everywhere and no mask are the same request."""
    ledger = opened(1)
    ledger.charge(ask("x", pure(0.1), [1, 1, 1, 1]))

    assert ledger.charge(ask("x", pure(0.1))).repeated


def test_versions_of_labels_share_the_rows_and_their_budget() -> None:
    """Another version of the labels is about the same people: what is spent stays spent."""
    ledger = opened(1)
    ledger.charge(ask("x", pure(0.7), version="1"))
    with pytest.raises(BudgetExhaustedError):
        ledger.charge(ask("x", pure(0.7), version="2"))


small = st.fractions(min_value=0, max_value=1, max_denominator=12)
odd = st.builds(lambda numerator: Fraction(numerator, 10**40 + 9), st.integers(0, 10**40))


@given(st.data(), st.integers(1, 20), st.sampled_from(["pure", "approximate"]))
def test_grants_are_those_of_a_dictionary_per_row(data: st.DataObject, rows: int, kind: str) -> None:
    """A request is granted exactly when a plain dictionary, one exact sum per row, says that all rows can pay."""
    limit, delta_limit = data.draw(small.filter(bool)) * 2, Fraction(1, 3) if kind == "approximate" else ZERO
    ledger = opened((limit, delta_limit), rows)
    spent = dict.fromkeys(range(rows), (ZERO, ZERO))
    for number in range(data.draw(st.integers(1, 12))):
        named = data.draw(st.sets(st.integers(0, rows - 1), min_size=1) | st.just(set(range(rows))))
        epsilon = data.draw(small | odd)
        delta = data.draw(small) / 4 if kind == "approximate" else ZERO
        after = {row: (spent[row][0] + epsilon, spent[row][1] + delta) for row in named}
        request = ask(
            bytes([number]),
            Charge(epsilon=epsilon, delta=delta, rho=None),
            np.array([row in named for row in range(rows)]),
        )
        if all(e <= limit and d <= delta_limit for e, d in after.values()):
            ledger.charge(request)
            spent |= after
        else:
            left = Charge(
                epsilon=limit - max(spent[row][0] for row in named),
                delta=delta_limit - max(spent[row][1] for row in named),
                rho=None,
            )
            with pytest.raises(BudgetExhaustedError) as caught:
                ledger.charge(request)
            assert left == caught.value.left
        worst = Charge(epsilon=max(e for e, _ in spent.values()), delta=max(d for _, d in spent.values()), rho=None)
        assert worst == ledger.spent("d")
    assert ledger.verify().ok


def test_many_rows_are_accounted_fast() -> None:
    """Twenty-four overlapping requests over 10^6 rows are summed exactly in well under a second each."""
    rows = 10**6
    ledger = opened(10**6, rows)
    rng = np.random.default_rng(5)
    total = np.zeros(rows)
    for number in range(24):
        named = rng.random(rows) < 0.5
        total += named * (number + 1)
        ledger.charge(ask(bytes([number]), pure(Fraction(number + 1, 7)), named))
    start = time.perf_counter()
    spent = ledger.spent("d").epsilon
    seconds = time.perf_counter() - start

    assert Fraction(int(total.max()), 7) == spent
    assert seconds < 1


# ---- registration ------------------------------------------------------------------------------------------


def test_registering_again_changes_nothing() -> None:
    """The same rows may be registered any number of times, with the budget or without."""
    ledger = opened((1, 1e-6))
    before = ledger.verify()
    for budget in ((1, 1e-6), Budget(1, "0.000001"), None):
        again = ledger.register("d", budget=budget, rows=4, ids_digest=b"ids", id_tags=None)
        assert Budget(1, 1e-6) == again

    assert before == ledger.verify()


@pytest.mark.parametrize("budget", [2, 0.5, (1, 1e-9), Budget(rho=1)])
def test_budget_is_fixed_at_registration(budget: Any) -> None:
    """Neither more nor less nor another kind of budget is accepted later."""
    ledger = opened(1)
    with pytest.raises(AccountMismatchError, match="fixed at registration"):
        ledger.register("d", budget=budget, rows=4, ids_digest=b"ids", id_tags=None)


def test_first_registration_needs_a_budget() -> None:
    """There is no budget to be taken as registered, and no default."""
    with pytest.raises(AccountMismatchError, match="give a budget"):
        Ledger().register("d", budget=None, rows=4, ids_digest=b"ids", id_tags=None)


@pytest.mark.parametrize(("rows", "digest"), [(5, b"ids"), (4, b"other")])
def test_other_rows_under_a_registered_part_are_refused(rows: int, digest: bytes) -> None:
    """A part is its rows: another number or another digest is not the same part."""
    ledger = opened(1)
    with pytest.raises(AccountMismatchError, match="not the same"):
        ledger.register("d", budget=1, rows=rows, ids_digest=digest, id_tags=None)


def test_appended_parts_have_rows_and_sums_of_their_own() -> None:
    """Disjoint parts compose side by side under one budget."""
    ledger = Ledger()
    ledger.register("d", "1", budget=1, rows=3, ids_digest=b"1", id_tags=tags(5, 2**64 - 1, 0))
    ledger.register("d", "2", budget=None, rows=2, ids_digest=b"2", id_tags=tags(7, 1))
    ledger.charge(ask("x", pure("0.75"), part="1"))
    ledger.charge(ask("x", pure(1), part="2"))

    assert Fraction(1) == ledger.spent("d").epsilon
    with pytest.raises(BudgetExhaustedError, match=r"epsilon=0\.25 is left"):
        ledger.charge(ask("y", pure("0.5"), part="1"))


def test_appended_part_must_hold_new_rows_only() -> None:
    """A row of an earlier part is found again, and the error tells how many rows but not which."""
    ledger = Ledger()
    ledger.register("d", "1", budget=1, rows=3, ids_digest=b"1", id_tags=tags(5, 2**64 - 1, 123456))
    ledger.register("d", "2", budget=None, rows=1, ids_digest=b"2", id_tags=tags(9))
    with pytest.raises(DuplicateIdError, match=r"^2 rows") as caught:
        ledger.register("d", "3", budget=None, rows=3, ids_digest=b"3", id_tags=tags(123456, 1, 5))

    assert 2 == caught.value.count
    assert "123456" not in str(caught.value)
    ledger.register("e", "3", budget=1, rows=3, ids_digest=b"3", id_tags=tags(123456, 1, 5))


@pytest.mark.parametrize("shared", [0, 1, 1000])
def test_shared_rows_are_counted_over_all_chunks(shared: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tags are stored in sorted chunks, and a row is found in whichever chunk it lies."""
    monkeypatch.setattr("labeldp.guarantee.rows._CHUNK", 700)
    rng = np.random.default_rng(3)
    values = np.unique(rng.integers(0, 2**64, 9000, dtype=np.uint64))
    rng.shuffle(values)
    first, second = values[:4000], np.concatenate([values[:shared], values[4000:7000]])
    ledger = Ledger()
    ledger.register("d", "1", budget=1, rows=4000, ids_digest=b"1", id_tags=first)
    if not shared:
        ledger.register("d", "2", budget=1, rows=3000, ids_digest=b"2", id_tags=second)
    else:
        with pytest.raises(DuplicateIdError) as caught:
            ledger.register("d", "2", budget=1, rows=3000 + shared, ids_digest=b"2", id_tags=second)
        assert shared == caught.value.count
    assert ledger.verify().ok


def test_appending_needs_ids_on_both_sides() -> None:
    """Without ids nothing shows that rows are new."""
    ledger = opened(1)
    with pytest.raises(IdError, match="without row ids"):
        ledger.register("d", "2", budget=None, rows=1, ids_digest=b"2", id_tags=None)
    with pytest.raises(AccountMismatchError, match="without row ids"):
        ledger.register("d", "2", budget=None, rows=1, ids_digest=b"2", id_tags=tags(1))


def test_tags_are_checked() -> None:
    """Tags are one 64-bit number a row, all different."""
    ledger = Ledger()
    with pytest.raises(DuplicateIdError, match="unique") as caught:
        ledger.register("d", budget=1, rows=3, ids_digest=b"1", id_tags=tags(5, 6, 5))
    assert 1 == caught.value.count
    for wrong in (tags(1, 2), np.array([1, 2, 3]), [1, 2, 3]):
        with pytest.raises(ShapeError):
            ledger.register("d", budget=1, rows=3, ids_digest=b"1", id_tags=wrong)  # type: ignore[arg-type]
    with pytest.raises(EmptyInputError):
        ledger.register("d", budget=1, rows=0, ids_digest=b"1", id_tags=None)
    assert 1 == ledger.verify().records


def test_inputs_of_the_wrong_type_are_refused() -> None:
    """Names are texts and digests are bytes."""
    ledger = opened(1)
    with pytest.raises(InputError):
        ledger.charge(ask(b"", pure(0.1)))
    with pytest.raises(InputError):
        ledger.charge(Request("d", 1, "", b"x", {}, pure(0.1)))  # type: ignore[arg-type]
    with pytest.raises(InputError):
        ledger.note_labels("d", "", "", "y", "tag")  # type: ignore[arg-type]
    with pytest.raises(InputError):
        ledger.register("d", budget=1, rows=4, ids_digest="ids", id_tags=None)  # type: ignore[arg-type]
    with pytest.raises(InputError):
        Ledger(timeout=0)


def test_unregistered_parts_cannot_be_used() -> None:
    """Everything about a data set begins with its registration."""
    ledger = opened(1)
    for act in (
        lambda: ledger.charge(ask("x", pure(0.1), dataset="e")),
        lambda: ledger.charge(ask("x", pure(0.1), part="2")),
        lambda: ledger.note_labels("e", "", "", "y", b"tag"),
        lambda: ledger.spent("e"),
        lambda: ledger.left("e"),
    ):
        with pytest.raises(AccountMismatchError, match="not registered"):
            act()


# ---- labels ------------------------------------------------------------------------------------------------


def test_labels_are_recognised_by_their_tag() -> None:
    """First use records the tag; later uses compare, without raising and without recording."""
    ledger = opened(1)

    assert ledger.note_labels("d", "1", "", "y", b"tag")
    before = ledger.verify()
    assert ledger.note_labels("d", "1", "", "y", b"tag")
    assert not ledger.note_labels("d", "1", "", "y", b"another")
    assert not ledger.note_labels("d", "1", "", "y", b"another")
    assert before == ledger.verify()
    assert ledger.note_labels("d", "2", "", "y", b"another")
    assert ledger.note_labels("d", "1", "", "z", b"another")


def test_heads_do_not_depend_on_labels(path: Path) -> None:
    """Heads are public, so they are the same for all labels; the digest of the labels is guarded all the same."""
    heads = []
    for number, tag in enumerate((b"labels", b"other labels")):
        ledger = opened(1, path=path.with_name(str(number)), key=KEY)
        ledger.charge(ask("x", pure("0.5")))
        ledger.note_labels("d", "", "", "y", tag)
        heads.append([ledger.charge(ask("y", pure("0.5"))).head, ledger.verify().head, *map(repr, ledger.entries())])
        ledger.close()
    with Tampering(path.with_name("0")) as connection:
        connection.execute("UPDATE blobs SET bytes = CAST('a' || substr(bytes, 2) AS BLOB)")
    with Ledger(path.with_name("0"), key=KEY) as ledger, pytest.raises(LedgerCorruptError, match="Record 5"):
        ledger.note_labels("d", "", "", "y", b"labels")

    assert heads[0] == heads[1]


# ---- repeated requests and entries -------------------------------------------------------------------------


def test_repeated_request_is_the_same_entry_and_costs_nothing() -> None:
    """The same digest under the same names is the same release, also when the budget is gone."""
    ledger = opened(1)
    first = ledger.charge(ask("x", pure(1), mechanism="response", levels=[1, 2.5, None, "ä"]))
    before = ledger.verify()
    again = ledger.charge(ask("x", pure(1), something="else"))

    assert not first.repeated
    assert again.repeated
    assert first == again
    assert {"mechanism": "response", "levels": [1, 2.5, None, "ä"]} == again.description
    assert before == ledger.verify()
    assert [first] == ledger.entries() == ledger.entries("d")
    assert [] == ledger.entries("e")


def test_repeated_request_must_name_the_same_rows() -> None:
    """A digest that does not cover the rows is a mistake, and must not widen an earlier release."""
    ledger = opened(1)
    ledger.charge(ask("x", pure(0.1), [1, 1, 0, 0]))
    for rows in ([1, 1, 1, 0], None):
        with pytest.raises(InputError, match="must cover the rows"):
            ledger.charge(ask("x", pure(0.1), rows))


def test_release_ids_are_stable_and_unique(path: Path) -> None:
    """The id depends on key, names and digest alone; names cannot be shifted into one another."""
    one = opened(1, path=path, key=KEY)
    other = opened(1, key=KEY)
    stranger = opened(1)
    ids = [
        ledger.charge(ask("x", pure(0.1), version=version)).release_id
        for ledger in (one, other, stranger)
        for version in ("", "x")
    ]

    assert ids[:2] == ids[2:4]
    assert 4 == len(set(ids))
    assert all(len(bytes.fromhex(release)) == 16 for release in ids)


def test_entries_do_not_share_what_can_be_changed() -> None:
    """Changing a returned description changes nothing in the ledger."""
    ledger = opened(1)
    ledger.charge(ask("x", pure(0.1), list=[1])).description["list"].append(2)
    ledger.entries()[0].description.clear()

    assert {"list": [1]} == ledger.entries()[0].description


@pytest.mark.parametrize("value", [math.nan, math.inf, b"bytes", {1, 2}, object()])
def test_descriptions_are_json(value: object) -> None:
    """What is not JSON is refused, and nothing is charged."""
    ledger = opened(1)
    with pytest.raises(InputError, match="JSON"):
        ledger.charge(ask("x", pure(0.1), value=value))
    assert [] == ledger.entries()


@given(
    st.text(),
    st.text(),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
        max_leaves=5,
    ),
)
def test_any_name_and_any_json_come_back(dataset: str, version: str, value: Any) -> None:
    """Names and descriptions of any characters are stored, hashed and read back as they are."""
    ledger = Ledger()
    ledger.register(dataset, budget=1, rows=2, ids_digest=b"ids", id_tags=None)
    entry = ledger.charge(ask("x", pure(1), dataset=dataset, version=version, value=value))
    assert ledger.verify().head == entry.head
    again = ledger.charge(ask("x", pure(1), dataset=dataset, version=version))

    assert (dataset, version, {"value": value}) == (again.dataset, again.version, again.description)
    assert again == entry


def test_heads_of_the_chain_are_recognised() -> None:
    """A head kept with a release shows later that its entry is still there."""
    ledger = opened(1)
    entries = [ledger.charge(ask(bytes([number]), pure(0.1))) for number in range(3)]

    assert all(ledger.contains_head(entry.head) for entry in entries)
    assert ledger.contains_head(entries[0].head.upper())
    assert not ledger.contains_head("00" * 32)
    assert not ledger.contains_head("")
    assert entries[-1].head == ledger.verify().head
    assert [4, 5, 6] == [entry.sequence for entry in entries]


# ---- the secret key ----------------------------------------------------------------------------------------


def test_key_is_never_shown(path: Path) -> None:
    """Neither representations nor errors nor what can be pickled hold the key or a subkey."""
    ledger = opened(1, path=path, key=KEY)
    ledger.charge(ask("x", pure(1)))
    with pytest.raises(BudgetExhaustedError) as caught:
        ledger.charge(ask("y", pure(1)))
    shown = f"{ledger!r} {ledger!s} {vars(ledger)!r} {caught.value!r} {caught.value.context!r}"

    assert f"Ledger({str(path)!r}, data sets=1, entries=1)" == repr(ledger)
    for secret in (KEY, ledger.subkey("labels")):
        assert secret.hex() not in shown
        assert repr(secret)[2:-1] not in shown
    for act in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(BoundaryError):
            act(ledger)
        with pytest.raises(BoundaryError):
            act(ledger._store.keys)


def test_repr_of_a_ledger_in_memory() -> None:
    """It says so, and how much is in it."""
    assert "Ledger(in memory, data sets=1, entries=0)" == repr(opened(1))


def test_subkeys_differ_by_purpose_and_stay(path: Path) -> None:
    """A purpose has one key for the life of the ledger, and two purposes have two."""
    with Ledger(path) as ledger:
        first = ledger.subkey("labels")
    with Ledger(path) as ledger:
        assert first == ledger.subkey("labels")
        assert first != ledger.subkey("ids")
        assert 32 == len(first)
        assert first != path.with_name(path.name + ".key").read_bytes()


def test_files_are_private(path: Path) -> None:
    """The key is 32 bytes which only the owner can read, and so is the ledger."""
    Ledger(path)
    key = path.with_name(path.name + ".key")

    assert 32 == len(key.read_bytes())
    assert [0o600, 0o600] == [stat.S_IMODE(file.stat().st_mode) for file in (key, path)]
    assert not path.with_name(path.name + ".key.new").exists()


def test_key_readable_by_others_is_refused(path: Path) -> None:
    """A key which others could have read does not protect the chain."""
    Ledger(path).close()
    path.with_name(path.name + ".key").chmod(0o640)
    with pytest.raises(KeyMaterialError, match="chmod 600"):
        Ledger(path)


def test_wrong_and_missing_keys_are_told_from_damage(path: Path) -> None:
    """The wrong key, a missing key file, and a key file of the wrong size are key errors."""
    Ledger(path).close()
    key = path.with_name(path.name + ".key")
    content = key.read_bytes()
    with pytest.raises(KeyMaterialError, match="not the one"):
        Ledger(path, key=KEY)
    assert Ledger(path, key=content).verify().ok
    key.write_bytes(content[:31])
    with pytest.raises(KeyMaterialError):
        Ledger(path)
    key.unlink()
    with pytest.raises(KeyMaterialError, match="missing"):
        Ledger(path)
    for wrong in (b"short", bytearray(32), "x" * 32):
        with pytest.raises(KeyMaterialError):
            Ledger(key=wrong)  # type: ignore[arg-type]


def test_given_key_leaves_no_file(path: Path) -> None:
    """Who keeps the key elsewhere gets no copy beside the ledger."""
    Ledger(path, key=KEY).close()

    assert not path.with_name(path.name + ".key").exists()
    with pytest.raises(KeyMaterialError, match="pass key="):
        Ledger(path)


# ---- creation and loss -------------------------------------------------------------------------------------


def test_creation_that_died_after_its_commit_is_completed(path: Path) -> None:
    """The key gets its final name last; whoever opens the ledger next finishes the renaming."""
    Ledger(path).close()
    key, new = path.with_name(path.name + ".key"), path.with_name(path.name + ".key.new")
    key.rename(new)

    assert Ledger(path).verify().ok
    assert key.exists()
    assert not new.exists()


def test_creation_that_died_before_its_commit_is_begun_anew(path: Path) -> None:
    """A key under its first name without a ledger protects nothing, and is replaced."""
    path.with_name(path.name + ".key.new").write_bytes(b"half")
    path.touch()

    assert Ledger(path).verify().ok
    assert [path.name, path.name + ".key"] == sorted(
        file.name for file in path.parent.iterdir() if "-" not in file.name
    )


@pytest.mark.parametrize("loss", ["deleted", "emptied"])
@pytest.mark.parametrize("witness", ["key", "release"])
def test_lost_ledger_is_not_begun_anew(path: Path, loss: str, witness: str) -> None:
    """A new ledger in place of a lost one would forget what was spent."""
    ledger = opened(1, path=path, key=None if witness == "key" else KEY)
    if witness == "release":
        ledger.publish(ledger.charge(ask("x", pure(1))), lambda file: file.touch())
    ledger.close()
    if loss == "deleted":
        path.unlink()
    else:
        path.write_bytes(b"")
    with pytest.raises(LedgerCorruptError, match="Restore it from a backup"):
        Ledger(path, key=None if witness == "key" else KEY)
    assert (loss == "emptied" or witness == "release") == path.exists()


def test_ledger_replaced_while_in_use_is_noticed(path: Path) -> None:
    """A process never goes on writing to a file that others no longer see."""
    ledger = opened(1, path=path)
    other = path.with_suffix(".copy")
    shutil.copy(path, other)
    other.replace(path)
    with pytest.raises(LedgerCorruptError, match="replaced while in use"):
        ledger.charge(ask("x", pure(1)))
    path.unlink()
    with pytest.raises(LedgerCorruptError, match="deleted"):
        ledger.entries()


# ---- append-only, and damage -------------------------------------------------------------------------------


def rich_ledger(path: Path) -> list[Entry]:
    """Write a ledger with every kind of record, blobs and published files; return its entries."""
    with Ledger(path, key=KEY) as ledger:
        ledger.register("d", "1", budget=(2, 1e-6), rows=12, ids_digest=b"1", id_tags=np.arange(12, dtype=np.uint64))
        ledger.register("d", "2", budget=None, rows=3, ids_digest=b"2", id_tags=tags(100, 300, 200))
        ledger.note_labels("d", "v", "1", "y", b"tag")
        for number in range(3):
            charge = Charge(epsilon=Fraction(1, 3 + number), delta=Fraction(1, 10**9), rho=None)
            ledger.charge(ask(bytes([number]), charge, np.arange(12) % 3 == number, version="v", part="1", n=number))
        ledger.charge(ask("all", pure(1), part="2"))
        return ledger.entries()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE records SET body = '{}' WHERE sequence = 1",
        "UPDATE records SET sequence = 99 WHERE sequence = 1",
        "DELETE FROM records WHERE sequence = 9",
        "DELETE FROM records",
        "INSERT INTO records VALUES (99, 'entry', '[]', '{}', x'00', x'01')",
        "INSERT OR REPLACE INTO records VALUES (2, 'account', '[\"d\"]', '{}', x'00', x'01')",
        "UPDATE blobs SET bytes = x'00'",
        "DELETE FROM blobs",
        "INSERT OR REPLACE INTO blobs SELECT * FROM blobs LIMIT 1",
        "INSERT INTO blobs VALUES (9, 5, x'00')",
        "UPDATE seal SET records = records",
        "UPDATE seal SET records = 1",
        "DELETE FROM seal",
        "INSERT OR REPLACE INTO seal VALUES (1, 1, x'00', x'00')",
    ],
)
def test_tables_are_append_only(path: Path, statement: str) -> None:
    """The database itself refuses to change or drop what was written."""
    rich_ledger(path)
    with (
        closing(sqlite3.connect(path)) as connection,
        pytest.raises(sqlite3.IntegrityError, match="append-only"),
        connection,
    ):
        connection.execute(statement)


class Tampering:
    """Changes a ledger behind its triggers, and puts the triggers back."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __enter__(self) -> sqlite3.Connection:
        self.connection = sqlite3.connect(self.path, isolation_level=None)
        query = "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'"
        self.triggers = self.connection.execute(query).fetchall()
        self.connection.execute("PRAGMA synchronous = OFF")
        self.connection.execute("PRAGMA ignore_check_constraints = ON")
        self.connection.execute("BEGIN")
        for name, _ in self.triggers:
            self.connection.execute(f"DROP TRIGGER {name}")
        return self.connection

    def __exit__(self, *_: object) -> None:
        for _, sql in self.triggers:
            self.connection.execute(sql)
        self.connection.execute("COMMIT")
        self.connection.close()


def changed(value: Any, place: float) -> Any:
    """Change one number, one character or one byte."""
    if isinstance(value, int):
        return value + 100
    at = min(int(place * len(value)), len(value) - 1)
    if isinstance(value, bytes):
        return value[:at] + bytes([value[at] ^ 1]) + value[at + 1 :]
    return value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]


def cells(path: Path) -> Iterator[tuple[str, int, str, Any]]:
    """Yield (table, row, column, value) of everything a ledger stores."""
    with closing(sqlite3.connect(path)) as connection:
        for table in ("records", "blobs", "seal"):
            cursor = connection.execute(f"SELECT rowid AS row, * FROM {table}")
            names = [column[0] for column in cursor.description]
            for row, *values in cursor.fetchall():
                for name, value in zip(names[1:], values, strict=True):
                    yield table, row, name, value


def test_any_change_of_any_value_is_found(path: Path) -> None:
    """One bit of any value of any row of any table does not change unseen."""
    rich_ledger(path)
    content = path.read_bytes()
    tried = 0
    for table, row, name, value in cells(path):
        for place in (0.0, 0.31, 0.77, 1.0) if not isinstance(value, int) else (0.0,):
            path.write_bytes(content)
            with Tampering(path) as connection:
                connection.execute(f"UPDATE {table} SET {name} = ? WHERE rowid = ?", (changed(value, place), row))
            with pytest.raises(LedgerCorruptError), Ledger(path, key=KEY) as ledger:
                ledger.verify()
            tried += 1
    path.write_bytes(content)

    assert tried > 150
    assert Ledger(path, key=KEY).verify().ok


@pytest.mark.parametrize(
    ("statements", "record"),
    [
        (["DELETE FROM records WHERE sequence = 6"], 6),
        (["DELETE FROM records WHERE sequence = 9"], 9),
        (["DELETE FROM records WHERE sequence > 2"], 3),
        (["DELETE FROM records"], 1),
        (
            ["DELETE FROM records WHERE sequence = 7", "UPDATE records SET sequence = sequence - 1 WHERE sequence > 7"],
            7,
        ),
        (
            [
                "UPDATE records SET sequence = -1 WHERE sequence = 6",
                "UPDATE records SET sequence = 6 WHERE sequence = 7",
                "UPDATE records SET sequence = 7 WHERE sequence = -1",
            ],
            6,
        ),
        (["INSERT INTO records SELECT 10, kind, 'other', body, previous, x'00' FROM records WHERE sequence = 9"], 10),
        (["INSERT INTO records SELECT 0, kind, 'other', body, previous, x'00' FROM records WHERE sequence = 1"], 0),
        (["DELETE FROM blobs WHERE sequence = 7"], 7),
        (["INSERT INTO blobs VALUES (5, 1, x'00')"], 5),
        (["INSERT INTO blobs VALUES (2, 0, x'00')"], 2),
        (["DELETE FROM blobs WHERE sequence = 5"], 5),
        (["UPDATE blobs SET bytes = x'00' WHERE sequence = 5"], 5),
        (["UPDATE blobs SET bytes = CAST(x'6bff' AS TEXT) WHERE sequence = 5"], None),
        (["UPDATE blobs SET bytes = (SELECT bytes FROM blobs WHERE sequence = 6) WHERE sequence = 7"], 7),
        (["DELETE FROM seal"], 9),
        (["UPDATE records SET body = CAST(body AS BLOB) WHERE sequence = 5"], 5),
        (["UPDATE records SET body = CAST(x'ff' AS TEXT) WHERE sequence = 5"], None),
    ],
)
def test_missing_moved_and_added_records_are_found(path: Path, statements: list[str], record: int | None) -> None:
    """Deleting (the end included), renumbering, swapping, copying: the first bad record is named."""
    rich_ledger(path)
    with Tampering(path) as connection:
        for statement in statements:
            connection.execute(statement)
    with pytest.raises(LedgerCorruptError) as caught, Ledger(path, key=KEY) as ledger:
        ledger.verify()

    if record is not None:
        assert record == caught.value.record
        assert f"Record {record} " in str(caught.value)


def test_damaged_rows_stop_a_charge(path: Path) -> None:
    """A charge trusts no mask that was changed, without waiting for a full check."""
    rich_ledger(path)
    with Tampering(path) as connection:
        connection.execute("UPDATE blobs SET bytes = (SELECT bytes FROM blobs WHERE sequence = 6) WHERE sequence = 7")
    with Ledger(path, key=KEY) as ledger, pytest.raises(LedgerCorruptError):
        ledger.charge(ask("new", pure(Fraction(1, 9)), part="1"))


def test_ledger_in_use_notices_that_it_went_back(path: Path) -> None:
    """An older state is a valid chain; a process that saw the newer one, or a head kept elsewhere, finds it."""
    ledger = opened(1, path=path, key=KEY)
    ledger.charge(ask("x", pure(0.25)))
    ledger.close()
    older = path.read_bytes()
    lost = ledger.charge(ask("y", pure(0.25)))
    ledger.close()
    path.write_bytes(older)
    with pytest.raises(LedgerCorruptError, match="went back"):
        ledger.charge(ask("z", pure(0.25)))
    with Ledger(path, key=KEY) as another:
        assert another.verify().ok
        assert not another.contains_head(lost.head)
        another.charge(ask("z", pure(0.25)))
        with pytest.raises(LedgerCorruptError, match="another one than before"):
            ledger.entries()
        another.charge(ask("w", pure(0.25)))
        with pytest.raises(LedgerCorruptError, match="does not follow"):
            ledger.entries()


def test_removed_guards_are_found(path: Path) -> None:
    """A ledger without its triggers is not opened, and not verified while open."""
    rich_ledger(path)
    with Ledger(path, key=KEY) as ledger:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("DROP TRIGGER records_delete")
        with pytest.raises(LedgerCorruptError, match="guards"):
            ledger.verify()
    with pytest.raises(LedgerCorruptError, match="guards"):
        Ledger(path, key=KEY)


def test_files_that_are_no_ledger_are_refused(path: Path) -> None:
    """Other files, other databases and later formats are told apart from a new ledger, and left alone."""
    path.write_bytes(b"income,label\n" * 1000)
    with pytest.raises(LedgerCorruptError, match="not a ledger"):
        Ledger(path)
    assert path.read_bytes() == b"income,label\n" * 1000
    path.unlink()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE t (x)")
    with pytest.raises(LedgerCorruptError, match="not a ledger"):
        Ledger(path)
    path.unlink()
    rich_ledger(path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 2")
    with pytest.raises(LedgerCorruptError, match="format 2"):
        Ledger(path, key=KEY)


def test_damaged_index_is_found(path: Path) -> None:
    """An index that contradicts its table would let a second record through, so it is checked as well."""
    rich_ledger(path)
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_records_1'"
        (page,) = connection.execute(query).fetchone()
        (size,) = connection.execute("PRAGMA page_size").fetchone()
    content = bytearray(path.read_bytes())
    content[page * size - 10] ^= 1
    path.write_bytes(content)
    with Ledger(path, key=KEY) as ledger, pytest.raises(LedgerCorruptError, match="database"):
        ledger.verify()


def test_damaged_pages_are_found(path: Path) -> None:
    """Overwritten parts of the file are either noticed, or held nothing."""
    entries = rich_ledger(path)
    content = path.read_bytes()
    for start in range(100, len(content), 1531):
        path.write_bytes(content[:start] + bytes(64) + content[start + 64 :])
        try:
            with Ledger(path, key=KEY) as ledger:
                ledger.verify()
                assert entries == ledger.entries()
        except LedgerCorruptError:
            pass
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(LedgerCorruptError), Ledger(path, key=KEY) as ledger:
        ledger.verify()


# ---- locks and disks ---------------------------------------------------------------------------------------


def test_held_ledger_is_waited_for_and_then_given_up(path: Path) -> None:
    """Somebody else's lock gives an error after the timeout, and nothing is charged."""
    ledger = opened(1, path=path, timeout=0.05)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(LedgerLockedError, match=r"0\.05 seconds"):
            ledger.charge(ask("x", pure(1)))
        with pytest.raises(LedgerLockedError):
            Ledger(path, timeout=0.05)
        assert [] == ledger.entries()
        other.execute("ROLLBACK")

    assert not ledger.charge(ask("x", pure(1))).repeated


def test_held_turn_of_another_thread_is_given_up() -> None:
    """Threads of one process wait for each other no longer than the timeout."""
    ledger = opened(1, timeout=0.05)
    with ledger._store.turn(), pytest.raises(LedgerLockedError, match="thread"):
        ledger.entries()


@pytest.fixture
def unprivileged_folder() -> Iterator[Path]:
    """A folder in which permissions count even where the tests run as root."""
    folder = Path(tempfile.mkdtemp())
    root = os.geteuid() == 0
    if root:
        os.chown(folder, 65534, 65534)
        os.seteuid(65534)
    try:
        yield folder
    finally:
        if root:
            os.seteuid(0)
        folder.chmod(0o700)
        shutil.rmtree(folder)


def test_read_only_file_is_refused(unprivileged_folder: Path) -> None:
    """A ledger that cannot be written cannot be charged, so it is not opened."""
    path = unprivileged_folder / "x.ledger"
    Ledger(path).close()
    path.chmod(0o400)
    with pytest.raises(LedgerReadOnlyError):
        Ledger(path)


def test_read_only_folder_is_refused(unprivileged_folder: Path) -> None:
    """The log beside the ledger must be writable as well, for a new ledger and for an old one."""
    path = unprivileged_folder / "x.ledger"
    ledger = opened(1, path=path)
    entry = ledger.charge(ask("x", pure(1)))
    ledger.close()
    unprivileged_folder.chmod(0o500)
    with pytest.raises(LedgerReadOnlyError):
        Ledger(path)
    with pytest.raises(LedgerReadOnlyError):
        Ledger(unprivileged_folder / "new.ledger")
    unprivileged_folder.chmod(0o700)
    ledger.entries()
    unprivileged_folder.chmod(0o500)
    with pytest.raises(LedgerReadOnlyError):
        ledger.publish(entry, lambda file: file.touch())


def test_places_that_are_no_file_in_a_folder(tmp_path: Path) -> None:
    """A missing folder, and a folder in place of the file, are named."""
    with pytest.raises(LedgerError, match="does not exist"):
        Ledger(tmp_path / "nowhere" / "x.ledger")
    with pytest.raises(LedgerError, match="is a folder"):
        Ledger(tmp_path)


@pytest.mark.parametrize(
    "kind",
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "smbfs",
        "9p",
        "fuse.sshfs",
        "lustre",
        "ceph",
        "fuse.ceph",
        "glusterfs",
        "fuse.glusterfs",
        "afs",
        "ncpfs",
        "ncp",
    ],
)
def test_network_disks_are_refused(path: Path, kind: str) -> None:
    """Where two machines could both hold the lock, there is no ledger, and nothing is created."""
    with pytest.raises(LedgerPlaceError, match="local disk") as caught:
        Ledger(path, filesystem=lambda folder: kind)

    assert kind == caught.value.filesystem
    assert [] == list(path.parent.iterdir())


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "overlay", "tmpfs", "fuseblk", "apfs", None])
def test_local_disks_are_accepted(path: Path, kind: str | None) -> None:
    """Local and unknown file systems are used; the folder asked about is the real one."""
    asked: list[Path] = []
    link = path.parent / "link"
    (path.parent / "real").mkdir()
    link.symlink_to(path.parent / "real")

    def filesystem(folder: Path) -> str | None:
        asked.append(folder)
        return kind

    ledger = Ledger(link / "x.ledger", filesystem=filesystem)

    assert [path.parent.resolve() / "real"] == asked
    assert asked[0] / "x.ledger" == ledger.path


# ---- releases ----------------------------------------------------------------------------------------------


def test_first_writer_wins(path: Path) -> None:
    """A release is written once; whoever comes later gets the first one, and no temporary files stay."""
    ledger = opened(1, path=path)
    entry = ledger.charge(ask("x", pure(1)))
    first = ledger.publish(entry, lambda file: file.write_text("first"))
    second = ledger.publish(entry, lambda file: file.write_text("second"))

    assert ledger.release_path(entry) == first == second
    assert path.with_name(path.name + ".releases") / f"{entry.release_id}.parquet" == first
    assert "first" == first.read_text()
    assert [first] == list(first.parent.iterdir())


def test_writer_overtaken_while_writing_gets_the_first_release(path: Path) -> None:
    """Two writers at once: the link decides, and the slower file vanishes."""
    ledger = opened(1, path=path)
    entry = ledger.charge(ask("x", pure(1)))

    def slow(file: Path) -> None:
        with Ledger(path) as other:
            other.publish(entry, lambda inner: inner.write_text("fast"))
        file.write_text("slow")

    assert "fast" == ledger.publish(entry, slow).read_text()
    assert 1 == len(list(path.with_name(path.name + ".releases").iterdir()))


def test_release_is_on_the_disk_before_it_has_its_name(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Content, then name, then the folder: a crash between any two leaves no name of an incomplete release."""
    ledger = opened(1, path=path)
    entry = ledger.charge(ask("x", pure(1)))
    steps: list[str] = []

    def watch(owner: Any, name: str) -> None:
        original = getattr(owner, name)

        def step(first: Path, *others: Path) -> None:
            steps.append(f"{name} {first.suffix or first.name}")
            original(first, *others)

        monkeypatch.setattr(owner, name, step)

    watch(module, "_sync")
    watch(Path, "rename")
    ledger.publish(entry, lambda file: file.write_text("release"))

    folder = "_sync .releases"
    parent = f"_sync {path.parent.name}"
    assert [parent, "_sync .tmp", "rename .tmp", folder, "rename .draft", folder] == steps


def test_failed_writer_leaves_nothing(path: Path) -> None:
    """An error while writing releases nothing, and the next attempt succeeds without a second charge."""
    ledger = opened(1, path=path)
    entry = ledger.charge(ask("x", pure(1)))

    def fail(file: Path) -> None:
        file.write_text("half")
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        ledger.publish(entry, fail)
    assert [] == list(path.with_name(path.name + ".releases").iterdir())
    again = ledger.charge(ask("x", pure(1)))
    assert again.repeated
    assert "whole" == ledger.publish(again, lambda file: file.write_text("whole")).read_text()


def test_old_temporary_files_are_removed(path: Path) -> None:
    """What a killed writer left is removed after a day; younger files may still be written to."""
    ledger = opened(1, path=path)
    folder = path.with_name(path.name + ".releases")
    folder.mkdir()
    old, young = folder / ".old.tmp", folder / ".young.tmp"
    for file in (old, young):
        file.touch()
    os.utime(old, (time.time() - 90_000,) * 2)
    release = ledger.publish(ledger.charge(ask("x", pure(1))), lambda file: file.touch())

    assert {young, release} == set(folder.iterdir())


def test_nothing_is_released_without_a_charge(path: Path) -> None:
    """An entry of another ledger is no entry of this one."""
    ledger, stranger = opened(1, path=path), opened(1)
    entry = stranger.charge(ask("x", pure(1)))
    with pytest.raises(LedgerError, match="without a charge"):
        ledger.publish(entry, lambda file: file.touch())
    with pytest.raises(LedgerError, match="without a charge"):
        opened(1).keep(entry, "release")
    assert not path.with_name(path.name + ".releases").exists()


def test_ledger_in_memory_keeps_releases_in_memory(path: Path) -> None:
    """Without a file, the first release kept is the release."""
    ledger = opened(1)
    entry = ledger.charge(ask("x", pure(1)))

    assert ledger.release_path(entry) is None
    assert ledger.kept(entry) is None
    assert "first" == ledger.keep(entry, "first") == ledger.keep(entry, "second") == ledger.kept(entry)
    with pytest.raises(LedgerError, match="keep"):
        ledger.publish(entry, lambda file: file.touch())
    with pytest.raises(LedgerError, match="publish"):
        opened(1, path=path).keep(entry, "release")


def test_a_release_that_is_gone_is_not_drawn_again(path: Path) -> None:
    """Once published, only the very same file takes the place of a lost one; another draw is refused and kept nowhere."""
    ledger = opened(1, path=path)
    entry = ledger.charge(ask("x", pure(1)))
    first = ledger.publish(entry, lambda file: file.write_text("the release"))
    first.unlink()

    assert ledger.published(entry) is None
    with pytest.raises(LedgerError, match="its file is gone"):
        ledger.publish(entry, lambda file: file.write_text("another draw"))
    assert [] == list(first.parent.iterdir())
    assert first == ledger.publish(entry, lambda file: file.write_text("the release"))
    assert ledger.verify().ok


def test_a_publication_that_died_before_the_name_is_finished(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was recorded as published and has no name yet gets it when somebody asks; nothing is drawn again."""
    ledger = opened(1, path=path)
    entry = ledger.charge(ask("x", pure(1)))
    original = Path.rename

    def dies(self: Path, target: Path) -> Path:
        if self.suffix == ".draft":
            raise KeyboardInterrupt
        return original(self, target)

    monkeypatch.setattr(Path, "rename", dies)
    with pytest.raises(KeyboardInterrupt):
        ledger.publish(entry, lambda file: file.write_text("the release"))
    monkeypatch.undo()

    found = Ledger(path).published(entry)
    assert found is not None
    assert "the release" == found.read_text()
    assert [found] == list(found.parent.iterdir())


def test_lost_drafts_are_cleared_away_and_recorded_ones_are_kept(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft of a day ago that nobody recorded goes with the next publication; the only copy of a release stays."""
    ledger = opened(1, path=path)
    lost, kept, other = (ledger.charge(ask(name, pure("1/4"))) for name in "xyz")
    original = Path.rename

    def dies(self: Path, target: Path) -> Path:
        if self.suffix == ".draft":
            raise KeyboardInterrupt
        return original(self, target)

    monkeypatch.setattr(Path, "rename", dies)
    with pytest.raises(KeyboardInterrupt):
        ledger.publish(kept, lambda file: file.write_text("kept"))
    monkeypatch.undo()
    folder = path.with_name(path.name + ".releases")
    unrecorded = folder / f".{lost.release_id}.{'0' * 64}.draft"
    unrecorded.write_text("another draw")
    for file in folder.iterdir():
        os.utime(file, (0, 0))
    ledger.publish(other, lambda file: file.write_text("other"))

    assert not unrecorded.exists()
    found = ledger.published(kept)
    assert found is not None
    assert "kept" == found.read_text()


def test_files_that_the_ledger_did_not_publish_are_refused(path: Path) -> None:
    """A planted file, an altered one, and releases that an older copy of the ledger does not know."""
    ledger = opened(1, path=path)
    ledger.close()
    older = path.read_bytes()
    entry = ledger.charge(ask("x", pure(1)))
    place = ledger.release_path(entry)
    assert place is not None
    place.parent.mkdir()
    place.write_text("planted")

    with pytest.raises(LedgerCorruptError, match="was not published by it"):
        ledger.published(entry)
    with pytest.raises(LedgerCorruptError, match="was not published by it"):
        ledger.publish(entry, lambda file: file.write_text("drawn"))
    place.unlink()
    ledger.publish(entry, lambda file: file.write_text("drawn"))
    place.write_text("altered")
    with pytest.raises(LedgerCorruptError, match="not the file that was published"):
        ledger.published(entry)
    ledger.close()
    for wal in path.parent.glob(path.name + "-*"):
        wal.unlink()
    path.write_bytes(older)
    with pytest.raises(LedgerCorruptError, match="an older copy"):
        Ledger(path)


# ---- several ledgers, threads and processes ----------------------------------------------------------------


def test_charges_of_one_process_bind_the_others(path: Path) -> None:
    """Two ledgers on one file see each other's charges at once, also through two names of the file."""
    one = opened(1, path=path)
    link = path.with_name("link")
    link.symlink_to(path)
    two = Ledger(link)
    entry = one.charge(ask("x", pure(0.75)))

    assert two.charge(ask("x", pure(0.75))).repeated
    assert [entry] == two.entries()
    with pytest.raises(BudgetExhaustedError):
        two.charge(ask("y", pure(0.75)))
    assert not link.with_name("link.key").exists()


@pytest.mark.parametrize("in_memory", [True, False])
def test_threads_share_a_ledger(path: Path, in_memory: bool) -> None:
    """Eight threads ask for the same forty releases: each is charged once, and as many as fit."""
    ledger = opened(1, path=None if in_memory else path)
    granted: list[Entry] = []
    refused: list[int] = []
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for number in np.random.default_rng(seed).permutation(20).tolist():
                try:
                    granted.append(ledger.charge(ask(bytes([number]), pure("1/8"))))
                except BudgetExhaustedError:
                    refused.append(number)
        except BaseException as error:  # noqa: BLE001  # shown by the test below
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert [] == failed
    assert 8 == len({entry.release_id for entry in granted}) == sum(not entry.repeated for entry in granted)
    assert Fraction(1) == ledger.spent("d").epsilon
    assert 12 == len(set(refused) - {entry.digest[0] for entry in granted})
    assert ledger.verify().ok


def test_ledger_survives_a_fork(path: Path) -> None:
    """Parent and child both go on with the same object, and their charges add up."""
    ledger = opened(1, path=path)
    child = os.fork()
    if not child:
        status = 1
        try:
            ledger.charge(ask("child", pure(0.5)))
            status = 0
        finally:
            os._exit(status)
    ledger.charge(ask("parent", pure(0.25)))

    assert (child, 0) == os.waitpid(child, 0)
    assert Fraction(3, 4) == ledger.spent("d").epsilon
    assert {b"child", b"parent"} == {entry.digest for entry in ledger.entries()}


def test_ledger_in_memory_is_refused_in_a_child() -> None:
    """A copy of an account in memory would spend the budget twice."""
    ledger = opened(1)
    child = os.fork()
    if not child:
        status = 1
        try:
            ledger.charge(ask("x", pure(1)))
        except LedgerError:
            status = 0
        finally:
            os._exit(status)

    assert (child, 0) == os.waitpid(child, 0)
    assert not ledger.charge(ask("x", pure(1))).repeated


OPENER = """
import sys, time
from pathlib import Path
from labeldp.guarantee.ledger import Ledger
print("ready", flush=True)
while not Path(sys.argv[2]).exists():
    time.sleep(0.0005)
print(Ledger(sys.argv[1], timeout=60).subkey("race").hex())
"""


def test_processes_that_create_at_once_share_one_key(path: Path) -> None:
    """Four processes create one ledger at the same moment, and all get its one key."""
    go = path.with_name("go")
    processes = [
        subprocess.Popen([sys.executable, "-c", OPENER, str(path), str(go)], stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    go.touch()
    keys = {process.communicate(timeout=60)[0] for process in processes}

    assert {Ledger(path).subkey("race").hex() + "\n"} == keys
    assert [0] * 4 == [process.returncode for process in processes]


def test_a_few_kills(tmp_path: Path) -> None:
    """Two processes race, and eight times one of them is killed: no row overspends, no release lacks its charge."""
    race = Race(tmp_path, seed=1)
    race.run(8, check_every=4)

    assert 8 == race.kills
    assert race.found["entries"] > 0


def test_import_is_light() -> None:
    """The ledger needs neither statistics nor tables nor estimators."""
    heavy = "scipy", "pyarrow", "sklearn", "pandas", "polars", "matplotlib", "torch"
    script = "import sys, json, labeldp.guarantee.ledger; print(json.dumps(list(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)

    assert set() == set(heavy) & set(json.loads(run.stdout))
