"""The self-supervised network: its loss by brute force, its views, and that it learns the same thing again."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

from labeldp.errors import InputError
from labeldp.features import SelfSupervised
from labeldp.features.selfsupervised import _told_apart
from tests.features.helpers import images, needs_torch


@needs_torch
def test_the_loss_is_that_of_the_formula() -> None:
    """Every view must find its partner among all others: computed a pair at a time."""
    import torch

    outputs = torch.randn(8, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    unit = (outputs / outputs.norm(dim=1, keepdim=True)).numpy()
    losses = []
    for i in range(8):
        others = [np.exp(unit[i] @ unit[k] / 0.3) for k in range(8) if k != i]
        losses.append(-np.log(np.exp(unit[i] @ unit[(i + 4) % 8] / 0.3) / sum(others)))

    assert np.mean(losses) == pytest.approx(float(_told_apart(torch, outputs, 0.3)))


@needs_torch
@pytest.mark.parametrize("colours", [1, 3])
def test_training_lowers_the_loss_and_repeats(colours: int) -> None:
    """The loss falls; the same seed gives the same features, another one others; the global generator is untouched."""
    import torch

    X = images(64, colours=colours)
    stage = SelfSupervised(4, epochs=4, batch=32)
    before = torch.random.get_rng_state()

    first = stage.fit_transform(X)

    assert torch.equal(before, torch.random.get_rng_state())
    assert stage.losses_[-1] < stage.losses_[0]
    assert (64, 64) == first.shape
    assert np.allclose(10.0, np.linalg.norm(first, axis=1), atol=1e-3)
    assert np.allclose(first, clone(stage).fit_transform(X), atol=1e-4)
    assert not np.allclose(first, clone(stage).set_params(random_state=1).fit_transform(X), atol=1e-2)
    assert np.array_equal(first, pickle.loads(pickle.dumps(stage)).transform(X))
    assert np.allclose(first[5:9], stage.transform(X[5:9]), atol=1e-4)


@needs_torch
def test_a_view_resembles_its_image_and_is_mirrored_only_if_it_may_be() -> None:
    """Views differ from each other and resemble their image; of a lopsided image some are mirrored with flips."""
    import torch

    lopsided = torch.zeros(64, 1, 16, 16)
    lopsided[..., :8] = 1.0

    def lefts(flips: bool) -> Any:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            views = SelfSupervised(flips=flips)._view(torch, lopsided)
        assert lopsided.shape == views.shape
        assert not torch.equal(views[0], views[1])
        return (views[..., :8].mean(dim=(1, 2, 3)) > views[..., 8:].mean(dim=(1, 2, 3))).float().mean()

    assert float(lefts(flips=False)) == 1.0
    assert 0.25 < float(lefts(flips=True)) < 0.75


@needs_torch
def test_odd_batches_and_progress_are_no_trouble() -> None:
    """A last batch of one image is passed over, batches larger than the set are, and a bar can be shown."""
    assert (17, 64) == SelfSupervised(4, epochs=1, batch=16, verbose=True).fit_transform(images(17)).shape
    assert (5, 64) == SelfSupervised(4, epochs=1).fit_transform(images(5)).shape


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"width": 2}, "width"),
        ({"epochs": 0}, "epochs"),
        ({"batch": 1}, "batch"),
        ({"temperature": 0}, "temperature"),
        ({"random_state": None}, "random_state"),
    ],
)
def test_settings_are_checked(settings: dict[str, Any], words: str) -> None:
    """Each parameter out of range is named, before anything is loaded."""
    with pytest.raises(InputError, match=words):
        SelfSupervised(**settings).fit(images())


@pytest.mark.parametrize("X", [images(1), images(10, side=6)])
def test_too_few_or_too_small_images_are_refused(X: Any) -> None:
    """One image cannot be told apart, and tiny ones cannot be halved twice."""
    with pytest.raises(InputError, match="at least 2 images of at least 8 x 8"):
        SelfSupervised().fit(X)
