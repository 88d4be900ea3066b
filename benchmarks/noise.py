"""Integer noise: discrete Laplace and discrete Gaussian draws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from functools import partial
from typing import Any, Final

import numpy as np

import labeldp as ldp
from benchmarks.harness import Benchmark, Case, Scale, Subject, peer, subject_of
from labeldp.ids import RowIds
from labeldp.noise import IntegerNoise

_ROWS: Final = 100_000
_SCALES: Final = (Fraction(2), Fraction(1000))
_DEVIATIONS: Final = (Fraction(5), Fraction(1000))


def cases(scale: Scale) -> Iterator[Case]:
    """Narrow and wide noise of both kinds."""
    for rows in scale.sizes(_ROWS):
        for b in _SCALES:
            yield _laplace(rows, b)
        for sigma in _DEVIATIONS:
            yield _gaussian(rows, sigma)


def _laplace(rows: int, b: Fraction) -> Case:
    rng, ratio = np.random.default_rng(0), math.exp(-1 / b)
    law = ldp.DiscreteLaplace(1 / b)
    check = partial(_check, rows, law)
    subjects = [
        _ours(rows, law),
        subject_of("opendp", lambda: _opendp(rows, law, float(b))),
        Subject(
            "numpy",
            lambda: rng.geometric(1 - ratio, rows) - rng.geometric(1 - ratio, rows),
            check,
            note="difference of geometrics: inexact, coins predictable",
        ),
    ]
    return Case(f"discrete Laplace, scale {b}, n={rows:.0e}".replace("e+0", "e"), subjects, "opendp")


def _gaussian(rows: int, sigma: Fraction) -> Case:
    rng = np.random.default_rng(0)
    law = ldp.DiscreteGaussian(sigma**2)
    check = partial(_check, rows, law)
    subjects = [
        _ours(rows, law),
        subject_of("opendp", lambda: _opendp(rows, law, float(sigma))),
        Subject(
            "numpy",
            lambda: np.rint(rng.normal(0.0, float(sigma), rows)).astype(np.int64),
            check,
            note="rounded normals: another law, inexact, coins predictable",
        ),
    ]
    return Case(f"discrete Gaussian, sigma {sigma}, n={rows:.0e}".replace("e+0", "e"), subjects, "opendp")


def _ours(rows: int, law: IntegerNoise) -> Subject:
    return Subject(
        "labeldp",
        lambda: law.draw(rows, ldp.SystemCoins().session().bits(RowIds.positions(rows), "noise of counts")),
        partial(_check, rows, law),
        note="exact, keyed coins",
    )


def _opendp(rows: int, law: IntegerNoise, scale: float) -> Subject:
    dp = peer("opendp.prelude")
    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if isinstance(law, ldp.DiscreteLaplace):
        noise = dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
    else:
        noise = dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=scale)
    zeros = [0] * rows
    return Subject(
        "opendp", lambda: noise(zeros), partial(_check, rows, law), note="exact; peak without its native memory"
    )


def _check(rows: int, law: IntegerNoise, drawn: Any) -> None:
    """There are so many integers, of the right mean and about the right spread."""
    array = np.asarray(drawn)
    assert array.shape == (rows,)
    assert array.dtype.kind == "i"
    assert abs(float(array.mean())) < 6 * math.sqrt(law.variance / rows)
    # The kurtosis of a Laplace law is 6: six sigma of the mean square.
    assert abs(float((array.astype(float) ** 2).mean()) / law.variance - 1) < 6 * math.sqrt(6 / rows) + 0.01


BENCHMARK: Final = Benchmark(
    "noise",
    "integer noise, one draw a row; seconds for all rows are medians, peak_mib is what Python and NumPy allocate during "
    "the run (tracemalloc, in a pass of its own)",
    ("labeldp", "numpy", "cryptography", "opendp"),
    cases,
)
