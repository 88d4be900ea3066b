"""Facts about channels made of channels."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import LabelSpace, PriorRandomizedResponse, RandomizedResponse, ResampledResponse, TopKRandomizedResponse
from labeldp.channels import FiniteChannel, TableChannel, constant_channel, identity_channel
from labeldp.errors import EpsilonError, ShapeError, SpaceMismatchError
from labeldp.testing.strategies import made_channels
from tests.channels.helpers import complaint, exp_bounds, largest_ratio, random_epsilon, random_law, space

F = Fraction


def random_channel(generator: np.random.Generator, size: int, least: float = 1e-17) -> FiniteChannel:
    """A channel for any rows: of any family, private or not, of epsilons from what a table just holds to 40."""
    labels, epsilon = space(size), random_epsilon(generator, least, 40.0)
    kind = generator.integers(6)
    try:
        match kind:
            case 0:
                return RandomizedResponse(labels, epsilon)
            case 1:
                top = generator.choice(size, generator.integers(1, size + 1), replace=False)
                return TopKRandomizedResponse(labels, epsilon, top)
            case 2:
                return ResampledResponse(labels, generator.dirichlet(np.ones(size)) * 0.99 + 0.01 / size, epsilon)
            case 3:
                return TableChannel(labels, np.stack([random_law(generator, size) for _ in range(size)]))
            case 4:
                return identity_channel(labels)
            case _:
                return constant_channel(labels, 0)
    except EpsilonError:  # an epsilon that no table can hold
        return constant_channel(labels, 1)


def bounded(channel: FiniteChannel, bound: Fraction | None) -> bool:
    """Whether a channel's tables, by brute force, cost no more than a bound; None stands for infinity."""
    ratios = [largest_ratio(channel.weights_of(context).tolist()) for context in range(channel.contexts)]
    if None in ratios:
        return bound is None
    return bound is None or max(r for r in ratios if r is not None) <= exp_bounds(bound)[0]


def pairs(first: FiniteChannel, second: FiniteChannel, row: int = 0) -> Any:
    """The joint table of two independent releases of one label."""
    left, right = (c.weights_of(c.context_of(row)) / 2.0**62 for c in (first, second))
    return (left[:, :, None] * right[:, None, :]).reshape(len(left), -1)


def mixture(table: Any, bound: Fraction | None) -> float:
    """How much of a table rounding may mix away to stay within a bound.

    A unit of 2^-62, and float error, lift the ratio of a column from hi / lo; a share s of the mean law, which has at
    least hi / K there, lowers its logarithm by s / K (hi / lo - 1), and shares are powers of two.
    """
    if not bound:
        return 1e-12
    highest = table.max(axis=0)
    units = 2.0**-62 / highest[highest > 0].min() + 2.0**-50
    return 1e-12 + 2 * len(table) * units / -math.expm1(-float(bound))


def test_what_comes_after_costs_nothing() -> None:
    """Data processing: over 1500 pairs of channels, of epsilons from 1e-17 up, none costs more than its first part."""
    generator = np.random.default_rng(1)
    above, distance = [], 0.0
    for _ in range(1500):
        size = int(generator.integers(2, 7))
        first, second = random_channel(generator, size), random_channel(generator, size)
        joined = first.followed_by(second)
        if not bounded(joined, first.epsilon_exact):
            above.append((first, second))
        distance = max(distance, float(np.abs(joined.transition - first.transition @ second.transition).max()))

    assert [] == above
    assert distance <= 1e-12


def test_two_releases_cost_no_more_than_their_sum() -> None:
    """Composition: over 1500 pairs of channels the joint table costs at most both epsilons together."""
    generator = np.random.default_rng(2)
    above, distance = [], 0.0
    for _ in range(1500):
        size = int(generator.integers(2, 5))
        first, second = random_channel(generator, size), random_channel(generator, size)
        costs = first.epsilon_exact, second.epsilon_exact
        joint = first.product(second)
        if not bounded(joint, None if None in costs else sum(costs, F(0))):
            above.append((first, second))
        distance = max(distance, float(np.abs(joint.transition - pairs(first, second)).max()))

    assert [] == above
    assert distance <= 1e-12


