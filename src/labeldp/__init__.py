"""labeldp: label differential privacy.

The features of a training set are known to the learner, the labels are not, and each label stays deniable.

>>> import labeldp as ldp
>>> space = ldp.LabelSpace(["<=50K", ">50K"])
>>> release = ldp.privatize(["<=50K", ">50K", "<=50K"], ldp.RandomizedResponse(space, epsilon=1.0))
>>> release.guarantee.epsilon(delta=0)
1.0
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeldp import errors, features, learn, testing
    from labeldp.channels import (
        FiniteChannel,
        PriorRandomizedResponse,
        RandomizedResponse,
        ResampledResponse,
        TableChannel,
        TopKRandomizedResponse,
        best_channel,
    )
    from labeldp.coins import KeyedCoins, SeededCoins, SystemCoins
    from labeldp.curator import Curator, privatize
    from labeldp.guarantee.ledger import Budget, Ledger
    from labeldp.guarantee.value import Estimate, Guarantee
    from labeldp.labels import LabelSpace, RawLabels
    from labeldp.mechanisms import BagCounts, ClusterPriorResponse, LabelHistogram
    from labeldp.noise import DiscreteGaussian, DiscreteLaplace
    from labeldp.release import (
        BagRelease,
        ClusterRelease,
        HistogramRelease,
        LabelService,
        Release,
        RowRelease,
        TableRelease,
        VectorRelease,
        read_release,
    )

_HOME = {
    "BagCounts": "mechanisms",
    "BagRelease": "release",
    "Budget": "guarantee.ledger",
    "ClusterPriorResponse": "mechanisms",
    "ClusterRelease": "release",
    "Curator": "curator",
    "DiscreteGaussian": "noise",
    "DiscreteLaplace": "noise",
    "Estimate": "guarantee.value",
    "FiniteChannel": "channels",
    "Guarantee": "guarantee.value",
    "HistogramRelease": "release",
    "KeyedCoins": "coins",
    "LabelHistogram": "mechanisms",
    "LabelService": "release",
    "LabelSpace": "labels",
    "Ledger": "guarantee.ledger",
    "PriorRandomizedResponse": "channels",
    "RandomizedResponse": "channels",
    "RawLabels": "labels",
    "Release": "release",
    "ResampledResponse": "channels",
    "RowRelease": "release",
    "SeededCoins": "coins",
    "SystemCoins": "coins",
    "TableChannel": "channels",
    "TableRelease": "release",
    "TopKRandomizedResponse": "channels",
    "VectorRelease": "release",
    "best_channel": "channels",
    "privatize": "curator",
    "read_release": "release",
}
_MODULES = ("channels", "coins", "curator", "errors", "features", "guarantee", "learn", "mechanisms", "noise",
            "release", "testing")  # fmt: skip

__all__ = [
    "BagCounts",
    "BagRelease",
    "Budget",
    "ClusterPriorResponse",
    "ClusterRelease",
    "Curator",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Estimate",
    "FiniteChannel",
    "Guarantee",
    "HistogramRelease",
    "KeyedCoins",
    "LabelHistogram",
    "LabelService",
    "LabelSpace",
    "Ledger",
    "PriorRandomizedResponse",
    "RandomizedResponse",
    "RawLabels",
    "Release",
    "ResampledResponse",
    "RowRelease",
    "SeededCoins",
    "SystemCoins",
    "TableChannel",
    "TableRelease",
    "TopKRandomizedResponse",
    "VectorRelease",
    "best_channel",
    "errors",
    "features",
    "learn",
    "privatize",
    "read_release",
    "testing",
]


def __getattr__(name: str) -> Any:  # whatever is asked for
    if name in _HOME:
        value = getattr(importlib.import_module(f"labeldp.{_HOME[name]}"), name)
    elif name in _MODULES:
        value = importlib.import_module(f"labeldp.{name}")
    elif name == "__version__":
        from importlib.metadata import version

        value = version("labeldp")
    else:
        raise AttributeError(f"module 'labeldp' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    own = {name for name in globals() if name.startswith("__")}
    return sorted({*own, *__all__, *_MODULES, "__version__"})
