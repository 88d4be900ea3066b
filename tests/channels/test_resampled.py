"""Facts about the response that keeps the label or redraws it from a public law."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import PriorRandomizedResponse, RandomizedResponse, ResampledResponse
from labeldp.channels import TOTAL
from labeldp.errors import (
    BiasWarning,
    EmptyInputError,
    EpsilonError,
    InputError,
    LargeEpsilonWarning,
    LawError,
    ShapeError,
    SpaceMismatchError,
)
from labeldp.testing.strategies import epsilons, laws, made_channels
from tests.channels.helpers import (
    ATTAINABLE,
    BAD_EPSILONS,
    NO_NUMBERS,
    complaint,
    exp_bounds,
    public,
    random_epsilon,
    reading,
    space,
)

F = Fraction
LAW = [0.7, 0.2, 0.1]


def positive_law(generator: np.random.Generator, size: int, least: float = 1e-6) -> Any:
    """A law that is positive everywhere."""
    law = generator.dirichlet(np.full(size, generator.choice([0.05, 0.3, 1.0, 30.0]))) + least
    return law / law.sum()


def floor_slack(channel: ResampledResponse) -> Fraction:
    """What flooring the kept weight may cost: A >= (e^eps - 1) w - 1, so log(1 + A/w) >= eps - 2/w."""
    return F(2, min(int(channel.weights_of(context).min()) for context in range(channel.contexts)))


# ---- epsilon -----------------------------------------------------------------------------------------------


def test_no_resampled_response_exceeds_epsilon() -> None:
    """Over 3000 laws the exact largest ratio is at most e^eps, and attains it up to one unit of the least weight."""
    generator = np.random.default_rng(1)
    complaints = []
    for _ in range(3000):
        size, epsilon = int(generator.integers(2, 12)), random_epsilon(generator)
        channel = ResampledResponse(space(size), positive_law(generator, size), epsilon)
        complaints.append(complaint(channel, epsilon, slack=floor_slack(channel)))

    assert [None] * 3000 == complaints


def test_each_group_spends_epsilon_by_itself() -> None:
    """Over 1000 sets of laws every group's own table attains epsilon: each has a lambda of its own (ERRATA A3)."""
    generator = np.random.default_rng(2)
    complaints = []
    for _ in range(1000):
        size, groups, epsilon = *generator.integers(2, 6, 2).tolist(), random_epsilon(generator, 1e-6, 16.0)
        law = np.stack([positive_law(generator, size, 1e-4) for _ in range(groups)])
        channel = ResampledResponse(space(size), law, epsilon, groups=np.arange(groups))
        for group in range(groups):
            alone = ResampledResponse(space(size), law[group], epsilon)
            complaints.append(complaint(alone, epsilon, slack=floor_slack(alone)))
            complaints.append(
                None if np.array_equal(alone.weights, channel.weights_of(group)) else ("another table", epsilon)
            )

    assert {None} == set(complaints)


@given(made=made_channels(ResampledResponse))
def test_brute_force_agrees_for_whatever_hypothesis_draws(made: Any) -> None:
    """Laws and groups of all kinds give exact tables that claim what they spend."""
    asked = made.channel.epsilon_exact if made.asked is None else made.asked

    assert complaint(made.channel, asked, spends=False) is None


@given(epsilon=epsilons(1e-6, ATTAINABLE), law=laws(5))
def test_lambda_is_that_of_the_errata(epsilon: Any, law: Any) -> None:
    """ERRATA A3: lambda = 1 / (1 + (e^eps - 1) min q), rounded towards more redrawing."""
    channel = ResampledResponse(space(5), law, epsilon)
    least = F(float(law.min())) / sum(F(float(q)) for q in law)
    low, high = (1 / (1 + (growth - 1) * least) for growth in reversed(exp_bounds(reading(epsilon))))
    weights = channel.weights_of(0).tolist()
    realised = 1 - F(weights[0][0] - weights[1][0], TOTAL)
    # Floats of 53 bits lose some 2^10 of 2^62 units; flooring the least weight takes e^eps units from the kept one.
    lost = F(2**11, TOTAL)

    assert realised >= low - lost
    assert realised <= high + lost + exp_bounds(reading(epsilon))[1] / TOTAL
    assert math.isclose(float(realised), float(channel.redraw[0]), rel_tol=1e-12)


