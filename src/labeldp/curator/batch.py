"""The kernel: a record batch in, the same batch with released labels out.

It is a pure function of the batch, the channel and the working key, so one machine, a stream, shuffled rows and a
retried task give the same bits.  A kept key binds the bits to the labels as they are, all of them: the digest is
made in a first pass (it adds up over batches in any order), and the draw is the second pass.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn, final

import numpy as np

from labeldp.channels.base import draw_rows
from labeldp.errors import EmptyInputError, LabelsChangedError, RawLabelsError, ShapeError
from labeldp.ids import RowIds
from labeldp.release.columns import label_column

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from labeldp.channels.base import FiniteChannel
    from labeldp.coins import Coins, CoinSession
    from labeldp.labels import Codes, LabelSpace

PURPOSE = "row release"


def context_of(
    dataset: str,
    version: str,
    description: dict[str, Any],
    space: LabelSpace,
    row_digest: bytes,
    label_digest: bytes,
) -> tuple[bytes, ...]:
    """Return what separates one use of a key from another: the parts that enter the working key."""
    text = canonical(description)
    return dataset.encode(), version.encode(), text, row_digest, space.digest(), label_digest


def canonical(facts: dict[str, Any]) -> bytes:
    """Write public facts as JSON with one spelling."""
    return json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()


@final
@dataclass(frozen=True, repr=False)
class RowKernel:
    """Releases batches of one table, the very rows of the first pass: make it with :func:`prepare`.

    It is how engines draw, and no door of its own: whoever opens it has charged before.
    """

    channel: FiniteChannel
    label: str
    id: str
    _session: CoinSession
    _context: tuple[bytes, ...]
    _seen: NDArray[np.uint64]

    def __repr__(self) -> str:
        return f"RowKernel({self.channel!r}, label={self.label!r}, id={self.id!r})"

    def _refuse(self, *_: object) -> NoReturn:
        raise RawLabelsError("A kernel holds a secret key: it is not pickled or copied.")

    __reduce__ = __reduce_ex__ = __copy__ = __deepcopy__ = __getstate__ = _refuse

    def __call__(self, batch: pa.RecordBatch, *, start: int | None = None) -> pa.RecordBatch:
        """Release one batch: every other column passes through unchanged.

        ``start`` is the batch's first row in the table; a channel with parameters per row needs it.  A row that was not
        in the first pass, or has another label or other parameters than there, is refused: its bits belong to the
        table as it was.
        """
        codes = self.channel.space.encode(batch.column(self.label))
        ids = RowIds.of(batch.column(self.id))
        channel = self.channel
        if channel.rows is not None:
            if start is None or not 0 <= start <= channel.rows - batch.num_rows:
                raise ShapeError(
                    f"Expected start=, the number of the batch's first row among {channel.rows}: the channel has "
                    f"parameters per row. Got {start} for a batch of {batch.num_rows}.",
                    start=start,
                )
            channel = channel.take(np.arange(start, start + batch.num_rows))
        words = _row_words(self._session, channel, ids, codes)
        places = np.minimum(np.searchsorted(self._seen, words), len(self._seen) - 1)
        if not np.array_equal(self._seen[places], words):
            raise LabelsChangedError(
                "Some rows are not those of the first pass: their ids, labels or parameters differ. For your eyes only: "
                "nothing of this batch was released. Prepare a kernel for the table as it is."
            )
        bits = self._session.bits(ids, PURPOSE, *self._context)
        released = draw_rows(channel, codes, bits.stream())
        place = batch.schema.get_field_index(self.label)
        return batch.set_column(place, self.label, label_column(channel.released_space, released))


def prepare(
    channel: FiniteChannel,
    coins: Coins,
    batches: Any,  # an iterable of record batches
    *,
    label: str = "label",
    id: str = "id",  # noqa: A002  # the column's name
    dataset: str = "",
    version: str = "",
) -> RowKernel:
    """Make the first pass over ``batches`` (validation and digests) and return the kernel for the second.

    Ids and one word a row stay in memory, labels do not.
    """
    session = coins.session()
    labels, names, words, seen = session.label_digest(), [], [], 0
    for batch in batches:
        ids, codes = RowIds.of(batch.column(id)), channel.space.encode(batch.column(label))
        names.append(ids)
        labels.add(ids, codes)
        part = channel
        if channel.rows is not None:
            if seen + len(ids) > channel.rows:
                raise ShapeError(f"Expected {channel.rows} rows, one for each of the channel's, got more.")
            part = channel.take(np.arange(seen, seen + len(ids)))
        words.append(_row_words(session, part, ids, codes))
        seen += len(ids)
    if seen == 0:
        raise EmptyInputError("Expected at least one row, got none.")
    if channel.rows not in {None, seen}:
        raise ShapeError(f"Expected {channel.rows} rows, one for each of the channel's, got {seen}.")
    everybody = RowIds.join(names)
    everybody.check_unique()
    context = context_of(
        dataset,
        version,
        {"mechanism": channel.public(), "column": label},
        channel.space,
        channel.parameter_digest(everybody),
        labels.close() if session.binds_labels else b"",
    )
    return RowKernel(channel, label, id, session, context, np.sort(np.concatenate(words)))


def _row_words(session: CoinSession, channel: FiniteChannel, ids: RowIds, codes: Codes) -> NDArray[np.uint64]:
    """Return a secret word for every row as it is: id, label and parameters."""
    words = session.row_digest("labels of a kernel").words(ids, codes)
    if channel.rows is not None:
        words ^= session.row_digest("parameters of a kernel").words(ids, channel.row_bytes())
    return words
