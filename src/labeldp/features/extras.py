"""Optional libraries: imported where they are used, or named with the way to get them."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

from labeldp.errors import MissingExtraError


def needed(module: str, *, extra: str, by: str) -> Any:
    """Import a module of an extra for ``by``, or say which extra to install.

    >>> needed("nowhere_to_be_found", extra="umap", by="UmapEmbedding")
    Traceback (most recent call last):
    ...
    labeldp.errors.MissingExtraError: UmapEmbedding needs nowhere_to_be_found, ... Run: pip install 'labeldp[umap]'
    """
    try:
        with warnings.catch_warnings():
            # Some libraries warn, as they load, of optional parts of their own.
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ImportError as problem:
        raise MissingExtraError(
            f"{by} needs {module}, which cannot be imported. Run: pip install 'labeldp[{extra}]'", extra=extra
        ) from problem
