"""Two label columns that differ in one row look the same to everybody but their owner, up to what is drawn."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import traceback
import warnings
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import labeldp as ldp
from labeldp import errors
from labeldp.curator import prepare
from tests.curator.owner import COLUMNS, HALF, IDS, MAKERS, SPACE, makers, mechanisms_of_the_package, refusals, seen

ROOT = Path(__file__).parent.parent.parent
OTHERS = [name for name in COLUMNS if name != "plain"]


@cache
def ended(folder: Path, column: str) -> tuple[int, str, str]:
    """Run the owner's program on one column: exit status, output, and what went to the standard error."""
    command = [sys.executable, "-W", "always", "-m", "tests.curator.owner", str(folder / column), column]
    run = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    return run.returncode, *(text.replace(str(folder / column), "FOLDER") for text in (run.stdout, run.stderr))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for all runs of the owner's program."""
    return tmp_path_factory.mktemp("owner")


def test_the_columns_differ_in_one_row() -> None:
    """The columns are one label apart, and the label that differs is nowhere else."""
    for name in OTHERS:
        different = [
            row for row, pair in enumerate(zip(COLUMNS["plain"], COLUMNS[name], strict=True)) if len({*pair}) > 1
        ]

        assert 1 == len(different)
        assert 1 == COLUMNS[name].count(COLUMNS[name][different[0]])


@pytest.mark.parametrize("name", sorted(mechanisms_of_the_package()))
def test_every_mechanism_of_the_package_is_tried(name: str) -> None:
    """A mechanism cannot be added without going through these tests."""
    for make in makers()[name]:
        try:
            made = make()
        except Exception as problem:  # noqa: BLE001  # of a mechanism that nobody has thought of yet
            pytest.fail(f"{name} needs a line in MAKERS of tests/curator/owner.py: {problem}")

        assert name == type(made).__name__
    assert set(MAKERS) <= set(mechanisms_of_the_package())


@pytest.mark.parametrize("other", OTHERS)
def test_a_program_ends_alike(other: str, folder: Path) -> None:
    """Exit status, output, log, warnings and traceback are the same texts for both columns."""
    plain, changed = ended(folder, "plain"), ended(folder, other)

    assert plain == changed
    assert 1 == plain[0]
    assert "BudgetExhaustedError" in plain[2]


@pytest.mark.parametrize("coins", ["keyed", "system"])
@pytest.mark.parametrize("mechanism", sorted(mechanisms_of_the_package()))
def test_a_release_looks_alike(mechanism: str, coins: str, folder: Path) -> None:
    """Manifest, public columns, charge, ledger, files and what is left do not depend on one label."""
    told = {name: json.loads(ended(folder, name)[1])[coins] for name in COLUMNS}
    forms = [form for form in told["plain"] if form.split()[0] == mechanism]

    assert len(makers()[mechanism]) <= len(forms)
    for form in forms:
        for other in OTHERS:
            for what, expected in told["plain"][form].items():
                assert (what, expected) == (what, told[other][form][what])


@pytest.mark.parametrize("coins", ["keyed", "system"])
@pytest.mark.parametrize("request_", [name for name, _ in refusals(ldp.Curator(["a"], space=SPACE))])
def test_a_refusal_looks_alike(request_: str, coins: str, folder: Path) -> None:
    """A refused request has the same error with the same text, and the ledger and the files stay as they are."""
    told = {name: json.loads(ended(folder, name)[1])[coins] for name in COLUMNS}
    last = [facts for facts in told["plain"].values() if "release" in facts][-1]

    for other in OTHERS:
        assert told["plain"][request_] == told[other][request_]
    for what in ("entries", "head", "files", "left", "spent"):
        assert (what, last[what]) == (what, told["plain"][request_][what])


def test_labels_do_show_in_what_is_drawn() -> None:
    """The comparison is no tautology: the same program tells two columns apart where nothing hides them."""
    space = ldp.LabelSpace(["a", "b", "c"])
    told = [
        np.asarray(ldp.privatize(column, ldp.TableChannel(space, np.eye(3) * 0.97 + 0.01))).tolist()
        for column in (["a"] * 300, ["b"] * 300)
    ]

    assert told[0] != told[1]


