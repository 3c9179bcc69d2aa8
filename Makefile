# Everything is installed into .venv, again whenever pyproject.toml or constraints.txt is newer than the stamp file.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
DOCS_STAMP := $(VENV)/installed-docs
EXTRAS_STAMP := $(VENV)/installed-extras
CONSTRAINTS ?= constraints.txt
INSTALL := $(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable
# Install the CPU build of torch before everything else: on Linux, the build on PyPI downloads several gigabytes of CUDA.
# pip looks in the folder PIP_FIND_LINKS first, without a network. An installed torch of the same version stays.
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
define INSTALL_TORCH
@install="$(BIN)/python -m pip install --quiet --no-deps --constraint $(CONSTRAINTS) torch"; \
  if [ -n "$$PIP_FIND_LINKS" ] && $$install --no-index 2> /dev/null; then exit 0; fi; \
  echo 'torch from $(TORCH_INDEX), unless it is installed; docs/installing.md says how to get CUDA'; \
  $$install --retries 1 --index-url $(TORCH_INDEX) || \
  { echo 'error: no torch in $(TORCH_INDEX); set TORCH_INDEX, see docs/installing.md' >&2; exit 2; }
endef
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal

.PHONY: train test test-all test-slow extras lint types docs pages reference site wheel lock clean

train: $(STAMP)
	$(BIN)/nmt-train

# The tests for every change of the code, in a few minutes on two cores.
test: $(STAMP)
	$(PYTEST) -m "not slow and not thorough"

# All tests: also those of killed commands, pages, tables, damaged files and every kind of export.
test-all: $(STAMP)
	$(PYTEST)

# What `make test-all` leaves out: more kinds, more random cases, more killed runs. It takes hours.
test-slow: $(STAMP)
	$(PYTEST) -m slow --ignore tests/test_readme.py

# Everything that CI needs, in one call of pip. Without it, the tests of the site are skipped.
extras: $(EXTRAS_STAMP)

lint: $(STAMP)
	$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy

docs: pages site

pages: $(DOCS_STAMP)
	$(PYTEST) -m "" tests/test_readme.py tests/test_docs.py

# Write the parts of the pages that come from code, settings and results.
reference: $(STAMP)
	$(BIN)/python docs/generate.py

site: $(DOCS_STAMP)
	$(BIN)/sphinx-build --quiet --fail-on-warning --nitpicky --jobs 2 docs docs/_build/html

wheel: | $(BIN)/python
	rm -rf dist && $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

# Write constraints.txt again with uv. UPGRADE=--upgrade takes the newest versions. torch itself pins its CUDA packages.
lock:
	uv pip compile pyproject.toml --quiet --universal --python-version 3.11 $(UPGRADE) --no-header --no-annotate \
	  $(addprefix --extra=,dev docs ja ko) --output-file constraints.txt
	sed -i -E '/^(cuda|nvidia|triton)/d' constraints.txt
	sed -i '1i # Exact versions for Python 3.11 and newer, written by make lock.' constraints.txt

clean:
	rm -rf $(VENV) dist docs/_build

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'error: $(PYTHON) is older than Python 3.11; try make PYTHON=python3.12' >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(STAMP): pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(INSTALL_TORCH)
	$(INSTALL) '.[dev]'
	touch $@

$(DOCS_STAMP): $(STAMP)
	$(INSTALL) '.[docs]'
	touch $@

$(EXTRAS_STAMP): pyproject.toml $(CONSTRAINTS) | $(BIN)/python
	$(INSTALL_TORCH)
	$(INSTALL) '.[dev,docs]'
	touch $(STAMP) $(DOCS_STAMP) $@
