"""Coins: which bits a row has, for ever, and that nobody sees where they come from."""

from __future__ import annotations

import copy
import json
import logging
import os
import pickle
import pprint
import stat
import string
import uuid
from collections.abc import Callable, Iterator
from dataclasses import asdict
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

import labeldp as ldp
from labeldp import coins as coins_module
from labeldp import errors
from labeldp.coins import (
    Coins,
    CoinSession,
    KeyedCoins,
    RowBits,
    SeededCoins,
    SystemCoins,
    compare,
    read_key_file,
    write_key_file,
)
from labeldp.curator import prepare
from labeldp.ids import RowIds
from labeldp.prf import ROWS_PER_STEP
from labeldp.release import RowRelease
from labeldp.testing.strategies import ids as drawn_ids
from tests import slow_coins

GOLDEN: dict[str, Any] = json.loads((Path(__file__).parent / "golden" / "coins.json").read_text())
#: Printable, so that it would be recognised in every form in which bytes are shown.
KEY = b"Zq7!Zq7!Zq7!Zq7!Zq7!Zq7!Zq7!Zq7!"
OTHER = bytes(range(32))
SPACE = ldp.LabelSpace(["no", "yes"])
#: Deviations which a fixed key of good bits does not reach, in standard deviations.
MANY = 6.0


def names_of(case: dict[str, Any]) -> list[slow_coins.Id]:
    """Return the ids of a golden case."""
    return [uuid.UUID(name) for name in case["ids"]] if case["kind"] == "uuid" else case["ids"]


def ids_of(case: dict[str, Any]) -> RowIds:
    """Return the ids of a golden case as the library holds them."""
    names = names_of(case)
    return RowIds.positions(len(names)) if case["kind"] == "position" else RowIds.of(names)


def session_of(case: dict[str, Any]) -> CoinSession:
    """Return the coins of a golden case."""
    coins = case["coins"]
    return (SeededCoins(coins["seed"]) if "seed" in coins else KeyedCoins(bytes.fromhex(coins["key"]))).session()


def by_name(case: Any) -> str:
    """Return the name of a golden case."""
    return str(case["name"])


def ones(words: NDArray[np.uint64]) -> int:
    """Count the bits that are set."""
    return int(np.bitwise_count(words).sum())


def look_unrelated(left: NDArray[np.uint64], right: NDArray[np.uint64]) -> bool:
    """Whether as many bits differ as in two draws that know nothing of each other: half, and a tolerance."""
    bits = 64 * len(left)
    return abs(ones(left ^ right) - bits / 2) < MANY * np.sqrt(bits) / 2 and not (left == right).any()


# ---- bits that never change ----------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GOLDEN["words"], ids=by_name)
def test_words_are_the_golden_ones(case: dict[str, Any]) -> None:
    """The words of integers, texts, UUIDs and positions are those of the file, in the library and by hand."""
    context = [bytes.fromhex(part) for part in case["context"]]
    session = session_of(case)
    make = session.bits if case["use"] == "row bits" else session.bin_bits
    bits = make(ids_of(case), case["purpose"], *context)

    coins = case["coins"]
    secret = slow_coins.seed_key(coins["seed"]) if "seed" in coins else bytes.fromhex(coins["key"])
    slow = [
        slow_coins.word(secret, case["kind"], name, case["purpose"], context, case["word"], case["use"].encode())
        for name in names_of(case)
    ]

    assert case["words"] == [f"{word:016x}" for word in slow]
    assert case["words"] == [f"{word:016x}" for word in bits.words(case["word"]).tolist()]
    assert bits.words(case["word"]).dtype == np.uint64


@pytest.mark.parametrize("case", GOLDEN["label_digests"], ids=by_name)
def test_label_digests_are_the_golden_ones(case: dict[str, Any]) -> None:
    """The digest of (id, label) pairs is that of the file, in the library and by hand."""
    key = bytes.fromhex(case["key"])

    digest = KeyedCoins(key).session().label_digest().add(ids_of(case), np.array(case["codes"], np.uint32)).close()

    assert case["digest"] == digest.hex()
    assert case["digest"] == slow_coins.label_digest(key, case["kind"], names_of(case), case["codes"]).hex()


