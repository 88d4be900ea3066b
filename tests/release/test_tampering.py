"""Altered, damaged and forged release files are refused, with one kind of error and no other."""

from __future__ import annotations

import json
import random
import shutil
import warnings
import zipfile
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import labeldp as ldp
from labeldp import errors
from labeldp.guarantee.value import ApproximateLoss, ConcentratedLoss, FiniteLoss, LawLoss, PureLoss
from labeldp.noise import guarantee_of_counts
from labeldp.release import Release, manifest_of
from labeldp.release.columns import content_digest
from labeldp.release.files import _canonical, _sealed, _sidecar_bytes
from tests.golden.make_releases import HERE, releases

FILES = sorted(path.name for path in HERE.iterdir() if path.name.endswith((".parquet", ".csv", ".csv.gz")))
PARQUET = [name for name in FILES if name.endswith(".parquet")]
Table = tuple[dict[str, Any], pa.Table]


def refused(path: Path) -> str:
    """Read a file that must be refused, and return what is said of it; a warning is no refusal."""
    with pytest.raises(errors.ReleaseFileError) as caught:
        ldp.read_release(path)
    return str(caught.value)


def content(release: Release) -> tuple[str, str]:
    """All that a release says."""
    manifest, table = manifest_of(release)
    return json.dumps(manifest, sort_keys=True), content_digest(table)


@cache
def content_of(name: str) -> tuple[str, str]:
    """All that a golden file says."""
    return content(ldp.read_release(HERE / name))


def refused_or_unchanged(path: Path, name: str) -> bool:
    """Whether a damaged file is refused; if it is not, it must say all that it said, and without a warning."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            release = ldp.read_release(path)
        except errors.ReleaseFileError:
            return True
    assert content_of(name) == content(release)
    assert [] == said
    return False


def copied(name: str, folder: Path) -> Path:
    """Copy a golden file and its sidecar."""
    for part in (HERE / name, HERE / f"{name}.json"):
        if part.exists():
            shutil.copy(part, folder)
    return folder / name


# ---- damage ------------------------------------------------------------------------------------------------


@given(data=st.data())
@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "csv.json"])
def test_flipped_bytes_are_found(ending: str, data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Wherever bytes of a file are flipped, it is refused, or it still says exactly what it said."""
    name = data.draw(st.sampled_from([name for name in FILES if name.endswith(ending.removesuffix(".json"))]))
    path = copied(name, tmp_path_factory.mktemp("flip"))
    damaged = path.with_name(f"{name}.json") if ending == "csv.json" else path
    content = bytearray(damaged.read_bytes())
    for place, change in data.draw(
        st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(1, 255)), min_size=1, max_size=3)
    ):
        content[place] ^= change
    changed = bytes(content) != damaged.read_bytes()
    damaged.write_bytes(content)

    found = refused_or_unchanged(path, name)

    # Of a Parquet file, statistics and padding say nothing, of a packed file its head.
    assert found or not changed or ending in {"parquet", "csv.gz"}


