"""The keyed function behind the coins, against its slow second implementation."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from labeldp import errors, prf
from labeldp.ids import RowIds
from labeldp.prf import ROWS_PER_STEP, Aes, RowDigest, derive, mac_rows, mac_texts, stream_words
from labeldp.testing.strategies import ids as drawn_ids
from tests import slow_coins

KEY = bytes(range(32))
OTHER = bytes(range(1, 33))


def as_bytes(words: NDArray[np.uint64]) -> list[bytes]:
    """Return rows of words as bytes."""
    return [row.tobytes() for row in words]


def as_words(rows: list[bytes]) -> NDArray[np.uint64]:
    """Return rows of 16 bytes as words."""
    return np.frombuffer(b"".join(rows), np.uint64).reshape(-1, 2).copy()


def test_derive_is_hmac_of_length_prefixed_parts() -> None:
    """A derived key is HMAC-SHA256 of each part after its length in 8 bytes; the answer is that of OpenSSL."""
    known = bytes.fromhex("3bddf4bc854ae05364f6353a7ec018de74fb1fe6bb599207f172368d9490b9dd")

    assert known == derive(KEY, b"a", b"bc")
    assert known == slow_coins.derive(KEY, b"a", b"bc")


@given(st.lists(st.binary(max_size=12), max_size=4), st.lists(st.binary(max_size=12), max_size=4))
def test_no_two_lists_of_parts_collide(left: list[bytes], right: list[bytes]) -> None:
    """Parts cannot be shifted into each other: only equal lists give equal keys."""
    assert (left == right) == (derive(KEY, *left) == derive(KEY, *right))
    assert slow_coins.derive(KEY, *left) == derive(KEY, *left)


def test_parts_keep_their_borders() -> None:
    """Moving a letter over a border, or adding an empty part, gives another key."""
    lists: list[list[bytes]] = [[b"ab", b"c"], [b"a", b"bc"], [b"abc"], [b"abc", b""], [b"", b"abc"], [], [b""]]

    assert len({derive(KEY, *parts) for parts in lists}) == len(lists)
    assert derive(KEY, b"abc") != derive(OTHER, b"abc")


def test_aes_has_the_published_answer() -> None:
    """AES-256 of the block in FIPS 197, appendix C.3."""
    plain = bytes.fromhex("00112233445566778899aabbccddeeff")

    assert [bytes.fromhex("8ea2b7ca516745bfeafc49904b496089")] == as_bytes(Aes(KEY)(as_words([plain])))


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=20), st.binary(min_size=32, max_size=32))
def test_many_blocks_are_encrypted_like_one(rows: list[bytes], key: bytes) -> None:
    """Blocks do not depend on each other, nor on what the buffer held before."""
    aes = Aes(key, 20)

    assert [slow_coins.aes(key, row) for row in rows] == as_bytes(aes(as_words(rows)))
    assert [slow_coins.aes(key, row) for row in rows[:1]] == as_bytes(aes(as_words(rows[:1])))


def test_a_full_step_fits_the_buffer() -> None:
    """The buffer holds a whole step of rows, and the next call overwrites the last."""
    aes = Aes(KEY)
    first = aes(np.zeros((ROWS_PER_STEP, 2), np.uint64))
    kept = first.copy()
    second = aes(np.ones((ROWS_PER_STEP, 2), np.uint64))

    assert np.shares_memory(first, second)
    assert (first == second).all()
    assert not (kept == second).any()


@given(st.data())
def test_macs_of_rows_are_those_of_the_slow_implementation(data: st.DataObject) -> None:
    """Rows of bytes of one length have a CBC-MAC with the length in front."""
    width = data.draw(st.integers(0, 50))
    rows = data.draw(st.lists(st.binary(min_size=width, max_size=width), min_size=1, max_size=8))
    table = np.frombuffer(b"".join(rows), np.uint8).reshape(len(rows), width)

    head = width.to_bytes(8, "little") + bytes(8)
    assert [slow_coins.cbc_mac(KEY, head, row) for row in rows] == as_bytes(mac_rows(KEY, table))


@given(st.lists(st.binary(max_size=70), min_size=1, max_size=12), st.integers(0, 2**63))
def test_macs_of_texts_are_those_of_the_slow_implementation(texts: list[bytes], tag: int) -> None:
    """Byte strings of mixed lengths have a CBC-MAC with tag and length in front, whatever follows them in memory."""
    data = np.frombuffer(b"".join(texts) + bytes(range(200, 216)), np.uint8)
    offsets = np.cumsum([0, *(len(text) for text in texts)]).astype(np.int64)

    heads = [tag.to_bytes(8, "little") + len(text).to_bytes(8, "little") for text in texts]
    assert [slow_coins.cbc_mac(KEY, head, text) for head, text in zip(heads, texts, strict=True)] == as_bytes(
        mac_texts(KEY, data, offsets, tag)
    )


def test_macs_tell_padding_length_and_tag_apart() -> None:
    """Zeros at the end, lengths and tags are part of the MAC."""
    texts = [b"", b"\0", bytes(15), bytes(16), bytes(17), bytes(32)]
    data = np.zeros(sum(map(len, texts)) + 16, np.uint8)
    offsets = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    macs = [as_bytes(mac_texts(KEY, data, offsets, tag)) for tag in (0, 3, 4)]
    rows = [as_bytes(mac_rows(KEY, np.zeros((1, width), np.uint8))) for width in range(1, 18)]

    assert len({mac for group in macs for mac in group}) == 3 * len(texts)
    assert len({mac for group in rows for mac in group}) == 17


@given(st.data())
def test_words_of_rows_are_those_of_the_slow_implementation(data: st.DataObject) -> None:
    """A word is the first half of the encrypted block, one a row."""
    names = data.draw(drawn_ids(data.draw(st.integers(1, 8))))
    ids = RowIds.of(names)
    mac = slow_coins.derive(KEY, b"id mac")

    words = np.concatenate([part.copy() for _, part in stream_words(KEY, ids)])

    blocks = [slow_coins.aes(KEY, slow_coins.block(mac, ids.kind, name)) for name in names]
    assert [int.from_bytes(block[:8], "little") for block in blocks] == words.tolist()


def test_steps_name_their_first_row() -> None:
    """Words come in steps, in order, each named by its first row; together they are all rows."""
    ids = RowIds.positions(2 * ROWS_PER_STEP + 7)

    steps = [(start, len(part)) for start, part in stream_words(KEY, ids)]

    assert [(0, ROWS_PER_STEP), (ROWS_PER_STEP, ROWS_PER_STEP), (2 * ROWS_PER_STEP, 7)] == steps


# ---- digests of rows -----------------------------------------------------------------------------------------


@given(st.data())
def test_digests_are_those_of_the_slow_implementation(data: st.DataObject) -> None:
    """The digest of (id, code) pairs, and of (id, bytes) pairs, is a keyed sum over rows."""
    rows = data.draw(st.integers(1, 8))
    names = data.draw(drawn_ids(rows))
    codes = data.draw(st.lists(st.integers(0, 300), min_size=rows, max_size=rows))
    width = data.draw(st.integers(1, 40))
    table = data.draw(st.lists(st.binary(min_size=width, max_size=width), min_size=rows, max_size=rows))
    ids = RowIds.of(names)

    by_code = RowDigest(KEY).add(ids, np.array(codes, np.uint16)).close()
    by_bytes = RowDigest(KEY).add(ids, np.frombuffer(b"".join(table), np.uint8).reshape(rows, width)).close()

    assert slow_coins.row_digest(KEY, ids.kind, names, codes) == by_code
    assert slow_coins.row_digest(KEY, ids.kind, names, table) == by_bytes


@given(st.data())
def test_digests_add_up_in_any_order(data: st.DataObject) -> None:
    """Cut into batches and shuffled, the same pairs have the same digest; it does not depend on the codes' type."""
    rows = data.draw(st.integers(1, 30))
    ids = RowIds.of([f"row {i}" for i in range(rows)])
    codes = np.array(data.draw(st.lists(st.integers(0, 5), min_size=rows, max_size=rows)), np.uint8)
    order = np.array(data.draw(st.permutations(range(rows))))
    cut = data.draw(st.integers(0, rows))

    whole = RowDigest(KEY).add(ids, codes).close()
    parts = RowDigest(KEY)
    for part in (order[cut:], order[:cut]):
        parts.add(ids.take(part), codes[part].astype(np.uint32))

    assert whole == parts.close()


