"""Laws of a channel as a value: files, pickles, some of its rows, what can be changed, and what is refused."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.channels.base import FiniteChannel
from labeldp.errors import InputError, LabeldpError, ReleaseFileError
from labeldp.labels import code_type
from labeldp.testing.subject import Subject, broken, close, probabilities, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray


def channel_survives_json(subject: Subject) -> None:
    """``public()`` as JSON and ``row_columns()`` rebuild an equal channel, which draws the same."""
    channel = subject.channel
    text = json.dumps(channel.public(), allow_nan=False)
    columns = {name: values.copy() for name, values in channel.row_columns().items()}
    if any(len(values) != channel.rows for values in columns.values()):
        broken(channel_survives_json, f"columns by row are not as long as the channel's {channel.rows} rows")
    try:
        restored = subject.restore(json.loads(text), columns)
    except ReleaseFileError as error:
        subject.notes.append(f"not written to files: {error}")
        return
    _same_channel(channel_survives_json, subject, restored)


def channel_survives_pickling(subject: Subject) -> None:
    """A channel is public: it pickles, or says with an error of ours that it does not."""
    try:
        data = pickle.dumps(subject.channel)
    except LabeldpError as error:
        subject.notes.append(f"not pickled: {error}")
        return
    _same_channel(channel_survives_pickling, subject, pickle.loads(data))  # noqa: S301  # our own bytes


def take_is_the_channel_of_some_rows(subject: Subject) -> None:
    """``take`` by positions, mask or slice gives each row its own table, and no larger epsilon."""
    channel, law = subject.channel, take_is_the_channel_of_some_rows
    count = len(subject.rows)
    if channel.rows is None:
        if channel.take(np.arange(2)) != channel:
            broken(law, "all rows share one table, but the channel of two rows is another one")
        return
    mask = spread(count, 3) < 0.5  # about half of the rows
    mask[0] = True
    repeated = np.concatenate([subject.rows[::-1], subject.rows[:2]])
    for chosen in (repeated, mask, slice(0, count, 2), repeated.tolist()):
        rows = np.arange(count)[np.asarray(chosen) if isinstance(chosen, list) else chosen]
        part = channel.take(chosen)
        if part.rows != len(rows):
            broken(law, f"took {len(rows)} rows, got a channel of {part.rows}")
        for place, row in enumerate(rows.tolist()):
            if not np.array_equal(part.weights_of(part.context_of(place)), subject.tables[channel.context_of(row)]):
                broken(law, f"row {row} has another table once it is taken")
        if channel.epsilon_exact is not None and not (part.epsilon_exact or 0) <= channel.epsilon_exact:
            broken(law, f"some rows cost {part.epsilon}, all of them {channel.epsilon}")
        given = probabilities(len(rows), channel.space.size)
        expected = np.stack([p @ subject.table_of(row) for p, row in zip(given, rows.tolist(), strict=True)])
        close(law, part.forward(given), expected, 1e-12)


def channel_is_an_immutable_value(subject: Subject) -> None:
    """Nothing can be set, nothing handed out can be written through, equal channels hash alike, and the repr is short."""
    channel, law = subject.channel, channel_is_an_immutable_value
    before = channel.digest(), hash(channel), [table.copy() for table in subject.tables]
    for name in ("space", "epsilon", "_space", "anything"):
        try:
            setattr(channel, name, None)
        except AttributeError:
            continue
        broken(law, f"{name} can be set")
    arrays: list[NDArray[Any]] = [channel.transition, channel.weights_of(0), *channel.row_columns().values()]
    for array in arrays:
        if array.flags.writeable:
            array[...] = 1 - array
    channel.public().clear()
    after = channel.digest(), hash(channel), [channel.weights_of(context) for context in range(channel.contexts)]
    if before[:2] != after[:2] or not all(map(np.array_equal, before[2], after[2])):
        broken(law, "a table or column that was handed out could be written through")
    for name, value in getattr(channel, "__dict__", {}).items():
        if isinstance(value, np.ndarray) and value.flags.writeable:
            broken(law, f"its array {name} can be written to")
    if channel != channel.take(subject.rows) or channel == subject.channel.space:
        broken(law, "it does not equal itself, or equals something else")
    shown = repr(channel)
    if "\n" in shown or len(shown) > 200 or type(channel).__name__ not in shown:  # two lines
        broken(law, f"expected one short line with its class, got {shown!r}")


def wrong_input_is_refused(subject: Subject) -> None:
    """Codes that are none and tables of another shape raise an :class:`InputError`."""
    channel = subject.channel
    rows, size, outputs = len(subject.rows), channel.space.size, channel.released_space.size
    wrong: list[tuple[str, Callable[[], object]]] = [
        ("a code that is too large", lambda: channel.likelihood(np.full(rows, outputs))),
        ("a negative code", lambda: channel.likelihood(np.full(rows, -1))),
        ("codes that are floats", lambda: channel.likelihood(np.zeros(rows))),
        ("codes in two dimensions", lambda: channel.likelihood(np.zeros((rows, 1), int))),
        ("one class too many", lambda: channel.forward(np.zeros((rows, size + 1)))),
        ("one loss too few", lambda: channel.unbias(np.zeros((rows, size - 1)))),
    ]
    if channel.rows is not None:
        wrong += [
            ("a code too many", lambda: channel.likelihood(np.zeros(rows + 1, int))),
            ("a row too many", lambda: channel.forward(np.zeros((rows + 1, size)))),
        ]
    for what, call in wrong:
        try:
            call()
        except InputError:
            continue
        broken(wrong_input_is_refused, f"{what} is not refused")


def _same_channel(law: Callable[[Subject], None], subject: Subject, other: FiniteChannel) -> None:
    channel = subject.channel
    if other != channel or hash(other) != hash(channel) or other.digest() != channel.digest():
        broken(law, f"{other!r} does not equal {channel!r}")
    if other.rows != channel.rows or other.epsilon_exact != channel.epsilon_exact:
        broken(law, f"{other!r} has other rows or another epsilon than {channel!r}")
    for row in subject.rows.tolist():
        if not np.array_equal(other.weights_of(other.context_of(row)), subject.tables[channel.context_of(row)]):
            broken(law, f"row {row} has another table")
    codes = np.arange(len(subject.rows)).astype(code_type(channel.space.size)) % channel.space.size
    words = (spread(len(codes), 4) * 2.0**63).astype(np.uint64) * np.uint64(2)
    if not np.array_equal(other._draw(codes, words, 0), channel._draw(codes, words, 0)):
        broken(law, "it draws something else")
    if channel.epsilon_exact is not None and other.guarantee != channel.guarantee:
        broken(law, f"{other.guarantee} is not {channel.guarantee}")
