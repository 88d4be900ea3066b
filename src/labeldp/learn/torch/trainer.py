"""A small trainer on evidence: counts of bags, released labels, or soft targets; no labels anywhere."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from labeldp.errors import InputError, LabeldpError, ShapeError
from labeldp.learn.evidence import Evidence
from labeldp.learn.torch.backend import torch_module
from labeldp.learn.torch.losses import bag_loss, forward_loss, soft_target_loss

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@final
class DivergedError(LabeldpError):
    """The loss became no number; ``state`` holds the weights before that, ``epoch`` and ``batch`` say where."""


@final
@dataclass(frozen=True)
class Recipe:
    """How to train: one-cycle Adam with decoupled weight decay."""

    epochs: int = 30
    rate: float = 2e-3
    decay: float = 1e-3
    #: Rows a batch; with bags, as many bags as hold about so many.
    batch: int = 1024
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("epochs", "batch"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"Expected {name} to be an integer from 1 upwards, got {value!r}.")
        if not (self.rate > 0 and self.decay >= 0):
            raise InputError(f"Expected rate > 0 and decay >= 0, got {self.rate!r} and {self.decay!r}.")


@final
@dataclass(frozen=True, eq=False)
class Trained:
    """A trained network and the mean loss of every epoch."""

    network: Any
    losses: tuple[float, ...]

    def probabilities(self, X: Any, batch: int = 8192) -> Floats:
        """P(label | features), (n, K)."""
        torch = torch_module()
        table = as_table(X)
        self.network.eval()
        with torch.inference_mode():
            parts = [
                torch.softmax(self.network(torch.from_numpy(table[start : start + batch])).double(), dim=1).numpy()
                for start in range(0, len(table), batch)
            ]
        result: Floats = np.concatenate(parts)
        return result


def as_table(X: Any) -> NDArray[np.float32]:
    """Read features as a dense table of 32-bit floats."""
    table = np.asarray(X.toarray() if hasattr(X, "toarray") else X, np.float32)
    if table.ndim != 2:
        table = table.reshape(len(table), -1)
    if not np.isfinite(table).all():
        raise ShapeError(
            "Expected features that are finite numbers. Encode or impute them first; labeldp.features does."
        )
    return np.ascontiguousarray(table)


def train(
    network: Any,
    X: Any,
    evidence: Evidence | None,
    recipe: Recipe,
    *,
    targets: Floats | None = None,
    tell: Callable[[int, float], None] | None = None,
) -> Trained:
    """Train a network on evidence, on soft ``targets`` (n, K), or on both, whose losses then add up."""
    torch = torch_module()
    table = as_table(X)
    rows = len(table)
    for found in (evidence, targets):
        if found is not None and len(found) != rows:
            raise ShapeError(f"Expected evidence on {rows} rows, as many as features, got {len(found)}.")
    losses: list[float] = []
    with seeded(recipe.seed):
        batches = _Batches(table, evidence, targets, recipe)
        optimiser = torch.optim.AdamW(network.parameters(), lr=recipe.rate, weight_decay=recipe.decay)
        steps = recipe.epochs * batches.per_epoch
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimiser, max_lr=recipe.rate, total_steps=max(steps, 2), pct_start=0.15
        )
        for epoch in range(recipe.epochs):
            network.train()
            total, seen = 0.0, 0
            good = copy.deepcopy(network.state_dict())
            for number, (batch, loss_of) in enumerate(batches.shuffled()):
                loss = loss_of(network(batch))
                value = float(loss.detach())
                if not math.isfinite(value):
                    network.load_state_dict(good)
                    raise DivergedError(
                        f"The loss became {value} in batch {number} of epoch {epoch}. The weights from before that "
                        "epoch are kept, as .state; try a smaller rate, or scale the features.",
                        state=good,
                        epoch=epoch,
                        batch=number,
                    )
                optimiser.zero_grad(set_to_none=True)
                loss.backward()
                optimiser.step()
                schedule.step()
                total, seen = total + value * len(batch), seen + len(batch)
            losses.append(total / max(seen, 1))
            if tell is not None:
                tell(epoch, losses[-1])
    network.eval()
    return Trained(network, tuple(losses))


@final
class _Batches:
    """Batches of rows, or of whole bags, in a new order every epoch."""

    def __init__(
        self, table: NDArray[np.float32], evidence: Evidence | None, targets: Floats | None, recipe: Recipe
    ) -> None:
        torch = torch_module()
        self._torch = torch
        self._table = torch.from_numpy(table)
        self._targets = None if targets is None else torch.from_numpy(np.asarray(targets, np.float32))
        released = None if evidence is None or evidence.rows is None else evidence.rows.likelihood
        self._likelihood = None if released is None else torch.from_numpy(released.astype(np.float32))
        bags = () if evidence is None else evidence.bags
        if len(bags) > 1:
            raise InputError(f"Expected counts of one set of bags, got {len(bags)}. Use ForwardCorrected for more.")
        self._bag = bags[0] if bags else None
        if self._bag is None:
            self._starts = list(range(0, len(table), recipe.batch))
            self.per_epoch = len(self._starts)
            self._batch = recipe.batch
        else:
            self._grouped = self._bag.grouped
            self._counts = torch.from_numpy(self._bag.counts.astype(np.float32))
            self.per_epoch = len(self._packed(np.arange(len(self._counts)), recipe.batch))
            self._batch = recipe.batch
        if self._bag is None and self._likelihood is None and self._targets is None:
            raise InputError("Expected evidence or targets to learn from, got neither.")

    def shuffled(self) -> Iterator[tuple[Any, Callable[[Any], Any]]]:
        torch = self._torch
        if self._bag is None:
            order = torch.randperm(len(self._table))
            for start in self._starts:
                rows = order[start : start + self._batch]
                yield self._table[rows], self._loss(rows, None, None)
            return
        bags = self._packed(torch.randperm(len(self._counts)).numpy(), self._batch)
        # As many batches as announced: another order can pack bags a little differently.
        for some in bags[: self.per_epoch]:
            rows = np.concatenate([self._members(bag) for bag in some])
            owner = np.repeat(np.arange(len(some)), self._grouped.sizes[some])
            index = torch.from_numpy(rows)
            yield self._table[index], self._loss(index, torch.from_numpy(owner), torch.from_numpy(some))

    def _loss(self, rows: Any, owner: Any, bags: Any) -> Callable[[Any], Any]:
        def loss(logits: Any) -> Any:
            total: Any = 0.0
            if owner is not None and self._bag is not None:
                total = total + bag_loss(logits, owner, self._counts[bags], self._bag.variance, self._bag.free)
            if self._likelihood is not None:
                total = total + forward_loss(logits, self._likelihood[rows])
            if self._targets is not None:
                total = total + soft_target_loss(logits, self._targets[rows])
            return total

        return loss

    def _members(self, bag: int) -> NDArray[np.intp]:
        start = self._grouped.starts[bag]
        members: NDArray[np.intp] = self._grouped.order[start : start + self._grouped.sizes[bag]]
        return members

    def _packed(self, order: NDArray[Any], rows: int) -> list[NDArray[np.intp]]:
        """Cut bags in an order into runs of about ``rows`` rows."""
        ends = np.cumsum(self._grouped.sizes[order])
        # A bag belongs to the run in which its middle row falls.
        run = ((ends - self._grouped.sizes[order] / 2) // rows).astype(int)
        return [part for part in np.split(order.astype(np.intp), np.flatnonzero(np.diff(run)) + 1) if len(part)]


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Fix torch's generator for a while; afterwards it is as before."""
    torch = torch_module()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield
