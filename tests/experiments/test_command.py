"""The command finds experiments, measures them, resumes, and says what is wrong."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from threadpoolctl import threadpool_limits
from typer.testing import CliRunner

from experiments.__main__ import PAGE, experiment, found, main
from tests.experiments.helpers import tiny_tables

_APP = typer.Typer()
_APP.command()(main)


def command(*words: Any) -> Any:
    """Run the command."""
    return CliRunner().invoke(_APP, [str(word) for word in words], catch_exceptions=False)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # few steps on few rows
def test_randomised_response_is_measured_resumed_and_put_on_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One experiment from the files of the data to the page, on tables of some sixty rows."""
    tiny_tables(tmp_path, monkeypatch)
    words = ("--only", "D-rr-baseline", "--quick", "--output", tmp_path / "out")
    with threadpool_limits(1):  # threads that wait for each other take longer than such tables need
        done = command(*words, "--seeds", 1, "--budget", 600)
    path = tmp_path / "out" / "D-rr-baseline.json"
    result = json.loads(path.read_text())

    assert 0 == done.exit_code, done.output
    assert result["complete"]
    assert result["command"].endswith("--only D-rr-baseline --quick --seeds 1")
    assert {"adult", "letter", "magic"} == {row["dataset"] for row in result["rows"]}
    assert {("clean", None), *(("rr", epsilon) for epsilon in (0.5, 1.0, 2.0, 4.0))} == {
        (row["method"], row["epsilon"]) for row in result["rows"]
    }
    assert all(row["metric"] == "test_accuracy" and 0 <= row["mean"] <= 1 for row in result["rows"])
    assert "ε = 0.5" in done.output

    # Nothing is left to do: no run, the same bytes.
    before = path.read_bytes()
    monkeypatch.delenv("LABELDP_DATA")
    again = command(*words, "--seeds", 1)
    assert "20 runs, 20 of them kept from before." in again.output
    assert before == path.read_bytes()

    page = tmp_path / "page" / "results.md"
    page.parent.mkdir()
    page.write_text("# Results\n\n<!-- begin D-rr-baseline -->\n<!-- end D-rr-baseline -->\n\nThe end.\n")
    command(*words[:2], "--output", tmp_path / "out", "--docs", "--page", page)
    text = page.read_text()
    assert "| adult | logistic | clean |" in text
    assert text.endswith("The end.\n")
    picture = page.parent / "images" / "results" / "D-rr-baseline.svg"
    assert (tmp_path / "out" / "D-rr-baseline.svg").read_bytes() == picture.read_bytes()
    assert f"({picture.relative_to(page.parent)})" in text

    listed = command(*words, "--list", "--seeds", 2)
    assert "20 of 40" in listed.output
    assert "complete" in listed.output


def test_missing_data_are_status_2(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the message names the variable."""
    monkeypatch.delenv("LABELDP_DATA", raising=False)
    done = command("--only", "D-rr-baseline", "--output", tmp_path)

    assert 2 == done.exit_code
    assert "Expected LABELDP_DATA to name the folder" in done.output
    assert [] == list(tmp_path.iterdir())


def test_an_unknown_name_is_status_2(tmp_path: Path) -> None:
    """And the message names those there are."""
    done = command("--only", "D-rr-baselin", "--output", tmp_path)

    assert 2 == done.exit_code
    assert "D-rr-baseline" in done.output


@pytest.mark.parametrize("name", found())
def test_modules_and_names_agree(name: str) -> None:
    """Every module with a letter holds an experiment of its name, whose plan costs nothing and is sound."""
    from experiments.harness import Options

    each = experiment(name)

    assert name[0] in "ABCDE"
    for options in (Options(), Options(quick=True), Options(full=True)):
        assert len(each.plan(options))


def test_a_name_that_does_not_fit_its_module_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A result file would be looked for in vain."""
    from dataclasses import replace

    from experiments import d_rr_baseline

    monkeypatch.setattr(d_rr_baseline, "EXPERIMENT", replace(d_rr_baseline.EXPERIMENT, name="D-other"))
    with pytest.raises(ValueError, match="named D-rr-baseline, got D-other"):
        experiment("D-rr-baseline")


def test_the_page_is_written_by_the_command(tmp_path: Path) -> None:
    """Whoever changes a result file runs ``python -m experiments --docs``; no number is typed by hand."""
    page = tmp_path / "results.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    command("--docs", "--page", page)

    assert PAGE.read_text(encoding="utf-8") == page.read_text(encoding="utf-8")
    for picture in (tmp_path / "images").rglob("*.svg"):
        assert (PAGE.parent / picture.relative_to(tmp_path)).read_bytes() == picture.read_bytes()


def test_listing_loads_nothing_heavy() -> None:
    """Experiments import their libraries when they measure."""
    program = (
        "import sys; from experiments.__main__ import experiment, found; from experiments.harness import Options\n"
        "for name in found(): experiment(name).plan(Options())\n"
        "print(sorted({'torch', 'sklearn', 'matplotlib', 'PIL'} & sys.modules.keys()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True, cwd=PAGE.parent.parent
    )

    assert "[]" == done.stdout.strip()
