"""Whole recipes: counts of bags, then labels where a budget is left for them; and which of them to take."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from labeldp.channels import PriorRandomizedResponse
from labeldp.errors import BoundaryError, InputError, ShapeError
from labeldp.exact import exact, positive_epsilon
from labeldp.learn.bag import BagClassifier
from labeldp.learn.bags import bag_size, make_bags
from labeldp.learn.base import LabelClassifier, is_whole
from labeldp.learn.evidence import Evidence
from labeldp.learn.gate import as_evidence, rows_of, take_rows
from labeldp.learn.priors import Prior, cluster_prior, model_prior
from labeldp.release import LabelledRelease, LabelService

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: Up to this epsilon counts get the whole budget, beyond it a fifth.
_COUNTS_ONLY = Fraction(1)
_SHARE_OF_COUNTS = Fraction(1, 5)
#: A prior keeps this share of its cluster's law: a model that is sure and wrong must not silence the truth.
_CLUSTER_SHARE = 0.3


@final
@dataclass(frozen=True)
class Recipe:
    """What to do with a budget: the share for counts, the size of bags, the folds of labels; and why."""

    split: Fraction
    bag_rows: int
    folds: int
    why: str

    def __repr__(self) -> str:
        return f"Recipe(split={float(self.split):g}, bag_rows={self.bag_rows}, folds={self.folds})"


def recommend(n: int, K: int, epsilon: object, features: int | None = None) -> Recipe:
    """Return a recipe for n rows, K labels and a budget, from these public numbers alone.

    ``features`` is the number of columns, if known: with fewer rows than that a linear head is safer, and the reason
    says so.

    >>> recommend(60_000, 10, 0.5)
    Recipe(split=1, bag_rows=169, folds=0)
    >>> recommend(60_000, 10, 2.0)
    Recipe(split=0.2, bag_rows=212, folds=3)
    """
    asked = positive_epsilon(epsilon)
    for name, value, least in (("n", n, 4), ("K", K, 2)):
        if not is_whole(value) or value < least:
            raise InputError(f"Expected {name} to be an integer from {least} upwards, got {value!r}.", value=value)
    if asked <= _COUNTS_ONLY:
        size = bag_size(float(asked), K, n)
        lie = 1 / (np.exp(float(asked)) + 1)
        why = (
            f"At epsilon {float(asked):g} even a response between two labels lies {lie:.0%} of the time, while the noise "
            f"on a count is shared by a bag of {size} rows: the whole budget goes to counts."
        )
        split, folds = Fraction(1), 0
    else:
        split, folds = _SHARE_OF_COUNTS, 3
        size = bag_size(float(asked * split), K, n)
        why = (
            f"At epsilon {float(asked):g} a label is worth asking for, over the few labels that counts leave likely: a "
            f"fifth of the budget for counts of bags of {size} rows, the rest for one label a row in {folds} parts, each "
            "with the model so far as its prior."
        )
    if features is not None and features > n:
        why += f" There are more features ({features}) than rows: take a linear head or reduce them first."
    return Recipe(split, size, folds, why)


@final
class CountsThenLabels(LabelClassifier):
    """Learn from a label service: counts of bags first, then one label a row with the model so far as its prior.

    1.  Bags of rows that look alike are made from the features, and their counts are asked for, with ``split * epsilon``.
    2.  A model is trained on the counts.
    3.  With what is left, each row's label is asked for once, in ``folds`` parts: a response over the most informative set
        under the model's prediction, tempered and blended with the law of the row's bag.  After every part the model is
        trained on all evidence so far.

    Every row is in all counts and in one part, so a label costs epsilon in all.

    Parameters
    ----------
    epsilon : the budget of every label
    split, folds : what :func:`recommend` says unless given
    head : BagClassifier or None
        What is trained; None is ``BagClassifier("logistic")``.
    temperature : float
        Of the model's predictions as a prior.
    random_state : int
        For bags and parts.

    Attributes:
    ----------
    recipe_ : what was done
    head_ : the last model
    releases_ : all releases, in order; they are paid for, keep them
    evidence_ : what they say together

    Examples:
    --------
    >>> import numpy as np
    >>> from labeldp import Curator, LabelSpace
    >>> X = np.random.default_rng(0).normal(size=(2_000, 2))
    >>> truth = np.where(X @ [1.0, -2.0] > 0, "yes", "no")
    >>> owner = Curator(truth, budget=2, space=LabelSpace(["no", "yes"]))
    >>> model = CountsThenLabels(epsilon=2).fit(X, owner)
    >>> bool((model.predict(X) == truth).mean() > 0.9), round(float(owner.spent.epsilon), 9)
    (True, 2.0)
    """

    def __init__(
        self,
        epsilon: Any = 1.0,
        *,
        split: Any = None,
        folds: int | None = None,
        head: BagClassifier | None = None,
        temperature: float = 1.0,
        random_state: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.split = split
        self.folds = folds
        self.head = head
        self.temperature = temperature
        self.random_state = random_state

    def fit(self, X: Any, service: Any, *, bags: Any = None) -> Self:
        """Ask the service for what the recipe needs, and train; ``bags`` may be given from a better representation."""
        if not isinstance(service, LabelService) or isinstance(service, LabelledRelease):
            raise BoundaryError(
                f"Expected a label service, such as the owner's Curator, got {type(service).__name__}. This learner "
                "asks for releases while it learns; for a release that is there already use BagClassifier."
            )
        if len(service) != rows_of(X):
            raise ShapeError(f"Expected {len(service)} rows of features, as many as labels, got {rows_of(X)}.")
        self._declare(service.space)
        asked = positive_epsilon(self.epsilon)
        self.recipe_ = self._recipe(len(service), service.space.size, asked)
        head = BagClassifier("logistic") if self.head is None else self.head
        members = make_bags(X, self.recipe_.bag_rows, random_state=self.random_state) if bags is None else bags
        counts = service.count(members, asked * self.recipe_.split)
        self.releases_ = [counts]
        self.evidence_: Evidence = as_evidence(counts)
        self.head_ = clone(head).fit(X, self.evidence_)
        law = cluster_prior(counts, smooth=0.5)
        left = asked * (1 - self.recipe_.split)
        order = np.random.default_rng(self.random_state).permutation(len(service))
        for rows in np.array_split(order, self.recipe_.folds) if left > 0 else ():
            prior = self._prior(take_rows(X, rows), law.take(rows))
            channel = PriorRandomizedResponse(service.space, left, prior, choose="information")
            released = service.release(channel, rows=rows)
            assert isinstance(released, LabelledRelease)  # noqa: S101  # what a channel makes
            self.releases_.append(released)  # type: ignore[arg-type]  # of any kind
            found = as_evidence(released).rows
            assert found is not None  # noqa: S101  # released row by row
            self.evidence_ = self.evidence_ + found.spread(rows, len(service))
            self.head_ = clone(head).fit(X, self.evidence_)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """P(true label | features), a column for every declared label."""
        check_is_fitted(self, "head_")
        chances: Floats = self.head_.predict_proba(X)
        return chances

    def _recipe(self, rows: int, labels: int, asked: Fraction) -> Recipe:
        usual = recommend(rows, labels, asked)
        split = usual.split if self.split is None else exact(self.split)
        if not 0 < split <= 1:
            raise InputError(f"Expected 0 < split <= 1: counts come first, got {self.split!r}.", value=self.split)
        folds = (usual.folds or 3) if self.folds is None else self.folds
        if not is_whole(folds) or not 1 <= folds <= rows:
            raise InputError(f"Expected folds to be an integer from 1 to {rows}, got {self.folds!r}.", value=self.folds)
        why = usual.why if split == usual.split else "As asked for."
        return Recipe(split, bag_size(float(asked * split), labels, rows), 0 if split == 1 else int(folds), why)

    def _prior(self, X: Any, law: Prior) -> Prior:
        predicted = model_prior(self.head_, X, law.space).tempered(self.temperature)
        return predicted.blended(law, _CLUSTER_SHARE)
