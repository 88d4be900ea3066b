"""The kernel: a record batch in, the same batch with released labels out.

It is a pure function of the batch, the channel and the working key, so one machine, a stream, shuffled rows and a
retried task give the same bits.  A kept key binds the bits to the labels as they are, all of them: the digest is
made in a first pass (it adds up over batches in any order), and the draw is the second pass.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np

from labeldp.channels.base import draw_rows
from labeldp.errors import EmptyInputError, RawLabelsError, ShapeError
from labeldp.ids import RowIds, check_unique_tags
from labeldp.prf import PUBLIC_KEY, RowDigest
from labeldp.release.columns import label_column

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from labeldp.channels.base import FiniteChannel
    from labeldp.coins import Coins, CoinSession, RowBits
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
    """Releases batches of one table: make it with :func:`prepare`."""

    channel: FiniteChannel
    label: str
    id: str
    session: CoinSession
    context: tuple[bytes, ...]

    def __repr__(self) -> str:
        return f"RowKernel({self.channel!r}, label={self.label!r}, id={self.id!r})"

    def __reduce__(self) -> Any:  # refuses
        raise RawLabelsError("A kernel holds a secret key: it is not pickled.")

    def __call__(self, batch: pa.RecordBatch, *, start: int | None = None) -> pa.RecordBatch:
        """Release one batch: every other column passes through unchanged.

        ``start`` is the batch's first row in the table; a channel with parameters per row needs it.
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
        released = self.codes(channel, codes, ids)
        place = batch.schema.get_field_index(self.label)
        return batch.set_column(place, self.label, label_column(channel.released_space, released))

    def codes(self, channel: FiniteChannel, codes: Codes, ids: RowIds) -> Codes:
        """Release codes of rows with these ids."""
        bits: RowBits = self.session.bits(ids, PURPOSE, *self.context)
        return draw_rows(channel, codes, bits.stream())


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
    """Make the first pass over ``batches`` (validation and digests) and return the kernel for the second."""
    session = coins.session()
    labels, parameters = session.label_digest(), RowDigest(PUBLIC_KEY)
    by_row, seen = None if channel.rows is None else channel.row_bytes(), 0
    names: list[NDArray[np.uint64]] = []
    for batch in batches:
        ids = RowIds.of(batch.column(id))
        names.append(ids.tags(PUBLIC_KEY))
        labels.add(ids, channel.space.encode(batch.column(label)))
        rows = by_row[seen : seen + len(ids)] if by_row is not None else None
        seen += len(ids)
        if rows is not None and len(rows) == len(ids):
            parameters.add(ids, rows)
    if seen == 0:
        raise EmptyInputError("Expected at least one row, got none.")
    if channel.rows not in {None, seen}:
        raise ShapeError(f"Expected {channel.rows} rows, one for each of the channel's, got {seen}.")
    check_unique_tags(np.concatenate(names))
    context = context_of(
        dataset,
        version,
        {"mechanism": channel.public(), "column": label},
        channel.space,
        b"" if by_row is None else parameters.close(),
        labels.close() if session.binds_labels else b"",
    )
    return RowKernel(channel, label, id, session, context)