@pytest.mark.parametrize("case", GOLDEN["releases"], ids=by_name)
def test_a_keyed_release_is_the_golden_one(case: dict[str, Any]) -> None:
    """Key, ids and labels give the released labels of the file: in the library, in its kernel and by hand."""
    key, epsilon = bytes.fromhex(case["key"]), Fraction(case["epsilon"])
    names = {"dataset": case["dataset"], "version": case["version"]}
    space = ldp.LabelSpace.from_json(case["space"])
    channel = ldp.RandomizedResponse(space, epsilon)
    ids = ids_of(case)

    curator = ldp.Curator(case["labels"], space=space, coins=KeyedCoins(key), ids=ids, **names)
    released = np.asarray(curator.release(channel)).tolist()
    batch = pa.record_batch({"id": ids.to_arrow(), "label": pa.array(case["labels"])})
    kernel = prepare(channel, KeyedCoins(key), [batch], **names)
    slow = slow_coins.respond(key, case["kind"], names_of(case), case["labels"], case["space"], epsilon, **names)

    assert case["released"] == slow
    assert case["released"] == released
    assert case["released"] == kernel(batch).column("label").to_pylist()
    assert case["other"] == channel.public()["other"] == str(slow_coins.response_weight(space.size, epsilon))
    assert 0 < sum(a != b for a, b in zip(case["labels"], released, strict=True)) < len(released)
    if not any(names.values()):
        again = ldp.privatize(case["labels"], channel, ids=ids, coins=KeyedCoins(key))
        assert case["released"] == np.asarray(again).tolist()


def test_the_golden_file_covers_every_kind_of_id() -> None:
    """Integers of either sign, unsigned ones, texts, UUIDs and positions; words beyond the first; contexts."""
    cases = GOLDEN["words"]
    integers = [name for case in cases if case["kind"] == "integer" for name in case["ids"]]
    texts = [name for case in cases if case["kind"] == "text" for name in case["ids"]]

    assert {"position", "integer", "text", "uuid"} == {case["kind"] for case in cases}
    assert {-1, 0, -(2**63), 2**63 - 1, 2**63, 2**64 - 1} <= set(integers)
    assert {0, 15, 16, 17} <= {len(name) for name in texts}
    assert max(len(name) for name in texts) > 4096
    assert len({case["word"] for case in cases}) > 2
    assert len({word for case in cases for word in case["words"]}) == sum(len(case["words"]) for case in cases)


@given(st.data())
def test_any_word_is_that_of_the_slow_implementation(data: st.DataObject) -> None:
    """Whatever key, ids, purpose, context and word number are drawn: the library computes what is documented."""
    key = data.draw(st.binary(min_size=32, max_size=32))
    names = data.draw(drawn_ids(data.draw(st.integers(1, 5))))
    purpose = data.draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
    context = data.draw(st.lists(st.binary(max_size=20), max_size=3))
    number = data.draw(st.integers(0, 2**64 - 1))
    ids = RowIds.of(names)

    words = KeyedCoins(key).session().bits(ids, purpose, *context).words(number).tolist()

    assert [slow_coins.word(key, ids.kind, name, purpose, context, number) for name in names] == words


# ---- what changes the bits, and what does not ----------------------------------------------------------------

ROWS = 4096
NUMBERS = RowIds.of(np.arange(ROWS))


def _bits(key: bytes = KEY, purpose: str = "purpose", *context: bytes, ids: RowIds = NUMBERS) -> RowBits:
    return KeyedCoins(key).session().bits(ids, purpose, *context)


_OTHER_BITS: dict[str, Callable[[], NDArray[np.uint64]]] = {
    "key": lambda: _bits(OTHER).words(),
    "one bit of the key": lambda: _bits(bytes([KEY[0] ^ 1]) + KEY[1:]).words(),
    "purpose": lambda: _bits(KEY, "another purpose").words(),
    "empty purpose": lambda: _bits(KEY, "").words(),
    "word": lambda: _bits().words(1),
    "word far away": lambda: _bits().words(2**40),
    "context": lambda: _bits(KEY, "purpose", b"x").words(),
    "empty context": lambda: _bits(KEY, "purpose", b"").words(),
    "purpose as context": lambda: _bits(KEY, "", b"purpose").words(),
    "border": lambda: _bits(KEY, "pur", b"pose").words(),
    "other rows": lambda: _bits(ids=RowIds.of(np.arange(ROWS) + ROWS)).words(),
    "negative rows": lambda: _bits(ids=RowIds.of(-np.arange(ROWS) - 1)).words(),
    "rows by text": lambda: _bits(ids=RowIds.of([str(i) for i in range(ROWS)])).words(),
    "bins": lambda: KeyedCoins(KEY).session().bin_bits(NUMBERS, "purpose").words(),
    "bins by position": lambda: KeyedCoins(KEY).session().bin_bits(RowIds.positions(ROWS), "purpose").words(),
}


@pytest.mark.parametrize("name", _OTHER_BITS)
def test_everything_that_differs_gives_unrelated_bits(name: str) -> None:
    """Another key, purpose, word, context or id type: half of the bits differ, and no row keeps its word."""
    assert look_unrelated(_bits().words(), _OTHER_BITS[name]())


def test_related_bits_would_be_seen() -> None:
    """The test above could fail: bits that are shared, shifted in or flipped are told from unrelated ones."""
    words, others = _bits().words(), _bits(OTHER).words()
    mostly = np.where(np.arange(ROWS) % 32 == 0, words, others)

    assert look_unrelated(words, others)
    assert not look_unrelated(words, words)
    assert not look_unrelated(words, ~words)
    assert not look_unrelated(words, mostly)
    assert not look_unrelated(words, others & np.uint64(2**64 - 1 - 2**63) | words & np.uint64(2**63))


