"""What the rows of a part have spent: charges are added up row by row.

Why adding up is sound, although requests may be chosen after seeing earlier releases.  Fix one row, and two
data sets that differ in its label alone.  What is asked (rows, mechanism, charge) depends on public data and
earlier releases only, so along every transcript both data sets meet the same requests, and a release that does
not name the row has the same law in both.

* Pure: the log-ratio of the transcript's probabilities is the sum of the log-ratios of the releases that name the
  row, each within its epsilon, and the ledger lets no transcript happen whose sum exceeds the budget.
* (epsilon, delta): sums of both against a budget fixed beforehand are a valid filter as well (Rogers, Roth,
  Ullman and Vadhan 2016, basic composition).
* Concentrated: given the past, a release contributes at most alpha * rho to the Renyi divergence of order alpha,
  so the sum of rho bounds every order at once (Feldman and Zrnic 2021; Whitehouse et al. 2023).

Each row has a sum of its own because the argument looks at one row at a time.  It fails if the rows of a request
are chosen by looking at true labels.  Tighter composition whose charges are chosen along the way has no such
argument and is not offered here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, final

from labeldp.guarantee.budget import Budget, parts_of
from labeldp.guarantee.rows import heaviest, unpack_mask

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Sums = defaultdict[str, defaultdict[str | None, Fraction]]


def _no_sums() -> Sums:
    return defaultdict(lambda: defaultdict(Fraction))


@final
@dataclass
class Spending:
    """The sums of a part: for each bounded number, by the mask of the rows that were charged (None: all rows)."""

    sums: Sums = field(default_factory=_no_sums)
    #: By the digest of a mask, the first record which holds it.
    masks: dict[str, int] = field(default_factory=dict)

    def add(self, costs: Mapping[str, Fraction], mask: str | None, sequence: int) -> None:
        """Add the costs of a record to the rows of its mask."""
        if mask is not None:
            self.masks.setdefault(mask, sequence)
        for name, cost in costs.items():
            self.sums[name][mask] += cost

    def most(
        self, names: Iterable[str], named: NDArray[np.uint8] | None, read: Callable[[int], bytes]
    ) -> dict[str, Fraction]:
        """Return the largest sums over the named rows (None: all rows); ``read`` gives the mask that a record holds."""
        masks = {digest: unpack_mask(read(sequence)) for digest, sequence in self.masks.items()}
        most = {}
        for name in names:
            by_mask = self.sums[name]
            weighted = [(mask, by_mask[digest]) for digest, mask in masks.items() if by_mask[digest]]
            most[name] = by_mask[None] + heaviest(weighted, named)
        return most


def left_of(budget: Budget, spent: Mapping[str, Fraction]) -> dict[str, Fraction]:
    """Return what a budget leaves of each bounded sum."""
    return {name: limit - spent[name] for name, limit in parts_of(budget).items()}
