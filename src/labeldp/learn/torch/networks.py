"""Networks of the size that two cores train in minutes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from labeldp.learn.torch.backend import torch_module


def mlp(inputs: int, classes: int, hidden: Sequence[int] = (512,), dropout: float = 0.3) -> Any:
    """Return a perceptron with hidden layers, for tables and features."""
    nn = torch_module().nn
    layers: list[Any] = []
    width = inputs
    for size in hidden:
        layers += [nn.Linear(width, size), nn.ReLU(), nn.Dropout(dropout)]
        width = size
    return nn.Sequential(*layers, nn.Linear(width, classes))


def small_cnn(shape: tuple[int, int, int], classes: int, width: int = 32, dropout: float = 0.3) -> Any:
    """Return a light convolutional network for images (channels, height, width), given flat or as such."""
    nn = torch_module().nn
    channels, height, breadth = shape

    def block(before: int, after: int) -> list[Any]:
        return [nn.Conv2d(before, after, 3, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU(), nn.MaxPool2d(2)]

    return nn.Sequential(
        nn.Unflatten(1, (channels, height, breadth)),
        *block(channels, width),
        *block(width, 2 * width),
        nn.Flatten(),
        nn.Dropout(dropout),
        nn.Linear(2 * width * (height // 4) * (breadth // 4), 128),
        nn.ReLU(),
        nn.Dropout(dropout),
        nn.Linear(128, classes),
    )
