"""What leaves the owner: a frozen result with its guarantee and all that a learner needs."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, final

from labeldp.errors import InputError
from labeldp.guarantee.value import Estimate, Guarantee

if TYPE_CHECKING:
    import os
    from fractions import Fraction

    import pyarrow as pa

    from labeldp.labels import LabelSpace


@cache
def library_version() -> str:
    """Return the installed version of the package."""
    from importlib.metadata import version

    return version("labeldp")


@final
@dataclass(frozen=True)
class Stamp:
    """Public facts about how a release came about; nothing in it depends on a label."""

    guarantee: Guarantee | Estimate
    coins: str
    request: str
    dataset: str = ""
    version: str = ""
    part: str = ""
    column: str = "label"
    id_column: str = "id"
    ledger_head: str | None = None
    release_id: str | None = None
    labels_per_person: int | None = None
    library: str = ""

    @property
    def person_guarantee(self) -> Guarantee | Estimate | None:
        """What is promised to a person who owns several labels."""
        if self.labels_per_person is None or isinstance(self.guarantee, Estimate):
            return None
        return self.guarantee.for_group(self.labels_per_person)

    def to_json(self) -> dict[str, Any]:
        """Return the facts as JSON; what is promised is not among them (see :mod:`labeldp.release.promise`)."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "guarantee"}

    @staticmethod
    def from_json(facts: dict[str, Any]) -> Stamp:
        """Read what :meth:`to_json` wrote, and refuse facts that no release could have; nothing is promised yet."""
        stamp = Stamp(guarantee=Estimate(math.inf, 1.0, "what the release holds was not derived yet"), **facts)
        texts = {**facts, "ledger_head": stamp.ledger_head or "", "release_id": stamp.release_id or ""}
        owned = texts.pop("labels_per_person", None)
        if not all(isinstance(value, str) for value in texts.values()):
            raise InputError("Expected texts for the facts about a release.")
        if owned is not None and (type(owned) is not int or owned < 1):
            raise InputError(f"Expected at least one label a person, got {owned!r}.")
        return stamp


class Release(ABC):
    """A released result.  Learners accept one; raw labels they refuse."""

    kind: ClassVar[str]
    stamp: Stamp

    @property
    @abstractmethod
    def space(self) -> LabelSpace:
        """The label space of the true labels."""

    @abstractmethod
    def to_table(self) -> tuple[dict[str, Any], pa.Table]:
        """Return the public description and the columns that a file holds."""

    @abstractmethod
    def held(self, epsilon: Fraction | None = None) -> Guarantee:
        """Return what follows from the content alone (channel, noise, sensitivity), and never from the stamp.

        What a release promises is held against this, when it is written and when it is read.  Trust is the best that
        releases of the kind can have.  Where a curve is abbreviated, it stays exact at ``epsilon``.
        """

    @final
    @property
    def guarantee(self) -> Guarantee | Estimate:
        """What is promised for every single label; an estimate where nothing can be."""
        return self.stamp.guarantee

    @final
    @property
    def person_guarantee(self) -> Guarantee | Estimate | None:
        """What is promised to a person who owns several of the labels, if the owner declared persons."""
        return self.stamp.person_guarantee

    @final
    @property
    def private(self) -> bool:
        """Whether the coins were secret."""
        return self.stamp.coins != "seeded"

    @final
    def write(self, path: str | os.PathLike[str]) -> None:
        """Write the release to a Parquet file, or to CSV with a JSON sidecar, by the file's ending.

        The file is complete or absent: it is written beside its place, synced and renamed.
        """
        from labeldp.release.files import write_release

        write_release(self, path)
