"""Laws of the draw."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from labeldp.channels.base import TOTAL, draw_rows
from labeldp.coins import KeyedCoins, SeededCoins
from labeldp.ids import RowIds
from labeldp.labels import code_type
from labeldp.prf import ROWS_PER_STEP
from labeldp.testing.statistics import IMPROBABLE, can_tell, p_value, sharpened
from labeldp.testing.subject import Subject, broken, spread

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from labeldp.labels import Codes
    from labeldp.testing.subject import Words

_LAST_WORD: Final = 2**64 - 1
_WORDS_PER_UNIT: Final = 4
_FINE: Final = 4096
_KEY: Final = bytes(range(32))


def draws_follow_the_table(subject: Subject) -> None:
    """Of all 2^64 words, exactly four times its weight release each label.

    A draw is a step function of its word.  Its steps are found by bisection between points among which are both
    sides of every boundary that the table suggests, so that a limit which is one word off is seen.
    """
    for row, context in subject.places:
        table = subject.tables[context]
        for code in range(len(table)):
            expected = [_WORDS_PER_UNIT * weight for weight in table[code].tolist()]
            points = _suggested(table, code)
            got = _word_counts(subject, row, code, points)
            if got != expected:
                # A step may hide between two points of one value.
                fine = np.linspace(0, 2.0**64 * (1 - 2.0**-50), _FINE).astype(np.uint64)
                got = _word_counts(subject, row, code, np.concatenate([points, fine]))
            if got != expected:
                label = next(i for i, (g, e) in enumerate(zip(got, expected, strict=True)) if g != e)
                broken(
                    draws_follow_the_table,
                    f"true label {code} of row {row} (table {context}) releases label {label} for {got[label]} of "
                    f"2^64 words; its weight says {expected[label]}",
                )


def frequencies_follow_the_table(subject: Subject) -> None:
    """Drawn frequencies pass a G-test of the table, and fail it for a like table at 1.1 epsilon."""
    pairs = [(row, context, code) for row, context in subject.places for code in range(len(subject.tables[context]))]
    each = max(subject.draws // len(pairs), 1)
    session = SeededCoins(subject.coins_seed).session()
    laws, sharper, counts = [], [], []
    for row, context, code in pairs:
        bits = session.bits(RowIds.positions(each), "law of frequencies", f"{row} {code}".encode())
        channel = subject.of_rows(np.full(each, row))
        codes = np.full(each, code, code_type(channel.space.size))
        drawn = draw_rows(channel, codes, bits.stream())
        counts.append(np.bincount(drawn, minlength=channel.released_space.size))
        laws.append(subject.tables[context][code] / float(TOTAL))
        sharper.append(sharpened(subject.tables[context])[code])
    probability = p_value(np.array(counts), np.array(laws))
    if probability < IMPROBABLE:
        broken(frequencies_follow_the_table, f"{each} draws a label have a p-value of {probability:.2g}")
    if not can_tell(np.array(laws), np.array(sharper), each):
        subject.notes.append(f"{each} draws a label cannot tell epsilon from 1.1 epsilon")
    elif (power := p_value(np.array(counts), np.array(sharper))) >= IMPROBABLE:
        broken(frequencies_follow_the_table, f"1.1 epsilon passes too, with a p-value of {power:.2g}")


def same_key_gives_the_same_bits(subject: Subject) -> None:
    """One key releases the same bits whole, in batches and shuffled; another key releases other ones."""
    channel = subject.channel
    count = ROWS_PER_STEP + 77
    rows = np.arange(count) % len(subject.rows)
    codes = (spread(count) * channel.space.size).astype(code_type(channel.space.size))
    ids = RowIds.of([f"row {number}" for number in range(count)])
    context = b"data", b"1", channel.digest()
    session = KeyedCoins(_KEY).session()

    def release(part: NDArray[np.intp], key: Any = session) -> Codes:
        bits = key.bits(ids.take(part), "row release", *context)
        return draw_rows(subject.of_rows(rows[part]), codes[part], bits.stream())

    everything = np.arange(count)
    whole = release(everything)
    if whole.dtype != code_type(channel.released_space.size) or int(whole.max()) >= channel.released_space.size:
        broken(same_key_gives_the_same_bits, f"released codes of type {whole.dtype} up to {whole.max()}")
    batches = np.split(everything, [1, 1000, ROWS_PER_STEP, ROWS_PER_STEP + 1])
    if not np.array_equal(whole, np.concatenate([release(batch) for batch in batches])):
        broken(same_key_gives_the_same_bits, "batches differ from the whole")
    order = np.argsort(spread(count, 1))
    if not np.array_equal(whole[order], release(order)):
        broken(same_key_gives_the_same_bits, "shuffled rows differ from the whole")
    random = any(_varies(subject.tables[table]) for _, table in subject.places)
    if random and np.array_equal(whole, release(everything, KeyedCoins(_KEY[::-1]).session())):
        broken(same_key_gives_the_same_bits, "another key gives the same bits")


def _suggested(table: NDArray[np.int64], code: int) -> Words:
    """Return words on both sides of every boundary of the usual layouts: the row in order, or redraws first."""
    ends: set[int] = {0, TOTAL}
    least = table.min(axis=0).tolist()
    for row in (table[code].tolist(), least):
        total = 0
        for weight in row:
            total += weight
            ends.add(total)
    words = {min(max(end * _WORDS_PER_UNIT + side, 0), _LAST_WORD) for end in ends for side in (-2, -1, 0, 1)}
    return np.array(sorted(words), np.uint64)


def _word_counts(subject: Subject, row: int, code: int, points: Words) -> list[int]:
    """Count how many of the 2^64 words release each label, by bisecting between points of different value."""

    def drawn(words: Words) -> NDArray[np.intp]:
        rows = np.full(len(words), row)
        return subject.draw(rows, np.full(len(words), code), words).astype(np.intp)

    points = np.unique(np.concatenate([points, np.array([0, _LAST_WORD], np.uint64)]))
    values = drawn(points)
    starts = [np.array([0], np.uint64)]
    labels = [values[:1]]
    moves = np.flatnonzero(values[1:] != values[:-1])
    low, high, low_value, high_value = points[moves], points[moves + 1], values[moves], values[moves + 1]
    while len(low):
        done = high - low <= 1
        starts.append(high[done])
        labels.append(high_value[done])
        low, high, low_value, high_value = low[~done], high[~done], low_value[~done], high_value[~done]
        if not len(low):
            break
        middle = low + (high - low) // np.uint64(2)
        value = drawn(middle)
        left, right = value != low_value, value != high_value
        low, low_value, high, high_value = (
            np.concatenate([low[left], middle[right]]),
            np.concatenate([low_value[left], value[right]]),
            np.concatenate([middle[left], high[right]]),
            np.concatenate([value[left], high_value[right]]),
        )
    first, label = np.concatenate(starts), np.concatenate(labels)
    order = np.argsort(first)
    ends = [*first[order][1:].tolist(), _LAST_WORD + 1]
    counts = [0] * subject.channel.released_space.size
    for start, end, released in zip(first[order].tolist(), ends, label[order].tolist(), strict=True):
        counts[released] += end - start
    return counts


def _varies(table: NDArray[np.int64]) -> bool:
    """Whether some released label is neither certain nor all but certain."""
    share = table / float(TOTAL)
    return bool(((share > 0.01) & (share < 0.99)).any(axis=1).all())
