"""Facts about channels given by a matrix, and about its rounding to integers."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import LabelSpace, RandomizedResponse, TableChannel
from labeldp.channels import TOTAL, constant_channel, identity_channel
from labeldp.channels.table import to_weights
from labeldp.errors import (
    BiasWarning,
    EmptyInputError,
    EpsilonError,
    InputError,
    MatrixError,
    ShapeError,
    SpaceMismatchError,
    UnknownLabelError,
)
from labeldp.testing.strategies import made_channels, stochastic_matrices
from tests.channels.helpers import BAD_EPSILONS, complaint, exp_bounds, largest_ratio, public, random_epsilon, space

F = Fraction


def private_matrix(generator: np.random.Generator, size: int, outputs: int, epsilon: float) -> Any:
    """A stochastic matrix whose epsilon is the given one, or a little less: columns vary between 1 and e^eps."""
    table = np.exp(epsilon * generator.integers(0, 2, (size, outputs)) / 2.0)
    table *= generator.dirichlet(np.ones(outputs)) + 1e-6
    table = table / table.sum(axis=1, keepdims=True)
    # Normalising rows can double a ratio's logarithm at most.
    own = float(np.log(table.max(axis=0) / table.min(axis=0)).max())
    assert own <= epsilon
    return table


# ---- rounding ----------------------------------------------------------------------------------------------


def test_no_rounded_table_exceeds_epsilon() -> None:
    """Over 3000 matrices that spend all of epsilon in floats, the integer table's exact ratio is at most e^eps."""
    generator = np.random.default_rng(1)
    complaints, distances = [], []
    for _ in range(3000):
        size, outputs = generator.integers(2, 8, 2).tolist()
        matrix = private_matrix(generator, size, outputs, random_epsilon(generator, 1e-6, 20.0))
        own = float(np.log(matrix.max(axis=0) / matrix.min(axis=0)).max())
        # What is asked for is the largest ratio in floats, which rounding may well exceed.
        if own > 0:
            channel = TableChannel(space(size), matrix, own, released=space(outputs))
            complaints.append(complaint(channel, own))
            distances.append(float(np.abs(channel.transition - matrix).max()))

    assert {None} == set(complaints)
    assert len(complaints) > 2000
    # A mixture of 2^-28 at most moved the matrix.
    assert max(distances) <= 2.0**-28


def test_rounding_without_a_bound_would_exceed_it() -> None:
    """Without the mixture many of these tables are above the epsilon of their floats: the bound is needed."""
    generator = np.random.default_rng(2)
    above = 0
    for _ in range(300):
        matrix = RandomizedResponse(space(4), random_epsilon(generator, 0.1, 3.0)).transition
        own = float(np.log(matrix.max(axis=0) / matrix.min(axis=0)).max())
        ratio = largest_ratio(to_weights(matrix, None).tolist())
        above += ratio > exp_bounds(F(own))[0]

    assert above > 30


def test_a_matrix_above_epsilon_is_refused_not_weakened() -> None:
    """A matrix whose own epsilon is 1e-6 above the asked one is refused; the error says what it has."""
    matrix = RandomizedResponse(space(3), 1.0).transition

    with pytest.raises(MatrixError, match="Expected a matrix whose epsilon is at most") as caught:
        TableChannel(space(3), matrix, 1 - 1e-6)
    assert math.isclose(1.0, caught.value.context["epsilon"], abs_tol=1e-12)
    assert TableChannel(space(3), matrix, 1.0).epsilon <= 1.0


def test_lone_zeros_have_no_finite_epsilon() -> None:
    """An output that rules out a label costs infinity: refused where an epsilon is asked, without guarantee where not."""
    matrix = [[0.5, 0.5, 0.0], [0.25, 0.25, 0.5], [0.0, 0.5, 0.5]]
    channel = TableChannel(space(3), matrix)

    assert channel.epsilon_exact is None
    assert math.inf == channel.epsilon
    with pytest.raises(EpsilonError, match=r"^Expected a table with a finite epsilon"):
        _ = channel.guarantee
    with pytest.raises(MatrixError, match="got one of inf"):
        TableChannel(space(3), matrix, 40.0)


