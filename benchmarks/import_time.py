"""What ``import labeldp`` costs, each time in a fresh process."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from typing import Any, Final

from benchmarks.harness import Bar, Benchmark, Case, Measured, Scale, Subject

_PROGRAM: Final = """
import time
began = time.perf_counter()
{statement}
seconds = time.perf_counter() - began
import json
# Not getrusage: what it says is inherited from the process that forked.
peak = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps([seconds, int(peak) / 1024]))
"""
_RELEASE: Final = """
import labeldp as ldp
ldp.privatize(["no", "yes"], ldp.RandomizedResponse(ldp.LabelSpace(["no", "yes"]), 1.0)).codes
"""
_REPEATS: Final = 15


def cases(scale: Scale) -> Iterator[Case]:
    """One case: the import, and for comparison the import up to a first release."""
    subjects = [
        Subject("labeldp", lambda: _run("import labeldp"), _check),
        Subject("labeldp, to the first release", lambda: _run(_RELEASE), _check, note="everything it loads lazily"),
        Subject("numpy", lambda: _run("import numpy"), _check),
        Subject("python", lambda: _run("pass"), _check, note="nothing imported"),
    ]
    # Repeats of a quick run are few; otherwise exactly as many as the bar says.
    times = scale.fewest if scale.rows is not None else _REPEATS
    yield Case(
        f"import, median of {times} processes", subjects, "numpy", [Bar("labeldp", ("numpy",), 0.5)], repeats=times
    )


def _run(statement: str) -> Measured:
    program = [sys.executable, "-c", _PROGRAM.format(statement=statement)]
    done = subprocess.run(program, check=True, capture_output=True, text=True)
    seconds, peak = json.loads(done.stdout)
    return Measured(seconds, peak)


def _check(result: Any) -> None:
    assert 0 <= result.seconds < 60
    assert 1 < result.peak_mib < 10_000


BENCHMARK: Final = Benchmark(
    "import-time",
    "time of an import statement in a fresh process, clocked inside it; peak_mib is the process's largest resident set",
    ("labeldp", "numpy"),
    cases,
)
