"""The secret keys of a ledger, and what is hashed with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NoReturn, final

from labeldp.coins import KEY_BYTES
from labeldp.errors import BoundaryError, InputError, KeyMaterialError
from labeldp.prf import derive


@final
class Keys:
    """The subkeys of a ledger; the key itself is never shown or copied."""

    __slots__ = ("__chain", "__owner", "__release", "__seal", "__secret")

    def __init__(self, key: object) -> None:
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            got = f"{len(key)} bytes" if isinstance(key, bytes) else type(key).__name__
            raise KeyMaterialError(f"Expected a key of {KEY_BYTES} bytes, got {got}.")
        self.__chain = derive(key, b"labeldp ledger", b"chain")
        self.__seal = derive(key, b"labeldp ledger", b"seal")
        self.__release = derive(key, b"labeldp ledger", b"release id")
        self.__secret = derive(key, b"labeldp ledger", b"secret")
        self.__owner = derive(key, b"labeldp ledger", b"owner")

    def __repr__(self) -> str:
        return "<secret>"

    def __reduce__(self) -> NoReturn:
        raise BoundaryError("A secret key is not copied or pickled.")

    def link(self, previous: bytes, sequence: int, kind: str, subject: str, body: str) -> bytes:
        """Hash a record and, through the hash before it, all earlier ones."""
        texts = (text.encode("utf-8", "surrogatepass") for text in (str(sequence), kind, subject, body))
        return derive(self.__chain, previous, *texts)

    def seal(self, records: int, head: bytes) -> bytes:
        """Hash the length and the head of a chain."""
        return derive(self.__seal, str(records).encode(), head)

    def guard(self, sequence: int, secret: bytes) -> bytes:
        """Hash what a record keeps beside the chain."""
        return derive(self.__secret, str(sequence).encode(), secret)

    def release_id(self, identity: Sequence[str]) -> str:
        """Name the release of a request."""
        return derive(self.__release, canonical_json(list(identity)).encode())[:16].hex()

    def subkey(self, purpose: str) -> bytes:
        """Return a key of the owner's for one purpose."""
        return derive(self.__owner, purpose.encode())


def canonical_json(value: object) -> str:
    """Write JSON in one way only, in ASCII, so that it is also what was hashed."""
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"Expected a public description that is JSON: {error}.") from None
