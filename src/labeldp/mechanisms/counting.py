"""Noisy label counts of disjoint groups of rows: what histograms and bags have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from labeldp.errors import EmptyInputError, ShapeError, SpaceMismatchError
from labeldp.noise import guarantee_of_counts
from labeldp.plan import CoinAccess, Plan, PublicData, warn_of_delta
from labeldp.prf import parameter_digest

if TYPE_CHECKING:
    from collections.abc import Callable
    from fractions import Fraction

    from numpy.typing import NDArray

    from labeldp.labels import Codes, LabelSpace
    from labeldp.noise import IntegerNoise
    from labeldp.plan import Drawn


@final
@dataclass(frozen=True, eq=False)
class Counted:
    """Noisy counts of groups, before they are stamped."""

    space: LabelSpace
    counts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    noise: IntegerNoise
    groups: NDArray[np.int64]

    @property
    def paired(self) -> bool:
        """Whether one count of two was drawn: the other is the group's size less it."""
        return self.space.size == 2


def plan_counts(
    family: str,
    space: LabelSpace,
    noise: IntegerNoise,
    groups: NDArray[np.int64],
    public: PublicData,
    drawn: Callable[[Counted], Drawn],
    asked: tuple[Fraction, Fraction] | None = None,
) -> Plan:
    """Settle the release of the counts of every group: replacing a label moves two of them by one (ERRATA A1).

    With two labels the group's size is public and one count says it all.  Groups are disjoint, so together they
    cost as much as one.  The (epsilon, delta) that was ``asked`` for is what an account of such pairs is charged.
    """
    if public.space != space:
        raise SpaceMismatchError(f"Expected labels of {space}, got labels of {public.space}.", expected=space)
    if len(groups) != public.rows:
        raise ShapeError(f"Expected a group for each of {public.rows} rows, got {len(groups)}.")
    size = space.size
    free = 1 if size == 2 else size
    sizes = np.bincount(groups).astype(np.int64)

    def draw(codes: Codes, coins: CoinAccess) -> Drawn:
        bits = coins.bins("noise of counts", len(sizes) * free)
        added = noise.draw(len(sizes) * free, bits).reshape(len(sizes), free)
        counts = np.bincount(groups * size + codes, minlength=len(sizes) * size).reshape(len(sizes), -1)
        counts = counts[:, :free].astype(np.int64) + added
        if free == 1:
            counts = np.column_stack([counts[:, 0], sizes - counts[:, 0]])
        return drawn(Counted(space, counts, sizes, noise, groups))

    description: dict[str, Any] = {"family": family, "noise": noise.to_json()}
    rows = groups.astype("<i8").view(np.uint8).reshape(-1, 8)
    epsilon, delta = asked or (None, None)
    guarantee = guarantee_of_counts(noise, size, epsilon=epsilon, delta=delta)
    warn_of_delta(guarantee, public.rows)
    return Plan(guarantee, description, parameter_digest(public.ids, lambda: rows), draw)


def group_numbers(groups: object, what: str = "group") -> NDArray[np.int64]:
    """Read each row's group, 0 .. G-1."""
    array = np.asarray(groups)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ShapeError(f"Expected one integer {what} a row, got shape {array.shape} and type {array.dtype}.")
    if len(array) == 0:
        raise EmptyInputError(f"Expected at least one row in {what}s, got none.")
    if int(array.min()) < 0:
        raise ShapeError(f"Expected {what}s from 0 upwards, got {array.min()}.")
    if int(array.max()) >= len(array):
        raise ShapeError(
            f"Expected at most as many {what}s as rows, got {what} {array.max()} and {len(array)} rows. "
            f"Number the {what}s from 0 without gaps: numpy.unique(..., return_inverse=True) does.",
        )
    return array.astype(np.int64)