@given(place=st.floats(0, 1, exclude_max=True), change=st.integers(1, 255), name=st.sampled_from(PARQUET))
def test_every_byte_of_manifest_and_seal_counts(
    place: float, change: int, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One changed byte of the manifest or of the seal, wherever it is, has the file refused."""
    metadata = pq.read_schema(HERE / name).metadata
    content = (HERE / name).read_bytes()
    path = tmp_path_factory.mktemp("byte") / name
    for text in (metadata[b"labeldp"], metadata[b"labeldp.seal"]):
        assert 1 == content.count(text)
        damaged = bytearray(content)
        damaged[content.index(text) + int(place * len(text))] ^= change
        path.write_bytes(damaged)

        assert refused(path)


def another(value: Any, rng: random.Random) -> Any:
    """Return a value of the same type that is another one."""
    match value:
        case None:
            return "a"
        case bool():
            return not value
        case int():
            return value - 1 if value > 0 else value + 1
        case float():
            return np.nextafter(value, np.inf)
        case str():
            return f"{value}x"
        case bytes():
            place = rng.randrange(len(value))
            return bytes([*value[:place], value[place] ^ 1, *value[place + 1 :]])
        case list():
            return [*value[:-1], value[-1] + 1]
        case _:
            return type(value).fromordinal(value.toordinal() + 1)


def changed_cell(table: pa.Table, column: str, row: int, value: Any) -> pa.Table:
    """Change one cell of a table."""
    cells = table.column(column).to_pylist()
    cells[row] = value
    place = table.column_names.index(column)
    return table.set_column(place, column, pa.array(cells, table.schema.field(column).type))


@pytest.mark.parametrize("name", PARQUET)
def test_every_cell_counts(name: str, tmp_path: Path) -> None:
    """One changed cell, in whichever column and row, has the file refused; so has a missing or swapped row."""
    table = pq.read_table(HERE / name)
    rng = random.Random(1)
    path = tmp_path / name
    altered = [
        changed_cell(table, column, row, another(table.column(column)[row].as_py(), rng))
        for column in table.column_names
        for row in range(table.num_rows)
    ]
    altered += [table.slice(1), table.slice(0, table.num_rows - 1), pa.concat_tables([table, table.slice(0, 1)])]
    altered += [table.drop_columns([column]) for column in table.column_names]
    altered += [table.append_column("more", pa.array(range(table.num_rows)))]
    for other in altered:
        pq.write_table(other.replace_schema_metadata(table.schema.metadata), path)

        assert refused(path)


@pytest.mark.parametrize("name", [name for name in FILES if name.endswith(".csv")])
def test_every_cell_of_a_csv_file_counts(name: str, tmp_path: Path) -> None:
    """One more, one fewer or one changed line of a CSV file has it refused."""
    path = copied(name, tmp_path)
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines(keepends=True)
    for place in range(len(lines)):
        for other in ([], [lines[place]] * 2, ["9" + lines[place]]):
            path.write_text("".join([*lines[:place], *other, *lines[place + 1 :]]), encoding="utf-8")

            assert refused(path)


@given(cut=st.floats(0, 1, exclude_max=True), name=st.sampled_from(FILES), sidecar=st.booleans())
def test_a_file_cut_off_anywhere_is_refused(
    cut: float, name: str, sidecar: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Parquet, CSV, packed CSV or sidecar: what is left of a file that was cut off is no release."""
    path = copied(name, tmp_path_factory.mktemp("cut"))
    short = path.with_name(f"{name}.json") if sidecar and ".csv" in name else path
    content = short.read_bytes()
    short.write_bytes(content[: int(cut * len(content))])

    assert refused(path)


def test_the_manifest_of_another_file_is_refused(tmp_path: Path) -> None:
    """A sidecar, a manifest or a seal of one release says nothing of another."""
    one, two = "v1-rows-integers", "v1-top-k"
    shutil.copy(HERE / f"{one}.csv", tmp_path / "x.csv")
    shutil.copy(HERE / f"{two}.csv.json", tmp_path / "x.csv.json")
    assert refused(tmp_path / "x.csv")
    tables = [pq.read_table(HERE / f"{name}.parquet") for name in (one, two)]
    for stolen in (b"labeldp", b"labeldp.seal"):
        metadata = {**tables[0].schema.metadata, stolen: tables[1].schema.metadata[stolen]}
        pq.write_table(tables[0].replace_schema_metadata(metadata), tmp_path / "x.parquet")

        assert refused(tmp_path / "x.parquet")


# ---- something else ------------------------------------------------------------------------------------------


def things() -> dict[str, Callable[[Path], object]]:
    """Files that are no releases, each with what makes it."""

    def zipped(path: Path) -> None:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("label", "a")

    return {
        "nothing": lambda path: path.write_bytes(b""),
        "a picture": lambda path: path.write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9),
        "JSON": lambda path: path.write_text('{"format": "labeldp release"}', encoding="utf-8"),
        "text": lambda path: path.write_text("id,label\n1,a\n", encoding="utf-8"),
        "an archive": zipped,
        "an array": lambda path: path.write_bytes(b"\x93NUMPY\x01\x00" + bytes(range(200))),
        "another Parquet file": lambda path: pq.write_table(pa.table({"label": ["a"]}), path),
        "a Feather file": lambda path: pa.ipc.new_file(path, pa.schema([("x", pa.int8())])).close(),
        "a folder": lambda path: path.mkdir(),
        "no file": lambda path: None,
        "a magic number": lambda path: path.write_bytes(b"PAR1" * 3),
    }


@pytest.mark.parametrize("ending", ["parquet", "csv", "csv.gz", "txt"])
@pytest.mark.parametrize("name", things())
def test_another_file_is_refused(name: str, ending: str, tmp_path: Path) -> None:
    """Whatever a file is and whatever its ending says, if it is no release, that is what the error says."""
    path = tmp_path / f"x.{ending}"
    things()[name](path)

    assert refused(path).startswith("Expected a release")


