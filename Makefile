# Everything from nothing: a python3 (3.11 or later) with venv and pip is all that must be there.
#   make demo    invoices out of messy HTML on the provided model, as it happens
#   make test    lint, types and every test
#   make clean   removes the virtual environment; the model cache stays

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
UNFINISHED := $(VENV)/.unfinished
TORCH := torch==2.13.0
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
HAS_COMPILER := (command -v cc || command -v gcc || command -v clang) >/dev/null 2>&1

.PHONY: demo test lint types pytest model clean
.NOTPARALLEL:

demo: model
	@echo "Three messy pages (recipes/data/invoices), a model of 135 million parameters:"
	@$(BIN)/python recipes/extract_invoices.py --live
	@echo "More in recipes/; $(BIN)/agentrt trace shows this run again."

test: lint types pytest

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright --pythonpath $(BIN)/python

pytest: model
	$(BIN)/python -m pytest

model: $(READY)
	@$(BIN)/agentrt models path >/dev/null

# The mark of an unfinished installation is there from before the first package until after the
# last: what an interrupted pip left is thrown away, never built upon. torch goes first and pinned,
# so that pip takes a CPU-only build of it where its configuration offers one.
$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "agentrt needs Python 3.11 or later; $(PYTHON) is `$(PYTHON) --version 2>&1`: run make PYTHON=..." >&2; exit 1; }
	@if [ -e $(UNFINISHED) ] || ! $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	  rm -rf $(VENV); $(PYTHON) -m venv $(VENV); fi
	@touch $(UNFINISHED)
	@echo "Setting up .venv, once, in some minutes: torch, which is large, then agentrt."
	@$(PIP) $(TORCH)
	@$(PIP) --editable ".[dev`$(HAS_COMPILER) || echo ,compiler`]"
	@rm $(UNFINISHED)
	@touch $@

clean:
	rm -rf $(VENV)
