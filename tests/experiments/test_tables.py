"""Tables say what the rows say, and the page changes between its markers only."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.harness import Layout
from experiments.tables import caption, grid, markdown, replaced, terminal
from tests.experiments.helpers import toy


def row(**changes: Any) -> dict[str, Any]:
    """Return a row of a result."""
    fixed = {"dataset": "tea", "method": "rr", "epsilon": 1.0, "delta": 0.0, "setting": "inductive"}
    measured = {"metric": "test_accuracy", "mean": 0.5, "sd": 0.25, "trials": 2, "seconds": 1.0, "cpu_seconds": 1.0}
    return {**fixed, **measured, "values": [0.25, 0.75], "seeds": [0, 1], **changes}


ROWS = [
    row(method="clean", epsilon=None, delta=None, mean=0.9, sd=0.0),
    row(epsilon=10.0, mean=0.75, sd=None, trials=1),
    row(epsilon=2.0),
    row(dataset="milk", epsilon=2.0, mean=0.12345),
]
RESULT = {
    "what": "a toy with a | in it",
    "command": "python -m experiments --only D-toy",
    "cpu": "abacus, 2 cores",
    "complete": True,
    "runs": {"planned": 7, "done": 7},
    "rows": ROWS,
}


def test_epsilons_are_columns_in_order_and_no_privacy_is_last() -> None:
    """As numbers, not as texts; a place without a row stays empty."""
    arranged = grid(ROWS, Layout())

    assert ("dataset", "method", "ε = 2", "ε = 10", "no privacy") == arranged.heads
    assert (
        ("tea", "clean", "", "", "0.9000 ± 0.0000"),
        ("tea", "rr", "0.5000 ± 0.2500", "0.7500", ""),
        ("milk", "rr", "0.1235 ± 0.2500", "", ""),
    ) == arranged.body


def test_what_differs_tells_lines_apart() -> None:
    """Fields, metric and delta name a line where rows differ in them; facts and times never do."""
    rows = [
        row(),
        row(setting="transductive"),
        row(metric="auc", facts={"steps": [1]}, seconds=7.0),
        row(metric="auc", delta=1e-5, top=3),
        row(method="clean", epsilon=None, delta=None),
    ]
    names = ("dataset", "method", "setting", "metric", "delta")

    assert names == grid(rows[:4], Layout()).heads[:5]
    assert ("dataset", "method") == grid([rows[0], rows[4]], Layout()).heads[:2]
    assert 3 == len(grid([rows[0], rows[4]], Layout()).heads) - 1


def test_any_field_can_be_the_columns() -> None:
    """Then epsilon tells lines apart; texts keep the order in which they come."""
    rows = [row(setting="transductive"), row(setting="inductive"), row(setting="inductive", epsilon=2.0)]
    arranged = grid(rows, Layout(columns="setting", decimals=1))

    assert ("dataset", "method", "epsilon", "setting = transductive", "setting = inductive") == arranged.heads
    assert (("tea", "rr", "1", "0.5 ± 0.2", "0.5 ± 0.2"), ("tea", "rr", "2", "", "0.5 ± 0.2")) == arranged.body


def test_two_rows_in_one_place_are_refused() -> None:
    """A table that would hide a row is a mistake of its layout."""
    with pytest.raises(ValueError, match="one row for tea, rr at epsilon"):
        grid([row(), row(setting="transductive")], Layout(lines=("dataset", "method")))


def test_rows_can_be_left_out() -> None:
    """A layout shows the rows it asks for."""
    assert ("dataset", "method", "no privacy") == grid(ROWS, Layout(where=lambda row: row["epsilon"] is None)).heads


def test_the_caption_says_what_the_numbers_are() -> None:
    """Metric, setting, seeds and machine, and loudly if runs are missing."""
    assert "test_accuracy, inductive: mean ± standard deviation over 1 to 2 seeds; abacus, 2 cores." == caption(
        RESULT, Layout()
    )
    assert caption({**RESULT, "complete": False}, Layout()).endswith("NOT COMPLETE: 7 of 7 runs.")
    assert "one run over 1 seed;" in caption({**RESULT, "rows": ROWS[1:2]}, Layout())


def test_markdown_is_a_table_with_its_command() -> None:
    """Numbers are aligned at the right, and the picture comes last."""
    text = markdown(toy(_never), {**RESULT, "rows": ROWS[:1]}, "images/D-toy.svg")

    assert (
        "A toy with a | in it.\n\n"
        "| dataset | method | no privacy |\n"
        "| --- | --- | ---: |\n"
        "| tea | clean | 0.9000 ± 0.0000 |\n\n"
        "test_accuracy, inductive: mean ± standard deviation over 2 seeds; abacus, 2 cores.\n"
        "Made by `python -m experiments --only D-toy`.\n\n"
        "![D-toy](images/D-toy.svg)"
    ) == text
    assert "| a\\|b |" in markdown(toy(_never), {**RESULT, "rows": [row(dataset="a|b")]}, None)


def test_the_terminal_shows_the_same_texts() -> None:
    """One grid for both."""
    table = terminal(toy(_never), RESULT)

    assert list(grid(ROWS, Layout()).heads) == [column.header for column in table.columns]
    assert ["tea", "tea", "milk"] == list(table.columns[0].cells)


PAGE = (
    "# Results\n\n<!-- begin D-a -->\nold\n<!-- end D-a -->\nbetween\n<!-- begin D-ab -->\n<!-- end D-ab -->\nafter\n"
)


def test_only_what_is_between_the_markers_changes() -> None:
    """The block of one experiment is replaced, and replacing it again changes nothing."""
    text = replaced(PAGE, "D-a", r"new \1 \g<0>")

    assert PAGE.replace("\nold\n", "\n\nnew \\1 \\g<0>\n\n") == text
    assert text == replaced(text, "D-a", r"new \1 \g<0>")


def test_an_experiment_without_markers_gets_some_at_the_end() -> None:
    """With a heading; after that it has a place."""
    text = replaced(PAGE, "D-new", "one")

    assert f"{PAGE}\n### D-new\n\n<!-- begin D-new -->\n\none\n\n<!-- end D-new -->\n" == text
    assert text.replace("one", "two") == replaced(text, "D-new", "two")


@pytest.mark.parametrize(
    "page",
    [
        "<!-- begin D-a -->",
        "<!-- end D-a -->",
        "<!-- end D-a --><!-- begin D-a -->",
        "<!-- begin D-a --><!-- end D-a -->" * 2,
        "<!-- begin D-a --><!-- begin D-a --><!-- end D-a -->",
    ],
)
def test_markers_that_do_not_pair_are_refused(page: str) -> None:
    """Nothing of the page is lost because of a marker that was mistyped."""
    with pytest.raises(ValueError, match="markers of D-a once"):
        replaced(page, "D-a", "new")


def _never(*_: object) -> float:
    raise AssertionError("Nothing was to be measured.")
