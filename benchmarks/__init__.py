"""Speed and memory of labeldp against other libraries and against physical limits, as ratios within one run.

``python -m benchmarks`` (or ``make bench``) measures everything and writes ``benchmarks/results/<name>.json``.
"""

from __future__ import annotations