@pytest.mark.parametrize("name", ["purpose", "word", "context", "rows"])
def test_bits_of_all_uses_differ_from_each_other(name: str) -> None:
    """A hundred purposes, words, contexts or rows give a hundred different words."""
    words = {
        "purpose": lambda i: _bits(KEY, f"purpose {i}", ids=NUMBERS.take(np.array([0]))).words()[0],
        "word": lambda i: _bits(ids=NUMBERS.take(np.array([0]))).words(i)[0],
        "context": lambda i: _bits(KEY, "purpose", bytes([i]), ids=NUMBERS.take(np.array([0]))).words()[0],
        "rows": lambda i: _bits().words()[i],
    }[name]

    assert len({int(words(i)) for i in range(100)}) == 100


# Labels of the tests below, and what the working key must notice.
_LABELS = ["no", "yes", "yes", "no"] * (ROWS // 4)
_EDITED = ["yes", *_LABELS[1:]]


def _kernel_words(
    channel: Any = None,
    labels: list[str] = _LABELS,
    *,
    ids: Any = None,
    key: bytes = KEY,
    label: str = "label",
    **names: str,
) -> NDArray[np.uint64]:
    """Return the words with which a keyed release would decide each row."""
    channel = ldp.RandomizedResponse(SPACE, 1) if channel is None else channel
    column = np.arange(ROWS) if ids is None else ids
    batch = pa.record_batch({"id": pa.array(column), label: pa.array(labels)})
    kernel = prepare(channel, KeyedCoins(key), [batch], label=label, **names)
    return kernel._session.bits(RowIds.of(column), "row release", *kernel._context).words()


_PRIOR = np.random.default_rng(1).dirichlet([1.0, 1.0], ROWS)
_CHANGED: dict[str, Callable[[], NDArray[np.uint64]]] = {
    "one edited label": lambda: _kernel_words(labels=_EDITED),
    "two labels swapped": lambda: _kernel_words(labels=["yes", "no", *_LABELS[2:]]),
    "key": lambda: _kernel_words(key=OTHER),
    "data set": lambda: _kernel_words(dataset="census"),
    "version": lambda: _kernel_words(version="2"),
    "data set as version": lambda: _kernel_words(version="census"),
    "column": lambda: _kernel_words(label="income"),
    "epsilon": lambda: _kernel_words(ldp.RandomizedResponse(SPACE, Fraction(1, 2))),
    "epsilon by a hair": lambda: _kernel_words(ldp.RandomizedResponse(SPACE, 1 + Fraction(1, 10**15))),
    "mechanism": lambda: _kernel_words(ldp.TopKRandomizedResponse(SPACE, 1, ["no", "yes"])),
    "table": lambda: _kernel_words(ldp.TableChannel(SPACE, ldp.RandomizedResponse(SPACE, 1).transition)),
    "order of the space": lambda: _kernel_words(ldp.RandomizedResponse(ldp.LabelSpace(["yes", "no"]), 1)),
    "larger space": lambda: _kernel_words(ldp.RandomizedResponse(ldp.LabelSpace(["no", "yes", "?"]), 1)),
    "parameters of rows": lambda: _kernel_words(ldp.PriorRandomizedResponse(SPACE, 1, _PRIOR)),
}


@pytest.mark.parametrize("name", _CHANGED)
def test_every_row_meets_other_bits_after_a_change(name: str) -> None:
    """Under a kept key one edited label, or any public fact that changes, gives all rows unrelated bits."""
    assert look_unrelated(_kernel_words(), _CHANGED[name]())


def test_one_parameter_of_one_row_changes_all_bits() -> None:
    """Parameters of rows enter the working key too."""
    other = _PRIOR.copy()
    other[5] = other[5, ::-1]

    first, second = (_kernel_words(ldp.PriorRandomizedResponse(SPACE, 1, prior)) for prior in (_PRIOR, other))

    assert look_unrelated(first, second)


def test_the_same_request_has_the_same_bits() -> None:
    """Asked again, by a kernel, with names written out, or with the ids as texts of Arrow: nothing changes."""
    first = _kernel_words()

    assert (first == _kernel_words()).all()
    assert (first == _kernel_words(dataset="", version="")).all()
    assert (first == _kernel_words(ids=pa.array(np.arange(ROWS), pa.uint32()))).all()
    assert (first == _kernel_words(ldp.RandomizedResponse(SPACE, Fraction(1)))).all()


def _agreement(**changes: Any) -> float:
    """Return in how many rows two releases of a curator agree, the second with ``changes``."""
    space = ldp.LabelSpace(range(64))
    channel = ldp.RandomizedResponse(space, keep=Fraction(1, 40))
    facts: dict[str, Any] = {"coins": KeyedCoins(KEY), "ids": np.arange(ROWS), "space": space}

    def released(labels: NDArray[Any], channel: Any, **facts: Any) -> NDArray[Any]:
        return np.asarray(ldp.Curator(labels, **facts).release(channel))

    labels = np.arange(ROWS) % 64
    first = released(labels, channel, **facts)
    second = released(changes.pop("labels", labels), changes.pop("channel", channel), **(facts | changes))
    return float((first == second).mean())


def test_a_curator_s_releases_agree_only_by_chance_after_a_change() -> None:
    """Data set, version, column, key, epsilon and one label each make another release; part and order do not."""
    space = ldp.LabelSpace(range(64))
    edited = np.arange(ROWS) % 64
    edited[9] = 3
    chance = (1 / 40) ** 2 + (39 / 40) ** 2 / 63
    bound = chance + MANY * np.sqrt(chance * (1 - chance) / ROWS)
    changes: list[dict[str, Any]] = [
        {"dataset": "census"},
        {"version": "2"},
        {"column": "income"},
        {"coins": KeyedCoins(OTHER)},
        {"labels": edited},
        {"channel": ldp.RandomizedResponse(space, keep=Fraction(1, 41))},
        {"coins": SystemCoins()},
        {"coins": SeededCoins(1)},
        {"ids": [str(i) for i in range(ROWS)]},
    ]

    assert bound < 0.05
    assert _agreement() == 1
    assert _agreement(coins=KeyedCoins(bytearray(KEY)), ids=np.arange(ROWS, dtype=np.uint16)) == 1
    assert [] == [change for change in changes if _agreement(**change) > bound]


def test_words_do_not_depend_on_batches_or_order() -> None:
    """Whole, in batches, shuffled, as a stream, for some rows only: a row has one word."""
    rows = 2 * ROWS_PER_STEP + 100
    ids = RowIds.of([f"user-{i}" for i in range(rows)])
    whole = _bits(ids=ids).words(3)
    order = np.random.default_rng(1).permutation(rows)
    cuts = [0, 1, 1000, ROWS_PER_STEP, ROWS_PER_STEP + 1, rows]
    batches = [ids.take(np.arange(a, b)) for a, b in pairwise(cuts)]

    assert (whole == np.concatenate([_bits(ids=batch).words(3) for batch in batches])).all()
    assert (whole[order] == _bits(ids=ids.take(order)).words(3)).all()
    assert (whole[order] == _bits(ids=ids).words(3, order)).all()
    assert (whole == np.concatenate([part.copy() for _, part in _bits(ids=ids).stream(3)])).all()
    assert (whole[ids_mask := order < 500] == _bits(ids=ids).words(3, ids_mask)).all()
    assert (whole == _bits(ids=ids).words(3)).all()
    assert len(_bits(ids=ids)) == rows


def test_sessions_of_system_coins_are_fresh() -> None:
    """Every release has a key of its own; within one release bits repeat."""
    coins = SystemCoins()
    ids = RowIds.positions(ROWS)
    first, second = coins.session(), coins.session()

    assert look_unrelated(first.bits(ids, "p").words(), second.bits(ids, "p").words())
    assert (first.bits(ids, "p").words() == first.bits(ids, "p").words()).all()


def test_system_coins_ask_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys that are made come from the operating system, 32 bytes at a time, and from nowhere else."""
    asked: list[int] = []

    def urandom(size: int) -> bytes:
        asked.append(size)
        return bytes([len(asked)]) * size

    monkeypatch.setattr(coins_module.os, "urandom", urandom)
    words = SystemCoins().session().bits(NUMBERS, "p").words()
    again = KeyedCoins.generate().session().bits(NUMBERS, "p").words()

    assert asked == [32, 32]
    assert (words == KeyedCoins(b"\1" * 32).session().bits(NUMBERS, "p").words()).all()
    assert (again == KeyedCoins(b"\2" * 32).session().bits(NUMBERS, "p").words()).all()


def test_only_a_kept_key_binds_the_labels() -> None:
    """Fresh and seeded coins meet labels once, or on purpose; a kept key is bound to them and needs ids."""
    facts = {type(coins).__name__: (coins.kind, coins.private, coins.needs_ids, coins.binds_labels) for coins in _COINS}
    sessions = {s.kind: (s.kind, s.private, s.needs_ids, s.binds_labels) for s in (c.session() for c in _COINS)}

    assert facts == {
        "SystemCoins": ("system", True, False, False),
        "KeyedCoins": ("keyed", True, True, True),
        "SeededCoins": ("seeded", False, False, False),
    }
    assert sessions == {kind: fact for fact in facts.values() for kind in [fact[0]]}


# ---- uniformity ----------------------------------------------------------------------------------------------

_MANY_ROWS = 2**16


def _tables() -> dict[str, Callable[[], RowIds]]:
    return {
        "consecutive integers": lambda: RowIds.of(np.arange(_MANY_ROWS)),
        "distant integers": lambda: RowIds.of(np.arange(_MANY_ROWS) * 2**47 - 2**62),
        "texts": lambda: RowIds.of(pa.array(np.arange(_MANY_ROWS)).cast(pa.string())),
        "positions": lambda: RowIds.positions(_MANY_ROWS),
    }


def balance_of_bits(words: NDArray[np.uint64]) -> float:
    """Return the largest deviation of any bit's share from one half, in standard deviations."""
    sums = np.unpackbits(words.view(np.uint8).reshape(len(words), 8), axis=1).sum(axis=0, dtype=np.int64)
    return float(np.abs(sums - len(words) / 2).max() / (np.sqrt(len(words)) / 2))


def fit_of_bytes(words: NDArray[np.uint64]) -> float:
    """Return the smallest p-value of a G-test over the values of each of the eight bytes."""
    table = words.view(np.uint8).reshape(len(words), 8)
    counts = np.stack([np.bincount(table[:, byte], minlength=256) for byte in range(8)])
    return float(stats.power_divergence(counts, lambda_="log-likelihood", axis=1).pvalue.min())


def fit_of_pairs(words: NDArray[np.uint64]) -> float:
    """Return the p-value of a G-test over the pairs of top nibbles of a row and the next."""
    nibbles = (words >> np.uint64(60)).astype(np.int64)
    counts = np.bincount(16 * nibbles[:-1:2] + nibbles[1::2], minlength=256)
    return float(stats.power_divergence(counts, lambda_="log-likelihood").pvalue)


#: With 64 bits, 8 bytes and 4 tables at once, good bits miss these bounds once in some ten thousand keys.
_LEAST = 1e-6


@pytest.mark.parametrize("table", _tables())
@pytest.mark.parametrize("key", [KEY, OTHER], ids=["one key", "another"])
def test_words_are_uniform(table: str, key: bytes) -> None:
    """Every bit is balanced, every byte takes all values alike, and neighbours know nothing of each other."""
    ids = _tables()[table]()
    coins = SeededCoins(key[0]) if ids.kind == "position" else KeyedCoins(key)
    bits = coins.session().bits(ids, "uniform")
    words = bits.words()

    assert balance_of_bits(words) < MANY
    assert fit_of_bytes(words) > _LEAST
    assert fit_of_pairs(words) > _LEAST
    assert abs(ones(words) - 32 * _MANY_ROWS) < MANY * np.sqrt(64 * _MANY_ROWS) / 2
    assert len(np.unique(words)) == _MANY_ROWS


def test_bits_that_are_not_uniform_would_be_seen() -> None:
    """The test above has power: a bit that is set too often, a favoured byte and dependent rows fail it."""
    words = _bits(ids=RowIds.of(np.arange(_MANY_ROWS))).words()
    others = _bits(OTHER, ids=RowIds.of(np.arange(_MANY_ROWS))).words()
    some = others % np.uint64(16) == 0
    loaded = np.where(some, words | np.uint64(1 << 63), words)
    favoured = np.where(some, words & ~np.uint64(0xFF00), words)
    dependent = words.copy()
    dependent[1::2] = np.where(some[::2], words[::2], words[1::2])

    assert balance_of_bits(words) < MANY < balance_of_bits(loaded)
    assert fit_of_bytes(words) > _LEAST > fit_of_bytes(favoured)
    assert fit_of_pairs(words) > _LEAST > fit_of_pairs(dependent)


# ---- keys ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "got"),
    [
        (b"", "0 bytes"),
        (KEY[:31], "31 bytes"),
        (KEY + b"!", "33 bytes"),
        (bytearray(16), "16 bytes"),
        (KEY.decode(), "str"),
        (KEY.hex(), "str"),
        (list(KEY), "list"),
        (memoryview(KEY), "memoryview"),
        (np.frombuffer(KEY, np.uint8), "ndarray"),
        (int.from_bytes(KEY), "int"),
        (None, "NoneType"),
    ],
    ids=lambda value: value if isinstance(value, str) else "key",
)
def test_a_key_has_32_bytes(key: Any, got: str) -> None:
    """Keys of other lengths and types are refused, and the error does not show them."""
    with pytest.raises(errors.KeyMaterialError, match=f"32 bytes, got {got}") as caught:
        KeyedCoins(key)

    assert "Zq7!" not in f"{caught.value!r} {caught.value} {caught.value.context}"
    assert KEY.hex()[:8] not in str(caught.value)


