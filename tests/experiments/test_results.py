"""Result files that are kept obey their contract."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path

import pytest

from experiments.runner import RESULTS

_FILES = sorted(RESULTS.glob("*.json"))
_FIELDS = {"dataset", "method", "epsilon", "delta", "metric", "mean", "sd", "trials", "seconds"}


def test_there_are_results() -> None:
    """What follows tests something."""
    assert _FILES


@pytest.mark.parametrize("path", _FILES, ids=lambda path: path.stem)
def test_a_kept_result_keeps_its_contract(path: Path) -> None:
    """Named by letter, complete, every row with all its fields, and means that are the means of their values."""
    text = path.read_text(encoding="utf-8")
    result = json.loads(text)

    assert re.fullmatch(r"[A-E]-[a-z0-9-]+", path.stem)
    assert {"what", "command", "versions", "cpu", "complete", "rows"} <= result.keys()
    assert result["rows"]
    assert "NaN" not in text
    for row in result["rows"]:
        assert row.keys() >= _FIELDS
        assert row["epsilon"] is None or row["epsilon"] > 0
        assert (row["epsilon"] is None) == (row["delta"] is None)
        assert row["trials"] >= 1
        if "values" in row:
            assert row["trials"] == len(row["values"])
            assert pytest.approx(statistics.fmean(row["values"])) == row["mean"]
            spread = statistics.stdev(row["values"]) if row["trials"] > 1 else None
            assert spread == (None if row["sd"] is None else pytest.approx(row["sd"]))
        if "accuracy" in row["metric"]:
            assert 0 <= row["mean"] <= 1.5, "accuracies are fractions"
