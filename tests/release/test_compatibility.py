"""Files of every version of the format stay readable, and a kept key gives the labels it always gave."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import labeldp as ldp
from labeldp.release import LabelledRelease, Release, manifest_of
from labeldp.release.files import FORMAT_VERSION
from tests.channels.test_laws import final_classes
from tests.golden.make_releases import HERE, KEY, releases, said

FILES = sorted(path for path in HERE.iterdir() if path.name.endswith((".parquet", ".csv", ".csv.gz")))
NAMES = sorted(path.name.removesuffix(".expected.json") for path in HERE.glob("*.expected.json"))


def expected_of(name: str) -> dict[str, Any]:
    """What a golden file said when it was made."""
    expected: dict[str, Any] = json.loads((HERE / f"{name}.expected.json").read_text(encoding="utf-8"))
    return expected


def near(expected: Any) -> Any:
    """Floats up to the last digits, everything else exactly."""
    if isinstance(expected, dict):
        return {name: near(value) for name, value in expected.items()}
    if isinstance(expected, list):
        return [near(value) for value in expected]
    return pytest.approx(expected, rel=1e-12) if isinstance(expected, float) else expected


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_golden_file_says_what_it_said(path: Path) -> None:
    """Labels, ids, channel, noise, guarantee and provenance of a file do not depend on the version that reads it."""
    release = ldp.read_release(path)

    assert near(expected_of(path.name.split(".")[0])) == said(release)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_golden_file_is_written_again_as_it_is(path: Path, tmp_path: Path) -> None:
    """What was read can be passed on: a copy holds the same manifest and the same columns, byte for byte in CSV."""
    release = ldp.read_release(path)

    release.write(tmp_path / path.name)
    again = ldp.read_release(tmp_path / path.name)

    assert manifest_of(release)[0] == manifest_of(again)[0]
    assert manifest_of(release)[1].equals(manifest_of(again)[1])
    if path.suffix == ".csv":
        assert path.read_bytes() == (tmp_path / path.name).read_bytes()
        assert path.with_suffix(".csv.json").read_bytes() == (tmp_path / f"{path.name}.json").read_bytes()


def test_every_golden_release_has_its_files() -> None:
    """Each release of the current format lies there as Parquet and as CSV."""
    current = [name for name in NAMES if name.startswith(f"v{FORMAT_VERSION}-")]

    assert sorted(f"v{FORMAT_VERSION}-{name}" for name in releases()) == current
    assert {f"{name}.{ending}" for name in NAMES for ending in ("parquet", "csv")} <= {path.name for path in FILES}


def test_every_kind_and_family_has_a_golden_file() -> None:
    """A new kind of release, or a new class of channels, cannot be added without a file that keeps it readable."""
    found, read = [expected_of(name) for name in NAMES], [ldp.read_release(path) for path in FILES]
    left, kinds = [Release], set()
    while left:
        kind = left.pop()
        left.extend(kind.__subclasses__())
        if "kind" in vars(kind) and kind.__module__.startswith("labeldp."):
            kinds.add(kind.__name__)

    assert kinds == {facts["type"] for facts in found}
    assert set(final_classes()) == {type(release.channel) for release in read if isinstance(release, LabelledRelease)}
    assert {"text", "integer", "truth value"} == {facts["space"]["kind"] for facts in found}
    assert {"keyed", "seeded"} == {facts["stamp"]["coins"] for facts in found}


def test_a_kept_key_gives_the_labels_it_always_gave() -> None:
    """Keyed releases are made again, bit for bit, by every version of the library; seeded ones too."""
    made = {f"v{FORMAT_VERSION}-{name}": release for name, release in releases().items()}

    for name, release in made.items():
        expected = expected_of(name)
        assert (name, expected["values"]) == (name, np.asarray(release).tolist())
        assert (name, expected["stamp"]) == (name, said(release)["stamp"])


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_secret_is_in_a_golden_file(path: Path) -> None:
    """Neither the kept key nor the ledger's key was written down."""
    data = path.read_bytes() + (path.with_name(f"{path.name}.json").read_bytes() if ".csv" in path.name else b"")

    for secret in (KEY, KEY[::-1]):
        assert secret not in data
        assert secret.hex().encode() not in data


def test_a_golden_row_release_explains_its_labels() -> None:
    """Every released label of a golden file is possible under the channel beside it, for some true label."""
    for path in FILES:
        release = ldp.read_release(path)
        if isinstance(release, LabelledRelease):
            assert (release.channel.likelihood(release.codes).max(axis=1) > 0).all()