@given(
    matrix=st.tuples(st.integers(2, 6), st.integers(1, 7)).flatmap(lambda shape: stochastic_matrices(*shape)),
    seed=st.integers(0, 99),
)
def test_rounding_moves_no_entry_by_much(matrix: Any, seed: int) -> None:
    """Rows sum to 2^62 exactly, zeros stay zeros, what is possible stays possible, and entries keep 52 bits."""
    weights = to_weights(matrix, None)

    assert {TOTAL} == {sum(row) for row in weights.tolist()}
    assert np.array_equal(matrix > 0, weights > 0)
    assert np.allclose(matrix / matrix.sum(axis=1, keepdims=True), weights / TOTAL, rtol=0, atol=1e-15)


def test_the_least_probabilities_stay_possible() -> None:
    """A probability below 2^-62 gets a weight of 1 rather than 0."""
    channel = TableChannel(space(2), [[1.0, 1e-300], [1e-300, 1.0]])

    assert [[TOTAL - 1, 1], [1, TOTAL - 1]] == channel.weights.tolist()


@given(made=made_channels(TableChannel))
def test_brute_force_agrees_for_whatever_hypothesis_draws(made: Any) -> None:
    """Tables of all kinds claim exactly what they spend, which is infinity if an output rules out a label."""
    ratios = [largest_ratio(made.channel.weights_of(context).tolist()) for context in range(made.channel.contexts)]

    if None in ratios:
        assert made.channel.epsilon_exact is None
    else:
        asked = made.channel.epsilon_exact if made.asked is None else made.asked
        assert complaint(made.channel, asked, spends=False) is None


# ---- the law -----------------------------------------------------------------------------------------------


def test_released_labels_may_be_others() -> None:
    """A table may have more or fewer outputs than labels, of another kind; they are what is released."""
    sizes = LabelSpace(["small", "large"])
    wide = TableChannel(space(2), np.full((2, 5), 0.2), released=space(5))
    narrow = TableChannel(space(3), [[0.75, 0.25], [0.5, 0.5], [0.25, 0.75]], released=sizes)
    words = np.array([0, 2**64 - 1], np.uint64)

    assert (2, 5) == wide.weights.shape
    assert sizes == narrow.released_space
    assert ["small", "large"] == sizes.decode(narrow._draw(np.array([0, 0], np.uint8), words, 0)).tolist()
    assert math.isclose(math.log(3), narrow.epsilon)
    assert wide.invertible is False
    assert (1, 2) == narrow.forward([[0.2, 0.3, 0.5]]).shape
    assert (2, 3) == narrow.likelihood([0, 1]).shape


def test_the_identity_releases_the_truth_and_promises_nothing() -> None:
    """It is for tests: no word changes a label, epsilon is infinite."""
    channel = identity_channel(space(4))
    codes = np.array([0, 1, 2, 3], np.uint8)

    for word in (0, 2**63, 2**64 - 1):
        assert codes.tolist() == channel._draw(codes, np.full(4, word, np.uint64), 0).tolist()
    assert channel.epsilon_exact is None
    assert channel.invertible


@pytest.mark.parametrize("label", [0, 2, 3])
def test_a_constant_tells_nothing_and_costs_nothing(label: int) -> None:
    """Whatever the word and the truth, one label is released, and epsilon is 0."""
    channel = constant_channel(space(4), label)
    codes = np.array([0, 1, 2, 3], np.uint8)

    for word in (0, 2**63, 2**64 - 1):
        assert [label] * 4 == channel._draw(codes, np.full(4, word, np.uint64), 0).tolist()
    assert F(0) == channel.epsilon_exact
    assert 0.0 == channel.guarantee.epsilon()
    with pytest.warns(BiasWarning):
        channel.unbias(np.arange(4.0))