def test_a_digest_tells_every_change() -> None:
    """Another code, id, key, row or pairing changes the digest, also where the sums of codes agree."""
    names, codes = ["a", "b", "c"], [0, 1, 2]

    def digest(names: list[str], codes: list[int], key: bytes = KEY) -> bytes:
        return RowDigest(key).add(RowIds.of(names), np.array(codes, np.uint8)).close()

    digests = [
        digest(names, codes),
        digest(names, [0, 1, 1]),
        digest(names, [1, 0, 2]),
        digest(names, [2, 1, 0]),
        digest(["a", "b", "d"], codes),
        digest(names[:2], codes[:2]),
        digest([*names, "d"], [*codes, 0]),
        digest(names, codes, OTHER),
        RowDigest(KEY).close(),
        RowDigest(KEY).add(RowIds.of([0, 1, 2]), np.array(codes, np.uint8)).close(),
        RowDigest(KEY).add(RowIds.positions(3), np.array(codes, np.uint8)).close(),
    ]

    assert len(set(digests)) == len(digests)
    assert digest(names, codes) == digest(names[::-1], codes[::-1])


def test_a_digest_in_the_making_hides_its_key() -> None:
    """It shows how many rows it has seen; its key is in no text, dictionary, copy or pickle."""
    digest = RowDigest(KEY).add(RowIds.of(["a"]), np.array([1], np.uint8))

    assert {"RowDigest(1 rows)"} == {repr(digest), str(digest), f"{digest}"}
    assert not hasattr(digest, "__dict__")
    for way in (copy.copy, copy.deepcopy, pickle.dumps, lambda d: d.__getstate__(), lambda d: d.__reduce__()):
        with pytest.raises(errors.RawLabelsError, match="not copied or pickled"):
            way(digest)


