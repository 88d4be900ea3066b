"""Facts about the response over the set that a prior makes best (paper D, Algorithm 2)."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from labeldp import PriorRandomizedResponse, RandomizedResponse, TopKRandomizedResponse
from labeldp.channels import prior as prior_module
from labeldp.errors import (
    EmptyInputError,
    EpsilonError,
    InputError,
    LargeEpsilonWarning,
    PriorError,
    ShapeError,
    SpaceMismatchError,
)
from labeldp.testing.strategies import epsilons, made_channels, priors
from tests.channels.helpers import (
    BAD_EPSILONS,
    complaint,
    exp_bounds,
    public,
    random_epsilon,
    random_law,
    reading,
    space,
)

F = Fraction
#: Few labels are searched by columns, many by candidates or by whole rows: sizes on both sides.
SIZES = [2, 3, 5, 8, 16, 31, 32, 33, 34, 64, 100, 257]


def best_objective(prior: Any, growth: Fraction) -> Fraction:
    """Paper D, Algorithm 2, word for word: sort, try every k, take the best w(k); exact but for e^eps itself."""
    top, bottom = growth.as_integer_ratio()
    best, of, total = 0, 1, 0
    for k, probability in enumerate(sorted(map(_units, prior.tolist()), reverse=True), start=1):
        total += probability
        # w(k) = e^eps / (e^eps + k - 1) times the total, without its common factor.
        if total * of > best * (top + (k - 1) * bottom):
            best, of = total, top + (k - 1) * bottom
    return F(best * top, of)


def objective(prior: Any, members: Any, growth: Fraction) -> Fraction:
    """P[released = true] of the response over a set."""
    return growth / (growth + int(members.sum()) - 1) * sum(map(_units, prior[members].tolist()))


def _units(number: float) -> int:
    """A float in units of 2^-1074, of which every float holds a whole number."""
    numerator, denominator = number.as_integer_ratio()
    return numerator * (2**1074 // denominator)


def gap(prior: Any, members: Any, epsilon: Any) -> Fraction:
    """By which share a set's objective is below the best one."""
    growth = exp_bounds(reading(epsilon))[0]
    best = best_objective(prior, growth)
    return (best - objective(prior, members, growth)) / best


def rounding(prior: Any) -> float:
    """What sums of a prior's entries may lose, relatively."""
    return prior.shape[-1] * float(np.finfo(prior.dtype).eps)


# ---- the best set ------------------------------------------------------------------------------------------


def test_the_set_is_the_best_of_algorithm_2() -> None:
    """Over thousands of priors of all shapes, in both precisions, no k has a larger objective but by rounding."""
    generator = np.random.default_rng(1)
    worst = 0.0
    for _ in range(2000):
        size, epsilon = int(generator.choice(SIZES)), random_epsilon(generator, 1e-9, 50.0)
        prior = np.stack([random_law(generator, size) for _ in range(generator.integers(1, 4))])
        prior = prior.astype(generator.choice([np.float64, np.float32]))
        members = PriorRandomizedResponse(space(size), epsilon, prior).members()
        gaps = [float(gap(row, mask, epsilon)) for row, mask in zip(prior, members, strict=True)]
        worst = max(worst, max(gaps) / rounding(prior))

    assert worst <= 1.0


@pytest.mark.parametrize("size", [1000, 2000])
@pytest.mark.parametrize("epsilon", [1e-3, 0.5, 2.0, 8.0, 20.0])
def test_the_set_is_the_best_of_thousands(size: int, epsilon: float) -> None:
    """The same holds for thousands of labels: peaked, flat, with zeros, geometric."""
    generator = np.random.default_rng(size)
    prior = np.stack([random_law(generator, size) for _ in range(12)])
    members = PriorRandomizedResponse(space(size), epsilon, prior).members()

    assert all(gap(row, mask, epsilon) <= rounding(prior) for row, mask in zip(prior, members, strict=True))


