#!/bin/sh
# xarray 2026.7.0 with Bottleneck 1.6.0, which it uses where it is installed: `mean()` of draws of four bytes
# (numpyro's and JAX's default) may be wrong by several posterior standard deviations. Bottleneck adds up
# numbers one after the other in four bytes; NumPy adds them in pairs. xarray calls Bottleneck if no dimension
# or one is named, but not for several, so that `mean()` and `mean(("chain", "draw"))` of the same draws
# differ. Since 2026.9.0, Bottleneck is used only with `use_bottleneck=True`.
# Seen: 4 x 100,000 draws of normal(1000, 1): `mean()` 997.36, `mean(("chain", "draw"))` 1000.00, and both
# 1000.00 with `use_bottleneck=False`.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.11}" -m venv "$folder/env"
"$folder/env/bin/python" -m pip install --quiet xarray==2026.7.0 bottleneck==1.6.0 numpy==2.4.6
"$folder/env/bin/python" - <<'PY'
import numpy as np
import xarray as xr

values = np.random.default_rng(1).normal(1000.0, 1.0, size=(4, 100_000))
draws = xr.DataArray(values.astype(np.float32), dims=("chain", "draw"))
of_all, named = float(draws.mean()), float(draws.mean(("chain", "draw")))
with xr.set_options(use_bottleneck=False):
    without = float(draws.mean())
print(f"mean() {of_all:.2f}, of named dimensions {named:.2f}, without Bottleneck {without:.2f}")
assert abs(of_all - values.mean()) > 2.0
assert abs(named - values.mean()) < 0.01
assert abs(without - values.mean()) < 0.01
assert abs(float(draws.astype(float).mean()) - values.mean()) < 0.01
PY
