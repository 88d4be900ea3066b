"""Laws every channel obeys, checked from outside: by brute force on its integer table, and on what it draws.

Nothing here knows a family of channels.  A law is a function of a :class:`Subject`; it returns, or raises
:class:`BrokenLawError` with words.  The brute force is cubic in the number of labels and looks at every table, so
check small channels: a family is the same program at any size.
"""

from __future__ import annotations

import json
import math
import pickle
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, NoReturn, final

import numpy as np

from labeldp.channels.base import TOTAL, FiniteChannel, draw_rows
from labeldp.channels.restore import restore_channel
from labeldp.coins import KeyedCoins, SeededCoins
from labeldp.errors import BiasWarning, EpsilonError, InputError, LabeldpError, ReleaseFileError
from labeldp.exact import exact, exp_bounds, float_up, log_up
from labeldp.guarantee.value import Guarantee
from labeldp.ids import RowIds
from labeldp.labels import code_type
from labeldp.prf import ROWS_PER_STEP

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from labeldp.labels import Codes

    Floats = NDArray[np.float64]
    Words = NDArray[np.uint64]
    Restorer = Callable[[dict[str, Any], dict[str, NDArray[Any]]], FiniteChannel]

#: A statistic this improbable under a law rejects the law: tests with fixed coins never come near it by chance.
IMPROBABLE: Final = 1e-6
#: Beyond this epsilon no table of 2^62 need come within 1e-9 of what was asked.
ATTAINABLE: Final = 16

_LAST_WORD: Final = 2**64 - 1
_WORDS_PER_UNIT: Final = 4
_ENOUGH: Final = 5.0
_SIGMAS: Final = 4.0
_ROUNDING: Final = 2.0**-52
_FINE: Final = 4096
_PRIMES: Final = 2**31 - 1, 2**31 - 19
_KEY: Final = bytes(range(32))


class BrokenLawError(AssertionError):
    """A channel breaks a law; ``law`` is the law's name."""

    def __init__(self, law: str, message: str) -> None:
        """Name the law in the message."""
        super().__init__(f"{law}: {message}")
        self.law = law


@final
@dataclass(frozen=True)
class Report:
    """What was checked, and what could not be shown."""

    laws: tuple[str, ...]
    notes: tuple[str, ...]


@final
@dataclass(frozen=True)
class Subject:
    """A channel under test, and what is known of how it was made.

    ``asked`` is the epsilon that was asked for, ``tight`` whether the mechanism is meant to spend all of it.
    """

    channel: FiniteChannel
    asked: Fraction | None = None
    tight: bool = True
    coins_seed: int = 0
    draws: int = 200_000
    restore: Restorer = restore_channel
    notes: list[str] = field(default_factory=list, compare=False)

    @cached_property
    def tables(self) -> list[NDArray[np.int64]]:
        """All integer tables, by context."""
        return [self.channel.weights_of(context) for context in range(self.channel.contexts)]

    @cached_property
    def rows(self) -> NDArray[np.intp]:
        """All rows of the channel, or a few where any row will do."""
        return np.arange(3 if self.channel.rows is None else self.channel.rows)

    @cached_property
    def places(self) -> list[tuple[int, int]]:
        """One (row, context) for every context that occurs in a row."""
        found: dict[int, int] = {}
        for row in self.rows.tolist():
            found.setdefault(self.channel.context_of(row), row)
        return [(row, context) for context, row in found.items()]

    def table_of(self, row: int) -> Floats:
        """P(released | true) of one row."""
        return self.tables[self.channel.context_of(row)] / float(TOTAL)

    def of_rows(self, rows: NDArray[np.intp]) -> FiniteChannel:
        """Return the channel of some rows, which may repeat."""
        return self.channel if self.channel.rows is None else self.channel.take(rows)

    def draw(self, rows: NDArray[np.intp], codes: NDArray[Any], words: Words) -> Codes:
        """Release ``codes`` of ``rows`` from given words."""
        return self.of_rows(rows)._draw(codes.astype(code_type(self.channel.space.size)), words, 0)


