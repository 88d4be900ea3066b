"""Tables and figures of the papers, measured: one module for each, results as files.

``python -m experiments`` (or ``make experiments``) runs everything and writes ``experiments/results/<letter>-<name>.json``
with a picture beside it.  A module that holds ``EXPERIMENT`` is found by its name: ``d_rr_baseline.py`` is
``D-rr-baseline``.
"""

from __future__ import annotations
