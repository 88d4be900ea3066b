"""The curator: charges first, draws once, and tells nobody what the labels are."""

from __future__ import annotations

import copy
import json
import logging
import pickle
import subprocess
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp import errors
from labeldp.release import manifest_of

SPACE = ldp.LabelSpace(["a", "b", "c"])
LABELS = ["a", "b", "c", "a", "b", "c", "a", "a"] * 25
IDS = [f"row {i}" for i in range(len(LABELS))]
PRIOR = np.random.default_rng(5).dirichlet([0.6, 0.6, 0.6], len(LABELS))
GROUPS = np.arange(len(LABELS)) % 4
LAWS = np.random.default_rng(6).dirichlet([2.0, 2.0, 2.0], 4)


def mechanisms() -> list[Any]:
    """One of each kind, all at epsilon 1/2."""
    half = Fraction(1, 2)
    return [
        ldp.RandomizedResponse(SPACE, half),
        ldp.TopKRandomizedResponse(SPACE, half, ["a", "c"]),
        ldp.PriorRandomizedResponse(SPACE, half, PRIOR),
        ldp.ResampledResponse(SPACE, LAWS, half, groups=GROUPS),
        ldp.TableChannel(SPACE, [[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.3, 0.3, 0.4]], half),
        ldp.LabelHistogram(SPACE, half, groups=GROUPS),
    ]


def by_name(mechanism: object) -> str:
    """Return the name of a mechanism's class."""
    return type(mechanism).__name__


@pytest.mark.parametrize("mechanism", mechanisms(), ids=by_name)
def test_privatize_releases_with_the_mechanism_s_guarantee(mechanism: Any) -> None:
    """The one-liner gives a private release that promises at most what was asked."""
    release = ldp.privatize(LABELS, mechanism)

    assert release.private
    assert release.guarantee.epsilon() <= 0.5
    assert release.stamp.coins == "system"


@pytest.mark.parametrize("mechanism", mechanisms(), ids=by_name)
def test_fresh_coins_differ_and_a_kept_key_repeats(mechanism: Any) -> None:
    """Two releases with fresh coins differ; two with one key and ids are the same."""
    coins = ldp.KeyedCoins(bytes(32))

    fresh = [np.asarray(ldp.privatize(LABELS, mechanism)).tolist() for _ in range(2)]
    kept = [np.asarray(ldp.privatize(LABELS, mechanism, ids=IDS, coins=coins)).tolist() for _ in range(2)]

    assert fresh[0] != fresh[1]
    assert kept[0] == kept[1]


def test_one_edited_label_changes_all_coins() -> None:
    """With a kept key, a label that is edited meets unrelated bits, and so does every other row."""
    space = ldp.LabelSpace(range(64))
    coins = ldp.KeyedCoins(bytes(32))
    labels = np.zeros(4096, int)
    edited = labels.copy()
    edited[17] = 1
    channel = ldp.RandomizedResponse(space, keep=0.02)

    first, second = (np.asarray(ldp.privatize(y, channel, ids=np.arange(4096), coins=coins)) for y in (labels, edited))

    # Unrelated draws agree in about one row of 64; shared coins would agree in all but one.
    assert (first == second).mean() < 0.05


def test_charges_come_first_and_add_up() -> None:
    """Each release is charged; a repeated request is stored, not charged; beyond the budget nothing is left."""
    curator = ldp.Curator(ldp.RawLabels(LABELS, SPACE), budget=1)

    first = curator.release(ldp.RandomizedResponse(SPACE, 0.5))
    again = curator.release(ldp.RandomizedResponse(SPACE, 0.5))
    curator.release(ldp.LabelHistogram(SPACE, 0.25))
    with pytest.raises(errors.BudgetExhaustedError, match="left"):
        curator.release(ldp.RandomizedResponse(SPACE, 0.375))

    assert first.labels.tolist() == again.labels.tolist()  # type: ignore[attr-defined]
    assert curator.left.epsilon >= Fraction(1, 4)
    curator.release(ldp.RandomizedResponse(SPACE, 0.25))


def test_ten_tenths_are_one() -> None:
    """Ten releases at 0.1 fit a budget of 1, and an eleventh does not."""
    curator = ldp.Curator(ldp.RawLabels(LABELS, SPACE), budget=1.0)

    for group in range(10):
        curator.release(ldp.LabelHistogram(SPACE, 0.1, groups=np.full(len(LABELS), group)))

    with pytest.raises(errors.BudgetExhaustedError):
        curator.release(ldp.LabelHistogram(SPACE, 0.1, groups=np.full(len(LABELS), 10)))


