"""A few facts about the package as it is installed; `make wheel-test` runs them against the built wheel alone."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from pathlib import Path

import numpy as np
import pytest

import labeldp as ldp


@pytest.mark.parametrize("name", ldp.__all__)
def test_every_public_name_can_be_had(name: str) -> None:
    """A name that is promised is there."""
    assert getattr(ldp, name) is not None


def test_the_package_is_typed() -> None:
    """Type checkers of users see our annotations."""
    assert (Path(ldp.__file__).parent / "py.typed").is_file()


def test_a_release_survives_the_disk(tmp_path: Path) -> None:
    """Privatize, write and read: the same labels and the same epsilon come back."""
    path = tmp_path / "smoke.release.parquet"
    space = ldp.LabelSpace(["a", "b"])
    release = ldp.privatize(["a", "b"] * 50, ldp.RandomizedResponse(space, epsilon=1.0))

    release.write(path)
    back = ldp.read_release(path)

    assert list(np.asarray(release)) == list(np.asarray(back))
    assert set(np.asarray(back)) <= {"a", "b"}
    assert release.guarantee.epsilon(delta=0) == back.guarantee.epsilon(delta=0) <= 1.0


def test_the_wheel_is_what_is_tested() -> None:
    """In the wheel test the code comes from the installed wheel, not from the working tree."""
    if os.environ.get("LABELDP_WHEEL_TEST"):
        assert Path(ldp.__file__).is_relative_to(sys.prefix)
    else:
        assert importlib.metadata.version("labeldp")
