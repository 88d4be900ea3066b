"""What a release promises: never more than what it carries holds.

A file states a charge (exact numbers), who is a neighbour, whom one has to trust and what is assumed.  The loss is
not in the file: whoever reads it derives the loss from channel or noise, and the charge must follow from that.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final, NoReturn

from labeldp.errors import EpsilonError, ReleaseFileError
from labeldp.guarantee.budget import parts_of, shown
from labeldp.guarantee.value import (
    TRUST,
    ApproximateLoss,
    Charge,
    ConcentratedLoss,
    Estimate,
    Guarantee,
    LawLoss,
    Loss,
    PureLoss,
    asked_loss,
    binary_response_law,
    labels_replaced,
)

if TYPE_CHECKING:
    from labeldp.release.base import Release

_GUARANTEE: Final = "guarantee"
_ESTIMATE: Final = "estimate"
#: The names under which a manifest states a promise.
KINDS: Final = (_GUARANTEE, _ESTIMATE)


def written(release: Release) -> dict[str, Any]:
    """Return what the manifest states of a release's promise; a stamp that promises more than it holds is refused."""
    stated = release.stamp.guarantee
    if isinstance(stated, Guarantee):
        return {_GUARANTEE: _to_json(_held(release, stated.charge(), stated))}
    if stated.guarantee is None or stated != Estimate.of(stated.guarantee, stated.why):
        _refuse(str(stated), "an estimate made of a guarantee")
    inner = _held(release, stated.guarantee.charge(), stated.guarantee)
    return {_ESTIMATE: {"why": stated.why, **_to_json(inner)}}


def read(release: Release, manifest: dict[str, Any]) -> Guarantee | Estimate:
    """Return what a release promises that was rebuilt from a file: what it holds, if that is what the file states."""
    found = [kind for kind in KINDS if kind in manifest]
    if len(found) != 1 or (found == [_GUARANTEE] and not release.private):
        raise ReleaseFileError("Expected a guarantee, or an estimate where the coins were seeded.")
    text = manifest[found[0]]
    words = text["assumptions"]
    if not (isinstance(words, list) and all(isinstance(word, str) for word in words)):
        raise ReleaseFileError("Expected a list of assumptions in words.")
    # Of this one only the words are used: its loss is to be found.
    stated = Guarantee(PureLoss(Fraction(0)), text["neighbour"], text["trust"], tuple(words))
    guarantee = _held(release, Charge.from_json(text["charge"]), stated)
    if found == [_GUARANTEE]:
        return guarantee
    if not isinstance(text["why"], str):
        raise ReleaseFileError("Expected in words why it is no guarantee.")
    return Estimate.of(guarantee, text["why"])


def _to_json(guarantee: Guarantee) -> dict[str, Any]:
    return {
        "charge": guarantee.charge().to_json(),
        "neighbour": guarantee.neighbour,
        "trust": guarantee.trust,
        "assumptions": list(guarantee.assumptions),
    }


def _held(release: Release, stated: Charge, words: Guarantee) -> Guarantee:
    """Return the guarantee of what a release carries, in the words of ``words``, if the stated charge follows."""
    replaced = labels_replaced(words.neighbour) or 1
    asked = stated.epsilon if stated.delta and stated.epsilon is not None and stated.epsilon > 0 else None
    held = release.held(None if asked is None else asked / replaced)
    if labels_replaced(held.neighbour) == 1:
        held = held.for_group(replaced)
    if words.neighbour != held.neighbour:
        _refuse(words.neighbour, held.neighbour)
    order = list(TRUST)
    if order.index(words.trust) < order.index(held.trust):
        _refuse(f"trust {words.trust!r}", f"trust {held.trust!r}")
    return Guarantee(_loss(held.loss, stated), words.neighbour, words.trust, words.assumptions)


def _loss(held: Loss, stated: Charge) -> Loss:
    """Return the loss that is held where that is what is stated, and where less is stated no more than that.

    A part of a release was made by a mechanism that may cost more than the part: it states what the whole costs.
    """
    own = held.charge()
    if stated == own:
        return held
    epsilon, delta, rho = stated.epsilon, stated.delta, stated.rho
    if not _follows(rho, own.rho) or not 0 <= delta <= 1:
        _refuse_charge(stated, own)
    if delta and epsilon is not None:
        try:
            asked = asked_loss(held, epsilon, delta)
        except EpsilonError:
            _refuse_charge(stated, own)
        return asked if asked.charge() == stated else ApproximateLoss(epsilon, delta)
    if delta or not _follows(epsilon, held.pure):
        _refuse_charge(stated, own)
    if epsilon is None:
        return ConcentratedLoss(rho) if rho is not None else _refuse_charge(stated, own)
    pure = PureLoss(epsilon)
    return pure if rho is None or rho >= pure.rho else LawLoss(epsilon, binary_response_law(epsilon), rho)


def _follows(stated: Fraction | None, held: Fraction | None) -> bool:
    """Say whether a stated bound follows from the one that is held; no bound always does."""
    return stated is None or (held is not None and stated >= held)


def _refuse_charge(stated: Charge, held: Charge) -> NoReturn:
    _refuse(*(shown(parts_of(charge)) or "nothing" for charge in (stated, held)))


def _refuse(stated: str, held: str) -> NoReturn:
    raise ReleaseFileError(f"Expected a release that holds what it promises; it promises {stated}, and holds {held}.")
