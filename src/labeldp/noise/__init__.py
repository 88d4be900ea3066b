"""Integer noise for counts and vectors: the exact samplers of Canonne, Kamath and Steinke, drawn from coins.

The noise is discrete, its parameters are rational, and no float occurs between the coins and the noisy integer:
the published guarantee is that of the very law which was drawn.  Laplace or Gaussian noise made of floats has
no such guarantee (its low bits betray the value beneath); what a mechanism with float noise reports is an
``Estimate``, never a ``Guarantee``, and this package makes none.

>>> from labeldp.coins import SystemCoins
>>> from labeldp.ids import RowIds
>>> noise = laplace_counts(epsilon=1.0, classes=10)
>>> noise.a
Fraction(1, 2)
>>> len(noise.draw(10, SystemCoins().session().bits(RowIds.positions(10), "noise of counts")))
10
"""

from __future__ import annotations

from labeldp.noise.asked import moved_bins
from labeldp.noise.calibrate import (
    analytic_gaussian_sigma,
    gaussian_counts,
    gaussian_for_counts,
    gaussian_vector,
    laplace_counts,
    laplace_for,
    laplace_vector,
    rho_for,
    zcdp_gaussian_sigma,
)
from labeldp.noise.cost import (
    concentrated_rho,
    delta_of_counts,
    guarantee_of_counts,
    guarantee_of_vector,
    hockey_stick_gaussian,
    hockey_stick_one_bin,
    hockey_stick_two_bins,
    pure_epsilon,
)
from labeldp.noise.families import IntegerNoise, noise_from_json
from labeldp.noise.gaussian import DiscreteGaussian
from labeldp.noise.laplace import DiscreteLaplace
from labeldp.noise.sampling import bernoulli_exp, rational_at_most, uniform_below

__all__ = [
    "DiscreteGaussian",
    "DiscreteLaplace",
    "IntegerNoise",
    "analytic_gaussian_sigma",
    "bernoulli_exp",
    "concentrated_rho",
    "delta_of_counts",
    "gaussian_counts",
    "gaussian_for_counts",
    "gaussian_vector",
    "guarantee_of_counts",
    "guarantee_of_vector",
    "hockey_stick_gaussian",
    "hockey_stick_one_bin",
    "hockey_stick_two_bins",
    "laplace_counts",
    "laplace_for",
    "laplace_vector",
    "moved_bins",
    "noise_from_json",
    "pure_epsilon",
    "rational_at_most",
    "rho_for",
    "uniform_below",
    "zcdp_gaussian_sigma",
]
