"""A kept key gives the same coins for the same request, and unrelated ones for any other."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import labeldp as ldp
from labeldp.curator import prepare

BITS = 12
SIZE = 2**BITS
ROWS = 4_096
#: Released through these, a label is the first bits of its row's word, whatever the true label is.
SPACE = ldp.LabelSpace(range(SIZE))
RENAMED = ldp.LabelSpace(range(1, SIZE + 1))
KEY = bytes(range(32))
IDS = np.arange(ROWS) * 7 - 100
LABELS = np.arange(ROWS) % 5
EDITED = np.where(np.arange(ROWS) == 17, 9, LABELS)
GROUPS = np.arange(ROWS) % 2
UNIFORM = np.full((2, SIZE), 1 / SIZE)


@cache
def words() -> ldp.RandomizedResponse:
    """The channel that releases the first bits of a row's word."""
    return ldp.RandomizedResponse(SPACE, keep=Fraction(1, SIZE))


def told(
    labels: Any = LABELS, channel: Any = None, key: bytes = KEY, ids: Any = IDS, rows: Any = None, **names: str
) -> np.ndarray[Any, Any]:
    """Release under a kept key, and return the first bits of every row's word."""
    channel = words() if channel is None else channel
    curator = ldp.Curator(labels, coins=ldp.KeyedCoins(key), space=channel.space, ids=ids, **names)
    codes = curator.release(channel, rows=rows).codes
    found = np.full(ROWS, -1)
    found[slice(None) if rows is None else rows] = codes
    return found


def kernel(**names: str) -> np.ndarray[Any, Any]:
    """Do the same through the kernel."""
    label = names.get("label", "label")
    batch = pa.RecordBatch.from_pydict({"id": IDS, label: LABELS})
    released = prepare(words(), ldp.KeyedCoins(KEY), [batch], **names)(batch)
    return np.asarray(released.column(label)).astype(int)


#: Uses of one key, any two of which differ in something.
USES: dict[str, Callable[[], np.ndarray[Any, Any]]] = {
    "as it is": told,
    "one label edited": lambda: told(EDITED),
    "another data set": lambda: told(dataset="d"),
    "another version": lambda: told(version="d"),
    "data set and version": lambda: told(dataset="ab", version="c"),
    "cut otherwise": lambda: told(dataset="a", version="bc"),
    "another column": lambda: told(column="vote"),
    "data set and column": lambda: told(dataset="d", column="vote"),
    "another epsilon": lambda: told(channel=ldp.RandomizedResponse(SPACE, keep=Fraction(2, SIZE))),
    "another mechanism": lambda: told(channel=ldp.ResampledResponse(SPACE, UNIFORM[0], keep=0)),
    "groups": lambda: told(channel=ldp.ResampledResponse(SPACE, UNIFORM, keep=0, groups=GROUPS)),
    "other groups": lambda: told(channel=ldp.ResampledResponse(SPACE, UNIFORM, keep=0, groups=1 - GROUPS)),
    "other names of labels": lambda: told(LABELS + 1, ldp.RandomizedResponse(RENAMED, keep=Fraction(1, SIZE))),
    "other ids": lambda: told(ids=IDS + 7),
    "ids as texts": lambda: told(ids=IDS.astype(str)),
    "some rows": lambda: told(rows=np.arange(0, ROWS, 2)),
    "some rows more": lambda: told(rows=np.arange(ROWS - 1)),
    "another key": lambda: told(key=bytes(32)),
    "kernel, another version": lambda: kernel(version="e"),
}


@cache
def used(name: str) -> np.ndarray[Any, Any]:
    """The words of one use."""
    found = USES[name]()
    found.flags.writeable = False
    return found


