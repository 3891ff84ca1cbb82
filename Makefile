# `make demo` and `make test` set everything up by themselves and are quick when already set up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test lint types fast test-slow bench clean integrations docs wheel try lowest

demo: $(READY)
	$(BIN)/elmore demo

test: lint types fast

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# Two workers with one thread each: many small models, none of which can use more. A file stays with
# one worker, so that what its tests share is made once.
fast: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -n 2 --dist loadfile -m "not slow" -rs

# What the tests of docs/integrations.md want; without them those tests skip, and say so.
integrations: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,integrations]'

test-slow: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -m slow

# Embedding speed beside AllenNLP's; TEXT is a file with one sentence a line.
bench: $(READY)
	benchmarks/peers.sh
	$(BIN)/python benchmarks/embed.py --text $(TEXT) --growth --write-docs

# The documentation site, in build/site. Fails on links that lead nowhere. Once its tools are
# installed, it needs no network.
docs: $(VENV)/.docs
	PATH=$(CURDIR)/$(BIN):$$PATH $(BIN)/zensical build --strict --clean
	$(BIN)/python scripts/check_site.py build/site

$(VENV)/.docs: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,docs]'
	touch $@

# A wheel for any Linux of 2017 or later, and the sdist, in dist/.
wheel: $(READY)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev,release]'
	scripts/wheel.sh $(CURDIR)/$(BIN)/python dist

# A part of the tests in a new environment: with another Python, or with the oldest versions of
# what pyproject.toml names.
try:
	scripts/try_python.sh $(PYTHON)

lowest:
	scripts/try_python.sh $(PYTHON) --lowest

# The kernel's source too: installing compiles it.
KERNEL := $(wildcard src/elmore/engine/native/*.cpp src/elmore/engine/native/*.h)
KERNEL += src/elmore/kernel_files.py hatch_build.py

$(READY): pyproject.toml constraints.txt $(KERNEL)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
