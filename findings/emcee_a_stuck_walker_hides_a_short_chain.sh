#!/bin/sh
# emcee 3.1.6: `integrated_time`, which `get_autocorr_time` calls, refuses a chain that is shorter than
# fifty autocorrelation times: AutocorrError. If one walker of many never moves, the time is NaN for the
# parameter, and the comparison with the length is false for NaN: the same chain is not refused.
# Seen: 32 walkers of 200 steps with autocorrelation .95 raise AutocorrError; with the seventh walker
# constant, the result is [nan], and the only sign is NumPy's warning of a division.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet emcee==3.1.6 numpy==2.2.6
"$folder/env/bin/python" - <<'PY'
import warnings

import numpy as np
from emcee.autocorr import AutocorrError, integrated_time

steps, walkers = 200, 32
noise = np.random.default_rng(1).normal(size=(steps, walkers))
chain = np.zeros((steps, walkers, 1))
for t in range(1, steps):
    chain[t, :, 0] = 0.95 * chain[t - 1, :, 0] + noise[t]
try:
    integrated_time(chain)
    raise SystemExit("the short chain was not refused")
except AutocorrError as error:
    print("refused:", str(error).split(".")[0])

chain[:, 6] = 3.0
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    time = integrated_time(chain)
print("with one walker that never moves:", time, [str(w.message) for w in caught])
assert np.isnan(time).all()
assert [w.category for w in caught] == [RuntimeWarning]
PY
