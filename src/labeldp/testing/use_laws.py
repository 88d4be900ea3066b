"""Laws of what learners read off a channel: forward, likelihood, posterior and correction."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Final

import numpy as np

from labeldp.errors import BiasWarning
from labeldp.testing.brute_force import best_linear, exact_full_rank, full_rank
from labeldp.testing.subject import Subject, all_codes, broken, close, probabilities, spread

if TYPE_CHECKING:
    from labeldp.testing.subject import Floats

_ROUNDING: Final = 2.0**-52


def forward_is_the_matrix_product(subject: Subject) -> None:
    """``forward`` is the matrix product of class probabilities and the row's table."""
    given = probabilities(len(subject.rows), subject.channel.space.size)
    got = subject.channel.forward(given)
    expected = np.stack([given[row] @ subject.table_of(row) for row in subject.rows.tolist()])
    close(forward_is_the_matrix_product, got, expected, 1e-12)
    single = subject.channel.forward(given[0])
    alone = np.stack([given[0] @ subject.table_of(row) for row in subject.rows.tolist()])
    close(forward_is_the_matrix_product, single, alone[: len(single)], 1e-12)


def likelihood_is_the_column(subject: Subject) -> None:
    """``likelihood`` is the column of the released code in the row's table."""
    for codes in all_codes(subject):
        expected = np.stack([subject.table_of(row)[:, codes[row]] for row in subject.rows.tolist()])
        close(likelihood_is_the_column, subject.channel.likelihood(codes), expected, 1e-12, least=0.0)


def posterior_is_bayes(subject: Subject) -> None:
    """``posterior`` is Bayes' rule on the table; where the prior deems the output impossible, the prior stands."""
    size = subject.channel.space.size
    sharp = np.zeros(size)
    sharp[-1] = 1.0
    by_row = probabilities(len(subject.rows), size)
    for prior in (np.full(size, 1 / size), by_row[0], sharp, by_row):
        for codes in all_codes(subject):
            given = np.broadcast_to(prior, (len(subject.rows), size))
            columns = np.stack([subject.table_of(row)[:, codes[row]] for row in subject.rows.tolist()])
            joint = columns * given
            possible = joint.sum(axis=1, keepdims=True) > 0
            expected = np.where(possible, joint, given)
            expected /= expected.sum(axis=1, keepdims=True)
            close(posterior_is_bayes, subject.channel.posterior(codes, prior), expected, 1e-9)


def unbias_has_the_loss_as_mean(subject: Subject) -> None:
    """The corrected loss has the loss as its mean over the released label, whatever the true one.

    Where no unbiased correction exists, a :class:`BiasWarning` says so, and the mean is that of the best linear
    correction: of C^+, or with a prior of D C^T (C D C^T)^+ (ERRATA D4).
    """
    channel = subject.channel
    size = channel.space.size
    losses = 2.0 * spread(len(subject.rows) * size, 2).reshape(-1, size) - 0.5
    if channel.invertible and not all(exact_full_rank(subject.tables[context]) for _, context in subject.places):
        broken(unbias_has_the_loss_as_mean, "says that it is invertible, and is not")
    by_row = probabilities(len(subject.rows), size)
    for prior in (None, by_row[0], by_row):
        corrected = _corrected(subject, losses, prior)
        for row in subject.rows.tolist():
            table = subject.table_of(row)
            law = prior if prior is None or prior.ndim == 1 else prior[row]
            # Where rows differ by less than floats can tell, both answers are right.
            expected = losses[row]
            if not channel.invertible and not full_rank(table):
                expected = losses[row] @ best_linear(table, law) @ table.T
            got = table @ corrected[row]
            # The corrected loss is as large as noise makes it, and its mean loses as many digits.
            reach = float(np.abs(corrected[row]).max())
            tolerance = 1e-9 + 64 * size * _ROUNDING * max(reach, 1.0)
            if not (np.abs(got - expected) <= tolerance).all():
                broken(
                    unbias_has_the_loss_as_mean,
                    f"row {row}: means {got} by true label, expected {expected} (prior: {prior is not None})",
                )


def soft_labels_are_debiased_indicators(subject: Subject) -> None:
    """``soft_labels`` holds, at the released code, the corrected indicator of every label."""
    channel = subject.channel
    size = channel.space.size
    for prior in (None, probabilities(1, size)[0], probabilities(len(subject.rows), size)):
        indicators = _indicators(subject, prior)
        for codes in all_codes(subject):
            possible = np.array([subject.table_of(row)[:, codes[row]].any() for row in subject.rows.tolist()])
            expected = indicators[:, subject.rows, codes].T
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BiasWarning)
                got = channel.soft_labels(codes, prior=prior)
            reach = max(float(np.abs(expected).max()), 1.0)
            close(soft_labels_are_debiased_indicators, got[possible], expected[possible], 1e-9, least=1e-10 * reach)


def variance_factor_is_that_of_the_corrected_indicator(subject: Subject) -> None:
    """``variance_factor`` is the mean squared length of the corrected indicators, over labels and rows."""
    indicators = _indicators(subject, None)
    squares = (indicators**2).sum(axis=0)
    means = [float((subject.table_of(row) @ squares[row]).mean()) for row in subject.rows.tolist()]
    expected, got = np.array([math.fsum(means) / len(means)]), np.array([subject.channel.variance_factor])
    close(variance_factor_is_that_of_the_corrected_indicator, got, expected, 1e-7)


def _corrected(subject: Subject, losses: Floats, prior: Floats | None) -> Floats:
    """Return unbiased losses, having checked that a warning comes if and only if the channel is not invertible."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        corrected = subject.channel.unbias(losses, prior=prior)
    biased = any(issubclass(warning.category, BiasWarning) for warning in caught)
    if biased == subject.channel.invertible:
        broken(unbias_has_the_loss_as_mean, f"invertible: {subject.channel.invertible}, but it warns: {biased}")
    others = [str(warning.message) for warning in caught if not issubclass(warning.category, BiasWarning)]
    shape = len(losses), subject.channel.released_space.size
    if others or corrected.shape != shape or not np.isfinite(corrected).all():
        broken(unbias_has_the_loss_as_mean, f"expected finite losses of shape {shape}, got {corrected}; {others}")
    return corrected


def _indicators(subject: Subject, prior: Floats | None) -> Floats:
    """Return the corrected indicators, by label, row and released code."""
    size = subject.channel.space.size
    units = np.eye(size)
    return np.stack([_corrected(subject, np.tile(unit, (len(subject.rows), 1)), prior) for unit in units])