def test_disjoint_rows_cost_the_maximum() -> None:
    """Stages over disjoint rows spend one budget, not two; a row that is asked twice spends twice."""
    curator = ldp.Curator(ldp.RawLabels(LABELS, SPACE), budget=1.0, ids=IDS)
    half = len(LABELS) // 2

    curator.release(ldp.RandomizedResponse(SPACE, 0.75), rows=np.arange(half))
    curator.release(ldp.RandomizedResponse(SPACE, 0.75), rows=np.arange(half, len(LABELS)))

    assert curator.left.epsilon >= Fraction(1, 4)
    with pytest.raises(errors.BudgetExhaustedError):
        curator.release(ldp.RandomizedResponse(SPACE, 0.5), rows=[half])


def test_rows_are_known_by_id_across_curators(tmp_path: Path) -> None:
    """A shuffled table is the same data set: the same account, and a stored release in the new order."""
    ledger = ldp.Ledger(tmp_path / "ledger.db")
    order = np.random.default_rng(0).permutation(len(LABELS))
    channel = ldp.RandomizedResponse(SPACE, 0.75)
    first = ldp.Curator(ldp.RawLabels(LABELS, SPACE), 1.0, ledger=ledger, ids=IDS)
    other = ldp.Curator(
        ldp.RawLabels([LABELS[i] for i in order], SPACE), 1.0, ledger=ledger, ids=[IDS[i] for i in order]
    )

    released = np.asarray(first.release(channel))
    shuffled = np.asarray(other.release(channel))
    first.release(ldp.RandomizedResponse(SPACE, 0.25), rows=[3])

    assert released[order].tolist() == shuffled.tolist()
    with pytest.raises(errors.BudgetExhaustedError):
        other.release(ldp.RandomizedResponse(SPACE, 0.125), rows=[int(np.flatnonzero(order == 3)[0])])
    other.release(ldp.RandomizedResponse(SPACE, 0.125), rows=[int(np.flatnonzero(order == 4)[0])])


def test_a_restart_returns_the_stored_release(tmp_path: Path) -> None:
    """Another process, fresh coins: the same request gives the very same labels and no second charge."""
    path = tmp_path / "ledger.db"
    channel = ldp.PriorRandomizedResponse(SPACE, 0.75, PRIOR)

    with ldp.Ledger(path) as ledger:
        before = ldp.Curator(ldp.RawLabels(LABELS, SPACE), 1.0, ledger=ledger, ids=IDS).release(channel)
    with ldp.Ledger(path) as ledger:
        curator = ldp.Curator(ldp.RawLabels(LABELS, SPACE), 1.0, ledger=ledger, ids=IDS)
        after = curator.release(channel)

        assert np.asarray(before).tolist() == np.asarray(after).tolist()
        assert curator.left.epsilon >= Fraction(1, 4)
        assert ledger.contains_head(str(after.stamp.ledger_head))
        assert ledger.verify().ok


def test_changed_labels_cost_the_same_and_are_told_to_the_owner_only(tmp_path: Path) -> None:
    """Other labels under a known version: the charge is as ever, then the owner gets an error and no release."""
    ledger = ldp.Ledger(tmp_path / "ledger.db")
    changed = ["b", *LABELS[1:]]
    ldp.Curator(ldp.RawLabels(LABELS, SPACE), 2.0, ledger=ledger, ids=IDS).release(ldp.RandomizedResponse(SPACE, 0.5))
    curator = ldp.Curator(ldp.RawLabels(changed, SPACE), ledger=ledger, ids=IDS)

    with pytest.raises(errors.LabelsChangedError, match="new version"):
        curator.release(ldp.RandomizedResponse(SPACE, 0.25))

    assert Fraction(5, 4) <= curator.left.epsilon < Fraction(126, 100)
    newer = ldp.Curator(ldp.RawLabels(changed, SPACE), ledger=ledger, ids=IDS, version="2")
    assert len(newer.release(ldp.RandomizedResponse(SPACE, 0.25))) == len(LABELS)  # type: ignore[arg-type]
    assert curator.left.epsilon < Fraction(101, 100)


def test_appended_rows_are_a_part_of_their_own() -> None:
    """A new part with other ids has a budget of its own; one that repeats an id is refused."""
    ledger = ldp.Ledger()
    more = [f"more {i}" for i in range(len(LABELS))]
    first = ldp.Curator(ldp.RawLabels(LABELS, SPACE), 1.0, ledger=ledger, ids=IDS, part="2025")
    second = ldp.Curator(ldp.RawLabels(LABELS, SPACE), 1.0, ledger=ledger, ids=more, part="2026")

    first.release(ldp.RandomizedResponse(SPACE, 1))
    second.release(ldp.RandomizedResponse(SPACE, 1))

    with pytest.raises(errors.DuplicateIdError):
        ldp.Curator(ldp.RawLabels(LABELS, SPACE), 1.0, ledger=ledger, ids=[*more[:-1], IDS[0]], part="2027")


