"""Mechanisms: who gets which channel or noise."""

from labeldp.mechanisms.histogram import LabelHistogram

__all__ = ["LabelHistogram"]
