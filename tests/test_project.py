"""Facts about the project's own files."""

from __future__ import annotations

import tomllib
from pathlib import Path

_ROOT = Path(__file__).parent.parent
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text())


def test_every_lint_exception_has_a_reason() -> None:
    """Each rule that is switched off says why, in words, on its own line."""
    text = (_ROOT / "pyproject.toml").read_text()
    block = text.split("ignore = [", 1)[1].split("\n]", 1)[0]
    rules = [line for line in block.splitlines() if line.strip().startswith('"')]

    assert len(rules) == len(_PROJECT["tool"]["ruff"]["lint"]["ignore"])
    assert [] == [line for line in rules if "#" not in line]


def test_supported_pythons_agree() -> None:
    """The lowest Python of the classifiers is the lowest that pip accepts."""
    prefix = "Programming Language :: Python :: 3."
    minors = [int(c.removeprefix(prefix)) for c in _PROJECT["project"]["classifiers"] if c.startswith(prefix)]

    assert _PROJECT["project"]["requires-python"] == f">=3.{min(minors)}"


def test_changelog_fragments_are_named_by_kind() -> None:
    """A fragment is called <slug>.<kind>.md, and holds text."""
    kinds = {"added", "changed", "fixed", "removed", "privacy"}
    fragments = [p for p in (_ROOT / "changelog.d").glob("*.md") if p.name != "README.md"]

    assert [] == [p.name for p in fragments if p.name.split(".")[1:-1] not in ([k] for k in kinds)]
    assert [] == [p.name for p in fragments if not p.read_text().strip()]
