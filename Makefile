# Everything a contributor runs. Each target first sets up what it needs; `make` alone lists them.

PYTHON ?= python3
# Workers of the test suite; each computes with one thread.
JOBS ?= auto

# Where official GLUE files are, for what needs real data.
GLUE ?= ../shared/glue
DATA ?= ../shared/data
ENCODERS ?= build/encoders

BIN := .venv/bin
INSTALL := $(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt
# Named after the content it was made from, not after times: a checkout or touch that changes nothing installs nothing.
STAMP := .venv/.set-up-$(shell (pwd; cat pyproject.toml constraints.txt) | cksum | cut -d' ' -f1)
SETFIT := build/setfit-env
SETFIT_STAMP := $(SETFIT)/.set-up-$(shell (pwd; cat constraints.txt bench/setfit-requirements.txt) | cksum | cut -d' ' -f1)

.DEFAULT_GOAL := help
.PHONY: help setup embedded demo test test-slow test-studies test-browser docs docs-figures check format bench-measure bench-cost bench-criteria bench-heads bench-kernels bench-one-pass bench-probe bench-regret bench-report bench-setfit bench-skip bench-soups bench-sweep bench-time bench-tune clean distclean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) embedded ## Make .venv with the pinned versions and download the embedded encoder and data

# An interrupted demo continues; a finished one starts over.
demo: $(STAMP) embedded ## Choose layers, tune and report on the embedded encoder and data
	$(BIN)/frostline run --output frostline-demo $$([ -e frostline-demo/run.json ] && echo --overwrite)

# All tests of a file run in one worker, which makes their shared fixtures once.
test: $(STAMP) embedded ## Run the tests, without network
	$(BIN)/python -m pytest -m "not slow and not studies and not browser" -n $(JOBS) --dist loadfile

test-slow: $(STAMP) embedded ## Run the tests that take minutes
	$(BIN)/python -m pytest -m slow -n $(JOBS) --dist loadfile

test-studies: $(STAMP) embedded ## Run every study at its quick size on the embedded encoder and data: up to an hour
	rm -rf build/studies
	FROSTLINE_STUDIES=build/studies $(BIN)/python -m pytest -m studies -n $(JOBS) -rP

test-browser: $(STAMP) embedded ## Run the tests of reports in a real browser (installs Playwright; needs chromium)
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || [ -n "$$FROSTLINE_CHROMIUM" ] || \
	  { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null && apt-get install -y -qq chromium > /dev/null; } || \
	  { echo "make: chromium is missing: apt-get install chromium, or FROSTLINE_CHROMIUM=/path/to/chrome" >&2; exit 1; }
	$(INSTALL) --quiet playwright
	$(BIN)/python -m pytest -m browser

docs: $(STAMP) ## Write the generated parts of the docs
	$(BIN)/python -m docs.generate

docs-figures: $(STAMP) embedded ## Draw an example of each study for the docs; runs the studies that are missing in build/studies
	@for name in $$($(BIN)/frostline study --list --json | $(BIN)/python -c 'import json, sys; print(*(one["name"] for one in json.load(sys.stdin)["studies"]))'); do \
	  $(BIN)/frostline study $$name --quick --output build/studies/$$name || exit 1; done
	$(BIN)/python -m docs.generate --figures build/studies

check: $(STAMP) ## Lint, and check format, types and the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(STAMP) ## Format the code and fix what lint can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench-measure: $(STAMP) embedded ## Time measuring against other tools (GLUE=folder of official files)
	$(INSTALL) --quiet --no-deps torch-cka transformer-ranker
	$(INSTALL) --quiet torchmetrics matplotlib
	$(BIN)/python bench/measure.py $(GLUE)

bench-cost: $(STAMP) embedded ## Compare predicted with measured costs of plans (GLUE=folder)
	$(BIN)/python bench/cost.py $(GLUE)

bench-criteria: $(STAMP) embedded ## Compare what scores say before tuning with the sweep: minutes a case, resumable (DATA, GLUE, ENCODERS=folders)
	$(BIN)/python bench/criteria.py bench/results/sweep.jsonl bench/results/criteria.jsonl --data $(DATA) --glue $(GLUE) --encoders $(ENCODERS)