@pytest.mark.parametrize("sidecar", ["[]", "1", '"x"', "null", "{}", '{"manifest": {}, "seal": ""}', "[" * 10_000])
def test_another_sidecar_is_refused(sidecar: str, tmp_path: Path) -> None:
    """Whatever JSON lies beside a CSV file, if it is no manifest, the file is refused."""
    path = copied("v1-top-k.csv", tmp_path)
    path.with_name("v1-top-k.csv.json").write_text(sidecar, encoding="utf-8")

    assert refused(path).startswith("Expected a release")


def test_every_byte_of_a_sidecar_counts(tmp_path: Path) -> None:
    """Also its blanks: a sidecar is as it was written, or it is refused."""
    path = copied("v1-top-k.csv", tmp_path)
    sidecar = path.with_name("v1-top-k.csv.json")
    text = sidecar.read_text(encoding="utf-8")
    blanks = [place for place, character in enumerate(text) if character.isspace()]
    forms = [text[:place] + "\t" + text[place + 1 :] for place in blanks[::7]]
    for other in [*forms, f"{text}\n", json.dumps(json.loads(text)), text.replace('"seal"', '"seal": "", "seal"')]:
        sidecar.write_text(other, encoding="utf-8")

        assert refused(path)


@pytest.mark.parametrize("ending", ["parquet", "csv"])
@pytest.mark.parametrize("version", [0, 2, 99, "1", 1.5, None, [1], True])
def test_another_version_of_the_format_is_refused(version: Any, ending: str, tmp_path: Path) -> None:
    """A file of another version is refused before anything in it is believed, and the error names both versions."""
    path = forged(
        "v1-top-k", lambda manifest, table: ({**manifest, "format_version": version}, table), tmp_path, ending
    )

    assert "format version 1" in refused(path)


# ---- forgeries -----------------------------------------------------------------------------------------------


def forged(name: str, change: Callable[[dict[str, Any], pa.Table], Table], folder: Path, ending: str) -> Path:
    """Change a golden file and seal it again, as a careful forger would."""
    source = pq.read_table(HERE / f"{name}.parquet")
    manifest, table = change(json.loads(source.schema.metadata[b"labeldp"]), source.replace_schema_metadata(None))
    text = _canonical(manifest)
    seal = _sealed(text, table)
    path = folder / f"forged.{ending}"
    if ending == "parquet":
        pq.write_table(table.replace_schema_metadata({b"labeldp": text, b"labeldp.seal": seal.encode()}), path)
    else:
        pc.write_csv(table, path)
        path.with_name(f"{path.name}.json").write_bytes(_sidecar_bytes(manifest, seal))
    return path


def promising(guarantee: ldp.Guarantee | ldp.Estimate) -> Callable[[dict[str, Any], pa.Table], Table]:
    """Promise something else, in place of the guarantee or the estimate that was there."""

    def change(manifest: dict[str, Any], table: pa.Table) -> Table:
        stamp = {name: value for name, value in manifest["stamp"].items() if name not in {"guarantee", "estimate"}}
        kind = "estimate" if isinstance(guarantee, ldp.Estimate) else "guarantee"
        return {**manifest, "stamp": {**stamp, kind: guarantee.to_json()}}, table

    return change


def smaller(loss: Any) -> dict[str, ldp.Guarantee]:
    """Promises of less than a pure loss, in every form that a promise can take."""
    less = loss.pure * Fraction(999, 1000)
    law = ldp.privatize([0, 1], ldp.RandomizedResponse(ldp.LabelSpace([0, 1]), less)).guarantee.loss.law()
    return {
        "pure": ldp.Guarantee(PureLoss(less), trust="local"),
        "pure, by peers": ldp.Guarantee(PureLoss(less), trust="peers"),
        "finite": ldp.Guarantee(FiniteLoss(less, [[8, 7]], [[7, 8]]), trust="local"),
        "nearly pure": ldp.Guarantee(ApproximateLoss(loss.pure / 2, Fraction(1, 10**6)), trust="local"),
        "concentrated": ldp.Guarantee(ConcentratedLoss(loss.rho / 100), trust="local"),
        "a law": ldp.Guarantee(LawLoss(None, law), trust="local"),
        "pure, with a law of less": ldp.Guarantee(LawLoss(loss.pure, PureLoss(Fraction(0)).law()), trust="local"),
    }


PURE = ["rows-integers", "top-k", "prior-by-row", "resampled-by-group", "table", "table-by-group", "histogram", "bags"]


