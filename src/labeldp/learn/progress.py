"""A progress bar with the number that is being improved."""

from __future__ import annotations

from typing import Any


class Bar:
    """A bar of a known number of steps; it is called with a step's number and what was reached."""

    def __init__(self, name: str, steps: int) -> None:
        from rich.progress import Progress

        self._name = name
        self._progress = Progress(transient=True)
        self._task = self._progress.add_task(name, total=steps)

    def __enter__(self) -> Any:
        self._progress.start()
        return self._advance

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def _advance(self, _step: int, reached: float) -> None:
        self._progress.update(self._task, advance=1, description=f"{self._name}: {reached:.5f}")