def agreement(first: np.ndarray[Any, Any], second: np.ndarray[Any, Any]) -> tuple[int, np.ndarray[Any, Any]]:
    """Count the rows with equal words, and the share of rows with equal bits, bit by bit; rows of both uses count."""
    both = (first >= 0) & (second >= 0)
    different = first[both] ^ second[both]
    shares = [np.mean(different >> bit & 1 == 0) for bit in range(BITS)]
    return int((different == 0).sum()), np.array(shares)


@pytest.mark.parametrize("name", USES)
def test_a_use_has_the_same_coins_every_time(name: str) -> None:
    """The same request, made again by another curator, meets the same words; this is what tells uses apart."""
    again = USES[name]()

    assert used(name).tolist() == again.tolist()
    equal, shares = agreement(used(name), again)
    assert int((again >= 0).sum()) == equal
    assert [1.0] * BITS == shares.tolist()


@pytest.mark.parametrize("name", USES)
def test_two_uses_share_no_coins(name: str) -> None:
    """Words of two uses agree in no more rows, and in no more bits, than words of two strangers."""
    for other in USES:
        if other != name:
            equal, shares = agreement(used(name), used(other))

            # Of 4096 rows one agrees by chance; a bit agrees in half of them, up to 5 standard deviations (of 2048).
            assert (other, True) == (other, equal < 12)
            assert np.abs(shares - 0.5).max() < 5 * 0.5 / np.sqrt(ROWS / 2)
            assert abs(shares.mean() - 0.5) < 5 * 0.5 / np.sqrt(BITS * ROWS / 2)


def test_the_words_are_uniform() -> None:
    """What is compared are the words themselves: every bit of them falls either way equally often."""
    for name in USES:
        found = used(name)[used(name) >= 0]
        ones = np.array([np.mean(found >> bit & 1) for bit in range(BITS)])

        assert np.abs(ones - 0.5).max() < 5 * 0.5 / np.sqrt(len(found))


def test_the_order_of_rows_is_no_other_use() -> None:
    """Shuffled, or asked for through the kernel, a row keeps its word."""
    order = np.random.default_rng(0).permutation(ROWS)

    assert used("as it is")[order].tolist() == told(LABELS[order], ids=IDS[order]).tolist()
    assert used("as it is").tolist() == kernel().tolist()
    assert used("another version").tolist() == kernel(version="d").tolist()
    assert used("another column").tolist() == kernel(label="vote").tolist()


@pytest.mark.parametrize(
    "change", ["nothing", "one label", "version", "data set", "column", "epsilon", "groups", "key"]
)
def test_noise_of_counts_is_drawn_anew_for_any_other_use(change: str) -> None:
    """Counts under a kept key have the same noise for the same request only: else two releases would tell an edit."""
    space, groups = ldp.LabelSpace(range(10)), np.arange(ROWS) // 4
    names = {"version": {"version": "2"}, "data set": {"dataset": "d"}, "column": {"column": "vote"}}.get(change, {})
    other_labels = EDITED if change == "one label" else LABELS
    other_groups = np.roll(groups, 1) if change == "groups" else groups

    def noise(labels: Any, mechanism: Any, key: bytes = KEY, **names: str) -> np.ndarray[Any, Any]:
        curator = ldp.Curator(labels, coins=ldp.KeyedCoins(key), space=space, ids=IDS, **names)
        true = np.zeros((len(groups) // 4, 10), int)
        np.add.at(true, (mechanism.groups, labels), 1)
        return (np.asarray(curator.release(mechanism)) - true).ravel()

    first = noise(LABELS, ldp.LabelHistogram(space, 1, groups=groups))
    second = noise(
        other_labels,
        ldp.LabelHistogram(space, Fraction(9, 10) if change == "epsilon" else 1, groups=other_groups),
        bytes(32) if change == "key" else KEY,
        **names,
    )

    if change == "nothing":
        assert first.tolist() == second.tolist()
    else:
        # The sum of the squared masses of the law is 0.13: that often strangers agree.
        assert (first == second).mean() < 0.16
        assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(len(first))
