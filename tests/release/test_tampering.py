"""Altered, damaged and forged release files are refused, with one kind of error and no other."""

from __future__ import annotations

import json
import random
import shutil
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
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
from labeldp.guarantee.value import ApproximateLoss, Charge, ConcentratedLoss, PureLoss
from labeldp.noise import guarantee_of_counts, guarantee_of_vector
from labeldp.release import Release, manifest_of
from labeldp.release.columns import content_digest
from labeldp.release.files import _canonical, _sealed, _sidecar_bytes
from tests.golden.make_releases import HERE, INTEGERS, KEY, NUMBER, NUMBERS, releases

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
    return sealed(manifest, table, folder, ending)


def sealed(manifest: dict[str, Any], table: pa.Table, folder: Path, ending: str = "parquet") -> Path:
    """Write a manifest and columns as they are, with a seal."""
    text = _canonical(manifest)
    seal = _sealed(text, table)
    path = folder / f"forged.{ending}"
    if ending == "parquet":
        pq.write_table(table.replace_schema_metadata({b"labeldp": text, b"labeldp.seal": seal.encode()}), path)
    else:
        pc.write_csv(table, path)
        path.with_name(f"{path.name}.json").write_bytes(_sidecar_bytes(manifest, seal))
    return path


def stated(guarantee: ldp.Guarantee, charge: Charge | None = None) -> dict[str, Any]:
    """What a manifest says of a guarantee."""
    return {
        "charge": (charge or guarantee.charge()).to_json(),
        "neighbour": guarantee.neighbour,
        "trust": guarantee.trust,
        "assumptions": list(guarantee.assumptions),
    }


def saying(**promises: Any) -> Callable[[dict[str, Any], pa.Table], Table]:
    """State something else, in place of the guarantee or the estimate that was there."""

    def change(manifest: dict[str, Any], table: pa.Table) -> Table:
        facts = {name: value for name, value in manifest["stamp"].items() if name not in {"guarantee", "estimate"}}
        return {**manifest, "stamp": {**facts, **promises}}, table

    return change


def promising(guarantee: ldp.Guarantee, charge: Charge | None = None) -> Callable[[dict[str, Any], pa.Table], Table]:
    """Promise another guarantee, or other numbers in its words."""
    return saying(guarantee=stated(guarantee, charge))


def smaller(loss: Any) -> dict[str, Charge]:
    """Charges that do not follow from a pure loss, in every form that one can take."""
    less, none, half = loss.pure * Fraction(999, 1000), Fraction(0), loss.pure / 2
    exact_delta = Fraction(loss.delta(float(half)))
    return {
        "pure": Charge(less),
        "pure by nothing": Charge(loss.pure - Fraction(1, 10**40), none, loss.rho),
        "pure and zCDP": Charge(less, none, loss.rho),
        "zCDP": Charge(None, none, loss.rho * Fraction(999, 1000)),
        "zCDP beside the true epsilon": Charge(loss.pure, none, loss.rho / 2),
        "almost nothing": Charge(None, none, Fraction(1, 10**9)),
        "nearly pure": Charge(half, Fraction(1, 10**6)),
        "delta by a little": Charge(half, exact_delta * Fraction(999, 1000)),
        "delta, and zCDP": Charge(half, exact_delta * 2, loss.rho / 2),
        "delta below 0": Charge(loss.pure, Fraction(-1, 10)),
        "epsilon below 0": Charge(-loss.pure, Fraction(1, 2)),
        "zCDP up to a delta": Charge(None, Fraction(1, 10**6), loss.rho),
        "delta alone": Charge(None, Fraction(1, 10**6)),
        "no number": Charge(None),
    }


PURE = ["rows-integers", "top-k", "prior-by-row", "resampled-by-group", "table", "table-by-group", "histogram", "bags"]


@pytest.mark.parametrize("form", smaller(PureLoss(Fraction(1))))
@pytest.mark.parametrize("name", PURE)
def test_a_promise_that_does_not_follow_is_refused(name: str, form: str, tmp_path: Path) -> None:
    """Sealed or not, whoever is to be trusted: a file cannot promise less than its own channel or noise holds."""
    held = releases()[name].guarantee
    assert isinstance(held, ldp.Guarantee)
    for trust in ("local", "peers", "curator"):
        change = promising(replace(held, trust=trust), smaller(held.loss)[form])
        assert "promises" in refused(forged(f"v1-{name}", change, tmp_path, "parquet"))


