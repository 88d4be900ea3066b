"""Channels: the law of a released label given the true one, as integer tables."""

from labeldp.channels.base import SCALE_BITS, TOTAL, FiniteChannel, RowsDrawn
from labeldp.channels.design import best_channel
from labeldp.channels.resampled import ResampledResponse
from labeldp.channels.response import (
    PriorRandomizedResponse,
    RandomizedResponse,
    SetResponse,
    TopKRandomizedResponse,
)
from labeldp.channels.restore import restore_channel
from labeldp.channels.table import TableChannel, constant_channel, identity_channel

__all__ = [
    "SCALE_BITS",
    "TOTAL",
    "FiniteChannel",
    "PriorRandomizedResponse",
    "RandomizedResponse",
    "ResampledResponse",
    "RowsDrawn",
    "SetResponse",
    "TableChannel",
    "TopKRandomizedResponse",
    "best_channel",
    "constant_channel",
    "identity_channel",
    "restore_channel",
]