def test_rounding_alone_would_exceed_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds above have power: without the mixture that rounding costs, some pairs exceed them."""
    from labeldp.channels import algebra

    rounded = algebra.to_weights
    monkeypatch.setattr(algebra, "to_weights", lambda joint, _bound, **_options: rounded(joint, None))
    generator = np.random.default_rng(3)
    above = 0
    for _ in range(300):
        first = RandomizedResponse(space(3), random_epsilon(generator, 1e-9, 2.0))
        above += not bounded(first.followed_by(identity_channel(space(3))), first.epsilon_exact)
        above += not bounded(first.product(constant_channel(space(3), 0)), first.epsilon_exact)

    assert above > 30


@pytest.mark.parametrize("epsilon", ["1e-17", "2e-17", "1e-16", "3e-16", "1e-15", "1e-14", "1e-12", "1e-9"])
def test_tiny_epsilons_survive(epsilon: str) -> None:
    """Where float error is larger than epsilon itself, channels can still be joined, within the bound."""
    first, second = RandomizedResponse(space(3), epsilon), RandomizedResponse(space(3), 2.0)

    assert bounded(first.followed_by(second), first.epsilon_exact)
    assert bounded(first.product(constant_channel(space(3), 0)), first.epsilon_exact)
    assert bounded(constant_channel(space(3), 0).followed_by(second), F(0))


@given(first=made_channels(most_labels=4), seed=st.integers(0, 2**32 - 1))
def test_bounds_hold_for_whatever_hypothesis_draws(first: Any, seed: int) -> None:
    """Grouped channels, channels by row and other released labels obey the same bounds."""
    generator = np.random.default_rng(seed)
    channel = first.channel
    after = RandomizedResponse(channel.released_space, random_epsilon(generator, 1e-6, 20.0))
    beside = RandomizedResponse(channel.space, random_epsilon(generator, 1e-6, 20.0))
    joined, joint = channel.followed_by(after), channel.product(beside)
    cost = channel.epsilon_exact

    assert bounded(joined, cost)
    assert bounded(joint, None if cost is None else cost + beside.epsilon_exact)
    assert (channel.rows, channel.rows) == (joined.rows, joint.rows)
    for row in range(1 if channel.rows is None else channel.rows):
        table = channel.weights_of(channel.context_of(row)) / 2.0**62
        through, both = table @ after.transition, pairs(channel, beside, row)
        got = joined.weights_of(joined.context_of(row)) / 2.0**62
        assert np.abs(through - got).max() <= mixture(through, cost)
        got = joint.weights_of(joint.context_of(row)) / 2.0**62
        assert np.abs(both - got).max() <= mixture(both, None if cost is None else cost + beside.epsilon_exact)


def test_the_identity_changes_nothing() -> None:
    """Before or after the identity a channel keeps its law, up to rounding; after a constant nothing is left."""
    channel = RandomizedResponse(space(4), 1.0)

    assert np.allclose(channel.transition, channel.followed_by(identity_channel(space(4))).transition, atol=1e-15)
    assert np.allclose(channel.transition, identity_channel(space(4)).followed_by(channel).transition, atol=1e-15)
    assert F(0) == channel.followed_by(constant_channel(space(4), 2)).epsilon_exact
    assert F(0) == constant_channel(space(4), 2).followed_by(channel).epsilon_exact


def test_more_noise_costs_less() -> None:
    """Two responses after each other are one with a smaller epsilon; beside each other they cost the sum."""
    channel = RandomizedResponse(space(3), 1.0)
    joined, joint = channel.followed_by(channel), channel.product(channel)

    assert 0.3 < joined.epsilon < 0.4
    assert complaint(joint, joint.epsilon_exact, spends=False) is None
    assert 2.0 - joint.epsilon < 1e-9
    assert joint.epsilon <= 2 * channel.epsilon


def test_pairs_have_names() -> None:
    """The released labels of a product are pairs, in the order of both spaces, and distinct."""
    plain = RandomizedResponse(LabelSpace(["a", "b"]), 1.0)
    odd = RandomizedResponse(LabelSpace(["a & b", "a", "b & b", "b"]), 1.0)
    swapped = RandomizedResponse(LabelSpace(["a & b", "a", "b & b", "b"]), 2.0)
    pair = odd.product(swapped).released_space

    assert ("a & a", "a & b", "b & a", "b & b") == plain.product(plain).released_space.labels
    assert 16 == len(set(pair.labels))


def test_groups_meet() -> None:
    """Channels by row and by group are joined row by row, with one table for each pair that occurs."""
    prior = [[0.8, 0.1, 0.1], [0.8, 0.1, 0.1], [0.4, 0.3, 0.3], [0.4, 0.3, 0.3]]
    by_row = PriorRandomizedResponse(space(3), 1.0, prior)
    grouped = ResampledResponse(space(3), [[0.5, 0.25, 0.25], [0.2, 0.2, 0.6]], 1.0, groups=[0, 1, 0, 1])
    joint = by_row.product(grouped)

    assert (4, 4) == (joint.rows, joint.contexts)
    assert 2 == by_row.followed_by(RandomizedResponse(space(3), 1.0)).contexts
    for row in range(4):
        got = joint.weights_of(joint.context_of(row)) / 2.0**62
        assert np.allclose(pairs(by_row, grouped, row), got)


def test_spaces_and_rows_must_fit() -> None:
    """A channel on other labels, or of another number of rows, is refused."""
    three, four = RandomizedResponse(space(3), 1.0), RandomizedResponse(space(4), 1.0)
    two_rows, one_row = (PriorRandomizedResponse(space(3), 1.0, np.full((rows, 3), 1 / 3)) for rows in (2, 1))

    with pytest.raises(SpaceMismatchError, match=r"^Expected a second channel on"):
        three.followed_by(four)
    with pytest.raises(SpaceMismatchError, match=r"^Expected a channel on"):
        three.product(four)
    for join in (two_rows.followed_by, two_rows.product):
        with pytest.raises(ShapeError, match=r"^Expected channels of as many rows, got 2 and 1"):
            join(one_row)


def test_tables_of_very_many_rows_are_not_joined() -> None:
    """Joining needs a table for each pair that occurs: too many are refused before they are made."""
    generator = np.random.default_rng(4)
    by_row = PriorRandomizedResponse(space(60), 3.0, generator.dirichlet(np.ones(60), 20_000))

    with pytest.raises(ShapeError, match="Release through the first"):
        by_row.followed_by(RandomizedResponse(space(60), 1.0))
