"""The most informative set of a prior, against brute force over all sets and against the table itself."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.errors import PriorError


def _information(prior: Any, channel: ldp.FiniteChannel) -> float:
    """Mutual information of true and released label, from the channel's own table."""
    joint = prior[:, None] * channel.transition
    released = joint.sum(axis=0)
    independent = prior[:, None] * released
    seen = joint > 0
    return float((joint[seen] * np.log(joint[seen] / independent[seen])).sum())


@pytest.mark.parametrize("size", [2, 3, 4, 5, 6])
def test_no_other_set_tells_more(size: int) -> None:
    """Over random priors and epsilons the chosen set has the largest mutual information of all 2^K - 1 sets."""
    rng = np.random.default_rng(size)
    space = ldp.LabelSpace(range(size))
    for _ in range(40):
        prior = rng.dirichlet(np.full(size, rng.choice([0.1, 0.3, 1.0, 5.0])))
        epsilon = float(np.exp(rng.uniform(-3, 2.5)))
        chosen = ldp.PriorRandomizedResponse(space, epsilon, prior, choose="information")
        sets = [s for k in range(1, size + 1) for s in itertools.combinations(range(size), k)]
        each = [_information(prior, ldp.TopKRandomizedResponse(space, epsilon, list(s))) for s in sets]

        assert _information(prior, chosen) == pytest.approx(max(each), rel=1e-9, abs=1e-13)
        assert chosen.epsilon <= epsilon


def test_it_tells_where_the_most_correct_set_is_silent() -> None:
    """Under a sharp prior RRWithPrior releases a constant; the informative choice still says something."""
    space = ldp.LabelSpace(list("abcd"))
    prior = np.array([0.85, 0.05, 0.05, 0.05])

    silent = ldp.PriorRandomizedResponse(space, 1.0, prior)
    telling = ldp.PriorRandomizedResponse(space, 1.0, prior, choose="information")

    assert [1] == silent.sizes.tolist()
    assert 0.0 == pytest.approx(_information(prior, silent), abs=1e-15)
    assert _information(prior, telling) > 0.01


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rows_are_chosen_one_by_one(kind: Any) -> None:
    """A table of priors gives the sets that each row alone gives, whatever its memory layout."""
    space = ldp.LabelSpace(range(7))
    prior = np.random.default_rng(0).dirichlet(np.full(7, 0.4), 500).astype(kind)
    table = ldp.PriorRandomizedResponse(space, 1.3, np.asfortranarray(prior), choose="information")

    for row in range(0, 500, 37):
        alone = ldp.PriorRandomizedResponse(space, 1.3, prior[row], choose="information")
        assert alone.members()[0].tolist() == table.members()[row].tolist()


def test_many_labels_are_searched_on_a_grid() -> None:
    """With 300 labels the chosen set tells nearly as much as the best of all prefixes."""
    space = ldp.LabelSpace(range(300))
    prior = np.sort(np.random.default_rng(1).dirichlet(np.full(300, 0.2)))[::-1]

    chosen = _information(prior, ldp.PriorRandomizedResponse(space, 3.0, prior, choose="information"))

    best = max(_information(prior, ldp.TopKRandomizedResponse(space, 3.0, list(range(k)))) for k in range(2, 301, 7))
    assert chosen > 0.995 * best


def test_bad_choices_and_priors_are_refused() -> None:
    """The same checks as for the paper's choice, and a name of a choice that there is."""
    space = ldp.LabelSpace(list("abc"))
    with pytest.raises(PriorError, match="'correct' or 'information'"):
        ldp.PriorRandomizedResponse(space, 1.0, [0.2, 0.3, 0.5], choose="luck")  # type: ignore[arg-type]  # no choice
    for bad in ([0.2, 0.3, 0.6], [-0.1, 0.6, 0.5], [np.nan, 0.5, 0.5], [[0.2, 0.3]], []):
        with pytest.raises((PriorError, ldp.errors.EmptyInputError)):
            ldp.PriorRandomizedResponse(space, 1.0, bad, choose="information")
