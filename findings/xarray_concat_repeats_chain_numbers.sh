#!/bin/sh
# xarray 2026.9.0 and ArviZ 0.23.4: `xarray.concat` of two posteriors along "chain" keeps both chains
# 0. `sel(chain=0)` then returns two chains without a word, where it returned one; ArviZ's own
# `concat` numbers them anew.
# Seen: labels 0, 1, 0, 1; sel(chain=0) has shape (2, 10); arviz.concat has 0, 1, 2, 3.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet \
    arviz==0.23.4 xarray==2026.9.0 scipy==1.17.1 numpy==2.4.6
"$folder/env/bin/python" -W ignore - <<'PY'
import arviz as az
import numpy as np
import xarray as xr

x = np.random.default_rng(0).normal(size=(2, 10))
one, other = az.from_dict({"x": x}), az.from_dict({"x": x + 1})
joined = xr.concat([one.posterior, other.posterior], "chain")
print(joined.chain.values, joined.x.sel(chain=0).shape)
assert joined.chain.values.tolist() == [0, 1, 0, 1]
assert joined.x.sel(chain=0).shape == (2, 10)
numbered = az.concat(one, other, dim="chain").posterior.chain.values
print(numbered)
assert numbered.tolist() == [0, 1, 2, 3]
PY
