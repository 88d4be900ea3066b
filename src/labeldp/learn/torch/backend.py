"""The one place that imports torch, and says what to do without it."""

from __future__ import annotations

from typing import Any

from labeldp.errors import MissingExtraError


def torch_module() -> Any:
    """Return torch, or raise :class:`MissingExtraError` naming the extra."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(
            "Neural learners need torch, which is not installed. Run: pip install 'labeldp[torch]' (for a CPU build "
            "install torch from its CPU index first), or use estimator='logistic' or a classifier of scikit-learn."
        ) from None
    return torch
