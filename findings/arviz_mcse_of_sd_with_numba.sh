#!/bin/sh
# ArviZ 0.23.4 with NumPy 2.4.6, Python 3.11: `mcse(method="sd")` depends on whether Numba, which ArviZ
# does not require, is installed. Without it, the result is a number. With Numba 0.68.1, it raises a
# TypeError for any draws: the variance that ArviZ then compiles is an array with one element, of which
# the current NumPy makes no float, and `mcse(method="mean")` of an array is such an array.
# Seen: 0.01546 without Numba; with it, "only 0-dimensional arrays can be converted to Python scalars".
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
cat >"$folder/mcse.py" <<'PY'
import arviz as az
import numpy as np

x = np.random.default_rng(0).normal(size=(4, 500))
print("mean", az.mcse(x, method="mean"))
try:
    print("sd", az.mcse(x, method="sd"))
except TypeError as error:
    print("sd", error)
PY
"$folder/env/bin/python" -m pip install --quiet \
    arviz==0.23.4 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore "$folder/mcse.py" | tee "$folder/without"
grep -q "^sd 0.0154" "$folder/without"
"$folder/env/bin/python" -m pip install --quiet numba==0.68.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore "$folder/mcse.py" | tee "$folder/with"
grep -q "^sd only 0-dimensional" "$folder/with"
