"""The journal: every finished run is a line of a file at once, so that a killed experiment goes on where it was."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from experiments.harness import Point, Run, canonical


@final
@dataclass(frozen=True)
class Entry:
    """What one run found, how long it took, and on what."""

    points: tuple[Point, ...]
    seconds: float
    cpu_seconds: float
    versions: Mapping[str, str | None]
    cpu: str


@final
class Journal(Mapping[str, Entry]):
    """Finished runs by their key; of several lines with one key the first counts.

    A line that was cut off when its writer was killed is passed over.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: dict[str, Entry] = {}
        for line in path.read_bytes().splitlines() if path.exists() else ():
            read = _read(line)
            if read is not None:
                self._entries.setdefault(*read)

    def add(self, run: Run, entry: Entry) -> None:
        """Keep a run: when this returns, it is on the disk."""
        points = [{"values": dict(p.values), "at": dict(p.at), "facts": dict(p.facts)} for p in entry.points]
        line = {
            "key": run.key,
            **run.cell.describe(),
            "seed": run.seed,
            "points": points,
            "seconds": entry.seconds,
            "cpu_seconds": entry.cpu_seconds,
            "versions": dict(entry.versions),
            "cpu": entry.cpu,
        }
        text = canonical(line).encode()
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab", buffering=0) as file:
            # A new line before it too: the line before may have been cut off.
            file.write(b"\n" + text + b"\n")
            os.fsync(file.fileno())
        # As it would be read: so that a run counts alike now and after a restart.
        read = _read(text)
        assert read is not None
        self._entries.setdefault(*read)

    def __getitem__(self, key: str) -> Entry:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


def _read(line: bytes) -> tuple[str, Entry] | None:
    try:
        found: dict[str, Any] = json.loads(line)
        points = tuple(Point(point["values"], point["at"], point["facts"]) for point in found["points"])
        entry = Entry(points, found["seconds"], found["cpu_seconds"], found["versions"], found["cpu"])
        return found["key"], entry
    except (ValueError, KeyError, TypeError):
        return None
