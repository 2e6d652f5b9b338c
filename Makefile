# Everything runs inside .venv, which is made on first use and again only when pyproject.toml changes.
SHELL := bash
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
PIP_INSTALL := $(BIN)/python -m pip install --disable-pip-version-check
# What pip says, as one line that changes.
PACKAGES := { n=0; while read -r word name _; do case "$$word $$name" in \
	Collecting*) printf '\rpackages     %3d  %-40.40s' $$((++n)) "$$name";; \
	"Installing collected") printf '\rpackages     %3d  %-40s' $$n "being installed";; \
	"Successfully installed") printf '\rpackages     %3d  %-40s' $$n "installed";; esac; done; echo; }

export OMP_NUM_THREADS ?= 1
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test lint types contract docs unit test-slow test-torch coverage test-browser test-install test-processors bench venv clean

demo: venv
	$(BIN)/shallowflow reproduce --demo --out demo

test: lint types contract docs unit

venv: $(READY)

$(READY): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "environment  .venv, $$($(BIN)/python --version)"
	@set -o pipefail; $(PIP_INSTALL) --progress-bar off --editable ".[dev,docs]" | $(PACKAGES)
	@echo "kernels      compiled when first used (5 to 20 s for each kind), then kept beside their sources"
	@touch $(READY)

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: venv
	$(BIN)/mypy

contract: venv
	$(BIN)/lint-imports

docs: venv
	$(BIN)/sphinx-build -E -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

unit: venv
	$(BIN)/pytest -n 2 -m "not slow" -rs

test-slow: venv
	$(BIN)/pytest -m slow

# The PyTorch front, in an environment of its own: that of the tests and torch. Its processor build is enough (and
# hundreds of megabytes instead of gigabytes): it is taken where pip knows a source of it, else what pip finds.
TORCH_BIN := .venv/torch/bin
TORCH ?= torch==2.13.0+cpu
test-torch: venv
	@test -x $(TORCH_BIN)/python || $(PYTHON) -m venv .venv/torch
	@printf '%s\n' "$(CURDIR)/src" "$(CURDIR)"/.venv/lib/python*/site-packages \
	  > "$$(echo .venv/torch/lib/python*/site-packages)/tests.pth"
	@$(TORCH_BIN)/python -c "import torch" 2>/dev/null || \
	  $(TORCH_BIN)/python -m pip install --quiet --disable-pip-version-check "$(TORCH)" || \
	  { echo "test-torch: pip knows no $(TORCH); taking torch from its index"; \
	    $(TORCH_BIN)/python -m pip install --disable-pip-version-check "torch>=2.4"; }
	$(TORCH_BIN)/python -m pytest tests/probes

# Not part of the tests: which lines and branches they run. Compiled functions count as missed.
coverage: venv
	$(BIN)/pytest -n 2 -m "not slow" --cov --cov-report=term --cov-report=html
	@echo "htmlcov/index.html"

# The page in a real browser: also part of `make test` where Chromium is there. Node tests its pure parts,
# TypeScript (installed here, by npm) checks its types.
TSC := .venv/node/node_modules/.bin/tsc
test-browser: venv
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null || \
		{ echo "test-browser: needs Chromium (Debian: apt-get install chromium)"; exit 1; }
	@command -v node >/dev/null || echo "test-browser: without Node (Debian: apt-get install nodejs) pure parts are not tested"
	@test -x $(TSC) || command -v tsc >/dev/null || { command -v npm >/dev/null && \
		npm install --silent --no-fund --no-audit --prefix .venv/node typescript@5.9; } || \
		echo "test-browser: without npm, or TypeScript from it, types are not checked"
	$(BIN)/pytest tests/explorer -rs

# What a user gets: the package and its dependencies in an environment of its own, nothing else on the PATH.
USER_BIN := $(CURDIR)/.venv/user/bin
test-install: venv
	@rm -rf .venv/user && $(PYTHON) -m venv .venv/user
	PATH="$(USER_BIN)" pip install --quiet --disable-pip-version-check .
	cd .venv/user && PATH="$(USER_BIN)" python ../../tests/test_first_use.py
	cd .venv/user && ../bin/mypy --config-file= --strict --python-executable bin/python ../../tests/test_first_use.py

# The tests as other machines run them, each time with nothing compiled (-k: go on after a failure). NumPy,
# OpenBLAS and Numba choose their code by the processor, each by a variable of its own. Beside busy loops:
# no test depends on the time it takes.
PROCESSORS := $(addprefix test-on-,this x86-64 haswell avx512 busy)
.PHONY: $(PROCESSORS)
test-processors: $(PROCESSORS)

HAS = grep -qs $(1) /proc/cpuinfo
RUNS_HERE := true

test-on-x86-64: RUNS_HERE = $(call HAS,sse2)
test-on-x86-64: export NPY_DISABLE_CPU_FEATURES = X86_V3 X86_V4 AVX512_ICL
test-on-x86-64: export OPENBLAS_CORETYPE = Nehalem
test-on-x86-64: export NUMBA_CPU_NAME = generic
test-on-haswell: RUNS_HERE = $(call HAS,avx2)
test-on-haswell: export NPY_DISABLE_CPU_FEATURES = X86_V4 AVX512_ICL
test-on-haswell: export OPENBLAS_CORETYPE = Haswell
test-on-haswell: export NUMBA_CPU_NAME = haswell
test-on-haswell: export NUMBA_CPU_FEATURES = +avx,+avx2,+fma
test-on-avx512: RUNS_HERE = $(call HAS,avx512f)
test-on-avx512: export OPENBLAS_CORETYPE = SkylakeX
test-on-avx512: export NUMBA_CPU_NAME = skylake-avx512
test-on-busy: BESIDE = for _ in 1 2; do while :; do :; done & done;

$(PROCESSORS): venv
	@if ! $(RUNS_HERE); then echo "$@: not on this machine"; exit; fi; \
	caches=$$(mktemp -d); trap 'rm -rf $$caches; kill $$(jobs -p) 2>/dev/null || true' EXIT; \
	echo "$@"; $(BESIDE) NUMBA_CACHE_DIR=$$caches $(BIN)/pytest -n 2 -m "not slow"

bench: venv
	$(PIP_INSTALL) --quiet --editable ".[bench]"
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv demo docs/_build
