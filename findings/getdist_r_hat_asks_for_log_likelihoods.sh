#!/bin/sh
# GetDist 1.7.7: R-1 of several chains given as arrays needs log likelihoods, which it does not use.
# `MCSamples(samples=[...])` takes the arrays alone, and all else works on them; `getGelmanRubin` raises
# a TypeError. With log likelihoods of any values it is the same number.
# Seen: TypeError ('NoneType' object is not subscriptable); with zeros and with random numbers .00073.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet getdist==1.7.7 numpy==2.4.6 scipy==1.17.1
"$folder/env/bin/python" - <<'PY'
import numpy as np
from getdist import MCSamples

rng = np.random.default_rng(5)
chains = [rng.normal(size=(1_000, 2)) for _ in range(4)]


def r_minus_one(log_likelihoods):
    samples = MCSamples(samples=chains, loglikes=log_likelihoods, names=["a", "b"])
    assert np.isfinite(samples.mean("a"))
    return float(samples.getGelmanRubin())


try:
    found = r_minus_one(None)
except TypeError as error:
    found = f"TypeError: {error}"
zeros = r_minus_one([np.zeros(1_000) for _ in chains])
other = r_minus_one([rng.normal(size=1_000) for _ in chains])
print(found)
print(zeros, other)
assert found == "TypeError: 'NoneType' object is not subscriptable"
assert zeros == other and 0 < zeros < 0.02
PY
