"""Facts about corrections of a loss for the noise in its label."""

from __future__ import annotations

import warnings
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import (
    PriorRandomizedResponse,
    RandomizedResponse,
    ResampledResponse,
    TableChannel,
    TopKRandomizedResponse,
)
from labeldp.channels.correct import SetCorrection, full_rank, mixture_correction, mixture_indicators, table_correction
from labeldp.errors import BiasWarning
from labeldp.testing.strategies import epsilons, priors
from tests.channels.helpers import space

F = Fraction


def best_linear(table: Any, prior: Any) -> Any:
    """ERRATA D4, word for word: A with l~ = l A is C^+, or D C^T (C D C^T)^+ under a prior D."""
    channel = table.T
    if prior is None:
        return np.linalg.pinv(channel)
    weight = np.diag(prior)
    return weight @ channel.T @ np.linalg.pinv(channel @ weight @ channel.T, rcond=1e-12)


def set_table(size: int, members: Any, extra: float) -> Any:
    """P[true, released] of a response over a set."""
    k = len(members)
    table = np.zeros((size, size))
    table[:, members] = 1.0 / k
    table[np.ix_(members, members)] = (1.0 - extra) / k
    table[members, members] += extra
    return table


# ---- closed forms ------------------------------------------------------------------------------------------


@given(
    size=st.integers(2, 7),
    extra=st.floats(0.05, 0.999),
    seed=st.integers(0, 2**32 - 1),
    weighted=st.booleans(),
)
def test_the_closed_form_over_a_set_is_the_best_linear_correction(
    size: int, extra: float, seed: int, *, weighted: bool
) -> None:
    """In O(K) it gives the means of the pseudo-inverse, with a prior those of the weighted one (ERRATA D4)."""
    generator = np.random.default_rng(seed)
    members = np.sort(generator.choice(size, generator.integers(1, size + 1), replace=False))
    table = set_table(size, members, extra if len(members) > 1 else 0.0)
    prior = generator.dirichlet(np.full(size, 2.0)) + 0.01 if weighted else None
    losses = generator.normal(size=(3, size))
    mask = np.isin(np.arange(size), members)[None]
    correction = SetCorrection(mask, np.array([[extra]]), None if prior is None else prior[None])
    expected = losses @ best_linear(table, prior) @ table.T
    got = correction.losses(losses) @ table.T

    assert np.allclose(expected, got, atol=1e-7 / extra)
    # A set's own losses decide: what stands outside of it is not released.
    assert np.array_equal(np.zeros((3, size - len(members))), correction.losses(losses)[:, ~mask[0]])


@given(size=st.integers(2, 7), extra=st.floats(0.05, 0.999), seed=st.integers(0, 2**32 - 1), weighted=st.booleans())
def test_indicators_are_the_correction_of_indicators(size: int, extra: float, seed: int, *, weighted: bool) -> None:
    """``indicators`` at a member is what ``losses`` makes of the indicators of all labels, read there."""
    generator = np.random.default_rng(seed)
    members = np.sort(generator.choice(size, generator.integers(1, size + 1), replace=False))
    mask = np.isin(np.arange(size), members)[None]
    prior = generator.dirichlet(np.full(size, 2.0))[None] + 0.01 if weighted else None
    correction = SetCorrection(mask, np.array([[extra]]), prior)
    by_label = correction.losses(np.eye(size))

    assert np.allclose(by_label[:, members].T, correction.indicators(members))


@given(
    law=st.integers(2, 6).flatmap(priors),
    keep=st.floats(0.05, 1.0),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_mixture_is_undone_exactly(law: Any, keep: float, seed: int) -> None:
    """(l - <w, l>) / keep is the inverse of keep I + 1 w^T, and its indicators are the columns of that inverse."""
    size = len(law)
    weight = (1 - keep) * np.asarray(law, np.float64) / np.asarray(law, np.float64).sum()
    table = keep * np.eye(size) + weight
    inverse = np.linalg.inv(table)
    losses = np.random.default_rng(seed).normal(size=(4, size))
    corrected = mixture_correction(losses, weight[None], np.array([[keep]]))
    indicators = mixture_indicators(np.arange(size), weight[None], np.array([[keep]]))

    assert np.allclose(losses @ inverse.T, corrected, atol=1e-9)
    assert np.allclose(losses, corrected @ table.T, atol=1e-9)
    assert np.allclose(inverse, indicators, atol=1e-9)


@given(seed=st.integers(0, 2**32 - 1), size=st.integers(2, 6), outputs=st.integers(2, 8))
def test_a_table_is_undone_where_it_can_be(seed: int, size: int, outputs: int) -> None:
    """With rank K the correction is unbiased for every loss; with less, the prior's mean is still right."""
    generator = np.random.default_rng(seed)
    table = generator.dirichlet(np.ones(outputs), size)
    prior = generator.dirichlet(np.full(size, 3.0))
    losses = generator.normal(size=size)
    plain, weighted = (losses @ table_correction(table, law) for law in (None, prior))

    assert np.isclose(prior @ losses, prior @ (table @ weighted), atol=1e-7)
    if full_rank(table) and np.linalg.cond(table) < 1e6:
        assert np.allclose(losses, table @ plain, atol=1e-6)
        assert np.allclose(losses, table @ weighted, atol=1e-6)


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        (np.eye(3), True),
        (np.full((3, 3), 1 / 3), False),
        ([[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]], True),
        ([[0.5, 0.5], [0.25, 0.75], [0.75, 0.25]], False),
        ([[0.5, 0.5, 0.0], [0.5, 0.5, 0.0], [0.0, 0.5, 0.5]], False),
    ],
)
def test_rank_decides(table: Any, expected: bool) -> None:  # a parameter of the test
    """An unbiased correction exists for as many outputs as labels at least, and no two rows alike."""
    assert expected == full_rank(np.asarray(table, np.float64))


