"""The E-step for bag counts: tilt every row of a bag alike until sums meet the noisy counts.

Under a mean-field posterior q, rows of a bag are independent, and q_i(y) is proportional to r_i(y) exp(lambda_y), r_i
what is known of the row without the count.  With noise of variance v the best lambda is (c - sum_i q_i) / v: the root
of v lambda + s(lambda) - c, where s sums q over the bag.  It is the gradient of the convex function
v |lambda|^2 / 2 + sum_i log sum_y r_i(y) exp(lambda_y) - <c, lambda>, so damped Newton steps find it, all bags abreast.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_STEPS = 60
_TOLERANCE = 1e-9
#: No count says more than this about the odds of two labels.
_LARGEST = 60.0


@final
@dataclass(frozen=True, eq=False)
class Bags:
    """Rows in the order of their bags."""

    order: NDArray[np.intp]
    bag: NDArray[np.intp]
    starts: NDArray[np.intp]
    sizes: NDArray[np.intp]

    @classmethod
    def of(cls, members: NDArray[Any], count: int) -> Bags:
        """Sort rows by bag; bags may be empty."""
        sizes = np.bincount(members, minlength=count).astype(np.intp)
        return cls(np.argsort(members, kind="stable"), members.astype(np.intp), np.cumsum(sizes) - sizes, sizes)

    def sums(self, table: Floats) -> Floats:
        """Sum rows (n, ...) by bag."""
        return self.sums_sorted(table[self.order])

    def sums_sorted(self, table: Floats) -> Floats:
        """Sum rows that stand in the order of their bags."""
        out = np.zeros((len(self.sizes), *table.shape[1:]))
        full = self.sizes > 0
        out[full] = np.add.reduceat(table, self.starts[full], axis=0)
        return out


def tilted(table: Floats, bags: Bags, counts: Any, variance: float) -> Floats:
    """Return the mean-field posterior of rows (n, K) given noisy counts (B, F) of the first F labels."""
    free = counts.shape[1]
    known = table[bags.order]
    logs = np.log(np.maximum(known, 1e-300))
    owner = np.repeat(np.arange(len(bags.sizes)), bags.sizes)
    lam = np.zeros((len(bags.sizes), free))
    law = known
    value = np.full(len(lam), np.inf)
    step = np.zeros_like(lam)
    length = np.ones(len(lam))
    eye = np.eye(free)
    for _ in range(_STEPS):
        tried = np.clip(lam + length[:, None] * step, -_LARGEST, _LARGEST)
        law, objective = _law(logs, tried, owner, bags, counts, variance)
        better = objective <= value + 1e-12 * np.abs(np.where(np.isfinite(value), value, 1.0))
        lam = np.where(better[:, None], tried, lam)
        value = np.where(better, objective, value)
        # A step that climbs is halved; the others go on from where they are.
        length = np.where(better, 1.0, length / 2)
        if not better.all():
            law, _ = _law(logs, lam, owner, bags, counts, variance)
        part = law[:, :free]
        slope = variance * lam + bags.sums_sorted(part) - counts
        if float(np.abs(slope).max(initial=0.0)) < _TOLERANCE * max(1.0, float(np.abs(counts).max(initial=0))):
            break
        curve = -bags.sums_sorted(part[:, :, None] * part[:, None, :])
        curve += eye * (bags.sums_sorted(part) + variance)[:, :, None]
        step = -np.linalg.solve(curve, slope[:, :, None])[:, :, 0]
    law, _ = _law(logs, lam, owner, bags, counts, variance)
    out = np.empty_like(law)
    out[bags.order] = law
    return out


def _law(
    logs: Floats, lam: Floats, owner: NDArray[np.intp], bags: Bags, counts: Any, variance: float
) -> tuple[Floats, Floats]:
    """Return the tilted rows, and the convex objective of every bag."""
    free = lam.shape[1]
    scores = logs.copy()
    scores[:, :free] += lam[owner]
    top = scores.max(axis=1, keepdims=True)
    law = np.exp(scores - top)
    total = law.sum(axis=1, keepdims=True)
    partition = np.log(total[:, 0]) + top[:, 0]
    objective = 0.5 * variance * (lam**2).sum(axis=1) + bags.sums_sorted(partition) - (counts * lam).sum(axis=1)
    return law / total, objective
