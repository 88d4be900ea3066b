"""Facts about the best channel for a prior and a utility."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from labeldp import LabelSpace, PriorRandomizedResponse, TableChannel
from labeldp.channels import best_channel
from labeldp.errors import EmptyInputError, EpsilonError, InputError, MatrixError, PriorError
from tests.channels.helpers import BAD_EPSILONS, complaint, random_epsilon, random_law, space

#: The solver works in floats, with tolerances of its own of some 1e-7; on small programmes it is far better.
SOLVED = 1e-9


def hits(channel: Any, prior: Any) -> float:
    """P[released = true] under a prior."""
    return float(prior @ np.diag(channel.transition))


def test_the_optimum_is_the_response_with_a_prior() -> None:
    """Theorem 3 of paper D: over 300 small priors the programme reaches what Algorithm 2 does, neither more nor less."""
    generator = np.random.default_rng(1)
    gaps, complaints = [], []
    for _ in range(300):
        size, epsilon = int(generator.integers(2, 7)), random_epsilon(generator, 1e-3, 8.0)
        prior = random_law(generator, size)
        best = best_channel(space(size), prior, epsilon)
        gaps.append(abs(hits(PriorRandomizedResponse(space(size), epsilon, prior), prior) - hits(best, prior)))
        complaints.append(complaint(best, epsilon, spends=False))

    assert max(gaps) <= SOLVED
    assert {None} == set(complaints)


def test_a_smaller_epsilon_is_seen() -> None:
    """The comparison has power: at 0.999 epsilon the optimum is measurably smaller."""
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    best = hits(best_channel(space(4), prior, 2.0), prior)

    assert best - hits(PriorRandomizedResponse(space(4), 1.998, prior), prior) > 1000 * SOLVED


def test_no_random_channel_does_better() -> None:
    """For random utilities no channel of the same epsilon, drawn at random, has a larger expected utility."""
    generator = np.random.default_rng(2)
    for _ in range(40):
        size, outputs = generator.integers(2, 5, 2).tolist()
        prior, utility = generator.dirichlet(np.ones(size)), generator.normal(size=(size, outputs))
        best = best_channel(space(size), prior, 1.0, utility, released=space(outputs))
        value = float((prior[:, None] * utility * best.transition).sum())
        # Entries between 1/e^(1/2) and 1 have ratios of at most e after normalising.
        others = np.exp(-0.5 * generator.random((500, size, outputs)))
        others /= others.sum(axis=2, keepdims=True)
        values = (prior[:, None] * utility * others).sum(axis=(1, 2))

        assert complaint(best, 1.0, spends=False) is None
        assert (value >= values - SOLVED).all()


def test_the_released_labels_may_be_others() -> None:
    """A utility by true and released label decides which of other labels are released."""
    sizes = LabelSpace(["low", "high"])
    utility = [[1.0, 0.0], [0.5, 0.5], [0.0, 1.0]]
    channel = best_channel(space(3), [0.4, 0.2, 0.4], 1.0, utility, released=sizes)
    table = channel.transition

    assert sizes == channel.released_space
    assert table[0, 0] > table[1, 0]
    assert table[1, 0] > table[2, 0]


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 20.0, 34.0, 40.0, 49.0])
def test_extreme_epsilons_are_solved_and_never_exceeded(epsilon: float) -> None:
    """Where e^eps is near 1, or beyond what the solver takes, the table still meets epsilon exactly."""
    prior = np.array([0.4, 0.3, 0.2, 0.1])
    best = best_channel(space(4), prior, epsilon)

    assert complaint(best, epsilon, spends=False) is None
    # Beyond 16 the solver's own tolerance shows.
    tolerance = SOLVED if epsilon <= 16 else 1e-6
    assert abs(hits(PriorRandomizedResponse(space(4), epsilon, prior), prior) - hits(best, prior)) <= tolerance


def test_a_prior_that_is_certain_needs_no_epsilon() -> None:
    """With certainty the best release is a constant."""
    channel = best_channel(space(3), [0.0, 1.0, 0.0], 1.0)

    assert 0.0 == channel.epsilon
    assert np.allclose(1.0, channel.transition[:, 1])


@pytest.mark.parametrize(
    ("prior", "error"),
    [
        ([0.5, 0.6, -0.1], PriorError),
        ([0.5, 0.5, np.nan], PriorError),
        ([0.3, 0.3, 0.3], PriorError),
        ([0.5, 0.5], PriorError),
        (np.full((2, 3), 1 / 3), PriorError),
        (np.zeros((0, 3)), EmptyInputError),
        ("abc", PriorError),
        (None, PriorError),
        (np.array([True, False, False]), PriorError),
        (np.array([0.5, 0.25, 0.25], object), PriorError),
    ],
    ids=repr,
)
def test_what_is_no_prior_is_refused(prior: Any, error: type[InputError]) -> None:
    """A prior is one law, of the labels; a table of laws is refused too."""
    with pytest.raises(error, match=r"^Expected "):
        best_channel(space(3), prior, 1.0)


@pytest.mark.parametrize(
    "utility",
    [
        np.eye(2),
        np.full((3, 3), np.nan),
        np.full((3, 3), np.inf),
        np.ones(3),
        "abc",
        np.eye(3).astype(str),
        [[1.0], [2]],
    ],
    ids=repr,
)
def test_what_is_no_utility_is_refused(utility: Any) -> None:
    """A utility is a finite number for each true and each released label."""
    with pytest.raises(MatrixError, match=r"^Expected "):
        best_channel(space(3), np.full(3, 1 / 3), 1.0, utility)


@pytest.mark.parametrize("epsilon", BAD_EPSILONS, ids=repr)
def test_what_is_no_epsilon_is_refused(epsilon: Any) -> None:
    """Zero, negative, non-finite, absurd and non-numeric epsilons are refused."""
    with pytest.raises(EpsilonError, match=r"^Expected "):
        best_channel(space(3), np.full(3, 1 / 3), epsilon)


def test_a_programme_that_is_not_solved_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the solver says is passed on, and nothing is released on its account."""
    import scipy.optimize

    class Failed:
        success = False
        message = "out of luck"

    monkeypatch.setattr(scipy.optimize, "linprog", lambda *_args, **_options: Failed())

    with pytest.raises(MatrixError, match="the solver says: out of luck"):
        best_channel(space(3), np.full(3, 1 / 3), 1.0)


def test_a_proposal_above_epsilon_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A solver's answer is a proposal only: one that exceeds epsilon does not become a channel."""
    import scipy.optimize

    class Proposed:
        success = True
        x = np.r_[np.eye(3).ravel() * 0.7 + 0.1, np.zeros(3)]

    monkeypatch.setattr(scipy.optimize, "linprog", lambda *_args, **_options: Proposed())
    monkeypatch.setattr("labeldp.channels.design._cleaned", lambda matrix, _growth: matrix)

    with pytest.raises(MatrixError, match="Expected a matrix whose epsilon is at most 1"):
        best_channel(space(3), np.full(3, 1 / 3), 1.0)
    assert isinstance(best_channel(space(3), np.full(3, 1 / 3), 3.0), TableChannel)
