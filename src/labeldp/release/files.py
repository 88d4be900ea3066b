"""Release files: Parquet with the manifest in its schema metadata, or CSV with a JSON sidecar.

The manifest holds public facts only: what kind of release, channel or noise, guarantee, label space, provenance.
The seal beside it is a digest of manifest and columns: it finds damage and careless edits.  What it cannot find is
found by checking the content: weights must sum, and the promised epsilon must be that of the channel.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from labeldp.channels import restore_channel
from labeldp.errors import LabeldpError, ReleaseFileError
from labeldp.guarantee.value import Guarantee
from labeldp.release.base import Release, Stamp
from labeldp.release.columns import content_digest, id_column, label_codes, row_parameters, type_name
from labeldp.release.rows import RowRelease, TableRelease
from labeldp.release.statistics import restore_counts, restore_vector

FORMAT: Final = "labeldp release"
#: Files of another version are refused; a reader for every past version stays.
FORMAT_VERSION: Final = 1

_MANIFEST: Final = b"labeldp"
_SEAL: Final = b"labeldp.seal"
_CSV: Final = (".csv", ".csv.gz")


def manifest_of(release: Release) -> tuple[dict[str, Any], pa.Table]:
    """Return the manifest and the columns of a release."""
    facts, table = release.to_table()
    manifest = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "kind": release.kind,
        "rows": table.num_rows,
        "columns": [[field.name, type_name(field.type)] for field in table.schema],
        "stamp": release.stamp.to_json(),
        **facts,
    }
    return manifest, table


def write_release(release: Release, path: str | os.PathLike[str]) -> None:
    """Write a release atomically, in the format that the file's ending names."""
    manifest, table = manifest_of(release)
    text = _canonical(manifest)
    seal = _sealed(text, table)
    target = Path(path)
    if target.name.endswith(_CSV):
        sidecar = json.dumps({"manifest": manifest, "seal": seal}, indent=1, sort_keys=True).encode()
        # The sidecar comes first: a CSV file that exists always has its manifest.
        write_atomically(_sidecar(target), lambda file: file.write_bytes(sidecar))
        write_atomically(target, lambda file: _write_csv(table, file, packed=target.name.endswith(".gz")))
    else:
        import pyarrow.parquet as pq

        described = table.replace_schema_metadata({_MANIFEST: text, _SEAL: seal.encode()})
        write_atomically(target, lambda file: pq.write_table(described, file, compression="zstd"))


def read_release(path: str | os.PathLike[str]) -> Release:
    """Read a release file, and refuse one that is damaged, altered, or promises more than its channel holds."""
    source = Path(path)
    if not source.exists():
        raise ReleaseFileError(f"Expected a release file, {source} does not exist.", path=str(source))
    try:
        text, seal, table = _read_csv(source) if source.name.endswith(_CSV) else _read_parquet(source)
    except (pa.ArrowException, OSError, KeyError, ValueError, EOFError) as problem:
        raise ReleaseFileError(
            f"Expected a release written by labeldp, {source} is something else or is truncated: "
            f"{type(problem).__name__}.",
            path=str(source),
        ) from problem
    if _sealed(text, table) != seal:
        raise ReleaseFileError(
            f"Expected {source} as it was written; its manifest or its columns were altered since. "
            "Ask the owner for the file again.",
            path=str(source),
        )
    manifest = json.loads(text)
    if manifest.get("format") != FORMAT or manifest.get("format_version") != FORMAT_VERSION:
        raise ReleaseFileError(
            f"Expected format version {FORMAT_VERSION}, {source} has {manifest.get('format_version')!r}. "
            "Use the version of labeldp that wrote it, or a newer one.",
            path=str(source),
        )
    try:
        release = _restored(manifest, table)
    except ReleaseFileError:
        raise
    except (LabeldpError, KeyError, TypeError, ValueError, IndexError, pa.ArrowException) as problem:
        raise ReleaseFileError(
            f"Expected a consistent release, {source} is not: {problem}", path=str(source)
        ) from problem
    _check_promise(release, source)
    return release


