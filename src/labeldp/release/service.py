"""What a learner may ask of whoever holds the labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    from labeldp.labels import LabelSpace
    from labeldp.plan import Mechanism
    from labeldp.release.base import Release
    from labeldp.release.statistics import BagRelease


@runtime_checkable
class LabelService(Protocol):
    """Priors and row positions go in, releases come back; raw labels never do.

    In one process it is a ``Curator``; between two organisations it is a service.
    """

    @property
    def space(self) -> LabelSpace:
        """The declared label space."""

    def __len__(self) -> int:
        """Return the number of rows."""

    def release(self, mechanism: Mechanism, *, rows: object = None) -> Release:
        """Release through a mechanism, for all rows or for those at some positions; charged before it is drawn."""

    def count(self, bags: object, epsilon: object, delta: object = 0) -> BagRelease:
        """Release the noisy label counts of bags, one number a row, that were formed without the labels."""
