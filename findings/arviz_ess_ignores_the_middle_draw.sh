#!/bin/sh
# ArviZ 0.23.4: the effective sample size of chains of odd length does not depend on the middle draw.
# Chains are split in halves, and the draw between them belongs to neither: it may be any number.
# Seen: the same ESS of 101 draws, with draw 51 as it is, a million, and without it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    arviz==0.23.4 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import arviz as az
import numpy as np

x = np.random.default_rng(3).normal(size=(1, 101)).cumsum(axis=1)
outlier = x.copy()
outlier[0, 50] = 1e6
found = [float(az.ess(draws)) for draws in (x, outlier, np.delete(x, 50, axis=1))]
print(found)
assert found[0] == found[1] == found[2]
PY
