"""The examples on the pages run, from top to bottom, as a reader would run them."""

from __future__ import annotations

import pydoc
import re
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent
_PAGES = [_ROOT / "README.md", *sorted((_ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_WITH_CODE = [page for page in _PAGES if _BLOCK.search(page.read_text(encoding="utf-8"))]


@pytest.mark.parametrize("page", _WITH_CODE, ids=lambda page: str(page.relative_to(_ROOT)))
def test_the_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All blocks of a page, in order and in one namespace, run without an error or a warning."""
    monkeypatch.chdir(tmp_path)
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": page.stem}

    for block in _BLOCK.finditer(text):
        above = "\n" * text.count("\n", 0, block.start(1))  # so that a traceback names the line of the page
        exec(compile(above + block[1], str(page), "exec"), names)


def test_links_between_pages_lead_somewhere() -> None:
    """Every relative link outside code names a file of the repository."""
    missing: list[str] = []
    for page in [*_PAGES, _ROOT / "CONTRIBUTING.md"]:
        prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        targets = re.findall(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)", prose)
        dead = [target for target in targets if not (page.parent / target).exists()]
        missing.extend(f"{page.relative_to(_ROOT)}: {target}" for target in dead)

    assert [] == missing


def test_every_key_that_the_code_cites_is_explained() -> None:
    """A key, as in ERRATA A1 or in a warning, is a section of the page that says what a paper states and what we do."""
    cited = re.compile(r"(?:ERRATA|docs/errata\.md,) ([A-F]\d(?:, [A-F]\d)*)")
    files = (
        path for folder in ("src", "tests", "benchmarks", "experiments") for path in (_ROOT / folder).rglob("*.py")
    )
    keys = {key for path in files for found in cited.findall(path.read_text("utf-8")) for key in found.split(", ")}
    page = (_ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    sections = re.findall(r"^## ([A-F]\d)$", page, re.MULTILINE)

    assert {"A1", "D4"} <= keys
    assert [] == sorted(keys - set(sections))
    assert sorted(set(sections)) == sections


def test_the_places_that_the_page_of_differences_names_exist() -> None:
    """Each dotted name of the library on that page can be found."""
    page = (_ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
    names = sorted(set(re.findall(r"`(labeldp(?:\.\w+)+)`", page)))

    assert "labeldp.noise.hockey_stick_two_bins" in names
    assert [] == [name for name in names if pydoc.locate(name) is None]