def test_no_trust_makes_a_large_epsilon_small(tmp_path: Path) -> None:
    """Labels that are told as they are cannot be promised to be hidden by peers, nor in any other way."""
    told = ldp.privatize(NUMBERS, ldp.RandomizedResponse(NUMBER, 20), coins=ldp.KeyedCoins(KEY), ids=INTEGERS)
    told.write(tmp_path / "told.parquet")
    source = pq.read_table(tmp_path / "told.parquet")
    table = source.replace_schema_metadata(None)
    for trust in ("local", "peers", "curator"):
        lie = ldp.Guarantee(ConcentratedLoss(Fraction(1, 10**9)), trust=trust)
        manifest, _ = promising(lie)(json.loads(source.schema.metadata[b"labeldp"]), table)

        assert "promises rho=1e-09, and holds epsilon=20" in refused(sealed(manifest, table, tmp_path))


@pytest.mark.parametrize("name", PURE)
def test_a_release_has_the_trust_of_its_kind(name: str, tmp_path: Path) -> None:
    """Nobody need be trusted with labels that are random each; with a statistic, the curator must be."""
    held = releases()[name].guarantee
    assert isinstance(held, ldp.Guarantee)
    better = ["local", "peers", "curator"]
    place = better.index(held.trust)
    for trust in better[:place]:
        change = promising(replace(held, trust=trust))
        assert f"promises trust '{trust}'" in refused(forged(f"v1-{name}", change, tmp_path, "parquet"))
    for trust in better[place:]:
        less = replace(held, trust=trust)

        assert less == ldp.read_release(forged(f"v1-{name}", promising(less), tmp_path, "parquet")).guarantee
    assert ("curator" if name in {"histogram", "bags"} else "local") == held.trust


@pytest.mark.parametrize("neighbour", ["100 labels replaced", "0 labels replaced", "no label replaced", "", None, 1])
def test_a_promise_to_other_neighbours_is_refused(neighbour: Any, tmp_path: Path) -> None:
    """What holds for one label does not hold for a hundred, nor for neighbours of another kind."""
    held = releases()["rows-integers"].guarantee
    assert isinstance(held, ldp.Guarantee)
    path = forged("v1-rows-integers", saying(guarantee={**stated(held), "neighbour": neighbour}), tmp_path, "parquet")

    assert "consistent" in refused(path)


@pytest.mark.parametrize("name", ["rows-positions", "features"])
def test_an_estimate_of_less_than_the_channel_holds_is_refused(name: str, tmp_path: Path) -> None:
    """A seeded release cannot claim smaller numbers either, nor a guarantee, nor both or none of them."""
    estimate = releases()[name].stamp.guarantee
    assert isinstance(estimate, ldp.Estimate)
    assert estimate.guarantee is not None
    honest = {"why": estimate.why, **stated(estimate.guarantee)}
    less = Charge(Fraction(1, 2))
    claims: list[dict[str, Any]] = [
        {"estimate": {**honest, "charge": less.to_json()}},
        {"estimate": {**honest, "why": None}},
        {"estimate": {**honest, "assumptions": "none"}},
        {"guarantee": stated(estimate.guarantee)},
        {"guarantee": stated(estimate.guarantee), "estimate": honest},
        {},
    ]
    kept = forged(f"v1-{name}", saying(estimate=honest), tmp_path, "parquet")
    assert estimate == ldp.read_release(kept).guarantee
    for claim in claims:
        path = forged(f"v1-{name}", saying(**claim), tmp_path, "parquet")

        assert "consistent" in refused(path)


def test_a_promise_of_less_than_gaussian_noise_holds_is_refused(tmp_path: Path) -> None:
    """Where noise has no pure epsilon, its zCDP and its exact curve are what a promise is held against."""
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


def with_noise(noise: Any, change: Callable[[dict[str, Any], pa.Table], Table]) -> Any:
    """Declare another noise, and change something else as well."""
    return lambda manifest, table: change({**manifest, "noise": noise.to_json()}, table)


def test_a_promise_between_the_steps_of_a_curve_is_refused(tmp_path: Path) -> None:
    """Noise of variance 1/12 gives labels away at once: its epsilon is 35.8 at one in a million, and 9 is refused."""
    noise = ldp.DiscreteGaussian(Fraction(1, 12))
    delta = Fraction(1, 10**6)
    held = guarantee_of_counts(noise, 3)
    true = held.epsilon(delta)
    assert 35 < true < 36
    for epsilon in (Fraction(9), Fraction(true) * (1 - Fraction(1, 10**9))):
        change = with_noise(noise, promising(held, Charge(epsilon, delta, held.loss.rho)))
        assert "promises" in refused(forged("v1-bags-gaussian", change, tmp_path, "parquet"))
    honest = held.asked(Fraction(true), delta)

    read = ldp.read_release(
        forged("v1-bags-gaussian", with_noise(noise, promising(honest)), tmp_path, "parquet")
    ).guarantee

    assert Charge(Fraction(true), delta, held.loss.rho) == read.charge()  # type: ignore[union-attr]
    assert held.delta(9.0) == read.delta(9.0)


