"""The owner's side: from raw labels to releases."""

from labeldp.curator.batch import RowKernel, prepare
from labeldp.curator.session import Curator, privatize

__all__ = ["Curator", "RowKernel", "prepare", "privatize"]
