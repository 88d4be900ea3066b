"""Facts about randomised response over all labels and over a set of them."""

from __future__ import annotations

import math
import tracemalloc
import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labeldp as ldp
from labeldp import LabelSpace, RandomizedResponse, TopKRandomizedResponse
from labeldp.channels import TOTAL
from labeldp.errors import (
    BiasWarning,
    EpsilonError,
    InputError,
    LabelSpaceError,
    LargeEpsilonWarning,
    LawError,
    MissingLabelError,
    PriorError,
    ShapeError,
    SpaceMismatchError,
    UnknownLabelError,
)
from labeldp.testing.strategies import channels, epsilons, label_spaces, made_channels
from tests.channels.helpers import (
    BAD_EPSILONS,
    NO_NUMBERS,
    complaint,
    exp_bounds,
    public,
    random_epsilon,
    random_law,
    reading,
    space,
)

F = Fraction
UNIT = F(1, TOTAL)


# ---- epsilon -----------------------------------------------------------------------------------------------


def test_no_response_exceeds_epsilon() -> None:
    """Over 4000 sizes and epsilons the exact largest ratio is at most e^eps, and within 1e-9 of it up to 16."""
    generator = np.random.default_rng(1)
    complaints = []
    for _ in range(4000):
        size, epsilon = int(generator.integers(2, 30)), random_epsilon(generator)
        complaints.append(complaint(RandomizedResponse(space(size), epsilon), epsilon))

    assert [None] * 4000 == complaints


def test_no_response_over_a_set_exceeds_epsilon() -> None:
    """The same holds over random sets, also for labels outside; a set of one label spends nothing."""
    generator = np.random.default_rng(2)
    complaints, constant = [], []
    for _ in range(4000):
        size, epsilon = int(generator.integers(2, 16)), random_epsilon(generator)
        top = generator.choice(size, generator.integers(1, size + 1), replace=False)
        channel = TopKRandomizedResponse(space(size), epsilon, top)
        complaints.append(complaint(channel, epsilon, spends=len(top) > 1))
        if len(top) == 1:
            constant.append(channel.epsilon_exact)

    assert [None] * 4000 == complaints
    assert {F(0)} == set(constant)


def test_brute_force_has_power(monkeypatch: pytest.MonkeyPatch) -> None:
    """The check above sees one unit too much for the truth at small epsilons, and e^(1.000001 eps) anywhere."""
    from labeldp.channels import response

    exact_weights = response.response_weights
    monkeypatch.setattr(
        response, "response_weights", lambda k, e, bits: exact_weights(k, e * F(1_000_001, 10**6), bits)
    )
    above = complaint(RandomizedResponse(space(5), 1.0), 1.0)
    monkeypatch.setattr(response, "response_weights", lambda k, e, bits: exact_weights(k, e - F(1, 10**8), bits))
    below = complaint(RandomizedResponse(space(5), 1.0), 1.0)
    monkeypatch.setattr(response, "response_weights", lambda k, e, bits: tuple(_one_unit_more(k, e, bits)))
    unit = complaint(TopKRandomizedResponse(space(5), 2.0, [0, 1, 2]), 2.0)

    assert ("above epsilon", 1.0) == above
    assert ("far below epsilon", 1.0) == below
    assert ("above epsilon", 2.0) == unit


def _one_unit_more(size: int, epsilon: Fraction, bits: int) -> tuple[int, int]:
    other = math.ceil(2**bits / (exp_bounds(epsilon)[0] + size - 1)) - 1
    return other, 2**bits - size * other


@pytest.mark.parametrize("size", [2, 3, 10, 1000])
@pytest.mark.parametrize("epsilon", [40, 43, 45, 50])
def test_no_outcome_disappears_at_large_epsilons(size: int, epsilon: int) -> None:
    """However large epsilon is, every label keeps a weight of at least 1."""
    weights = RandomizedResponse(space(size), epsilon).weights

    assert weights.min() >= 1


