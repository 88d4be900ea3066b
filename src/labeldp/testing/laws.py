"""Laws every channel obeys, checked from outside: by brute force on its integer table, and on what it draws.

Nothing here knows a family of channels.  A law is a function of a :class:`Subject`; it returns, or raises
:class:`BrokenLawError` with words.  The brute force is cubic in the number of labels and looks at every table, so
check small channels: a family is the same program at any size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, final

from labeldp.channels.base import FiniteChannel
from labeldp.channels.restore import restore_channel
from labeldp.exact import exact
from labeldp.testing.draw_laws import (
    draws_follow_the_table,
    frequencies_follow_the_table,
    same_key_gives_the_same_bits,
)
from labeldp.testing.guarantee_laws import guarantee_is_that_of_the_table, guarantee_survives_json
from labeldp.testing.subject import Subject
from labeldp.testing.table_laws import (
    contexts_are_numbered,
    epsilon_is_the_largest_ratio,
    epsilon_is_what_was_asked,
    rows_sum_to_the_scale,
    transition_is_the_table,
)
from labeldp.testing.use_laws import (
    forward_is_the_matrix_product,
    likelihood_is_the_column,
    posterior_is_bayes,
    soft_labels_are_debiased_indicators,
    unbias_has_the_loss_as_mean,
    variance_factor_is_that_of_the_corrected_indicator,
)
from labeldp.testing.value_laws import (
    channel_is_an_immutable_value,
    channel_survives_json,
    channel_survives_pickling,
    take_is_the_channel_of_some_rows,
    wrong_input_is_refused,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from labeldp.testing.subject import Restorer

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


@final
@dataclass(frozen=True)
class Report:
    """What was checked, and what could not be shown."""

    laws: tuple[str, ...]
    notes: tuple[str, ...]


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