def test_a_set_of_another_size_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The comparison has power: with e^(1.1 eps) in its place, the search finds sets that are measurably worse."""
    generator = np.random.default_rng(2)
    prior = generator.dirichlet(np.ones(40), 50)
    exact = prior_module._growth
    monkeypatch.setattr(prior_module, "_growth", lambda epsilon, kind: exact(1.1 * epsilon, kind))
    members = PriorRandomizedResponse(space(40), 2.0, prior).members()

    assert max(gap(row, mask, 2.0) for row, mask in zip(prior, members, strict=True)) > 1000 * rounding(prior)


@pytest.mark.parametrize(("epsilon", "k", "expected"), [(0.5, 1, 0.5), (1, 2, 0.585), (2, 3, 0.748), (3, 4, 0.870)])
def test_the_table_of_the_docs(epsilon: float, k: int, expected: float) -> None:
    """For p = (0.5, 0.3, 0.15, 0.05) k and P[released = true] are what the docs say."""
    prior = np.array([0.5, 0.3, 0.15, 0.05])
    channel = PriorRandomizedResponse(space(4), epsilon, prior)

    assert [k] == channel.sizes.tolist()
    assert expected == round(float(prior @ np.diag(channel.transition)), 3)


@given(
    epsilon=epsilons(1e-9, 45.0),
    prior=st.sampled_from(SIZES).flatmap(lambda size: priors(size, 3)),
)
def test_the_set_is_the_best_of_whatever_hypothesis_draws(epsilon: Any, prior: Any) -> None:
    """Peaked, flat, tied, certain and steep priors: no k does better."""
    members = PriorRandomizedResponse(space(prior.shape[1]), epsilon, prior).members()

    assert all(gap(row, mask, epsilon) <= rounding(prior) for row, mask in zip(prior, members, strict=True))


@given(
    counts=st.integers(2, 50).flatmap(lambda size: st.lists(st.integers(0, 3), min_size=size, max_size=size)),
    epsilon=epsilons(1e-6, 20.0),
    seed=st.integers(0, 99),
)
def test_ties_are_broken_by_the_prior_alone(counts: list[int], epsilon: Any, seed: int) -> None:
    """Labels of equal probability are in the set together or not at all, in whatever order they are declared."""
    weights = np.array(counts, np.float64) + 4.0 * (np.arange(len(counts)) == 0)
    prior = weights / weights.sum()
    order = np.random.default_rng(seed).permutation(len(counts))
    members = PriorRandomizedResponse(space(len(counts)), epsilon, prior).members()[0]
    shuffled = PriorRandomizedResponse(space(len(counts)), epsilon, prior[order]).members()[0]

    assert all(len(set(members[weights == value].tolist())) == 1 for value in set(weights.tolist()))
    assert members[order].tolist() == shuffled.tolist()


def test_a_label_without_prior_is_never_released() -> None:
    """However large epsilon is, probability zero is left out: it could only lower the objective."""
    prior = np.array([0.5, 0.0, 0.25, 0.0, 0.25])

    assert [True, False, True, False, True] == PriorRandomizedResponse(space(5), 45, prior).members()[0].tolist()


@pytest.mark.parametrize("size", [2, 5, 32, 33, 300])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("epsilon", ["1e-17", 1e-12, 1e-9, 1e-7, 30, 88.8, 710, 5000])
def test_very_small_and_very_large_epsilons_give_a_best_set(size: int, kind: type, epsilon: Any) -> None:
    """Where e^eps rounds to 1 or overflows the prior's type, sets are still best up to rounding, without a warning."""
    generator = np.random.default_rng(size)
    prior = np.stack([random_law(generator, size) for _ in range(6)])
    prior[0] = np.eye(size)[0]
    prior = prior.astype(kind)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("labeldp.exact.ABSURD_EPSILON", 10**6)
        members = prior_module.best_sets(size, prior, F(epsilon))[0].mask(slice(None))

    assert all(gap(row, mask, F(epsilon)) <= rounding(prior) for row, mask in zip(prior, members, strict=True))


def test_an_absurd_epsilon_warns() -> None:
    """Above 50 a warning says that nothing is hidden."""
    with pytest.warns(LargeEpsilonWarning, match="hides nothing"):
        PriorRandomizedResponse(space(2), 60, [0.5, 0.5])


# ---- epsilon and law ---------------------------------------------------------------------------------------


