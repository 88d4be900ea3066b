"""Settings of the whole suite: property tests repeat exactly, and look further when asked to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

_LONG = os.environ.get("LABELDP_LONG", "") not in {"", "0"}
_SHARED = {
    "deadline": None,
    "derandomize": True,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}

settings.register_profile("default", max_examples=40, **_SHARED)
settings.register_profile("long", max_examples=1_000, **_SHARED)
settings.load_profile("long" if _LONG else "default")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything under tests/long carries the marker ``long``."""
    long = Path(__file__).parent / "long"
    for item in items:
        if long in Path(item.path).parents:
            item.add_marker(pytest.mark.long)
