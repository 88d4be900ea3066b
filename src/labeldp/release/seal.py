"""Turn what a mechanism drew into a release."""

from __future__ import annotations

from functools import singledispatch
from typing import TYPE_CHECKING

from labeldp.channels.base import RowsDrawn
from labeldp.release.rows import RowRelease

if TYPE_CHECKING:
    from labeldp.ids import RowIds
    from labeldp.release.base import Release, Stamp


@singledispatch
def seal(drawn: object, stamp: Stamp, ids: RowIds) -> Release:  # noqa: ARG001  # the signature of those registered
    """Stamp a drawn result; each kind of result registers how it becomes a release."""
    raise TypeError(f"No release is made of {type(drawn).__name__}; register it with labeldp.release.seal.")


@seal.register(RowsDrawn)
def _(drawn: RowsDrawn, stamp: Stamp, ids: RowIds) -> Release:
    return RowRelease(drawn.codes, drawn.channel, stamp, None if ids.kind == "position" else ids)
