"""The place of a ledger on the disk: its file, its key beside it, and the releases that it publishes."""

from __future__ import annotations

import errno
import hashlib
import os
import re
import secrets
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NoReturn, final

from labeldp.coins import KEY_BYTES, read_key_file, write_key_file
from labeldp.errors import (
    KeyMaterialError,
    LedgerCorruptError,
    LedgerError,
    LedgerPlaceError,
    LedgerReadOnlyError,
)
from labeldp.guarantee.keys import Keys

#: Disks on which two machines may hold the same lock, or a sync may not reach the disk.
_NETWORK: Final = re.compile(
    r"(fuse\.)?((nfs|smb|cifs).*|9p|afs|beegfs|ceph|coda|curlftpfs|davfs2?|gcsfuse|gfs2|glusterfs|gpfs|lustre"
    r"|ncp(fs)?|ocfs2|orangefs|panfs|prl_fs|pvfs2|rclone|s3fs|sshfs|vboxsf|vmhgfs(-fuse)?)"
)
_DAY: Final = 86_400.0


def filesystem_of(path: Path) -> str | None:
    """Return the type of the file system that holds ``path``, or None where the system does not tell."""
    try:
        table = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    return _mounted_as(path, table)


@final
class Place:
    """The files of a ledger: itself, its key, and its releases."""

    def __init__(self, path: Path, filesystem: Callable[[Path], str | None]) -> None:
        # Two names of one file must not mean two keys and two write-ahead logs.
        self.file = Path(os.path.realpath(path))
        self._key = self.file.with_name(self.file.name + ".key")
        self._new_key = self.file.with_name(self.file.name + ".key.new")
        self._releases = self.file.with_name(self.file.name + ".releases")
        folder = self.file.parent
        if not folder.is_dir():
            raise LedgerError(f"The folder {folder} for the ledger does not exist.", path=str(self.file))
        if self.file.is_dir():
            raise LedgerError(f"Expected a file for the ledger, {self.file} is a folder.", path=str(self.file))
        kind = filesystem(folder)
        if kind is not None and _NETWORK.fullmatch(kind):
            raise LedgerPlaceError(
                f"{self.file} lies on a network disk ({kind}), where locks and syncs cannot be relied on. Put the "
                "ledger on a local disk, and let other machines ask a service on this one.",
                path=str(self.file),
                filesystem=kind,
            )

    # ---- the file ------------------------------------------------------------------------------------------

    @property
    def inode(self) -> tuple[int, int] | None:
        """What tells the file from another one of the same name; None where there is none."""
        try:
            status = self.file.stat()
        except FileNotFoundError:
            return None
        return status.st_dev, status.st_ino

    def create(self) -> None:
        """Make the file if it is not there; never open one that is, since closing it would drop SQLite's locks."""
        # In this order: a key is made after its ledger.
        if self._key.exists() and not self.file.exists():
            self._refuse_restart()
        with _writing(self.file.parent), suppress(FileExistsError):
            os.close(os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
            _sync(self.file.parent)

    def check_untouched(self) -> None:
        """Refuse to begin where a ledger was before."""
        if self._key.exists() or any(self._releases.glob("*.parquet")):
            self._refuse_restart()

    def _refuse_restart(self) -> NoReturn:
        raise LedgerCorruptError(
            f"Ledger {self.file} is missing or empty, but its key or its releases are there. Restore it from a "
            "backup: a new one would forget what was spent. To start over with other data, choose another path."
        )

    # ---- the key -------------------------------------------------------------------------------------------

    def make_key(self) -> Keys:
        """Write a new key under a name that says that its ledger is not complete yet."""
        with _writing(self.file.parent):
            # Left by a creation that died before its commit: only one process gets here at a time.
            self._new_key.unlink(missing_ok=True)
            key = secrets.token_bytes(KEY_BYTES)
            write_key_file(self._new_key, key)
        return Keys(key)

    def adopt_key(self) -> None:
        """Give the key of a complete ledger its final name; another process may have been faster."""
        with _writing(self.file.parent):
            with suppress(FileNotFoundError):
                self._new_key.rename(self._key)
            _sync(self.file.parent)

    def read_key(self) -> Keys:
        """Read the key of a complete ledger."""
        if not self._key.exists():
            self.adopt_key()
        try:
            return Keys(read_key_file(self._key))
        except FileNotFoundError:
            raise KeyMaterialError(
                f"The key of ledger {self.file} is missing: restore {self._key}, or pass key=.", path=str(self._key)
            ) from None
        except OSError as error:
            raise KeyMaterialError(f"{self._key} cannot be read: {error.strerror}.", path=str(self._key)) from None

    # ---- releases ------------------------------------------------------------------------------------------

    def release_path(self, release_id: str) -> Path:
        """Return where a release is published."""
        return self._releases / f"{release_id}.parquet"

    def published_ids(self) -> set[str]:
        """Return the ids of the releases whose files lie here."""
        return {path.stem for path in self._releases.glob("*.parquet")}

    def draft(self, release_id: str, write: Callable[[Path], object], recorded: Collection[str]) -> bytes:
        """Write a release that is not published yet, and return its digest; ``write`` writes a temporary file.

        What dead processes left is removed, but not a draft of the ``recorded`` releases, which may be the only copy.
        """
        folder = self._releases
        with _writing(folder):
            if not folder.is_dir():
                folder.mkdir(exist_ok=True)
                _sync(folder.parent)
            _remove_stale(folder, recorded)
        temporary = folder / f".{release_id}.{secrets.token_hex(8)}.tmp"
        try:
            write(temporary)
            _sync(temporary)
            digest = _digest(temporary)
            temporary.rename(self._draft_path(release_id, digest))
        finally:
            temporary.unlink(missing_ok=True)
        _sync(folder)
        return digest

    def drop(self, release_id: str, digest: bytes) -> None:
        """Remove a draft that will not be published."""
        self._draft_path(release_id, digest).unlink(missing_ok=True)

    def published(self, release_id: str, digest: bytes) -> Path | None:
        """Return the file of a release with this digest, giving its draft the final name first; None if both are gone.

        Another file under its name is refused.
        """
        path, draft = self.release_path(release_id), self._draft_path(release_id, digest)
        if not path.exists():
            # The draft is the one that was recorded, so whoever is first may give it its name.
            with suppress(FileNotFoundError):
                draft.rename(path)
            if not path.exists():
                return None
        if _digest(path) != digest:
            raise LedgerCorruptError(
                f"{path} is not the file that was published. Restore it from a backup: it is the one release that was "
                "paid for.",
                path=str(path),
            )
        for lost in self._releases.glob(f".{release_id}.*.draft"):
            lost.unlink(missing_ok=True)
        # Also when another process was first: its name must be on the disk before anybody relies on it.
        _sync(self._releases)
        return path

    def _draft_path(self, release_id: str, digest: bytes) -> Path:
        return self._releases / f".{release_id}.{digest.hex()}.draft"


def _mounted_as(path: Path, table: str) -> str | None:
    """Find the mount with the longest path above ``path``; of two at one place, the later one covers the other."""
    best, kind = -1, None
    for line in table.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split(" ")
        if len(fields) < 5 or not after:
            continue
        point = Path(re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), fields[4]))
        if len(point.parts) >= best and path.is_relative_to(point):
            best, kind = len(point.parts), after.split(" ")[0]
    return kind


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_stale(folder: Path, recorded: Collection[str]) -> None:
    old = time.time() - _DAY
    # A lost draft is another draw of labels that were paid for once: it must not lie beside the one that was published.
    drafts = [path for path in folder.glob(".*.draft") if path.name.split(".")[1] not in recorded]
    for path in [*folder.glob(".*.tmp"), *drafts]:
        # Its owner may be removing it at this moment.
        with suppress(FileNotFoundError):
            if path.stat().st_mtime < old:
                path.unlink()


@contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """Say of a folder that cannot be written what it means for the ledger."""
    try:
        yield
    except OSError as error:
        if isinstance(error, PermissionError) or error.errno == errno.EROFS:
            raise LedgerReadOnlyError(f"The folder {folder} cannot be written: {error.strerror}.") from error
        raise