def test_absurd_epsilons_warn() -> None:
    """Above 50 a warning says that nothing is hidden."""
    with pytest.warns(LargeEpsilonWarning, match="hides nothing"):
        RandomizedResponse(space(2), 50.5)
    with pytest.warns(LargeEpsilonWarning, match="hides nothing"):
        TopKRandomizedResponse(space(3), 1000, [0, 1])


@given(space=label_spaces(), epsilon=epsilons())
def test_an_epsilon_may_be_written_in_any_way(space: LabelSpace, epsilon: Any) -> None:
    """Float, NumPy float, Fraction, Decimal and text are read exactly, a float by its smaller reading."""
    channel = RandomizedResponse(space, epsilon)

    assert RandomizedResponse(space, reading(epsilon)) == channel
    assert reading(epsilon) >= channel.epsilon_exact


@pytest.mark.parametrize("kind", [np.int8, np.int64, np.uint16, np.float32, int])
def test_numbers_of_numpy_are_numbers(kind: type) -> None:
    """An integer of NumPy is an epsilon like any other, and so are all families' parameters."""
    expected = RandomizedResponse(space(3), 2)

    assert expected == RandomizedResponse(space(3), kind(2))
    assert TopKRandomizedResponse(space(3), 2, [0, 1]) == TopKRandomizedResponse(space(3), kind(2), [0, 1])


# ---- the law -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "expected"),
    [(0.5, (0.622, 0.452, 0.155)), (1, (0.731, 0.576, 0.232)), (2, (0.881, 0.787, 0.451)), (4, (0.982, 0.965, 0.858))],
)
def test_the_table_of_the_docs(epsilon: float, expected: tuple[float, ...]) -> None:
    """P[released = true] for 2, 3 and 10 labels is what the docs say."""
    got = tuple(round(RandomizedResponse(space(size), epsilon).keep, 3) for size in (2, 3, 10))

    assert expected == got


@given(size=st.integers(2, 40), epsilon=epsilons(1e-6, 16.0))
def test_probabilities_are_those_of_the_formula(size: int, epsilon: Any) -> None:
    """The truth has e^eps / (e^eps + K - 1) up to K units of 2^-62, rounded down, and the others share the rest."""
    weights = RandomizedResponse(space(size), epsilon).weights.tolist()
    low, high = (growth / (growth + size - 1) for growth in exp_bounds(reading(epsilon)))

    assert F(weights[0][0], TOTAL) <= high
    assert F(weights[0][0], TOTAL) >= low - size * UNIT
    assert {weights[0][1]} == {weights[i][j] for i in range(size) for j in range(size) if i != j}
    assert {weights[0][0]} == {weights[i][i] for i in range(size)}


@given(size=st.integers(2, 12), epsilon=epsilons(1e-3, 16.0), share=st.floats(0, 1))
def test_delta_is_that_of_the_formula(size: int, epsilon: Any, share: float) -> None:
    """For 0 <= eps' <= eps, delta is (e^eps - e^eps') / (e^eps + K - 1)."""
    top = float(reading(epsilon))
    below = top * share
    expected = (math.exp(top) - math.exp(below)) / (math.exp(top) + size - 1)

    assert math.isclose(expected, RandomizedResponse(space(size), epsilon).guarantee.delta(below), abs_tol=1e-9)


@given(size=st.integers(2, 12), share=st.fractions(0, F(999_999, 10**6), max_denominator=10**9))
def test_keep_is_the_probability_of_the_truth(size: int, share: Fraction) -> None:
    """``keep`` is P[released = true] to K units of 2^-62, not above it but at chance; ``flip`` is 1 - ``keep``."""
    keep = F(1, size) + (1 - F(1, size)) * share
    channel = RandomizedResponse(space(size), keep=keep)
    realised = F(int(channel.weights[0, 0]), TOTAL)
    # The largest ratio of the law that was asked for is keep (K - 1) / (1 - keep), which is not exceeded.
    largest = F(int(channel.weights[0, 0]), int(channel.weights[1, 0]))

    assert RandomizedResponse(space(size), flip=1 - keep) == channel
    assert abs(keep - realised) <= size * UNIT
    assert largest <= max(keep * (size - 1) / (1 - keep), 1 + UNIT * size * size)
    assert math.isclose(keep, channel.keep, abs_tol=1e-15)