@pytest.mark.parametrize("mechanism", sorted(mechanisms_of_the_package()))
def test_nothing_is_said_while_it_is_drawn(
    mechanism: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """No log line, no warning and no output comes of a release in one process either."""
    for column in COLUMNS.values():
        curator = ldp.Curator(column, 12, space=SPACE, ids=IDS, features=np.zeros((24, 2)), bags=np.arange(24) % 3)
        with caplog.at_level(logging.DEBUG), warnings.catch_warnings():
            warnings.simplefilter("error")
            for make in makers()[mechanism]:
                assert isinstance(seen(curator.release(make())), dict)

    assert ("", ("", "")) == (caplog.text, tuple(capfd.readouterr()))


# ---- errors about labels -------------------------------------------------------------------------------------

SECRET = "NotToBeTold"
NUMBER = 4_242
SPACES = {"text": SPACE, "number": ldp.LabelSpace([1, 2, 3]), "truth": ldp.LabelSpace([False, True])}
SPACES["none"] = ldp.LabelSpace([1, 2, None])


def wrong_labels() -> dict[str, tuple[str, Any]]:
    """Columns with one label that is unknown, missing or of another type, in every kind of container."""
    texts, numbers = ["a", "b", SECRET, "c"], [1, 2, NUMBER, 3]
    lists = {
        "unknown text": ("text", texts),
        "unknown number": ("number", numbers),
        "missing text": ("text", ["a", "b", None, "c"]),
        "missing number": ("number", [1, 2, None, 3]),
        "missing truth": ("truth", [True, False, None, True]),
        "text among numbers": ("number", [1, 2, SECRET, 3]),
        "number among texts": ("text", ["a", "b", NUMBER, "c"]),
        "text among truths": ("truth", [True, False, SECRET, True]),
    }
    plain = {name: found for name, found in lists.items() if "among" not in name}
    wrong: dict[str, tuple[str, Any]] = {f"{name}, list": found for name, found in lists.items()}
    for name, (kind, values) in plain.items():
        wrong[f"{name}, array of objects"] = kind, np.array(values, object)
        wrong[f"{name}, Arrow"] = kind, pa.array(values)
        wrong[f"{name}, chunks"] = kind, pa.chunked_array([pa.array(values[:2]), pa.array(values[2:])])
        wrong[f"{name}, pandas"] = kind, pd.Series(values)
        wrong[f"{name}, polars"] = kind, pl.Series(values)
    wrong |= {
        "unknown text, array": ("text", np.array(texts)),
        "unknown number, array": ("number", np.array(numbers)),
        "not a number, array": ("number", np.array([1.0, 2.0, np.nan, 3.0])),
        "unknown float, array": ("number", np.array([1.0, 2.0, NUMBER, 3.0])),
        "unknown category": ("text", pd.Series(texts, dtype="category")),
        "unknown word in a dictionary": ("text", pa.array(texts).dictionary_encode()),
        "missing under a mask": ("number", np.ma.array(numbers, mask=[False, False, True, False])),
        "too large a number, Arrow": ("number", pa.array([1, 2**64 - NUMBER], pa.uint64())),
        "too large a number, array": ("number", np.array([1, 2**64 - NUMBER], np.uint64)),
        "too large a number, with missing ones": ("none", pa.array([1, None, 2**64 - NUMBER], pa.uint64())),
        "bytes": ("text", [b"a", SECRET.encode()]),
        "a nested one": ("text", [["a"], [SECRET]]),
    }
    return wrong


def told_of(error: BaseException) -> str:
    """All that an error can tell: its text, attributes, causes and traceback."""
    said = "".join(traceback.format_exception(error))
    link: BaseException | None = error
    while link is not None:
        said += repr(link) + str(link.args) + str(vars(link))
        link = link.__cause__ or link.__context__
    return said


@pytest.mark.parametrize("name", wrong_labels())
def test_an_error_about_labels_comes_first_and_tells_none(
    name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """An unusable label is found before anything is registered, charged or written, and no word shows any label."""
    kind, values = wrong_labels()[name]
    space = SPACES[kind]
    ledger = ldp.Ledger(tmp_path / "ledger.db", key=bytes(32))
    before, files = ledger.verify(), sorted(path.name for path in tmp_path.iterdir())
    rows = len(values)
    doors = [
        lambda: ldp.RawLabels(values, space),
        lambda: ldp.Curator(values, 1, space=space, ledger=ledger, ids=list(range(rows))),
        lambda: ldp.privatize(values, ldp.RandomizedResponse(space, HALF)),
    ]
    told = set()
    for door in doors:
        with caplog.at_level(logging.DEBUG), pytest.raises(errors.InputError) as caught:
            door()
        told.add((type(caught.value), str(caught.value)))

        for secret in (SECRET, str(NUMBER), str(2**64 - NUMBER), "nan", "None,", "row 2", "2nd"):
            assert secret not in told_of(caught.value)

    assert 1 == len(told)
    assert (before, files) == (ledger.verify(), sorted(path.name for path in tmp_path.iterdir()))
    assert [] == ledger.entries()
    assert ("", ("", "")) == (caplog.text, tuple(capfd.readouterr()))


@pytest.mark.parametrize("value", [SECRET, None], ids=["unknown", "missing"])
def test_an_error_about_labels_of_a_batch_tells_none(value: str | None) -> None:
    """The kernel's first pass and its second refuse such labels likewise."""
    good = pa.RecordBatch.from_pydict({"id": [1, 2], "label": ["a", "b"]})
    bad = pa.RecordBatch.from_pydict({"id": [3, 4], "label": ["a", value]})
    channel, coins = ldp.RandomizedResponse(SPACE, HALF), ldp.KeyedCoins(bytes(32))
    kernel = prepare(channel, coins, [good])

    for attempt in (lambda: prepare(channel, coins, [good, bad]), lambda: kernel(bad)):
        with pytest.raises((errors.UnknownLabelError, errors.MissingLabelError)) as caught:
            attempt()

        assert SECRET not in told_of(caught.value)
