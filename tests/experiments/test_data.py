"""Data sets are what their README says, in one order, read-only, and complain helpfully when they are not there."""

from __future__ import annotations

import os
from dataclasses import FrozenInstanceError
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from experiments import data
from experiments.data import DataError, Facts, load
from tests.experiments.helpers import counts, pack, tiny_tables, write_adult, write_digits, write_keel, write_tiles

DIGITS = Facts((20, 4, 5), (2,) * 10, (10, 4, 5), (1,) * 10)


def test_digits(tmp_path: Path) -> None:
    """MNIST and its like are images and labels in the order of the files."""
    train, test = write_digits(tmp_path / "mnist")
    read = load("mnist", tmp_path, DIGITS)

    assert np.array_equal(train, read.train)
    assert np.array_equal(test, read.test)
    assert (np.arange(20) % 10).tolist() == read.train_labels.tolist()
    assert ("mnist", "images", "official", 10) == (read.name, read.kind, read.split, read.space.size)


@pytest.mark.parametrize("cached", [False, True])
def test_cifar10(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cached: bool) -> None:
    """Five pictures of tiles make the training half; decoded ones may be kept, and are found again."""
    monkeypatch.setenv("LABELDP_CACHE", str(tmp_path / "kept") if cached else "")
    tiles = write_tiles(tmp_path / "cifar10")
    facts = Facts((20, 32, 32, 3), (2,) * 10, (4, 32, 32, 3), (1,) * 4 + (0,) * 6)
    for _ in range(2):
        data._loaded.cache_clear()
        read = load("cifar10", tmp_path, facts)

        assert np.array_equal(tiles[:20], read.train)
        assert np.array_equal(tiles[20:], read.test)
    assert (2 if cached else 0) == len(list((tmp_path / "kept").glob("*.npy")))


def test_kept_tiles_belong_to_their_pictures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a picture changes, what was decoded before is not taken for it."""
    monkeypatch.setenv("LABELDP_CACHE", str(tmp_path / "kept"))
    tiles = write_tiles(tmp_path)
    data._tiles([tmp_path / "data_batch_1.webp"], 32)
    (tmp_path / "data_batch_2.webp").replace(tmp_path / "data_batch_1.webp")

    assert np.array_equal(tiles[4:8], data._tiles([tmp_path / "data_batch_1.webp"], 32))


def test_adult(tmp_path: Path) -> None:
    """The census table keeps numbers and texts, ``?`` is a gap, and the test file's oddities are gone."""
    write_adult(tmp_path / "adult")
    read = load("adult", tmp_path, Facts((60, 14), (45, 15), (20, 14), (15, 5)))

    assert {pa.int64(), pa.string()} == set(read.train.schema.types)
    assert (60, 20) == (read.train.num_rows, read.test.num_rows)
    assert [20, 21] == read.test["age"].to_pylist()[:2]
    assert ["Private", "State-gov", "Private", None] == read.test["workclass"].to_pylist()[:4]
    assert {"<=50K", ">50K"} == set(read.test_labels)
    assert "income" not in read.train.column_names
    assert [1, 0, 0, 0] == read.test_codes[:4].tolist()


@pytest.mark.parametrize(
    ("name", "kind", "columns"), [("letter", "u1", 16), ("optdigits", "u1", 64), ("magic", "f8", 10)]
)
def test_keel(tmp_path: Path, name: str, kind: str, columns: int) -> None:
    """The small tables are arrays, split 80/20."""
    labels = data.SOURCES[name].space.labels
    write_keel(tmp_path / "keel" / f"{name}.dat.gz", columns, [str(label) for label in labels], 60)
    read = load(name, tmp_path, Facts((60, columns), counts(labels, 60)))

    assert ((48, columns), (12, columns)) == (read.train.shape, read.test.shape)
    assert kind == read.train.dtype.str[1:]
    assert "seeded 80/20" == read.split


def test_skin(tmp_path: Path) -> None:
    """Tab-separated bytes with a class 1 or 2."""
    pack(tmp_path / "skin" / "Skin_NonSkin.txt.gz", "".join(f"{i}\t{255 - i}\t7\t{1 + (i > 1)}\n" for i in range(10)))
    read = load("skin", tmp_path, Facts((10, 3), (2, 8)))
    rows = np.concatenate([read.train, read.test])

    assert [[i, 255 - i, 7] for i in range(10)] == rows[rows[:, 0].argsort()].tolist()
    assert [1, 1, *[2] * 8] == np.concatenate([read.train_labels, read.test_labels])[rows[:, 0].argsort()].tolist()


def test_tweets(tmp_path: Path) -> None:
    """Texts with commas and line breaks are whole, and the row without a text is dropped."""
    lines = ["textID,text,selected_text,sentiment", 'a," I`d go, if\nI could",go,neutral', "b,,,neutral"]
    pack(tmp_path / "tweet-sentiment-extraction" / "train.csv.gz", "\n".join([*lines, "c,no,no,negative\n"]))
    read = load("tweets", tmp_path, Facts((2,), (1, 1, 0)))

    assert {" I`d go, if\nI could", "no"} == {*read.train, *read.test}
    assert "tweet-sentiment-extraction" == read.name


def test_kddcup99(tmp_path: Path) -> None:
    """Forty-one named columns of numbers and texts; labels lose their full stop."""
    line = ",".join(["0", "tcp", "http", "SF", *["1"] * 20, *["0.50"] * 17])
    pack(tmp_path / "kddcup99" / "kddcup.data_10_percent.gz", f"{line},normal.\n{line},spy.\n" * 5)
    facts = tuple(5 if label in {"normal", "spy"} else 0 for label in data.SOURCES["kddcup99"].space.labels)
    read = load("kddcup99", tmp_path, Facts((10, 41), facts))

    assert ["tcp"] * 8 == read.train["protocol_type"].to_pylist()
    assert {"normal", "spy"} == {*read.train_labels, *read.test_labels}