def test_the_sampler_is_the_one_of_integer_weights() -> None:
    """ERRATA A3: weights (7, 2, 1) 10^5 with A = 171828 on top are the law (A 1{o = y} + w_o) / (A + W)."""
    law = np.array([7, 2, 1]) / 10
    keep = F(171828, 171828 + 10**6)
    channel = ResampledResponse(space(3), law, keep=keep)
    expected = [
        [F(10**5 * w + (171828 if o == y else 0), 10**6 + 171828) for o, w in enumerate((7, 2, 1))] for y in range(3)
    ]

    assert np.allclose(np.array(expected, float), channel.transition, rtol=0, atol=1e-15)
    assert math.isclose(0.999999327, channel.epsilon, abs_tol=1e-9)


@pytest.mark.parametrize(
    ("epsilon", "resampled", "uniform", "prior"),
    [(0.5, 0.568, 0.452, 0.700), (1, 0.607, 0.576, 0.700), (2, 0.719, 0.787, 0.793), (4, 0.928, 0.965, 0.965)],
)
def test_the_table_of_the_docs(epsilon: float, resampled: float, uniform: float, prior: float) -> None:
    """P[released = true] of the three responses under q = (0.7, 0.2, 0.1) is what the docs say."""
    channels = (
        ResampledResponse(space(3), LAW, epsilon),
        RandomizedResponse(space(3), epsilon),
        PriorRandomizedResponse(space(3), epsilon, LAW),
    )

    assert (resampled, uniform, prior) == tuple(round(float(np.diag(c.transition) @ LAW), 3) for c in channels)


def test_a_uniform_law_is_randomised_response() -> None:
    """With a uniform law the tables are those of the plain response, up to some hundred units of 2^-62."""
    generator = np.random.default_rng(3)
    for _ in range(50):
        size, epsilon = int(generator.integers(2, 20)), random_epsilon(generator, 1e-3, 10.0)
        resampled = ResampledResponse(space(size), np.full(size, 1 / size), epsilon).transition

        assert np.allclose(RandomizedResponse(space(size), epsilon).transition, resampled, rtol=0, atol=1e-14)


def test_no_outcome_disappears() -> None:
    """Labels of tiny probability keep a weight of at least 1, however large epsilon is."""
    generator = np.random.default_rng(4)
    for _ in range(300):
        law = positive_law(generator, 6, 1e-19)
        channel = ResampledResponse(space(6), law, random_epsilon(generator, 1.0, 50.0))

        assert channel.weights.min() >= 1


def test_absurd_epsilons_warn() -> None:
    """Above 50 a warning says that nothing is hidden."""
    with pytest.warns(LargeEpsilonWarning, match="hides nothing"):
        ResampledResponse(space(3), LAW, 51)


# ---- keep --------------------------------------------------------------------------------------------------


@given(keep=st.fractions(0, F(10**9 - 1, 10**9), max_denominator=10**9), law=laws(4))
def test_keep_is_the_probability_of_no_redraw(keep: Fraction, law: Any) -> None:
    """Exactly floor(keep 2^62) units keep the label, but for labels whose least weight of 1 comes first."""
    channel = ResampledResponse(space(4), law, keep=keep)
    weights = channel.weights_of(0)
    kept = int(weights[0, 0]) - int(weights[1, 0])

    assert kept <= keep * TOTAL
    assert kept >= math.floor(keep * TOTAL) - 4
    assert math.isclose(1 - keep, channel.redraw[0], abs_tol=1e-12)


@pytest.mark.parametrize("keep", [1 - 2.0**-53, F(2**62 - 1, 2**62), F(2**70 - 1, 2**70)])
def test_keeping_almost_always_still_hides_a_little(keep: Any) -> None:
    """Rounding goes towards more redrawing: no label is published for certain, and epsilon is finite."""
    channel = ResampledResponse(space(3), LAW, keep=keep)

    assert channel.weights.min() >= 1
    assert channel.epsilon < 45


def test_epsilon_of_keep_is_that_of_the_formula() -> None:
    """epsilon = log(1 + (1 - lambda) / (lambda q_min)), whatever the law."""
    generator = np.random.default_rng(5)
    for _ in range(300):
        law, keep = positive_law(generator, 5, 1e-4), generator.uniform(0.01, 0.99)
        expected = math.log(1 + keep / ((1 - keep) * law.min()))

        assert math.isclose(expected, ResampledResponse(space(5), law, keep=keep).epsilon, rel_tol=1e-9)