@pytest.mark.parametrize("form", smaller(PureLoss(Fraction(1))))
@pytest.mark.parametrize("name", PURE)
def test_a_promise_of_less_than_the_channel_holds_is_refused(name: str, form: str, tmp_path: Path) -> None:
    """Sealed or not, a file cannot promise a smaller epsilon or delta than its own channel or noise has."""
    loss = releases()[name].guarantee.loss  # type: ignore[union-attr]
    path = forged(f"v1-{name}", promising(smaller(loss)[form]), tmp_path, "parquet")

    assert "promises" in refused(path)


@pytest.mark.parametrize("name", ["rows-positions", "features"])
def test_an_estimate_of_less_than_the_channel_holds_is_refused(name: str, tmp_path: Path) -> None:
    """A seeded release cannot claim smaller numbers either, for labels and for whole tables."""
    stamp = releases()[name].stamp
    estimate = stamp.guarantee
    assert isinstance(estimate, ldp.Estimate)
    assert estimate.guarantee is not None
    less = ldp.Guarantee(PureLoss(Fraction(1, 2)), trust="local")
    claims = [
        ldp.Estimate.of(less, estimate.why),
        ldp.Estimate(0.5, 0.0, estimate.why, estimate.guarantee),
        estimate.guarantee,
    ]
    for claim in claims:
        path = forged(f"v1-{name}", promising(claim), tmp_path, "parquet")

        assert "consistent" in refused(path)


def test_a_promise_of_less_than_gaussian_noise_holds_is_refused(tmp_path: Path) -> None:
    """Where noise has no pure epsilon, its curve is what a promise is held against."""
    noise = ldp.DiscreteGaussian(Fraction(9, 2))
    honest = guarantee_of_counts(noise, 3)
    lies = [
        ldp.Guarantee(PureLoss(Fraction(10))),
        guarantee_of_counts(ldp.DiscreteGaussian(Fraction(5)), 3),
        ldp.Guarantee(ConcentratedLoss(Fraction(1, 10))),
    ]
    kept = forged("v1-bags-gaussian", promising(honest), tmp_path, "parquet")
    assert honest == ldp.read_release(kept).guarantee
    for lie in lies:
        path = forged("v1-bags-gaussian", promising(lie), tmp_path, "parquet")

        assert "promises" in refused(path)


def test_noise_beyond_all_tables_holds_its_zcdp_promise(tmp_path: Path) -> None:
    """Where the exact curve of very wide noise is out of reach, its zCDP bound is what a promise is held against."""
    noise = ldp.DiscreteGaussian(Fraction(2**40))
    honest = guarantee_of_counts(noise, 3)
    for promise in (honest, ldp.Guarantee(ConcentratedLoss(honest.loss.charge().rho * 2))):  # type: ignore[operator]

        def change(manifest: dict[str, Any], table: pa.Table, promise: ldp.Guarantee = promise) -> Table:
            return promising(promise)({**manifest, "noise": noise.to_json()}, table)

        assert promise == ldp.read_release(forged("v1-bags-gaussian", change, tmp_path, "parquet")).guarantee

    def less(manifest: dict[str, Any], table: pa.Table) -> Table:
        lie = guarantee_of_counts(ldp.DiscreteGaussian(Fraction(2**41)), 3)
        return promising(lie)({**manifest, "noise": noise.to_json()}, table)

    assert "promises" in refused(forged("v1-bags-gaussian", less, tmp_path, "parquet"))


@pytest.mark.parametrize("name", PURE)
def test_a_promise_of_more_is_no_lie(name: str, tmp_path: Path) -> None:
    """A release that came with others promises what all of them hold together, and is read."""
    guarantee = releases()[name].guarantee
    assert isinstance(guarantee, ldp.Guarantee)
    more = [guarantee, guarantee.then(guarantee), guarantee.for_group(2), ldp.Guarantee(PureLoss(Fraction(9)))]
    more += [ldp.Guarantee(ConcentratedLoss(guarantee.loss.rho or Fraction(0)))]
    for promise in more:
        path = forged(f"v1-{name}", promising(promise), tmp_path, "parquet")

        assert promise == ldp.read_release(path).guarantee


