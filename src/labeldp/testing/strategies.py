"""Hypothesis strategies for property tests of mechanisms: spaces, epsilons, priors, laws, matrices, ids, channels.

Every final class of channels has an entry in :data:`FAMILIES`; a new one is entered with :func:`register`, and is
then drawn by :func:`channels` like ours.

>>> sorted(family.__name__ for family in FAMILIES)[:2]
['PriorRandomizedResponse', 'RandomizedResponse']
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from labeldp.channels import (
    FiniteChannel,
    PriorRandomizedResponse,
    RandomizedResponse,
    ResampledResponse,
    TableChannel,
    TopKRandomizedResponse,
)
from labeldp.errors import MissingExtraError
from labeldp.exact import exact
from labeldp.labels import LabelSpace

try:
    from hypothesis import strategies as st
except ImportError:  # pragma: no cover  # what a user without it sees
    raise MissingExtraError(
        "labeldp.testing.strategies needs hypothesis, which is not installed. Run: pip install hypothesis"
    ) from None

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy
    from numpy.typing import NDArray

    Floats = NDArray[np.floating[Any]]

SMALLEST_EPSILON: Final = 1e-6
LARGEST_EPSILON: Final = 40.0


@final
@dataclass(frozen=True)
class Made:
    """A channel, the epsilon it was made for if any, and whether it is meant to spend all of that."""

    channel: FiniteChannel
    asked: Fraction | None = None
    tight: bool = True


Family = Callable[[LabelSpace], "SearchStrategy[Made]"]
#: What draws a channel of a class on a given space.
FAMILIES: Final[dict[type[FiniteChannel], Family]] = {}


def register(kind: type[FiniteChannel]) -> Callable[[Family], Family]:
    """Enter a strategy for a class of channels: a function of the label space."""

    def enter(family: Family) -> Family:
        FAMILIES[kind] = family
        return family

    return enter


# ---- labels and ids ----------------------------------------------------------------------------------------

#: Texts that UTF-8 can write: no lone surrogates.
texts: Final[SearchStrategy[str]] = st.text(st.characters(exclude_categories=["Cs"]), max_size=24)
integers64: Final[SearchStrategy[int]] = st.integers(-(2**63), 2**63 - 1)


@st.composite
def label_spaces(draw: st.DrawFn, least: int = 2, most: int = 8) -> LabelSpace:
    """Label spaces of texts, integers or truth values, sometimes with a missing label."""
    kinds = [texts, integers64, st.integers(0, 300)] + [st.booleans()] * (least <= 2 <= most)
    kind = draw(st.sampled_from(kinds))
    most = min(most, 2) if kind is kinds[-1] and len(kinds) > 3 else most  # two truth values
    labels: list[Any] = draw(st.lists(kind, min_size=least, max_size=most, unique=True))
    if draw(st.integers(0, 4)) == 0 and len(labels) > max(least - 1, 1):
        labels[draw(st.integers(0, len(labels) - 1))] = None
    return LabelSpace(labels)


def spaces_of_size(size: int) -> SearchStrategy[LabelSpace]:
    """Label spaces of one size."""
    return label_spaces(size, size)


@st.composite
def ids(draw: st.DrawFn, rows: int) -> list[int] | list[str] | list[uuid.UUID]:
    """Row ids, each once: integers of either sign, unsigned ones, texts (the empty one too), or UUIDs."""
    kind = draw(st.sampled_from([integers64, st.integers(0, 2**64 - 1), texts, st.uuids()]))
    drawn: list[Any] = draw(st.lists(kind, min_size=rows, max_size=rows, unique=True))
    return drawn


# ---- privacy parameters ------------------------------------------------------------------------------------


@st.composite
def epsilons(draw: st.DrawFn, least: float = SMALLEST_EPSILON, most: float = LARGEST_EPSILON) -> Any:
    """Epsilons as a caller may write them: float, NumPy float, Fraction, Decimal or text; small ones as likely."""
    power = draw(st.floats(float(np.log(least)), float(np.log(most))))
    value = min(max(float(np.exp(power)), least), most)
    simple = draw(st.sampled_from([value, float(f"{value:.1g}"), float(f"{value:.3g}")]))
    value = simple if least <= simple <= most else value
    return draw(st.sampled_from([value, np.float64(value), Fraction(value), Decimal(repr(value)), repr(value)]))


# ---- laws --------------------------------------------------------------------------------------------------


@st.composite
def priors(draw: st.DrawFn, size: int, rows: int | None = None) -> Floats:
    """Priors of shape (size,) or (rows, size): peaked, flat, with ties and zeros; in float32 or float64."""
    shapes = st.sampled_from(["peaked", "flat", "ties", "zeros", "certain", "any", "steep"])
    table = np.stack([_law(draw(shapes), size, draw(st.integers(0, 2**32 - 1))) for _ in range(rows or 1)])
    table = table.astype(draw(st.sampled_from([np.float64, np.float32])))
    return table if rows is not None else table[0]


@st.composite
def laws(draw: st.DrawFn, size: int, groups: int | None = None) -> Floats:
    """Laws of a redraw: positive everywhere, sometimes by very little."""
    shapes = st.sampled_from(["peaked", "flat", "any", "steep", "faint"])
    table = np.stack([_law(draw(shapes), size, draw(st.integers(0, 2**32 - 1))) for _ in range(groups or 1)])
    table = np.maximum(table, draw(st.sampled_from([1e-12, 1e-6, 1e-3])))
    table /= table.sum(axis=1, keepdims=True)
    return table if groups is not None else table[0]


@st.composite
def stochastic_matrices(draw: st.DrawFn, rows: int, columns: int, *, positive: bool = False) -> Floats:
    """Stochastic matrices: dense, with zeros, with outputs that never occur, singular, or all rows alike."""
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    table = generator.dirichlet(np.full(columns, draw(st.sampled_from([0.3, 1.0, 30.0]))), rows) + 1e-9
    shape = draw(st.sampled_from(["dense", "twins", "alike"] + ["holes", "unused"] * (not positive)))
    if shape == "twins":
        table[-1] = table[0]
    elif shape == "alike":
        table[:] = table[0]
    elif shape == "holes":
        holes = generator.random(table.shape) < 0.3  # some
        holes[np.arange(rows), generator.integers(0, columns, rows)] = False
        table[holes] = 0.0
    elif shape == "unused" and columns > 1:
        table[:, generator.integers(0, columns)] = 0.0
    result: Floats = table / table.sum(axis=1, keepdims=True)
    return result


def _law(shape: str, size: int, seed: int) -> NDArray[np.float64]:
    generator = np.random.default_rng(seed)
    law = generator.dirichlet(np.ones(size)) + 1e-300
    if shape == "peaked":
        law = law * 0.05
        law[generator.integers(size)] += 1.0
    elif shape == "flat":
        law = np.ones(size)
    elif shape == "ties":
        law = generator.integers(1, 3, size).astype(np.float64)
    elif shape == "zeros":
        law[generator.random(size) < 0.5] = 0.0  # about half
        law[generator.integers(size)] += 0.5
    elif shape == "certain":
        law = np.eye(size)[generator.integers(size)]
    elif shape == "steep":
        law = np.exp(-generator.permutation(size) * generator.uniform(0.1, 5.0))
    elif shape == "faint":
        law[generator.integers(size)] = 0.0
    result: NDArray[np.float64] = law / law.sum()
    return result


# ---- channels ----------------------------------------------------------------------------------------------


@st.composite
def made_channels(draw: st.DrawFn, kind: type[FiniteChannel] | None = None, most_labels: int = 6) -> Made:
    """Channels of one class or of any, with what they were made for."""
    family = FAMILIES[kind if kind is not None else draw(st.sampled_from(sorted(FAMILIES, key=_name)))]
    return draw(family(draw(label_spaces(2, most_labels))))


def channels(kind: type[FiniteChannel] | None = None, most_labels: int = 6) -> SearchStrategy[FiniteChannel]:
    """Channels of one class or of any registered one: shared, grouped and by row."""
    return made_channels(kind, most_labels).map(lambda made: made.channel)


def _name(kind: type[FiniteChannel]) -> str:
    return kind.__name__


@register(RandomizedResponse)
@st.composite
def _responses(draw: st.DrawFn, space: LabelSpace) -> Made:
    match draw(st.sampled_from(["epsilon", "epsilon", "keep", "flip", "even"])):
        case "epsilon":
            epsilon = draw(epsilons())
            return Made(RandomizedResponse(space, epsilon), exact(epsilon))
        case "even":
            return Made(RandomizedResponse(space, keep=Fraction(1, space.size)))
        case form:
            least = Fraction(1, space.size)
            share = draw(st.fractions(0, Fraction(999_999, 1_000_000), max_denominator=10**9))
            keep = least + (1 - least) * share
            return Made(RandomizedResponse(space, **{form: keep if form == "keep" else 1 - keep}))


@register(TopKRandomizedResponse)
@st.composite
def _top_responses(draw: st.DrawFn, space: LabelSpace) -> Made:
    top = draw(st.lists(st.sampled_from(space.labels), min_size=1, max_size=space.size, unique=True))
    epsilon = draw(epsilons())
    return Made(TopKRandomizedResponse(space, epsilon, top), exact(epsilon), tight=len(top) > 1)


@register(PriorRandomizedResponse)
@st.composite
def _prior_responses(draw: st.DrawFn, space: LabelSpace) -> Made:
    epsilon = draw(epsilons())
    channel = PriorRandomizedResponse(space, epsilon, draw(priors(space.size, draw(st.none() | st.integers(1, 6)))))
    # A set of one member spends nothing.
    return Made(channel, exact(epsilon), tight=bool((channel.sizes > 1).any()))


@register(ResampledResponse)
@st.composite
def _resampled_responses(draw: st.DrawFn, space: LabelSpace) -> Made:
    count = draw(st.none() | st.integers(1, 4))
    groups = None
    if count is not None:
        groups = np.array(draw(st.lists(st.integers(0, count - 1), min_size=1, max_size=6)))
    match draw(st.sampled_from(["epsilon", "epsilon", "keep", "nothing"])):
        case "epsilon":
            epsilon = draw(epsilons())
            law = draw(laws(space.size, count))
            return Made(ResampledResponse(space, law, epsilon, groups=groups), exact(epsilon))
        case "keep":
            keep = draw(st.floats(0, 1, exclude_max=True) | st.sampled_from([1 - 2.0**-53, 2.0**-40]))
            return Made(ResampledResponse(space, draw(laws(space.size, count)), keep=keep, groups=groups))
        case _:
            law = draw(priors(space.size, count)).astype(np.float64)
            law /= law.sum(axis=-1, keepdims=True)
            return Made(ResampledResponse(space, law, keep=0, groups=groups))


@register(TableChannel)
@st.composite
def _tables(draw: st.DrawFn, space: LabelSpace) -> Made:
    match draw(st.sampled_from(["any", "released", "epsilon", "followed", "product", "grouped"])):
        case "released":
            released = draw(label_spaces(2, 9))
            matrix = draw(stochastic_matrices(space.size, released.size))
            return Made(TableChannel(space, matrix, released=released))
        case "epsilon":
            matrix = draw(stochastic_matrices(space.size, space.size, positive=True))
            own = float(np.log(matrix.max(axis=0) / matrix.min(axis=0)).max()) + 1e-12
            return Made(TableChannel(space, matrix, own), exact(own), tight=False)
        case "followed":
            first, second = draw(_responses(space)), draw(_top_responses(space))
            return Made(first.channel.followed_by(second.channel), first.channel.epsilon_exact, tight=False)
        case "product":
            first, second = draw(_responses(space)), draw(_prior_responses(space))
            costs = [made.channel.epsilon_exact or Fraction(0) for made in (first, second)]
            return Made(first.channel.product(second.channel), sum(costs, Fraction(0)), tight=False)
        case "grouped":
            first, second = draw(_resampled_responses(space)), draw(_top_responses(space))
            return Made(first.channel.followed_by(second.channel), first.channel.epsilon_exact, tight=False)
        case _:
            return Made(TableChannel(space, draw(stochastic_matrices(space.size, space.size))))
