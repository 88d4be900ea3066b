"""Representations kept on disk under the digest of what they were made from."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from labeldp.features.inputs import whole
from labeldp.release.files import write_atomically

if TYPE_CHECKING:
    from numpy.typing import NDArray

_FORMAT: Final = 1


@final
class Cache:
    """A folder of arrays, found again by a digest of everything that decides their content.

    Only public features and what public stages make of them come here.  An entry is complete or absent: its list of
    arrays with their checksums is written last, atomically.  Arrays are mapped into memory as they are read, so large
    ones cost none; one that is damaged counts as absent and is made again.

    Parameters
    ----------
    folder : path or None
        None takes the folder that the environment variable ``LABELDP_CACHE`` names, or else the user's cache folder.
    limit : int or None
        Bytes to hold at most: after each entry the longest unused ones are removed.  None never removes.

    Examples:
    --------
    >>> import tempfile
    >>> from labeldp.features import PCA, represent
    >>> X = np.random.default_rng(0).normal(size=(50, 4))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = Cache(folder)
    ...     first = represent(PCA(2), X, cache=cache)
    ...     again = represent(PCA(2), X, cache=cache)
    ...     bool((first.train == again.train).all()), len(cache.digests())
    (True, 1)
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None, *, limit: int | None = None) -> None:
        whole(0, none=True, limit=limit)
        self.folder = default_folder() if folder is None else Path(folder).expanduser()
        self.limit = limit

    def __repr__(self) -> str:
        return f"Cache({str(self.folder)!r})"

    def digests(self) -> list[str]:
        """Return the digests of the entries, the longest unused one first."""
        found = [(path.stat().st_mtime_ns, path.name.removesuffix(".json")) for path in self.folder.glob("*.json")]
        return [digest for _, digest in sorted(found)]

    def load(self, digest: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
        """Return facts and arrays of an entry, or None if it is absent or damaged."""
        entry = self.folder / f"{digest}.json"
        try:
            content = json.loads(entry.read_text(encoding="utf-8"))
            if content["format"] != _FORMAT:
                return None
            arrays = {name: _packed_again(name, content["arrays"], self.folder, digest) for name in content["names"]}
            os.utime(entry)  # it was used
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return content["facts"], arrays

    def store(self, digest: str, facts: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Keep facts and arrays, dense or csr, under a digest."""
        self.folder.mkdir(parents=True, exist_ok=True)
        sums: dict[str, Any] = {}
        for name, array in arrays.items():
            for part, values in _parts(name, array).items():
                path = self.folder / f"{digest}.{part}.npy"
                write_atomically(path, lambda file, values=values: _save(file, values))  # type: ignore[misc]  # no type
                sums[part] = _checksum(path)
            if hasattr(array, "tocsr"):
                sums[f"{name}.shape"] = list(array.shape)
        content = {"format": _FORMAT, "facts": facts, "names": list(arrays), "arrays": sums}
        text = json.dumps(content, sort_keys=True)
        write_atomically(self.folder / f"{digest}.json", lambda file: file.write_text(text, encoding="utf-8"))
        if self.limit is not None:
            self.prune(self.limit)

    def prune(self, limit: int) -> int:
        """Remove the longest unused entries until at most ``limit`` bytes are held; return how many bytes went.

        >>> Cache("folder-that-does-not-exist").prune(0)
        0
        """
        whole(0, limit=limit)
        groups: dict[str, list[Path]] = {}
        for path in self.folder.glob("*.*"):
            if path.suffix in {".npy", ".json"} and not path.name.startswith("."):
                groups.setdefault(path.name.partition(".")[0], []).append(path)
        ages = {digest: max(path.stat().st_mtime_ns for path in paths) for digest, paths in groups.items()}
        sizes = {digest: sum(path.stat().st_size for path in paths) for digest, paths in groups.items()}
        held, gone = sum(sizes.values()), 0
        for digest in sorted(groups, key=ages.__getitem__):
            if held - gone <= limit:
                break
            # The list goes first: what is left without it counts as absent.
            for path in sorted(groups[digest], key=lambda path: path.suffix != ".json"):
                path.unlink(missing_ok=True)
            gone += sizes[digest]
        return gone


def default_folder() -> Path:
    """Return the folder that ``LABELDP_CACHE`` names, or the one where this system keeps a user's caches."""
    named = os.environ.get("LABELDP_CACHE")
    if named:
        return Path(named).expanduser()
    if sys.platform == "darwin":
        base = Path("~/Library/Caches")
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or "~/AppData/Local")
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache")
    return base.expanduser() / "labeldp" / "features"


def _parts(name: str, array: Any) -> dict[str, NDArray[Any]]:
    if not hasattr(array, "tocsr"):
        return {name: np.ascontiguousarray(array)}
    table = array.tocsr()
    return {f"{name}.data": table.data, f"{name}.indices": table.indices, f"{name}.indptr": table.indptr}


def _packed_again(name: str, sums: dict[str, Any], folder: Path, digest: str) -> Any:
    def read(part: str) -> NDArray[Any]:
        path = folder / f"{digest}.{part}.npy"
        if _checksum(path) != sums[part]:
            raise ValueError(part)
        array: NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
        return array

    if name in sums:
        return read(name)
    from scipy.sparse import csr_array

    parts = tuple(read(f"{name}.{part}") for part in ("data", "indices", "indptr"))
    return csr_array(parts, shape=tuple(sums[f"{name}.shape"]))


def _save(path: Path, array: NDArray[Any]) -> None:
    with path.open("wb") as file:
        np.save(file, array, allow_pickle=False)


def _checksum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
