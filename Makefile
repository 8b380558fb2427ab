# Two commands do all the set-up on a fresh machine: `make run` and `make test`.
# The steps are in packaging/setup/; a stamp in $(VENV)/.stamps/ records each finished one.

PYTHON ?=
VENV ?= .venv
TORCH ?= auto
WORKERS ?= auto
ARGS ?=

ifeq ($(OS),Windows_NT)
$(error This Makefile is for Linux and macOS; on Windows use the pip commands in README.md)
endif

BIN := $(VENV)/bin
STAMPS := $(VENV)/.stamps
SETUP := packaging/setup
# Show progress of large downloads on a terminal, not in a log.
export PIP_QUIET := $(shell [ -t 2 ] || echo 1)
PIP := $(BIN)/python -m pip --disable-pip-version-check
# A runner imports a tenth of what is installed; compiling the rest takes half a minute.
export NO_COMPILE := $(if $(CI),--no-compile)
# Dependencies are checked by hash; Waymark itself is built with the installed tools.
LOCKED := $(PIP) install $(NO_COMPILE) --require-hashes --no-deps --only-binary :all:
OURSELVES := $(PIP) install --no-deps --no-build-isolation -e .
# Scripts under packaging/ import their siblings, so each of these folders is checked on its own.
SCRIPT_FOLDERS := $(sort $(dir $(wildcard packaging/*/*.py packaging/*/*/*.py)))

C_SOURCES := $(wildcard kernels/*/*.c kernels/*/*.h)

# Minutes each, by hand before a release; the suite runs a tenth of their cases.
LONG_TESTS := tests/promises/test_random_trees.py tests/cache/test_random_worlds.py tests/desktop/test_soak.py \
    tests/promises/test_speculation.py tests/promises/test_mtp_drafts.py

# What to shorten next.
SLOWEST := --durations=60 --durations-min=2

export PYTHON TORCH
# Or each test process compiles all tests again.
unexport PYTHONDONTWRITEBYTECODE

# Installers are built from pinned versions in their own environment.
INSTALLERS := packaging/installers
BUILT := build/installers
BUILDER := $(BUILT)/environment

.PHONY: help lock run test test-slow test-gpu test-remote test-arm64 test-long test-hostile bench bench-cache bench-reuse native installer test-installer check house format strings clean
.DELETE_ON_ERROR:

help: ## show this list
	@echo "Waymark. Usage: make TARGET"
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | awk -F'\t' '{ printf "  %-14s %s\n", $$1, $$2 }'
	@echo "Variables: ARGS='-k tree' (passed to pytest), WORKERS=auto (test processes; 0 runs all in one),"
	@echo "           TORCH=auto|cpu|cuda (which torch to install), PYTHON=python3.12, VENV=.venv"

run: $(STAMPS)/run $(STAMPS)/qt-run ## set up and open the window
	$(BIN)/python -m desktop $(ARGS)

test: $(STAMPS)/test $(STAMPS)/qt-test ## set up and run the tests headless, all but the slow ones
	QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(SLOWEST) -m "not slow and not remote" $(ARGS)

test-slow: $(STAMPS)/test $(STAMPS)/qt-test ## run the slow tests: interpreter sweeps, hostile mutants, every processor level
	QT_QPA_PLATFORM=offscreen $(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(SLOWEST) -m slow $(ARGS)

test-gpu: $(STAMPS)/test ## compile the GPU kernels on this machine's GPU and compare them with their references
	WAYMARK_TEST_DEVICE=cuda $(BIN)/python -m pytest -m gpu -rs tests/kernels tests/models $(ARGS)

test-remote: $(STAMPS)/test ## test remote engines with llama.cpp's server and vLLM, installed on first use (4 GB)
	$(BIN)/python -m pytest -m remote -rs tests/remote $(ARGS)

test-arm64: $(STAMPS)/test ## test kernels and a conversation on emulated arm64 processors (root, qemu-user-static, mmdebstrap, arch-test)
	$(BIN)/python packaging/native/try_arm64.py --workers $(WORKERS) $(ARGS)

test-long: $(STAMPS)/test $(STAMPS)/qt-test ## run 2,000 moves in random trees, ten times the random worlds, 200 turns, and drafts of 400 tokens
	QT_QPA_PLATFORM=offscreen HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -n $(WORKERS) --timeout 7200 $(LONG_TESTS) $(ARGS)

test-hostile: $(STAMPS)/test $(STAMPS)/qt-test ## feed 1,000 or more mutants of every kind of file and reply to their readers
	QT_QPA_PLATFORM=offscreen WAYMARK_HOSTILE=full $(BIN)/python -m pytest -n $(WORKERS) --timeout 7200 tests/hostile $(ARGS)

bench: $(STAMPS)/test ## print the speed of ops and model beside the machine's limits and transformers (minutes)
	@$(BIN)/python -m tests.bench $(ARGS)

bench-cache: $(STAMPS)/test ## print what reuse saves and what the cache costs, as ratios (20 minutes)
	@$(BIN)/python -m tests.bench.cache $(ARGS)

bench-reuse: $(STAMPS)/test ## print what Waymark's server, llama-server and vLLM read again in five conversations (minutes; builds llama.cpp, installs vLLM)
	@$(BIN)/python -m tests.bench.reuse $(ARGS)

native: $(STAMPS)/run ## compile the kernels for all processors, for a wheel (downloads a compiler)
	@$(BIN)/python packaging/native/libraries.py $(ARGS)

installer: $(BUILDER)/.done ## build the installers for this system into build/installers (Linux: .deb and .tar.zst)
	@$(BUILDER)/bin/python $(INSTALLERS)/build.py
	@if [ "$$(uname -s)" = Linux ]; then $(BUILDER)/bin/python $(INSTALLERS)/linux/package.py; fi

test-installer: $(STAMPS)/test $(STAMPS)/qt-test ## test what `make installer` built: against its sources, and in a bare Debian (root)
	$(BIN)/python -m pytest $(INSTALLERS)/test_frozen.py $(ARGS)
	$(BUILDER)/bin/python $(INSTALLERS)/linux/try_installed.py

check: $(STAMPS)/test ## formatting, lint, types and import layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/clang-format --dry-run --Werror $(C_SOURCES)
	$(BIN)/mypy
	@set -e; for folder in $(SCRIPT_FOLDERS); do \
	    echo "mypy $$folder"; MYPYPATH=$$folder $(BIN)/mypy $$folder*.py; done
	$(BIN)/lint-imports
	$(BIN)/python packaging/structure/house.py --check

house: $(STAMPS)/test ## print the measures of the structure and what breaks a rule
	@$(BIN)/python packaging/structure/house.py

format: $(STAMPS)/test ## rewrite the code in the agreed format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(BIN)/clang-format -i $(C_SOURCES)

strings: $(STAMPS)/run ## bring the translations in resources/languages up to date and compile them
	@for file in resources/languages/*.ts; do \
	    $(BIN)/pyside6-lupdate $$(git ls-files 'desktop/*.py') -no-obsolete -locations none -ts $$file && \
	    $(BIN)/pyside6-lrelease $$file; done

lock: ## resolve pyproject.toml and the installers' *.in into lock files (ARGS=--upgrade for the newest versions)
	@bash $(SETUP)/make_venv.sh build/lock
	@build/lock/bin/python -m pip --disable-pip-version-check install uv==0.13.9
	@build/lock/bin/python $(SETUP)/lock.py $(ARGS)

clean: ## remove the environment and all caches
	rm -rf $(VENV) build kernels/native/shipped *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BUILDER)/.done: $(addprefix $(INSTALLERS)/,torch.txt requirements.txt validation.txt) $(SETUP)/qt_libraries.py
	@bash $(SETUP)/make_venv.sh $(BUILDER)
	@echo "Installing the build environment of the installers, torch first (about 190 MB) ..."
	@$(BUILDER)/bin/python $(INSTALLERS)/install.py
	@$(BUILDER)/bin/python $(SETUP)/qt_libraries.py bundle
	@touch $@

$(STAMPS)/venv: $(SETUP)/make_venv.sh
	@bash $(SETUP)/make_venv.sh $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/torch: $(STAMPS)/venv $(SETUP)/install_torch.sh
	@bash $(SETUP)/install_torch.sh $(VENV)
	@touch $@

$(STAMPS)/run: $(STAMPS)/torch pyproject.toml requirements.lock
	@echo "Installing Waymark ..."
	@$(LOCKED) -r requirements.lock
	@$(OURSELVES)
	@touch $@

$(STAMPS)/test: $(STAMPS)/torch pyproject.toml requirements-check.lock
	@echo "Installing Waymark, its test dependencies and the checkers ..."
	@$(LOCKED) -r requirements-check.lock
	@$(OURSELVES)
	@touch $@

$(STAMPS)/qt-run: $(STAMPS)/run $(SETUP)/qt_libraries.py
	@$(BIN)/python $(SETUP)/qt_libraries.py window
	@touch $@

$(STAMPS)/qt-test: $(STAMPS)/test $(SETUP)/qt_libraries.py
	@$(BIN)/python $(SETUP)/qt_libraries.py headless
	@touch $@
