"""Losses on released evidence, for anybody's training loop.

All take logits (n, K) and return a scalar, the mean a row.
"""

from __future__ import annotations

from typing import Any

from labeldp.learn.torch.backend import torch_module


def forward_loss(logits: Any, likelihood: Any) -> Any:
    """Return the mean -log sum_y p(y) P(released | y): maximum likelihood through the channel.

    ``likelihood`` is (n, K): ``evidence.likelihood``, or ``channel.likelihood(codes)``, as a tensor.
    """
    torch = torch_module()
    chances = torch.log_softmax(logits, dim=1)
    return -torch.logsumexp(chances + likelihood.clamp_min(1e-30).log(), dim=1).mean()


def soft_target_loss(logits: Any, targets: Any) -> Any:
    """Return the cross-entropy with soft targets (n, K): posteriors, or debiased indicators, which may be negative.

    With targets that sum to one it is logsumexp(z) - <target, z>.
    """
    torch = torch_module()
    return (torch.logsumexp(logits, dim=1) - (targets * logits).sum(dim=1)).mean()


def bag_loss(logits: Any, bag: Any, counts: Any, variance: float, free: int | None = None) -> Any:
    """Return the mean, a row, of the normal -log-likelihood of noisy counts of the bags that the rows make up.

    ``bag`` numbers each row's bag, 0 .. B-1, and all rows of a bag must be there; ``counts`` is (B, K).  A count has the
    mean sum p and the variance of the noise and of the labels themselves, sum p (1 - p); the latter weighs a bag, and is
    not learned from.  ``free`` counts of a bag were released (1 of two labels, where the other follows from the size).
    """
    torch = torch_module()
    chances = torch.softmax(logits, dim=1)
    free = chances.shape[1] if free is None else free
    chances = chances[:, :free]
    sums = torch.zeros((len(counts), free), dtype=chances.dtype).index_add(0, bag, chances)
    with torch.no_grad():
        spread = torch.zeros_like(sums).index_add(0, bag, chances * (1 - chances)) + variance
    return (0.5 * (counts[:, :free] - sums) ** 2 / spread).sum() / len(logits)
