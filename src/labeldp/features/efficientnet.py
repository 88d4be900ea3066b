"""EfficientNet-lite0 for inference only: plain convolutions, with the batch normalisations folded into them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, final

#: Repeats, kernel, stride, expansion, outputs of each group of blocks.
_GROUPS: Final = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
_EPSILON: Final = 1e-3
#: Length of the pooled features.
WIDTH: Final = 1280
#: Pixels of 0 to 255 become (pixel - 127) / 128.
_CENTRE, _SPREAD = 127.0, 128.0


class _Convolution(NamedTuple):
    weight: Any
    bias: Any
    stride: int
    groups: int
    clipped: bool


@final
class EfficientNetLite0:
    """The network of Tan and Le (2019) in its "lite" form (no squeeze and excitation, ReLU6), without its classifier.

    ``weights`` has the names of ``efficientnet_lite_pytorch``.
    """

    def __init__(self, torch: Any, weights: Mapping[str, Any]) -> None:
        self._torch = torch
        self._weights = weights
        self._stem = self._folded("_conv_stem", "_bn0", stride=2)
        self._blocks: list[tuple[bool, list[_Convolution]]] = []
        inputs, place = 32, 0
        for repeats, _, stride, expansion, outputs in _GROUPS:
            for repeat in range(repeats):
                step = stride if repeat == 0 else 1
                name = f"_blocks.{place}."
                layers = [] if expansion == 1 else [self._folded(f"{name}_expand_conv", f"{name}_bn0")]
                wide = inputs * expansion
                layers.append(self._folded(f"{name}_depthwise_conv", f"{name}_bn1", stride=step, groups=wide))
                layers.append(self._folded(f"{name}_project_conv", f"{name}_bn2", clipped=False))
                self._blocks.append((step == 1 and inputs == outputs, layers))
                inputs, place = outputs, place + 1
        self._head = self._folded("_conv_head", "_bn1")

    def features(self, images: Any) -> Any:
        """Return the pooled features, (n, 1280), of float images (n, 3, side, side) from 0 to 1."""
        x = self._through(self._stem, (images * 255.0 - _CENTRE) / _SPREAD)
        for skips, layers in self._blocks:
            y = x
            for layer in layers:
                y = self._through(layer, y)
            x = y + x if skips else y
        return self._through(self._head, x).mean(dim=(2, 3))

    def _folded(
        self, convolution: str, normalisation: str, *, stride: int = 1, groups: int = 1, clipped: bool = True
    ) -> _Convolution:
        """Return w' = w g / s and b' = b - m g / s, with the normalisation's g, b, m and s = sqrt(v + epsilon)."""
        weights = self._weights
        scale = weights[f"{normalisation}.weight"] / (weights[f"{normalisation}.running_var"] + _EPSILON).sqrt()
        weight = weights[f"{convolution}.weight"] * scale[:, None, None, None]
        bias = weights[f"{normalisation}.bias"] - weights[f"{normalisation}.running_mean"] * scale
        packed = weight.contiguous(memory_format=self._torch.channels_last)
        return _Convolution(packed, bias, stride, groups, clipped)

    def _through(self, layer: _Convolution, x: Any) -> Any:
        functional = self._torch.nn.functional
        side = layer.weight.shape[-1]
        pads = [padding for length in (x.shape[-1], x.shape[-2]) for padding in _same(length, side, layer.stride)]
        even = pads[0] == pads[1] == pads[2] == pads[3]
        if not even:
            x = functional.pad(x, pads)
        y = functional.conv2d(x, layer.weight, layer.bias, layer.stride, pads[0] if even else 0, 1, layer.groups)
        return y.clamp_(0.0, 6.0) if layer.clipped else y


def _same(length: int, side: int, stride: int) -> tuple[int, int]:
    """Return the padding before and after for an output of ceil(length / stride), as the network was trained."""
    total = max((-(-length // stride) - 1) * stride + side - length, 0)
    return total // 2, total - total // 2
