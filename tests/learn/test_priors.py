"""Priors are public laws with a price tag: made of knowledge, counts or models, and used wherever a prior is asked for."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import labeldp as ldp
from labeldp.errors import PriorError, ShapeError, SpaceMismatchError
from labeldp.learn import Prior, cluster_prior, given_prior, model_prior, uniform_prior
from labeldp.release import laws_of_counts
from tests.learn.helpers import SPACE, THREE, three_classes

GROUPS = np.arange(300) % 5


def counted(mechanism: Any, **options: Any) -> Any:
    """Release the labels of 300 rows."""
    return ldp.privatize(three_classes(300)[1], mechanism, **options)


def test_priors_serve_as_priors() -> None:
    """A prior goes where an array would, and gives the same channel; on another space it is refused."""
    table = np.random.default_rng(0).dirichlet(np.ones(3), 300)
    prior = given_prior(THREE, table, "an old model")

    channel = ldp.PriorRandomizedResponse(THREE, 1.0, prior)

    assert ldp.PriorRandomizedResponse(THREE, 1.0, np.asarray(prior)) == channel
    assert prior.guarantee is None
    assert "an old model; public" in repr(prior)
    assert [1 / 3] * 3 == np.asarray(uniform_prior(THREE)).tolist()
    with pytest.raises(SpaceMismatchError):
        ldp.PriorRandomizedResponse(SPACE, 1.0, prior)


def test_clusters_give_their_laws_and_their_price() -> None:
    """From bags, clusters or a histogram: every row gets its cluster's law, and the prior says what was paid."""
    bags = counted(ldp.BagCounts(THREE, 0.5), bags=GROUPS)
    clusters = counted(ldp.ClusterPriorResponse(THREE, 1.0, GROUPS))
    histogram = counted(ldp.LabelHistogram(THREE, 0.5, groups=GROUPS))

    for release, options in ((bags, {}), (clusters, {}), (histogram, {"groups": GROUPS})):
        prior = cluster_prior(release, smooth=0.5, **options)

        assert np.allclose(laws_of_counts(release.counts, 0.5)[GROUPS], np.asarray(prior))
        assert release.guarantee == prior.guarantee
    with pytest.raises(ShapeError, match="groups="):
        cluster_prior(histogram)
    with pytest.raises(ShapeError, match="sizes differ"):
        cluster_prior(histogram, np.zeros(300, int))
    with pytest.raises(ShapeError, match="by bag or cluster"):
        cluster_prior(counted(ldp.RandomizedResponse(THREE, 1.0)))


def test_temperature_sharpens_and_flattens() -> None:
    """p^(1/t), normalised: at 1 the same, at 0.5 squares, towards 0 the likeliest, towards infinity uniform."""
    prior = given_prior(THREE, [[0.5, 0.3, 0.2], [0.0, 0.9, 0.1]])

    assert np.allclose(prior.table, prior.tempered(1.0).table)
    squares = prior.table**2
    assert np.allclose(squares / squares.sum(axis=1, keepdims=True), prior.tempered(0.5).table)
    assert np.allclose([[1, 0, 0], [0, 1, 0]], prior.tempered(1e-3).table)
    assert np.allclose([1 / 3] * 3, prior.tempered(1e6).table[0], atol=1e-5)
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(PriorError, match="temperature"):
            prior.tempered(bad)


def test_blends_cost_what_both_cost() -> None:
    """A mixture is a law again; made of two releases it carries the guarantee of both together."""
    one = cluster_prior(counted(ldp.BagCounts(THREE, 0.5), bags=GROUPS))
    two = cluster_prior(counted(ldp.BagCounts(THREE, 0.25), bags=GROUPS))

    blend = one.blended(two, 0.25)

    assert np.allclose(0.75 * one.table + 0.25 * two.table, blend.table)
    assert 0.75 == blend.guarantee.epsilon()  # type: ignore[union-attr]  # both have one
    assert one.guarantee == one.blended(uniform_prior(THREE), 0.1).guarantee
    with pytest.raises(SpaceMismatchError):
        one.blended(uniform_prior(SPACE), 0.5)
    with pytest.raises(ShapeError, match="300 rows"):
        one.blended(two.take(np.arange(10)), 0.5)
    with pytest.raises(PriorError, match="share"):
        one.blended(two, 1.5)


def test_a_model_gives_a_prior_in_the_order_of_the_labels() -> None:
    """Columns go by label, labels that the model never saw get nothing, and a model of other labels is refused."""
    X, y = three_classes(400)
    model = LogisticRegression().fit(X, y)  # its classes are sorted, the space is not

    prior = model_prior(model, X, THREE)

    places = [model.classes_.tolist().index(label) for label in THREE.labels]
    assert np.allclose(model.predict_proba(X)[:, places], prior.table)
    assert np.all(model_prior(model, X, ldp.LabelSpace([*THREE.labels, "grey"])).table[:, 3] == 0)
    with pytest.raises(SpaceMismatchError, match="classes are others"):
        model_prior(model, X, SPACE)


@pytest.mark.parametrize(
    "table",
    [[0.5, 0.5], [[0.5, 0.3, 0.3]], [-0.1, 0.6, 0.5], [math.nan, 0.5, 0.5], np.zeros((0, 3)), np.zeros((2, 2, 3))],
)
def test_what_is_no_law_is_refused(table: Any) -> None:
    """Wrong shapes, sums, signs and missing values."""
    with pytest.raises(PriorError):
        Prior(THREE, np.asarray(table), "given")
