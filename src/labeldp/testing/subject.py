"""What a law looks at: a channel under test; and what laws have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn, final

import numpy as np

from labeldp.channels.base import TOTAL, FiniteChannel
from labeldp.channels.restore import restore_channel
from labeldp.labels import code_type

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.labels import Codes

    Floats = NDArray[np.float64]
    Words = NDArray[np.uint64]
    Restorer = Callable[[dict[str, Any], dict[str, NDArray[Any]]], FiniteChannel]


class BrokenLawError(AssertionError):
    """A channel breaks a law; ``law`` is the law's name."""

    def __init__(self, law: str, message: str) -> None:
        """Name the law in the message."""
        super().__init__(f"{law}: {message}")
        self.law = law


@final
@dataclass(frozen=True)
class Subject:
    """A channel under test, and what is known of how it was made.

    ``asked`` is the epsilon that was asked for, ``tight`` whether the mechanism is meant to spend all of it.
    """

    channel: FiniteChannel
    asked: Fraction | None = None
    tight: bool = True
    coins_seed: int = 0
    draws: int = 200_000
    restore: Restorer = restore_channel
    notes: list[str] = field(default_factory=list, compare=False)

    @cached_property
    def tables(self) -> list[NDArray[np.int64]]:
        """All integer tables, by context."""
        return [self.channel.weights_of(context) for context in range(self.channel.contexts)]

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """All rows of the channel, or a few where any row will do."""
        return np.arange(3 if self.channel.rows is None else self.channel.rows)

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """One (row, context) for every context that occurs in a row."""
        found: dict[int, int] = {}
        for row in self.rows.tolist():
            found.setdefault(self.channel.context_of(row), row)
        return [(row, context) for context, row in found.items()]

    def table_of(self, row: int) -> Floats:
        """P(released | true) of one row."""
        return self.tables[self.channel.context_of(row)] / float(TOTAL)

    def of_rows(self, rows: NDArray[np.intp]) -> FiniteChannel:
        """Return the channel of some rows, which may repeat."""
        return self.channel if self.channel.rows is None else self.channel.take(rows)

    def draw(self, rows: NDArray[np.intp], codes: NDArray[Any], words: Words) -> Codes:
        """Release ``codes`` of ``rows`` from given words."""
        return self.of_rows(rows)._draw(codes.astype(code_type(self.channel.space.size)), words, 0)


def all_codes(subject: Subject) -> list[NDArray[np.intp]]:
    """Return released codes for all rows such that every row meets every code."""
    outputs = subject.channel.released_space.size
    return [(subject.rows + shift) % outputs for shift in range(outputs)]


def spread(count: int, start: int = 0) -> Floats:
    """Return numbers that spread evenly over [0, 1): multiples of the golden ratio."""
    return np.asarray((np.arange(1, count + 1) + 1000 * start) * 0.618_033_988_749_894_9 % 1.0, np.float64)


def probabilities(rows: int, size: int) -> Floats:
    """Return rows of positive probabilities."""
    numbers = 0.05 + spread(rows * size, 5).reshape(rows, size)
    laws: Floats = numbers / numbers.sum(axis=1, keepdims=True)
    return laws


def close(
    law: Callable[[Subject], None], got: Floats, expected: Floats, relative: float, *, least: float | None = None
) -> None:
    """Raise unless both arrays agree, in shape too; ``least`` is the absolute tolerance."""
    absolute = relative if least is None else least
    if got.shape != expected.shape or not np.allclose(got, expected, relative, absolute):
        broken(law, f"expected {expected}, got {got}")


def broken(law: Callable[[Subject], None], message: str) -> NoReturn:
    """Raise :class:`BrokenLawError`, naming the law."""
    raise BrokenLawError(law.__name__, message)