def test_a_key_is_a_copy() -> None:
    """Wiping the bytes that were handed over does not change the coins."""
    key = bytearray(KEY)
    coins = KeyedCoins(key)  # type: ignore[arg-type]  # accepted, though not promised
    key[:] = bytes(32)

    assert (coins.session().bits(NUMBERS, "p").words() == _bits(KEY, "p").words()).all()


@pytest.mark.parametrize("seed", [1.0, "1", True, None, np.int64(1), b"1"], ids=repr)
def test_a_seed_is_an_integer(seed: Any) -> None:
    """Anything but an integer of Python is refused: two spellings of one seed would be two seeds."""
    with pytest.raises(errors.InputError, match="integer seed"):
        SeededCoins(seed)


def test_seeds_repeat_and_differ() -> None:
    """One seed gives one release; another seed, or its negative, another."""
    ids = RowIds.positions(ROWS)
    words = [SeededCoins(seed).session().bits(ids, "p").words() for seed in (7, 7, -7, 8, 7 + 2**64)]

    assert (words[0] == words[1]).all()
    assert all(look_unrelated(words[0], other) for other in words[2:])
    assert SeededCoins(7).seed == 7


# ---- key files -----------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    """Give files the mode that users have, whatever the one who tests has."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode_of(path: Path) -> int:
    """Return the permissions of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_a_key_file_is_its_owner_s_alone(tmp_path: Path, umask: int) -> None:
    """A saved key has mode 0600 whatever the umask, holds 32 bytes, and gives the same coins again."""
    path = tmp_path / "labels.key"
    os.umask(umask)

    KeyedCoins(KEY).save(path)
    back = KeyedCoins.from_file(str(path))

    assert mode_of(path) == 0o600
    assert path.read_bytes() == KEY == read_key_file(path)
    assert (back.session().bits(NUMBERS, "p").words() == _bits(KEY, "p").words()).all()


def test_a_key_file_is_never_written_over(tmp_path: Path) -> None:
    """Saving to a name that exists, be it a file, an empty one or a dangling link, is an error and changes nothing."""
    path, empty, link = tmp_path / "labels.key", tmp_path / "empty.key", tmp_path / "link.key"
    KeyedCoins(KEY).save(path)
    empty.touch()
    link.symlink_to(tmp_path / "elsewhere")

    for taken in (path, empty, link):
        with pytest.raises(FileExistsError):
            KeyedCoins(OTHER).save(taken)

    assert path.read_bytes() == KEY
    assert empty.read_bytes() == b""
    assert not (tmp_path / "elsewhere").exists()


def test_a_key_file_is_created_exclusively_and_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is opened with O_EXCL and mode 0600 at once, and file and directory are synced."""
    opened: list[tuple[int, int]] = []
    synced: list[int] = []
    real_open, real_sync = os.open, os.fsync

    def note_open(path: Any, flags: int, mode: int = 0o777) -> int:
        opened.append((flags, mode))
        return real_open(path, flags, mode)

    def note_sync(descriptor: int) -> None:
        synced.append(stat.S_IFMT(os.fstat(descriptor).st_mode))
        real_sync(descriptor)

    monkeypatch.setattr(coins_module.os, "open", note_open)
    monkeypatch.setattr(coins_module.os, "fsync", note_sync)
    write_key_file(tmp_path / "labels.key", KEY)

    flags, mode = opened[0]
    assert mode == 0o600
    assert flags & os.O_EXCL
    assert flags & os.O_CREAT
    assert [stat.S_IFREG, stat.S_IFDIR] == synced


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o606, 0o644, 0o620, 0o602, 0o610, 0o601, 0o666, 0o700 | 0o070])
def test_a_key_file_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    """A file that group or others can read, write or run is refused, with the remedy and without the key."""
    path = tmp_path / "labels.key"
    KeyedCoins(KEY).save(path)
    path.chmod(mode)

    with pytest.raises(errors.KeyMaterialError, match=rf"mode {mode:04o}.*chmod 600") as caught:
        KeyedCoins.from_file(path)

    assert caught.value.path == str(path)
    assert "Zq7!" not in repr(caught.value)
    path.chmod(0o400)
    assert read_key_file(path) == KEY


