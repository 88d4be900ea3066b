"""The learner's side: a release in, a model out.  Nothing here can take labels.

>>> import numpy as np
>>> import labeldp as ldp
>>> from sklearn.linear_model import LogisticRegression
>>> X = np.random.default_rng(0).normal(size=(400, 2))
>>> space = ldp.LabelSpace(["no", "yes"])
>>> truth = space.decode((X[:, 0] > 0).astype(int))
>>> release = ldp.privatize(truth, ldp.RandomizedResponse(space, epsilon=2.0), coins=ldp.SeededCoins(0))
>>> model = ForwardCorrected(LogisticRegression()).fit(X, release)
>>> bool((model.predict(X) == truth).mean() > 0.9)
True
"""

from labeldp.learn.bag import BagClassifier
from labeldp.learn.bags import bag_size, make_bags
from labeldp.learn.evidence import BagEvidence, Evidence, JointEvidence, RowEvidence, posterior
from labeldp.learn.forward import ForwardCorrected
from labeldp.learn.gate import as_evidence
from labeldp.learn.priors import Prior, cluster_prior, given_prior, model_prior, uniform_prior
from labeldp.learn.recipes import CountsThenLabels, Recipe, recommend
from labeldp.learn.score import (
    ConfusionScore,
    Score,
    debiased_accuracy,
    debiased_confusion,
    debiased_log_loss,
    forward_log_loss,
    score_accuracy,
    score_forward_log_loss,
    score_log_loss,
)
from labeldp.learn.unbiased import UnbiasedLogisticRegression

__all__ = [
    "BagClassifier",
    "BagEvidence",
    "ConfusionScore",
    "CountsThenLabels",
    "Evidence",
    "ForwardCorrected",
    "JointEvidence",
    "Prior",
    "Recipe",
    "RowEvidence",
    "Score",
    "UnbiasedLogisticRegression",
    "as_evidence",
    "bag_size",
    "cluster_prior",
    "debiased_accuracy",
    "debiased_confusion",
    "debiased_log_loss",
    "forward_log_loss",
    "given_prior",
    "make_bags",
    "model_prior",
    "posterior",
    "recommend",
    "score_accuracy",
    "score_forward_log_loss",
    "score_log_loss",
    "uniform_prior",
]