def test_keep_at_chance_releases_nothing() -> None:
    """With two labels and ``keep`` = 1/2 both tables' rows are equal."""
    channel = RandomizedResponse(space(2), keep=0.5)

    assert F(0) == channel.epsilon_exact
    assert not channel.invertible


def test_a_label_outside_the_set_is_released_as_a_uniform_member() -> None:
    """Rows of labels outside the set share 2^62 among the members as evenly as integers can."""
    weights = TopKRandomizedResponse(space(5), 1.0, [4, 0, 2]).weights.tolist()

    assert [TOTAL // 3, 0, TOTAL // 3, 0, TOTAL // 3 + TOTAL % 3] == weights[1]
    assert weights[1] == weights[3]
    assert {0} == {row[label] for row in weights for label in (1, 3)}


def test_the_order_of_the_set_does_not_matter() -> None:
    """A set is a set: any order gives the same channel, and the same digest."""
    channel = TopKRandomizedResponse(space(5), 1.0, [4, 0, 2])

    assert channel == TopKRandomizedResponse(space(5), 1.0, [0, 2, 4])
    assert channel.digest() == TopKRandomizedResponse(space(5), 1.0, [2, 4, 0]).digest()
    assert channel != TopKRandomizedResponse(space(5), 1.0, [0, 2, 3])


def test_a_set_of_all_labels_is_the_plain_response() -> None:
    """Over all labels the tables are those of the plain response."""
    everything = TopKRandomizedResponse(space(6), 1.25, range(6))

    assert RandomizedResponse(space(6), 1.25).weights.tolist() == everything.weights.tolist()


# ---- the draw ----------------------------------------------------------------------------------------------


@given(size=st.integers(2, 300), epsilon=epsilons(1e-6, 45.0), code=st.integers(0, 299))
def test_words_release_what_they_should(size: int, epsilon: Any, code: int) -> None:
    """The first K x other units redraw label by label, and every word after them releases the truth."""
    code %= size
    channel = RandomizedResponse(space(size), epsilon)
    other = 4 * int(channel.weights[(code + 1) % size, code])
    starts = [label * other for label in range(size + 1)]
    words = [*starts[:size], *(start - 1 for start in starts[1:]), starts[size], 2**64 - 1]
    expected = [*range(size), *range(size), code, code]
    codes = np.full(len(words), code, np.min_scalar_type(size - 1))

    assert expected == channel._draw(codes, np.array(words, np.uint64), 0).tolist()


@given(channel=channels(RandomizedResponse) | channels(TopKRandomizedResponse), seed=st.integers(0, 2**32 - 1))
def test_only_possible_labels_are_drawn(channel: Any, seed: int) -> None:
    """Random words release labels that the table deems possible, the first and the last word too."""
    generator = np.random.default_rng(seed)
    words = np.concatenate([generator.integers(0, 2**64, 200, np.uint64), np.array([0, 2**64 - 1], np.uint64)])
    codes = generator.integers(0, channel.space.size, len(words)).astype(np.uint8)
    released = channel._draw(codes, words, 0)

    assert (channel.weights[codes, released] > 0).all()


# ---- correction --------------------------------------------------------------------------------------------


@given(size=st.integers(2, 40), epsilon=epsilons(0.01, 16.0), seed=st.integers(0, 2**32 - 1))
def test_a_loss_is_corrected_as_the_docs_say(size: int, epsilon: Any, seed: int) -> None:
    """l~(o) = (l(o) - beta sum l) / alpha with alpha, beta of e^eps."""
    loss = np.random.default_rng(seed).normal(size=size)
    growth = math.exp(reading(epsilon))
    alpha, beta = math.expm1(reading(epsilon)) / (growth + size - 1), 1 / (growth + size - 1)
    expected = (loss - beta * loss.sum()) / alpha
    got = RandomizedResponse(space(size), epsilon).unbias(loss)[0]

    assert np.allclose(expected, got, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_over_a_set_no_unbiased_loss_exists_and_a_warning_says_so() -> None:
    """With k < K labels ``unbias`` warns; with all of them it does not, and is exact."""
    losses = np.arange(5.0)
    part, whole = (TopKRandomizedResponse(space(5), 1.0, range(k)) for k in (3, 5))
    with pytest.warns(BiasWarning, match=r"no unbiased correction .* \(docs/errata\.md, D4\)"):
        part.unbias(losses)

    assert not part.invertible
    assert whole.invertible
    assert np.allclose(losses, whole.transition @ whole.unbias(losses)[0])


def test_the_correction_of_eq_17_is_exact_inside_and_the_mean_outside() -> None:
    """Paper D, eq. (17): true labels in the set get their loss, all others the mean loss of the set (ERRATA D4)."""
    generator = np.random.default_rng(3)
    for size, k in ((4, 2), (6, 3), (6, 1), (5, 5)):
        top = generator.choice(size, k, replace=False)
        channel = TopKRandomizedResponse(space(size), 0.7, top)
        loss = generator.normal(size=size)
        inside = np.isin(np.arange(size), top)

        assert np.allclose(
            np.where(inside if k > 1 else False, loss, loss[inside].mean()),
            channel.transition @ channel.unbias_members(loss)[0],
            atol=1e-12,
        )


def test_variance_grows_as_epsilon_falls() -> None:
    """A label is worth less the less of it is released: in the limit of large epsilon a clean one."""
    factors = [RandomizedResponse(space(4), epsilon).variance_factor for epsilon in (0.1, 0.5, 1.0, 4.0, 20.0)]

    assert sorted(factors, reverse=True) == factors
    assert math.isclose(1.0, factors[-1], abs_tol=1e-6)


# ---- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", BAD_EPSILONS, ids=repr)
def test_what_is_no_epsilon_is_refused(epsilon: Any) -> None:
    """Zero, negative, non-finite, absurd and non-numeric epsilons raise one type of error, which is a ValueError."""
    with pytest.raises(EpsilonError, match=r"^Expected "):
        RandomizedResponse(space(3), epsilon)
    with pytest.raises(EpsilonError, match=r"^Expected "):
        TopKRandomizedResponse(space(3), epsilon, [0, 1])


@pytest.mark.parametrize("keep", [*NO_NUMBERS, 0, 0.3, -0.5, 1, 1.0, 1.5], ids=repr)
def test_what_is_no_probability_of_keeping_is_refused(keep: Any) -> None:
    """``keep`` below 1/K, 1 or more, and what is no number are refused."""
    with pytest.raises(EpsilonError, match=r"^Expected "):
        RandomizedResponse(space(3), keep=keep)


@pytest.mark.parametrize("flip", [*NO_NUMBERS, 0, -0.5, 0.7, 1, 1.5], ids=repr)
def test_what_is_no_probability_of_flipping_is_refused(flip: Any) -> None:
    """``flip`` of 0 or less, above 1 - 1/K, and what is no number are refused."""
    with pytest.raises(EpsilonError, match=r"^Expected "):
        RandomizedResponse(space(3), flip=flip)


@pytest.mark.parametrize(
    "given", [{}, {"epsilon": 1, "keep": 0.5}, {"epsilon": 1, "flip": 0.5}, {"keep": 0.5, "flip": 0.5}], ids=repr
)
def test_exactly_one_parameter_is_given(given: dict[str, float]) -> None:
    """Two parameters, or none, are refused: which of them would count?"""
    with pytest.raises(EpsilonError, match="exactly one of epsilon, keep and flip"):
        RandomizedResponse(space(3), **given)


def test_an_epsilon_finer_than_the_table_is_refused() -> None:
    """An epsilon that 2^62 draws cannot show is refused rather than rounded to nothing."""
    with pytest.raises(EpsilonError, match="release nothing instead"):
        RandomizedResponse(space(10), 1e-19)


@pytest.mark.parametrize(
    ("top", "error"),
    [
        ([], LawError),
        (np.array([], int), LawError),
        ([0, 0], LawError),
        ([0, 1, 2, 0], LawError),
        ([3], UnknownLabelError),
        ([-1], UnknownLabelError),
        ([None], MissingLabelError),
        (["0"], LabelSpaceError),
        ([0.0], LabelSpaceError),
        ([True], LabelSpaceError),
        ([[0]], LabelSpaceError),
        (0, ShapeError),
        (None, ShapeError),
        ("01", ShapeError),
        ({0, 1}, ShapeError),
        (np.array([[0, 1]]), ShapeError),
    ],
    ids=repr,
)
def test_what_is_no_set_of_labels_is_refused(top: Any, error: type[InputError]) -> None:
    """An empty set, one with a label twice, and unknown labels raise an error of their own type."""
    with pytest.raises(error):
        TopKRandomizedResponse(space(3), 1.0, top)


def test_one_label_is_no_label_space() -> None:
    """With one label there is nothing to hide, and no channel."""
    with pytest.raises(LabelSpaceError, match="Expected at least 2 labels"):
        space(1)


def test_a_channel_serves_its_own_label_space_only() -> None:
    """A plan for labels of another space is refused before anything is drawn; any number of rows is fine."""
    channel = RandomizedResponse(space(3), 1.0)

    with pytest.raises(SpaceMismatchError, match=r"^Expected labels of"):
        channel.plan(public(4, rows=2))
    assert channel.guarantee == channel.plan(public(3, rows=2)).guarantee


@given(made=made_channels(RandomizedResponse) | made_channels(TopKRandomizedResponse))
def test_brute_force_agrees_for_whatever_hypothesis_draws(made: Any) -> None:
    """Epsilons, sets and spaces of all kinds give exact tables within what was asked."""
    asked = made.channel.epsilon_exact if made.asked is None else made.asked

    assert complaint(made.channel, asked, spends=made.tight) is None


def test_random_laws_of_the_helpers_are_laws() -> None:
    """The laws that these tests draw are not negative and sum to one."""
    generator = np.random.default_rng(0)
    laws = [random_law(generator, 7) for _ in range(100)]

    assert all((law >= 0).all() and math.isclose(1.0, law.sum()) for law in laws)


@pytest.mark.parametrize("flip", [0.1, 0.3, 1e-9, 0.499])
def test_flip_is_rounded_towards_more_flipping(flip: float) -> None:
    """However the float is read, binary or decimal, the response lies at least that often."""
    channel = ldp.RandomizedResponse(ldp.LabelSpace(["a", "b"]), flip=flip)

    other = Fraction(int(channel.weights[0, 1]), TOTAL)
    assert other >= max(Fraction(flip), Fraction(repr(flip)))
    assert other < Fraction(flip) + Fraction(1, 2**55)


def test_many_labels_cost_little_memory() -> None:
    """Keep probability and variance factor of 50,000 labels are had without a table of all pairs."""
    space = ldp.LabelSpace(range(50_000))
    tracemalloc.start()
    for channel in (ldp.RandomizedResponse(space, 3.0), ldp.TopKRandomizedResponse(space, 3.0, range(7))):
        assert channel.variance_factor > 0
    assert 0 < ldp.RandomizedResponse(space, 3.0).keep < 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 100 * 2**20


@pytest.mark.parametrize(
    "prior",
    [[0.5, 0.5], [[0.2, 0.3, 0.5]], [-0.1, 0.6, 0.5], [np.nan, 0.5, 0.5], [0.0, 0.0, 0.0], [np.inf, 1.0, 1.0]],
)
def test_a_prior_of_a_correction_is_checked(prior: Any) -> None:
    """Wrong shapes and values are refused by every family, for posteriors and for corrections."""
    space = ldp.LabelSpace(["a", "b", "c"])
    losses, codes = np.eye(3)[[0, 1]], np.array([0, 1])
    for channel in (
        ldp.TopKRandomizedResponse(space, 1.0, ["a", "b"]),
        ldp.ResampledResponse(space, [0.5, 0.3, 0.2], keep=0),
        ldp.TableChannel(space, [[0.5, 0.5, 0.0]] * 3),
    ):
        for call in (
            lambda c=channel: c.posterior(codes, prior),
            lambda c=channel: c.unbias(losses, prior=prior),
            lambda c=channel: c.soft_labels(codes, prior=prior),
        ):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BiasWarning)
                with pytest.raises(PriorError):
                    call()
