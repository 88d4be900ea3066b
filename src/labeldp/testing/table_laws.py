"""Laws of the integer table, and of epsilon."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Final

import numpy as np

from labeldp.channels.base import TOTAL
from labeldp.exact import float_up, log_up
from labeldp.testing.brute_force import largest_ratio
from labeldp.testing.subject import Subject, broken

#: Beyond this epsilon no table of 2^62 need come within 1e-9 of what was asked.
ATTAINABLE: Final = 16


def rows_sum_to_the_scale(subject: Subject) -> None:
    """Weights are integers >= 0 of the declared shape, and every row sums to 2^62."""
    shape = subject.channel.space.size, subject.channel.released_space.size
    for context, table in enumerate(subject.tables):
        if table.shape != shape or table.dtype.kind not in "iu":
            broken(rows_sum_to_the_scale, f"table {context} has shape {table.shape} and type {table.dtype}")
        for label, row in enumerate(table.tolist()):
            if min(row) < 0 or sum(row) != TOTAL:
                broken(rows_sum_to_the_scale, f"row {label} of table {context} sums to {sum(row)}: {row[:8]}")


def contexts_are_numbered(subject: Subject) -> None:
    """Every row has one of the tables; a channel for any rows has one table."""
    channel = subject.channel
    if channel.rows is None and channel.contexts != 1:
        broken(contexts_are_numbered, f"any row will do, but there are {channel.contexts} tables")
    for row in subject.rows.tolist():
        if not 0 <= channel.context_of(row) < channel.contexts:
            broken(contexts_are_numbered, f"row {row} has table {channel.context_of(row)} of {channel.contexts}")


def epsilon_is_the_largest_ratio(subject: Subject) -> None:
    """Epsilon is the largest log ratio of two weights of one released label, in exact arithmetic, rounded up."""
    channel = subject.channel
    largest = largest_ratio(subject.tables)
    expected = None if largest is None else log_up(largest)
    if channel.epsilon_exact != expected:
        broken(epsilon_is_the_largest_ratio, f"expected {expected}, got {channel.epsilon_exact}")
    shown = math.inf if expected is None else float_up(expected)
    if channel.epsilon != shown or (expected is not None and Fraction(channel.epsilon) < expected):
        broken(epsilon_is_the_largest_ratio, f"as a float expected {shown!r}, got {channel.epsilon!r}")


def epsilon_is_what_was_asked(subject: Subject) -> None:
    """Realised epsilon is at most the asked one, and within 1e-9 of it where weights are fine enough."""
    if subject.asked is None:
        return
    realised = subject.channel.epsilon_exact
    if realised is None or realised > subject.asked:
        shown = "infinity" if realised is None else float(realised)
        broken(epsilon_is_what_was_asked, f"asked for {float(subject.asked)!r}, got {shown!r}")
    smallest = min(int(table[table > 0].min()) for table in subject.tables)
    # A table cannot be finer than its smallest weight.
    slack = Fraction(1, 10**9) + Fraction(subject.channel.space.size + 4, smallest)
    if subject.tight and subject.asked <= ATTAINABLE and subject.asked - realised > slack:
        broken(epsilon_is_what_was_asked, f"asked for {float(subject.asked)!r}, attained only {float(realised)!r}")


def transition_is_the_table(subject: Subject) -> None:
    """``transition`` is the table over 2^62."""
    expected = np.stack(subject.tables) / float(TOTAL)
    got = subject.channel.transition
    if not np.array_equal(got, expected[0] if len(expected) == 1 else expected):
        broken(transition_is_the_table, "transition differs from weights / 2^62")
