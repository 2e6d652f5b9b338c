# Everything runs inside .venv, which is made on first use and again only when pyproject.toml changes.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test test-slow lint types contract unit bench docs venv clean

demo: venv
	$(BIN)/shallowflow reproduce --demo --out demo

test: lint types contract unit

venv: $(READY)

$(READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev,docs]"
	touch $(READY)

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

contract: venv
	$(BIN)/lint-imports

unit: venv
	$(BIN)/pytest -n 2 -m "not slow"

test-slow: venv
	$(BIN)/pytest -m slow

bench: venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[bench]"
	$(BIN)/python -m benchmarks

docs: venv
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf .venv demo docs/_build
