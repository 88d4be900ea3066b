"""Readers give back what was written in the exact formats, and say which file is not what it should be."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from experiments.formats import DataError, matrix, read_csv, read_idx, read_json, read_keel, read_tiles
from tests.experiments.helpers import idx, pack, write_tiles


@pytest.mark.parametrize("kind", ["u1", "i1", "i2", "i4", "f4", "f8"])
@pytest.mark.parametrize("shape", [(7,), (3, 4, 5), (0, 2)])
def test_an_idx_file_is_the_array_it_was_made_of(tmp_path: Path, kind: str, shape: tuple[int, ...]) -> None:
    """Values, their order and the shape survive, whatever the type."""
    array = np.arange(np.prod(shape)).reshape(shape).astype(kind)
    read = read_idx(pack(tmp_path / "a.gz", idx(array)))

    assert shape == read.shape
    assert np.array_equal(array, read)


@pytest.mark.parametrize(
    "content",
    [b"", b"\0\0\x08", b"\1\0\x08\1\0\0\0\1a", b"\0\0\x07\1\0\0\0\1a", b"\0\0\x08\1\0\0\0\2a", b"\0\0\x08\1\0\0\0\1aa"],
    ids=["empty", "short", "no zeros", "no such type", "too few values", "too many values"],
)
def test_what_is_no_idx_file_is_refused(tmp_path: Path, content: bytes) -> None:
    """A file that is cut off, too long or something else gives an error with its name."""
    with pytest.raises(DataError, match=r"a\.gz"):
        read_idx(pack(tmp_path / "a.gz", content))


def test_a_file_that_is_missing_or_damaged_is_named(tmp_path: Path) -> None:
    """Every reader says which file it could not read."""
    damaged = tmp_path / "b.gz"
    damaged.write_bytes(gzip.compress(bytes(1000))[:-9])
    text = tmp_path / "c.json"
    text.write_text("[1,")
    for read, path in ((read_idx, tmp_path / "none.gz"), (read_idx, damaged), (read_json, text)):
        with pytest.raises(DataError, match=path.name):
            read(path)
    with pytest.raises(DataError, match=r"c\.json"):
        read_tiles(text, 32)


def test_tiles_come_row_by_row(tmp_path: Path) -> None:
    """Tile number i of a picture two tiles wide lies in tile row i // 2 and tile column i % 2, bit by bit."""
    tiles = write_tiles(tmp_path)

    assert np.array_equal(tiles[:4], read_tiles(tmp_path / "data_batch_1.webp", 32))
    assert np.array_equal(tiles[20:], read_tiles(tmp_path / "test_batch.webp", 32))


def test_tiles_must_fill_the_picture(tmp_path: Path) -> None:
    """A picture of 64 pixels is not made of tiles of 24."""
    write_tiles(tmp_path)

    with pytest.raises(DataError, match="24 pixels"):
        read_tiles(tmp_path / "test_batch.webp", 24)


HEADER = """@relation magic
@attribute 'long name' real [0.0, 1.5]
@attribute Width{0, 1}
@attribute Class {g, h}
@inputs long, Width

@data
"""


@pytest.mark.parametrize(("header", "names"), [("", ["x1", "x2"]), (HEADER, ["long name", "Width"])])
@pytest.mark.parametrize("comma", [",", ", "])
def test_a_keel_file_has_features_and_a_last_column(tmp_path: Path, header: str, names: list[str], comma: str) -> None:
    """With or without its header lines, and with or without spaces after commas."""
    rows = [["1.5", "0", "g"], ["-2.25", "1", "h"]]
    table, labels = read_keel(pack(tmp_path / "m.gz", header + "\n".join(comma.join(row) for row in rows) + "\n"))

    assert names == table.column_names
    assert [[1.5, 0.0], [-2.25, 1.0]] == matrix(table, "f8", tmp_path).tolist()
    assert ["g", "h"] == labels.tolist()


def test_labels_that_are_numbers_are_read_as_texts(tmp_path: Path) -> None:
    """The last column is never taken for a feature or a float."""
    _, labels = read_keel(pack(tmp_path / "m.gz", "3,0\n4,9\n"))

    assert ["0", "9"] == labels.tolist()


def test_numbers_are_never_rounded_or_wrapped(tmp_path: Path) -> None:
    """A table with 256, a fraction, a text or a gap is no array of bytes."""
    for value in ("256", "0.5", "-1"):
        table, _ = read_keel(pack(tmp_path / "m.gz", f"1,{value},a\n"))
        with pytest.raises(DataError, match="u1 can hold"):
            matrix(table, "u1", tmp_path)
    for value in ("text", ""):
        table, _ = read_keel(pack(tmp_path / "m.gz", f"1,{value},a\n"))
        with pytest.raises(DataError, match="without gaps"):
            matrix(table, "f8", tmp_path)


def test_a_header_without_rows_is_refused(tmp_path: Path) -> None:
    """Nothing is made of a file that holds no data."""
    with pytest.raises(DataError, match=r"m\.gz"):
        read_keel(pack(tmp_path / "m.gz", HEADER))


def test_quoted_texts_keep_commas_quotes_and_line_breaks(tmp_path: Path) -> None:
    """A table with a header line is read as the standard for CSV says; an empty text stays a text."""
    path = pack(tmp_path / "t.gz", 'id,text\n1,"a, b"\n2,"says ""no"""\n3,"two\nlines"\n4,\n')

    assert ["a, b", 'says "no"', "two\nlines", ""] == read_csv(path)["text"].to_pylist()