def test_no_response_with_a_prior_exceeds_epsilon() -> None:
    """Over 3000 priors of several rows the exact largest ratio is at most e^eps, and attained to 1e-9 up to 16."""
    generator = np.random.default_rng(3)
    complaints, constant = [], []
    for _ in range(3000):
        size, epsilon = int(generator.integers(2, 11)), random_epsilon(generator)
        prior = np.stack([random_law(generator, size) for _ in range(generator.integers(1, 4))])
        channel = PriorRandomizedResponse(space(size), epsilon, prior)
        informative = bool((channel.sizes > 1).any())
        complaints.append(complaint(channel, epsilon, spends=informative))
        if not informative:
            constant.append(channel.epsilon_exact)

    assert [None] * 3000 == complaints
    assert {F(0)} == set(constant)


@given(made=made_channels(PriorRandomizedResponse))
def test_brute_force_agrees_for_whatever_hypothesis_draws(made: Any) -> None:
    """Priors of all kinds give exact tables within what was asked."""
    assert complaint(made.channel, made.asked, spends=made.tight) is None


def test_each_row_has_the_table_of_its_set() -> None:
    """A row's table is that of the response over its set: one family, one law."""
    generator = np.random.default_rng(4)
    prior = generator.dirichlet(np.full(7, 0.5), 60)
    channel = PriorRandomizedResponse(space(7), 1.5, prior)
    expected = [TopKRandomizedResponse(space(7), 1.5, np.flatnonzero(mask)).weights for mask in channel.members()]

    assert all(np.array_equal(table, channel.weights_of(row)) for row, table in enumerate(expected))
    assert channel.epsilon_exact == max(
        TopKRandomizedResponse(space(7), 1.5, np.flatnonzero(mask)).epsilon_exact for mask in channel.members()
    )


@pytest.mark.parametrize("size", [4, 40])
def test_one_law_and_a_law_a_row_agree(size: int) -> None:
    """A prior of shape (K,) gives every row the set that the same prior in each of n rows gives."""
    generator = np.random.default_rng(5)
    for law in (random_law(generator, size) for _ in range(30)):
        one = PriorRandomizedResponse(space(size), 1.5, law)
        many = PriorRandomizedResponse(space(size), 1.5, np.tile(law, (9, 1)))

        assert one.rows is None
        assert many.rows == 9
        assert np.array_equal(np.tile(one.members(), (9, 1)), many.members())
        assert np.array_equal(one.weights, many.weights_of(8))
        assert one.epsilon_exact == many.epsilon_exact


def test_a_flat_prior_gives_the_plain_response_and_a_certain_one_a_constant() -> None:
    """The set of a flat prior holds all labels; that of a certain one a single label, which costs nothing."""
    flat = PriorRandomizedResponse(space(6), 1.0, np.full(6, 1 / 6))
    certain = PriorRandomizedResponse(space(6), 1.0, np.eye(6)[2])

    assert np.array_equal(RandomizedResponse(space(6), 1.0).weights, flat.weights)
    assert F(0) == certain.epsilon_exact
    assert {2} == set(np.argmax(certain.weights, axis=1).tolist())


# ---- forms of a prior --------------------------------------------------------------------------------------


def _reversed_twice(prior: Any) -> Any:
    return np.ascontiguousarray(prior[::-1, ::-1])[::-1, ::-1]


def _every_other_cell(prior: Any) -> Any:
    wide = np.zeros((2 * len(prior), 3 * prior.shape[1]), prior.dtype)
    wide[::2, ::3] = prior
    return wide[::2, ::3]


def _read_only(prior: Any) -> Any:
    prior = prior.copy()
    prior.flags.writeable = False
    return prior


FORMS: dict[str, Callable[[Any], Any]] = {
    "Fortran order": np.asfortranarray,
    "a transposed view": lambda prior: np.ascontiguousarray(prior.T).T,
    "reversed twice": _reversed_twice,
    "every other cell": _every_other_cell,
    "read-only": _read_only,
    "big-endian": lambda prior: prior.astype(prior.dtype.newbyteorder(">")),
    "a list": lambda prior: prior.tolist(),
    "a mask without masked values": np.ma.masked_array,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [7, 32, 33, 120])