@pytest.mark.parametrize("size", [0, 31, 33, 64])
def test_a_key_file_of_another_size_is_refused(tmp_path: Path, size: int) -> None:
    """A file with fewer or more than 32 bytes, such as a key in hexadecimal, is refused."""
    path = tmp_path / "labels.key"
    path.write_bytes((KEY * 2)[:size])
    path.chmod(0o600)

    with pytest.raises(errors.KeyMaterialError, match="32 bytes in key file") as caught:
        KeyedCoins.from_file(path)

    assert "Zq7!" not in repr(caught.value)


def test_a_missing_key_file_is_a_missing_file(tmp_path: Path) -> None:
    """No new key is made up in place of one that is not there."""
    with pytest.raises(FileNotFoundError):
        KeyedCoins.from_file(tmp_path / "labels.key")

    assert [] == list(tmp_path.iterdir())


def test_generated_keys_differ(tmp_path: Path) -> None:
    """Two generated keys are not the same one."""
    for name in ("one", "two"):
        KeyedCoins.generate().save(tmp_path / name)

    assert (tmp_path / "one").read_bytes() != (tmp_path / "two").read_bytes()


def test_digests_are_compared_whole() -> None:
    """Equal digests are equal, and any difference is one."""
    assert compare(KEY, bytes(KEY))
    assert not compare(KEY, KEY[:-1])
    assert not compare(KEY, KEY[:-1] + b"?")
    assert not compare(KEY, OTHER)


