"""Softmax regression on the debiased loss: convex whatever the noise."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from sklearn.utils.extmath import safe_sparse_dot, softmax
from sklearn.utils.validation import check_is_fitted, validate_data

from labeldp.errors import InputError
from labeldp.learn.base import LabelClassifier, row_weights
from labeldp.learn.gate import as_row_evidence, rows_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]


@final
class UnbiasedLogisticRegression(LabelClassifier):
    """Multinomial logistic regression whose loss on released labels has the loss on true labels as its mean.

    With z = W x + b and the debiased indicators s_i of row i (ERRATA A5, D4) the objective is::

        sum_i w_i ( logsumexp(z_i) - <s_i, z_i> )  +  v / (2 C) (|W|^2 + |b|^2)

    The indicators sum to 1, so the loss stays convex although some of them are negative; but their mean can leave the
    simplex, and then the loss alone has no minimum.  The penalty on all coefficients, the intercept too, bounds it
    (ERRATA B5).  v is the channel's variance factor: n released labels say as much as n / v clean ones, so C means
    what it means to scikit-learn's ``LogisticRegression`` under any channel.

    Where no unbiased correction exists the best linear one is used, with a ``BiasWarning``.

    Parameters
    ----------
    C : float
        Inverse strength of the penalty.
    fit_intercept : bool
        Whether there is an intercept b.
    max_iter : int
        Iterations of L-BFGS at most.
    tol : float
        Stop when no component of the mean gradient exceeds this.
    prior : array of shape (K,) or (n, K), or None
        A public prior, for channels that are not invertible: the correction is then unbiased on average under it.

    Attributes:
    ----------
    classes_ : the declared labels
    coef_ : array (K, d)
    intercept_ : array (K,)
    n_iter_ : iterations of the optimiser

    Examples:
    --------
    >>> import numpy as np
    >>> from labeldp import LabelSpace, RandomizedResponse, SeededCoins, privatize
    >>> X = np.random.default_rng(0).normal(size=(2_000, 2))
    >>> truth = np.where(X @ [1.0, -2.0] > 0, "yes", "no")
    >>> release = privatize(truth, RandomizedResponse(LabelSpace(["no", "yes"]), 1.0), coins=SeededCoins(0))
    >>> model = UnbiasedLogisticRegression().fit(X, release)
    >>> bool((model.predict(X) == truth).mean() > 0.95)
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        fit_intercept: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-5,
        prior: Any = None,
    ) -> None:
        self.C = C
        self.fit_intercept = fit_intercept
        self.max_iter = max_iter
        self.tol = tol
        self.prior = prior

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to features and a release of as many rows."""
        from scipy.optimize import minimize

        evidence = as_row_evidence(y, rows_of(X))
        if not (self.C > 0 and np.isfinite(self.C)):
            raise InputError(f"Expected C > 0, got {self.C!r}: without its penalty the objective can have no minimum.")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
        weight = row_weights(sample_weight, len(evidence))
        soft = evidence.indicators(self.prior)
        # A best linear correction need not sum to 1; the loss must, or a shift of all scores would change it.
        soft += (1.0 - soft.sum(axis=1, keepdims=True)) / soft.shape[1]
        self._declare(evidence.space)
        penalty = evidence.channel.variance_factor / self.C
        solved = minimize(
            _objective,
            np.zeros(soft.shape[1] * (X.shape[1] + self.fit_intercept)),
            args=(X, soft, weight / weight.sum(), penalty / weight.sum(), self.fit_intercept),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": self.max_iter, "gtol": self.tol, "ftol": 0.0, "maxcor": 20},
        )
        table = solved.x.reshape(soft.shape[1], -1)
        self.coef_ = table[:, : X.shape[1]]
        self.intercept_ = table[:, -1] if self.fit_intercept else np.zeros(len(table))
        self.n_iter_ = int(solved.nit)
        return self

    def decision_function(self, X: Any) -> Floats:
        """Return the scores z: one column a label, or for two labels the second's less the first's."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict_proba(self, X: Any) -> Floats:
        """P(true label | features), a column for every declared label."""
        chances: Floats = softmax(self._scores(X), copy=False)
        return chances

    def _scores(self, X: Any) -> Floats:
        check_is_fitted(self, "coef_")
        X = validate_data(self, X, accept_sparse="csr", dtype=np.float64, reset=False)
        scores: Floats = safe_sparse_dot(X, self.coef_.T) + self.intercept_
        return scores

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def _objective(
    flat: Floats, X: Any, soft: Floats, weight: Floats, penalty: float, intercept: bool
) -> tuple[float, Floats]:
    """Return the mean debiased loss with its penalty, and its gradient."""
    table = flat.reshape(soft.shape[1], -1)
    scores = safe_sparse_dot(X, table[:, : X.shape[1]].T)
    if intercept:
        scores += table[:, -1]
    top = scores.max(axis=1, keepdims=True)
    chances = np.exp(scores - top)
    total = chances.sum(axis=1, keepdims=True)
    losses = np.log(total[:, 0]) + top[:, 0] - np.einsum("ij,ij->i", soft, scores)
    chances /= total
    residual = (chances - soft) * weight[:, None]
    slope = safe_sparse_dot(X.T, residual).T
    if intercept:
        slope = np.column_stack([slope, residual.sum(axis=0)])
    value = float(weight @ losses) + 0.5 * penalty * float(flat @ flat)
    return value, (slope + penalty * table).ravel()
