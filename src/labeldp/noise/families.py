"""The families of integer noise."""

from __future__ import annotations

from typing import Any

from labeldp.errors import InputError
from labeldp.noise.gaussian import DiscreteGaussian
from labeldp.noise.laplace import DiscreteLaplace

IntegerNoise = DiscreteLaplace | DiscreteGaussian


def noise_from_json(data: dict[str, Any]) -> IntegerNoise:
    """Read a law of noise that was written by its ``to_json``."""
    laws: tuple[type[DiscreteLaplace], type[DiscreteGaussian]] = (DiscreteLaplace, DiscreteGaussian)
    for law in laws:
        if data.get("family") == law.family:
            return law.from_json(data)
    raise InputError(f"Expected the law of an integer noise, got {data.get('family')!r}.", data=data)
