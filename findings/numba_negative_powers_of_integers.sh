#!/bin/sh
# Numba 0.68.1: in compiled code, an integer to the power of a negative integer is an integer: 2**-3 is
# 0. In Python it is 0.125, and NumPy raises an error. A step size that is halved k times as
# step * 2 ** -k is 0 in a compiled sampler, and the chain stays where it is; with 2.0 it is right.
# Seen: 0 for 2**-1 and 2**-3, 1 for 1**-1; 1.0 * 2**-3 is 0.0, and 1.0 * 2.0**-3 is 0.125.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet numba==0.68.1 numpy==2.4.6
"$folder/env/bin/python" - <<'PY'
import numba
import numpy as np


@numba.njit
def power(base, k):
    return base**k


@numba.njit
def halved(step, k):
    return step * 2**-k, step * 2.0**-k


print([power(2, -1), power(2, -3), power(1, -1)], halved(1.0, 3), power.py_func(2, -3))
assert [power(2, -1), power(2, -3), power(1, -1)] == [0, 0, 1]
assert halved(1.0, 3) == (0.0, 0.125)
assert halved.py_func(1.0, 3) == (0.125, 0.125)
try:
    np.array([2]) ** -3
    raise SystemExit("no error")
except ValueError as error:
    print("numpy:", error)
PY
