# Each target sets up what it needs: a Python of 3.11 or later, make and git are enough.
# Another interpreter: make test PYTHON=/path/to/python3.13

SHELL := /bin/sh
.DEFAULT_GOAL := help
# What is asked for is done in its order; what may be done side by side is left to a make of its own.
ifeq ($(MAKELEVEL),0)
.NOTPARALLEL:
endif
SIDE_BY_SIDE := $(MAKE) --no-print-directory -j 4 $(if $(filter 3.%,$(MAKE_VERSION)),,--output-sync=line)
# Tests start hundreds of processes, none of which should have to compile what is imported.
unexport PYTHONDONTWRITEBYTECODE

VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.installed-core
DEV := $(VENV)/.installed-dev
PEERS := .peers
PYTHONS := $(VENV)/.installed-pythons
# What is imported is compiled then: that is a third of what there is.
PIP_INSTALL := $(BIN)/python -m pip install -q --no-compile --disable-pip-version-check -c constraints.txt
CHECKS := basedpyright mypy style layers
# Many tests wait for other processes: three at a time keep two cores busy. Each gets the next test when it has done one.
PYTEST := $(BIN)/python -m pytest -n 3 --dist load --maxschedchunk 1
# Of what runs on PostgreSQL, that which says what is sent to it. All else sees a store, and the suite has held that.
STORES := tests/store tests/servers tests/cli/test_db.py tests/engine/test_lifecycle.py \
	--ignore tests/store/test_postgres_pooled.py
CANDIDATES := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)

.PHONY: help
help: ## Show what can be made
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)$$/\1|\2/p' Makefile | while IFS='|' read -r name text; do \
		printf '  make %-12s %s\n' "$$name" "$$text"; \
	done

.PHONY: demo
demo: $(CORE) ## Kill a workflow in the middle and watch it go on
	@$(BIN)/python -m perdure demo

.PHONY: test
test: $(BIN)/python ## Everything that must hold: make check, then the tests
	@$(SIDE_BY_SIDE) $(DEV) packages $(PYTHONS)
	@$(SIDE_BY_SIDE) $(CHECKS) compiled
	@$(PYTEST) --ignore tests/typing
	@echo "once more what an older PostgreSQL could do otherwise"
	@PERDURE_TEST_POSTGRES_VERSION=16 $(PYTEST) -m 'postgres and not crash' $(STORES)

.PHONY: storm
storm: $(DEV) packages $(PYTHONS) ## The tests with every cut and many kills, on both servers: takes long
	@PERDURE_STORM=1 $(PYTEST)
	@PERDURE_STORM=1 PERDURE_TEST_POSTGRES_VERSION=16 $(PYTEST) -m postgres

.PHONY: check
check: $(DEV) ## Style, types and layers, without running anything
	@$(SIDE_BY_SIDE) $(CHECKS)

.PHONY: $(CHECKS)
style: $(DEV)
	@$(BIN)/ruff check
	@$(BIN)/ruff format --check
mypy: $(DEV)
	@$(BIN)/mypy
basedpyright: $(DEV)
	@$(BIN)/basedpyright --pythonpath $(BIN)/python
layers: $(DEV)
	@$(BIN)/lint-imports --no-logo

# Once, and not by each of those that then share the tests.
.PHONY: compiled
compiled: $(DEV)
	@said=$$($(BIN)/python -m pytest --collect-only -qq --ignore tests/typing 2>&1) || { echo "$$said"; exit 1; }

.PHONY: fix
fix: $(DEV) ## Format the code and apply the safe fixes
	@$(BIN)/ruff check --fix
	@$(BIN)/ruff format

.PHONY: docs
docs: $(DEV) ## Build the documentation as a site, into build/site
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "build/site/index.html; with search: $(BIN)/python -m http.server --directory build/site --bind 127.0.0.1"

.PHONY: bench
bench: $(DEV) ## Measure the engine beside what the disk allows
	@$(BIN)/python -m benchmarks.bench $(WORKLOADS)

.PHONY: bench-large
bench-large: $(DEV) ## Measure stores of millions of rows beside small ones
	@$(BIN)/python -m benchmarks.large $(DATABASES)
	@$(BIN)/python -m benchmarks.waiting $(DATABASES)

.PHONY: bench-peers
bench-peers: $(DEV) $(PEERS)/.installed ## Measure DBOS and Absurd beside it, on one PostgreSQL server
	@$(BIN)/python -m benchmarks.peers --peers $(PEERS) $(WORKLOADS)

.PHONY: clean
clean: ## Remove the environment, caches and builds
	rm -rf $(VENV) $(PEERS) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

# Names on PATH may be shims that lead nowhere, so each is asked for its version.
$(BIN)/python:
	@found=; \
	for python in $(CANDIDATES); do \
		if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then \
			found=$$python; break; \
		fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo "Perdure needs Python 3.11 or later; looked for: $(CANDIDATES)." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3" >&2; \
		exit 1; \
	fi; \
	echo "making $(VENV) with $$("$$found" --version)"; \
	rm -rf $(VENV); \
	if "$$found" -c 'import ensurepip' >/dev/null 2>&1; then \
		"$$found" -m venv $(VENV); \
	elif "$$found" -m virtualenv --version >/dev/null 2>&1; then \
		echo "this Python has no ensurepip; using virtualenv"; \
		"$$found" -m virtualenv -q $(VENV); \
	else \
		echo "$$found can make no environment with pip: its ensurepip is missing, and so is virtualenv." >&2; \
		echo "Install one of them (on Debian and Ubuntu: apt install python3-venv) and try again." >&2; \
		exit 1; \
	fi

$(CORE): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing perdure"
	@$(PIP_INSTALL) -e .
	@touch $(CORE)

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing perdure and its tools"
	@$(PIP_INSTALL) -e '.[dev]'
	@touch $(CORE) $(DEV)

# What one Python has recorded must go on under another: the other ones of this machine, if there are any.
$(PYTHONS): pyproject.toml constraints.txt tests/pythons.py | $(BIN)/python
	@$(BIN)/python -m tests.pythons $(VENV)/pythons
	@touch $(PYTHONS)

# They are measured, not used: no environment of ours has them.
$(PEERS)/.installed: benchmarks/peers/requirements.txt | $(DEV)
	@echo "installing the peers"
	@rm -rf $(PEERS)
	@$(BIN)/python -m pip install -q --disable-pip-version-check --target $(PEERS) -r benchmarks/peers/requirements.txt
	@touch $(PEERS)/.installed

# PostgreSQL comes as a wheel; PgBouncer does not, and the Chromium that Playwright would download is not to be had everywhere.
.PHONY: packages
packages:
	@need=; PATH="$$PATH:/usr/sbin:/usr/local/sbin"; \
	command -v pgbouncer >/dev/null || need=pgbouncer; \
	command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		need="$$need chromium"; \
	if [ -z "$$need" ]; then exit 0; fi; \
	echo "installing $$need"; \
	if [ "$$(id -u)" = 0 ]; then root=; else root="sudo -n"; fi; \
	install="$$root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends $$need"; \
	if $$install >/dev/null 2>&1; then exit 0; fi; \
	if $$root apt-get update -qq && $$install >/dev/null; then exit 0; fi; \
	echo "The tests need PgBouncer and Chromium, and cannot install:$$need." >&2; \
	echo "Install them (Debian, Ubuntu: apt install pgbouncer chromium) and try again." >&2; \
	exit 1
