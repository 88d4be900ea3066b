# Every target works on a fresh clone as the only command: python3 (3.11 or later) and make are enough.
#
#   make demo [ARGS=...]    the tour: labels in, a release, a model, a picture
#   make test               tests with doctests, the built wheel, then lint
#   make test-long          all tests, also those which take minutes, with more examples
#   make bench              benchmarks against peers          (ARGS are passed on)
#   make experiments        tables and figures of the papers  (ARGS are passed on)
#   make lint               ruff, mypy --strict, import contracts
#   make docs               the documentation, into site/
#   make wheel-test         build the wheel, install it alone, try it
#   make clean              remove everything that was made

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:

PYTHON  ?= python3
WORKERS ?= 2
ARGS    ?=

PY  := .venv/bin/python
PIP := $(PY) -m pip --disable-pip-version-check -qq

export PYTHONUTF8 := 1
export PIP_NO_INPUT := 1

# Tests run in as many processes as there are cores: threads of their own would only wait for each other.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1

.PHONY: help demo test test-long pytest bench experiments lint docs wheel-test clean

help:
	@sed -n 's/^#   //p' Makefile

# --- environments: one directory, five depths; made again when pyproject.toml changes -------------------

define new-venv
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 11) else "labeldp needs Python 3.11 or later; this is %d.%d. Try: make PYTHON=python3.12 ..." % v[:2])'
	@$(PY) -c '' 2>/dev/null || { rm -rf .venv; $(PYTHON) -m venv .venv; }
endef

.venv/.base: pyproject.toml
	$(new-venv)
	@echo "Installing labeldp into .venv ..."
	@$(PIP) install -e .
	@touch $@

.venv/.stamp: pyproject.toml
	$(new-venv)
	@echo "Installing labeldp and the development tools into .venv ..."
	@$(PIP) install -e '.[dev]'
	@touch .venv/.base $@

.venv/.bench: .venv/.stamp
	@echo "Installing the peers into .venv ..."
	@$(PIP) install -e '.[dev,bench]'
	@touch $@

# The CPU build, pinned and first, so that the open range of the extra does not fetch another one.
.venv/.torch: .venv/.stamp
	@echo "Installing torch into .venv ..."
	@$(PIP) install torch==2.13.0
	@$(PIP) install -e '.[dev,torch]'
	@touch $@

.venv/.experiments: .venv/.torch
	@echo "Installing what the experiments need into .venv ..."
	@$(PIP) install -e '.[dev,experiments]'
	@touch $@

# --- what people run ------------------------------------------------------------------------------------

demo: .venv/.base
	@$(PY) -m labeldp.demo $(ARGS)

test: pytest wheel-test lint

pytest: .venv/.stamp
	@$(ONE_THREAD) $(PY) -m pytest -n $(WORKERS) -m 'not long' --doctest-modules tests src/labeldp $(ARGS)

test-long: .venv/.stamp
	@$(ONE_THREAD) LABELDP_LONG=1 $(PY) -m pytest -n $(WORKERS) --doctest-modules tests src/labeldp $(ARGS)

lint: .venv/.stamp
	@.venv/bin/ruff check .
	@.venv/bin/ruff format --check .
	@.venv/bin/mypy --strict src
	@.venv/bin/lint-imports --no-logo

bench: .venv/.bench
	@if [ -d benchmarks ]; then $(PY) -m benchmarks $(ARGS); \
	else echo "There are no benchmarks yet: the package benchmarks/ does not exist."; fi

experiments: .venv/.experiments
	@$(PY) -m experiments $(ARGS)

docs: .venv/.stamp
	@NO_MKDOCS_2_WARNING=1 .venv/bin/mkdocs build --strict --quiet --site-dir site
	@echo "Documentation: site/index.html"

# The wheel alone: built from the sdist, installed into an environment of its own which borrows the
# dependencies of .venv through a .pth file (a .pth inside a borrowed directory is not followed, so the
# editable install stays out), and tried in a directory from which neither src nor tests can be seen.
wheel-test: .venv/.stamp
	@rm -rf build/wheel .venv-wheel
	@$(PY) -m build --no-isolation --outdir build/wheel . >build.log 2>&1 || { cat build.log; rm -f build.log; exit 1; }
	@rm -f build.log
	@$(PYTHON) -m venv --without-pip .venv-wheel
	@$(PIP) --python .venv-wheel/bin/python install --no-deps --no-index build/wheel/labeldp-*.whl
	@$(PY) -c 'import sysconfig; print(sysconfig.get_path("purelib"))' \
	  > "$$(.venv-wheel/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/borrowed.pth"
	@away=$$(mktemp -d); trap 'rm -rf "$$away"' EXIT; python="$$PWD/.venv-wheel/bin/python"; \
	  mkdir "$$away/tests"; cp tests/conftest.py tests/test_wheel_smoke.py "$$away/tests"; cp pyproject.toml "$$away"; \
	  cd "$$away"; LABELDP_WHEEL_TEST=1 "$$python" -m pytest -q -p no:cacheprovider tests

clean:
	rm -rf .venv .venv-wheel build dist site .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
