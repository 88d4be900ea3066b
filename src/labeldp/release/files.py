"""Release files: Parquet with the manifest in its schema metadata, or CSV with a JSON sidecar.

The manifest holds public facts only: what kind of release, channel or noise, guarantee, label space, provenance.
The seal beside it is a digest of manifest and columns: it finds damage and careless edits.  What it cannot find is
found by checking the content: weights must sum, and what is promised is derived from channel or noise, not believed.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

import pyarrow as pa

from labeldp.channels import restore_channel
from labeldp.errors import EmptyInputError, ReleaseFileError
from labeldp.release import promise
from labeldp.release.base import Release, Stamp
from labeldp.release.clusters import restore_clusters
from labeldp.release.columns import content_digest, id_column, label_codes, row_parameters, type_name
from labeldp.release.rows import RowRelease, TableRelease
from labeldp.release.statistics import restore_counts, restore_vector

FORMAT: Final = "labeldp release"
#: Files of another version are refused; a reader for every past version stays.
FORMAT_VERSION: Final = 1

_MANIFEST: Final = b"labeldp"
_SEAL: Final = b"labeldp.seal"
_CSV: Final = (".csv", ".csv.gz")

#: A manifest, its text as it was sealed, the seal, and the columns.
_Sealed = tuple[dict[str, Any], bytes, str, pa.Table]


def manifest_of(release: Release) -> tuple[dict[str, Any], pa.Table]:
    """Return the manifest and the columns of a release."""
    facts, table = release.to_table()
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": release.kind,
        "rows": table.num_rows,
        "columns": [[field.name, type_name(field.type)] for field in table.schema],
        "stamp": {**release.stamp.to_json(), **promise.written(release)},
        **facts,
    }
    return manifest, table


def write_release(release: Release, path: str | os.PathLike[str]) -> None:
    """Write a release atomically, in the format that the file's ending names."""
    manifest, table = manifest_of(release)
    if not table.num_rows:
        raise EmptyInputError("Expected something to write, got a release of no rows.")
    text = _canonical(manifest)
    seal = _sealed(text, table)
    target = Path(path)
    if target.name.endswith(_CSV):
        packed = target.name.endswith(".gz")

        def write(file: Path) -> None:
            _write_csv(table, file, manifest, packed=packed)
            # The sidecar comes first: a CSV file that exists always has its manifest.
            write_atomically(_sidecar(target), lambda beside: beside.write_bytes(_sidecar_bytes(manifest, seal)))

        write_atomically(target, write)
    else:
        import pyarrow.parquet as pq

        described = table.replace_schema_metadata({_MANIFEST: text, _SEAL: seal.encode()})
        write_atomically(
            target, lambda file: pq.write_table(described, file, compression="zstd", write_page_checksum=True)
        )


def read_release(path: str | os.PathLike[str]) -> Release:
    """Read a release file, and refuse one that is damaged, altered, or promises more than its channel holds."""
    source = Path(path)
    if not source.is_file():
        raise ReleaseFileError(f"Expected a release file, {source} is none.", path=str(source))
    try:
        manifest, text, seal, table = (_read_csv if source.name.endswith(_CSV) else _read_parquet)(source)
        sealed = _sealed(text, table)
    except ReleaseFileError:
        raise
    except Exception as problem:  # whatever damage makes a reader say
        raise ReleaseFileError(
            f"Expected a release written by labeldp, {source} is something else or is truncated: "
            f"{type(problem).__name__}.",
            path=str(source),
        ) from problem
    if sealed != seal:
        _refuse_altered(source)
    try:
        release = _restored(manifest, table)
    except Exception as problem:  # the seal is no proof of sense: anybody can make one
        raise ReleaseFileError(
            f"Expected a consistent release, {source} is not: {problem}", path=str(source)
        ) from problem
    return release


