"""Tiny data in the exact file formats, and experiments that cost nothing."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from experiments import data
from experiments.data import Facts
from experiments.harness import Cell, Experiment, Layout, Options


def pack(path: Path, content: bytes | str) -> Path:
    """Write a gzip file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content.encode() if isinstance(content, str) else content))
    return path


def idx(array: np.ndarray) -> bytes:
    """Return the bytes of an IDX file, written the slow way."""
    codes = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}
    head = bytes([0, 0, codes[array.dtype.str[1:]], array.ndim])
    lengths = b"".join(length.to_bytes(4, "big") for length in array.shape)
    return head + lengths + array.astype(array.dtype.newbyteorder(">")).tobytes()


def write_digits(home: Path, train: int = 20, test: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Write four IDX files as MNIST's are; row i has the label i modulo 10."""
    rng = np.random.default_rng(0)
    images = [rng.integers(0, 256, (rows, 4, 5), np.uint8) for rows in (train, test)]
    for half, pixels in zip(("train", "t10k"), images, strict=True):
        pack(home / f"{half}-images-idx3-ubyte.gz", idx(pixels))
        pack(home / f"{half}-labels-idx1-ubyte.gz", idx(np.arange(len(pixels), dtype=np.uint8) % 10))
    return images[0], images[1]


def write_tiles(home: Path, across: int = 2) -> np.ndarray:
    """Write six lossless pictures of ``across`` squared tiles, and labels; return all tiles, the test ones last."""
    from PIL import Image

    rng = np.random.default_rng(0)
    tiles = rng.integers(0, 256, (6 * across**2, 32, 32, 3), np.uint8)
    home.mkdir(parents=True, exist_ok=True)
    names = [*(f"data_batch_{batch}" for batch in range(1, 6)), "test_batch"]
    for name, part in zip(names, np.split(tiles, 6), strict=True):
        picture = np.block([[[part[down * across + right]] for right in range(across)] for down in range(across)])
        Image.fromarray(picture).save(home / f"{name}.webp", lossless=True)
    labels = (np.arange(len(tiles)) % 10).tolist()
    (home / "train_labels.json").write_text(json.dumps(labels[: -(across**2)]))
    (home / "test_labels.json").write_text(json.dumps(labels[-(across**2) :]))
    return tiles


def write_adult(home: Path, train: int = 60, test: int = 20) -> None:
    """Write both halves of the census table with all their oddities; every fourth row earns more."""
    for half, rows, stop in (("data", train, ""), ("test", test, ".")):
        lines = []
        for row in range(rows):
            income = ">50K" if row % 4 == 0 else "<=50K"
            job = "?" if row % 7 == 3 else ("Private", "State-gov")[row % 2]
            lines.append(
                f"{20 + row}, {job}, {70000 + row}, Bachelors, 13, Divorced, Sales, Unmarried, White, Male, "
                f"{5000 * (row % 4 == 0)}, 0, {30 + row % 20}, Cuba, {income}{stop}"
            )
        comment = "|1x3 Cross validator\n" if half == "test" else ""
        pack(home / f"adult.{half}.gz", comment + "\n".join(lines) + "\n\n")


def write_keel(path: Path, columns: int, labels: Sequence[str], rows: int, header: str = "") -> None:
    """Write a KEEL file: row i has the label i modulo the number of labels, and values that follow from it."""
    rng = np.random.default_rng(0)
    lines = []
    for row in range(rows):
        code = row % len(labels)
        values = (rng.integers(0, 4, columns) + code) % 16
        lines.append(",".join([*map(str, values), labels[code]]))
    pack(path, header + "\n".join(lines) + "\n")


def counts(labels: Sequence[Any], rows: int) -> tuple[int, ...]:
    """Return how often each label occurs when row i has the label i modulo their number."""
    tally = Counter(row % len(labels) for row in range(rows))
    return tuple(tally[code] for code in range(len(labels)))


def tiny_tables(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put small adult, letter and magic tables into a folder, and make it the one to load from."""
    letters = data.SOURCES["letter"].space.labels
    write_adult(folder / "adult")
    write_keel(folder / "keel" / "letter.dat.gz", 16, [str(letter) for letter in letters], 130)
    write_keel(folder / "keel" / "magic.dat.gz", 10, ["g", "h"], 60)
    facts = {
        "adult": Facts((60, 14), (45, 15), (20, 14), (15, 5)),
        "letter": Facts((130, 16), counts(letters, 130)),
        "magic": Facts((60, 10), (30, 30)),
    }
    for name, fact in facts.items():
        monkeypatch.setitem(data.SOURCES, name, replace(data.SOURCES[name], facts=fact))
    monkeypatch.setenv("LABELDP_DATA", str(folder))


def toy(measure: Callable[[str, float | None, int], Any], **changes: Any) -> Experiment:
    """Return an experiment of six cells: two datasets, no privacy and two epsilons."""

    def cells(options: Options) -> Iterator[Cell]:
        for dataset in ("tea", "milk"):
            for epsilon in (None, 1.0, 2.0):
                method = "clean" if epsilon is None else "rr"
                yield Cell(
                    dataset=dataset,
                    method=method,
                    epsilon=epsilon,
                    fields={"setting": "inductive"},
                    measure=lambda seed, dataset=dataset, epsilon=epsilon: measure(dataset, epsilon, seed),
                )

    return Experiment(**{"name": "D-toy", "what": "a toy", "rows": cells, "seeds": 2, "table": Layout()} | changes)