@pytest.mark.parametrize("law", [LAW, [1.0, 0.0, 0.0], [0.0, 0.5, 0.5]])
def test_keeping_nothing_costs_nothing(law: Any) -> None:
    """With ``keep`` = 0 (lambda = 1) the release does not depend on the label; the law may then have zeros."""
    channel = ResampledResponse(space(3), law, keep=0)

    assert F(0) == channel.epsilon_exact
    assert [1.0] == channel.redraw.tolist()
    assert np.allclose(np.tile(law, (3, 1)), channel.transition, atol=1e-15)
    assert not channel.invertible
    with pytest.warns(BiasWarning):
        assert np.allclose(2.0, channel.unbias([1.0, 2.0, 3.0]))


def test_keeping_nothing_draws_from_the_law_to_the_last_word() -> None:
    """A law that ends in zeros releases its last possible label for the last word, whatever the true one is."""
    channel = ResampledResponse(space(4), [0.5, 0.5, 0.0, 0.0], keep=0)
    words = np.array([0, 2**63 - 1, 2**63, 2**64 - 1], np.uint64)

    for code in range(4):
        assert [0, 0, 1, 1] == channel._draw(np.full(4, code, np.uint8), words, 0).tolist()


# ---- correction --------------------------------------------------------------------------------------------


@given(epsilon=epsilons(0.01, 12.0), law=laws(6), seed=st.integers(0, 2**32 - 1))
def test_the_correction_is_the_inverse_matrix(epsilon: Any, law: Any, seed: int) -> None:
    """ERRATA A5: the loss corrected in O(K) is that of the inverse of the table."""
    channel = ResampledResponse(space(6), np.maximum(law, 1e-3) / np.maximum(law, 1e-3).sum(), epsilon)
    loss = np.random.default_rng(seed).normal(size=6)
    expected = np.linalg.solve(channel.transition, loss)

    assert np.allclose(expected, channel.unbias(loss)[0], rtol=1e-6, atol=1e-9 * np.abs(expected).max())


def test_the_correction_of_the_errata() -> None:
    """ERRATA A5: beta = 0.4, q = (0.7, 0.2, 0.1), l = (0.2, 1, 0.5) give (0.0733333, 1.4066667, 0.5733333)."""
    channel = ResampledResponse(space(3), LAW, keep=0.6)
    columns = np.abs(np.linalg.inv(channel.transition.T)).sum(axis=0)

    assert np.allclose([0.0733333, 1.4066667, 0.5733333], channel.unbias([0.2, 1, 0.5])[0], atol=1e-7)
    assert np.allclose([1.4, 2.0666667, 2.2], columns, atol=1e-7)


@given(keep=st.floats(0.01, 0.99), law=laws(5), seed=st.integers(0, 2**32 - 1))
def test_corrected_losses_stay_in_their_interval(keep: float, law: Any, seed: int) -> None:
    """For losses in [0, 1] a corrected one lies in [-lambda (1 - q_y), 1 - lambda q_y] / (1 - lambda)."""
    channel = ResampledResponse(space(5), law, keep=keep)
    losses = np.vstack([np.random.default_rng(seed).random((20, 5)), np.eye(5), 1 - np.eye(5)])
    corrected = channel.unbias(losses)
    redraw, q = channel.redraw[0], channel.law[0]

    assert (corrected >= -redraw * (1 - q) / (1 - redraw) - 1e-9 / keep).all()
    assert (corrected <= (1 - redraw * q) / (1 - redraw) + 1e-9 / keep).all()
    assert np.abs(corrected).max() <= 1 / (1 - redraw) + 1e-9 / keep


def test_each_group_is_corrected_by_its_own_lambda() -> None:
    """With one lambda for all groups a bias would be left; with each group's own there is none (ERRATA A6)."""
    law = np.array([LAW, [0.3, 0.3, 0.4], [0.02, 0.49, 0.49]])
    groups = np.array([2, 0, 1, 1, 2])
    channel = ResampledResponse(space(3), law, 1.0, groups=groups)
    losses = np.tile([0.2, 1.0, 0.5], (5, 1))
    corrected = channel.unbias(losses)
    with_one = ResampledResponse(space(3), law[0], 1.0).unbias(losses)
    means = [channel.weights_of(group) / TOTAL @ row for group, row in zip(groups, corrected, strict=True)]
    biased = channel.weights_of(2) / TOTAL @ with_one[0]

    assert np.allclose(losses, means)
    assert not np.allclose(losses[0], biased, atol=0.01)
    assert [0, 1, 2] == [channel.context_of(row) for row in (1, 2, 0)]


# ---- what is refused ---------------------------------------------------------------------------------------