def check_channel(
    channel: FiniteChannel,
    *,
    asked: object = None,
    tight: bool = True,
    coins_seed: int = 0,
    draws: int = 200_000,
    restore: Restorer = restore_channel,
    laws: Iterable[Callable[[Subject], None]] | None = None,
) -> Report:
    """Check a channel against all laws, and raise :class:`BrokenLawError` at the first that it breaks.

    ``asked`` is the epsilon that the channel was made for; unless ``tight`` is false it must also be attained to
    1e-9.  ``draws`` bounds how many labels are drawn for the frequencies: where they cannot tell epsilon from 1.1
    epsilon, a note of the report says so.  ``restore`` reads back what ``public()`` and ``row_columns()`` wrote.
    """
    subject = Subject(channel, None if asked is None else exact(asked), tight, coins_seed, draws, restore)
    chosen = tuple(LAWS if laws is None else laws)
    for law in chosen:
        law(subject)
    return Report(tuple(law.__name__ for law in chosen), tuple(subject.notes))


# ---- the table ---------------------------------------------------------------------------------------------


def rows_sum_to_the_scale(subject: Subject) -> None:
    """Weights are integers >= 0 of the declared shape, and every row sums to 2^62."""
    shape = subject.channel.space.size, subject.channel.released_space.size
    for context, table in enumerate(subject.tables):
        if table.shape != shape or table.dtype.kind not in "iu":
            _broken(rows_sum_to_the_scale, f"table {context} has shape {table.shape} and type {table.dtype}")
        for label, row in enumerate(table.tolist()):
            if min(row) < 0 or sum(row) != TOTAL:
                _broken(rows_sum_to_the_scale, f"row {label} of table {context} sums to {sum(row)}: {row[:8]}")


def contexts_are_numbered(subject: Subject) -> None:
    """Every row has one of the tables; a channel for any rows has one table."""
    channel = subject.channel
    if channel.rows is None and channel.contexts != 1:
        _broken(contexts_are_numbered, f"any row will do, but there are {channel.contexts} tables")
    for row in subject.rows.tolist():
        if not 0 <= channel.context_of(row) < channel.contexts:
            _broken(contexts_are_numbered, f"row {row} has table {channel.context_of(row)} of {channel.contexts}")


def epsilon_is_the_largest_ratio(subject: Subject) -> None:
    """Epsilon is the largest log ratio of two weights of one released label, in exact arithmetic, rounded up."""
    channel = subject.channel
    largest = largest_ratio(subject.tables)
    expected = None if largest is None else log_up(largest)
    if channel.epsilon_exact != expected:
        _broken(epsilon_is_the_largest_ratio, f"expected {expected}, got {channel.epsilon_exact}")
    shown = math.inf if expected is None else float_up(expected)
    if channel.epsilon != shown or (expected is not None and Fraction(channel.epsilon) < expected):
        _broken(epsilon_is_the_largest_ratio, f"as a float expected {shown!r}, got {channel.epsilon!r}")


def epsilon_is_what_was_asked(subject: Subject) -> None:
    """Realised epsilon is at most the asked one, and within 1e-9 of it where weights are fine enough."""
    if subject.asked is None:
        return
    realised = subject.channel.epsilon_exact
    if realised is None or realised > subject.asked:
        shown = "infinity" if realised is None else float(realised)
        _broken(epsilon_is_what_was_asked, f"asked for {float(subject.asked)!r}, got {shown!r}")
    smallest = min(int(table[table > 0].min()) for table in subject.tables)
    # A table cannot be finer than its smallest weight.
    slack = Fraction(1, 10**9) + Fraction(subject.channel.space.size + 4, smallest)
    if subject.tight and subject.asked <= ATTAINABLE and subject.asked - realised > slack:
        _broken(epsilon_is_what_was_asked, f"asked for {float(subject.asked)!r}, attained only {float(realised)!r}")


def transition_is_the_table(subject: Subject) -> None:
    """``transition`` is the table over 2^62."""
    expected = np.stack(subject.tables) / float(TOTAL)
    got = subject.channel.transition
    if not np.array_equal(got, expected[0] if len(expected) == 1 else expected):
        _broken(transition_is_the_table, "transition differs from weights / 2^62")


