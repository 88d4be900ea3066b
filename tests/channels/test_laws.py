"""Every family of channels, found by discovery, obeys every law."""

from __future__ import annotations

import importlib
import inspect
import pkgutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

import labeldp
from labeldp.channels import FiniteChannel
from labeldp.testing import check_channel
from labeldp.testing.strategies import FAMILIES, made_channels


def final_classes() -> list[type[FiniteChannel]]:
    """Find every class of channels of the package that can be instantiated, wherever it is."""
    for module in pkgutil.walk_packages(labeldp.__path__, "labeldp."):
        if not module.name.startswith(("labeldp.cli", "labeldp.demo", "labeldp.learn.torch", "labeldp.service")):
            importlib.import_module(module.name)
    found, left = set(), [FiniteChannel]
    while left:
        kind = left.pop()
        left.extend(kind.__subclasses__())
        if not inspect.isabstract(kind) and kind.__module__.startswith("labeldp."):
            found.add(kind)
    return sorted(found, key=lambda kind: kind.__name__)


def test_every_family_can_be_drawn() -> None:
    """No class of channels is without a strategy."""
    assert [] == [kind.__name__ for kind in final_classes() if kind not in FAMILIES]


@pytest.mark.parametrize("kind", FAMILIES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_family_obeys_the_laws(kind: type[FiniteChannel], data: st.DataObject) -> None:
    """Whatever its parameters, a channel obeys every law."""
    made = data.draw(made_channels(kind))

    check_channel(made.channel, asked=made.asked, tight=made.tight, draws=20_000)