BAD_LAWS: dict[str, Any] = {
    "negative": [1.1, -0.1, 0.0],
    "not a number": [np.nan, 0.5, 0.5],
    "infinite": [np.inf, 0.0, 0.0],
    "not summing to one": [0.3, 0.3, 0.3],
    "all zero": [0.0, 0.0, 0.0],
    "with a zero": [0.5, 0.5, 0.0],
    "certain": [1, 0, 0],
    "too short": [0.5, 0.5],
    "too long": [0.25] * 4,
    "a table without groups": [LAW, LAW],
    "three dimensions": np.ones((2, 2, 3)) / 3,
    "one number": 1.0,
    "empty": [],
    "no rows": np.zeros((0, 3)),
    "nothing": None,
    "ragged": [[0.5, 0.5, 0.0], [1.0]],
    "texts": ["0.5", "0.25", "0.25"],
    "one text": "abc",
    "a dictionary": {"a": 1.0},
    "complex": np.array(LAW, complex),
    "dates": np.array(["2020", "2021", "2022"], "M8[Y]"),
    "masked": np.ma.masked_array(LAW, [0, 1, 0]),
}


@pytest.mark.parametrize("what", BAD_LAWS)
@pytest.mark.parametrize("given", [{"epsilon": 1.0}, {"keep": 0.5}], ids=["epsilon", "keep"])
def test_what_is_no_law_is_refused(what: str, given: dict[str, float]) -> None:
    """Whatever is not one positive law raises a LawError that says what was expected."""
    with pytest.raises(LawError, match=r"^Expected "):
        ResampledResponse(space(3), BAD_LAWS[what], **given)


def test_a_zero_is_named() -> None:
    """A label that could not be redrawn would reveal itself: the error says which one, and of which law."""
    law = [LAW, [0.5, 0.0, 0.5]]

    with pytest.raises(LawError, match="law 1 has none for label number 1") as caught:
        ResampledResponse(space(3), law, 1.0, groups=[0, 1])
    assert 1 == caught.value.context["group"]


@pytest.mark.parametrize("epsilon", BAD_EPSILONS, ids=repr)
def test_what_is_no_epsilon_is_refused(epsilon: Any) -> None:
    """Zero, negative, non-finite, absurd and non-numeric epsilons are refused."""
    with pytest.raises(EpsilonError, match=r"^Expected "):
        ResampledResponse(space(3), LAW, epsilon)


@pytest.mark.parametrize("keep", [*NO_NUMBERS, 1, 1.0, "1", 1.5, -0.1, F(-1, 10**9)], ids=repr)
def test_what_is_no_probability_of_keeping_is_refused(keep: Any) -> None:
    """``keep`` below 0, 1 or more, and what is no number are refused."""
    with pytest.raises(EpsilonError, match=r"^Expected "):
        ResampledResponse(space(3), LAW, keep=keep)


def test_exactly_one_of_epsilon_and_keep_is_given() -> None:
    """Both, or none, are refused."""
    with pytest.raises(EpsilonError, match="exactly one of epsilon and keep"):
        ResampledResponse(space(3), LAW)
    with pytest.raises(EpsilonError, match="exactly one of epsilon and keep"):
        ResampledResponse(space(3), LAW, 1.0, keep=0.5)


@pytest.mark.parametrize(
    ("groups", "error"),
    [
        ([0, 2], ShapeError),
        ([-1, 0], ShapeError),
        ([], ShapeError),
        (np.array([], int), EmptyInputError),
        ([0.0, 1.0], ShapeError),
        (["a", "b"], ShapeError),
        ([True, False], ShapeError),
        (np.array([0, 1], object), ShapeError),
        ([[0, 1]], ShapeError),
        (0, ShapeError),
    ],
    ids=repr,
)
def test_what_are_no_groups_is_refused(groups: Any, error: type[InputError]) -> None:
    """Groups are integers, one a row, each the number of a law."""
    with pytest.raises(error, match=r"^Expected "):
        ResampledResponse(space(3), [LAW, LAW], 1.0, groups=groups)


def test_one_law_has_no_groups() -> None:
    """Groups without a table of laws are refused: what would they choose from?"""
    with pytest.raises(LawError, match=r"^Expected one law"):
        ResampledResponse(space(3), LAW, 1.0, groups=[0, 0])


def test_labels_of_another_number_are_refused() -> None:
    """Groups of 3 rows serve 3 labels; one law serves any number, of its own space."""
    grouped = ResampledResponse(space(3), [LAW, LAW], 1.0, groups=[0, 1, 0])

    with pytest.raises(ShapeError, match="Expected 3 rows"):
        grouped.plan(public(3, rows=2))
    with pytest.raises(SpaceMismatchError, match=r"^Expected labels of"):
        ResampledResponse(space(3), LAW, 1.0).plan(public(2, rows=2))