# ---- what is refused, and what nobody sees -------------------------------------------------------------------

_COINS: list[Coins] = [SystemCoins(), KeyedCoins(KEY), SeededCoins(7)]
_CHANNEL = ldp.RandomizedResponse(SPACE, 1)


def test_a_kept_key_requires_ids() -> None:
    """Positions of another table would reuse the bits: refused by the session, the curator and privatize."""
    coins = KeyedCoins(KEY)

    with pytest.raises(errors.IdError, match="kept key requires row ids"):
        coins.session().bits(RowIds.positions(2), "p")
    with pytest.raises(errors.IdError, match="kept key requires row ids"):
        coins.session().bits(RowIds.positions(5).take(np.array([1, 2])), "p")
    with pytest.raises(errors.IdError, match="kept key requires row ids"):
        ldp.privatize(["no", "yes"], _CHANNEL, coins=coins)
    with pytest.raises(errors.IdError, match="kept key requires row ids"):
        ldp.Curator(["no", "yes"], 1.0, coins, space=SPACE)
    assert len(coins.session().bin_bits(RowIds.positions(2), "p").words()) == 2
    for other in (SystemCoins(), SeededCoins(1)):
        assert len(np.asarray(ldp.privatize(["no", "yes"], _CHANNEL, coins=other))) == 2


