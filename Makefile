# Every target makes what it needs: on a fresh machine with Python >= 3.11.4 and make, `make test` is enough.
#   PYTHON=python3.12   the interpreter that makes .venv (only used when there is no .venv yet)
#   ARGS="..."          more arguments for the target's command, for instance: make reproduce ARGS=--help

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.fedlib-installed
SITE_STAMP := $(VENV)/.fedlib-site-installed
COURSE_STAMP := $(VENV)/.fedlib-course-installed
ARGS ?=
IDEAS := 01 02 03 04 05 06 08

.DEFAULT_GOAL := help
.PHONY: help setup reproduce test faults lint notebooks lab figures docs site course compare clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-10s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

setup: $(STAMP)  ## make .venv with fedlib and everything it needs (done once; the other targets call it)

# The stamp is written last, so an interrupted installation is taken up again.
$(STAMP): pyproject.toml constraints.txt
	@python="$(PYTHON)"; if [ -x $(BIN)/python ]; then python=$(BIN)/python; fi; \
	version=$$("$$python" --version 2>&1) || version="does not run"; \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11, 4))' 2>/dev/null || { \
	    echo "fedlib needs Python >= 3.11.4, but $$python: $$version. Delete $(VENV) if there is one," \
	        "and name another interpreter, for instance: make setup PYTHON=python3.12" >&2; exit 1; }
	@if ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	    "$(PYTHON)" -c 'import ensurepip, venv' 2>/dev/null || { \
	        echo "$(PYTHON) cannot make a virtual environment: venv or ensurepip is missing. Install it" \
	            "(Debian, Ubuntu: apt install python3-venv) or use conda with environment.yml" >&2; exit 1; }; \
	    "$(PYTHON)" -m venv --clear $(VENV); \
	fi
	@echo "Installing fedlib into $(VENV) (the first time PyTorch is downloaded: several minutes) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	@touch $@
	@echo "$(VENV) is ready."

# Kernels wait while they start and end: three keep two cores busy.
reproduce: setup  ## run the notebooks headlessly: every figure and table, beside the papers' values
	@$(BIN)/fedlib reproduce --jobs 3 $(ARGS)

# One process per core, each on one thread; the tests of a file stay together and in order, and
# files with slow ones come first (tests/conftest.py).
test: lint  ## all checks: style, types, tests
	@$(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder $(ARGS)

# Not lint: fault injection is repeated while its findings are mended.
faults: setup  ## all of the fault injection (make test runs a few cases of it)
	@FEDLIB_FAULTS=all $(BIN)/python -m pytest -n 2 --dist worksteal tests/faults $(ARGS)

lint: setup  ## style (ruff) and types (mypy) only
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

lab: setup  ## open the notebooks in JupyterLab
	@$(BIN)/jupyter lab --notebook-dir=notebooks $(ARGS)

notebooks: lab  ## the same as lab

# The pictures of the ideas are drawn by their notebooks, which train small problems only.
figures: setup  ## draw figures/ again: all figures and tables from the published runs, ideas, gallery
	@FEDLIB_FIGURES=figures $(BIN)/fedlib figures $(ARGS)
	@FEDLIB_FIGURES=figures $(BIN)/fedlib reproduce --jobs 3 $(IDEAS)
	@$(BIN)/python -m docs.gallery

docs: setup  ## write the tables of docs/ anew, from the notebooks and the published runs
	@$(BIN)/python -m docs.tables

# What Sphinx needs is installed by the first `make site`, not by the others.
$(SITE_STAMP): $(STAMP)
	@echo "Installing what the site needs into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,site]"
	@touch $@

site: $(SITE_STAMP)  ## build/site/index.html: notebooks, gallery, API (ARGS=--no-execute: runs no notebook)
	@$(BIN)/python -m docs.sitemaker $(ARGS)
	@rm -rf build/site
	@$(BIN)/python -m sphinx -nWqE --keep-going build/site-work/source build/site
	@echo "build/site/index.html"

# Likewise nbgrader and reveal.js.
$(COURSE_STAMP): $(STAMP)
	@echo "Installing what the course needs into $(VENV) ..."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,course]"
	@touch $@

course: $(COURSE_STAMP)  ## build/course: assignments for students and instructors, slides
	@$(BIN)/python -m docs.coursemaker $(ARGS)

compare: setup  ## the papers' values against ours
	@$(BIN)/fedlib compare $(ARGS)

clean:  ## remove build products and caches; data, figures and .venv stay
	@rm -rf build dist fedlib.egg-info .pytest_cache .mypy_cache .ruff_cache .coverage
	@for folder in fedlib tests notebooks; do \
	    [ ! -d $$folder ] || find $$folder \( -name __pycache__ -o -name .ipynb_checkpoints \) -type d -prune -exec rm -rf {} +; \
	done
