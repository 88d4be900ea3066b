"""Learning from noisy counts of bags: a model whose mean predictions over each bag explain what was released."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.linear_model import LogisticRegression
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from labeldp.errors import InputError, ShapeError
from labeldp.learn.base import LabelClassifier
from labeldp.learn.forward import ForwardCorrected
from labeldp.learn.gate import as_evidence, rows_of
from labeldp.progress import progress

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from labeldp.learn.evidence import Evidence

    Floats = NDArray[np.float64]

#: A network is trained for about so many steps, whatever the number of rows: public numbers decide.
_STEPS = 1500
_FEWEST_EPOCHS, _MOST_EPOCHS = 5, 60


@final
class BagClassifier(LabelClassifier):
    """Learn from a release of counts by bag (``BagCounts``), alone or together with released labels.

    The counts of a bag have the mean sum_i p(y | x_i) under a model p, and the known variance of their noise beside that
    of the labels.  ``"mlp"`` minimises the normal negative log-likelihood of all counts by gradients; ``"logistic"`` and
    classifiers of scikit-learn maximise the evidence by EM (:class:`ForwardCorrected`).  Evidence of released labels, as
    in ``as_evidence(bags) + as_evidence(rows)``, is used at the same time.

    Parameters
    ----------
    estimator : "mlp", "logistic", a classifier of scikit-learn, or a function (inputs, classes) -> torch module
        "mlp" and modules need the extra ``torch``.
    hidden, dropout : shape of the perceptron
    epochs : int or None
        None trains for about 1500 batches.
    rate, decay, batch : peak learning rate, weight decay, rows a batch
    members : int
        So many networks, from different starts, are averaged.
    random_state : int, RandomState or None
    verbose : bool
        Show progress.

    Attributes:
    ----------
    classes_ : the declared labels
    losses_ : for networks, the mean loss of every epoch and member

    Examples:
    --------
    >>> import numpy as np
    >>> from labeldp import BagCounts, LabelSpace, SeededCoins, privatize
    >>> from labeldp.learn import bag_size, make_bags
    >>> X = np.random.default_rng(0).normal(size=(2_000, 2))
    >>> truth = np.where(X @ [1.0, -2.0] > 0, "yes", "no")
    >>> bags = make_bags(X, bag_size(0.5, 2, len(X)))
    >>> release = privatize(truth, BagCounts(LabelSpace(["no", "yes"]), 0.5), bags=bags, coins=SeededCoins(0))
    >>> model = BagClassifier("logistic").fit(X, release)
    >>> bool((model.predict(X) == truth).mean() > 0.9)
    True
    """

    def __init__(
        self,
        estimator: Any = "mlp",
        *,
        hidden: Sequence[int] = (512,),
        dropout: float = 0.3,
        epochs: int | None = None,
        rate: float = 2e-3,
        decay: float = 1e-3,
        batch: int = 2048,
        members: int = 2,
        random_state: Any = 0,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.hidden = hidden
        self.dropout = dropout
        self.epochs = epochs
        self.rate = rate
        self.decay = decay
        self.batch = batch
        self.members = members
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, *, targets: Any = None) -> Self:
        """Fit to features and a release, or evidence, of as many rows; ``targets`` are further soft labels (n, K)."""
        evidence = as_evidence(y, rows_of(X))
        self._declare(evidence.space)
        kind = self._kind()
        if kind == "em":
            if not evidence.bags:
                raise InputError("Expected a release of bag counts; for released labels alone use ForwardCorrected.")
            if targets is not None:
                raise InputError("Expected no targets with a classifier of scikit-learn; they are for networks.")
            inner = LogisticRegression(max_iter=300) if self.estimator == "logistic" else clone(self.estimator)
            self.model_ = ForwardCorrected(inner, random_state=self.random_state, verbose=self.verbose)
            self.model_.fit(X, evidence)
        else:
            self._fit_networks(X, evidence, targets)
        self.n_features_in_ = int(np.shape(X)[1]) if len(np.shape(X)) > 1 else 1
        return self

    def predict_proba(self, X: Any) -> Floats:
        """P(true label | features), a column for every declared label."""
        check_is_fitted(self, "classes_")
        if hasattr(self, "model_"):
            chances: Floats = self.model_.predict_proba(X)
            return chances
        table = self._scaled(X)
        mean: Floats = np.mean([network.probabilities(table) for network in self.networks_], axis=0)
        return mean

    def _kind(self) -> str:
        named = isinstance(self.estimator, str)
        if self.estimator == "mlp" or (not named and callable(self.estimator) and not hasattr(self.estimator, "fit")):
            return "network"
        if self.estimator == "logistic" or (not named and is_classifier(self.estimator)):
            return "em"
        raise InputError(
            "Expected estimator to be 'mlp', 'logistic', a classifier of scikit-learn or a function that makes a torch "
            f"module, got {self.estimator!r}.",
        )

    def _fit_networks(self, X: Any, evidence: Evidence, targets: Any) -> None:
        from labeldp.learn.torch import Recipe, mlp, train
        from labeldp.learn.torch.trainer import as_table

        table = as_table(X)
        self.mean_ = table.mean(axis=0)
        deviation = table.std(axis=0)
        self.deviation_ = np.where(deviation > 0, deviation, 1.0)
        table = self._scaled(table)
        epochs = self.epochs or self._usual_epochs(evidence)
        random = check_random_state(self.random_state)
        self.networks_, self.losses_ = [], []
        with progress("Training", self.members * epochs, shown=self.verbose) as advance:
            for _ in range(self.members):
                recipe = Recipe(epochs, self.rate, self.decay, self.batch, seed=int(random.randint(2**31)))
                # The start of a network is drawn under its own seed too.
                network = _made(self.estimator, mlp, table.shape[1], len(self.classes_), self, recipe.seed)
                trained = train(
                    network,
                    table,
                    evidence,
                    recipe,
                    targets=targets,
                    tell=lambda _epoch, loss: advance(note=f"loss {loss:.5f}"),
                )
                self.networks_.append(trained)
                self.losses_.append(trained.losses)

    def _usual_epochs(self, evidence: Evidence) -> int:
        batches = max(1, round(len(evidence) / self.batch))
        if evidence.bags:
            batches = max(1, min(batches, len(evidence.bags[0].counts)))
        return min(max(math.ceil(_STEPS / batches), _FEWEST_EPOCHS), _MOST_EPOCHS)

    def _scaled(self, X: Any) -> NDArray[np.float32]:
        from labeldp.learn.torch.trainer import as_table

        table = as_table(X)
        if table.shape[1] != len(self.mean_):
            raise ShapeError(f"Expected {len(self.mean_)} features, as in fit, got {table.shape[1]}.")
        scaled: NDArray[np.float32] = (table - self.mean_) / self.deviation_
        return scaled


def _made(estimator: Any, mlp: Any, inputs: int, classes: int, owner: BagClassifier, seed: int) -> Any:
    from labeldp.learn.torch.trainer import seeded

    with seeded(seed):
        if estimator == "mlp":
            return mlp(inputs, classes, tuple(owner.hidden), owner.dropout)
        return estimator(inputs, classes)
