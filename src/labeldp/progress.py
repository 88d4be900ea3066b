"""Progress bars, for what takes more than a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress(what: str, total: int, *, shown: bool) -> Iterator[Callable[..., None]]:
    """Show a bar of ``total`` steps; gives ``advance(steps=1, note="")``, which does nothing if nothing is shown."""
    if not shown:
        yield _nothing
        return
    from rich.progress import Progress

    with Progress(transient=True) as bar:
        task = bar.add_task(what, total=total)

        def advance(steps: int = 1, note: str = "") -> None:
            bar.update(task, advance=steps, description=f"{what}{note and ', '}{note}")

        yield advance


def _nothing(steps: int = 1, note: str = "") -> None:
    del steps, note