# ---- digests of parameters -----------------------------------------------------------------------------------


def _parameters(ids: RowIds, table: NDArray[Any], **compact: Any) -> bytes:
    rows = np.ascontiguousarray(table).view(np.uint8).reshape(len(table), -1)
    return prf.parameter_digest(ids, lambda: rows, **compact)


def test_parameters_of_rows_with_ids_may_come_in_any_order() -> None:
    """With ids, parameters are bound to rows; shuffled together they are the same, and apart they are not."""
    table = np.arange(12.0).reshape(4, 3)
    ids = RowIds.of(["a", "b", "c", "d"])
    order = np.array([2, 0, 3, 1])

    digest = _parameters(ids, table)

    assert digest == _parameters(ids.take(order), table[order])
    assert digest != _parameters(ids, table[order])
    assert digest != _parameters(ids, table + 1e-15)
    assert digest == slow_coins.parameter_digest("text", ["a", "b", "c", "d"], [row.tobytes() for row in table])


def test_parameters_of_positions_stand_as_they_are() -> None:
    """Without ids the order, the shape and the type of what is kept count."""
    ids = RowIds.positions(4)
    table = np.arange(8, dtype=np.uint16).reshape(4, 2)
    digests = [
        _parameters(ids, table),
        _parameters(ids, table[::-1]),
        _parameters(ids, table, arrays=lambda: [table]),
        _parameters(ids, table, arrays=lambda: [table.reshape(2, 4)]),
        _parameters(ids, table, arrays=lambda: [table.astype(np.uint32)]),
        _parameters(ids, table, arrays=lambda: [table[:2], table[2:]]),
    ]

    assert len(set(digests)) == len(digests)
    assert digests[0] == _parameters(ids, table.copy())
    assert digests[2] == _parameters(ids, table, arrays=lambda: [np.asfortranarray(table)])


def test_words_are_little_endian_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine of the other byte order words are turned round, on ours they stay."""
    words = np.array([1, 2**56], np.uint64)

    monkeypatch.setattr(prf.sys, "byteorder", "little")
    assert prf.native(words).tolist() == [1, 2**56]
    monkeypatch.setattr(prf.sys, "byteorder", "big")
    assert prf.native(words).tolist() == [2**56, 1]
