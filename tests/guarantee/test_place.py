"""The place of a ledger: on which disk it lies."""

from __future__ import annotations

from pathlib import Path

import pytest

from labeldp.guarantee.place import _mounted_as, filesystem_of

MOUNTS = r"""
22 27 0:21 / /proc rw,relatime - proc proc rw
27 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
30 27 0:40 / /mnt/data rw - nfs4 server:/export rw
31 27 0:41 / /mnt/my\040disk rw master:3 propagate_from:2 - cifs //server/share rw
32 30 0:42 / /mnt/data/local rw - xfs /dev/sdb rw
33 27 0:43 / /mnt/twice rw - ext4 /dev/sdc rw
34 27 0:44 / /mnt/twice rw - fuse.sshfs me@server: rw
odd line
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/home/me", "ext4"),
        ("/mnt/data", "nfs4"),
        ("/mnt/data/deep/er", "nfs4"),
        ("/mnt/data/local/x", "xfs"),
        ("/mnt/database", "ext4"),
        ("/mnt/my disk/x", "cifs"),
        ("/mnt/twice/x", "fuse.sshfs"),
    ],
)
def test_disk_is_that_of_the_longest_mount_point(folder: str, kind: str) -> None:
    """Whole names count, escapes are read, and of two mounts at one place the later counts."""
    assert kind == _mounted_as(Path(folder), MOUNTS)


def test_disk_of_this_test_is_known(tmp_path: Path) -> None:
    """Where the system tells, some type is found for a real folder."""
    if Path("/proc/self/mountinfo").exists():
        assert filesystem_of(tmp_path.resolve())