def test_the_form_of_an_array_does_not_matter(form: str, size: int) -> None:
    """Order, strides, byte order and flags of the array do not change any set, and the array stays as it was."""
    generator = np.random.default_rng(size)
    prior = np.stack([random_law(generator, size) for _ in range(300)])
    given = FORMS[form](prior)
    expected = PriorRandomizedResponse(space(size), 2.0, prior)
    got = PriorRandomizedResponse(space(size), 2.0, given)

    assert expected == got
    assert expected.parameter_digest(public(size, 300).ids) == got.parameter_digest(public(size, 300).ids)
    assert np.array_equal(prior, np.asarray(given))


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("size", [6, 90])
def test_a_prior_may_lie_in_a_file(tmp_path: Path, kind: type, order: Any, size: int) -> None:
    """A memory-mapped prior, opened read-only, gives the sets that the same numbers in memory give."""
    generator = np.random.default_rng(6)
    prior = np.stack([random_law(generator, size) for _ in range(500)]).astype(kind)
    file = np.memmap(tmp_path / "prior", kind, "w+", shape=prior.shape, order=order)
    file[:] = prior
    file.flush()
    opened = np.memmap(tmp_path / "prior", kind, "r", shape=prior.shape, order=order)

    assert PriorRandomizedResponse(space(size), 1.0, prior) == PriorRandomizedResponse(space(size), 1.0, opened)


@pytest.mark.parametrize("kind", [np.float16, np.longdouble, np.int64])
def test_other_kinds_of_numbers_are_converted(kind: type) -> None:
    """Half and long floats that sum to one are read, and so is a certain prior of integers."""
    prior = np.array([[0.5, 0.25, 0.25], [1.0, 0.0, 0.0]])
    prior = (prior == prior.max(axis=1, keepdims=True)).astype(kind) if kind is np.int64 else prior.astype(kind)

    assert PriorRandomizedResponse(space(3), 1.0, prior.astype(float)) == PriorRandomizedResponse(space(3), 1.0, prior)


def test_exact_numbers_are_converted() -> None:
    """Fractions and decimals are probabilities too."""
    expected = PriorRandomizedResponse(space(3), 1.0, [0.5, 0.25, 0.25])

    assert expected == PriorRandomizedResponse(space(3), 1.0, [F(1, 2), F(1, 4), F(1, 4)])
    assert expected == PriorRandomizedResponse(space(3), 1.0, [Decimal("0.5"), Decimal("0.25"), Decimal("0.25")])


def test_a_data_frame_is_a_prior() -> None:
    """The output of a model in a frame is read like an array."""
    import pandas as pd
    import polars as pl

    prior = np.array([[0.5, 0.25, 0.25], [0.125, 0.75, 0.125]])
    expected = PriorRandomizedResponse(space(3), 1.0, prior)

    assert expected == PriorRandomizedResponse(space(3), 1.0, pd.DataFrame(prior))
    assert expected == PriorRandomizedResponse(space(3), 1.0, pl.DataFrame(prior))


def test_a_channel_keeps_no_view_of_its_prior() -> None:
    """What becomes of the array after construction changes nothing."""
    prior = np.random.default_rng(7).dirichlet(np.ones(50), 20)
    channel = PriorRandomizedResponse(space(50), 1.0, prior)
    before, hashed = channel.members(), hash(channel)
    prior[:] = 0.0

    assert np.array_equal(before, channel.members())
    assert hashed == hash(channel)


