"""Mechanisms: who gets which channel or noise."""

from labeldp.mechanisms.bags import BagCounts
from labeldp.mechanisms.cluster_prior import ClusterPriorResponse
from labeldp.mechanisms.histogram import LabelHistogram

__all__ = ["BagCounts", "ClusterPriorResponse", "LabelHistogram"]
