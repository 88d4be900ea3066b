"""A row release behaves as the array of its labels."""

from __future__ import annotations

import numpy as np
import pytest

import labeldp as ldp
from labeldp import errors

SPACE = ldp.LabelSpace(["a", "b", "c"])


def release() -> ldp.RowRelease:
    """Rows with a set each and ids."""
    prior = np.random.default_rng(1).dirichlet(np.ones(3), 12)
    made = ldp.privatize(["a", "b", "c"] * 4, ldp.PriorRandomizedResponse(SPACE, 1, prior), ids=list(range(12)))
    assert isinstance(made, ldp.RowRelease)
    return made


@pytest.mark.parametrize("rows", [slice(2, 9, 2), [5, 0, 5], np.arange(12) % 2 == 0, np.array([], int)], ids=str)
def test_a_part_of_a_release_is_a_release(rows: object) -> None:
    """Codes, channel and ids follow the rows; a row may come twice, as in a bootstrap."""
    whole = release()
    places = np.arange(12)[rows]

    part = whole[rows]

    assert isinstance(part, ldp.RowRelease)
    assert part.labels.tolist() == whole.labels[places].tolist()
    assert part.shape == (len(places),)
    assert part.guarantee == whole.guarantee
    full = whole.channel.likelihood(whole.codes)
    assert np.array_equal(part.channel.likelihood(part.codes), full[places])


def test_single_labels_and_array_protocol() -> None:
    """One row is a label; the whole is an array of labels; a view is refused."""
    whole = release()

    assert whole[3] == whole.labels[3]
    assert np.asarray(whole).dtype == whole.dtype
    assert np.asarray(whole, dtype=object).dtype == object
    assert list(whole) == whole.labels.tolist()
    with pytest.raises(ValueError, match="copy"):
        np.array(whole, copy=False)
    with pytest.raises(errors.ShapeError):
        whole[np.zeros((2, 2), int)]


def test_a_release_is_frozen_and_shows_no_rows() -> None:
    """Nothing can be set on a release, and its repr names no label."""
    whole = release()

    with pytest.raises(AttributeError):
        whole.codes = np.zeros(12, np.uint8)  # type: ignore[misc]
    assert repr(whole) == "RowRelease(12 rows, epsilon <= 1 (pure), one label replaced, local)"
