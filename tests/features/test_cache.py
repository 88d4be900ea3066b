"""The cache: complete or absent, checked, and no larger than it may be."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from labeldp.errors import InputError
from labeldp.features import PCA, Cache, represent
from labeldp.features.cache import default_folder
from tests.features.helpers import numbers


def _filled(folder: Path, count: int = 3) -> Cache:
    """A cache of entries a, b, c, each used later than the one before."""
    cache = Cache(folder)
    for place, name in enumerate("abcdefgh"[:count]):
        cache.store(name, {"place": place}, {"train": np.full(1000, place, np.float64)})
        for file in folder.glob(f"{name}.*"):
            os.utime(file, (1_000_000 + place, 1_000_000 + place))
    return cache


def test_what_is_stored_is_loaded(tmp_path: Path) -> None:
    """Facts and arrays of every type come back; what was never stored is absent."""
    cache = Cache(tmp_path / "new" / "folder")
    arrays = {"train": np.arange(6.0).reshape(2, 3)[:, ::-1], "test": np.array([[True], [False]])}
    cache.store("one", {"seconds": 1.5}, arrays)

    facts, found = cache.load("one") or ({}, {})

    assert {"seconds": 1.5} == facts
    assert all(np.array_equal(arrays[name], found[name]) for name in arrays)
    assert ["one"] == cache.digests()
    assert cache.load("two") is None
    assert Cache(tmp_path / "nowhere").load("one") is None
    assert [] == Cache(tmp_path / "nowhere").digests()


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "gone", "list", "format", "pickle"])
def test_a_damaged_entry_is_absent_and_made_again(tmp_path: Path, damage: str) -> None:
    """A changed bit, a cut or missing file, a broken list, a foreign format: the work is done again, and kept."""
    X, cache = numbers(), Cache(tmp_path)
    first = represent(PCA(2), X, cache=cache)
    expected, digest = np.array(first.train), first.digest
    del first
    array, entry = tmp_path / f"{digest}.train.npy", tmp_path / f"{digest}.json"
    data = array.read_bytes()
    if damage == "flip":
        array.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "cut":
        array.write_bytes(data[:-9])
    elif damage == "empty":
        array.write_bytes(b"")
    elif damage == "gone":
        array.unlink()
    elif damage == "list":
        entry.write_text(entry.read_text()[:-5])
    elif damage == "format":
        entry.write_text(json.dumps({**json.loads(entry.read_text()), "format": 99}))
    else:
        np.save(array, np.array([{}], dtype=object), allow_pickle=True)

    assert cache.load(digest) is None
    assert np.array_equal(expected, represent(PCA(2), X, cache=cache).train)
    assert cache.load(digest) is not None


def test_an_interrupted_store_leaves_nothing_that_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the second array cannot be written the entry is absent, whatever lies in the folder."""
    real, calls = np.save, []

    def fails(*args: Any, **kwargs: Any) -> None:
        calls.append(args)
        if len(calls) == 2:
            raise OSError("disk full")
        real(*args, **kwargs)

    monkeypatch.setattr(np, "save", fails)
    with pytest.raises(OSError, match="disk full"):
        Cache(tmp_path).store("one", {}, {"train": np.ones(3), "test": np.ones(3)})

    assert Cache(tmp_path).load("one") is None
    assert [] == [path for path in tmp_path.iterdir() if path.suffix == ".tmp"]


def test_pruning_removes_what_was_unused_longest(tmp_path: Path) -> None:
    """Entries go in the order of their last use until the rest fits; using one keeps it."""
    cache = _filled(tmp_path)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert cache.load("a") is not None

    assert 0 == cache.prune(size)
    gone = cache.prune(size - 1)

    assert ["c", "a"] == cache.digests()
    assert size - gone == sum(path.stat().st_size for path in tmp_path.iterdir())
    assert size - gone == cache.prune(0)
    assert [] == list(tmp_path.iterdir())


def test_pruning_leaves_other_files_alone(tmp_path: Path) -> None:
    """What the cache did not write stays; arrays without a list, of an interrupted store, go with age."""
    cache = _filled(tmp_path, 1)
    (tmp_path / "notes.txt").write_text("mine")
    np.save(tmp_path / "orphan.train.npy", np.ones(10))

    cache.prune(0)

    assert ["notes.txt"] == [path.name for path in tmp_path.iterdir()]


def test_a_limit_holds_after_every_entry(tmp_path: Path) -> None:
    """With a limit the cache never holds more for long."""
    cache = Cache(tmp_path, limit=20_000)
    for place in range(6):
        cache.store(f"e{place}", {}, {"train": np.zeros(1000)})

        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= 20_000
    assert cache.load("e5") is not None
    with pytest.raises(InputError, match="limit"):
        Cache(limit=-1)


@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {"LABELDP_CACHE": "/named/folder"}, "/named/folder"),
        ("linux", {"XDG_CACHE_HOME": "/xdg"}, "/xdg/labeldp/features"),
        ("linux", {}, "/home/ada/.cache/labeldp/features"),
        ("darwin", {"XDG_CACHE_HOME": "/xdg"}, "/home/ada/Library/Caches/labeldp/features"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/labeldp/features"),
        ("win32", {}, "/home/ada/AppData/Local/labeldp/features"),
    ],
)
def test_the_folder_is_named_or_the_system_s(
    monkeypatch: pytest.MonkeyPatch, platform: str, variables: dict[str, str], expected: str
) -> None:
    """The variable decides; without it, the place where each system keeps caches."""
    for name in ("LABELDP_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/ada")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", platform)

    assert Path(expected) == default_folder()
    assert Path(expected) == Cache().folder
    assert repr(Cache("x")) == "Cache('x')"
