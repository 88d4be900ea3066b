"""Privacy losses: exact where they can be, rounded up where they cannot.

A :class:`Loss` says how much the output of a mechanism can tell apart two neighbouring data sets, in either order.
Pure epsilon and zCDP are exact rationals and add exactly; the curve ``delta(epsilon)`` is a float rounded up.

::

    Loss (abstract)
    +-- PureLoss            epsilon; dominated by binary randomised response
    +-- ApproximateLoss     (epsilon, delta)
    +-- ConcentratedLoss    rho-zCDP
    +-- FiniteLoss          the integer weights of a finite channel
    +-- LawLoss             a dominating law, such as that of integer noise
    +-- SequentialLoss      several releases about the same rows: losses add
    +-- ParallelLoss        releases about disjoint rows: the largest counts
    +-- GroupLoss           a loss when several labels are replaced at once
    +-- AskedLoss           a loss with the (epsilon, delta) that was asked for
"""

from labeldp.guarantee.losses.asked import AskedLoss, asked_loss
from labeldp.guarantee.losses.base import Loss
from labeldp.guarantee.losses.charge import Charge
from labeldp.guarantee.losses.composed import ParallelLoss, SequentialLoss
from labeldp.guarantee.losses.finite import FiniteLoss
from labeldp.guarantee.losses.group import GroupLoss, group_loss, group_size
from labeldp.guarantee.losses.law_loss import LawLoss
from labeldp.guarantee.losses.stated import ApproximateLoss, ConcentratedLoss, PureLoss

__all__ = [
    "ApproximateLoss",
    "AskedLoss",
    "Charge",
    "ConcentratedLoss",
    "FiniteLoss",
    "GroupLoss",
    "LawLoss",
    "Loss",
    "ParallelLoss",
    "PureLoss",
    "SequentialLoss",
    "asked_loss",
    "group_loss",
    "group_size",
]
