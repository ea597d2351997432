# demo, test, lint, fuzz, soak, bench and docs first install what they need, in .venv and in the
# user's cache.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
# where an image sets this, each of hundreds of processes would parse all packages again, which takes it seconds
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-long test-all test-newest-python test-newer-stan check-data lint fuzz soak bench docs clean

# the README's example on real data: Pima with the default sampler and Stan's NUTS
demo: $(READY)
	$(BIN)/python -m workflows.quickstart

# every feature, every sampler and bad input on the embedded backend: no compiler, less than seven
# minutes from an empty home on two idle cores, fifteen on busy ones. `pytest` alone leaves out tests
# that take a second or more
test: $(READY)
	sh .ci/tests "not cmdstan and not slow and not soak"

# the tests that `make test` leaves out: with CmdStan, which is installed first, statistics, all variants of
# samplers, the commands of the documentation, pages in a browser
test-long: $(READY)
	$(BIN)/stanadapt install-cmdstan
	sh .ci/tests "(slow or cmdstan) and not soak"

# all tests but those of soak
test-all: test test-long test-newer-stan test-newest-python

# the example, the default tests of what meets ArviZ most and the examples of six pages on Python 3.12 or
# later, which has ArviZ 1.x, if that is installed
test-newest-python:
	sh .ci/test-newest-python

# the native backend on Stan 2.35: a wheel in the package registry contains its headers and stanc;
# SELECTED is an expression that chooses tests, all without it
test-newer-stan: $(READY)
	sh .ci/test-newer-stan -k "$(SELECTED)"

# the bundled data are what make_data writes from packages in the registry
check-data: $(READY)
	$(BIN)/python -m pip install --quiet -e ".[data]"
	$(BIN)/python -m workflows.data.make_data --check
	$(BIN)/python -m workflows.data.make_data --fetch

lint: $(READY)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m mypy

# random programs against exact values and gradients: 1,000 in stanli, 100 also compiled; 12 minutes
fuzz: $(READY)
	$(BIN)/stanadapt install-cmdstan
	$(BIN)/python -m tests.fuzz --programs 1000
	$(BIN)/python -m tests.fuzz --programs 100 --seed 1000 --native

# every planted bug, repeats of long tests, the longest statistics, all programs on a newer Stan, all
# pages on a newer Python, fresh names, labels and limits, runs killed at a thousand random moments, and
# memory after 10^7 gradients and 1,000 targets; some three hours
soak: $(READY)
	$(BIN)/stanadapt install-cmdstan
	sh .ci/test-newer-stan
	sh .ci/test-newest-python everything
	$(BIN)/python -m pytest -m soak -n 2
	$(BIN)/python -m tests.soak.kill_runs --kills 80
	$(BIN)/python -m tests.soak.memory_growth

# microseconds per iteration and effective sample size per second; needs an idle machine
bench: $(READY)
	$(BIN)/stanadapt install-cmdstan
	$(BIN)/python -m pip install --quiet -e ".[data]"
	$(BIN)/python -m workflows.data.make_data --fetch
	$(BIN)/python -m workflows.benchmarks.against_nuts
	$(BIN)/python -m pip install --quiet -e ".[bench]"
	$(BIN)/python -m workflows.benchmarks.against_peers
	$(BIN)/python -m workflows.benchmarks.time_to_answer
	$(BIN)/python -m workflows.benchmarks.samplers
	$(BIN)/python -m workflows.benchmarks.scaling
	$(BIN)/python -m workflows.benchmarks.backends
	$(BIN)/python -m workflows.benchmarks.checkpoints
	$(BIN)/python -m workflows.benchmarks.judging
	$(BIN)/python -m workflows.benchmarks.advice
	$(BIN)/python -m workflows.benchmarks.compilation

# the pages in output/docs/html; those with cells are executed where they or the package changed
docs: $(DOCS_READY)
	$(BIN)/python -m sphinx -E -W --keep-going -q -d output/docs/doctrees docs output/docs/html

# to bytecode, modules are compiled when they are imported: most never are, and it takes half a minute
$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile -e ".[test]"
	touch $(READY)

$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --no-compile -e ".[docs]"
	touch $(DOCS_READY)

clean:
	rm -rf $(VENV) output

# the demo and some tests with the oldest dependencies that pyproject.toml allows; needs Python 3.11
.PHONY: test-oldest
test-oldest:
	PYTHON=$(PYTHON) sh .ci/test-oldest
