"""What a mechanism is: a plan made from public data alone, and then one draw.

Everything that depends on public data (sensitivities, sets, clusters, budgets, errors) is settled by ``plan``;
``draw`` is the only place where a label is touched, after the charge, and it cannot fail for a label's sake.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

from labeldp.errors import DeltaWarning

if TYPE_CHECKING:
    from labeldp.coins import CoinSession, RowBits
    from labeldp.guarantee.value import Guarantee
    from labeldp.ids import RowIds
    from labeldp.labels import Codes, LabelSpace


@final
@dataclass(frozen=True)
class PublicData:
    """What everybody may know of a table before anything is released."""

    space: LabelSpace
    ids: RowIds
    features: Any = None
    bags: Any = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.ids)


@final
@dataclass(frozen=True)
class CoinAccess:
    """The coins a draw may use: bits of the data's rows, and bits of numbered bins."""

    session: CoinSession
    ids: RowIds
    context: tuple[bytes, ...]

    def rows(self, purpose: str) -> RowBits:
        """Bits that belong to the rows of the data."""
        return self.session.bits(self.ids, purpose, *self.context)

    def bins(self, purpose: str, count: int) -> RowBits:
        """Bits that belong to the numbered bins of a statistic; drawn once and stored, so numbers suffice."""
        from labeldp.ids import RowIds

        return self.session.bin_bits(RowIds.positions(count), purpose, *self.context)


@runtime_checkable
class Drawn(Protocol):
    """The result of a draw, before it is stamped as a release."""


@final
@dataclass(frozen=True)
class Plan:
    """A settled request: its guarantee, its public description, and the draw."""

    guarantee: Guarantee
    #: Public JSON that identifies the request: equal descriptions and parameters mean the same request.
    description: dict[str, Any]
    #: Digest of the public per-row parameters, bound to row ids; empty where there are none.
    parameters: bytes
    draw: Callable[[Codes, CoinAccess], Drawn]


def warn_of_delta(guarantee: Guarantee, rows: int) -> None:
    """Warn, where the user called the library, of a delta that permits publishing one of the labels (ERRATA F6)."""
    delta = guarantee.charge().delta
    if delta * rows >= 1:
        warnings.warn(
            f"delta={float(delta):.3g} is not below 1/n = {1 / rows:.3g} for {rows} rows: it permits publishing one of "
            "the labels outright. Choose a delta far below 1/n.",
            DeltaWarning,
            stacklevel=_frames_of_ours() + 1,
        )


def _frames_of_ours() -> int:
    """Count the frames of this package above the caller of it."""
    frame, count = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("labeldp."):
        frame, count = frame.f_back, count + 1
    return count - 1


@runtime_checkable
class Mechanism(Protocol):
    """Anything that can be planned on public data: a channel is the simplest one."""

    @property
    def space(self) -> LabelSpace:
        """The label space the mechanism is declared for."""

    def plan(self, public: PublicData) -> Plan:
        """Settle everything that public data decide, or raise an ``InputError``."""
