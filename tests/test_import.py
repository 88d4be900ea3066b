"""What `import labeldp` costs, and which names it offers."""

from __future__ import annotations

import ast
import importlib
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import labeldp as ldp

_ROOT = Path(__file__).parent.parent
_PROJECT = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
_MODULE_OF = {"scikit-learn": "sklearn", "dp-accounting": "dp_accounting"}
#: Parts of the standard library which take their time.
_HEAVY_PARTS = {"asyncio", "decimal", "fractions", "http", "multiprocessing", "sqlite3", "ssl", "unittest", "uuid"}


def dependencies() -> set[str]:
    """Return the modules of everything that the package depends on, extras included."""
    extras = _PROJECT["optional-dependencies"]
    wanted = _PROJECT["dependencies"] + [line for name in ("torch", "spark", "service", "dev") for line in extras[name]]
    names = [re.split(r"[\s<>=!~;\[]", line, maxsplit=1)[0].lower() for line in wanted]
    return {_MODULE_OF.get(name, name.replace("-", "_")) for name in names}


def loaded_by(code: str) -> set[str]:
    """Return the top-level modules that ``code`` loads in a process of its own."""
    script = (
        "import json, sys\n"
        "before = set(sys.modules)\n"
        f"{code}\n"
        "print(json.dumps(sorted({name.partition('.')[0] for name in set(sys.modules) - before})))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_importing_the_package_loads_nothing_heavy() -> None:
    """`import labeldp` loads none of its dependencies, NumPy included, and no slow part of the standard library."""
    loaded = loaded_by("import labeldp")

    assert "labeldp" in loaded
    assert set() == loaded & (dependencies() | _HEAVY_PARTS)


def test_listing_the_names_loads_nothing_heavy() -> None:
    """Looking at what there is, as an editor does, loads nothing either."""
    assert set() == loaded_by("import labeldp; dir(labeldp); labeldp.__all__") & (dependencies() | _HEAVY_PARTS)


@pytest.mark.parametrize(
    ("code", "seen"),
    [
        ("import labeldp; labeldp.LabelSpace", "numpy"),
        ("import labeldp; labeldp.Ledger", "sqlite3"),
        ("import labeldp, sklearn", "sklearn"),
        ("import labeldp, dp_accounting", "dp_accounting"),
    ],
)
def test_a_heavy_import_would_be_seen(code: str, seen: str) -> None:
    """The test above could fail: what is loaded shows, by the very name that is looked for."""
    assert seen in loaded_by(code) & (dependencies() | _HEAVY_PARTS)


def test_the_list_of_heavy_modules_is_complete() -> None:
    """The dependencies are read from the project's file, under the names they are imported by."""
    assert dependencies() >= {
        "cryptography",
        "dp_accounting",
        "jinja2",
        "matplotlib",
        "narwhals",
        "numpy",
        "pandas",
        "polars",
        "pyarrow",
        "pyspark",
        "rich",
        "scipy",
        "sklearn",
        "torch",
        "typer",
    }


def test_a_release_needs_no_learner_s_library() -> None:
    """Releasing labels loads no estimators, no accountant, no plots and no data frames (Arrow itself loads pandas)."""
    code = (
        "import labeldp as ldp\n"
        "space = ldp.LabelSpace(['a', 'b'])\n"
        "ldp.privatize(['a', 'b'], ldp.RandomizedResponse(space, 1.0)).guarantee.epsilon()"
    )

    loaded = loaded_by(code)

    assert {"numpy", "cryptography"} <= loaded
    assert set() == loaded & {"dp_accounting", "matplotlib", "polars", "rich", "scipy", "sklearn", "torch"}


def test_all_names_every_public_name() -> None:
    """`__all__` is sorted, and holds what the lazy table can give, and three modules meant for users."""
    assert ldp.__all__ == sorted(ldp.__all__, key=lambda name: (name.islower(), name))
    assert set(ldp.__all__) == {*ldp._HOME, *(set(ldp._MODULES) & set(ldp.__all__))}
    assert {"errors", "learn", "testing"} <= set(ldp.__all__) & set(ldp._MODULES)


def test_dir_shows_the_public_names_and_no_others() -> None:
    """`dir(labeldp)` has no name that only the module itself needs, whatever was loaded before."""
    shown = {name for name in dir(ldp) if not name.startswith("__")}

    assert shown == {*ldp.__all__, *ldp._MODULES}
    assert {"__version__", "__all__", "__doc__", "__file__", "__path__"} <= set(dir(ldp))
    assert dir(ldp) == sorted(set(dir(ldp)))


@pytest.mark.parametrize("name", [*ldp.__all__, *ldp._MODULES, "__version__"])
def test_every_name_can_be_had_and_stays_the_same(name: str) -> None:
    """What `dir()` shows is there, comes from the module it is said to come from, and is kept."""
    value = getattr(ldp, name)

    assert getattr(ldp, name) is value
    if name in ldp._HOME:
        assert value is getattr(importlib.import_module(f"labeldp.{ldp._HOME[name]}"), name)
    elif name in ldp._MODULES:
        assert value is sys.modules[f"labeldp.{name}"]


def test_type_checkers_see_the_same_names() -> None:
    """The imports for type checkers name each public name, from the module where it is found at run time."""
    tree = ast.parse(Path(str(ldp.__file__)).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    imports = [node for node in block.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: node.module for node in imports for alias in node.names}
    modules = {name for name, module in seen.items() if module == "labeldp"}

    assert modules == set(ldp.__all__) & set(ldp._MODULES)
    assert {name: f"labeldp.{home}" for name, home in ldp._HOME.items()} == {
        name: module for name, module in seen.items() if name not in modules
    }


@pytest.mark.parametrize("name", ["Nothing", "labelspace", "_secret", "np"])
def test_an_unknown_name_is_an_attribute_error(name: str) -> None:
    """A name that does not exist says so, in the words Python uses."""
    assert not hasattr(ldp, name)
    with pytest.raises(AttributeError, match=f"module 'labeldp' has no attribute '{name}'"):
        getattr(ldp, name)
    with pytest.raises(ImportError, match=name):
        exec(f"from labeldp import {name}", {})


def test_a_star_import_brings_what_all_promises() -> None:
    """`from labeldp import *` gives the public names and nothing else."""
    brought: dict[str, object] = {}

    exec("from labeldp import *", brought)

    assert set(brought) - {"__builtins__"} == set(ldp.__all__)