bench-regret: $(STAMP) embedded ## Compare the choices of run with the sweep and with fixed rules: hours, resumable (DATA, ENCODERS=folders)
	$(BIN)/python bench/regret.py bench/results/sweep.jsonl bench/results/choices.jsonl --data $(DATA) --encoders $(ENCODERS)

bench-sweep: $(STAMP) embedded ## Record what every plan is worth on new data: hours, resumable (DATA, GLUE, ENCODERS=folders)
	$(BIN)/python bench/sweep.py bench/results/sweep.jsonl --data $(DATA) --glue $(GLUE) --encoders $(ENCODERS)

bench-soups: $(STAMP) embedded ## Compare means of weights with single models: an hour, resumable (DATA, GLUE=folders)
	$(BIN)/python bench/soups.py bench/results/soups.jsonl --data $(DATA) --glue $(GLUE)

bench-time: $(STAMP) embedded ## Time run against full fine-tuning with its best learning rate: hours, resumable (GLUE=folder)
	$(BIN)/python bench/time_to_quality.py $(GLUE) bench/results/time_to_quality.jsonl

bench-setfit: $(STAMP) $(SETFIT_STAMP) embedded ## Compare run with SetFit and a regression on embeddings: hours, resumable (DATA=folder)
	$(BIN)/python bench/setfit.py bench/results/setfit.jsonl --data $(DATA)

bench-skip: $(STAMP) embedded ## Time skipping every span of layers against separate forwards (GLUE=folder)
	$(BIN)/python bench/skip.py $(GLUE)

bench-heads: $(STAMP) embedded ## Time training heads at all layers together against one after the other
	$(BIN)/python bench/heads.py

bench-one-pass: $(STAMP) embedded ## Time measuring and freezing in one pass against two, and many classes against two
	$(BIN)/python bench/one_pass.py

bench-probe: $(STAMP) embedded ## Time exact linear probes of all layers against scikit-learn's
	$(BIN)/python bench/probe.py --threads 1

bench-kernels: $(STAMP) ## Time our attention and dropout against torch's
	$(BIN)/python bench/kernels.py

bench-tune: $(STAMP) embedded ## Time tuning against the Hugging Face Trainer (GLUE=folder of official files)
	$(BIN)/python bench/tune.py $(GLUE)

bench-report: $(STAMP) ## Time the page of a study of 2,000 trials
	$(BIN)/python bench/report.py

clean: ## Remove the files that tools leave behind
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
	find src tests -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## Remove .venv too
	rm -rf .venv

# Checked by hash at every run (0.2 s), so that an emptied cache is filled again.
embedded: $(STAMP)
	@$(BIN)/python -m frostline.files.demo_assets > /dev/null

# Torch comes first, alone and pinned: as a dependency of another package it would be the newest, with gigabytes for GPUs.
$(STAMP):
	@$(BIN)/python -c 'import pip' 2> /dev/null || $(MAKE) --no-print-directory .venv
	@echo "installing the pinned versions into .venv: a few minutes the first time"
	$(INSTALL) torch
	$(INSTALL) --quiet hatchling editables
	$(INSTALL) --quiet --no-build-isolation -e '.[dev]'
	@rm -f .venv/.set-up-*
	@touch $@

# SetFit in an environment of its own, so that what it needs never reaches Frostline's.
$(SETFIT_STAMP): | $(STAMP)
	$(BIN)/python -m venv --clear $(SETFIT)
	$(SETFIT)/bin/python -m pip install --disable-pip-version-check -c constraints.txt torch
	$(SETFIT)/bin/python -m pip install --disable-pip-version-check --quiet -c constraints.txt -r bench/setfit-requirements.txt
	@touch $@

.PHONY: .venv
.venv:
	@command -v $(PYTHON) > /dev/null || \
	  { echo "make: $(PYTHON) is missing: install Python 3.11 or newer, or set PYTHON=/path/to/python" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "make: $(PYTHON) is older than 3.11: set PYTHON=/path/to/a/newer/python" >&2; exit 1; }
	@$(PYTHON) -c 'import venv, ensurepip' 2> /dev/null || \
	  { echo "make: $(PYTHON) cannot make virtual environments: install python3-venv or the like" >&2; exit 1; }
	$(PYTHON) -m venv --clear .venv
