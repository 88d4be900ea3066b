"""What a mechanism is: a plan made from public data alone, and then one draw.

Everything that depends on public data (sensitivities, sets, clusters, budgets, errors) is settled by ``plan``;
``draw`` is the only place where a label is touched, after the charge, and it cannot fail for a label's sake.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, final, runtime_checkable

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


@runtime_checkable
class Mechanism(Protocol):
    """Anything that can be planned on public data: a channel is the simplest one."""

    @property
    def space(self) -> LabelSpace:
        """The label space the mechanism is declared for."""

    def plan(self, public: PublicData) -> Plan:
        """Settle everything that public data decide, or raise an ``InputError``."""