def test_noise_beyond_all_tables_holds_its_zcdp_promise(tmp_path: Path) -> None:
    """Where the exact curve of very wide noise is out of reach, its zCDP bound is what a promise is held against."""
    noise = ldp.DiscreteGaussian(Fraction(2**40))
    honest = guarantee_of_counts(noise, 3)
    for promise in (honest, ldp.Guarantee(ConcentratedLoss(honest.loss.charge().rho * 2))):  # type: ignore[operator]
        change = with_noise(noise, promising(promise))

        read = ldp.read_release(forged("v1-bags-gaussian", change, tmp_path, "parquet"))

        assert (promise.loss, promise.charge()) == (read.guarantee.loss, read.guarantee.charge())  # type: ignore[union-attr]
    lie = guarantee_of_counts(ldp.DiscreteGaussian(Fraction(2**41)), 3)

    assert "promises" in refused(forged("v1-bags-gaussian", with_noise(noise, promising(lie)), tmp_path, "parquet"))


def test_two_counts_that_were_both_drawn_cost_more_than_a_pair(tmp_path: Path) -> None:
    """Of two labels, one count pays for both only if the other follows from it."""
    held = releases()["histogram-paired"].guarantee
    assert isinstance(held, ldp.Guarantee)
    twice = guarantee_of_counts(ldp.DiscreteLaplace(Fraction(1)), 3)

    def change(promise: ldp.Guarantee) -> Any:
        return lambda manifest, table: promising(promise)({**manifest, "paired": False}, table)

    assert "promises" in refused(forged("v1-histogram-paired", change(held), tmp_path, "parquet"))
    assert (
        2.0 == ldp.read_release(forged("v1-histogram-paired", change(twice), tmp_path, "parquet")).guarantee.epsilon()
    )


def test_a_vector_promises_what_its_sensitivity_allows(tmp_path: Path) -> None:
    """Noise and public sensitivity say what a vector costs; without a sensitivity above 0 it is no release."""
    gaussian = ldp.DiscreteGaussian(Fraction(9, 2))
    honest = guarantee_of_vector(ldp.DiscreteLaplace(Fraction(1, 2)), l1=2)
    wide = guarantee_of_vector(gaussian, l2_squared=2)
    for noise, promise in ((ldp.DiscreteLaplace(Fraction(1, 2)), honest), (gaussian, wide)):
        change = with_noise(noise, promising(promise))
        assert promise == ldp.read_release(forged("v1-vector", change, tmp_path, "parquet")).guarantee
    lies: list[Any] = [
        promising(guarantee_of_vector(ldp.DiscreteLaplace(Fraction(1, 2)), l1=1)),
        promising(honest, Charge(Fraction(1, 2), Fraction(1, 10**6))),
        promising(ldp.Guarantee(ConcentratedLoss(Fraction(1, 100)))),
        with_noise(gaussian, promising(honest)),
        with_noise(gaussian, promising(guarantee_of_vector(gaussian, l2_squared=1))),
        lambda manifest, table: ({**manifest, "sensitivity": "3"}, table),
        lambda manifest, table: ({**manifest, "sensitivity": "0"}, table),
        lambda manifest, table: ({**manifest, "sensitivity": "-2"}, table),
        lambda manifest, table: ({k: v for k, v in manifest.items() if k != "sensitivity"}, table),
    ]
    for lie in lies:
        assert "consistent" in refused(forged("v1-vector", lie, tmp_path, "parquet"))


@pytest.mark.parametrize("name", PURE)
def test_a_promise_of_more_is_no_lie(name: str, tmp_path: Path) -> None:
    """A release that came with others promises what all of them hold together, and is read as no more than that."""
    guarantee = releases()[name].guarantee
    assert isinstance(guarantee, ldp.Guarantee)
    more = [guarantee, guarantee.then(guarantee), guarantee.for_group(2)]
    more += [
        replace(guarantee, loss=PureLoss(Fraction(9))),
        replace(guarantee, loss=PureLoss(guarantee.loss.pure or 0)),
    ]
    more += [replace(guarantee, loss=ConcentratedLoss(guarantee.loss.rho or Fraction(0)))]
    more += [replace(guarantee, loss=ApproximateLoss(Fraction(1, 8), Fraction(1, 2)))]
    for promise in more:
        path = forged(f"v1-{name}", promising(promise), tmp_path, "parquet")

        read = ldp.read_release(path).guarantee

        assert isinstance(read, ldp.Guarantee)
        assert stated(promise) == stated(read)
        for epsilon in (0.0, 0.1, 0.5, 1.0):
            assert guarantee.delta(epsilon) <= read.delta(epsilon)