def test_blocks_do_not_matter() -> None:
    """The search runs in blocks; any block of rows alone has the sets that it has in the whole."""
    generator = np.random.default_rng(8)
    for size, rows in ((3, 60_000), (50, 70_000)):
        prior = np.exp(-8.0 * generator.random((rows, size)))
        # Rows of some blocks are flat, so that the other form of the search runs too.
        prior[rows // 3 : rows // 2] = 1.0
        prior /= prior.sum(axis=1, keepdims=True)
        channel = PriorRandomizedResponse(space(size), 1.0, prior)
        for part in (slice(0, 1000), slice(rows // 3 - 500, rows // 3 + 500), slice(rows - 1000, rows)):
            assert np.array_equal(
                PriorRandomizedResponse(space(size), 1.0, prior[part]).members(), channel.members(part)
            )


# ---- memory ------------------------------------------------------------------------------------------------


def _peak(work: Callable[[], object]) -> int:
    """Bytes that were allocated at once during some work."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


_ROWS, _LABELS = 100_000, 100


def _peaked(generator: np.random.Generator) -> Any:
    prior = generator.random((_ROWS, _LABELS))
    prior[np.arange(_ROWS), generator.integers(0, _LABELS, _ROWS)] += 1000.0
    return prior


def _spread(generator: np.random.Generator) -> Any:
    prior = generator.random((_ROWS, _LABELS))
    prior *= -8.0
    return np.exp(prior, out=prior)


BIG: dict[str, Callable[[np.random.Generator], Any]] = {
    "peaked": _peaked,
    "spread": _spread,
    "flat": lambda generator: generator.uniform(0.9, 1.1, (_ROWS, _LABELS)),
    "quite flat": lambda _: np.ones((_ROWS, _LABELS)),
}


@pytest.mark.parametrize("shape", BIG)
def test_memory_stays_below_a_third_of_the_prior(shape: str, tmp_path: Path) -> None:
    """With 10^5 rows of 100 labels, construction allocates at most 0.3 of the prior's own bytes beside it."""
    prior = BIG[shape](np.random.default_rng(9))
    prior /= prior.sum(axis=1, keepdims=True)
    forms = {"memory": prior, "Fortran order": np.asfortranarray(prior)}
    if shape == "spread":
        prior.tofile(tmp_path / "prior")
        forms["a file"] = np.memmap(tmp_path / "prior", np.float64, "r", shape=prior.shape)
    peaks = {
        (form, epsilon): _peak(lambda e=epsilon, p=given: PriorRandomizedResponse(space(_LABELS), e, p)) / prior.nbytes
        for form, given in forms.items()
        for epsilon in (0.3, 1.0, 4.0)
    }

    assert {} == {case: peak for case, peak in peaks.items() if peak > 0.3}


def test_the_measure_of_memory_has_power() -> None:
    """Sorting the prior, as the paper does, needs all of its bytes again."""
    prior = np.random.default_rng(10).random((10_000, 100))

    assert _peak(lambda: np.sort(prior, axis=1)) >= prior.nbytes


def test_no_table_a_row_is_ever_made() -> None:
    """What a learner and the curator do with 4000 rows of 250 labels stays far below n x K x K numbers."""
    rows, size = 4000, 250
    generator = np.random.default_rng(11)
    prior = generator.dirichlet(np.full(size, 0.3), rows)
    codes = generator.integers(0, size, rows).astype(np.uint8)
    words = generator.integers(0, 2**64, rows, np.uint64)

    def work() -> None:
        channel = PriorRandomizedResponse(space(size), 2.0, prior)
        released = channel._draw(codes, words, 0)
        channel.forward(prior)
        channel.likelihood(released)
        channel.posterior(released, prior)
        channel.unbias_members(prior)
        assert channel.guarantee.epsilon() <= 2.0
        assert channel.variance_factor > 0

    # n x K x K numbers would be 250 times the prior.
    assert _peak(work) <= 8 * prior.nbytes


def test_tables_of_many_rows_are_not_stacked() -> None:
    """``weights`` of a channel with a table for each of very many rows is refused, and says what to use instead."""
    channel = PriorRandomizedResponse(space(100), 1.0, np.full((10_000, 100), 0.01))

    with pytest.raises(ShapeError, match="Expected few tables"):
        _ = channel.weights
    with pytest.raises(ShapeError, match="Expected few tables"):
        _ = channel.transition


# ---- what is refused ---------------------------------------------------------------------------------------

_HALF = np.array([0.5, 0.25, 0.25])
BAD_PRIORS: dict[str, tuple[Any, type[InputError]]] = {
    "negative": ([1.1, -0.1, 0.0], PriorError),
    "slightly negative": ([1.0, -1e-300, 0.0], PriorError),
    "not a number": ([np.nan, 0.5, 0.5], PriorError),
    "infinite": ([np.inf, 0.0, 0.0], PriorError),
    "infinite both ways": ([np.inf, -np.inf, 1.0], PriorError),
    "not summing to one": ([0.3, 0.3, 0.3], PriorError),
    "counts": ([3, 4, 5], PriorError),
    "all zero": ([0.0, 0.0, 0.0], PriorError),
    "too short": ([0.5, 0.5], PriorError),
    "too long": ([0.25] * 4, PriorError),
    "a column": (_HALF[:, None], PriorError),
    "three dimensions": (np.ones((2, 2, 3)) / 3, PriorError),
    "one number": (1.0, PriorError),
    "ragged": ([[0.5, 0.5, 0.0], [1.0]], PriorError),
    "nothing": (None, PriorError),
    "empty": ([], PriorError),
    "no rows": (np.zeros((0, 3)), EmptyInputError),
    "no columns": (np.zeros((3, 0)), PriorError),
    "truth values": (np.array([True, False, False]), PriorError),
    "objects": (_HALF.astype(object), PriorError),
    "texts": (["0.5", "0.25", "0.25"], PriorError),
    "an array of texts": (_HALF.astype(str), PriorError),
    "one text": ("abc", PriorError),
    "a dictionary": ({"a": 1.0}, PriorError),
    "complex": (_HALF.astype(complex), PriorError),
    "a list of complex numbers": ([0.5, 0.5j, 0.5], PriorError),
    "dates": (np.array(["2020", "2021", "2022"], "M8[Y]"), PriorError),
    "a record": (np.array([(1.0, 2.0)], [("a", float), ("b", float)]), PriorError),
    "masked": (np.ma.masked_array(_HALF, [0, 1, 0]), PriorError),
    "masked rows": (np.ma.masked_array([_HALF, _HALF], [[0, 0, 0], [0, 1, 0]]), PriorError),
}


@pytest.mark.parametrize("what", BAD_PRIORS)
def test_what_is_no_prior_is_refused(what: str) -> None:
    """Whatever is not rows of probabilities raises an error that says what was expected."""
    prior, error = BAD_PRIORS[what]

    with pytest.raises(error, match=r"^Expected "):
        PriorRandomizedResponse(space(3), 1.0, prior)


@pytest.mark.parametrize("size", [4, 32, 33, 150])
@pytest.mark.parametrize(
    ("value", "problem"), [(np.nan, "not a number"), (-0.25, "negative"), (0.75, "sums to"), (np.inf, "not a number")]
)
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_a_bad_row_is_named(size: int, value: float, problem: str, kind: type) -> None:
    """One bad row among thousands is found, and the error gives its number and what is wrong with it."""
    prior = np.full((30_011, size), 1 / size, kind)
    prior[29_999, size // 2] = value

    with pytest.raises(PriorError, match=f"row 29999 .*{problem}") as caught:
        PriorRandomizedResponse(space(size), 1.0, prior)
    assert 29_999 == caught.value.context["row"]


@pytest.mark.parametrize("epsilon", BAD_EPSILONS, ids=repr)
def test_what_is_no_epsilon_is_refused(epsilon: Any) -> None:
    """Zero, negative, non-finite, absurd and non-numeric epsilons are refused."""
    with pytest.raises(EpsilonError, match=r"^Expected "):
        PriorRandomizedResponse(space(3), epsilon, _HALF)


@pytest.mark.parametrize("size", [4, 40])
def test_float32_may_sum_to_one_less_exactly(size: int) -> None:
    """A softmax in float32 is accepted up to 1e-3, in float64 up to 1e-6."""
    prior = np.full((5, size), 1.0005 / size)

    assert PriorRandomizedResponse(space(size), 1.0, prior.astype(np.float32)).rows == 5
    with pytest.raises(PriorError, match=r"sums to 1\.0005"):
        PriorRandomizedResponse(space(size), 1.0, prior)


def test_labels_of_another_number_are_refused() -> None:
    """A prior of 3 rows serves 3 labels: a plan for more or fewer, or of another space, is refused."""
    channel = PriorRandomizedResponse(space(3), 1.0, np.tile(_HALF, (3, 1)))

    with pytest.raises(ShapeError, match="Expected 3 rows") as caught:
        channel.plan(public(3, rows=4))
    assert (3, 4) == (caught.value.context["expected"], caught.value.context["got"])
    with pytest.raises(ShapeError, match="Expected 3 rows"):
        channel.plan(public(3, rows=2))
    with pytest.raises(SpaceMismatchError, match=r"^Expected labels of"):
        channel.plan(public(4, rows=3))
