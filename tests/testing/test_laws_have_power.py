"""Facts about the laws: each refuses a channel that breaks it, by its own name, and nothing that does not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import pytest

from labeldp import PriorRandomizedResponse, RandomizedResponse, ResampledResponse, TableChannel, TopKRandomizedResponse
from labeldp.channels import FiniteChannel, identity_channel, restore_channel
from labeldp.errors import ReleaseFileError
from labeldp.guarantee import Guarantee, PureLoss
from labeldp.testing import LAWS, BrokenLawError, check_channel
from tests.channels.helpers import space

F = Fraction
UNIT = np.uint64(1)
LAW_OF = {law.__name__: law for law in LAWS}


def response(epsilon: Any = 1.0) -> RandomizedResponse:
    """A response over three labels."""
    return RandomizedResponse(space(3), epsilon)


def top() -> TopKRandomizedResponse:
    """A response over two of four labels."""
    return TopKRandomizedResponse(space(4), 1.0, [1, 3])


def by_row() -> PriorRandomizedResponse:
    """Five rows with sets of different sizes."""
    prior = [[0.7, 0.1, 0.1, 0.1], [0.25] * 4, [0.4, 0.4, 0.1, 0.1], [0.1, 0.1, 0.4, 0.4], [0.3, 0.3, 0.3, 0.1]]
    return PriorRandomizedResponse(space(4), 1.0, prior)


def resampled() -> ResampledResponse:
    """One law for all rows."""
    return ResampledResponse(space(3), [0.6, 0.3, 0.1], 1.0)


def grouped() -> ResampledResponse:
    """Five rows in two groups."""
    return ResampledResponse(space(3), [[0.6, 0.3, 0.1], [0.2, 0.3, 0.5]], 1.0, groups=[0, 1, 1, 0, 1])


def table() -> TableChannel:
    """A table that is not symmetric."""
    return TableChannel(space(3), [[0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.2, 0.2, 0.6]])


#: Whole channels, and what they were asked for.
SOUND: dict[str, tuple[Callable[[], FiniteChannel], Any]] = {
    "response": (response, 1.0),
    "top": (top, 1.0),
    "by row": (by_row, 1.0),
    "resampled": (resampled, 1.0),
    "grouped": (grouped, 1.0),
    "table": (table, None),
}


def broken(channel: FiniteChannel, **members: Any) -> Any:
    """A copy of a channel in which some methods or properties are others."""
    kind = type("Broken", (type(channel),), members)
    copy = kind.__new__(kind)
    copy.__dict__.update(channel.__dict__)
    return copy


def after(name: str, change: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    """A method that does what it did, and then changes what it returns."""

    def members(kind: type) -> dict[str, Any]:
        honest = getattr(kind, name)
        return {name: lambda self, *args, **options: change(honest(self, *args, **options))}

    return members


def value(name: str, change: Callable[[Any], Any]) -> Callable[[Any], dict[str, Any]]:
    """A property that has another value."""

    def members(kind: type) -> dict[str, Any]:
        honest = getattr(kind, name)
        read = honest.func if isinstance(honest, cached_property) else honest.fget
        return {name: property(lambda self: change(read(self)))}

    return members


@dataclass(frozen=True)
class Case:
    """How a sound channel is broken, and the law that must say so."""

    law: str
    make: Callable[[], FiniteChannel]
    how: Callable[[type], dict[str, Any]]
    asked: Any = None
    options: Any = None
    #: Whether earlier laws see it too, so that this one is asked alone.
    alone: bool = False


def _unit_more(weights: Any) -> Any:
    weights[0, 0] += 1
    return weights


def _unit_moved(weights: Any) -> Any:
    weights[0, 0] += 1
    weights[0, 1] -= 1
    return weights


def _negative(weights: Any) -> Any:
    weights[0, 0] += weights[0, 1] + 1
    weights[0, 1] = -1
    return weights


# ---- draws -------------------------------------------------------------------------------------------------


def _response_draw(divisor: int = 0, last: int = 0, *, strict: bool = True) -> Callable[[type], dict[str, Any]]:
    """The draw of the response with another divisor, another last redraw, or >= where it is >."""

    def draw(self: Any, codes: Any, words: Any, start: int) -> Any:
        released = (words // np.uint64(int(self._divisor) + divisor)).astype(codes.dtype)
        limit = np.uint64(int(self._last_redraw) + last)
        return np.where(words > limit if strict else words >= limit, codes, np.minimum(released, self.space.size - 1))

    return lambda _kind: {"_draw": draw}


def _searching_draw(side: str) -> Callable[[type], dict[str, Any]]:
    def draw(self: Any, codes: Any, words: Any, start: int) -> Any:
        place = np.searchsorted(self._limits[0], words, side=side)
        return np.where(place < self.space.size, np.minimum(place, self._last[0]), codes).astype(codes.dtype)

    return lambda _kind: {"_draw": draw}


def _of_words(change: Callable[[Any], Any]) -> Callable[[type], dict[str, Any]]:
    """A draw that reads other words."""

    def members(kind: type) -> dict[str, Any]:
        return {"_draw": lambda self, codes, words, start: kind._draw(self, codes, change(words), start)}

    return members


def _of_codes(change: Callable[[Any, Any], Any]) -> Callable[[type], dict[str, Any]]:
    """A draw that sees other labels."""

    def members(kind: type) -> dict[str, Any]:
        return {"_draw": lambda self, codes, words, start: kind._draw(self, change(self, codes), words, start)}

    return members


def _of_place(kind: type) -> dict[str, Any]:
    """A draw that depends on where in a batch a row stands."""

    def draw(self: Any, codes: Any, words: Any, start: int) -> Any:
        return kind._draw(self, codes, words ^ (np.arange(len(words), dtype=np.uint64) << np.uint64(40)), start)

    return {"_draw": draw}


def _of_start(kind: type) -> dict[str, Any]:
    """A draw that depends on how far into a release a batch begins."""
    return {
        "_draw": lambda self, codes, words, start: kind._draw(
            self, codes, words ^ (np.uint64(start) << np.uint64(48)), start
        )
    }


def _without_coins(kind: type) -> dict[str, Any]:
    """A draw that reads no words at all."""
    return {"_draw": lambda self, codes, words, start: kind._draw(self, codes, np.full_like(words, 7), start)}


def _step_inside(kind: type) -> dict[str, Any]:
    """A draw that is right at every boundary, and wrong for a sixteenth of all words in the middle of a step."""

    def draw(self: Any, codes: Any, words: Any, start: int) -> Any:
        released = kind._draw(self, codes, words, start)
        hidden = words >> np.uint64(60) == np.uint64(2)
        return np.where(hidden, (released + 1) % self.space.size, released).astype(released.dtype)

    return {"_draw": draw}


def _other_divisors(kind: type) -> dict[str, Any]:
    """A draw over sets that divides by what belongs to sets of another size."""

    def fix(self: Any, *args: Any, **options: Any) -> None:
        kind._fix_sets(self, *args, **options)
        self.__dict__["_divisor"] = np.roll(self._divisor, 1)

    return {"_fix_sets": fix}


def _sharper_draw(epsilon: float) -> Callable[[type], dict[str, Any]]:
    """The draw of a response of another epsilon."""
    return lambda _kind: {
        "_draw": lambda self, codes, words, start: response(epsilon)._draw(codes, words, start),
    }


# ---- values ------------------------------------------------------------------------------------------------


def _loss_of(change: Callable[[Fraction], Fraction]) -> Callable[[type], dict[str, Any]]:
    """A guarantee that promises another epsilon."""
    return lambda _kind: {"_loss": lambda self: PureLoss(change(self.epsilon_exact))}


def _guarantee_with(**fields: Any) -> Callable[[type], dict[str, Any]]:
    return value("guarantee", lambda guarantee: replace(guarantee, **fields))


def _more_in_public(kind: type) -> dict[str, Any]:
    return {"public": lambda self: {**kind.public(self), "other": str(int(self._law[0, 0]) - 1)}}


def _nothing_in_columns(kind: type) -> dict[str, Any]:
    return {"row_columns": lambda self: {name: column[:1] for name, column in kind.row_columns(self).items()}}


def _restored_weaker(data: Any, columns: Any) -> FiniteChannel:
    return restore_channel({**data, "other": str(int(data["other"]) - 1)}, columns)


def _pickles_as_another(_kind: type) -> dict[str, Any]:
    return {"__reduce__": lambda self: (response, (2.0,))}


def _takes_in_order(kind: type) -> dict[str, Any]:
    def take(self: Any, rows: Any) -> Any:
        chosen = np.arange(self.rows)[rows] if isinstance(rows, slice) else np.asarray(rows)
        chosen = np.flatnonzero(chosen) if chosen.dtype == bool else chosen
        return kind.take(self, np.sort(chosen))

    return {"take": take}


def _hands_out_its_table(kind: type) -> dict[str, Any]:
    def weights_of(self: Any, context: int) -> Any:
        if "kept" not in self.__dict__:
            self.__dict__["kept"] = kind.weights_of(self, context)
        return self.__dict__["kept"]

    return {"weights_of": weights_of}


def _writeable(kind: type) -> dict[str, Any]:
    def weights_of(self: Any, context: int) -> Any:
        self.__dict__["scratch"] = np.zeros(3)
        return kind.weights_of(self, context)

    return {"weights_of": weights_of}


def _takes_any_code(kind: type) -> dict[str, Any]:
    return {"likelihood": lambda self, codes: kind.likelihood(self, np.clip(codes, 0, self.space.size - 1))}


def _takes_any_shape(kind: type) -> dict[str, Any]:
    def forward(self: Any, probabilities: Any) -> Any:
        return kind.forward(self, np.atleast_2d(probabilities)[:, : self.space.size])

    return {"forward": forward}


def _quietly(kind: type) -> dict[str, Any]:
    """A correction that does not say that it is biased."""

    def unbias(self: Any, losses: Any, *, prior: Any = None) -> Any:
        with pytest.warns(UserWarning, match="not invertible"):
            return kind.unbias(self, losses, prior=prior)

    return {"unbias": unbias}


def _unbias_by(change: Callable[[Any, Any], Any]) -> Callable[[type], dict[str, Any]]:
    def members(kind: type) -> dict[str, Any]:
        def unbias(self: Any, losses: Any, *, prior: Any = None) -> Any:
            return change(np.atleast_2d(losses), kind.unbias(self, losses, prior=prior))

        return {"unbias": unbias}

    return members


def _without_prior(kind: type) -> dict[str, Any]:
    return {"unbias": lambda self, losses, **_options: kind.unbias(self, losses)}


def _loose(array: Any) -> Any:
    return array + 1e-6


CASES: dict[str, Case] = {
    # the table
    "a unit too much in one row": Case("rows_sum_to_the_scale", response, after("weights_of", _unit_more)),
    "a negative weight": Case("rows_sum_to_the_scale", response, after("weights_of", _negative)),
    "a table of floats": Case("rows_sum_to_the_scale", response, after("weights_of", lambda w: w.astype(float))),
    "a table of another shape": Case("rows_sum_to_the_scale", response, after("weights_of", lambda w: w[:, :2])),
    "two tables for any row": Case(
        "contexts_are_numbered",
        response,
        lambda kind: {"contexts": 2, "weights_of": lambda self, _: kind.weights_of(self, 0)},
    ),
    "a row without a table": Case("contexts_are_numbered", grouped, after("context_of", lambda group: group + 1)),
    "epsilon understated": Case(
        "epsilon_is_the_largest_ratio", response, value("epsilon_exact", lambda e: e - F(1, 10**39))
    ),
    "epsilon overstated": Case(
        "epsilon_is_the_largest_ratio", response, value("epsilon_exact", lambda e: e + F(1, 10**39))
    ),
    "epsilon of a tenth less": Case(
        "epsilon_is_the_largest_ratio", by_row, value("epsilon_exact", lambda e: e * F(9, 10))
    ),
    "epsilon as a float rounded down": Case(
        "epsilon_is_the_largest_ratio", response, value("epsilon", lambda e: float(np.nextafter(e, 0)))
    ),
    "infinite epsilon as a number": Case(
        "epsilon_is_the_largest_ratio", lambda: identity_channel(space(3)), value("epsilon_exact", lambda _: F(40))
    ),
    "one weight is a unit off": Case("epsilon_is_the_largest_ratio", response, after("weights_of", _unit_moved)),
    "epsilon above what was asked": Case("epsilon_is_what_was_asked", response, lambda _: {}, asked=1 - 1e-9),
    "epsilon above by its last digit": Case(
        "epsilon_is_what_was_asked", response, lambda _: {}, asked=response().epsilon_exact - F(1, 10**40)
    ),
    "epsilon far below what was asked": Case("epsilon_is_what_was_asked", response, lambda _: {}, asked=1 + 2e-9),
    "infinite epsilon asked as 40": Case(
        "epsilon_is_what_was_asked", lambda: identity_channel(space(3)), lambda _: {}, asked=40
    ),
    "transition is another matrix": Case(
        "transition_is_the_table", response, value("transition", lambda t: np.nextafter(t, 0))
    ),
    # the draw
    "a divisor one word too large": Case("draws_follow_the_table", response, _response_draw(divisor=1)),
    "a divisor one word too small": Case("draws_follow_the_table", response, _response_draw(divisor=-1)),
    "a divisor one unit too large": Case("draws_follow_the_table", response, _response_draw(divisor=4)),
    "the last redraw one word late": Case("draws_follow_the_table", response, _response_draw(last=1)),
    "the last redraw one word early": Case("draws_follow_the_table", response, _response_draw(last=-1)),
    "at the last redraw the truth": Case("draws_follow_the_table", response, _response_draw(strict=False)),
    "limits on the wrong side": Case("draws_follow_the_table", resampled, _searching_draw("left")),
    "words one too large": Case(
        "draws_follow_the_table", table, _of_words(lambda w: np.where(w + UNIT == 0, w, w + UNIT))
    ),
    "words of 63 bits": Case("draws_follow_the_table", top, _of_words(lambda w: w >> UNIT)),
    "words of 53 bits": Case(
        "draws_follow_the_table", response, _of_words(lambda w: w >> np.uint64(11) << np.uint64(11))
    ),
    "the draw of 1.001 epsilon": Case("draws_follow_the_table", response, _sharper_draw(1.001)),
    "labels confused": Case(
        "draws_follow_the_table", table, _of_codes(lambda c, codes: (c.space.size - 1 - codes).astype(codes.dtype))
    ),
    "the truth released": Case(
        "draws_follow_the_table", response, lambda _: {"_draw": lambda self, codes, words, start: codes}
    ),
    "the divisor of another set": Case("draws_follow_the_table", by_row, _other_divisors),
    "a step inside a step": Case("frequencies_follow_the_table", response, _step_inside),
    "frequencies of 1.1 epsilon": Case("frequencies_follow_the_table", response, _sharper_draw(1.1), alone=True),
    "frequencies of 0.9 epsilon": Case("frequencies_follow_the_table", response, _sharper_draw(0.9), alone=True),
    "frequencies of no coins": Case("frequencies_follow_the_table", table, _without_coins, alone=True),
    "a draw by place": Case("same_key_gives_the_same_bits", response, _of_place, alone=True),
    "a draw by start": Case("same_key_gives_the_same_bits", response, _of_start, alone=True),
    "a draw without a key": Case("same_key_gives_the_same_bits", response, _without_coins, alone=True),
    "codes of another type": Case(
        "same_key_gives_the_same_bits", response, after("_draw", lambda codes: codes + np.uint8(3)), alone=True
    ),
    # what follows from the table
    "forward with a wrong law": Case("forward_is_the_matrix_product", response, after("forward", _loose)),
    "forward of the transposed": Case(
        "forward_is_the_matrix_product",
        table,
        lambda _: {"forward": lambda self, p: np.atleast_2d(p) @ self.transition.T},
    ),
    "likelihood of the transposed": Case(
        "likelihood_is_the_column", table, lambda _: {"likelihood": lambda self, codes: self.transition[codes]}
    ),
    "likelihood of another row": Case(
        "likelihood_is_the_column", grouped, after("likelihood", lambda columns: np.roll(columns, 1, axis=0))
    ),
    "posterior without normalising": Case(
        "posterior_is_bayes",
        response,
        lambda _: {"posterior": lambda self, codes, prior: self.likelihood(codes) * np.asarray(prior)},
    ),
    "posterior without the prior": Case(
        "posterior_is_bayes",
        response,
        lambda kind: {"posterior": lambda self, codes, prior: kind.posterior(self, codes, np.full(3, 1 / 3))},
    ),
    "unbias with the wrong sign": Case(
        "unbias_has_the_loss_as_mean", response, _unbias_by(lambda losses, corrected: 2 * losses - corrected)
    ),
    "unbias of a loss that is shifted": Case(
        "unbias_has_the_loss_as_mean", response, _unbias_by(lambda _, corrected: corrected + 1e-6)
    ),
    "no correction at all": Case("unbias_has_the_loss_as_mean", table, _unbias_by(lambda losses, _: losses)),
    "unbias with one lambda for all": Case(
        "unbias_has_the_loss_as_mean", grouped, lambda kind: {"_at": lambda self, table: table[:1]}, alone=True
    ),
    "unbias that keeps quiet": Case("unbias_has_the_loss_as_mean", top, _quietly),
    "unbias without the prior": Case("unbias_has_the_loss_as_mean", top, _without_prior),
    "claims to be invertible": Case("unbias_has_the_loss_as_mean", top, value("invertible", lambda _: True)),
    "soft labels that are hard": Case(
        "soft_labels_are_debiased_indicators",
        response,
        lambda _: {"soft_labels": lambda self, codes, *, prior=None: np.eye(3)[np.asarray(codes)]},
    ),
    "soft labels of another row": Case(
        "soft_labels_are_debiased_indicators", by_row, after("soft_labels", lambda soft: np.roll(soft, 1, axis=0))
    ),
    "a variance that is too small": Case(
        "variance_factor_is_that_of_the_corrected_indicator", response, value("variance_factor", lambda v: v * 0.999)
    ),
    # the guarantee
    "a guarantee of less": Case("guarantee_is_that_of_the_table", response, _loss_of(lambda e: e * F(999, 1000))),
    "a guarantee of more": Case("guarantee_is_that_of_the_table", response, _loss_of(lambda e: e * F(1001, 1000))),
    "a guarantee without the curve": Case("guarantee_is_that_of_the_table", response, _loss_of(lambda e: e)),
    "a guarantee of the identity": Case(
        "guarantee_is_that_of_the_table",
        lambda: identity_channel(space(3)),
        lambda _: {"_loss": lambda self: PureLoss(F(1))},
    ),
    "a guarantee by trust": Case("guarantee_is_that_of_the_table", response, _guarantee_with(trust="curator")),
    "a guarantee for others": Case(
        "guarantee_is_that_of_the_table", response, _guarantee_with(neighbour="one row added")
    ),
    # the value
    "public parameters of another channel": Case("channel_survives_json", response, _more_in_public),
    "columns of one row": Case("channel_survives_json", by_row, _nothing_in_columns, alone=True),
    "read back as another": Case(
        "channel_survives_json", response, lambda _: {}, options={"restore": _restored_weaker}
    ),
    "pickled as another": Case("channel_survives_pickling", response, _pickles_as_another),
    "rows taken in order": Case("take_is_the_channel_of_some_rows", by_row, _takes_in_order, alone=True),
    "all rows taken": Case(
        "take_is_the_channel_of_some_rows", grouped, lambda _: {"take": lambda self, rows: self}, alone=True
    ),
    "another channel taken": Case(
        "take_is_the_channel_of_some_rows", response, lambda _: {"take": lambda self, rows: response(2.0)}, alone=True
    ),
    "fields that can be set": Case(
        "channel_is_an_immutable_value",
        response,
        lambda _: {"__setattr__": lambda self, name, value: self.__dict__.update({name: value})},
    ),
    "a table that can be written through": Case("channel_is_an_immutable_value", response, _hands_out_its_table),
    "an array that can be written to": Case("channel_is_an_immutable_value", response, _writeable),
    "a repr of two lines": Case(
        "channel_is_an_immutable_value", response, lambda _: {"__repr__": lambda self: "Broken\n"}
    ),
    "a repr of everything": Case(
        "channel_is_an_immutable_value", response, lambda _: {"__repr__": lambda self: "Broken" + "x" * 200}
    ),
    "a hash of chance": Case(
        "channel_is_an_immutable_value",
        response,
        lambda _: {
            "__hash__": lambda self: self.__dict__.update(n=self.__dict__.get("n", 0) + 1) or self.__dict__["n"]
        },
        alone=True,
    ),
    "equal to everything": Case(
        "channel_is_an_immutable_value",
        response,
        lambda _: {"__eq__": lambda self, other: True, "__hash__": lambda self: 1},
        alone=True,
    ),
    "codes of no label accepted": Case("wrong_input_is_refused", response, _takes_any_code),
    "tables of another shape accepted": Case("wrong_input_is_refused", table, _takes_any_shape),
}


@pytest.mark.parametrize("what", CASES)
def test_what_is_broken_is_refused_by_its_law(what: str) -> None:
    """The law that a channel breaks is the one that is named, in the error and at the start of its message."""
    case = CASES[what]
    channel = case.make()
    wrong = broken(channel, **case.how(type(channel)))
    laws = [LAW_OF[case.law]] if case.alone else None

    with pytest.raises(BrokenLawError) as caught:
        check_channel(wrong, asked=case.asked, draws=60_000, laws=laws, **(case.options or {}))
    assert case.law == caught.value.law
    assert str(caught.value).startswith(f"{case.law}: ")


def test_a_guarantee_that_json_changes_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Assumptions that are lost on the way through JSON are noticed."""
    written = Guarantee.to_json
    monkeypatch.setattr(Guarantee, "to_json", lambda self: {**written(self), "assumptions": []})

    with pytest.raises(BrokenLawError) as caught:
        check_channel(response(), laws=[LAW_OF["guarantee_survives_json"]])
    assert "guarantee_survives_json" == caught.value.law


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_passes(name: str) -> None:
    """The channels above pass every law, as they are and as copies in which nothing is broken."""
    make, asked = SOUND[name]

    for channel in (make(), broken(make())):
        report = check_channel(channel, asked=asked, draws=60_000)
        assert tuple(LAW_OF) == report.laws