def test_a_split_is_a_partition_and_always_the_same(tmp_path: Path) -> None:
    """Every row is in one half, with its own label, and the halves never change: these are the test rows of ten."""
    pack(tmp_path / "skin" / "Skin_NonSkin.txt.gz", "".join(f"{i}\t0\t0\t{1 + i % 2}\n" for i in range(10)))
    read = load("skin", tmp_path, Facts((10, 3), (5, 5)))

    assert [2, 8] == read.test[:, 0].tolist()
    assert [4, 9, 1, 6, 7, 3, 0, 5] == read.train[:, 0].tolist()
    assert (1 + read.train[:, 0] % 2).tolist() == read.train_labels.tolist()


@pytest.mark.parametrize("name", ["adult", "letter", "magic"])
def test_a_part_keeps_rows_with_their_labels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A part has the rows asked for, in their order, and never more than there are."""
    tiny_tables(tmp_path, monkeypatch)
    read = load(name)
    part = read.part(10, 10_000)

    assert (10, len(read.test_labels)) == (len(part.train_labels), len(part.test_labels))
    lines = _lines(read.train, read.train_labels)
    places = [lines.index(line) for line in _lines(part.train, part.train_labels)]
    assert sorted(places) == places


def test_a_part_of_texts(tmp_path: Path) -> None:
    """Texts are chosen with their labels, too."""
    rows = "".join(f"id{i},t{i},t,{('negative', 'neutral')[i % 2]}\n" for i in range(20))
    pack(tmp_path / "tweet-sentiment-extraction" / "train.csv.gz", "textID,text,selected_text,sentiment\n" + rows)
    part = load("tweets", tmp_path, Facts((20,), (10, 10, 0))).part(5, 2)

    assert (5, 2) == (len(part.train), len(part.test))
    assert [("negative", "neutral")[int(text[1:]) % 2] for text in part.train] == part.train_labels.tolist()


def test_data_are_frozen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run cannot change what the next one gets."""
    write_digits(tmp_path / "mnist")
    tiny_tables(tmp_path, monkeypatch)
    read = load("mnist", tmp_path, DIGITS)

    assert read is load("mnist", tmp_path, DIGITS)
    assert "DataSet('mnist', images, 10 classes, 20 train and 10 test rows, official split)" == repr(read)
    with pytest.raises(FrozenInstanceError):
        read.train = None  # type: ignore[misc]  # that is what is tested
    for each in (read, load("magic"), load("adult")):
        for array in (each.train, each.test, each.train_labels, each.test_labels):
            if isinstance(array, np.ndarray):
                with pytest.raises(ValueError, match="read-only"):
                    array[0] = array[1]


@pytest.mark.parametrize(
    ("facts", "message"),
    [
        (Facts((21, 4, 5), (2,) * 10, (10, 4, 5), (1,) * 10), r"mnist to have shape \(21, 4, 5\), got \(20, 4, 5\)"),
        (Facts((20, 4, 5), (2,) * 10, (10, 5, 4), (1,) * 10), r"shape \(10, 5, 4\)"),
        (Facts((20, 4, 5), (3, 1) + (2,) * 8, (10, 4, 5), (1,) * 10), r"label counts \(3, 1"),
        (Facts((20, 4, 5), (2,) * 10, (10, 4, 5), (0, 2) + (1,) * 8), r"label counts \(0, 2"),
    ],
)
def test_what_differs_from_the_readme_is_refused(tmp_path: Path, facts: Facts, message: str) -> None:
    """A shape or a count of labels that is not as published is an error that shows both."""
    write_digits(tmp_path / "mnist")

    with pytest.raises(DataError, match=message):
        load("mnist", tmp_path, facts)


def test_missing_data_are_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the variable, with a wrong one, without the folder or a file of a set, and with a wrong name."""
    monkeypatch.delenv("LABELDP_DATA", raising=False)
    with pytest.raises(DataError, match="Expected LABELDP_DATA to name the folder"):
        load("adult")
    monkeypatch.setenv("LABELDP_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(DataError, match="nowhere"):
        load("adult")
    monkeypatch.setenv("LABELDP_DATA", str(tmp_path))
    with pytest.raises(DataError, match=r"the folder .*adult"):
        load("adult")
    (tmp_path / "adult").mkdir()
    with pytest.raises(DataError, match=r"adult\.data\.gz"):
        load("adult")
    with pytest.raises(DataError, match=r"Expected one of mnist, .*, got 'mnits'"):
        load("mnits")


@pytest.mark.long
@pytest.mark.parametrize("name", data.NAMES)
def test_the_real_data_are_what_the_readme_says(name: str) -> None:
    """Where the data are, all of them load and pass their checks; elsewhere the error says what to set."""
    if os.environ.get("LABELDP_DATA"):
        read = load(name)
        sizes = data.SOURCES[name].facts

        assert sum(sizes.counts) + sum(sizes.test_counts or ()) == len(read.train_labels) + len(read.test_labels)
    else:
        with pytest.raises(DataError, match="LABELDP_DATA"):
            load(name)


def _lines(features: object, labels: np.ndarray) -> list[str]:
    rows = features.to_pylist() if isinstance(features, pa.Table) else np.asarray(features).tolist()
    return [f"{row} {label}" for row, label in zip(rows, labels, strict=True)]
