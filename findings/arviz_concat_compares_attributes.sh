#!/bin/sh
# ArviZ 0.23.4: `concat` along chains fails for fits that have an array among their attributes, which
# netCDF allows and `to_netcdf` writes. It compares attributes of equal names with `!=`, and takes
# the truth value of the array.
# Seen: ValueError, "The truth value of an array with more than one element is ambiguous", for equal
# arrays as for different ones; with text instead, 4 chains.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    arviz==0.23.4 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import arviz as az
import numpy as np


def fit(seconds):
    x = np.random.default_rng(0).normal(size=(2, 10))
    return az.from_dict({"x": x}, attrs={"seconds": seconds})


try:
    az.concat(fit(np.array([1.0, 2.0])), fit(np.array([1.0, 2.0])), dim="chain")
    raise SystemExit("no error")
except ValueError as error:
    print(error)
    assert "truth value of an array" in str(error)
joined = az.concat(fit("[1.0, 2.0]"), fit("[1.0, 2.0]"), dim="chain")
print(joined.posterior.sizes["chain"])
assert joined.posterior.sizes["chain"] == 4
PY
