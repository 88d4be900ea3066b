"""Every error and warning of the package.

::

    LabeldpError
    +-- InputError (also ValueError)        something handed in is wrong; nothing was released or charged
    |   +-- EpsilonError                    epsilon, delta or another privacy parameter is out of range
    |   +-- LabelSpaceError                 the declared label space itself is unusable
    |   +-- UnknownLabelError               a raw label is not in the declared space (for the owner's eyes)
    |   +-- MissingLabelError               a raw label is missing and the space declares no missing label
    |   +-- EmptyInputError                 there is nothing to work on
    |   +-- PriorError                      a prior is negative, NaN, of the wrong shape or does not sum to one
    |   +-- LawError                        a resampling law is unusable, or cannot meet the asked epsilon
    |   +-- MatrixError                     a transition matrix is not stochastic, or exceeds the asked epsilon
    |   +-- ShapeError                      lengths or shapes of two inputs do not fit each other
    |   +-- IdError                         row ids are null, of a forbidden type, or absent where required
    |   |   +-- DuplicateIdError            two rows carry the same id
    |   +-- SpaceMismatchError              two things speak of different label spaces
    |   +-- KeyMaterialError                a secret key has the wrong size or its file is readable by others
    |   +-- NotInvertibleError              an unbiased correction was demanded where none exists
    +-- BoundaryError (also TypeError)      raw labels on the learner's side, or a learner's thing on the owner's
    |   +-- RawLabelsError                  raw labels where only a release may go, or an attempt to copy them out
    |   +-- NotPrivateError                 a seeded, reproducible release where a private one is demanded
    +-- BudgetError                         a privacy budget forbids the request
    |   +-- BudgetExhaustedError            the request would spend more than is left
    |   +-- AccountMismatchError            a data set was registered with another budget or other rows
    +-- LedgerError                         the ledger file cannot be used
    |   +-- LedgerLockedError               another process held the ledger for too long
    |   +-- LedgerReadOnlyError             the ledger cannot be written
    |   +-- LedgerCorruptError              the ledger's content or its hash chain is damaged
    |   +-- LedgerPlaceError                the ledger lies on a disk that cannot lock or sync safely
    +-- LabelsChangedError                  other labels under a data set and version that were used before
    +-- ReleaseFileError                    a release file is damaged, altered, or of an unknown format
    +-- MissingExtraError (also ImportError) an optional part of the package is not installed

    LabeldpWarning (UserWarning)
    +-- LargeEpsilonWarning                 the asked epsilon hides nothing
    +-- DeltaWarning                        delta is not far below one over the number of rows
    +-- BiasWarning                         a correction is only the best linear one, not unbiased

Errors carry the offending object as an attribute where it is public, and never a raw label.
"""

from __future__ import annotations


class LabeldpError(Exception):
    """Root of the tree."""

    def __init__(self, message: str, /, **context: object) -> None:
        """Keep ``message`` and the public objects named in ``context`` as attributes."""
        super().__init__(message)
        self.context = context
        for name in context.keys() & {"name", "path"}:
            # An ImportError has attributes of these names, which would hide ours.
            setattr(self, name, context[name])

    def __getattr__(self, name: str) -> object:
        context: dict[str, object] = self.__dict__.get("context", {})
        if name in context:
            return context[name]
        raise AttributeError(name)


class InputError(LabeldpError, ValueError):
    """Something handed in is wrong; nothing was released or charged."""


class EpsilonError(InputError):
    """A privacy parameter is out of range."""


class LabelSpaceError(InputError):
    """The declared label space is unusable."""


class UnknownLabelError(InputError):
    """A raw label is not in the declared space."""


class MissingLabelError(InputError):
    """A raw label is missing."""


class EmptyInputError(InputError):
    """There is nothing to work on."""


class PriorError(InputError):
    """A prior is not a table of probabilities of the right shape."""


class LawError(InputError):
    """A resampling law is unusable."""


class MatrixError(InputError):
    """A transition matrix is unusable."""


class ShapeError(InputError):
    """Lengths or shapes of two inputs do not fit each other."""


class IdError(InputError):
    """Row ids are unusable."""


class DuplicateIdError(IdError):
    """Two rows carry the same id."""


class SpaceMismatchError(InputError):
    """Two things speak of different label spaces."""


class KeyMaterialError(InputError):
    """A secret key has the wrong size, or its file is not protected."""


class NotInvertibleError(InputError):
    """An unbiased correction was demanded where none exists."""


class BoundaryError(LabeldpError, TypeError):
    """Something crossed the line between owner and learner."""


class RawLabelsError(BoundaryError):
    """Raw labels where only a release may go."""


class NotPrivateError(BoundaryError):
    """A reproducible release where a private one is demanded."""


class BudgetError(LabeldpError):
    """A privacy budget forbids the request."""


class BudgetExhaustedError(BudgetError):
    """The request would spend more than is left."""


class AccountMismatchError(BudgetError):
    """A data set was registered with another budget or other rows."""


class LedgerError(LabeldpError):
    """The ledger file cannot be used."""


class LedgerLockedError(LedgerError):
    """Another process held the ledger for too long."""


class LedgerReadOnlyError(LedgerError):
    """The ledger cannot be written."""


class LedgerCorruptError(LedgerError):
    """The ledger is damaged."""


class LedgerPlaceError(LedgerError):
    """The ledger lies on a disk that cannot lock or sync safely."""


class LabelsChangedError(LabeldpError):
    """Other labels under a data set and version that were used before."""


class ReleaseFileError(LabeldpError):
    """A release file is damaged, altered, or of an unknown format."""


class MissingExtraError(LabeldpError, ImportError):
    """An optional part of the package is not installed."""


class LabeldpWarning(UserWarning):
    """Root of the warnings."""


class LargeEpsilonWarning(LabeldpWarning):
    """The asked epsilon hides nothing."""


class DeltaWarning(LabeldpWarning):
    """Delta is not far below one over the number of rows."""


class BiasWarning(LabeldpWarning):
    """A correction is only the best linear one."""
