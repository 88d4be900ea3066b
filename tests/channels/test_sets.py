"""Facts about sets of labels, one a row, in either of their two forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.channels.sets import LabelSets
from labeldp.labels import code_type

#: Rows that cross the places where offsets of lists are kept.
ROWS = 20_000
EVERYTHING = slice(None)


def random_mask(rows: int, labels: int, share: float, seed: int = 0) -> Any:
    """Non-empty random sets as a table of truth values."""
    generator = np.random.default_rng(seed)
    mask = generator.random((rows, labels)) < share
    mask[np.arange(rows), generator.integers(0, labels, rows)] = True
    return mask


def listed(mask: Any) -> LabelSets:
    """Sets kept as lists of members, whatever their size."""
    labels = mask.shape[1]
    members = np.nonzero(mask)[1].astype(code_type(labels))
    return LabelSets(labels, mask.sum(axis=1).astype(code_type(labels + 1)), members, None)


def parted(mask: Any, cut: int) -> LabelSets:
    """Sets joined from two parts: packed bits first, lists of members then."""
    labels = mask.shape[1]
    sizes = mask.sum(axis=1).astype(code_type(labels + 1))
    bits = np.packbits(mask[:cut], axis=1, bitorder="little")
    members = np.nonzero(mask[cut:])[1].astype(code_type(labels))
    return LabelSets.of_parts(labels, [(sizes[:cut], bits, True), (sizes[cut:], members, False)])


FORMS = {"bits": LabelSets.of_mask, "lists": listed, "joined": lambda mask: parted(mask, len(mask) // 3)}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("labels", "share"), [(3, 0.5), (8, 0.1), (9, 0.9), (65, 0.02), (200, 0.01), (300, 0.4)])
def test_both_forms_hold_what_was_given(form: str, labels: int, share: float) -> None:
    """Sizes, truth values and bits are those of the table, also for rows out of the middle."""
    mask = random_mask(ROWS, labels, share)
    sets = FORMS[form](mask)

    assert len(mask) == len(sets)
    assert np.array_equal(mask.sum(axis=1), sets.sizes)
    assert np.array_equal(np.packbits(mask, axis=1, bitorder="little"), sets.packed())
    for rows in (EVERYTHING, slice(0, 1), slice(8191, 8193), slice(8192, 9000), slice(ROWS - 5, ROWS)):
        assert np.array_equal(mask[rows], sets.mask(rows))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("labels", "share"), [(2, 0.5), (8, 0.3), (17, 0.9), (65, 0.02), (300, 0.1)])
def test_members_are_counted_upwards(form: str, labels: int, share: float) -> None:
    """``select`` returns the label of every rank, and ``contains`` says of every code whether it is a member."""
    mask = random_mask(300, labels, share)
    sets = FORMS[form](mask)
    rows = slice(100, 300)
    for rank in range(int(mask.sum(axis=1).max())):
        ranks = np.minimum(rank, mask[rows].sum(axis=1) - 1)
        expected = [np.flatnonzero(row)[r] for row, r in zip(mask[rows], ranks, strict=True)]

        assert expected == sets.select(ranks, rows, shared=False).tolist()
    for code in range(labels):
        codes = np.full(200, code, code_type(labels))

        assert np.array_equal(mask[rows, code], sets.contains(codes, rows, shared=False))


@pytest.mark.parametrize("form", FORMS)
def test_a_shared_set_serves_all_rows(form: str) -> None:
    """One set answers for any number of codes and ranks."""
    mask = np.array([[False, True, True, False, True]])
    sets = FORMS[form](mask) if form != "joined" else LabelSets.of_mask(mask)
    codes = np.arange(5, dtype=np.uint8).repeat(3)

    assert mask[0][codes].tolist() == sets.contains(codes, slice(0, 15), shared=True).tolist()
    assert [1, 2, 4, 1] == sets.select(np.array([0, 1, 2, 0]), slice(0, 4), shared=True).tolist()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("labels", "share"), [(5, 0.5), (100, 0.02)])
def test_rows_can_be_taken(form: str, labels: int, share: float) -> None:
    """Taking rows in any order, some twice or none at all, takes their sets."""
    mask = random_mask(9000, labels, share)
    sets = FORMS[form](mask)
    for rows in (np.array([8999, 0, 0, 8192, 5]), np.arange(9000)[::-1], np.zeros(0, np.intp)):
        taken = sets.take(rows)

        assert np.array_equal(mask[rows], taken.mask(EVERYTHING))
        assert np.array_equal(mask[rows].sum(axis=1), taken.sizes)


@given(
    labels=st.integers(2, 80),
    rows=st.integers(1, 30),
    share=st.floats(0, 1),
    seed=st.integers(0, 2**32 - 1),
    cut=st.integers(0, 30),
)
def test_equal_sets_have_one_compact_form(labels: int, rows: int, share: float, seed: int, cut: int) -> None:
    """However sets were put together, what is digested of them is the same, and in the smaller of the two forms."""
    mask = random_mask(rows, labels, share, seed)
    forms = [LabelSets.of_mask(mask), listed(mask), parted(mask, min(cut, rows))]
    arrays = [form.arrays() for form in forms]
    width = -(-labels // 8)
    listed_bytes = int(mask.sum()) * code_type(labels).itemsize

    assert all(
        len(arrays[0]) == len(other)
        and all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(arrays[0], other, strict=True))
        for other in arrays
    )
    assert (width <= 8 or listed_bytes > rows * width) == (len(arrays[0]) == 1)


def test_sets_cannot_be_written_to() -> None:
    """What is handed out is read-only, or a copy."""
    for sets in (LabelSets.of_mask(random_mask(10, 5, 0.5)), listed(random_mask(10, 100, 0.01))):
        before = sets.packed().copy()
        for array in (sets.sizes, *sets.arrays()):
            assert not array.flags.writeable
        sets.mask(EVERYTHING)[:] = True

        assert np.array_equal(before, sets.packed())


def test_comparisons_have_power() -> None:
    """A single bit of difference gives other sizes, other bits and other arrays."""
    mask = random_mask(50, 100, 0.02)
    other = mask.copy()
    other[49, 99] ^= True

    assert not np.array_equal(listed(mask).packed(), listed(other).packed())
    assert not np.array_equal(listed(mask).sizes, listed(other).sizes)
    assert not all(map(np.array_equal, listed(mask).arrays(), listed(other).arrays()))
