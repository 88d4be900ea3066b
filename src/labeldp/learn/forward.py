"""Maximum likelihood through the known channel, for any classifier of scikit-learn."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self, final

import numpy as np
from sklearn.base import MetaEstimatorMixin, clone, is_classifier
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold, check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted, has_fit_parameter

from labeldp.errors import InputError
from labeldp.learn.base import LabelClassifier, is_whole, row_weights
from labeldp.learn.evidence import Evidence, RowEvidence, posterior
from labeldp.learn.gate import as_evidence, rows_of, take_rows
from labeldp.learn.score import aligned
from labeldp.progress import progress

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

#: A label this improbable for a row is left out of that row's copies: all that is left out weighs less than float error.
_NEGLIGIBLE = 1e-9
#: How far the E-step may look ahead, in steps of EM.
_STRIDES = (1.0, 2.0, 4.0, 8.0, 16.0)


@final
class ForwardCorrected(MetaEstimatorMixin, LabelClassifier):
    """Fit any classifier to the true labels behind a release, by maximum likelihood through its channel.

    The likelihood of a released label o at features x is sum_y p(y | x) P(o | y); EM maximises it.  The E-step takes
    q_i(y) proportional to p(y | x_i) P(o_i | y), the M-step fits the classifier to all labels of every row with the
    weights q_i.  It needs no inverse: every channel will do, also one with a law for each row.  Releases of bag counts,
    and several releases together (their evidence adds up), go through the same steps (:func:`posterior`).

    Parameters
    ----------
    estimator : classifier, default LogisticRegression()
        Any classifier with ``predict_proba``, or a pipeline that ends in one.  It is cloned; it sees codes 0 .. K-1.
    max_iter : int
        Steps of EM at most.
    tol : float
        Stop when the mean log-likelihood of the released labels gains less than this a step.
    imputations : int or None
        None fits every label of a row with its weight: K copies of the rows, and a classifier that takes
        ``sample_weight``.  A number fits so many labels a row, drawn from q_i: less memory, and no weights needed.
    cv : int, splitter, iterable or None
        With a number of folds or a splitter of scikit-learn's, the E-step takes each row's probabilities from a model that was fitted without that row.  For
        classifiers that can memorise (deep trees, nearest neighbours), which would otherwise confirm their own guesses.
    random_state : int, RandomState or None
        For imputations and folds.
    verbose : bool
        Show progress.

    Attributes:
    ----------
    classes_ : the declared labels, in their order
    estimator_ : the fitted classifier, on codes
    log_likelihood_ : mean log-likelihood of the released labels after every step
    n_iter_ : number of steps

    Examples:
    --------
    >>> import numpy as np
    >>> from labeldp import LabelSpace, RandomizedResponse, SeededCoins, privatize
    >>> X = np.random.default_rng(0).normal(size=(2_000, 2))
    >>> truth = np.where(X @ [1.0, -2.0] > 0, "yes", "no")
    >>> release = privatize(truth, RandomizedResponse(LabelSpace(["no", "yes"]), 1.0), coins=SeededCoins(0))
    >>> model = ForwardCorrected().fit(X, release)
    >>> bool((model.predict(X) == truth).mean() > 0.95)
    True
    """

    def __init__(
        self,
        estimator: Any = None,
        *,
        max_iter: int = 50,
        tol: float = 2e-5,
        imputations: int | None = None,
        cv: Any = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.estimator = estimator
        self.max_iter = max_iter
        self.tol = tol
        self.imputations = imputations
        self.cv = cv
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to features and a release, or evidence, of as many rows."""
        evidence = as_evidence(y, rows_of(X))
        self._check_parameters()
        weight = row_weights(sample_weight, len(evidence))
        if evidence.bags and sample_weight is not None:
            raise InputError("Expected no sample_weight with bag counts: a count speaks of all rows of its bag alike.")
        random = check_random_state(self.random_state)
        self._declare(evidence.space)
        self.log_likelihood_: list[float] = []
        first = _first_beliefs(evidence)
        start = self._fitted(X, first, weight, None, random)
        before = _first_guess(evidence, self._chances(start, X, first, weight, random))
        beliefs = posterior(evidence, before)
        model: Any = None
        with progress("EM", self.max_iter, shown=self.verbose) as advance:
            while len(self.log_likelihood_) < self.max_iter and not self._settled():
                model = self._fitted(X, beliefs, weight, model, random)
                chances = self._chances(model, X, beliefs, weight, random)
                self.log_likelihood_.append(_log_likelihood(evidence, chances, weight))
                advance(note=f"log-likelihood {self.log_likelihood_[-1]:.5f}")
                beliefs = posterior(evidence, _look_ahead(evidence, before, chances, weight))
                before = chances
        self.n_iter_ = len(self.log_likelihood_)
        if self.n_iter_ > 2 and not self._settled(slack=10.0):
            warnings.warn(
                f"EM has not settled after {self.max_iter} steps; a higher max_iter or tol may be wanted.",
                ConvergenceWarning,
                stacklevel=2,
            )
        self.estimator_ = model
        _copy_features(self, model)
        return self

    def predict_proba(self, X: Any) -> Floats:
        """P(true label | features), a column for every declared label."""
        check_is_fitted(self, "estimator_")
        return _probabilities(self.estimator_, X, len(self.classes_))

    @available_if(lambda self: hasattr(self._inner(), "decision_function"))  # type: ignore[untyped-decorator]  # theirs
    def decision_function(self, X: Any) -> Floats:
        """Return the classifier's own decision values."""
        check_is_fitted(self, "estimator_")
        values: Floats = self.estimator_.decision_function(X)
        return values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = self._inner().__sklearn_tags__()
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        return tags

    # ---- steps --------------------------------------------------------------------------------------------

    def _inner(self) -> Any:
        return LogisticRegression(max_iter=200) if self.estimator is None else self.estimator

    def _check_parameters(self) -> None:
        inner = self._inner()
        if not is_classifier(inner) or not hasattr(inner, "predict_proba"):
            raise InputError(
                f"Expected a classifier with predict_proba, got {type(inner).__name__}. "
                "Wrap it in sklearn.calibration.CalibratedClassifierCV, or choose another one.",
            )
        if self.imputations is None and not _takes_weights(inner):
            raise InputError(
                f"Expected a classifier whose fit takes sample_weight; {type(inner).__name__} does not. Pass "
                "imputations=5, say: labels are then drawn from the posterior instead of weighted.",
            )
        for name, least in (("max_iter", 1), ("imputations", 1), ("cv", 2)):
            value = getattr(self, name)
            others = value is None or (name == "cv" and not isinstance(value, float | str) and not is_whole(value))
            if not others and not (is_whole(value) and value >= least):
                raise InputError(f"Expected {name} to be an integer from {least} upwards, got {value!r}.")
        if not self.tol >= 0:
            raise InputError(f"Expected tol >= 0, got {self.tol!r}.")

    def _fitted(self, X: Any, beliefs: Floats, weight: Floats, last: Any, random: Any) -> Any:
        """Return the classifier fitted to beliefs: the M-step."""
        model = _next_model(self._inner(), last)
        if self.imputations is None:
            rows, codes = np.nonzero(beliefs > _NEGLIGIBLE)
            weights = beliefs[rows, codes] * weight[rows]
            # Every label stays known to the classifier, whatever the beliefs.
            for code in np.setdiff1d(np.arange(beliefs.shape[1]), codes):
                rows, codes = np.append(rows, beliefs[:, code].argmax()), np.append(codes, code)
                weights = np.append(weights, _NEGLIGIBLE)
        else:
            count, size = beliefs.shape
            rows = np.repeat(np.arange(count), self.imputations)
            ends = np.cumsum(beliefs, axis=1)
            codes = (random.random_sample(len(rows))[:, None] * ends[rows, -1:] > ends[rows]).sum(axis=1)
            codes = np.minimum(codes, size - 1)
            weights = weight[rows]
        return _fit_weighted(model, take_rows(X, rows), codes, weights)

    def _chances(self, model: Any, X: Any, beliefs: Floats, weight: Floats, random: Any) -> Floats:
        """Return every row's class probabilities under the model, or under one like it that has not seen the row."""
        if self.cv is None:
            return _probabilities(model, X, beliefs.shape[1])
        chances = np.empty(beliefs.shape)
        shuffled = KFold(self.cv, shuffle=True, random_state=random.randint(2**31)) if is_whole(self.cv) else self.cv
        for train, test in check_cv(shuffled).split(beliefs):
            part = self._fitted(take_rows(X, train), beliefs[train], weight[train], None, random)
            chances[test] = _probabilities(part, take_rows(X, test), beliefs.shape[1])
        return chances

    def _settled(self, slack: float = 1.0) -> bool:
        # Over two steps: after a long stride a plain one gains little.
        found = self.log_likelihood_
        return len(found) > 2 and found[-1] - found[-3] < 2 * slack * self.tol


