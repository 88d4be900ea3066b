"""Models are learned from noisy counts of bags, alone and together with released labels."""

from __future__ import annotations

import builtins
import importlib.util
import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.exceptions import ConvergenceWarning

import labeldp as ldp
from labeldp.errors import InputError, MissingExtraError, RawLabelsError
from labeldp.learn import BagClassifier, ForwardCorrected, as_evidence, bag_size, make_bags
from tests.learn.helpers import SPACE, THREE, released, three_classes, two_classes

HAVE_TORCH = importlib.util.find_spec("torch") is not None


def counted(X: Any, y: Any, space: ldp.LabelSpace, epsilon: float, seed: int = 0) -> Any:
    """Counts of bags of neighbours, with fixed coins."""
    bags = make_bags(X, bag_size(epsilon, space.size, len(X)))
    return ldp.privatize(y, ldp.BagCounts(space, epsilon), bags=bags, coins=ldp.SeededCoins(seed))


@pytest.mark.parametrize("estimator", ["logistic", HistGradientBoostingClassifier(max_iter=20, max_leaf_nodes=6)])
def test_counts_alone_teach_more_than_responses_at_a_small_epsilon(estimator: Any) -> None:
    """At epsilon 0.2 a model of bag counts comes near the truth, and beats one of randomised response."""
    X, y = three_classes(6_000)
    test, truth = three_classes(4_000, seed=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = BagClassifier(estimator).fit(X, counted(X, y, THREE, 0.2))
        rows = ForwardCorrected().fit(X, released(y, ldp.RandomizedResponse(THREE, 0.2)))

    accuracy = (model.predict(test) == truth).mean()
    # The best possible is about 0.76 here, and always the commonest label 0.34.
    assert accuracy > 0.68
    assert accuracy > (rows.predict(test) == truth).mean()
    assert model.predict_proba(test).shape == (4_000, 3)


def test_shuffled_labels_teach_nothing() -> None:
    """Labels that have nothing to do with the features give chance: nothing leaks around the counts."""
    X, y = two_classes(4_000)
    shuffled = np.random.default_rng(0).permutation(y)

    model = BagClassifier("logistic").fit(X, counted(X, shuffled, SPACE, 1.0))

    # 4,000 rows: a standard deviation is 0.008.
    share = max((shuffled == label).mean() for label in SPACE.labels)
    assert abs((model.predict(X) == shuffled).mean() - 0.5) < share - 0.5 + 0.04


def test_released_labels_add_to_counts() -> None:
    """Both sources together are at least as good as either: here clearly better than the weak counts alone."""
    X, y = two_classes(5_000)
    test, truth = two_classes(5_000, seed=6)
    bags = np.arange(5_000) % 20
    weak = ldp.privatize(y, ldp.BagCounts(SPACE, 0.5), bags=bags, coins=ldp.SeededCoins(0))
    rows = released(y, ldp.RandomizedResponse(SPACE, 1.5))

    alone = BagClassifier("logistic").fit(X, weak)
    both = BagClassifier("logistic").fit(X, as_evidence(weak) + as_evidence(rows))

    assert (both.predict(test) == truth).mean() > (alone.predict(test) == truth).mean() + 0.02


def test_bad_requests_are_refused() -> None:
    """No counts, labels, odd estimators: typed errors at fit."""
    X, y = two_classes(40)
    rows = released(y, ldp.RandomizedResponse(SPACE, 1.0))
    with pytest.raises(InputError, match="ForwardCorrected"):
        BagClassifier("logistic").fit(X, rows)
    with pytest.raises(RawLabelsError):
        BagClassifier("logistic").fit(X, y)
    with pytest.raises(InputError, match="'mlp', 'logistic'"):
        BagClassifier("forest").fit(X, rows)
    bags = ldp.privatize(y, ldp.BagCounts(SPACE, 1.0), bags=np.arange(40) % 2)
    with pytest.raises(InputError, match="no targets"):
        BagClassifier("logistic").fit(X, bags, targets=np.ones((40, 2)))
    assert BagClassifier("logistic", members=3).get_params() == clone(BagClassifier("logistic", members=3)).get_params()


def test_without_torch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """A network without torch: an error that says what to install, and what works without."""
    X, y = two_classes(40)
    release = ldp.privatize(y, ldp.BagCounts(SPACE, 1.0), bags=np.arange(40) % 2)
    original = builtins.__import__

    def no_torch(name: str, *rest: Any, **options: Any) -> Any:
        if name == "torch":
            raise ImportError(name)
        return original(name, *rest, **options)

    monkeypatch.setattr(builtins, "__import__", no_torch)
    with pytest.raises(MissingExtraError, match=r"labeldp\[torch\].*logistic"):
        BagClassifier().fit(X, release)


@pytest.mark.skipif(not HAVE_TORCH, reason="torch is an extra; what is said without it is tested above")
@pytest.mark.parametrize("members", [1, 2])
def test_networks_learn_from_counts(members: int) -> None:
    """A perceptron trained on counts comes near the best model, and the same seed gives the same network."""
    X, y = three_classes(6_000)
    test, truth = three_classes(4_000, seed=3)
    release = counted(X, y, THREE, 0.5)
    options: dict[str, Any] = {"hidden": (32,), "epochs": 60, "dropout": 0.0, "members": members, "random_state": 3}

    model = BagClassifier(**options).fit(X, release)
    again = BagClassifier(**options).fit(X, release)

    assert (model.predict(test) == truth).mean() > 0.68
    assert np.array_equal(model.predict_proba(test), again.predict_proba(test))
    assert members == len(model.losses_)
    assert model.losses_[0][-1] < model.losses_[0][0]
