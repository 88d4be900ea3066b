"""Rows: their tags, and the most that any of them has spent."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp.guarantee import rows as module
from labeldp.guarantee.rows import heaviest, pack_tags, unpack_tags


@given(st.sets(st.integers(0, 2**64 - 1), min_size=1, max_size=50))
def test_tags_survive_packing(values: set[int]) -> None:
    """Packed tags unpack to the same sorted tags, the largest and the smallest included."""
    ordered = np.array(sorted(values), np.uint64)

    assert ordered.tolist() == [tag for chunk in pack_tags(ordered) for tag in unpack_tags(chunk).tolist()]


@given(
    st.integers(1, 70),
    st.integers(1, 400),
    st.integers(0, 2**32 - 1),
    st.sampled_from([1, 7, 10**12, 10**40, 10**60 + 7]),
    st.sampled_from([1, 2, 2**13]),
    st.booleans(),
)
def test_heaviest_row_is_found_exactly(
    count: int, rows: int, seed: int, scale: int, step: int, some_rows: bool
) -> None:
    """The vectorised maximum equals the exact sum of every row, with many masks, blocks and long numerators."""
    rng = np.random.default_rng(seed)
    masks = rng.random((count, rows)) < rng.choice([0.02, 0.5, 0.98])
    weights = [Fraction(int(rng.integers(0, 2**62)) * scale // 3 + 1, scale) for _ in range(count)]
    named = rng.random(rows) < 0.3 if some_rows else np.ones(rows, bool)
    named[rng.integers(rows)] = True
    expected = max(
        sum((weight for mask, weight in zip(masks, weights, strict=True) if mask[row]), Fraction(0))
        for row in np.flatnonzero(named)
    )
    packed = [(np.packbits(mask, bitorder="little"), weight) for mask, weight in zip(masks, weights, strict=True)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_STEP", step)
        found = heaviest(packed, np.packbits(named, bitorder="little") if some_rows else None)

    assert expected == found
