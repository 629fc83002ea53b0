# On a machine with Python 3.11 or newer, pip and make:
#   make demo       trains five tasks on real digits and shows what is left
#   make test       runs the fast tests
#   make test-slow  runs all tests, for hours where the real data is at hand
PYTHON ?= python3
VENV := .venv
RUN := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed

# Quieter starts; errors still show.
export TF_CPP_MIN_LOG_LEVEL ?= 3

.PHONY: demo test test-slow lint format benchmark clean

demo: $(INSTALLED)
	$(RUN) -m reproduce digits

# One process for each core: most of a test's time is tracing, on one core.
test: $(INSTALLED)
	$(RUN) -m pytest --numprocesses auto

test-slow: $(INSTALLED)
	$(RUN) -m pytest -m "slow or not slow"

lint: $(INSTALLED)
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .

format: $(INSTALLED)
	$(RUN) -m ruff check --fix .
	$(RUN) -m ruff format .

benchmark: $(INSTALLED)
	$(RUN) -m benchmarks

# Installed anew only when the dependencies changed.
$(INSTALLED): pyproject.toml constraints.txt
	test -x $(RUN) || $(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --constraint constraints.txt --editable ".[export,test]"
	touch $(INSTALLED)

clean:
	rm -rf $(VENV)