def write_atomically(target: Path, write: Callable[[Path], object]) -> None:
    """Write beside the target, sync, and rename: the target is complete or as it was before."""
    part = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    # The mode of any file: the kernel takes away what the umask says, and nobody has to read the umask (reading it
    # changes it for a moment, for all threads).
    os.close(os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o666))
    try:
        write(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _restored(manifest: dict[str, Any], table: pa.Table) -> Release:
    facts = {name: value for name, value in manifest["stamp"].items() if name not in promise.KINDS}
    release = _rebuilt(manifest, table, Stamp.from_json(facts))
    stamp = replace(release.stamp, guarantee=promise.read(release, manifest["stamp"]))
    restored: Release = replace(release, stamp=stamp)  # type: ignore[type-var]  # every kind is a dataclass
    return restored


def _rebuilt(manifest: dict[str, Any], table: pa.Table, stamp: Stamp) -> Release:
    if manifest["rows"] != table.num_rows:
        raise ReleaseFileError(f"it has {table.num_rows} rows of {manifest['rows']}: it is truncated.")
    if manifest["kind"] in ("histogram", "bags"):
        return restore_counts(manifest, table, stamp)
    if manifest["kind"] == "vector":
        return restore_vector(manifest, table, stamp)
    if manifest["kind"] not in ("rows", "table", "clusters"):
        raise ReleaseFileError(f"{manifest['kind']!r} is no known kind of release.")
    channel = restore_channel(manifest["channel"], row_parameters(table))
    if channel.rows is not None and channel.rows != table.num_rows:
        raise ReleaseFileError("it has not as many channel parameters as rows.")
    codes = label_codes(channel.released_space, table.column(stamp.column))
    named = table.column(stamp.id_column) if manifest["ids"] is not None else None
    ids = id_column(manifest["ids"], named)
    if manifest["kind"] == "rows":
        return RowRelease(codes, channel, stamp, ids)
    if manifest["kind"] == "clusters":
        return restore_clusters(manifest, table, codes, channel, stamp, ids)
    return TableRelease(codes, channel, table.select(manifest["features"]), stamp, ids)


def _read_parquet(source: Path) -> _Sealed:
    import pyarrow.parquet as pq

    # One file: read_table would take a folder of files as well.
    with pq.ParquetFile(source, page_checksum_verification=True) as file:
        # Arrow keeps a second copy of the metadata, inside its own schema.
        metadata, copy = file.metadata.metadata or {}, file.schema_arrow.metadata or {}
        text, seal = metadata[_MANIFEST], metadata[_SEAL]
        manifest = _described(json.loads(text), source)
        if (text, seal) != (copy.get(_MANIFEST), copy.get(_SEAL)):
            _refuse_altered(source)
        table = file.read()
    return manifest, text, seal.decode(), table.replace_schema_metadata(None)


def _described(manifest: Any, source: Path) -> dict[str, Any]:  # whatever was in the file
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        raise ReleaseFileError(f"Expected a release written by labeldp, {source} is something else.", path=str(source))
    version = manifest.get("format_version")
    if type(version) is not int or version != FORMAT_VERSION:  # True is equal to 1
        raise ReleaseFileError(
            f"Expected format version {FORMAT_VERSION}, {source} has {version!r}. "
            "Use the version of labeldp that wrote it, or a newer one.",
            path=str(source),
        )
    return manifest


def _refuse_altered(source: Path) -> NoReturn:
    raise ReleaseFileError(
        f"Expected {source} as it was written; its manifest or its columns were altered since. "
        "Ask the owner for the file again.",
        path=str(source),
    )


def _write_csv(table: pa.Table, file: Path, manifest: dict[str, Any], *, packed: bool) -> None:
    """Write CSV, and find out now, not when it is opened, what CSV cannot hold."""
    import pyarrow.csv as pc

    plain = pa.table({name: _printable(table.column(name)) for name in table.column_names})
    try:
        with pa.output_stream(file, compression="gzip" if packed else None) as stream:
            pc.write_csv(plain, stream)
        kept = content_digest(_csv_table(file, manifest, packed=packed)) == content_digest(table)
    except (pa.ArrowException, ValueError, KeyError):
        kept = False
    if not kept:
        kinds = ", ".join(f"{name} ({kind})" for name, kind in manifest["columns"])
        raise ReleaseFileError(f"Expected columns that CSV can hold, got {kinds}. Write a Parquet file instead.")


def _read_csv(source: Path) -> _Sealed:
    beside = _sidecar(source)
    if not beside.is_file():
        raise ReleaseFileError(
            f"Expected a release written by labeldp, {source} lacks its manifest {beside.name}.", path=str(source)
        )
    data = beside.read_bytes()
    sidecar = json.loads(data)
    manifest, seal = _described(sidecar["manifest"], source), sidecar["seal"]
    if data != _sidecar_bytes(manifest, seal):
        _refuse_altered(source)
    table = _csv_table(source, manifest, packed=source.name.endswith(".gz"))
    return manifest, _canonical(manifest), seal, table


def _csv_table(file: Path, manifest: dict[str, Any], *, packed: bool) -> pa.Table:
    import gzip

    import pyarrow.csv as pc

    # Python's reader asks for the checksum at the end of a packed file.
    text = gzip.decompress(file.read_bytes()) if packed else file.read_bytes()
    if not text.endswith(b"\n"):
        raise EOFError("the last line is not complete")
    kinds = {name: _arrow_type(kind) for name, kind in manifest["columns"]}
    read_as = {name: pa.large_string() if _is_printed(k) else k for name, k in kinds.items()}
    options = pc.ConvertOptions(
        column_types=read_as, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    table = pc.read_csv(
        pa.BufferReader(text),
        parse_options=pc.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
        convert_options=options,
    )
    return pa.table({name: _from_printable(table.column(name), kind) for name, kind in kinds.items()})


def _printable(column: pa.ChunkedArray) -> Any:  # pyarrow arrays
    """Write bytes as hexadecimal text and lists of integers as words; CSV knows texts and numbers."""
    if pa.types.is_fixed_size_binary(column.type):
        return pa.array([value.hex() for value in column.to_pylist()], pa.large_string())
    if pa.types.is_large_list(column.type):
        return pa.array([" ".join(map(str, value)) for value in column.to_pylist()], pa.large_string())
    return column


def _from_printable(column: pa.ChunkedArray, kind: pa.DataType) -> Any:  # pyarrow arrays
    if pa.types.is_fixed_size_binary(kind):
        return pa.array([bytes.fromhex(value) for value in column.to_pylist()], kind)
    if pa.types.is_large_list(kind):
        return pa.array([[int(word) for word in value.split()] for value in column.to_pylist()], kind)
    return column


def _is_printed(kind: pa.DataType) -> bool:
    return bool(pa.types.is_fixed_size_binary(kind) or pa.types.is_large_list(kind))


def _arrow_type(name: str) -> pa.DataType:
    if name.startswith("fixed_size_binary["):
        return pa.binary(int(name.removeprefix("fixed_size_binary[").removesuffix("]")))
    if name.startswith("large_list<"):
        return pa.large_list(pa.int64())
    return pa.type_for_alias(name)


def _canonical(manifest: dict[str, Any]) -> bytes:
    return json.dumps(manifest, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _sealed(manifest: bytes, table: pa.Table) -> str:
    return hashlib.sha256(hashlib.sha256(manifest).digest() + content_digest(table).encode()).hexdigest()


def _sidecar_bytes(manifest: dict[str, Any], seal: str) -> bytes:
    return json.dumps({"manifest": manifest, "seal": seal}, indent=1, sort_keys=True).encode()


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".json")