def test_a_constant_of_no_label_is_refused() -> None:
    """The label must be one of the space."""
    with pytest.raises(UnknownLabelError):
        constant_channel(space(3), 3)


def test_words_release_columns_in_order() -> None:
    """A word is compared with four times the cumulative weights; outputs of weight 0 are stepped over."""
    weights = [[0, TOTAL // 2, 0, TOTAL // 2, 0], [TOTAL // 4, 0, 3 * (TOTAL // 4), 0, 0]]
    channel = TableChannel.from_weights(space(2), weights, released=space(5))
    words = np.array([0, 2**62 - 1, 2**62, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)

    assert [1, 1, 1, 1, 3, 3] == channel._draw(np.zeros(6, np.uint8), words, 0).tolist()
    assert [0, 0, 2, 2, 2, 2] == channel._draw(np.ones(6, np.uint8), words, 0).tolist()


def test_groups_have_their_own_tables() -> None:
    """Each row is drawn, explained and corrected by the table of its group."""
    tables = np.stack([RandomizedResponse(space(3), epsilon).weights for epsilon in (0.5, 3.0)])
    channel = TableChannel.from_weights(space(3), tables, groups=np.array([1, 0, 1]))
    losses = np.tile([0.1, 0.7, 0.4], (3, 1))
    corrected = channel.unbias(losses)

    assert (3, 2) == (channel.rows, channel.contexts)
    assert math.isclose(3.0, channel.epsilon, abs_tol=1e-9)
    for row, group in enumerate([1, 0, 1]):
        assert np.array_equal(tables[group], channel.weights_of(channel.context_of(row)))
        assert np.allclose(losses[row], tables[group] / TOTAL @ corrected[row])


@given(made=made_channels(TableChannel), seed=st.integers(0, 2**32 - 1))
def test_only_possible_labels_are_drawn(made: Any, seed: int) -> None:
    """Random words release labels that the row's table deems possible, the first and the last word too."""
    channel = made.channel
    rows = 50 if channel.rows is None else channel.rows
    generator = np.random.default_rng(seed)
    for words in (
        generator.integers(0, 2**64, rows, np.uint64),
        np.zeros(rows, np.uint64),
        np.full(rows, 2**64 - 1, np.uint64),
    ):
        codes = generator.integers(0, channel.space.size, rows).astype(np.uint8)
        released = channel._draw(codes, words, 0)
        drawn = [channel.weights_of(channel.context_of(row))[codes[row], released[row]] for row in range(rows)]

        assert min(drawn) > 0


# ---- what is refused ---------------------------------------------------------------------------------------

_EYE = np.eye(3)
BAD_MATRICES: dict[str, Any] = {
    "negative": [[1.1, -0.1, 0.0]] * 3,
    "not a number": np.full((3, 3), np.nan),
    "infinite": np.full((3, 3), np.inf),
    "not stochastic": np.ones((3, 3)),
    "stochastic by column": [[1.0, 0.5, 0.0], [0.0, 0.5, 0.5], [0.0, 0.0, 0.5]],
    "all zero": np.zeros((3, 3)),
    "too narrow": _EYE[:, :2],
    "too wide": np.full((3, 4), 0.25),
    "too short": _EYE[:2],
    "one row": [0.5, 0.25, 0.25],
    "three dimensions": _EYE[None],
    "one number": 1.0,
    "empty": [],
    "nothing": None,
    "ragged": [[1.0], [0.5, 0.5], [1.0]],
    "texts": _EYE.astype(str),
    "one text": "abc",
    "objects": np.array([[object()] * 3] * 3),
    "complex": _EYE.astype(complex),
    "dates": np.full((3, 3), np.datetime64("2020")),
    "masked": np.ma.masked_array(_EYE, _EYE),
}


@pytest.mark.parametrize("what", BAD_MATRICES)
def test_what_is_no_matrix_is_refused(what: str) -> None:
    """Whatever is not a stochastic matrix of the right shape raises a MatrixError that says what was expected."""
    with pytest.raises(MatrixError, match=r"^Expected "):
        TableChannel(space(3), BAD_MATRICES[what])


BAD_WEIGHTS: dict[str, Any] = {
    "floats": _EYE * 2.0**62,
    "floats that a cast would mend": [[TOTAL - 0.5, 0.5, 0]] * 3,
    "texts": [[str(TOTAL), "0", "0"]] * 3,
    "beyond 64 bits": [[2**70, 0, 0]] * 3,
    "beyond signed 64 bits": np.full((3, 3), 2**63, np.uint64),
    "negative": [[TOTAL + 1, -1, 0]] * 3,
    "a sum that wraps around": [[TOTAL] * 3] * 3,
    "short by one": [[TOTAL - 1, 0, 0]] * 3,
    "over by one": [[TOTAL, 1, 0]] * 3,
    "another shape": [[TOTAL, 0]] * 3,
    "four dimensions": np.zeros((1, 1, 3, 3), int),
    "no tables": np.zeros((0, 3, 3), int),
    "two tables for all rows": np.stack([_EYE.astype(np.int64) * TOTAL] * 2),
    "nothing": None,
    "ragged": [[TOTAL], [TOTAL, 0, 0], [TOTAL, 0, 0]],
}


@pytest.mark.parametrize("what", BAD_WEIGHTS)
def test_what_are_no_weights_is_refused(what: str) -> None:
    """Integer tables are taken as they are or not at all: nothing is cast, cut or wrapped around."""
    with pytest.raises(MatrixError, match=r"^Expected "):
        TableChannel.from_weights(space(3), BAD_WEIGHTS[what])


def test_a_sum_that_wraps_around_to_the_scale_is_refused() -> None:
    """Five weights of 2^62 sum to 2^62 in 64 bits; that is no table."""
    with pytest.raises(MatrixError, match="every row summing"):
        TableChannel.from_weights(space(5), np.full((5, 5), TOTAL))


@pytest.mark.parametrize(
    ("groups", "error"),
    [
        ([0, 1], ShapeError),
        ([-1], ShapeError),
        ([0.0], ShapeError),
        ([[0]], ShapeError),
        ("a", ShapeError),
        ([True], ShapeError),
        (np.array([], int), EmptyInputError),
    ],
    ids=repr,
)
def test_what_are_no_groups_is_refused(groups: Any, error: type[InputError]) -> None:
    """Groups are integers, one a row, each the number of a table."""
    with pytest.raises(error, match=r"^Expected "):
        TableChannel.from_weights(space(3), _EYE.astype(np.int64) * TOTAL, groups=groups)


@pytest.mark.parametrize("epsilon", BAD_EPSILONS, ids=repr)
def test_what_is_no_epsilon_is_refused(epsilon: Any) -> None:
    """Zero, negative, non-finite, absurd and non-numeric epsilons are refused."""
    with pytest.raises(EpsilonError, match=r"^Expected "):
        TableChannel(space(3), np.full((3, 3), 1 / 3), epsilon)


def test_labels_of_another_number_are_refused() -> None:
    """Groups of 2 rows serve 2 labels; one table serves any number, of its own space."""
    table = RandomizedResponse(space(3), 1.0).weights
    grouped = TableChannel.from_weights(space(3), table, groups=np.array([0, 0]))

    with pytest.raises(ShapeError, match="Expected 2 rows"):
        grouped.plan(public(3, rows=3))
    with pytest.raises(SpaceMismatchError, match=r"^Expected labels of"):
        TableChannel.from_weights(space(3), table).plan(public(2, rows=3))