@pytest.mark.parametrize("coins", [0, 7, KEY, "seed", np.random.default_rng(1), SystemCoins, KeyedCoins(KEY).session()])
def test_coins_are_coins(coins: Any) -> None:
    """A number, a key, a generator of NumPy or a class is not taken for coins, and is not shown."""
    with pytest.raises(errors.InputError, match="Expected coins") as caught:
        ldp.privatize(["no", "yes"], _CHANNEL, coins=coins, ids=[1, 2])

    assert "Zq7!" not in repr(caught.value)


def test_a_seeded_release_is_an_estimate_and_not_a_guarantee() -> None:
    """Whoever knows the seed can undo the release: it promises nothing, and nothing can be made of it."""
    release = ldp.privatize(["no", "yes"] * 50, _CHANNEL, coins=SeededCoins(7))
    private = ldp.privatize(["no", "yes"] * 50, _CHANNEL)

    assert isinstance(release, RowRelease)
    assert not release.private
    assert isinstance(release.guarantee, ldp.Estimate)
    assert not isinstance(release.guarantee, ldp.Guarantee)
    assert "NOT PRIVATE" in str(release.guarantee)
    assert isinstance(private, RowRelease)
    assert private.private
    assert isinstance(private.guarantee, ldp.Guarantee)
    for add in (private.guarantee.then, private.guarantee.beside):
        with pytest.raises(errors.BoundaryError):
            add(release.guarantee)


def test_seeded_coins_are_refused_where_a_budget_is_kept(tmp_path: Path) -> None:
    """A curator with a budget or a ledger demands secret coins; nothing is charged or released."""
    ledger = ldp.Ledger(tmp_path / "labels.ledger")
    for facts in ({"budget": 1.0}, {"budget": 1.0, "ledger": ledger}):
        curator = ldp.Curator(["no", "yes"], space=SPACE, coins=SeededCoins(7), ids=[1, 2], **facts)

        with pytest.raises(errors.NotPrivateError, match="secret coins where a budget is kept"):
            curator.release(ldp.RandomizedResponse(SPACE, 0.5))
        assert curator.spent.epsilon == 0


#: Every form in which the key, or a key made of it, could show.
def _forms(secret: bytes) -> list[str]:
    numbers = [str(int.from_bytes(secret[i : i + 8], order)) for i in (0, 8) for order in ("little", "big")]
    return ["Zq7!", repr(secret)[2:-1], secret.hex(), secret.hex().upper(), str(list(secret))[1:-1][:20], *numbers]


def _curator() -> Any:
    return ldp.Curator(["no", "yes"], 1.0, KeyedCoins(KEY), space=SPACE, ids=[1, 2])


def _kernel() -> Any:
    return prepare(_CHANNEL, KeyedCoins(KEY), [pa.record_batch({"id": [1], "label": ["no"]})])