# ---- the example of the errata -----------------------------------------------------------------------------


def test_the_examples_of_the_errata() -> None:
    """ERRATA D4: l = (.2, .7, .9, .4), Y_k = {0, 1}, eps = 1: three corrections and their means by true label."""
    channel = TopKRandomizedResponse(space(4), 1.0, [0, 1])
    loss, prior = np.array([0.2, 0.7, 0.9, 0.4]), np.array([0.4, 0.3, 0.2, 0.1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BiasWarning)
        plain, weighted = channel.unbias(loss)[0], channel.unbias(loss, prior=prior)[0]
    simple = channel.unbias_members(loss)[0]

    assert np.allclose([-0.0909883, 0.9909883], simple[:2], atol=1e-7)
    assert np.allclose([0.2, 0.7, 0.45, 0.45], channel.transition @ simple)
    assert np.allclose([0.3, 0.8, 0.55, 0.55], channel.transition @ plain)
    assert np.isclose(0.51, prior @ channel.transition @ weighted)
    assert np.isclose(0.425, prior @ channel.transition @ simple)


# ---- through the channels ----------------------------------------------------------------------------------


def _invertible(kind: str, generator: np.random.Generator, epsilon: Any) -> Any:
    law = generator.dirichlet(np.full(5, 2.0)) * 0.9 + 0.02
    match kind:
        case "response":
            return RandomizedResponse(space(5), epsilon)
        case "set":
            return TopKRandomizedResponse(space(5), epsilon, range(5))
        case "law":
            return ResampledResponse(space(5), law, epsilon)
        case "laws":
            return ResampledResponse(space(5), [law, law[::-1]], epsilon, groups=[0, 1, 0])
        case "prior":
            return PriorRandomizedResponse(space(5), epsilon, np.full((3, 5), 0.2))
        case _:
            return TableChannel(space(5), RandomizedResponse(space(5), epsilon).transition)


@pytest.mark.parametrize("kind", ["response", "set", "law", "laws", "prior", "table"])
@given(epsilon=epsilons(0.05, 12.0), seed=st.integers(0, 2**32 - 1))
def test_a_corrected_loss_has_the_loss_as_exact_mean(kind: str, epsilon: Any, seed: int) -> None:
    """Sum over o of P(o | y) l~(o) = l(y), summed in rationals of the integer weights; and no warning is given."""
    generator = np.random.default_rng(seed)
    channel = _invertible(kind, generator, epsilon)
    rows = channel.rows or 3
    losses = generator.normal(size=(rows, 5))
    corrected = channel.unbias(losses)
    worst = F(0)
    for row in range(rows):
        for label, weights in enumerate(channel.weights_of(channel.context_of(row)).tolist()):
            mean = sum((F(w) * F(float(c)) for w, c in zip(weights, corrected[row], strict=True)), F(0)) / 2**62
            worst = max(worst, abs(mean - F(float(losses[row, label]))))

    assert channel.invertible
    # A corrected loss is as large as noise makes it, and floats lose as many digits.
    assert worst <= 1e-14 * max(1.0, np.abs(corrected).max()) * 5


def test_other_losses_would_not_pass() -> None:
    """The check above has power: the sign of the mean term, or the alpha of another epsilon, leaves a bias."""
    channel = RandomizedResponse(space(5), 1.0)
    loss = np.arange(5.0)
    weight, keep = channel._weight, channel._keep
    wrong = [
        mixture_correction(loss[None], -weight, keep)[0],
        mixture_correction(loss[None], weight, keep * 1.001)[0],
        mixture_correction(loss[None], weight * 1.001, keep)[0],
    ]

    assert all(np.abs(channel.transition @ corrected - loss).max() > 1e-4 for corrected in wrong)


@given(epsilon=epsilons(0.05, 8.0), prior=priors(5, 4), seed=st.integers(0, 2**32 - 1))
def test_under_its_prior_a_correction_is_unbiased_on_average(epsilon: Any, prior: Any, seed: int) -> None:
    """Where no unbiased loss exists, one under a positive prior has the right mean under it, and a warning is given."""
    belief = np.asarray(prior, np.float64) + 0.05
    belief /= belief.sum(axis=1, keepdims=True)
    channel = PriorRandomizedResponse(space(5), epsilon, prior)
    losses = np.random.default_rng(seed).normal(size=(4, 5))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        corrected = channel.unbias(losses, prior=belief)
    means = [p @ (channel.weights_of(row) / 2.0**62) @ corrected[row] for row, p in enumerate(belief)]

    assert np.allclose((belief * losses).sum(axis=1), means, atol=1e-9)
    assert channel.invertible == (not caught)
    assert all(issubclass(warning.category, BiasWarning) for warning in caught)


def test_the_warning_says_what_to_do() -> None:
    """It names the channel and two ways out, and points at the caller's line."""
    with pytest.warns(BiasWarning, match="prior= makes it unbiased on average") as caught:
        TopKRandomizedResponse(space(3), 1.0, [0]).unbias([1.0, 2.0, 3.0])

    assert [__file__] == [warning.filename for warning in caught]
    assert "ForwardCorrected" in str(caught[0].message)