def test_label_columns_of_a_table_share_its_budget() -> None:
    """Income and vote of the same people spend one account."""
    ledger = ldp.Ledger()
    income = ldp.Curator(ldp.RawLabels(LABELS, SPACE), 1.0, ledger=ledger, ids=IDS, column="income")
    vote = ldp.Curator(ldp.RawLabels(LABELS[::-1], SPACE), 1.0, ledger=ledger, ids=IDS, column="vote")

    income.release(ldp.RandomizedResponse(SPACE, 0.75))
    with pytest.raises(errors.BudgetExhaustedError):
        vote.release(ldp.RandomizedResponse(SPACE, 0.5))

    assert vote.release(ldp.RandomizedResponse(SPACE, 0.25)).stamp.column == "vote"


def test_a_person_with_several_labels_has_a_guarantee_of_their_own() -> None:
    """Three labels a person: the person's epsilon is three times the label's, shown beside it."""
    curator = ldp.Curator(ldp.RawLabels(LABELS, SPACE), 1.0, person=np.arange(len(LABELS)) // 3)

    release = curator.release(ldp.RandomizedResponse(SPACE, 0.5))

    assert release.stamp.labels_per_person == 3
    assert release.person_guarantee is not None
    assert release.guarantee.epsilon() == 0.5
    assert 1.4999 < release.person_guarantee.epsilon() <= 1.5


def test_two_columns_that_differ_in_one_row_look_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Manifest, log and charge are public: they are the same bytes for labels that differ in one row."""
    seen = []
    for name, labels in (("one", LABELS), ("two", ["b", *LABELS[1:]])):
        caplog.clear()
        (tmp_path / name).mkdir()
        with caplog.at_level(logging.DEBUG), ldp.Ledger(tmp_path / name / "ledger.db", key=bytes(32)) as ledger:
            curator = ldp.Curator(
                ldp.RawLabels(labels, SPACE), 4, ldp.KeyedCoins(bytes(32)), ledger, ids=IDS, dataset="d"
            )
            manifests = [manifest_of(curator.release(mechanism))[0] for mechanism in mechanisms()]
            charges = [(entry.charge, entry.digest, entry.release_id) for entry in ledger.entries()]
            shown = repr(curator).replace(str(tmp_path / name), "FOLDER")
            seen.append((json.dumps(manifests), charges, curator.left, shown, caplog.text))

    assert seen[0] == seen[1]


_SCRIPT = """
import sys, labeldp as ldp
labels = sys.argv[1].split(",")
space = ldp.LabelSpace(["a", "b", "c"])
curator = ldp.Curator(ldp.RawLabels(labels, space), 0.5, ids=list(range(len(labels))))
print(curator.release(ldp.RandomizedResponse(space, 0.5)), curator.left)
curator.release(ldp.LabelHistogram(space, 0.5))
"""


def test_two_columns_that_differ_in_one_row_end_alike() -> None:
    """A process that runs out of budget prints and exits the same for both columns."""
    ended = []
    for labels in ("a,b,c,a", "a,b,c,c"):
        run = subprocess.run([sys.executable, "-c", _SCRIPT, labels], capture_output=True, text=True, check=False)
        ended.append((run.returncode, run.stdout, run.stderr))

    assert ended[0] == ended[1]
    assert ended[0][0] == 1
    assert "BudgetExhaustedError" in ended[0][2]


def test_a_curator_is_not_copied_or_pickled() -> None:
    """Whoever holds a pickle of a curator would hold the labels."""
    curator = ldp.Curator(ldp.RawLabels(LABELS, SPACE))

    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(errors.RawLabelsError):
            attempt(curator)
    assert "row 0" not in repr(curator)


def test_a_curator_is_a_label_service() -> None:
    """Adaptive learners talk to the protocol, and a curator satisfies it."""
    curator = ldp.Curator(ldp.RawLabels(LABELS, SPACE))

    assert isinstance(curator, ldp.LabelService)
    assert len(curator) == len(LABELS)


def test_seeded_releases_are_marked() -> None:
    """A seeded release repeats, and is an estimate that says it is not private."""
    channel = ldp.RandomizedResponse(SPACE, 1)

    first, second = (ldp.privatize(LABELS, channel, coins=ldp.SeededCoins(3)) for _ in range(2))

    assert np.asarray(first).tolist() == np.asarray(second).tolist()
    assert not first.private
    assert isinstance(first.guarantee, ldp.Estimate)
    assert "NOT PRIVATE" in first.guarantee.describe()
