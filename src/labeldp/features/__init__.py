"""Public representations: features in, better features out.  Nothing here can take labels.

Networks and other heavy libraries are loaded by the stages that use them, when they use them.

>>> import numpy as np
>>> from sklearn.pipeline import make_pipeline
>>> X = np.random.default_rng(0).normal(size=(120, 6))
>>> represent(make_pipeline(Standardize(), PCA(3)), X[:100], X[100:])
Representation(inductive, 100 training rows, 20 test rows, 3 features)
"""

from labeldp.features.base import PublicStage
from labeldp.features.cache import Cache
from labeldp.features.graph import SpectralEmbedding, UmapEmbedding
from labeldp.features.linear import PCA, Standardize
from labeldp.features.patches import PatchFeatures
from labeldp.features.pretrained import PretrainedImages
from labeldp.features.representation import Representation, represent
from labeldp.features.selfsupervised import SelfSupervised
from labeldp.features.tables import TableFeatures
from labeldp.features.text import HashedText, TextFeatures

__all__ = [
    "PCA",
    "Cache",
    "HashedText",
    "PatchFeatures",
    "PretrainedImages",
    "PublicStage",
    "Representation",
    "SelfSupervised",
    "SpectralEmbedding",
    "Standardize",
    "TableFeatures",
    "TextFeatures",
    "UmapEmbedding",
    "represent",
]
