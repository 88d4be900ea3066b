"""k-ary randomised response: integer labels in, integer codes out."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

import labeldp as ldp
from benchmarks.harness import Bar, Benchmark, Case, Scale, Subject, peer, subject_of
from labeldp.prf import ROWS_PER_STEP, Aes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.integer[Any]]

EPSILON: Final = 1.0
#: Rows a peer is given that does one value at a time; more are scaled up.
_SLOW_ROWS: Final = 1_000_000
_SLOWEST_ROWS: Final = 10_000
_BLOCK: Final = 16_384
_AS_DOCUMENTED: Final = ("multi-freq-ldpy", "pure-ldp", "opendp")


def cases(scale: Scale) -> Iterator[Case]:
    """10^6 and 10^7 labels of 2, 10 and 100 classes."""
    for rows in scale.sizes(10**6, 10**7):
        for classes in (2, 10, 100):
            yield _case(rows, classes, full=scale.full(10**6))


def _case(rows: int, classes: int, *, full: bool) -> Case:
    labels = np.random.default_rng(0).integers(0, classes, rows)
    space = ldp.LabelSpace(range(classes))
    channel = ldp.RandomizedResponse(space, EPSILON)
    keep = math.exp(EPSILON) / (math.exp(EPSILON) + classes - 1)
    ids, key = np.arange(rows) * 3 + 5, ldp.KeyedCoins(bytes(range(32)))
    rng = np.random.default_rng(1)
    check = partial(_check, labels, classes, keep)
    subjects = [
        Subject(
            "labeldp",
            lambda: ldp.privatize(labels, channel).codes,  # type: ignore[attr-defined]  # a release of rows
            check,
            note="fresh keyed coins, exact integers, checks of labels, the release object",
        ),
        Subject(
            "labeldp, kept key and ids",
            lambda: ldp.privatize(labels, channel, ids=ids, coins=key).codes,  # type: ignore[attr-defined]  # as above
            check,
            note="and unique ids, digest of labels",
        ),
        Subject("numpy pcg64", lambda: respond(labels, classes, keep, rng), check, note="inexact, coins predictable"),
        Subject(
            "numpy pcg64 in blocks",
            lambda: respond_in_blocks(labels, classes, keep, rng),
            check,
            note="the same, tuned to the cache",
        ),
        subject_of("multi-freq-ldpy", lambda: _multi_freq(labels, classes, keep)),
        subject_of("multi-freq-ldpy, our compiled loop", lambda: _multi_freq_compiled(labels, classes, check)),
        subject_of("pure-ldp", lambda: _pure_ldp(labels, classes, keep)),
        subject_of("opendp", lambda: _opendp(labels, classes, keep)),
        Subject("limit: copy of the labels", labels.copy),
        Subject("limit: AES-256, one block a row", lambda: _encrypt(rows)),
    ]
    bars = [Bar("labeldp", ("numpy pcg64",), 1.0)]
    if rows == 10**6 and classes == 10:
        bars.append(Bar("labeldp", _AS_DOCUMENTED, 40.0))
    return Case(f"n={rows:.0e} K={classes}".replace("e+0", "e"), subjects, "numpy pcg64", bars if full else ())


def respond(labels: Integers, classes: int, keep: float, rng: np.random.Generator) -> Integers:
    """Randomised response as one writes it in NumPy, in the smallest type: keep, or shift by 1 .. K-1."""
    codes = labels.astype(np.uint8)
    kept = rng.random(len(codes)) < keep
    other = rng.integers(1, classes, len(codes), dtype=np.uint8)
    other += codes
    # Below zero an unsigned integer is a large one: the minimum is the sum modulo K.
    np.minimum(other, other - np.uint8(classes), out=other)
    return np.where(kept, codes, other)


def respond_in_blocks(labels: Integers, classes: int, keep: float, rng: np.random.Generator) -> Integers:
    """Do the same in blocks that stay in the cache, with reused buffers."""
    out = np.empty(len(labels), np.uint8)
    uniform = np.empty(_BLOCK)
    for start in range(0, len(labels), _BLOCK):
        codes = labels[start : start + _BLOCK].astype(np.uint8)
        other = rng.integers(1, classes, len(codes), dtype=np.uint8)
        other += codes
        np.minimum(other, other - np.uint8(classes), out=other)
        rng.random(out=uniform[: len(codes)])
        np.copyto(other, codes, where=uniform[: len(codes)] < keep)
        out[start : start + _BLOCK] = other
    return out


# ---- peers ----------------------------------------------------------------------------------------------


def _multi_freq(labels: Integers, classes: int, keep: float) -> Subject:
    client = peer("multi_freq_ldpy.pure_frequency_oracles.GRR").GRR_Client
    return _one_by_one("multi-freq-ldpy", lambda v: client(v, classes, EPSILON), labels, classes, keep, _SLOW_ROWS)


def _multi_freq_compiled(labels: Integers, classes: int, check: Callable[[Any], None]) -> Subject:
    client = peer("multi_freq_ldpy.pure_frequency_oracles.GRR").GRR_Client

    @peer("numba").njit  # type: ignore[untyped-decorator]  # numba has no types
    def loop(values: Integers, out: Integers) -> Integers:
        for row in range(len(values)):
            out[row] = client(values[row], classes, EPSILON)
        return out

    note = "not in its documentation: its client, called from a loop that numba compiles"
    return Subject("multi-freq-ldpy, our compiled loop", lambda: loop(labels, np.empty_like(labels)), check, note=note)


def _pure_ldp(labels: Integers, classes: int, keep: float) -> Subject:
    client = peer("pure_ldp.frequency_oracles.direct_encoding").DEClient(EPSILON, classes, index_mapper=lambda v: v)
    return _one_by_one("pure-ldp", client.privatise, labels, classes, keep, _SLOW_ROWS)


def _opendp(labels: Integers, classes: int, keep: float) -> Subject:
    dp = peer("opendp.prelude")
    dp.enable_features("contrib")
    respond_one = dp.m.make_randomized_response(list(range(classes)), prob=keep)
    return _one_by_one("opendp", respond_one, labels, classes, keep, _SLOWEST_ROWS)


def _one_by_one(
    name: str, respond_one: Callable[[int], int], labels: Integers, classes: int, keep: float, most: int
) -> Subject:
    part = labels[:most]
    values = part.tolist()
    scaled = f", {len(part):,} rows, scaled up" if len(part) < len(labels) else ""
    return Subject(
        name,
        lambda: [respond_one(value) for value in values],
        partial(_check, part, classes, keep),
        work=len(part) / len(labels),
        note=f"one value a call{scaled}",
    )


def _encrypt(rows: int) -> int:
    aes, blocks = Aes(random.randbytes(32)), np.zeros((ROWS_PER_STEP, 2), np.uint64)
    for start in range(0, rows, ROWS_PER_STEP):
        aes(blocks[: min(ROWS_PER_STEP, rows - start)])
    return rows


def _check(labels: Integers, classes: int, keep: float, released: Any) -> None:
    """The shape and the range are right, and labels survive as often as they should (within 6 sigma)."""
    array = np.asarray(released)
    assert array.shape == labels.shape
    assert array.dtype.kind in "iu"
    assert int(array.min()) >= 0
    assert int(array.max()) < classes
    sigma = math.sqrt(keep * (1 - keep) / len(labels))
    assert abs(float((array == labels).mean()) - keep) < 6 * sigma
    lied = np.bincount(array[array != labels].astype(np.intp), minlength=classes)
    expected = len(labels) * (1 - keep) / classes
    assert bool((np.abs(lied - expected) < 6 * math.sqrt(expected) + 6).all())


BENCHMARK: Final = Benchmark(
    "randomized-response",
    "k-ary randomised response at epsilon 1, int64 labels in, integer codes out; seconds are medians, peak_mib is "
    "what Python and NumPy allocate during the run (tracemalloc, in a pass of its own)",
    ("labeldp", "numpy", "cryptography", "multi-freq-ldpy", "numba", "pure-ldp", "statsmodels", "opendp"),
    cases,
)
