"""Releases: the frozen results that leave the owner, and their files."""

from labeldp.release.base import Release, Stamp
from labeldp.release.clusters import ClusterRelease
from labeldp.release.files import FORMAT_VERSION, manifest_of, read_release
from labeldp.release.laws import laws_of_counts
from labeldp.release.rows import LabelledRelease, RowRelease, TableRelease
from labeldp.release.seal import seal
from labeldp.release.service import LabelService
from labeldp.release.statistics import BagRelease, CountRelease, HistogramRelease, VectorRelease

__all__ = [
    "FORMAT_VERSION",
    "BagRelease",
    "ClusterRelease",
    "CountRelease",
    "HistogramRelease",
    "LabelService",
    "LabelledRelease",
    "Release",
    "RowRelease",
    "Stamp",
    "TableRelease",
    "VectorRelease",
    "laws_of_counts",
    "manifest_of",
    "read_release",
    "seal",
]