_HOLDERS: dict[str, Callable[[], Any]] = {
    "KeyedCoins": lambda: KeyedCoins(KEY),
    "CoinSession": lambda: KeyedCoins(KEY).session(),
    "RowBits": lambda: _bits(ids=RowIds.of([1, 2])),
    "RowDigest": lambda: KeyedCoins(KEY).session().label_digest(),
    "RowKernel": _kernel,
    "Curator": _curator,
}
_SHOWN: dict[str, Callable[[Any], object]] = {
    "repr": repr,
    "str": str,
    "ascii": ascii,
    "format": lambda x: f"{x} {x!r} {x!s}",
    "percent": lambda x: "%s %r" % (x, x),  # noqa: UP031  # what is tested
    "template": lambda x: string.Template("$x").substitute(x=x),
    "pprint": pprint.pformat,
    "in a list": lambda x: repr([x, {"coins": x}]),
    "logging": lambda x: logging.LogRecord("n", 10, "p", 1, "%s %r", (x, x), None).getMessage(),
    "vars": lambda x: pprint.pformat(vars(x)) if hasattr(x, "__dict__") else "",
    "dir": lambda x: repr(dir(x)),
    "public attributes": lambda x: repr([getattr(x, name) for name in dir(x) if not name.startswith("_")]),
    "class": lambda x: repr(vars(type(x))),
    "documentation": lambda x: str(x.__doc__),
}


@pytest.mark.parametrize("way", _SHOWN)
@pytest.mark.parametrize("holder", _HOLDERS)
def test_no_key_is_shown(holder: str, way: str) -> None:
    """Neither text, dictionary nor public attribute of what holds a key shows it, or a key made of it."""
    shown = str(_SHOWN[way](_HOLDERS[holder]()))
    secrets = [KEY, slow_coins.derive(KEY, b"row bits", b"purpose"), slow_coins.derive(KEY, b"label digest")]

    assert [] == [form for secret in secrets for form in _forms(secret) if form in shown]


_COPIES: dict[str, Callable[[Any], object]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {n}": lambda x, n=n: pickle.dumps(x, n) for n in range(pickle.HIGHEST_PROTOCOL + 1)},
    "pickle in a tuple": lambda x: pickle.dumps((1, x)),
    "reduce": lambda x: x.__reduce__(),
    "reduce_ex": lambda x: x.__reduce_ex__(4),
    "getstate": lambda x: x.__getstate__(),
}


@pytest.mark.parametrize("way", _COPIES)
@pytest.mark.parametrize("holder", _HOLDERS)
def test_no_key_is_copied_or_pickled(holder: str, way: str) -> None:
    """What holds a key is not copied and leaves no pickle; at most a kernel tells its public parts."""
    try:
        made = _COPIES[way](_HOLDERS[holder]())
    except errors.RawLabelsError as error:
        made = error
    else:
        assert holder == "RowKernel"
        assert way in {"copy", "getstate"}

    assert [] == [form for form in _forms(KEY) if form in repr(made)]


@pytest.mark.parametrize("coins", _COINS, ids=repr)
def test_coins_show_their_class_only(coins: Coins) -> None:
    """Coins look like the call that makes them, without what was in it, and have no dictionary."""
    assert repr(coins) == f"{type(coins).__name__}()"
    assert not hasattr(coins, "__dict__")
    with pytest.raises(AttributeError):
        coins.note = "x"  # type: ignore[attr-defined]  # what is tested
    with pytest.raises(errors.RawLabelsError, match="as secret as the labels"):
        pickle.dumps(coins)


def test_holders_show_what_is_public() -> None:
    """Sessions show their kind, bits their number, kernels their channel and columns."""
    shown = {name: repr(make()) for name, make in _HOLDERS.items()}

    assert shown.pop("Curator").startswith("Curator(2 labels, KeyedCoins(), ")
    assert shown == {
        "KeyedCoins": "KeyedCoins()",
        "CoinSession": "CoinSession(keyed)",
        "RowBits": "RowBits(2 rows)",
        "RowDigest": "RowDigest(0 rows)",
        "RowKernel": "RowKernel(RandomizedResponse(2 labels, epsilon <= 1), label='label', id='id')",
    }
    with pytest.raises(errors.RawLabelsError):
        asdict(_kernel())


def test_a_key_would_be_recognised() -> None:
    """The tests above could fail: a key that is printed in a usual form is found."""
    shown = [repr(KEY), KEY.hex(), str(list(KEY)), str(int.from_bytes(KEY[:8], "little")), KEY.decode()]

    assert [] == [text for text in shown if not any(form in text for form in _forms(KEY))]


def test_no_key_is_in_a_release(tmp_path: Path) -> None:
    """Neither the release, nor its pickle, nor its file holds the key or the digest of the labels."""
    coins = KeyedCoins(KEY)
    release = ldp.privatize(["no", "yes"] * 20, _CHANNEL, ids=[f"user-{i}" for i in range(40)], coins=coins)
    path = tmp_path / "labels.release.parquet"
    release.write(path)
    ids = RowIds.of([f"user-{i}" for i in range(40)])
    digest = coins.session().label_digest().add(ids, np.array([0, 1] * 20, np.uint8)).close()

    for content in (path.read_bytes(), pickle.dumps(release), repr(release).encode(), repr(vars(release)).encode()):
        for secret in (KEY, digest, coins.session()._CoinSession__secret):  # type: ignore[attr-defined]  # to find it
            assert secret not in content
            assert secret.hex().encode() not in content
            assert repr(secret)[2:-1].encode() not in content