def _probabilities(model: Any, X: Any, size: int) -> Floats:
    return aligned(np.asarray(model.predict_proba(X), np.float64), model.classes_, size)


def _first_beliefs(evidence: Evidence) -> Floats:
    """Return each row's posterior when all labels are as likely: for response channels, mostly the released label."""
    size = evidence.space.size
    return posterior(evidence, np.full((len(evidence), size), 1.0 / size))


def _first_guess(evidence: Evidence, blurred: Floats) -> Floats:
    """Undo what the first fit has learned of the noise.

    It was fitted to beliefs B(y | o), so it estimates p(x) M with M[y, y'] = sum_o P(o | y) B(y' | o).  Solving for
    p(x) by multiplicative steps (Richardson and Lucy) keeps it a probability; without one table for all rows, the
    blurred estimate itself is where EM starts.
    """
    if not isinstance(evidence, RowEvidence) or not evidence.alone or evidence.channel.contexts != 1:
        return blurred
    channel = evidence.channel
    table = channel.transition
    column = table.sum(axis=0, keepdims=True)
    belief = (table / np.where(column > 0, column, 1.0)).T
    mixing = table @ belief
    guess = np.full(blurred.shape, 1.0 / blurred.shape[1])
    for _ in range(100):
        guess *= (blurred / np.maximum(guess @ mixing, _NEGLIGIBLE)) @ mixing.T
        guess /= guess.sum(axis=1, keepdims=True)
    return guess


