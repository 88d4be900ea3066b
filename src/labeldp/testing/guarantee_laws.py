"""Laws of the guarantee that a channel states."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from typing import TYPE_CHECKING

from labeldp.errors import EpsilonError
from labeldp.guarantee.value import Guarantee
from labeldp.testing.brute_force import hockey_stick, renyi
from labeldp.testing.subject import Subject, broken

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def guarantee_is_that_of_the_table(subject: Subject) -> None:
    """Epsilon, delta and Renyi divergence of the guarantee are those of the worst pair of rows, never below."""
    law = guarantee_is_that_of_the_table
    channel = subject.channel
    if channel.epsilon_exact is None:
        try:
            promised = channel.guarantee
        except EpsilonError:
            return
        if math.isfinite(promised.epsilon()):
            broken(law, f"an output rules out a label, but the guarantee says epsilon = {promised.epsilon()}")
        return
    guarantee = channel.guarantee
    top = channel.epsilon
    if guarantee.epsilon() != top or guarantee.charge().epsilon != channel.epsilon_exact:
        broken(law, f"epsilon {top!r} of the table, {guarantee.epsilon()!r} of the guarantee")
    if guarantee.trust != "local" or guarantee.neighbour != "one label replaced":
        broken(law, f"a channel is local and hides one label, but the guarantee says: {guarantee}")
    tables = _distinct(subject.tables)
    for epsilon in (0.0, top / 3, 0.99 * top, top, 2 * top):
        low, high = hockey_stick(tables, epsilon)
        got = guarantee.delta(epsilon)
        if not low <= Fraction(got) <= high * Fraction(1 + 1e-9) + Fraction(1, 10**13):
            broken(law, f"delta({epsilon!r}) of the table is {float(high)!r}, of the guarantee {got!r}")
    for alpha in (1.0, 1.5, 2.0, 8.0, math.inf):
        expected = renyi(tables, alpha)
        got = guarantee.renyi(alpha)
        slack = 1e-9 * (1 + expected)
        # The brute force is in floats; the guarantee is rounded up.
        if not expected - 1e-13 * (1 + expected) <= got <= expected + slack:
            broken(law, f"the divergence of order {alpha} is {expected!r}, of the guarantee {got!r}")


def guarantee_survives_json(subject: Subject) -> None:
    """A guarantee written as JSON and read back is the same guarantee."""
    if subject.channel.epsilon_exact is None:
        return
    guarantee = subject.channel.guarantee
    read = Guarantee.from_json(json.loads(json.dumps(guarantee.to_json())))
    same = read == guarantee and hash(read) == hash(guarantee)
    if not same or read.delta(0.1) != guarantee.delta(0.1) or str(read) != str(guarantee):
        broken(guarantee_survives_json, f"{guarantee} became {read}")


def _distinct(tables: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    return list({table.tobytes(): table for table in tables}.values())
