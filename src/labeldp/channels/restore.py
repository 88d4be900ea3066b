"""Rebuild a channel from what a release file holds of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labeldp.channels.base import TOTAL, FiniteChannel
from labeldp.channels.resampled import restore_resampled
from labeldp.channels.response import RandomizedResponse, restore_set_response
from labeldp.channels.table import restore_table
from labeldp.errors import LabeldpError, LawError, ReleaseFileError
from labeldp.labels import LabelSpace

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Restorer = Callable[[LabelSpace, dict[str, Any], dict[str, NDArray[Any]]], FiniteChannel]


def restore_channel(data: dict[str, Any], columns: dict[str, NDArray[Any]]) -> FiniteChannel:
    """Return the channel whose ``public()`` and ``row_columns()`` these are."""
    family = data.get("family")
    if not isinstance(family, str) or family not in _RESTORERS:
        raise ReleaseFileError(
            f"Expected a channel of a known family ({', '.join(_RESTORERS)}), got {family!r}. "
            "A newer version of labeldp may be needed.",
            family=family,
        )
    try:
        return _RESTORERS[family](LabelSpace.from_json(data["space"]), data, columns)
    except LabeldpError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError) as problem:
        raise ReleaseFileError(
            f"Expected the parameters of a channel of the family {family}, got something else: {problem!r}",
            family=family,
        ) from problem


def _restore_response(space: LabelSpace, data: dict[str, Any], _columns: dict[str, NDArray[Any]]) -> FiniteChannel:
    other = int(data["other"])
    if not 1 <= other <= TOTAL // space.size:
        raise LawError("Expected a weight between 1 and 2^62 / K.")
    return RandomizedResponse._of_other(space, other)  # its own family


_RESTORERS: dict[str, Restorer] = {
    "response": _restore_response,
    "set": restore_set_response,
    "resampled": restore_resampled,
    "table": restore_table,
}
