"""Pictures are the same bytes for the same rows, and hold text as text."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest

from experiments.pictures import STYLES, curves, save
from tests.experiments.test_tables import ROWS, row


def _draw(rows: Any) -> Any:
    return curves(rows, title="a title")


def test_the_same_rows_give_the_same_bytes(tmp_path: Path) -> None:
    """Drawn twice, also under other settings of matplotlib; without a date and without fonts."""
    save(_draw, ROWS, tmp_path / "a" / "D-toy.svg")
    with mpl.rc_context({"font.size": 20, "lines.linewidth": 9}):
        save(_draw, ROWS, tmp_path / "b" / "D-toy.svg")
    text = (tmp_path / "a" / "D-toy.svg").read_text()

    assert text == (tmp_path / "b" / "D-toy.svg").read_text()
    assert "dc:date" not in text
    assert "@font-face" not in text
    assert ">a title</text>" in text
    assert not list(tmp_path.rglob("*.tmp"))


def test_other_rows_give_another_picture(tmp_path: Path) -> None:
    """The picture is drawn from the rows."""
    save(_draw, ROWS, tmp_path / "D-a.svg")
    before = (tmp_path / "D-a.svg").read_bytes()
    save(_draw, [*ROWS[:-1], {**ROWS[-1], "mean": 0.5}], tmp_path / "D-a.svg")

    assert before != (tmp_path / "D-a.svg").read_bytes()


def test_a_picture_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    """Nothing half-drawn takes its place."""
    path = tmp_path / "D-a.svg"
    path.write_text("old")
    with pytest.raises(ZeroDivisionError):
        save(lambda rows: 1 / 0, ROWS, path)

    assert "old" == path.read_text()


def test_each_dataset_has_a_panel_and_each_method_a_line(tmp_path: Path) -> None:
    """Means stand at their epsilon; no privacy is a dashed line; every method has one colour and one legend entry."""
    figure = curves(ROWS)
    tea, milk = figure.axes

    assert (["tea", "milk"], "test accuracy") == ([axes.get_title() for axes in figure.axes], tea.get_ylabel())
    lines = {line.get_linestyle(): line for line in tea.lines if len(line.get_xdata()) == 2}
    assert [0.9, 0.9] == list(lines["--"].get_ydata())
    assert ([2.0, 10.0], [0.5, 0.75]) == (list(lines["-"].get_xdata()), list(lines["-"].get_ydata()))
    assert ["clean", "rr"] == [text.get_text() for text in figure.legends[0].get_texts()]
    assert ["2", "10"] == [label.get_text() for label in tea.get_xticklabels()]
    assert STYLES[1][0] == milk.lines[0].get_color()
    assert re.fullmatch(r"#[0-9A-F]{6}", STYLES[1][0])


def test_series_may_be_made_of_several_fields() -> None:
    """And panels and places may be any field."""
    rows = [row(m=m, setting=setting) for m in (1, 2) for setting in ("inductive", "transductive")]
    figure = curves(rows, x="m", series=lambda row: f"{row['method']} {row['setting']}", panels="metric", ylabel="y")

    assert ["rr inductive", "rr transductive"] == [text.get_text() for text in figure.legends[0].get_texts()]
    assert ("m", "y", "linear") == (
        figure.axes[0].get_xlabel(),
        figure.axes[0].get_ylabel(),
        figure.axes[0].get_xscale(),
    )