def _look_ahead(evidence: Evidence, before: Floats | None, chances: Floats, weight: Floats) -> Floats:
    """Return probabilities further along the last step where those explain the release better.

    EM creeps under heavy noise.  On the logarithmic scale the step is repeated s times; of a few s the most likely is
    taken, so a step is never worse than EM's own for what the release says.
    """
    if before is None:
        return chances
    log = np.log(np.maximum(chances, _NEGLIGIBLE))
    step = log - np.log(np.maximum(before, _NEGLIGIBLE))
    best, value = chances, _log_likelihood(evidence, chances, weight)
    for stride in _STRIDES:
        moved = np.exp(log + stride * step - (log + stride * step).max(axis=1, keepdims=True))
        moved /= moved.sum(axis=1, keepdims=True)
        found = _log_likelihood(evidence, moved, weight)
        if found <= value:
            break
        best, value = moved, found
    return best


def _log_likelihood(evidence: Evidence, chances: Floats, weight: Floats) -> float:
    """Return the mean log-likelihood a row; weights of rows have a meaning only where releases are by row."""
    if not isinstance(evidence, RowEvidence):
        return evidence.log_likelihood(chances) / len(evidence)
    with np.errstate(divide="ignore"):
        logs = np.log(evidence.probability(chances))
    return float(np.average(np.maximum(logs, np.log(_NEGLIGIBLE)), weights=weight))


def _next_model(inner: Any, last: Any) -> Any:
    """Return a fresh classifier, or the last one to go on from where that starts the optimiser only.

    For linear models and neural networks ``warm_start`` keeps coefficients; for ensembles it would keep old trees,
    fitted to old beliefs.
    """
    final = inner.steps[-1][1] if isinstance(inner, Pipeline) else inner
    if last is not None and "warm_start" in final.get_params() and _has_coefficients(last):
        return last
    model = clone(inner)
    final = model.steps[-1][1] if isinstance(model, Pipeline) else model
    if "warm_start" in final.get_params() and not hasattr(final, "n_estimators") and not _boosts(final):
        final.set_params(warm_start=True)
    return model


def _has_coefficients(model: Any) -> bool:
    final = model.steps[-1][1] if isinstance(model, Pipeline) else model
    return hasattr(final, "coef_") or hasattr(final, "coefs_")


def _boosts(model: Any) -> bool:
    return "max_leaf_nodes" in model.get_params() or "max_depth" in model.get_params()


def _takes_weights(inner: Any) -> bool:
    final = inner.steps[-1][1] if isinstance(inner, Pipeline) else inner
    return bool(has_fit_parameter(final, "sample_weight"))


def _fit_weighted(model: Any, X: Any, codes: NDArray[Any], weights: Floats) -> Any:
    if not _takes_weights(model):
        return model.fit(X, codes)
    key = f"{model.steps[-1][0]}__sample_weight" if isinstance(model, Pipeline) else "sample_weight"
    return model.fit(X, codes, **{key: weights})


def _copy_features(owner: Any, model: Any) -> None:
    for name in ("n_features_in_", "feature_names_in_"):
        if hasattr(model, name):
            setattr(owner, name, getattr(model, name))
