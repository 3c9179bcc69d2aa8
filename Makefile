# Everything is installed into .venv, again whenever pyproject.toml or constraints.txt is newer than the stamp file.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
DOCS_STAMP := $(VENV)/installed-docs
EXTRAS_STAMP := $(VENV)/installed-extras
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt --editable
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: train test test-all extras lint types docs pages site wheel clean

train: $(STAMP)
	$(BIN)/nmt-train

# The tests for every change of the code, in a few minutes on two cores.
test: $(STAMP)
	$(PYTEST) -m "not slow and not thorough"

# All tests: also those of killed commands, pages, tables, damaged files and every kind of export.
test-all: $(STAMP)
	$(PYTEST)

# Everything that CI needs, in one call of pip. Without it, the tests of datasets and of the site are skipped.
extras: $(EXTRAS_STAMP)

lint: $(STAMP)
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

docs: pages site

pages: $(DOCS_STAMP)
	$(PYTEST) -m "" tests/test_readme.py tests/test_docs.py

site: $(DOCS_STAMP)
	$(BIN)/sphinx-build --quiet --fail-on-warning --nitpicky --jobs 2 docs docs/_build/html

wheel: $(STAMP)
	rm -rf dist && $(BIN)/python -m build --wheel

clean:
	rm -rf $(VENV) dist docs/_build

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'error: $(PYTHON) is older than Python 3.11; try make PYTHON=python3.12' >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) '.[dev]'
	touch $@

$(DOCS_STAMP): $(STAMP)
	$(INSTALL) '.[docs]'
	touch $@

$(EXTRAS_STAMP): pyproject.toml constraints.txt | $(BIN)/python
	$(INSTALL) '.[dev,docs,hub]'
	touch $(STAMP) $(DOCS_STAMP) $@