@pytest.mark.parametrize("name", sorted(set(releases()) - {"rows-words"}))  # of which nothing can be learnt
def test_nothing_is_written_that_would_not_be_read(name: str, tmp_path: Path) -> None:
    """A release whose stamp promises less than it holds has no file, whoever stamped it."""
    release: Any = releases()[name]
    wrong: Any = ldp.Guarantee(ConcentratedLoss(Fraction(1, 10**9)))
    if not release.private:
        wrong = ldp.Estimate.of(wrong, "seeded")
    assert not isinstance(release.held(), ldp.Estimate)
    smaller_numbers = ldp.Estimate(0.0, 0.0, "seeded", release.held())
    for promise in (wrong, ldp.Estimate(1.0, 0.0, "a guess"), smaller_numbers):
        changed = replace(release, stamp=replace(release.stamp, guarantee=promise))

        with pytest.raises(errors.ReleaseFileError, match="holds what it promises"):
            changed.write(tmp_path / "x.parquet")
    assert [] == list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", ["parquet", "csv"])
def test_a_wide_curve_stays_exact_where_it_was_asked(ending: str, tmp_path: Path) -> None:
    """The law of wide noise is abbreviated, but not at the epsilon that was asked for: the same law is read again."""
    release = ldp.privatize(
        NUMBERS,
        ldp.BagCounts(NUMBER, 0.005, Fraction(1, 1000), "gaussian"),
        coins=ldp.KeyedCoins(KEY),
        ids=INTEGERS,
        bags=np.arange(12) % 2,
    )
    assert release.guarantee != release.held()
    assert release.guarantee.delta(0.005) < release.held().delta(0.005)
    release.write(tmp_path / f"x.{ending}")

    back = ldp.read_release(tmp_path / f"x.{ending}")

    assert release.guarantee == back.guarantee
    assert back.guarantee.delta(0.005) <= 1e-3


def test_a_manifest_holds_no_number_that_a_float_cannot() -> None:
    """Readers of JSON who know floats alone read every manifest as it is, and the table of a channel is there once."""
    for name in PARQUET:
        text = pq.read_schema(HERE / name).metadata[b"labeldp"]

        assert json.loads(text) == json.loads(text, parse_int=float)
        assert "loss" not in json.dumps(list(json.loads(text)["stamp"].values()))


def test_a_large_table_is_written_once(tmp_path: Path) -> None:
    """The weights of 120 labels are in the file as the channel, not once more as the guarantee; reading stays quick."""
    space = ldp.LabelSpace(range(120))
    matrix = np.random.default_rng(5).dirichlet(np.full(120, 50.0), 120)
    release = ldp.privatize(range(120), ldp.TableChannel(space, matrix), coins=ldp.KeyedCoins(KEY), ids=range(120))
    release.write(tmp_path / "x.parquet")
    text = pq.read_schema(tmp_path / "x.parquet").metadata[b"labeldp"].decode()
    weights = [str(weight) for row in release.channel.weights_of(0).tolist() for weight in row]  # type: ignore[attr-defined]

    assert all(1 == text.count(f'"{weight}"') for weight in weights[:200])
    assert len(text) < 1.3 * sum(len(weight) + 3 for weight in weights)
    assert release.guarantee == ldp.read_release(tmp_path / "x.parquet").guarantee


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


LEAVES = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
    | st.sampled_from(["1/0", "-1/2", "1/3", "4611686018427387904", "rows", "table", "bags", "vector", "label", "nan"])
)  # fmt: skip
BRANCHES = LEAVES | st.lists(LEAVES, max_size=3) | st.dictionaries(st.text(max_size=5), LEAVES, max_size=3)
JSON = LEAVES | st.lists(BRANCHES, max_size=3) | st.dictionaries(st.text(max_size=5), BRANCHES, max_size=3)


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
    if isinstance(release.guarantee, ldp.Guarantee) and release.guarantee.neighbour == "one label replaced":
        assert all(release.held().delta(e) <= release.guarantee.delta(e) for e in (0.0, 0.3, 0.9, 3.0))
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
