"""A second implementation of the coins, slow and plain: one row at a time, written from the documentation.

It shares no line with the library: hmac, hashlib, and AES one block at a time.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import uuid
from fractions import Fraction
from typing import Any

import mpmath
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import ECB

Id = int | str | uuid.UUID

_TAG = {"position": 1, "integer": 2, "text": 3, "uuid": 4}


def derive(key: bytes, *parts: bytes) -> bytes:
    """HMAC-SHA256 of the parts, each after its length."""
    message = b""
    for part in parts:
        message += len(part).to_bytes(8, "big") + part
    return hmac.new(key, message, hashlib.sha256).digest()


def aes(key: bytes, block: bytes) -> bytes:
    """One block of AES-256."""
    assert len(key) == 32
    assert len(block) == 16
    encryptor = Cipher(AES(key), ECB()).encryptor()
    return encryptor.update(block) + encryptor.finalize()


def cbc_mac(key: bytes, head: bytes, text: bytes) -> bytes:
    """CBC-MAC of a head block and a text, which is filled up with zeros."""
    state = aes(key, head)
    for start in range(0, len(text), 16):
        chunk = text[start : start + 16].ljust(16, b"\0")
        state = aes(key, bytes(a ^ b for a, b in zip(state, chunk, strict=True)))
    return state


def block(mac_key: bytes, kind: str, name: Id) -> bytes:
    """Return the block of 16 bytes that stands for a row."""
    tag = _TAG[kind].to_bytes(8, "little")
    if kind == "position":
        assert isinstance(name, int)
        return tag + name.to_bytes(8, "little")
    if kind == "integer":
        assert isinstance(name, int)
        if name < 0:  # two's complement, and a mark
            return (_TAG[kind] + 256).to_bytes(8, "little") + (name + 2**64).to_bytes(8, "little")
        return tag + name.to_bytes(8, "little")
    content = name.encode() if isinstance(name, str) else name.bytes if isinstance(name, uuid.UUID) else b""
    return cbc_mac(mac_key, tag + len(content).to_bytes(8, "little"), content)


def word(
    secret: bytes, kind: str, name: Id, purpose: str, context: list[bytes], number: int = 0, use: bytes = b"row bits"
) -> int:
    """Return a 64-bit word of a row."""
    working = derive(secret, use, purpose.encode(), *context)
    key = derive(working, b"word", number.to_bytes(8, "big"))
    encrypted = aes(key, block(derive(key, b"id mac"), kind, name))
    return int.from_bytes(encrypted[:8], "little")


def row_digest(key: bytes, kind: str, names: list[Id], values: list[int] | list[bytes]) -> bytes:
    """Return the digest of (id, value) pairs: a sum of 128-bit hashes, as two words."""
    totals = [0, 0]
    for name, value in zip(names, values, strict=True):
        inner = aes(derive(key, b"inner"), block(derive(key, b"id mac"), kind, name))
        if isinstance(value, int):
            mask = bytes(8) + value.to_bytes(8, "little")
        else:
            mask = cbc_mac(derive(key, b"value mac"), len(value).to_bytes(8, "little") + bytes(8), value)
        outer = aes(derive(key, b"outer"), bytes(a ^ b for a, b in zip(inner, mask, strict=True)))
        for i in range(2):
            totals[i] = (totals[i] + int.from_bytes(outer[8 * i : 8 * i + 8], "little")) % 2**64
    total = b"".join(part.to_bytes(8, "little") for part in totals)
    return derive(key, b"digest", len(names).to_bytes(8, "big"), total)


def label_digest(secret: bytes, kind: str, names: list[Id], codes: list[int]) -> bytes:
    """Return the digest of (id, label) pairs under its own subkey."""
    return row_digest(derive(secret, b"label digest"), kind, names, codes)


def seed_key(seed: int) -> bytes:
    """Return the key that seeded coins are made of."""
    return hashlib.sha256(b"labeldp seeded coins, not private" + str(seed).encode()).digest()


def _json(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def response_context(
    space: dict[str, Any], other: int, digest: bytes, *, dataset: str = "", version: str = "", column: str = "label"
) -> list[bytes]:
    """Return what separates one k-ary response from every other use of a key."""
    mechanism = {"family": "response", "space": space, "other": str(other)}
    space_digest = hashlib.sha256(
        json.dumps({"kind": space["kind"], "labels": space["labels"]}, separators=(",", ":")).encode()
    ).digest()
    description = _json({"mechanism": mechanism, "column": column})
    return [dataset.encode(), version.encode(), description, b"", space_digest, digest]


def response_weight(size: int, epsilon: Fraction) -> int:
    """Return how many of 2^62 draws release one label that is not the true one: rounded up at both steps."""
    with mpmath.workdps(60):
        power = mpmath.exp(mpmath.mpf(epsilon.numerator) / epsilon.denominator)
        keep = int(mpmath.floor(2**62 * power / (power + size - 1)))
    return -((keep - 2**62) // (size - 1))


def respond(
    secret: bytes,
    kind: str,
    names: list[Id],
    labels: list[Any],
    space: dict[str, Any],
    epsilon: Fraction,
    *,
    dataset: str = "",
    version: str = "",
) -> list[Any]:
    """Release labels through k-ary randomised response with a kept key."""
    known = space["labels"]
    codes = [known.index(label) for label in labels]
    other = response_weight(len(known), epsilon)
    digest = label_digest(secret, kind, names, codes)
    context = response_context(space, other, digest, dataset=dataset, version=version)
    released = []
    for name, code in zip(names, codes, strict=True):
        drawn = word(secret, kind, name, "row release", context) // 4  # the top 62 bits
        released.append(known[drawn // other] if drawn < len(known) * other else known[code])
    return released


def public_digest(kind: str, names: list[Id]) -> bytes:
    """SHA-256 of public ids: blocks of integers in ascending order, lengths and bytes of texts in the order of tags."""
    digest = hashlib.sha256(f"labeldp row ids: {len(names)} by {kind};".encode())
    if kind == "integer":
        for name in sorted(names):  # type: ignore[type-var]  # integers only
            digest.update(block(bytes(32), kind, name))
        return digest.digest()
    ranked = [_bytes_of(name) for name in sorted(names, key=lambda name: _tag_words(kind, name))]
    for text in ranked:
        digest.update(len(text).to_bytes(8, "little"))
    digest.update(b"".join(ranked))
    return digest.digest()


def parameter_digest(kind: str, names: list[Id], rows: list[bytes]) -> bytes:
    """SHA-256 of the ids' digest, the shape, and the rows in the order of the ids' digest."""
    digest = hashlib.sha256(public_digest(kind, names))
    digest.update(f"|u1 ({len(rows)}, {len(rows[0])});".encode())
    for name in sorted(names, key=lambda name: name if kind == "integer" else _tag_words(kind, name)):  # type: ignore[arg-type,return-value]  # of one kind
        digest.update(rows[names.index(name)])
    return digest.digest()


def _tag_words(kind: str, name: Id) -> tuple[int, int]:
    key = b"labeldp: digests of public data."
    tag = aes(derive(key, b"id tag"), block(derive(key, b"id mac"), kind, name))
    return int.from_bytes(tag[:8], "little"), int.from_bytes(tag[8:], "little")


def _bytes_of(name: Id) -> bytes:
    return name.bytes if isinstance(name, uuid.UUID) else str(name).encode()