def write_atomically(target: Path, write: Callable[[Path], object]) -> None:
    """Write beside the target, sync, and rename: the target is complete or as it was before."""
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".part", dir=target.parent)
    os.close(handle)
    part = Path(name)
    try:
        write(part)
        with part.open("rb+") as file:
            os.fsync(file.fileno())
        part.chmod(0o666 & ~_umask())
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    directory = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def _restored(manifest: dict[str, Any], table: pa.Table) -> Release:
    stamp = Stamp.from_json(manifest["stamp"])
    if manifest["rows"] != table.num_rows:
        raise ReleaseFileError(f"Expected {manifest['rows']} rows, the file has {table.num_rows}: it is truncated.")
    if manifest["kind"] in ("histogram", "bags"):
        return restore_counts(manifest, table, stamp)
    if manifest["kind"] == "vector":
        return restore_vector(manifest, table, stamp)
    if manifest["kind"] not in ("rows", "table"):
        raise ReleaseFileError(f"Expected a known kind of release, got {manifest['kind']!r}.")
    channel = restore_channel(manifest["channel"], row_parameters(table))
    if channel.rows is not None and channel.rows != table.num_rows:
        raise ReleaseFileError("Expected as many channel parameters as rows.")
    codes = label_codes(channel.released_space, table.column(stamp.column))
    named = table.column(stamp.id_column) if manifest["ids"] is not None else None
    ids = id_column(manifest["ids"], named)
    if manifest["kind"] == "rows":
        return RowRelease(codes, channel, stamp, ids)
    return TableRelease(codes, channel, table.select(manifest["features"]), stamp, ids)


def _check_promise(release: Release, source: Path) -> None:
    """Refuse a row release that promises a smaller epsilon than its own channel has."""
    if not isinstance(release, RowRelease) or not isinstance(release.guarantee, Guarantee):
        return
    held = release.channel.epsilon_exact
    promised = release.guarantee.loss.pure
    if held is None or (promised is not None and promised < held):
        raise ReleaseFileError(
            f"Expected a promise that the channel of {source} keeps; the channel's epsilon is "
            f"{release.channel.epsilon:.9g}. The manifest was altered.",
            path=str(source),
        )


def _read_parquet(source: Path) -> tuple[bytes, str, pa.Table]:
    import pyarrow.parquet as pq

    table = pq.read_table(source)
    metadata = table.schema.metadata or {}
    return metadata[_MANIFEST], metadata[_SEAL].decode(), table.replace_schema_metadata(None)


def _write_csv(table: pa.Table, file: Path, *, packed: bool) -> None:
    import pyarrow.csv as pc

    plain = pa.table({name: _printable(table.column(name)) for name in table.column_names})
    with pa.output_stream(file, compression="gzip" if packed else None) as stream:
        pc.write_csv(plain, stream)


def _read_csv(source: Path) -> tuple[bytes, str, pa.Table]:
    import pyarrow.csv as pc

    sidecar = json.loads(_sidecar(source).read_bytes())
    manifest = sidecar["manifest"]
    kinds = {name: _arrow_type(kind) for name, kind in manifest["columns"]}
    read_as = {name: pa.large_string() if _is_printed(k) else k for name, k in kinds.items()}
    options = pc.ConvertOptions(
        column_types=read_as, null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False
    )
    with pa.input_stream(source, compression="gzip" if source.name.endswith(".gz") else None) as stream:
        table = pc.read_csv(
            stream,
            parse_options=pc.ParseOptions(newlines_in_values=True, ignore_empty_lines=False),
            convert_options=options,
        )
    columns = {name: _from_printable(table.column(name), kind) for name, kind in kinds.items()}
    return _canonical(manifest), sidecar["seal"], pa.table(columns)


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


def _sidecar(path: Path) -> Path:
    return path.with_name(path.name + ".json")


def _umask() -> int:
    current = os.umask(0)
    os.umask(current)
    return current
