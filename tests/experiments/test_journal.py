"""The journal keeps what it is given, line by line, and reads back exactly that."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from experiments.harness import Cell, Plan, Point
from experiments.journal import Entry, Journal

CELL = Cell(dataset="tea", method="rr", epsilon=1.0, measure=lambda _: 0.0, parameters={"epochs": 3})
RUNS = list(Plan((CELL,), 3))
ENTRY = Entry(
    (Point({"auc": 0.1 + 0.2}, at={"epoch": 1}, facts={"steps": 4}), Point({"auc": 0.5, "l1": 2.0})),
    1.5,
    3.0,
    {"python": "3.11", "absent": None},
    "abacus",
)


def test_what_was_added_is_read_back(tmp_path: Path) -> None:
    """To the last bit, at once and after a restart."""
    journal = Journal(tmp_path / "a" / "D-toy.jsonl")
    journal.add(RUNS[0], ENTRY)
    journal.add(RUNS[1], replace(ENTRY, seconds=2.0))
    again = Journal(journal.path)

    assert {RUNS[0].key: ENTRY, RUNS[1].key: replace(ENTRY, seconds=2.0)} == dict(journal) == dict(again)


def test_a_line_says_what_was_run(tmp_path: Path) -> None:
    """A reader of the file finds the cell and its seed there, not only a digest."""
    journal = Journal(tmp_path / "D-toy.jsonl")
    journal.add(RUNS[2], ENTRY)
    line = json.loads(journal.path.read_text())

    assert {**CELL.describe(), "seed": 2, "key": RUNS[2].key}.items() <= line.items()


def test_numbers_of_numpy_are_kept_as_numbers(tmp_path: Path) -> None:
    """What a run found is the same now and after a restart, whoever made the numbers."""
    journal = Journal(tmp_path / "D-toy.jsonl")
    point = Point({"auc": np.float32(0.5)}, at={"epoch": np.int64(2)}, facts={"sizes": np.arange(2), "pair": (1, 2)})
    journal.add(RUNS[0], replace(ENTRY, points=(point,)))

    assert dict(Journal(journal.path)) == dict(journal)
    assert (Point({"auc": 0.5}, {"epoch": 2}, {"sizes": [0, 1], "pair": [1, 2]}),) == journal[RUNS[0].key].points


def test_the_first_of_several_counts(tmp_path: Path) -> None:
    """A run that two processes did at the same time keeps the result that was there first, now and after a restart."""
    journals = [Journal(tmp_path / "D-toy.jsonl") for _ in range(2)]
    for journal, seconds in zip(journals, (1.0, 2.0), strict=True):
        journal.add(RUNS[0], replace(ENTRY, seconds=seconds))
    journals[0].add(RUNS[0], replace(ENTRY, seconds=3.0))

    assert [1.0, 2.0] == [journal[RUNS[0].key].seconds for journal in journals]
    assert 1.0 == Journal(journals[0].path)[RUNS[0].key].seconds


@pytest.mark.parametrize(
    "noise", [b"", b"\n\n", b"{}\n", b"[]\n", b"7\n", b'{"key": 1', b"\xff\xfe\n", b'{"key":"a","points":[{}]}\n']
)
def test_what_is_no_entry_is_passed_over(tmp_path: Path, noise: bytes) -> None:
    """Before and after it, entries are found."""
    journal = Journal(tmp_path / "D-toy.jsonl")
    journal.add(RUNS[0], ENTRY)
    with journal.path.open("ab") as file:
        file.write(noise)
    Journal(journal.path).add(RUNS[1], ENTRY)

    assert {RUNS[0].key, RUNS[1].key} == set(Journal(journal.path))