# ---- the draw ----------------------------------------------------------------------------------------------


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
                _broken(
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
        _broken(frequencies_follow_the_table, f"{each} draws a label have a p-value of {probability:.2g}")
    if not _can_tell(np.array(laws), np.array(sharper), each):
        subject.notes.append(f"{each} draws a label cannot tell epsilon from 1.1 epsilon")
    elif (power := p_value(np.array(counts), np.array(sharper))) >= IMPROBABLE:
        _broken(frequencies_follow_the_table, f"1.1 epsilon passes too, with a p-value of {power:.2g}")


def same_key_gives_the_same_bits(subject: Subject) -> None:
    """One key releases the same bits whole, in batches and shuffled; another key releases other ones."""
    channel = subject.channel
    count = ROWS_PER_STEP + 77
    rows = np.arange(count) % len(subject.rows)
    codes = (_spread(count) * channel.space.size).astype(code_type(channel.space.size))
    ids = RowIds.of([f"row {number}" for number in range(count)])
    context = b"data", b"1", channel.digest()
    session = KeyedCoins(_KEY).session()

    def release(part: NDArray[np.intp], key: Any = session) -> Codes:
        bits = key.bits(ids.take(part), "row release", *context)
        return draw_rows(subject.of_rows(rows[part]), codes[part], bits.stream())

    everything = np.arange(count)
    whole = release(everything)
    if whole.dtype != code_type(channel.released_space.size) or int(whole.max()) >= channel.released_space.size:
        _broken(same_key_gives_the_same_bits, f"released codes of type {whole.dtype} up to {whole.max()}")
    batches = np.split(everything, [1, 1000, ROWS_PER_STEP, ROWS_PER_STEP + 1])
    if not np.array_equal(whole, np.concatenate([release(batch) for batch in batches])):
        _broken(same_key_gives_the_same_bits, "batches differ from the whole")
    order = np.argsort(_spread(count, 1))
    if not np.array_equal(whole[order], release(order)):
        _broken(same_key_gives_the_same_bits, "shuffled rows differ from the whole")
    random = any(_varies(subject.tables[table]) for _, table in subject.places)
    if random and np.array_equal(whole, release(everything, KeyedCoins(_KEY[::-1]).session())):
        _broken(same_key_gives_the_same_bits, "another key gives the same bits")


# ---- what follows from the table ---------------------------------------------------------------------------


def forward_is_the_matrix_product(subject: Subject) -> None:
    """``forward`` is the matrix product of class probabilities and the row's table."""
    given = _laws(len(subject.rows), subject.channel.space.size)
    got = subject.channel.forward(given)
    expected = np.stack([given[row] @ subject.table_of(row) for row in subject.rows.tolist()])
    _close(forward_is_the_matrix_product, got, expected, 1e-12)
    single = subject.channel.forward(given[0])
    alone = np.stack([given[0] @ subject.table_of(row) for row in subject.rows.tolist()])
    _close(forward_is_the_matrix_product, single, alone[: len(single)], 1e-12)


def likelihood_is_the_column(subject: Subject) -> None:
    """``likelihood`` is the column of the released code in the row's table."""
    for codes in _all_codes(subject):
        expected = np.stack([subject.table_of(row)[:, codes[row]] for row in subject.rows.tolist()])
        _close(likelihood_is_the_column, subject.channel.likelihood(codes), expected, 1e-12, least=0.0)


def posterior_is_bayes(subject: Subject) -> None:
    """``posterior`` is Bayes' rule on the table; where the prior deems the output impossible, the prior stands."""
    size = subject.channel.space.size
    sharp = np.zeros(size)
    sharp[-1] = 1.0
    by_row = _laws(len(subject.rows), size)
    for prior in (np.full(size, 1 / size), by_row[0], sharp, by_row):
        for codes in _all_codes(subject):
            given = np.broadcast_to(prior, (len(subject.rows), size))
            columns = np.stack([subject.table_of(row)[:, codes[row]] for row in subject.rows.tolist()])
            joint = columns * given
            possible = joint.sum(axis=1, keepdims=True) > 0
            expected = np.where(possible, joint, given)
            expected /= expected.sum(axis=1, keepdims=True)
            _close(posterior_is_bayes, subject.channel.posterior(codes, prior), expected, 1e-9)


def unbias_has_the_loss_as_mean(subject: Subject) -> None:
    """The corrected loss has the loss as its mean over the released label, whatever the true one.

    Where no unbiased correction exists, a :class:`BiasWarning` says so, and the mean is that of the best linear
    correction: of C^+, or with a prior of D C^T (C D C^T)^+ (ERRATA D4).
    """
    channel = subject.channel
    size = channel.space.size
    losses = 2.0 * _spread(len(subject.rows) * size, 2).reshape(-1, size) - 0.5
    if channel.invertible and not all(_exact_full_rank(subject.tables[context]) for _, context in subject.places):
        _broken(unbias_has_the_loss_as_mean, "says that it is invertible, and is not")
    by_row = _laws(len(subject.rows), size)
    for prior in (None, by_row[0], by_row):
        corrected = _corrected(subject, losses, prior)
        for row in subject.rows.tolist():
            table = subject.table_of(row)
            law = prior if prior is None or prior.ndim == 1 else prior[row]
            # Where rows differ by less than floats can tell, both answers are right.
            expected = losses[row]
            if not channel.invertible and not _full_rank(table):
                expected = losses[row] @ _best_linear(table, law) @ table.T
            got = table @ corrected[row]
            # The corrected loss is as large as noise makes it, and its mean loses as many digits.
            reach = float(np.abs(corrected[row]).max())
            tolerance = 1e-9 + 64 * size * _ROUNDING * max(reach, 1.0)
            if not (np.abs(got - expected) <= tolerance).all():
                _broken(
                    unbias_has_the_loss_as_mean,
                    f"row {row}: means {got} by true label, expected {expected} (prior: {prior is not None})",
                )


def soft_labels_are_debiased_indicators(subject: Subject) -> None:
    """``soft_labels`` holds, at the released code, the corrected indicator of every label."""
    channel = subject.channel
    size = channel.space.size
    for prior in (None, _laws(1, size)[0], _laws(len(subject.rows), size)):
        indicators = _indicators(subject, prior)
        for codes in _all_codes(subject):
            possible = np.array([subject.table_of(row)[:, codes[row]].any() for row in subject.rows.tolist()])
            expected = indicators[:, subject.rows, codes].T
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", BiasWarning)
                got = channel.soft_labels(codes, prior=prior)
            reach = max(float(np.abs(expected).max()), 1.0)
            _close(soft_labels_are_debiased_indicators, got[possible], expected[possible], 1e-9, least=1e-10 * reach)


def variance_factor_is_that_of_the_corrected_indicator(subject: Subject) -> None:
    """``variance_factor`` is the mean squared length of the corrected indicators, over labels and rows."""
    indicators = _indicators(subject, None)
    squares = (indicators**2).sum(axis=0)
    means = [float((subject.table_of(row) @ squares[row]).mean()) for row in subject.rows.tolist()]
    expected, got = np.array([math.fsum(means) / len(means)]), np.array([subject.channel.variance_factor])
    _close(variance_factor_is_that_of_the_corrected_indicator, got, expected, 1e-7)


# ---- the guarantee -----------------------------------------------------------------------------------------


def guarantee_is_that_of_the_table(subject: Subject) -> None:
    """Epsilon, delta and Renyi divergence of the guarantee are those of the worst pair of rows, never below."""
    law = guarantee_is_that_of_the_table
    channel = subject.channel
    if channel.epsilon_exact is None:
        try:
            promised = channel.guarantee
        except EpsilonError:
            return
        if math.isfinite(promised.epsilon()):
            _broken(law, f"an output rules out a label, but the guarantee says epsilon = {promised.epsilon()}")
        return
    guarantee = channel.guarantee
    top = channel.epsilon
    if guarantee.epsilon() != top or guarantee.charge().epsilon != channel.epsilon_exact:
        _broken(law, f"epsilon {top!r} of the table, {guarantee.epsilon()!r} of the guarantee")
    if guarantee.trust != "local" or guarantee.neighbour != "one label replaced":
        _broken(law, f"a channel is local and hides one label, but the guarantee says: {guarantee}")
    tables = _distinct(subject.tables)
    for epsilon in (0.0, top / 3, 0.99 * top, top, 2 * top):
        low, high = _hockey_stick(tables, epsilon)
        got = guarantee.delta(epsilon)
        if not low <= Fraction(got) <= high * Fraction(1 + 1e-9) + Fraction(1, 10**13):
            _broken(law, f"delta({epsilon!r}) of the table is {float(high)!r}, of the guarantee {got!r}")
    for alpha in (1.0, 1.5, 2.0, 8.0, math.inf):
        expected = _renyi(tables, alpha)
        got = guarantee.renyi(alpha)
        slack = 1e-9 * (1 + expected)
        # The brute force is in floats; the guarantee is rounded up.
        if not expected - 1e-13 * (1 + expected) <= got <= expected + slack:
            _broken(law, f"the divergence of order {alpha} is {expected!r}, of the guarantee {got!r}")


def guarantee_survives_json(subject: Subject) -> None:
    """A guarantee written as JSON and read back is the same guarantee."""
    if subject.channel.epsilon_exact is None:
        return
    guarantee = subject.channel.guarantee
    read = Guarantee.from_json(json.loads(json.dumps(guarantee.to_json())))
    same = read == guarantee and hash(read) == hash(guarantee)
    if not same or read.delta(0.1) != guarantee.delta(0.1) or str(read) != str(guarantee):
        _broken(guarantee_survives_json, f"{guarantee} became {read}")


# ---- the value ---------------------------------------------------------------------------------------------


def channel_survives_json(subject: Subject) -> None:
    """``public()`` as JSON and ``row_columns()`` rebuild an equal channel, which draws the same."""
    channel = subject.channel
    text = json.dumps(channel.public(), allow_nan=False)
    columns = {name: values.copy() for name, values in channel.row_columns().items()}
    if any(len(values) != channel.rows for values in columns.values()):
        _broken(channel_survives_json, f"columns by row are not as long as the channel's {channel.rows} rows")
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
            _broken(law, "all rows share one table, but the channel of two rows is another one")
        return
    mask = _spread(count, 3) < 0.5  # about half of the rows
    mask[0] = True
    repeated = np.concatenate([subject.rows[::-1], subject.rows[:2]])
    for chosen in (repeated, mask, slice(0, count, 2), repeated.tolist()):
        rows = np.arange(count)[np.asarray(chosen) if isinstance(chosen, list) else chosen]
        part = channel.take(chosen)
        if part.rows != len(rows):
            _broken(law, f"took {len(rows)} rows, got a channel of {part.rows}")
        for place, row in enumerate(rows.tolist()):
            if not np.array_equal(part.weights_of(part.context_of(place)), subject.tables[channel.context_of(row)]):
                _broken(law, f"row {row} has another table once it is taken")
        if channel.epsilon_exact is not None and not (part.epsilon_exact or 0) <= channel.epsilon_exact:
            _broken(law, f"some rows cost {part.epsilon}, all of them {channel.epsilon}")
        given = _laws(len(rows), channel.space.size)
        expected = np.stack([p @ subject.table_of(row) for p, row in zip(given, rows.tolist(), strict=True)])
        _close(law, part.forward(given), expected, 1e-12)


def channel_is_an_immutable_value(subject: Subject) -> None:
    """Nothing can be set, nothing handed out can be written through, equal channels hash alike, and the repr is short."""
    channel, law = subject.channel, channel_is_an_immutable_value
    before = channel.digest(), hash(channel), [table.copy() for table in subject.tables]
    for name in ("space", "epsilon", "_space", "anything"):
        try:
            setattr(channel, name, None)
        except AttributeError:
            continue
        _broken(law, f"{name} can be set")
    arrays: list[NDArray[Any]] = [channel.transition, channel.weights_of(0), *channel.row_columns().values()]
    for array in arrays:
        if array.flags.writeable:
            array[...] = 1 - array
    channel.public().clear()
    after = channel.digest(), hash(channel), [channel.weights_of(context) for context in range(channel.contexts)]
    if before[:2] != after[:2] or not all(map(np.array_equal, before[2], after[2])):
        _broken(law, "a table or column that was handed out could be written through")
    for name, value in getattr(channel, "__dict__", {}).items():
        if isinstance(value, np.ndarray) and value.flags.writeable:
            _broken(law, f"its array {name} can be written to")
    if channel != channel.take(subject.rows) or channel == subject.channel.space:
        _broken(law, "it does not equal itself, or equals something else")
    shown = repr(channel)
    if "\n" in shown or len(shown) > 200 or type(channel).__name__ not in shown:  # two lines
        _broken(law, f"expected one short line with its class, got {shown!r}")


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
        _broken(wrong_input_is_refused, f"{what} is not refused")


#: All laws, in the order in which they are checked.
LAWS: Final[tuple[Callable[[Subject], None], ...]] = (
    rows_sum_to_the_scale,
    contexts_are_numbered,
    epsilon_is_the_largest_ratio,
    epsilon_is_what_was_asked,
    transition_is_the_table,
    draws_follow_the_table,
    frequencies_follow_the_table,
    same_key_gives_the_same_bits,
    forward_is_the_matrix_product,
    likelihood_is_the_column,
    posterior_is_bayes,
    unbias_has_the_loss_as_mean,
    soft_labels_are_debiased_indicators,
    variance_factor_is_that_of_the_corrected_indicator,
    guarantee_is_that_of_the_table,
    guarantee_survives_json,
    channel_survives_json,
    channel_survives_pickling,
    take_is_the_channel_of_some_rows,
    channel_is_an_immutable_value,
    wrong_input_is_refused,
)


# ---- statistics --------------------------------------------------------------------------------------------


def largest_ratio(tables: Iterable[NDArray[np.int64]]) -> Fraction | None:
    """Return the largest ratio of two weights of one released label, exactly; None if one of them is 0."""
    largest = Fraction(1)
    for table in tables:
        for low, high in zip(table.min(axis=0).tolist(), table.max(axis=0).tolist(), strict=True):
            if high > 0:
                if low == 0:
                    return None
                largest = max(largest, Fraction(high, low))
    return largest


def sharpened(weights: NDArray[Any], factor: float = 1.1) -> Floats:
    """Return the table with all log ratios of a column multiplied by ``factor``, and rows normalised.

    For k-ary response this is k-ary response at ``factor`` times epsilon.

    >>> sharpened(np.array([[3, 1], [1, 3]])).round(4).tolist()
    [[0.77, 0.23], [0.23, 0.77]]
    """
    table = weights / weights.sum(axis=1, keepdims=True, dtype=np.float64)
    possible = table > 0
    logs = np.log(np.where(possible, table, 1.0))
    middle = logs.sum(axis=0) / np.maximum(possible.sum(axis=0), 1)
    sharper = np.where(possible, np.exp(middle + factor * (logs - middle)), 0.0)
    result: Floats = sharper / sharper.sum(axis=1, keepdims=True)
    return result


def p_value(counts: NDArray[Any], law: Floats) -> float:
    """Return the p-value of a G-test of rows of counts against rows of probabilities, all rows together.

    Cells of which fewer than five draws are expected are pooled.

    >>> p_value(np.array([[600, 400]]), np.array([[0.6, 0.4]]))
    1.0
    """
    from scipy.special import gammaincc

    if bool(((counts > 0) & (law <= 0)).any()):
        return 0.0
    statistic, freedom = 0.0, 0
    for row, probabilities in zip(counts, law, strict=True):
        expected, observed = _pooled(probabilities * row.sum(), row)
        seen = observed > 0
        statistic += 2 * float((observed[seen] * np.log(observed[seen] / expected[seen])).sum())
        freedom += len(expected) - 1
    return float(gammaincc(freedom / 2, max(statistic, 0.0) / 2)) if freedom else 1.0


def _pooled(expected: Floats, observed: NDArray[Any]) -> tuple[Floats, Floats]:
    order = np.argsort(-expected, kind="stable")
    expected, observed = expected[order], observed[order].astype(np.float64)
    kept = max(int((expected >= _ENOUGH).sum()), 1)
    rest = float(expected[kept:].sum())
    if rest >= _ENOUGH:
        kept += 1
    pooled = np.append(expected[: kept - 1], expected[kept - 1 :].sum())
    return pooled, np.append(observed[: kept - 1], observed[kept - 1 :].sum())


def _can_tell(law: Floats, other: Floats, draws: int) -> bool:
    """Whether so many draws a row from ``law`` make a G-test of ``other`` fail all but surely."""
    from scipy.special import gammainccinv

    freedom, divergence = 0, 0.0
    for row, against in zip(law, other, strict=True):
        # Pooled as p_value will pool them: by what the other law expects.
        expected, declared = _pooled(against * draws, row)
        seen = declared > 0
        divergence += float((declared[seen] * np.log(declared[seen] / (expected[seen] / draws))).sum())
        freedom += len(expected) - 1
    if not freedom:
        return False
    shift = 2 * draws * max(divergence, 0.0)
    limit = 2 * float(gammainccinv(freedom / 2, IMPROBABLE))
    return freedom + shift - _SIGMAS * math.sqrt(2 * (freedom + 2 * shift)) > limit


# ---- steps of a draw ---------------------------------------------------------------------------------------


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


# ---- brute force -------------------------------------------------------------------------------------------


def _hockey_stick(tables: list[NDArray[np.int64]], epsilon: float) -> tuple[Fraction, Fraction]:
    """Enclose the largest sum of (P - e^epsilon P')_+ over ordered pairs of rows: the best pair in floats, exactly."""
    times = math.exp(min(epsilon, 700.0))
    best, pair = -1.0, ([1], [1])
    for table in tables:
        for row in table:
            deltas = np.maximum(row.astype(np.float64) - times * table, 0.0).sum(axis=1)
            place = int(deltas.argmax())
            if deltas[place] > best:
                best, pair = float(deltas[place]), (row.tolist(), table[place].tolist())
    bounds = exp_bounds(Fraction(epsilon)) if epsilon else (Fraction(1), Fraction(1))
    high, low = (
        sum((max(p - growth * q, Fraction(0)) for p, q in zip(*pair, strict=True)), Fraction(0)) / TOTAL
        for growth in bounds
    )
    return low, high


def _renyi(tables: list[NDArray[np.int64]], alpha: float) -> float:
    largest = 0.0
    for table in tables:
        used = table[:, table.any(axis=0)] / float(TOTAL)
        logs = np.log(used)
        for row, log in zip(used, logs, strict=True):
            ratios = log - logs
            if math.isinf(alpha):
                value = float(ratios.max())
            elif alpha == 1:
                value = float((row * ratios).sum(axis=1).max())
            else:
                terms = log + (alpha - 1) * ratios
                peak = terms.max(axis=1, keepdims=True)
                value = float((peak[:, 0] + np.log(np.exp(terms - peak).sum(axis=1))).max()) / (alpha - 1)
            largest = max(largest, value)
    return largest


def _best_linear(table: Floats, prior: Floats | None) -> Floats:
    """Return A with l~ = l A of ERRATA D4, for a table P[true, released] without full rank."""
    channel = table.T
    if prior is None:
        return np.asarray(np.linalg.pinv(channel))
    # D C^T (C D C^T)^+ = D^1/2 (C D^1/2)^+, which squares no condition number.
    root = np.sqrt(prior)
    return np.asarray(root[:, None] * np.linalg.pinv(channel * root))


def _corrected(subject: Subject, losses: Floats, prior: Floats | None) -> Floats:
    """Return unbiased losses, having checked that a warning comes if and only if the channel is not invertible."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        corrected = subject.channel.unbias(losses, prior=prior)
    biased = any(issubclass(warning.category, BiasWarning) for warning in caught)
    if biased == subject.channel.invertible:
        _broken(unbias_has_the_loss_as_mean, f"invertible: {subject.channel.invertible}, but it warns: {biased}")
    others = [str(warning.message) for warning in caught if not issubclass(warning.category, BiasWarning)]
    shape = len(losses), subject.channel.released_space.size
    if others or corrected.shape != shape or not np.isfinite(corrected).all():
        _broken(unbias_has_the_loss_as_mean, f"expected finite losses of shape {shape}, got {corrected}; {others}")
    return corrected


def _indicators(subject: Subject, prior: Floats | None) -> Floats:
    """Return the corrected indicators, by label, row and released code."""
    size = subject.channel.space.size
    units = np.eye(size)
    return np.stack([_corrected(subject, np.tile(unit, (len(subject.rows), 1)), prior) for unit in units])


def _full_rank(table: Floats) -> bool:
    return int(np.linalg.matrix_rank(table)) == len(table)


def _exact_full_rank(table: NDArray[np.int64]) -> bool:
    """Whether a table has rank K, exactly: modulo a prime the rank can only be lower, and with two hardly is."""
    return any(_full_rank_modulo(table, prime) for prime in _PRIMES)


def _full_rank_modulo(table: NDArray[np.int64], prime: int) -> bool:
    rows = table % prime
    while len(rows):
        places = np.flatnonzero(rows[0])
        if not len(places):
            return False
        factors = rows[1:, places[0]] * pow(int(rows[0, places[0]]), -1, prime) % prime
        # Factors of 31 bits: their product fits 64.
        rows = (rows[1:] - factors[:, None] * rows[0]) % prime
    return True


def _varies(table: NDArray[np.int64]) -> bool:
    """Whether some released label is neither certain nor all but certain."""
    share = table / float(TOTAL)
    return bool(((share > 0.01) & (share < 0.99)).any(axis=1).all())


def _distinct(tables: list[NDArray[np.int64]]) -> list[NDArray[np.int64]]:
    return list({table.tobytes(): table for table in tables}.values())


def _same_channel(law: Callable[[Subject], None], subject: Subject, other: FiniteChannel) -> None:
    channel = subject.channel
    if other != channel or hash(other) != hash(channel) or other.digest() != channel.digest():
        _broken(law, f"{other!r} does not equal {channel!r}")
    if other.rows != channel.rows or other.epsilon_exact != channel.epsilon_exact:
        _broken(law, f"{other!r} has other rows or another epsilon than {channel!r}")
    for row in subject.rows.tolist():
        if not np.array_equal(other.weights_of(other.context_of(row)), subject.tables[channel.context_of(row)]):
            _broken(law, f"row {row} has another table")
    codes = np.arange(len(subject.rows)).astype(code_type(channel.space.size)) % channel.space.size
    words = (_spread(len(codes), 4) * 2.0**63).astype(np.uint64) * np.uint64(2)
    if not np.array_equal(other._draw(codes, words, 0), channel._draw(codes, words, 0)):
        _broken(law, "it draws something else")
    if channel.epsilon_exact is not None and other.guarantee != channel.guarantee:
        _broken(law, f"{other.guarantee} is not {channel.guarantee}")


def _all_codes(subject: Subject) -> list[NDArray[np.intp]]:
    """Return released codes for all rows such that every row meets every code."""
    outputs = subject.channel.released_space.size
    return [(subject.rows + shift) % outputs for shift in range(outputs)]


def _spread(count: int, start: int = 0) -> Floats:
    """Return numbers that spread evenly over [0, 1): multiples of the golden ratio."""
    return np.asarray((np.arange(1, count + 1) + 1000 * start) * 0.618_033_988_749_894_9 % 1.0, np.float64)


def _laws(rows: int, size: int) -> Floats:
    """Return rows of positive probabilities."""
    numbers = 0.05 + _spread(rows * size, 5).reshape(rows, size)
    laws: Floats = numbers / numbers.sum(axis=1, keepdims=True)
    return laws


def _close(
    law: Callable[[Subject], None], got: Floats, expected: Floats, relative: float, *, least: float | None = None
) -> None:
    absolute = relative if least is None else least
    if got.shape != expected.shape or not np.allclose(got, expected, relative, absolute):
        _broken(law, f"expected {expected}, got {got}")


def _broken(law: Callable[[Subject], None], message: str) -> NoReturn:
    raise BrokenLawError(law.__name__, message)