def set_in(manifest: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of a manifest with another value in one place."""
    if not place:
        return value
    first, *rest = place
    if isinstance(manifest, dict):
        return {**manifest, first: set_in(manifest[first], tuple(rest), value)}
    return [*manifest[:first], set_in(manifest[first], tuple(rest), value), *manifest[first + 1 :]]


def places_of(manifest: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return every place of a manifest, inner nodes too."""
    inner = (
        manifest.items() if isinstance(manifest, dict) else enumerate(manifest) if isinstance(manifest, list) else ()
    )
    return [path, *(place for key, value in inner for place in places_of(value, (*path, key)))]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["1/0", "-1/2", "1/3", "4611686018427387904", "rows", "table", "bags", "vector", "label", "nan"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=4,
)  # fmt: skip


@given(data=st.data(), name=st.sampled_from(PARQUET))
def test_a_sealed_story_is_refused_or_holds_its_promise(
    data: st.DataObject, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is put into one place of a manifest and sealed again: refused, or read as a release that holds it."""
    name = name.removesuffix(".parquet")
    manifest = json.loads(pq.read_schema(HERE / f"{name}.parquet").metadata[b"labeldp"])
    place = data.draw(st.sampled_from(places_of(manifest)))
    story = set_in(manifest, place, data.draw(JSON))
    path = forged(name, lambda _, table: (story, table), tmp_path_factory.mktemp("story"), "parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            release = ldp.read_release(path)
        except errors.ReleaseFileError:
            return

    assert isinstance(repr(release), str)
    if isinstance(release, ldp.RowRelease) and isinstance(release.guarantee, ldp.Guarantee):
        assert release.guarantee.epsilon() >= release.channel.epsilon


@given(data=st.data(), name=st.sampled_from(PARQUET))
def test_sealed_cells_are_refused_or_make_sense(
    data: st.DataObject, name: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever is put into one cell and sealed again: refused, or read as a release of that kind."""
    name = name.removesuffix(".parquet")

    def change(manifest: dict[str, Any], table: pa.Table) -> Table:
        column = data.draw(st.sampled_from(table.column_names))
        row = data.draw(st.integers(0, table.num_rows - 1))
        kind = table.schema.field(column).type
        if pa.types.is_fixed_size_binary(kind):
            value: Any = data.draw(st.binary(min_size=kind.byte_width, max_size=kind.byte_width))
        elif pa.types.is_integer(kind):
            width = kind.bit_width - (not pa.types.is_unsigned_integer(kind))
            value = data.draw(st.integers(0 if pa.types.is_unsigned_integer(kind) else -(2**width), 2**width - 1))
        elif pa.types.is_large_list(kind):
            value = data.draw(st.lists(st.integers(-3, 20), max_size=8))
        elif pa.types.is_string(kind) or pa.types.is_large_string(kind):
            value = data.draw(st.text(max_size=3) | st.sampled_from(["a", "b", "low"]))
        else:
            value = None
        return manifest, changed_cell(table, column, row, data.draw(st.none() | st.just(value)))

    path = forged(name, change, tmp_path_factory.mktemp("cell"), "parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            release = ldp.read_release(path)
        except errors.ReleaseFileError:
            return

    assert np.asarray(release).shape == np.asarray(ldp.read_release(HERE / f"{name}.parquet")).shape


def test_sealed_counts_must_fit_their_public_sizes(tmp_path: Path) -> None:
    """Pairs of counts sum to the sizes of their groups, bags hold each row once, and as many as they say."""
    even, odd = [1, 3, 5, 7, 9, 11], [0, 2, 4, 6, 8, 10]  # golden bags count from the last row
    lies: list[tuple[str, str, list[Any]]] = [
        ("v1-histogram-paired", "size", [6, 7]),
        ("v1-histogram-paired", "count_0", [1, 100]),
        ("v1-bags", "size", [5, 7]),
        ("v1-bags", "rows", [even, [*odd[:-1], 1]]),
        ("v1-bags", "rows", [even, odd[:-1]]),
        ("v1-bags", "rows", [[*even, 10], odd[:-1]]),
    ]
    for name, column, values in lies:

        def change(
            manifest: dict[str, Any], table: pa.Table, column: str = column, values: list[Any] = values
        ) -> Table:
            place = table.column_names.index(column)
            return manifest, table.set_column(place, column, pa.array(values, table.schema.field(column).type))

        assert "consistent" in refused(forged(name, change, tmp_path, "parquet"))


@pytest.mark.parametrize(
    "fact",
    [{"coins": 7}, {"dataset": None}, {"labels_per_person": 0}, {"labels_per_person": True}, {"ledger_head": 5}],
    ids=str,
)
def test_a_sealed_stamp_must_make_sense(fact: dict[str, Any], tmp_path: Path) -> None:
    """Facts about a release are texts, and persons own at least one label."""
    path = forged(
        "v1-rows-integers",
        lambda manifest, table: ({**manifest, "stamp": {**manifest["stamp"], **fact}}, table),
        tmp_path,
        "parquet",
    )

    assert "consistent" in refused(path)
