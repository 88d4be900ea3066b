"""Facts about channels that are rebuilt from JSON and columns, and about what is refused then."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from labeldp import (
    LabelSpace,
    PriorRandomizedResponse,
    RandomizedResponse,
    ResampledResponse,
    TableChannel,
    TopKRandomizedResponse,
)
from labeldp.channels import TOTAL, FiniteChannel, restore_channel
from labeldp.errors import (
    EmptyInputError,
    LabeldpError,
    LabelSpaceError,
    LawError,
    MatrixError,
    ReleaseFileError,
    ShapeError,
)
from labeldp.testing.strategies import channels
from tests.channels.helpers import space

Columns = dict[str, Any]
PRIOR = [[0.5, 0.3, 0.2], [0.9, 0.05, 0.05], [0.34, 0.33, 0.33]]
LAWS = [[0.5, 0.3, 0.2], [0.9, 0.05, 0.05]]

RESPONSE = RandomizedResponse(space(3), 1.0)
TOP = TopKRandomizedResponse(space(3), 1.0, [0, 1])
BY_ROW = PriorRandomizedResponse(space(3), 1.0, PRIOR)
ONE_PRIOR = PriorRandomizedResponse(space(3), 1.0, PRIOR[0])
ONE_LAW = ResampledResponse(space(3), LAWS[0], 1.0)
GROUPED = ResampledResponse(space(3), LAWS, 1.0, groups=[0, 1, 1])
TABLE = TableChannel(space(3), RESPONSE.transition, released=LabelSpace(["a", "b", "c"]))
TABLES = GROUPED.followed_by(RESPONSE)
ALL: dict[str, FiniteChannel] = {
    "response": RESPONSE,
    "top": TOP,
    "prior by row": BY_ROW,
    "one prior": ONE_PRIOR,
    "one law": ONE_LAW,
    "laws": GROUPED,
    "table": TABLE,
    "tables": TABLES,
}


def written(channel: FiniteChannel) -> tuple[dict[str, Any], Columns]:
    """What a file holds of a channel, as mutable copies."""
    return json.loads(json.dumps(channel.public())), {k: v.copy() for k, v in channel.row_columns().items()}


@given(channel=channels())
def test_a_channel_is_rebuilt_exactly(channel: FiniteChannel) -> None:
    """Through JSON and columns, and through a pickle, it is an equal channel with the same exact epsilon."""
    rebuilt = restore_channel(*written(channel))
    pickled = pickle.loads(pickle.dumps(channel))

    for other in (rebuilt, pickled):
        assert channel == other
        assert channel.epsilon_exact == other.epsilon_exact
        assert channel.digest() == other.digest()
        assert channel.rows == other.rows


def test_a_set_response_for_all_rows_is_its_set() -> None:
    """The response with one prior is written, and read, as the response over the set that the prior made best."""
    rebuilt = restore_channel(*written(ONE_PRIOR))

    assert ONE_PRIOR == rebuilt
    assert isinstance(rebuilt, TopKRandomizedResponse)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("value", [None, "x", [], {}, -1, "9" * 40, 0.5, [[]], [["x"]], [[[None]]]], ids=repr)
def test_garbage_in_place_of_a_parameter_is_refused(name: str, value: Any) -> None:
    """Whatever stands where a parameter stood, an error of ours is raised, or what is read is no other channel."""
    channel = ALL[name]
    for key in channel.public():
        data, columns = written(channel)
        data[key] = value
        if key == "grouped" and bool(value) == channel.public()["grouped"]:
            continue

        with pytest.raises(LabeldpError, match=r"^Expected "):
            restore_channel(data, columns)


@pytest.mark.parametrize("name", ALL)
def test_a_missing_parameter_is_refused(name: str) -> None:
    """Without any one of its parameters or columns a channel of rows is not rebuilt."""
    channel = ALL[name]
    keys = [(key, None) for key in channel.public()] + [(None, key) for key in channel.row_columns()]
    for key, column in keys:
        data, columns = written(channel)
        data.pop(key, None)
        columns.pop(column, None)
        if (name, key) in {("top", "top"), ("one prior", "top")}:
            # Without a set the file says that every row has one of its own: then there is no column of sets.
            assert columns == {}

        with pytest.raises(ReleaseFileError, match=r"^Expected "):
            restore_channel(data, columns)


def _weights(change: Callable[[list[list[int]]], object]) -> Callable[[dict[str, Any]], None]:
    def tamper(data: dict[str, Any]) -> None:
        tables = [[int(x) for x in row] for row in data["tables"]]
        change(tables)
        data["tables"] = [[k, str(other), str(extra)] for k, other, extra in tables]

    return tamper


def _cells(key: str, change: Callable[[Any], object]) -> Callable[[dict[str, Any]], None]:
    def tamper(data: dict[str, Any]) -> None:
        numbers = np.vectorize(int, otypes=[object])(np.array(data[key], object))
        change(numbers)
        data[key] = np.vectorize(str, otypes=[object])(numbers).tolist()

    return tamper


def _put(place: Any, value: Any) -> Callable[[Any], None]:
    return lambda numbers: numbers.__setitem__(place, value)


def _add(*changes: tuple[Any, int]) -> Callable[[Any], None]:
    def change(numbers: Any) -> None:
        for place, step in changes:
            numbers[place] = numbers[place] + step

    return change


def _weigh(row: int, other: int, extra: int) -> Callable[[list[list[int]]], None]:
    def change(tables: list[list[int]]) -> None:
        tables[row][1] += other
        tables[row][2] += extra

    return change


TAMPERED: dict[str, tuple[FiniteChannel, Callable[[dict[str, Any]], object], type[LabeldpError]]] = {
    "response: no weight": (RESPONSE, lambda d: d.update(other="0"), LawError),
    "response: a negative weight": (RESPONSE, lambda d: d.update(other="-1"), LawError),
    "response: more than its share": (RESPONSE, lambda d: d.update(other=str(TOTAL // 3 + 1)), LawError),
    "set: a unit more for others": (TOP, _weights(_weigh(0, 1, 0)), LawError),
    "set: a unit less for the truth": (TOP, _weights(_weigh(0, 0, -1)), LawError),
    "set: others with no weight": (TOP, _weights(_put(0, [2, 0, TOTAL])), LawError),
    "set: others with a negative weight": (TOP, _weights(_put(0, [2, -1, TOTAL + 2])), LawError),
    "set: a truth below the others": (TOP, _weights(_put(0, [2, TOTAL // 2 + 1, -2])), LawError),
    "set: weights of another size": (TOP, _weights(_put(0, [3, TOTAL // 3, 1])), ShapeError),
    "set: a size twice": (TOP, _weights(lambda t: t.append([2, 1, TOTAL - 2])), LawError),
    "set: a size of nothing": (TOP, _weights(lambda t: t.insert(0, [0, 1, TOTAL])), LawError),
    "set: a negative size": (TOP, _weights(lambda t: t.insert(0, [-1, 1, TOTAL + 1])), LawError),
    "set: more than all labels": (TOP, _weights(lambda t: t.append([4, 1, TOTAL - 4])), LawError),
    "set: sizes out of order": (BY_ROW, _weights(lambda t: t.reverse()), LawError),
    "set: no weights": (TOP, _weights(lambda t: t.clear()), ShapeError),
    "set: a size without weights": (BY_ROW, _weights(lambda t: t.pop()), ShapeError),
    "set: an unknown label": (TOP, lambda d: d.update(top=[0, 3]), LawError),
    "set: a label from the end": (TOP, lambda d: d.update(top=[0, -1]), LawError),
    "set: truth values": (TOP, lambda d: d.update(top=[True, True, False]), LawError),
    "set: a label too few": (TOP, lambda d: d.update(top=[0]), ShapeError),
    "law: a negative weight": (ONE_LAW, _cells("law", _put((0, 0), -1)), LawError),
    "law: a weight of nothing": (ONE_LAW, _cells("law", _put((0, 2), 0)), LawError),
    "law: more than everything": (ONE_LAW, _cells("law", _put((0, 0), TOTAL)), LawError),
    "law: beyond 64 bits": (ONE_LAW, _cells("law", _put((0, 0), 2**70)), ReleaseFileError),
    "law: another number of labels": (ONE_LAW, lambda d: d.update(law=[["1", "2"]]), LawError),
    "law: no law": (ONE_LAW, lambda d: d.update(law=[]), LawError),
    "law: two laws for all rows": (ONE_LAW, lambda d: d.update(law=d["law"] * 2), ShapeError),
    "law: a law too few": (GROUPED, lambda d: d["law"].pop(), ShapeError),
    "law: no groups": (GROUPED, lambda d: d.update(grouped=False), ShapeError),
    "table: a unit too much": (TABLE, _cells("weights", _add(((0, 0, 0), 1))), MatrixError),
    "table: a unit too little": (TABLE, _cells("weights", _add(((0, 2, 1), -1))), MatrixError),
    "table: a negative weight": (TABLE, _cells("weights", _put((0, 1), [-1, TOTAL, 1])), MatrixError),
    "table: all of everything": (TABLE, _cells("weights", _put((0, 1), [TOTAL] * 3)), MatrixError),
    "table: beyond 64 bits": (TABLE, _cells("weights", _put((0, 1, 1), 2**70)), ReleaseFileError),
    "table: a row too few": (TABLE, lambda d: d["weights"][0].pop(), MatrixError),
    "table: a table too few": (TABLES, lambda d: d["weights"].pop(), ShapeError),
    "table: no groups": (TABLES, lambda d: d.update(grouped=False), MatrixError),
    "table: other released labels": (
        TABLE,
        lambda d: d.update(released={"kind": "integer", "labels": [0, 1]}),
        MatrixError,
    ),
    "space: one label": (RESPONSE, lambda d: d["space"].update(labels=[0]), LabelSpaceError),
    "space: a label twice": (RESPONSE, lambda d: d["space"].update(labels=[0, 0, 1]), LabelSpaceError),
    "space: other labels": (TABLE, lambda d: d["space"].update(labels=[0, 1]), MatrixError),
    "family: unknown": (RESPONSE, lambda d: d.update(family="telepathy"), ReleaseFileError),
    "family: another one": (RESPONSE, lambda d: d.update(family="table"), ReleaseFileError),
}


@pytest.mark.parametrize("what", TAMPERED)
def test_tampered_parameters_are_refused(what: str) -> None:
    """Weights that do not sum, negative or missing ones, and sets that do not fit raise an error of their own type."""
    channel, tamper, error = TAMPERED[what]
    data, columns = written(channel)
    tamper(data)

    with pytest.raises(error, match=r"^Expected "):
        restore_channel(data, columns)


def test_a_sum_that_wraps_around_is_refused() -> None:
    """Five weights of 2^62 sum to 2^62 in 64 bits; neither a law nor a table is such a row."""
    law = ResampledResponse(space(5), np.full(5, 0.2), 1.0).public()
    table = TableChannel(space(5), np.full((5, 5), 0.2)).public()

    with pytest.raises(LawError, match="sum to at most"):
        restore_channel({**law, "law": [[str(TOTAL)] * 5]}, {})
    with pytest.raises(MatrixError, match="every row summing"):
        restore_channel({**table, "weights": [[[str(TOTAL)] * 5] * 5]}, {})


@pytest.mark.parametrize(
    ("sets", "error"),
    [
        (np.array([[1], [0], [3]], np.uint8), ShapeError),  # an empty set
        (np.array([[1], [7], [7]], np.uint8) << 1, LawError),  # a fourth of three labels
        (np.full((3, 1), 255, np.uint8), LawError),
        (np.array([[9], [1], [3]], np.uint8), LawError),  # padding that a count would see, and a mask not
        (np.full((3, 2), 1, np.uint8), ShapeError),
        (np.zeros((3, 0), np.uint8), ShapeError),
        (np.zeros((0, 1), np.uint8), ShapeError),
        (np.array([1, 1, 3], np.uint8), ShapeError),
        (np.full((3, 1), 1, np.int64), ShapeError),
        (np.full((3, 1), 1.0), ShapeError),
        (None, ShapeError),
        (np.array([[b"1"]] * 3), ShapeError),
    ],
    ids=str,
)
def test_wrong_sets_are_refused(sets: Any, error: type[LabeldpError]) -> None:
    """A column of sets has the bits of all labels and no more, and no empty set."""
    with pytest.raises(error, match=r"^Expected "):
        restore_channel(BY_ROW.public(), {"label_set": sets})


@pytest.mark.parametrize("channel", [GROUPED, TABLES], ids=["laws", "tables"])
@pytest.mark.parametrize(
    ("groups", "error"),
    [
        (np.array([0, 1, 2]), ShapeError),
        (np.array([-1, 0, 1]), ShapeError),
        (np.array([0.0, 1.0]), ShapeError),
        (np.array([[0], [1]]), ShapeError),
        (np.array(["0"]), ShapeError),
        (np.array([], np.uint8), EmptyInputError),
        (None, ShapeError),
    ],
    ids=str,
)
def test_wrong_groups_are_refused(channel: FiniteChannel, groups: Any, error: type[LabeldpError]) -> None:
    """Groups are integers, one a row, each the number of a law or a table."""
    with pytest.raises(error, match=r"^Expected "):
        restore_channel(channel.public(), {"group": groups})


def test_what_is_not_tampered_with_passes() -> None:
    """The changes above are what is refused: without them every one of these channels is rebuilt."""
    for channel in ALL.values():
        assert channel == restore_channel(*written(channel))


def test_a_restored_channel_claims_what_its_own_weights_cost() -> None:
    """Epsilon is never read from a file: weights that were changed consistently have their own."""
    data, columns = written(RESPONSE)
    data["other"] = "1"

    assert restore_channel(data, columns).epsilon > 42
    assert 1.0 >= RESPONSE.epsilon