def test_every_law_is_seen_to_refuse() -> None:
    """No law is without a channel that breaks it."""
    assert set(LAW_OF) == {case.law for case in CASES.values()} | {"guarantee_survives_json"}


def test_a_mechanism_that_need_not_spend_all_may_spend_less() -> None:
    """With ``tight`` false a channel below what was asked passes; above it is still refused."""
    law = [LAW_OF["epsilon_is_what_was_asked"]]

    assert check_channel(response(), asked=2, tight=False, laws=law).laws == ("epsilon_is_what_was_asked",)
    with pytest.raises(BrokenLawError):
        check_channel(response(), asked=2, laws=law)
    with pytest.raises(BrokenLawError):
        check_channel(response(), asked=F(99, 100), tight=False, laws=law)


def test_too_few_draws_are_admitted() -> None:
    """Where so many draws cannot tell epsilon from 1.1 epsilon, the report says so instead of passing in silence."""
    few = check_channel(response(), draws=300, laws=[LAW_OF["frequencies_follow_the_table"]])
    many = check_channel(response(), draws=60_000, laws=[LAW_OF["frequencies_follow_the_table"]])

    assert any("cannot tell epsilon from 1.1 epsilon" in note for note in few.notes)
    assert () == many.notes


def test_what_is_not_written_to_files_is_admitted() -> None:
    """A channel of a family that no file knows passes, and the report says so."""

    def refuse(data: Any, columns: Any) -> FiniteChannel:
        raise ReleaseFileError("Expected a known family.")

    report = check_channel(response(), restore=refuse, laws=[LAW_OF["channel_survives_json"]])

    assert ("not written to files: Expected a known family.",) == report.notes
