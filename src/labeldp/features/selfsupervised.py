"""A small network that learns, without labels, to recognise an image after it was shifted, turned and repainted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, final

import numpy as np

from labeldp.errors import InputError
from labeldp.features.base import PublicStage
from labeldp.features.extras import needed
from labeldp.features.inputs import as_images, as_pixels, at_least, whole
from labeldp.progress import progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Images per step when nothing is learned.
_STEP: Final = 256
#: Views of an image: how far they are shifted (in half sides), scaled, turned (in radians) and repainted.
_SHIFT, _SCALE, _TURN, _PAINT = 0.1, 0.15, 0.1, 0.3
_RATE, _DECAY = 2e-3, 1e-4
#: Cells along each side over which features are averaged.
_CELLS: Final = 4
#: Hidden and final length of the projection.
_HIDDEN, _FINAL = 256, 128
#: Length of the features of an image, as those of patches.
_LENGTH: Final = 10.0
#: Least side of an image: it is halved twice.
_LEAST_SIDE: Final = 8


@final
class SelfSupervised(PublicStage):
    """Features of a three-layer network trained to tell images apart whatever was done to them (SimCLR).

    Two views of each image of a batch are made; with z the unit outputs of a projection and s the temperature, view i
    must find its partner j among all others: the loss is -log(exp(z_i z_j / s) / sum_{k != i} exp(z_i z_k / s)) (Chen,
    Kornblith, Norouzi, Hinton 2020).  The features are what lies before the projection, averaged over 4 x 4 cells, with
    square roots taken and one length for all images.  :class:`PCA` makes them fewer.
    It needs the extra ``torch``: ``pip install 'labeldp[torch]'``.

    Parameters
    ----------
    width : int
        Channels of the last layer; there are 16 width features.
    epochs : int
        Passes over the images.
    batch : int
        Images a step: each is told apart from the others of its batch.
    temperature : float
        s above.
    flips : bool
        Whether a mirrored image is the same thing: true of photographs, not of digits.
    shape : (height, width), (height, width, colours) or None
        How flat rows fold into images.
    random_state : int
        For first weights, batches and views.
    verbose : bool
        Show progress.

    Attributes:
    ----------
    losses_ : mean loss of every epoch

    Examples:
    --------
    >>> SelfSupervised(epochs=3, flips=True)
    SelfSupervised(epochs=3, flips=True)
    """

    libraries = ("numpy", "torch")

    def __init__(
        self,
        width: int = 64,
        *,
        epochs: int = 10,
        batch: int = 256,
        temperature: float = 0.2,
        flips: bool = False,
        shape: tuple[int, ...] | None = None,
        random_state: int = 0,
        verbose: bool = False,
    ) -> None:
        self.width = width
        self.epochs = epochs
        self.batch = batch
        self.temperature = temperature
        self.flips = flips
        self.shape = shape
        self.random_state = random_state
        self.verbose = verbose

    def _read(self, X: Any) -> Any:
        return as_images(X, self.shape)

    def _learn(self, X: NDArray[Any]) -> None:
        whole(4, width=self.width)
        whole(1, epochs=self.epochs)
        whole(2, batch=self.batch)
        whole(0, random_state=self.random_state)
        at_least(1e-3, temperature=self.temperature)
        if min(X.shape[1:3]) < _LEAST_SIDE or len(X) < 2:
            raise InputError(
                f"Expected at least 2 images of at least {_LEAST_SIDE} x {_LEAST_SIDE} pixels, got {len(X)} of "
                f"{X.shape[1]} x {X.shape[2]}. Use PatchFeatures for small ones.",
                shape=X.shape,
            )
        torch = needed("torch", extra="torch", by="SelfSupervised")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.random_state)
            encoder, losses = self._trained(torch, X)
        self.losses_: list[float] = losses
        self.weights_ = {name: value.numpy().copy() for name, value in encoder.state_dict().items()}
        self.n_features_out_ = self.width * _CELLS**2

    def _apply(self, X: NDArray[Any]) -> Any:
        torch = needed("torch", extra="torch", by="SelfSupervised")
        with torch.device("meta"):  # weights that are about to be replaced need not be drawn
            encoder = _encoder(torch, X.shape[3], self.width)
        encoder.load_state_dict({name: torch.from_numpy(value) for name, value in self.weights_.items()}, assign=True)
        encoder.eval()
        out = np.empty((len(X), self.n_features_out_), np.float32)
        with torch.inference_mode():
            for start in range(0, len(X), _STEP):
                found = encoder(_tensor(torch, X[start : start + _STEP])).sqrt()
                out[start : start + _STEP] = _LENGTH * torch.nn.functional.normalize(found, dim=1).numpy()
        return out

    def _trained(self, torch: Any, X: NDArray[Any]) -> tuple[Any, list[float]]:
        nn = torch.nn
        encoder = _encoder(torch, X.shape[3], self.width)
        inner = self.width * _CELLS**2
        projection = nn.Sequential(
            nn.Linear(inner, _HIDDEN), nn.BatchNorm1d(_HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, _FINAL)
        )
        model = nn.Sequential(encoder, projection)
        steps = -(-len(X) // self.batch) * self.epochs
        optimiser = torch.optim.AdamW(model.parameters(), lr=_RATE, weight_decay=_DECAY)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, max_lr=_RATE, total_steps=steps + 1)
        losses = []
        with progress("Self-supervision", steps, shown=self.verbose) as advance:
            for _ in range(self.epochs):
                order = torch.randperm(len(X)).numpy()
                total = 0.0
                for start in range(0, len(X), self.batch):
                    chosen = order[start : start + self.batch]
                    if len(chosen) < 2:  # nothing to be told apart from
                        continue
                    images = _tensor(torch, X[np.sort(chosen)])
                    views = torch.cat([self._view(torch, images), self._view(torch, images)])
                    loss = _told_apart(torch, model(views), self.temperature)
                    optimiser.zero_grad(set_to_none=True)
                    loss.backward()
                    optimiser.step()
                    schedule.step()
                    total += float(loss.detach()) * len(chosen)
                    advance(note=f"loss {total / (start + len(chosen)):.3f}")
                losses.append(total / len(X))
        return encoder, losses

    def _view(self, torch: Any, images: Any) -> Any:
        """Return each image shifted, scaled, turned, perhaps mirrored, and repainted, by draws of its own."""
        count, colours = images.shape[:2]

        def draw(reach: float, *shape: int) -> Any:
            return (torch.rand(count, *shape) * 2 - 1) * reach

        angle, wide, high = draw(_TURN), 1 + draw(_SCALE), 1 + draw(_SCALE)
        sign = torch.where(torch.rand(count) < 0.5, -1.0, 1.0) if self.flips else torch.ones(count)
        across = torch.stack([sign * angle.cos() * wide, -angle.sin() * high, draw(_SHIFT)], dim=1)
        down = torch.stack([sign * angle.sin() * wide, angle.cos() * high, draw(_SHIFT)], dim=1)
        grid = torch.nn.functional.affine_grid(
            torch.stack([across, down], dim=1), list(images.shape), align_corners=False
        )
        moved = torch.nn.functional.grid_sample(images, grid, align_corners=False, padding_mode="border")
        painted = moved * (1 + draw(_PAINT, colours, 1, 1)) + draw(_PAINT / 4, colours, 1, 1)
        return painted + 0.05 * torch.randn(images.shape)


def _encoder(torch: Any, colours: int, width: int) -> Any:
    nn = torch.nn
    layers: list[Any] = []
    for inputs, outputs in ((colours, width // 4), (width // 4, width // 2), (width // 2, width)):
        layers += [nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()]
        layers += [nn.MaxPool2d(2)] if outputs != width else [nn.AdaptiveAvgPool2d(_CELLS), nn.Flatten()]
    return nn.Sequential(*layers)


def _tensor(torch: Any, images: NDArray[Any]) -> Any:
    return torch.from_numpy(np.ascontiguousarray(as_pixels(images).transpose(0, 3, 1, 2)))


def _told_apart(torch: Any, outputs: Any, temperature: float) -> Any:
    """Return the loss above, for outputs whose first half holds the partners of the second."""
    unit = torch.nn.functional.normalize(outputs, dim=1)
    likeness = unit @ unit.T / temperature
    likeness.fill_diagonal_(float("-inf"))
    half = len(unit) // 2
    partners = torch.cat([torch.arange(half) + half, torch.arange(half)])
    return torch.nn.functional.cross_entropy(likeness, partners)
